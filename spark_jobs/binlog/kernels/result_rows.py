"""Rows of a query's binary result, converted to row images as a WRITE_ROWS event has them.

source/result_stream.py reads a connection in large pieces; this loop takes the packets off them and writes each row
down as the log would have had it. The row kernel then reads the images like any other.

The layouts are those of the manual's "Binary Protocol Resultset" and of MySQL's sql/field.cc, ``pack`` of each type.

Put here: packets of rows, and a value from the wire to its bytes in an image. Not here: the connection, which column is
of which kind.
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel, part
from spark_jobs.binlog.kernels.intrinsics import copy_text, load8, load16, load32, load64, store8, store16, store32
from spark_jobs.binlog.kernels.packed_events import lenenc

# Cells of a column (int64).
F_KIND = 0  # one of the kinds below
F_WIRE = 1  # FIXED: bytes on the wire
F_SIZE = 2  # bytes of the value in the image, or of its length before it; of its fraction for DATETIME, TIMESTAMP, TIME
F_PRECISION = 3  # DECIMAL: digits in all
F_SCALE = 4  # DECIMAL: digits after the point
F_CELLS = 5

# What a value is on the wire, and becomes.
(
    FIELD_FIXED,  # F_WIRE bytes, of which the first F_SIZE stay
    FIELD_COUNTED,  # bytes behind their length
    FIELD_UNPADDED,  # the same without zero bytes at the end
    FIELD_DOCUMENT,  # the same with each line end as two characters, and the number -0 as -0.0
    FIELD_BITS,  # bytes, the most significant first: as many as F_SIZE says
    FIELD_YEAR,
    FIELD_DATE,
    FIELD_DATETIME,
    FIELD_TIMESTAMP,
    FIELD_TIME,
    FIELD_DECIMAL,  # digits as text
) = range(11)

# Cells of a result's state (int64).
Q_SEQUENCE = 0  # number of the next packet, of one byte
Q_ROWS = 1  # rows written so far
Q_PACKET = 2  # bytes of the packet that was left behind, or stands before, without its header
Q_CELLS = 3

# Why the loop over packets stopped.
(
    RESULT_MORE,  # more bytes have to come
    RESULT_FULL,  # the target is full, or has no room for the row
    RESULT_LONG,  # the row is longer than the source, or continues in further packets; it stays before
    RESULT_END,  # EOF; it is left behind
    RESULT_REFUSED,  # an error packet, left behind
    RESULT_SEQUENCE,  # its number is not the next one
    RESULT_STRANGE,  # no row of these columns
) = range(7)

RESULT_PADDING = 64  # bytes after the source and the target that may be touched
_LONGEST = 0xFFFFFF
_GROWTH = 40  # bytes by which a value may be longer than on the wire: 65 digits of which one was sent
_SECONDS_A_DAY = 86400


@kernel
def row_room(length: int, columns: int) -> Any:
    """Bytes that the image of a row of so many bytes takes at most."""
    return 2 * length + _GROWTH * columns


@part
def _store_big(target: int, value: int, size: int) -> Any:
    for k in range(size):
        store8(target + k, np.uint8((value >> (8 * (size - 1 - k))) & 255))


@part
def _store_little(target: int, value: int, size: int) -> Any:
    for k in range(size):
        store8(target + k, np.uint8((value >> (8 * k)) & 255))


@part
def _put_fraction(target: int, microseconds: int, size: int) -> Any:
    """Two digits of a second a byte."""
    for _ in range(3 - size):
        microseconds //= 100
    _store_big(target, microseconds, size)


@kernel
def _days(year: int, month: int, day: int) -> Any:
    """Days since 1970-01-01, in the Gregorian calendar; years begin in March, so that leap days come last."""
    y = year - np.int64(month <= 2)
    m = month + (9 if month <= 2 else -3)
    century = y // 400
    year_of = y - century * 400
    return century * 146097 + year_of * 365 + year_of // 4 - year_of // 100 + (153 * m + 2) // 5 + day - 719469


@kernel
def _put_moment(kind: int, size: int, q: int, length: int, out: int) -> Any:
    """DATE, DATETIME, TIMESTAMP of 0, 4, 7 or 11 bytes; the address after what was written, -1 for another length."""
    if length != 0 and length != 4 and length != 7 and length != 11:  # noqa: PLR1714 - numba is slow at tuples
        return np.int64(-1)
    # What is zero at the end is left out on the wire.
    year = month = day = hour = minute = second = microseconds = np.int64(0)
    if length >= 4:
        year, month, day = np.int64(load16(q)), np.int64(load8(q + 2)), np.int64(load8(q + 3))
    if length >= 7:
        hour, minute, second = np.int64(load8(q + 4)), np.int64(load8(q + 5)), np.int64(load8(q + 6))
    if length == 11:
        microseconds = np.int64(load32(q + 7))
    if kind == FIELD_DATE:
        _store_little(out, year << 9 | month << 5 | day, 3)
        return out + 3
    if kind == FIELD_DATETIME:
        packed = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
        _store_big(out, packed + (np.int64(1) << 39), 5)
        out += 5
    else:
        seconds = np.int64(0)
        if year != 0 or month != 0 or day != 0:
            seconds = _days(year, month, day) * _SECONDS_A_DAY + hour * 3600 + minute * 60 + second
        _store_big(out, seconds, 4)
        out += 4
    _put_fraction(out, microseconds, size)
    return out + size


@kernel
def _put_time(size: int, q: int, length: int, out: int) -> Any:
    """TIME of 0, 8 or 12 bytes: the number with its fraction, negated as a whole; -1 for another length."""
    if length != 0 and length != 8 and length != 12:  # noqa: PLR1714 - numba is slow at tuples
        return np.int64(-1)
    packed = fraction = np.int64(0)
    if length >= 8:
        hours = np.int64(load32(q + 1)) * 24 + np.int64(load8(q + 5))
        packed = hours << 12 | np.int64(load8(q + 6)) << 6 | np.int64(load8(q + 7))
    if length == 12:
        fraction = np.int64(load32(q + 8))
    for _ in range(3 - size):
        fraction //= 100
    packed = packed << (8 * size) | fraction
    if length >= 8 and load8(q) != 0:
        packed = -packed
    _store_big(out, packed + (np.int64(0x800000) << (8 * size)), 3 + size)
    return out + 3 + size


@part
def _bytes_of(digits: int) -> Any:
    """Bytes of a group of at most nine digits."""
    return (digits + 1) // 2 if digits < 7 else 4


@kernel
def _put_decimal(precision: int, scale: int, q: int, length: int, out: int) -> Any:
    """Nine digits in four bytes, the first group before the point and the last after it less (strings/decimal.cc).

    The address after what was written, -1 for what is no number of so many digits.
    """
    end = q + length
    # The sign, zeros before the number, and the point.
    negative = length > 0 and load8(q) == np.uint8(45)
    q += int(negative)
    while q < end and load8(q) == np.uint8(48):
        q += 1
    point = q
    while point < end and load8(point) != np.uint8(46):
        point += 1
    integral = precision - scale
    if point - q > integral or end - point > scale + 1:
        return np.int64(-1)
    # A group ends where nine digits, counted from the point on either side, do.
    flip = np.int64(0xFFFFFFFF) if negative else np.int64(0)
    begin = out
    offset = np.int64(0)
    while offset < precision:
        if offset < integral:
            count = integral - offset - (integral - offset - 1) // 9 * 9
            digit = point - (integral - offset)
            first, last = q, point
        else:
            count = min(precision - offset, np.int64(9))
            digit = point + 1 + (offset - integral)
            first, last = point, end
        value = np.int64(0)
        for k in range(count):
            value *= 10
            if first <= digit + k < last:
                character = np.int64(load8(digit + k)) - 48
                if character < 0 or character > 9:
                    return np.int64(-1)
                value += character
        _store_big(out, value ^ flip, _bytes_of(count))
        out += _bytes_of(count)
        offset += count
    store8(begin, load8(begin) ^ np.uint8(0x80))
    return out


@part
def _continues(q: int, end: int) -> Any:
    """True if a number has more characters: digits, a point, an exponent."""
    if q >= end:
        return False
    character = load8(q)
    return character == np.uint8(46) or character == np.uint8(101) or character == np.uint8(69) or _is_digit(character)


@part
def _is_digit(character: Any) -> Any:
    return np.uint8(48) <= character <= np.uint8(57)


@kernel
def _put_counted(kind: int, size: int, q: int, length: int, out: int) -> Any:
    """A value behind its length; the address after it."""
    # BINARY(n) is logged without the zeros at its end; all but documents are copied.
    if kind == FIELD_UNPADDED:
        while length > 0 and load8(q + length - 1) == np.uint8(0):
            length -= 1
    if kind != FIELD_DOCUMENT:
        _store_little(out, length, size)
        copy_text(out + size, q, length)
        return out + size + length
    # A document is written as the server logs it: line ends escaped, and -0 as a double.
    offset = out + size
    quoted = escaped = False
    for k in range(length):
        character = load8(q + k)
        if character == np.uint8(10):
            store16(offset, np.uint16(0x6E5C))  # a backslash and an n
            offset += 2
        else:
            store8(offset, character)
            offset += 1
        # Only outside of strings is a minus followed by a zero a number.
        if quoted:
            if escaped:
                escaped = False
            elif character == np.uint8(92):
                escaped = True
            elif character == np.uint8(34):
                quoted = False
        elif character == np.uint8(34):
            quoted = True
        elif (
            character == np.uint8(48)
            and k > 0
            and load8(q + k - 1) == np.uint8(45)
            and not _continues(q + k + 1, q + length)
        ):
            store16(offset, np.uint16(0x302E))  # a point and a zero
            offset += 2
    # Its length is known at the end.
    _store_little(out, offset - out - size, size)
    return offset


@kernel
def _put_value(cells: Array, column: int, q: int, end: int, out: int) -> Any:  # noqa: PLR0911 - one a kind
    """(address after the value on the wire, address after it in the image); -1 where it is none."""
    kind, size = cells[column, F_KIND], cells[column, F_SIZE]
    bad = np.int64(-1)
    # Integers and floats: the wire may have them wider than the log.
    if kind == FIELD_FIXED:
        wire = cells[column, F_WIRE]
        if q + wire > end:
            return bad, bad
        if wire == 4:
            value = np.int64(load32(q))
        elif wire == 8:
            value = np.int64(load64(q))
        elif wire == 2:
            value = np.int64(load16(q))
        else:
            value = np.int64(load8(q))
        if size == 4:
            store32(out, np.uint32(value & 0xFFFFFFFF))
        else:
            _store_little(out, value, size)
        return q + wire, out + size
    # A year is a byte that counts from 1900, and zero is itself.
    if kind == FIELD_YEAR:
        if q + 2 > end:
            return bad, bad
        year = np.int64(load16(q))
        store8(out, np.uint8(year - 1900 if year else 0))
        return q + 2, out + 1
    # All others have their length before them.
    length, q = lenenc(q, end)
    if q < 0 or q + length > end:
        return bad, bad
    # Bytes and texts are copied; bits are filled with zeros on the left.
    if kind <= FIELD_DOCUMENT:
        return q + length, _put_counted(kind, size, q, length, out)
    if kind <= FIELD_BITS:
        if length > size:
            return bad, bad
        for k in range(size):
            at = k - (size - length)
            store8(out + k, load8(q + at) if at >= 0 else np.uint8(0))
        return q + length, out + size
    # Numbers and times come in other forms than the log has them in.
    if kind == FIELD_DECIMAL:
        return q + length, _put_decimal(cells[column, F_PRECISION], cells[column, F_SCALE], q, length, out)
    if kind == FIELD_TIME:
        return q + length, _put_time(size, q, length, out)
    return q + length, _put_moment(kind, size, q, length, out)


@kernel
def put_row(q: int, length: int, out: int, cells: Array, columns: int) -> Any:
    """Writes a row's image from its packet; the address after it, -1 for what is no row of these columns.

    ``out`` has ``row_room`` bytes, and RESULT_PADDING more that may be touched. In a packet the null bits begin with
    the third, in an image with the first.
    """
    end = q + length
    bits = q + 1
    q = bits + ((columns + 9) >> 3)
    if q > end or load8(bits - 1) != np.uint8(0):
        return np.int64(-1)
    # Null bits move two offsets down; values follow.
    size = (columns + 7) >> 3
    for k in range(size):
        after = load8(bits + k + 1) if bits + k + 1 < q else np.uint8(0)
        store8(out + k, np.uint8((load8(bits + k) >> np.uint8(2)) | (after << np.uint8(6))))
    nulls = out
    out += size
    for column in range(columns):
        if (load8(nulls + (column >> 3)) >> np.uint8(column & 7)) & np.uint8(1) == 0:
            q, out = _put_value(cells, column, q, end, out)
            if out < 0:
                return np.int64(-1)
    return out if q == end else np.int64(-1)


@kernel
def put_rows(  # noqa: PLR0911 - one return a reason
    source: int, size: int, target: int, room: int, state: Array, cells: Array, columns: int, capacity: int
) -> Any:
    """Writes the images of whole packets; returns (outcome, bytes taken, bytes written).

    source: ``size`` bytes as they came, of ``capacity`` at most; target: ``room`` bytes. Behind both, RESULT_PADDING
    more may be touched.
    """
    offset = 0
    out = 0
    while True:
        if size - offset < 4:
            return RESULT_MORE, offset, out
        packet = source + offset
        length = np.int64(load32(packet) & np.uint32(_LONGEST))
        state[Q_PACKET] = length
        if np.int64(load8(packet + 3)) != state[Q_SEQUENCE]:
            return RESULT_SEQUENCE, offset, out
        if length == 0:
            return RESULT_STRANGE, offset, out
        if length + 4 > capacity or length == _LONGEST:
            return RESULT_LONG, offset, out
        if size - offset < 4 + length:
            return RESULT_MORE, offset, out
        # A row begins with a zero; what does not ends the result.
        status = load8(packet + 4)
        if status != np.uint8(0):
            if status == np.uint8(0xFF) or (status == np.uint8(0xFE) and length < 9):
                state[Q_SEQUENCE] = (state[Q_SEQUENCE] + 1) & 0xFF
                outcome = RESULT_REFUSED if status == np.uint8(0xFF) else RESULT_END
                return outcome, offset + 4 + length, out
            return RESULT_STRANGE, offset, out
        if row_room(length, columns) > room - out:
            return RESULT_FULL, offset, out
        after = put_row(packet + 4, length, target + out, cells, columns)
        if after < 0:
            return RESULT_STRANGE, offset, out
        out = int(after - target)
        offset += int(4 + length)
        state[Q_SEQUENCE] = (state[Q_SEQUENCE] + 1) & 0xFF
        state[Q_ROWS] += 1
