"""The text of columns whose values are no text: hexadecimal, times, decimals, ENUM and SET, UUID, INET4 and INET6.

Put here: one loop a type over a column's values. Not here: JSON (json.py), doubles (doubles.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.doubles import POWERS_OF_TEN
from spark_jobs.binlog.kernels.intrinsics import copy_text, load8, load16_big, load32


@kernel
def hex_text(offsets: Array, address: int, rows: Array, new_offsets: Array, out: Array) -> Any:
    """Lower-case hex of the bytes of the chosen rows."""
    offset = np.int64(0)
    for k in range(len(rows)):
        new_offsets[k] = offset
        for i in range(offsets[rows[k]], offsets[rows[k] + 1]):
            byte = load8(address + i)
            for half in (byte >> np.uint8(4), byte & np.uint8(15)):
                out[offset] = half + np.uint8(48 if half < 10 else 87)
                offset += 1
    new_offsets[len(rows)] = offset


@kernel
def split_geometry(
    offsets: Array, address: int, nulls: Array, srids: Array, new_offsets: Array, out: Array, bad: Array
) -> Any:
    """Takes the SRID, four bytes, off each value; the rest is in ``out``.

    Rows without an SRID, or with one that int32 cannot hold, are marked in ``bad``, and counted.
    """
    offset = np.int64(0)
    count = 0
    for row in range(len(srids)):
        new_offsets[row] = offset
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if nulls[row]:
            continue
        # An SRID is an unsigned number of four bytes.
        srid = np.int64(load32(address + start)) if end - start >= 4 else np.int64(-1)
        if srid < 0 or srid > 2147483647:
            bad[row] = 1
            count += 1
            continue
        srids[row] = srid
        for i in range(start + 4, end):
            out[offset] = load8(address + i)
            offset += 1
    new_offsets[len(srids)] = offset
    return count


@kernel
def _digits(out: Array, offset: int, number: int, count: int) -> Any:
    """Writes ``number`` in ``count`` digits; returns the offset after them."""
    for k in range(count):
        out[offset + count - 1 - k] = np.uint8(48 + number % 10)
        number //= 10
    return offset + count


@kernel
def time_text(packed: Array, nulls: Array, digits: int, new_offsets: Array, out: Array) -> Any:
    """TIME as the server prints it (my_time.cc, my_time_to_str) from slots of TIME_TO_64; 18 bytes a row suffice."""
    offset = np.int64(0)
    for row in range(len(packed)):
        new_offsets[row] = offset
        if nulls[row]:
            continue
        value = packed[row]
        if value < 0:
            out[offset] = 45
            offset += 1
            value = -value
        # Hours 10 bits, minutes 6, seconds 6, microseconds 24.
        hour = (value >> 36) & 1023
        offset = _digits(out, offset, hour, 3 if hour > 99 else 2)
        for part in (value >> 30, value >> 24):
            out[offset] = 58
            offset = _digits(out, offset + 1, part & 63, 2)
        if digits:
            out[offset] = 46
            fraction = value & 0xFFFFFF
            for _ in range(6 - digits):
                fraction //= 10
            offset = _digits(out, offset + 1, fraction, digits)
    new_offsets[len(packed)] = offset


@kernel
def decimal_text(values: Array, nulls: Array, sizes: Array, integer_groups: int, new_offsets: Array, out: Array) -> Any:
    """DECIMAL as the server prints it, from its own bytes ``values[row, byte]``; ``nulls`` marks rows left empty.

    sizes: the number of digits of each group; integer_groups: how many stand before the point. Returns the first row
    with a group of too many digits, or -1.
    """
    offset = np.int64(0)
    for row in range(len(values)):
        new_offsets[row] = offset
        if nulls[row]:
            continue
        # The sign is the inverted first bit; bytes of a negative number are inverted.
        negative = values[row, 0] < 128
        start = offset
        if negative:
            out[offset] = 45
            offset += 1
        first = offset
        q = 0
        zero: Any = True
        # Group after group, and the point before the first one after it.
        for k in range(len(sizes)):
            if k == integer_groups:
                offset = _without_zeros(out, first, offset)
                out[offset] = 46
                offset += 1
            size = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[sizes[k]]
            number = np.int64(0)
            for _ in range(size):
                byte = values[row, q] ^ np.uint8(128 if q == 0 else 0)
                number = number << 8 | np.int64(~byte & np.uint8(255) if negative else byte)
                q += 1
            if number >= POWERS_OF_TEN[sizes[k]]:
                return row
            zero &= number == 0
            offset = _digits(out, offset, number, sizes[k])
        if integer_groups == len(sizes):
            offset = _without_zeros(out, first, offset)
        # The server prints no -0: the sign is taken out again.
        if negative and zero:
            for k in range(start, offset - 1):
                out[k] = out[k + 1]
            offset -= 1
    new_offsets[len(values)] = offset
    return -1


@kernel
def _without_zeros(out: Array, first: int, offset: int) -> Any:
    """Takes leading zeros away from the digits in [first, offset), leaving at least one digit."""
    if first == offset:
        out[offset] = 48
        return offset + 1
    skip = 0
    while first + skip < offset - 1 and out[first + skip] == 48:
        skip += 1
    for k in range(first, offset - skip):
        out[k] = out[k + skip]
    return offset - skip


@kernel
def label_offsets(numbers: Array, starts: Array, new_offsets: Array) -> Any:
    """Offset of the label of each row; label k is ``starts[k + 1] - starts[k]`` bytes long.

    Returns the first row whose number is beyond the labels, or -1.
    """
    count = np.uint64(len(starts) - 1)
    offset = np.int64(0)
    for row in range(len(numbers)):
        new_offsets[row] = offset
        label = numbers[row]
        if label >= count:
            return row
        offset += starts[label + np.uint64(1)] - starts[label]
    new_offsets[len(numbers)] = offset
    return -1


@kernel
def copy_labels(numbers: Array, starts: Array, labels: int, new_offsets: Array, out: int) -> Any:
    """The label of each row to its place; ``COPIED`` bytes after the labels and behind ``out`` may be touched."""
    for row in range(len(numbers)):
        size = np.int64(new_offsets[row + 1] - new_offsets[row])
        if size:
            copy_text(out + new_offsets[row], labels + starts[numbers[row]], size)


@kernel
def join_labels(masks: Array, nulls: Array, starts: Array, labels: Array, new_offsets: Array, out: Array) -> Any:
    """SET members in the order of their definition, joined by commas; ``out`` needs the text of all labels a row.

    Label k is ``labels[starts[k]:starts[k + 1]]``. Returns the first row with a bit beyond the labels, or -1. Bit 63 is
    none of these: MySQL 5.7 sets it for a second unknown member, where sql_mode lets these pass (sql/strfunc.cc,
    find_set), and prints nothing for it.
    """
    count = len(starts) - 1
    offset = np.int64(0)
    for row in range(len(masks)):
        new_offsets[row] = offset
        if nulls[row]:
            continue
        # Bits without a label are no value.
        mask = masks[row]
        if count < 64 and (mask & np.uint64(0x7FFFFFFFFFFFFFFF)) >> np.uint64(count):
            return row
        first = True
        for k in range(count):
            if (mask >> np.uint64(k)) & np.uint64(1):
                if not first:
                    out[offset] = 44
                    offset += 1
                first = False
                for i in range(starts[k], starts[k + 1]):
                    out[offset] = labels[i]
                    offset += 1
    new_offsets[len(masks)] = offset
    return -1


@kernel
def _hex_digits(out: Array, offset: int, number: int, count: int) -> Any:
    """Writes ``number`` in ``count`` lower-case hex digits; returns the offset after them."""
    for k in range(count):
        half = (number >> (4 * (count - 1 - k))) & 15
        out[offset + k] = 48 + half if half < 10 else 87 + half
    return offset + count


@kernel
def uuid_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """``00112233-4455-6677-8899-aabbccddeeff`` from sixteen bytes in this order; 36 bytes a row."""
    offset = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = offset
        if nulls[row]:
            continue
        for k in range(16):
            if k == 4 or k == 6 or k == 8 or k == 10:  # noqa: PLR1714 - numba is slow at tuples
                out[offset] = 45
                offset += 1
            offset = _hex_digits(out, offset, np.int64(load8(address + offsets[row] + k)), 2)
    new_offsets[len(nulls)] = offset


@kernel
def _dotted(out: Array, offset: int, source: int) -> Any:
    for k in range(4):
        if k:
            out[offset] = 46
            offset += 1
        number = np.int64(load8(source + k))
        offset = _digits(out, offset, number, 3 if number > 99 else 2 if number > 9 else 1)
    return offset


@kernel
def inet4_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """Four bytes as four decimal numbers; at most 15 bytes a row."""
    offset = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = offset
        if not nulls[row]:
            offset = _dotted(out, offset, address + offsets[row])
    new_offsets[len(nulls)] = offset


@kernel
def inet6_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """Text of INET6 values as MariaDB prints it (sql_type_inet.cc, Inet6::to_string): at most 39 bytes a row.

    The first of the longest runs of zero words is ``::``, be it of one word, and the last two words of ``::`` and
    ``::ffff:`` are dotted.
    """
    offset = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = offset
        if nulls[row]:
            continue
        source = address + offsets[row]
        # The first of the longest runs of zero words.
        gap, longest, run = -1, 0, 0
        for word in range(8):
            run = run + 1 if load16_big(source + 2 * word) == 0 else 0
            if run > longest:
                gap, longest = word + 1 - run, run
        # Words in hex, but the run, and an IPv4 address at the end.
        word = 0
        while word < 8:
            if word == gap:
                if word == 0:
                    out[offset] = 58
                    offset += 1
                out[offset] = 58
                offset += 1
                word += longest
                continue
            mapped = longest == 5 and load16_big(source + 10) == 0xFFFF
            if word == 6 and gap == 0 and (longest == 6 or mapped):
                offset = _dotted(out, offset, source + 12)
                break
            number = np.int64(load16_big(source + 2 * word))
            digits = 4 if number > 0xFFF else 3 if number > 0xFF else 2 if number > 0xF else 1
            offset = _hex_digits(out, offset, number, digits)
            word += 1
            if word < 8:
                out[offset] = 58
                offset += 1
    new_offsets[len(nulls)] = offset
