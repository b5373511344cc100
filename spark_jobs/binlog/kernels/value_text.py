"""The text of columns whose values are no text: hexadecimal, times, decimals, ENUM and SET, UUID, INET4 and INET6.

Put here: one loop a type over a column's values. Not here: JSON (json.py), doubles (doubles.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.intrinsics import copy_text, load8, load16_big, load32


@kernel
def hex_text(offsets: Array, address: int, rows: Array, new_offsets: Array, out: Array) -> Any:
    """Lower-case hex of the bytes of the chosen rows."""
    place = np.int64(0)
    for k in range(len(rows)):
        new_offsets[k] = place
        for i in range(offsets[rows[k]], offsets[rows[k] + 1]):
            byte = load8(address + i)
            for half in (byte >> np.uint8(4), byte & np.uint8(15)):
                out[place] = half + np.uint8(48 if half < 10 else 87)
                place += 1
    new_offsets[len(rows)] = place


@kernel
def split_geometry(
    offsets: Array, address: int, nulls: Array, srids: Array, new_offsets: Array, out: Array, bad: Array
) -> Any:
    """Takes the SRID, four bytes, off each value; the rest is in ``out``.

    Rows without an SRID, or with one that int32 cannot hold, are marked in ``bad``, and counted.
    """
    place = np.int64(0)
    count = 0
    for row in range(len(srids)):
        new_offsets[row] = place
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
            out[place] = load8(address + i)
            place += 1
    new_offsets[len(srids)] = place
    return count


@kernel
def _digits(out: Array, place: int, number: int, count: int) -> Any:
    """Writes ``number`` in ``count`` digits; returns the place after them."""
    for k in range(count):
        out[place + count - 1 - k] = np.uint8(48 + number % 10)
        number //= 10
    return place + count


@kernel
def time_text(packed: Array, nulls: Array, digits: int, new_offsets: Array, out: Array) -> Any:
    """TIME as the server prints it (my_time.cc, my_time_to_str) from slots of TIME_TO_64; 18 bytes a row suffice."""
    place = np.int64(0)
    for row in range(len(packed)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        value = packed[row]
        if value < 0:
            out[place] = 45
            place += 1
            value = -value
        # Hours 10 bits, minutes 6, seconds 6, microseconds 24.
        hour = (value >> 36) & 1023
        place = _digits(out, place, hour, 3 if hour > 99 else 2)
        for part in (value >> 30, value >> 24):
            out[place] = 58
            place = _digits(out, place + 1, part & 63, 2)
        if digits:
            out[place] = 46
            fraction = value & 0xFFFFFF
            for _ in range(6 - digits):
                fraction //= 10
            place = _digits(out, place + 1, fraction, digits)
    new_offsets[len(packed)] = place


@kernel
def decimal_text(values: Array, nulls: Array, sizes: Array, integer_groups: int, new_offsets: Array, out: Array) -> Any:
    """DECIMAL as the server prints it, from its own bytes ``values[row, byte]``; ``nulls`` marks rows left empty.

    sizes: the number of digits of each group; integer_groups: how many stand before the point. Returns the first row
    with a group of too many digits, or -1.
    """
    place = np.int64(0)
    for row in range(len(values)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        # The sign is the inverted first bit; bytes of a negative number are inverted.
        negative = values[row, 0] < 128
        start = place
        if negative:
            out[place] = 45
            place += 1
        first = place
        q = 0
        zero: Any = True
        # Group after group, and the point before the first one after it.
        for k in range(len(sizes)):
            if k == integer_groups:
                place = _without_zeros(out, first, place)
                out[place] = 46
                place += 1
            size = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)[sizes[k]]
            number = np.int64(0)
            for _ in range(size):
                byte = values[row, q] ^ np.uint8(128 if q == 0 else 0)
                number = number << 8 | np.int64(~byte & np.uint8(255) if negative else byte)
                q += 1
            if number >= 10 ** sizes[k]:
                return row
            zero &= number == 0
            place = _digits(out, place, number, sizes[k])
        if integer_groups == len(sizes):
            place = _without_zeros(out, first, place)
        # The server prints no -0: the sign is taken out again.
        if negative and zero:
            for k in range(start, place - 1):
                out[k] = out[k + 1]
            place -= 1
    new_offsets[len(values)] = place
    return -1


@kernel
def _without_zeros(out: Array, first: int, place: int) -> Any:
    """Takes leading zeros away from the digits in [first, place), leaving at least one digit."""
    if first == place:
        out[place] = 48
        return place + 1
    skip = 0
    while first + skip < place - 1 and out[first + skip] == 48:
        skip += 1
    for k in range(first, place - skip):
        out[k] = out[k + skip]
    return place - skip


@kernel
def label_offsets(numbers: Array, starts: Array, new_offsets: Array) -> Any:
    """Where the label of each row will stand; label k is ``starts[k + 1] - starts[k]`` bytes long.

    Returns the first row whose number is beyond the labels, or -1.
    """
    count = np.uint64(len(starts) - 1)
    place = np.int64(0)
    for row in range(len(numbers)):
        new_offsets[row] = place
        label = numbers[row]
        if label >= count:
            return row
        place += starts[label + np.uint64(1)] - starts[label]
    new_offsets[len(numbers)] = place
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
    place = np.int64(0)
    for row in range(len(masks)):
        new_offsets[row] = place
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
                    out[place] = 44
                    place += 1
                first = False
                for i in range(starts[k], starts[k + 1]):
                    out[place] = labels[i]
                    place += 1
    new_offsets[len(masks)] = place
    return -1


@kernel
def _hex_digits(out: Array, place: int, number: int, count: int) -> Any:
    """Writes ``number`` in ``count`` lower-case hex digits; returns the place after them."""
    for k in range(count):
        half = (number >> (4 * (count - 1 - k))) & 15
        out[place + k] = 48 + half if half < 10 else 87 + half
    return place + count


@kernel
def uuid_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """``00112233-4455-6677-8899-aabbccddeeff`` from sixteen bytes in this order; 36 bytes a row."""
    place = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = place
        if nulls[row]:
            continue
        for k in range(16):
            if k == 4 or k == 6 or k == 8 or k == 10:  # noqa: PLR1714 - numba is slow at tuples
                out[place] = 45
                place += 1
            place = _hex_digits(out, place, np.int64(load8(address + offsets[row] + k)), 2)
    new_offsets[len(nulls)] = place


@kernel
def _dotted(out: Array, place: int, source: int) -> Any:
    for k in range(4):
        if k:
            out[place] = 46
            place += 1
        number = np.int64(load8(source + k))
        place = _digits(out, place, number, 3 if number > 99 else 2 if number > 9 else 1)
    return place


@kernel
def inet4_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """Four bytes as four decimal numbers; at most 15 bytes a row."""
    place = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = place
        if not nulls[row]:
            place = _dotted(out, place, address + offsets[row])
    new_offsets[len(nulls)] = place


@kernel
def inet6_text(offsets: Array, address: int, nulls: Array, new_offsets: Array, out: Array) -> Any:
    """As MariaDB prints it (sql_type_inet.cc, Inet6::to_string): at most 39 bytes a row.

    The first of the longest runs of zero words is ``::``, be it of one word, and the last two words of ``::`` and
    ``::ffff:`` are dotted.
    """
    place = np.int64(0)
    for row in range(len(nulls)):
        new_offsets[row] = place
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
                    out[place] = 58
                    place += 1
                out[place] = 58
                place += 1
                word += longest
                continue
            mapped = longest == 5 and load16_big(source + 10) == 0xFFFF
            if word == 6 and gap == 0 and (longest == 6 or mapped):
                place = _dotted(out, place, source + 12)
                break
            number = np.int64(load16_big(source + 2 * word))
            digits = 4 if number > 0xFFF else 3 if number > 0xFF else 2 if number > 0xF else 1
            place = _hex_digits(out, place, number, digits)
            word += 1
            if word < 8:
                out[place] = 58
                place += 1
    new_offsets[len(nulls)] = place
