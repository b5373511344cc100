"""Equality of two values of a foreign key's columns, as servers compare them.

Numbers, times and bytes are equal as they are, text by its column's collation: by its characters, or by their weights,
with or without spaces at its end (PAD SPACE). A collation is known by its id, as TABLE_MAPs have it.

Put here: what is compared in a value's position. Not here: which characters weigh alike (collation_tables.py).
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, NamedTuple

from spark_jobs.binlog import Column
from spark_jobs.binlog.types.charset_tables import NOPAD
from spark_jobs.binlog.types.charsets import CHARSET_ALONE
from spark_jobs.cascades.collation_tables import (
    GENERAL,
    LATIN1_GENERAL,
    SWEDISH,
    UCA_0400,
    UCA_0900,
    CollationTable,
)
from spark_jobs.errors import Unsupported

_BYTES = 63
_VARYING, _FIXED = {15, 252, 253}, {254}
"""Type codes of text and bytes."""


class Collation(NamedTuple):
    """Comparison of text. table: None of one that compares characters alone."""

    table: CollationTable | None
    pads: bool


KNOWN: Mapping[int, Collation] = {
    **dict.fromkeys((46, 83, 47, 65), Collation(None, pads=True)),  # utf8mb4_bin, utf8mb3_bin, latin1_bin, ascii_bin
    309: Collation(None, pads=False),  # utf8mb4_0900_bin
    255: Collation(UCA_0900, pads=False),  # utf8mb4_0900_ai_ci
    **dict.fromkeys((45, 33), Collation(GENERAL, pads=True)),  # utf8mb4_general_ci, utf8mb3_general_ci
    **dict.fromkeys((224, 192), Collation(UCA_0400, pads=True)),  # utf8mb4_unicode_ci, utf8mb3_unicode_ci
    **dict.fromkeys((2304, 2048), Collation(UCA_0900, pads=True)),  # utf8mb4_uca1400_ai_ci, utf8mb3_uca1400_ai_ci
    **dict.fromkeys((2308, 2052), Collation(UCA_0900, pads=False)),  # the same with nopad
    8: Collation(SWEDISH, pads=True),  # latin1_swedish_ci
    48: Collation(LATIN1_GENERAL, pads=True),  # latin1_general_ci
}
"""Collations by id; of MariaDB's NO PAD twins only those of another id than 1024 above."""


def weigher_of(column: Column) -> Callable[[Any], Hashable]:
    """Function from a column's values to the weights that are compared.

    Raises Unsupported for a collation that is not known. The function raises it itself, for text with a character that
    the collation's table does not have.
    """
    if column.labels is not None:
        raise Unsupported("ENUM and SET are compared by number, whatever their labels are")
    if not _is_text(column):
        return lambda value: value
    # Spaces count after the weights: others may weigh what a space does.
    table, pads = _collation_of(column)

    def weight(value: str) -> str:
        text = value if table is None else value.translate(_classes(table))
        return text.rstrip(" ") if pads else text

    return weight


def comparison_of(column: Column) -> str:
    """A digest of the rules by which a column's values get their weights. Raises Unsupported."""
    if not _is_text(column):
        return ""
    table, pads = _collation_of(column)
    parts = (*(table or ()), str(pads))
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _is_text(column: Column) -> bool:
    return column.type_code in _VARYING | _FIXED and column.charset != _BYTES


def _collation_of(column: Column) -> Collation:
    """The collation of a text column. Raises Unsupported if its comparison is not known."""
    if column.charset is None or column.charset & CHARSET_ALONE:
        raise Unsupported("its collation is not known")
    collation = KNOWN.get(column.charset)
    if collation is None and column.charset - NOPAD in KNOWN:
        collation = KNOWN[column.charset - NOPAD]._replace(pads=False)
    if collation is None:
        raise Unsupported(f"collation {column.charset} is not one whose comparison is known")
    return collation


def characters_of(table: CollationTable) -> list[str]:
    """The characters that a table knows."""
    return [chr(code) for first, last in _spans(table.characters) for code in range(first, last + 1)]


class _CharacterClasses(dict[int, int | str]):
    """Weight of each character of a collation. Raises Unsupported for one that a table does not have."""

    def __init__(self, table: CollationTable) -> None:
        spans = list(_spans(table.characters))
        self._starts = [first for first, _ in spans]
        self._ends = [last for _, last in spans]
        self._wide: list[tuple[int, int, str]] = []
        for group in table.equals.split(" "):
            target, _, members = group.partition(":")
            text = "".join(chr(int(code, 16)) for code in target.split("+") if code)
            for first, last in _spans(members):
                if last - first > _WIDE:
                    self._wide.append((first, last, text))
                else:
                    self.update(dict.fromkeys(range(first, last + 1), text))

    def __missing__(self, code: int) -> int | str:
        at = bisect_right(self._starts, code) - 1
        if at < 0 or code > self._ends[at]:
            raise Unsupported(f"how U+{code:04X} is compared is not known")
        self[code] = next((text for first, last, text in self._wide if first <= code <= last), code)
        return self[code]


_WIDE = 4096
"""Characters of a range that are not listed one by one."""


@cache
def _classes(table: CollationTable) -> _CharacterClasses:
    return _CharacterClasses(table)


def _spans(text: str) -> "list[tuple[int, int]]":
    """Ranges of characters: ``41,c0-c5``."""
    pairs = (part.split("-") for part in text.split(",") if part)
    return [(int(pair[0], 16), int(pair[-1], 16)) for pair in pairs]
