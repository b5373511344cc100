"""Character sets: which one a collation has, and how a column's bytes in it become UTF-8.

Four ways, each a kernel: UTF-8 is checked and taken as it is; single-byte sets go through a table of 256 characters,
multi-byte sets through tables by their bytes, UTF-16 and UTF-32 unit by unit. Bytes that are not text of their set make
the value NULL, with their hex beside it; so does a code that a server would turn into ``?`` or U+FFFD.

Put here: the work on text. Not here: the tables themselves (charset_tables.py, multibyte_charsets.py).
"""

import codecs
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import charset_text, utf8
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.types.base import Filled, Finish, Finished, Numbers, exact_hex, require_fits, validity_of
from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, NOPAD, SINGLE_BYTE, UTF, WIDTHS
from spark_jobs.binlog.types.multibyte_charsets import table_of
from spark_jobs.errors import Unsupported

BINARY = "binary"
UTF8 = frozenset({"utf8mb3", "utf8mb4"})
_BY_COLLATION = {collation: name for name, parts in COLLATIONS.items() for part in parts for collation in part}
CHARSET_ALONE = 1 << 16
"""Added to the id of one of a character set's collations where a statement named the set and no collation that has an
id here (NAMED): the server's default decides, which statements do not tell."""
NAMED: Mapping[str, int] = {
    "ascii_bin": 65,
    "latin1_bin": 47,
    "latin1_general_ci": 48,
    "latin1_swedish_ci": 8,
    "utf8_bin": 83,
    "utf8_general_ci": 33,
    "utf8_unicode_ci": 192,
    "utf8mb3_bin": 83,
    "utf8mb3_general_ci": 33,
    "utf8mb3_unicode_ci": 192,
    "utf8mb3_uca1400_ai_ci": 2048,
    "utf8mb3_uca1400_nopad_ai_ci": 2052,
    "utf8mb4_0900_ai_ci": 255,
    "utf8mb4_0900_bin": 309,
    "utf8mb4_bin": 46,
    "utf8mb4_general_ci": 45,
    "utf8mb4_unicode_ci": 224,
    "utf8mb4_uca1400_ai_ci": 2304,
    "utf8mb4_uca1400_nopad_ai_ci": 2308,
}
"""Ids of collations by the names that statements have, those whose comparison is known (cascades/weights.py)."""
_ROOM, _SLACK = 3, 8
"""Bytes of UTF-8 that a byte of any set may become, and bytes that kernels may store behind all."""

_Conversion = Callable[[Numbers, int, Numbers, int, Numbers], int]
"""(offsets, address, new offsets, address of the UTF-8, marks) -> how many rows are marked: no text."""


def charset_of(collation: int) -> str:
    """The character set's name. Raises Unsupported for an id that neither MySQL nor MariaDB is known to have."""
    number = some_collation(collation)
    name = _BY_COLLATION.get(number) or _BY_COLLATION.get(number - NOPAD)
    if name is None:
        raise Unsupported(f"collation {collation} belongs to no known character set")
    return name


def some_collation(collation: int) -> int:
    """The id of the collation, or of another one of its character set where only that is known."""
    return collation & ~CHARSET_ALONE


def width_of(charset: str) -> int:
    """The most bytes a character has: what a column's length in bytes is divided by to get its length."""
    return WIDTHS.get(charset, 1)


def finish_for(charset: str | None) -> Finish:
    """Finish of a column of text. None: the set is unknown, and text is what is valid UTF-8."""
    if charset is None or charset in UTF8:
        return _finish_utf8
    convert, ascii_alike = _converter(charset)

    def finish(filled: Filled) -> Finished:
        offsets = filled.numbers("i4")[: filled.rows + 1]
        if ascii_alike and utf8.is_ascii(filled.text_address, int(offsets[-1])):
            return filled.array(pa.string()), None
        new_offsets, out, bad = _converted(convert, offsets, filled.text_address)
        texts = filled.texts(new_offsets, out)
        return _without(filled, texts, bad) if bad.any() else (texts, None)

    return finish


def text_of(wire: bytes, charset: str) -> str:
    """One piece of text, such as an ENUM's label. Raises UnicodeDecodeError."""
    if charset in UTF8 or charset == BINARY:
        return wire.decode()
    stored, offsets = np.frombuffer(wire, np.uint8), np.array([0, len(wire)], np.int32)
    offsets.setflags(write=False)  # as those of columns are
    _, out, bad = _converted(_converter(charset)[0], offsets, address_of(stored))
    if bad.any():
        raise UnicodeDecodeError(charset, wire, 0, len(wire), "these bytes are no text of the set")
    return bytes(out).decode()


def statement_text(wire: bytes, charset: str | None) -> str:
    """A statement by its bytes in its client's character set; None: unknown, read as UTF-8. It never fails.

    Bytes that are not text of the set become backslash escapes: ``has_escapes`` finds them.
    """
    if wire.isascii():
        return wire.decode()
    if charset in SINGLE_BYTE:
        table = SINGLE_BYTE[charset].replace("\ufffd", "\ufffe")  # how codecs mark a byte without a character
        return codecs.charmap_decode(wire, "backslashreplace", table)[0]
    if charset not in CODECS:
        return wire.decode("utf-8", "backslashreplace")
    try:
        return text_of(wire, charset)
    except (UnicodeDecodeError, Unsupported):
        text = wire.decode(CODECS[charset], "backslashreplace")
        # Python's codec takes characters that the server's set lacks.
        return text if has_escapes(text) else wire.decode("ascii", "backslashreplace")


def has_escapes(text: str) -> bool:
    """True if a statement has, or may have, bytes that are no text of its client's character set."""
    return _ESCAPE.search(text) is not None


_ESCAPE = re.compile(r"\\x[89a-f][0-9a-f]")


def are_labels(wire: tuple[bytes, ...], labels: tuple[str, ...], collation: int | None) -> bool:
    """True if bytes are the given labels, in the collation's character set; without a collation: in any set."""
    if len(wire) != len(labels):
        return False
    if collation is not None:
        try:
            return _labels_in(wire, charset_of(collation)) == labels
        except Unsupported:
            return False
    return any(_labels_in(wire, charset) == labels for charset in COLLATIONS)


@lru_cache(maxsize=256)
def _labels_in(wire: tuple[bytes, ...], charset: str) -> tuple[str, ...] | None:
    """Labels by their bytes in a character set; None where one is no text of it."""
    try:
        return tuple(text_of(label, charset) for label in wire)
    except (UnicodeDecodeError, Unsupported):
        return None


def _converted(convert: _Conversion, offsets: Numbers, address: int) -> tuple[Numbers, pa.Buffer, Numbers]:
    """New offsets, UTF-8 and marks of a column's text."""
    size = _ROOM * int(offsets[-1])
    require_fits(size)
    out = pa.allocate_buffer(size + _SLACK)
    new_offsets, bad = np.empty(len(offsets), np.int32), np.zeros(len(offsets) - 1, np.uint8)
    convert(offsets, address, new_offsets, address_of(out), bad)
    return new_offsets, out.slice(0, int(new_offsets[-1])), bad


@cache
def _converter(charset: str) -> tuple[_Conversion, bool]:
    """Converter of text of a set to UTF-8, and whether the bytes 0 to 127 are ASCII in it."""
    if charset in SINGLE_BYTE:
        table, sizes = _byte_table(charset)
        return _single_byte(table, sizes), SINGLE_BYTE[charset].startswith(_ASCII)
    if charset in UTF:
        return _units(*UTF[charset]), False
    if charset in CODECS:
        return _multi_byte(charset), True
    raise AssertionError(f"no way to read the character set {charset}")


def _single_byte(table: Numbers, sizes: Numbers) -> _Conversion:
    def convert(offsets: Numbers, address: int, new_offsets: Numbers, out: int, bad: Numbers) -> int:
        return int(charset_text.map_bytes(offsets, address, table, sizes, new_offsets, out, bad))

    return convert


def _multi_byte(charset: str) -> _Conversion:
    table = table_of(charset)

    def convert(offsets: Numbers, address: int, new_offsets: Numbers, out: int, bad: Numbers) -> int:
        tables = (table.sizes, table.pairs, table.triples, table.quads)
        return int(charset_text.map_characters(offsets, address, *tables, new_offsets, out, bad))

    return convert


def _units(width: int, big_endian: bool, surrogates: bool) -> _Conversion:
    def convert(offsets: Numbers, address: int, new_offsets: Numbers, out: int, bad: Numbers) -> int:
        return int(charset_text.map_units(offsets, address, width, big_endian, surrogates, new_offsets, out, bad))

    return convert


_ASCII = "".join(map(chr, range(128)))
ALIKE = frozenset(
    byte for byte in range(0x20, 0x7F) if all(letters[byte] == chr(byte) for letters in SINGLE_BYTE.values())
)
"""Printable bytes that are the same character in every set of MySQL and MariaDB, where no other bytes are about: all of
ASCII but the ten in whose place swe7 has letters of its own."""


def _byte_table(charset: str) -> tuple[Numbers, Numbers]:
    """Each byte's character in UTF-8 as a little-endian word, and its size (0: none)."""
    encoded = [b"" if letter == "\ufffd" else letter.encode() for letter in SINGLE_BYTE[charset]]
    table = np.array([int.from_bytes(text, "little") for text in encoded], np.uint32)
    return table, np.array([len(text) for text in encoded], np.uint8)


def _finish_utf8(filled: Filled) -> Finished:
    offsets = filled.numbers("i4")[: filled.rows + 1]
    bad = np.zeros(filled.rows, np.uint8)
    if utf8.invalid_utf8(offsets, filled.text_address, bad):
        return _without(filled, filled.array(pa.string()), bad)
    return filled.array(pa.string()), None


def _without(filled: Filled, texts: pa.Array, bad: Numbers) -> Finished:
    """The texts with NULL in the bad rows, and the hex of these rows' bytes."""
    validity, nulls = validity_of(filled.is_null() | bad)
    array = pa.Array.from_buffers(pa.string(), filled.rows, [validity, *texts.buffers()[1:]], nulls)
    return array, exact_hex(filled, bad)
