"""Character sets: which one a collation has, and how a column's bytes in it become UTF-8.

Three ways: UTF-8 is checked and taken as it is; single-byte sets go through a table of 256 characters in a kernel;
multi-byte sets go through Python's codecs, a whole column at once. Bytes that are not text of their set make the value
NULL, with their hex beside it.

Put here: the work on text. Not here: the tables themselves (charset_tables.py).
"""

from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_jobs.binlog import kernels
from spark_jobs.binlog.types.base import Filled, Finish, Finished, Numbers, exact_hex, require_fits, validity_of
from spark_jobs.binlog.types.charset_tables import CODECS, COLLATIONS, CORRECTIONS, NOPAD, SINGLE_BYTE, WIDTHS
from spark_jobs.errors import Unsupported

BINARY = "binary"
UTF8 = frozenset({"utf8mb3", "utf8mb4"})
_BY_COLLATION = {collation: name for name, parts in COLLATIONS.items() for part in parts for collation in part}
_SEPARATORS = ("\x1e", "\x1f", "\x1d", "\x1c", "\x02", "\x03", "\x04", "\x05")


def charset_of(collation: int) -> str:
    """The character set's name. Raises Unsupported for an id that neither MySQL nor MariaDB is known to have."""
    name = _BY_COLLATION.get(collation) or _BY_COLLATION.get(collation - NOPAD)
    if name is None:
        raise Unsupported(f"collation {collation} belongs to no known character set")
    return name


def width_of(charset: str) -> int:
    """The most bytes a character has: what a column's length in bytes is divided by to get its length."""
    return WIDTHS.get(charset, 1)


def finish_for(charset: str | None) -> Finish:
    """How a column of text is finished. None: the set is unknown, and text is what is valid UTF-8.

    Raises Unsupported where no way to decode the set is known.
    """
    if charset is None or charset in UTF8:
        return _finish_utf8
    if charset in SINGLE_BYTE:
        return _finish_single_byte(charset)
    if charset in CODECS:
        return _finish_codec(charset)
    raise Unsupported(f"character set {charset} is not decoded in this version; leave the table out")


def text_of(wire: bytes, charset: str) -> str:
    """One piece of text, such as an ENUM's label. Raises UnicodeDecodeError, or Unsupported as finish_for."""
    if charset in UTF8 or charset == BINARY:
        return wire.decode()
    if charset in SINGLE_BYTE:
        return wire.decode("latin-1").translate(dict(enumerate(SINGLE_BYTE[charset])))
    if charset in CODECS:
        return _decode(wire, charset)
    raise Unsupported(f"character set {charset} is not decoded in this version; leave the table out")


def _finish_utf8(filled: Filled) -> Finished:
    offsets = filled.numbers("i4")[: filled.rows + 1]
    bad = np.zeros(filled.rows, np.uint8)
    if kernels.invalid_utf8(offsets, filled.text_address, bad):
        return _without(filled, filled.array(pa.string()), bad)
    return filled.array(pa.string()), None


def _finish_single_byte(charset: str) -> Finish:
    table, sizes, ascii_alike = _byte_table(charset)

    def finish(filled: Filled) -> Finished:
        offsets = filled.numbers("i4")[: filled.rows + 1]
        if ascii_alike and kernels.is_ascii(filled.text_address, int(offsets[-1])):
            return filled.array(pa.string()), None
        new_offsets = np.empty(filled.rows + 1, np.int32)
        require_fits(3 * int(offsets[-1]))
        out = pa.allocate_buffer(3 * int(offsets[-1]) + 4)
        bad = np.zeros(filled.rows, np.uint8)
        count = kernels.map_bytes(offsets, filled.text_address, table, sizes, new_offsets, out.address, bad)
        texts = filled.texts(new_offsets, out.slice(0, int(new_offsets[-1])))
        return _without(filled, texts, bad) if count else (texts, None)

    return finish


@cache
def _byte_table(charset: str) -> tuple[Numbers, Numbers, bool]:
    """Each byte's character in UTF-8 as a little-endian word, its size (0: none), and whether 0 to 127 is ASCII."""
    letters = SINGLE_BYTE[charset]
    encoded = [b"" if letter == "\ufffd" else letter.encode() for letter in letters]
    table = np.array([int.from_bytes(text, "little") for text in encoded], np.uint32)
    sizes = np.array([len(text) for text in encoded], np.uint8)
    return table, sizes, letters[:128] == "".join(map(chr, range(128)))


def _finish_codec(charset: str) -> Finish:
    def finish(filled: Filled) -> Finished:
        offsets = filled.numbers("i4")[: filled.rows + 1]
        text = np.frombuffer(filled.text, np.uint8)[: offsets[-1]] if filled.text else np.empty(0, np.uint8)
        whole = _decode_whole(offsets, text, charset)
        if whole is not None:
            return filled.texts(*whole), None
        values = [_decoded(text[a:b].tobytes(), charset) for a, b in pairwise(offsets)]
        texts = pa.array(["" if value is None else value for value in values], pa.string())
        array = pa.Array.from_buffers(pa.string(), filled.rows, [filled.validity, *texts.buffers()[1:]], filled.nulls)
        return _without(filled, array, np.array([value is None for value in values], np.uint8))

    return finish


def _decode_whole(offsets: Numbers, text: Numbers, charset: str) -> tuple[Numbers, Numbers] | None:
    """Offsets and UTF-8 of a column decoded in one go, or None where a value is not text of the codec.

    A separator that no value holds is put behind every value: no character of these sets has it as its last byte, so a
    value that ends inside a character makes the codec fail.
    """
    rows = len(offsets) - 1
    for separator in _SEPARATORS:
        mark = np.frombuffer(separator.encode(CODECS[charset]), np.uint8)
        joined = np.insert(text, np.repeat(offsets[1:], len(mark)), np.tile(mark, rows))
        decoded = _decoded(joined.tobytes(), charset)
        if decoded is None:
            return None
        if decoded.count(separator) == rows:
            encoded = np.frombuffer(decoded.encode(), np.uint8)
            ends = np.flatnonzero(encoded == ord(separator)) - np.arange(rows)
            require_fits(int(ends[-1]) if rows else 0)
            return np.concatenate([[0], ends]).astype(np.int32), encoded[encoded != ord(separator)]
    return None


def _decode(wire: bytes, charset: str) -> str:
    return wire.decode(CODECS[charset]).translate(CORRECTIONS.get(charset, {}))


def _decoded(wire: bytes, charset: str) -> str | None:
    try:
        return _decode(wire, charset)
    except UnicodeDecodeError:
        return None


def _without(filled: Filled, texts: pa.Array, bad: Numbers) -> Finished:
    """The texts with NULL in the bad rows, and the hex of these rows' bytes."""
    validity, nulls = validity_of(filled.is_null() | bad)
    array = pa.Array.from_buffers(pa.string(), filled.rows, [validity, *texts.buffers()[1:]], nulls)
    return array, exact_hex(filled, bad)
