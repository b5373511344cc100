"""The key of a table that a delivery creates: collations and prefixes under which no two keys of the source are one.

Put here: what a column of a key is like at a server, and what is to be said of it. Not here: types and statements
(target_table.py), or rows.

A key's text has the source's collation where the server has it, and a binary one otherwise, by which any two texts
differ. Of a long column the key has as many characters as fit, so at least as many as the source's.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.binlog.types.charset_tables import NOPAD
from spark_jobs.binlog.types.charsets import charset_of, some_collation, width_of
from spark_jobs.errors import Unsupported

_KEY_BYTES = 3072
"""Bytes of all columns of a key at most, of InnoDB and TiDB."""
_WIDEST = 4
"""Bytes of a character where the set is not known: of utf8mb4."""
_FIXED_BYTES = {
    "tinyint": 1,
    "smallint": 2,
    "mediumint": 3,
    "int": 4,
    "bigint": 8,
    "float": 4,
    "double": 8,
    "year": 1,
    "date": 3,
}
"""Bytes of a value by type."""
_OTHER_BYTES, _DECIMAL_BYTES = 8, 30
"""Bytes at most of a value of any other type that is not text or bytes."""
_LENGTH = re.compile(r"(?:var)?(char|binary)\((\d+)\)")
_UNBOUNDED = re.compile(r"(?:tiny|medium|long)?(text|blob)\b")
_UTF8_0900 = range(255, 324)
"""Ids of MySQL's collations by UCA 9.0.0."""
_UCA_1400, _UCA_1400_NOPAD = 2048, 4
"""The first id of MariaDB's collations by UCA 14.0.0, and the bit of those by which spaces at the end count."""
_PADDED, _UNPADDED = ("bin",), ("0900_bin", "nopad_bin")
"""Suffixes of the names of binary collations, by whether they ignore spaces at the end."""

KeyTypes = Mapping[str, tuple[str, str | None]]
"""Type and, of text, character set by key column."""


def counts_spaces(collation: int) -> bool:
    """True if texts that differ by spaces at their end alone differ, under the collation of an id."""
    if collation >= _UCA_1400:
        return bool(collation & _UCA_1400_NOPAD)
    return collation >= NOPAD or collation in _UTF8_0900


def binary_collation(charset: str, names: Collection[str], *, with_spaces: bool) -> str | None:
    """A collation of a character set under which texts are equal where their bytes are; None where there is none.

    names: of the server's collations. with_spaces: whether spaces at the end are to count; without one that does, they
    do not.
    """
    sets = ("utf8mb3", "utf8") if charset == "utf8mb3" else (charset,)
    endings = (*_UNPADDED, *_PADDED) if with_spaces else (*_PADDED, *_UNPADDED)
    wishes = [f"{name}_{ending}" for ending in endings for name in sets]
    return next((name for name in wishes if name in names), None)


@dataclass(frozen=True, slots=True)
class KeyCollation:
    """Character set and collation that text of a key is compared by. note: why it is not the source's; None: it is."""

    charset: str
    collation: str | None
    note: str | None = None


def key_collation(collation: int | None, collations: Mapping[int, str]) -> KeyCollation:
    """The collation of a key column at a server with these collations; None if the source's collation is not known."""
    collation = None if collation is None else some_collation(collation)
    try:
        charset = "utf8mb4" if collation is None else charset_of(collation)
    except Unsupported:
        collation, charset = None, "utf8mb4"
    if collation is not None and collation in collations:
        return KeyCollation(charset, collations[collation])
    # Any other collation may take texts for equal that the source's does not.
    with_spaces = collation is None or counts_spaces(collation)
    name = binary_collation(charset, collations.values(), with_spaces=with_spaces)
    reason = "the source's collation is not known" if collation is None else f"the server has no collation {collation}"
    if name is None:
        return KeyCollation(charset, None, f"{reason}, and no binary one of {charset}; its default decides")
    spaces = ""
    if with_spaces and not name.endswith(_UNPADDED):
        spaces = "; keys that differ by spaces at their end alone stop the table"
    return KeyCollation(charset, name, f"{reason}; it gets {name}, under which all texts differ{spaces}")


def is_as_fine(target: str, source: int | None, collations: Mapping[int, str]) -> bool:
    """True if texts that differ under a collation of the source differ under one of a server.

    target: its name. source: the id, None where it is not known. collations: of the server.
    """
    if source is not None and collations.get(source) == target:
        return True
    has_spaces = source is None or counts_spaces(source)
    return target.endswith(_UNPADDED if has_spaces else (*_UNPADDED, *_PADDED))


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of a key. prefix: how many characters or bytes of it the key has; None for all."""

    column: str
    prefix: int | None


def key_parts(types: KeyTypes) -> tuple[KeyPart, ...]:
    """The parts of a key: whole columns where they fit, and otherwise as much of each as does."""
    needs = {name: _key_bytes(kind, charset) for name, (kind, charset) in types.items()}
    wishes = {name: _KEY_BYTES if need is None else need for name, need in needs.items()}
    # The longest columns share equally what the shorter ones leave.
    rooms: dict[str, int] = {}
    room = _KEY_BYTES
    for at, name in enumerate(sorted(wishes, key=wishes.__getitem__)):
        rooms[name] = min(wishes[name], room // (len(wishes) - at))
        room -= rooms[name]
    return tuple(
        KeyPart(name, None if rooms[name] == needs[name] else rooms[name] // _width(*kind))
        for name, kind in types.items()
    )


def cut_note(parts: Sequence[KeyPart], types: KeyTypes) -> str | None:
    """Note on a key with prefixes that may be shorter than the source's; None where none can be."""
    # The source's key has no more bytes than this one, so only a column of no fixed length may have taken some.
    of_any_length = [name for name, (kind, _) in types.items() if _hash_column_name(kind) not in _FIXED_BYTES]
    cut = [f"{part.column}({part.prefix})" for part in parts if part.prefix is not None]
    if not cut or len(of_any_length) == 1:
        return None
    return f"its key has {', '.join(cut)}; rows that differ only after these prefixes stop the table"


def _key_bytes(kind: str, charset: str | None) -> int | None:
    """Bytes that a key has of a whole column; None where no key has all of it."""
    if _UNBOUNDED.match(kind):
        return None
    if match := _LENGTH.match(kind):
        return max(1, int(match[2])) * _width(kind, charset)
    return _FIXED_BYTES.get(
        _hash_column_name(kind), _DECIMAL_BYTES if _hash_column_name(kind) == "decimal" else _OTHER_BYTES
    )


def _width(kind: str, charset: str | None) -> int:
    """Bytes of a character at most."""
    match = _LENGTH.match(kind) or _UNBOUNDED.match(kind)
    if not match or match[1] in ("binary", "blob"):
        return 1
    return _WIDEST if charset is None else width_of(charset)


def _hash_column_name(kind: str) -> str:
    return re.split(r"[ (]", kind, maxsplit=1)[0]
