"""Text in other character sets, single-byte and multi-byte, converted to UTF-8 by tables.

Put here: the loops over characters. Not here: the tables (types/charsets.py, types/multibyte_charsets.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.intrinsics import (
    load8,
    load16,
    load16_big,
    load32_big,
    load64,
    store8,
    store16,
    store32,
    store64,
)


@kernel
def map_bytes(
    offsets: Array,
    address: int,
    table: Array,
    sizes: Array,
    new_offsets: Array,
    out: int,
    bad: Array,
) -> Any:
    """Single-byte text to UTF-8: ``table[byte]`` holds ``sizes[byte]`` bytes, 0 for a byte without a character.

    Rows with such a byte are marked in ``bad`` and left empty. ``out`` needs 3 bytes a byte and 8 more. Returns the
    number of marked rows.
    """
    index = np.int64(0)
    count = 0
    for row in range(len(offsets) - 1):
        new_offsets[row] = index
        for i in range(offsets[row], offsets[row + 1]):
            byte = load8(address + i)
            if sizes[byte] == 0:
                bad[row] = 1
                break
            store32(out + index, table[byte])
            index += sizes[byte]
        # A row with such a byte is left empty, and its room is used by the next one.
        if bad[row]:
            index = np.int64(new_offsets[row])
            count += 1
    new_offsets[len(offsets) - 1] = index
    return count


NO_CHARACTER = np.uint32(0xFFFFFFFF)
QUADS = 39420
"""Codes of four bytes that gb18030 has for the Basic Multilingual Plane, 8130 8130 to 8431 A439."""
_QUADS_ABOVE = 189000
"""The offset among these codes of 9030 8130, which is U+10000."""


@kernel
def _put_character(out: int, point: Any) -> Any:
    """A code point in UTF-8; up to four bytes are stored. Returns how many count."""
    # One to four bytes, the first of which says how many (RFC 3629).
    if point < 0x80:
        store8(out, np.uint8(point))
        return 1
    low = np.uint32(0x80) | (point & np.uint32(63))
    if point < 0x800:
        store16(out, np.uint16(np.uint32(0xC0) | point >> np.uint32(6) | low << np.uint32(8)))
        return 2
    middle = np.uint32(0x80) | ((point >> np.uint32(6)) & np.uint32(63))
    if point < 0x10000:
        high = np.uint32(0xE0) | point >> np.uint32(12)
        store32(out, high | middle << np.uint32(8) | low << np.uint32(16))
        return 3
    high = np.uint32(0x80) | ((point >> np.uint32(12)) & np.uint32(63))
    top = np.uint32(0xF0) | point >> np.uint32(18)
    store32(out, top | high << np.uint32(8) | middle << np.uint32(16) | low << np.uint32(24))
    return 4


@kernel
def _quad(q: int, quads: Array) -> Any:
    """The character of four bytes of gb18030, or NO_CHARACTER."""
    first, second = np.int64(load8(q)) - 0x81, np.int64(load8(q + 1)) - 0x30
    third, fourth = np.int64(load8(q + 2)) - 0x81, np.int64(load8(q + 3)) - 0x30
    if first < 0 or third < 0 or third > 125 or fourth < 0 or fourth > 9:
        return NO_CHARACTER
    index = ((first * 10 + second) * 126 + third) * 10 + fourth
    if index < len(quads):
        return quads[index]
    if _QUADS_ABOVE <= index < _QUADS_ABOVE + 0x100000:
        return np.uint32(0x10000 + index - _QUADS_ABOVE)
    return NO_CHARACTER


@kernel
def _read_character(q: int, available: int, sizes: Array, pairs: Array, triples: Array, quads: Array) -> Any:
    """(code point, bytes) of the character at q, of which ``available`` bytes are there."""
    size = sizes[load8(q)]
    if size == 1:
        return pairs[load8(q)], 1
    if size == 2 and available >= 2:
        if len(quads) and available >= 4 and load8(q + 1) - np.uint8(0x30) < 10:
            return _quad(q, quads), 4
        return pairs[load16_big(q)], 2
    if size == 3 and available >= 3:
        return triples[load16_big(q + 1)], 3
    return NO_CHARACTER, 0


@kernel
def map_characters(
    offsets: Array,
    address: int,
    sizes: Array,
    pairs: Array,
    triples: Array,
    quads: Array,
    new_offsets: Array,
    out: int,
    bad: Array,
) -> Any:
    """Text of one to four bytes a character to UTF-8, in sets whose first 128 characters are ASCII.

    sizes: bytes of a character by its first; pairs: code points by one or two bytes, big-endian, triples by the last
    two of three; quads as _quad takes them, empty in other sets than gb18030. Rows, results and room as in map_bytes.
    """
    index = np.int64(0)
    count = 0
    for row in range(len(offsets) - 1):
        new_offsets[row] = index
        i, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        while i < end:
            # Eight ASCII characters at once.
            if i + 8 <= end and load64(address + i) & np.uint64(0x8080808080808080) == 0:
                store64(out + index, load64(address + i))
                i += 8
                index += 8
                continue
            point, size = _read_character(address + i, end - i, sizes, pairs, triples, quads)
            if point == NO_CHARACTER:
                bad[row] = 1
                break
            i += size
            index += _put_character(out + index, point)
        if bad[row]:
            index = np.int64(new_offsets[row])
            count += 1
    new_offsets[len(offsets) - 1] = index
    return count


@kernel
def map_units(
    offsets: Array,
    address: int,
    width: int,
    big_endian: bool,
    surrogates: bool,
    new_offsets: Array,
    out: int,
    bad: Array,
) -> Any:
    """Text in units of two or four bytes to UTF-8; ``surrogates``: pairs of them are one character.

    Rows, results and room as in map_bytes.
    """
    index = np.int64(0)
    count = 0
    for row in range(len(offsets) - 1):
        new_offsets[row] = index
        i, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        while i < end:
            if i + width > end:
                bad[row] = 1
                break
            # One unit, and with it the second half of a surrogate pair (RFC 2781).
            if width == 4:
                point = load32_big(address + i)
            else:
                point = np.uint32(load16_big(address + i)) if big_endian else np.uint32(load16(address + i))
            i += width
            if surrogates and 0xD800 <= point < 0xDC00 and i + 2 <= end:
                low = np.uint32(load16_big(address + i)) if big_endian else np.uint32(load16(address + i))
                if 0xDC00 <= low < 0xE000:
                    point = (
                        np.uint32(0x10000) + ((point & np.uint32(0x3FF)) << np.uint32(10)) + (low & np.uint32(0x3FF))
                    )
                    i += 2
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                bad[row] = 1
                break
            index += _put_character(out + index, point)
        # A row that is not text takes no room: Python decides what becomes of its bytes.
        if bad[row]:
            index = np.int64(new_offsets[row])
            count += 1
    new_offsets[len(offsets) - 1] = index
    return count
