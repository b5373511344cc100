"""Scalars of binary JSON as text: strings, numbers, literals, dates, decimals, base64.

Source: MySQL sql-common/json_binary.h (the bytes), sql-common/json_dom.cc, wrapper_to_string (the text).

Put here: one value that holds no other. Not here: objects and arrays (json.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import kernel
from spark_jobs.binlog.kernels.doubles import POWERS_OF_TEN, put_double, put_number, put_signed, put_unsigned
from spark_jobs.binlog.kernels.intrinsics import (
    load8,
    load16,
    load32,
    load64,
    memmove,
    store8,
    store16,
    store32,
    store64,
)

(
    JSON_SMALL_OBJECT,
    JSON_LARGE_OBJECT,
    JSON_SMALL_ARRAY,
    JSON_LARGE_ARRAY,
    JSON_LITERAL,
    JSON_INT16,
    JSON_UINT16,
    JSON_INT32,
    JSON_UINT32,
    JSON_INT64,
    JSON_UINT64,
    JSON_DOUBLE,
    JSON_STRING,
) = range(13)
JSON_OPAQUE = 15

JSON_ROOM = 96
"""Bytes that the text of anything but a string or a blob fits into, punctuation included."""

JSON_NO_ROOM, JSON_BAD = -1, -2
"""Values in place of an offset in the text: it did not fit; the bytes are no document."""

_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_BASE64_LINE = 76
"""Characters after which the server's base64 begins a new line (mysys/base64.cc)."""

_NEWDECIMAL = 246
_DATE_TYPE, _TIME_TYPE, _DATETIME_TYPE, _TIMESTAMP_TYPE = 10, 11, 12, 7


@kernel
def _plain_run(source: int, start: int, count: int) -> Any:
    """The first offset in [start, count) whose byte a JSON string must escape, or count."""
    i = start
    low_bits, high_bits = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    # Eight bytes at once: the high bit of a byte is set where it is a quote, a backslash or below 32.
    while i + 8 <= count:
        word = load64(source + i)
        quote = word ^ np.uint64(0x2222222222222222)
        slash = word ^ np.uint64(0x5C5C5C5C5C5C5C5C)
        low = (word - np.uint64(0x2020202020202020)) & ~word
        if (low | ((quote - low_bits) & ~quote) | ((slash - low_bits) & ~slash)) & high_bits:
            break
        i += 8
    while i < count:
        byte = load8(source + i)
        if byte < 32 or byte == 34 or byte == 92:  # noqa: PLR1714 - numba is slow at tuples
            break
        i += 1
    return i


@kernel
def _put_escape(out: int, byte: Any) -> Any:
    # Characters with an escape of their own, by its letter; all others are \u00xx.
    short = 0
    if byte == 34 or byte == 92:  # noqa: PLR1714 - numba is slow at tuples
        short = int(byte)
    elif byte == 8:
        short = 98
    elif byte == 9:
        short = 116
    elif byte == 10:
        short = 110
    elif byte == 12:
        short = 102
    elif byte == 13:
        short = 114
    store8(out, np.uint8(92))
    if short:
        store8(out + 1, np.uint8(short))
        return out + 2
    store8(out + 1, np.uint8(117))
    store16(out + 2, np.uint16(0x3030))
    store8(out + 4, np.uint8(48 + (byte >> np.uint8(4))))
    half = byte & np.uint8(15)
    store8(out + 5, half + np.uint8(48 if half < 10 else 87))
    return out + 6


@kernel
def put_string(source: int, count: int, out: int, limit: int) -> Any:
    """A JSON string in its quotes; returns the address after it, or JSON_NO_ROOM."""
    if out + count + 2 > limit:
        return JSON_NO_ROOM
    store8(out, np.uint8(34))
    out += 1
    i = np.int64(0)
    # Runs without an escape are copied at once.
    while True:
        run = _plain_run(source, i, count)
        if out + (run - i) + 8 > limit:
            return JSON_NO_ROOM
        memmove(out, source + i, run - i)
        out += run - i
        if run == count:
            break
        out = _put_escape(out, load8(source + run))
        i = run + 1
    store8(out, np.uint8(34))
    return out + 1


@kernel
def _put_base64(kind: int, source: int, count: int, out: int, limit: int) -> Any:
    """``"base64:type15:…"``; line ends inside are escaped. Returns the address after it, or JSON_NO_ROOM."""
    groups = (count + 2) // 3
    if out + 24 + 4 * groups + 2 * (4 * groups // _BASE64_LINE) > limit:
        return JSON_NO_ROOM
    store8(out, np.uint8(34))
    store64(out + 1, np.uint64(0x743A343665736162))  # base64:t
    store32(out + 9, np.uint32(0x657079))  # ype
    out = put_unsigned(out + 12, np.uint64(kind))
    store8(out, np.uint8(58))
    out += 1
    line = 0
    for group in range(groups):
        if line == _BASE64_LINE:
            store16(out, np.uint16(0x6E5C))
            out += 2
            line = 0
        bits = np.uint32(0)
        remaining = count - 3 * group
        for k in range(3):
            bits = bits << np.uint32(8) | np.uint32(load8(source + 3 * group + k) if k < remaining else 0)
        for k in range(4):
            letter = _BASE64[(bits >> np.uint32(18 - 6 * k)) & np.uint32(63)]
            store8(out + k, letter if k <= remaining else np.uint8(61))
        out += 4
        line += 4
    store8(out, np.uint8(34))
    return out + 1


@kernel
def _put_clock(out: int, clock: int, fraction: int) -> Any:
    """``hh:mm:ss.ffffff`` from hour, minute, second in 10, 6, 6 bits."""
    hour = (clock >> 12) & 1023
    out = put_number(out, np.uint64(hour), 3 if hour > 99 else 2)
    for part in (clock >> 6, clock):
        store8(out, np.uint8(58))
        out = put_number(out + 1, np.uint64(part & 63), 2)
    store8(out, np.uint8(46))
    return put_number(out + 1, np.uint64(fraction), 6)


@kernel
def _put_moment(kind: int, source: int, count: int, out: int) -> Any:
    """A date or time (my_time.cc, TIME_from_longlong_…_packed) in quotes; or JSON_BAD."""
    if count != 8:
        return JSON_BAD
    packed = np.int64(load64(source))
    if packed == -9223372036854775808:
        return JSON_BAD
    store8(out, np.uint8(34))
    out += 1
    # Upper 40 bits: year and month, day, and clock; lower 24: microseconds. A negative time is the whole, negated.
    magnitude = abs(packed)
    clock, fraction = magnitude >> 24, magnitude & 0xFFFFFF
    if fraction > 999999:
        return JSON_BAD
    if kind == _TIME_TYPE:
        if packed < 0:
            store8(out, np.uint8(45))
            out += 1
        out = _put_clock(out, clock & 0x3FFFFF, fraction)
    else:
        days = clock >> 17
        year, month = (days >> 5) // 13, (days >> 5) % 13
        if year > 9999:
            return JSON_BAD
        out = put_number(out, np.uint64(year), 4)
        for part in (month, days & 31):
            store8(out, np.uint8(45))
            out = put_number(out + 1, np.uint64(part), 2)
        if kind != _DATE_TYPE:
            store8(out, np.uint8(32))
            out = _put_clock(out + 1, clock & 0x1FFFF, fraction)
    store8(out, np.uint8(34))
    return out + 1


@kernel
def _put_decimal(source: int, count: int, out: int) -> Any:
    """A DECIMAL (decimal.cc, bin2decimal) whose precision and scale stand before it; or JSON_BAD.

    Whole groups of digits are counted: DECIMAL(65) may come with a precision of 72, and 81 is what nine groups hold.
    """
    # Precision and scale stand before the digits.
    if count < 3:
        return JSON_BAD
    precision: Any = np.int64(load8(source))
    scale: Any = np.int64(load8(source + 1))
    integer_digits = precision - scale
    if precision > 81 or integer_digits < 0:
        return JSON_BAD
    # The sign is the inverted first bit; bytes of a negative number are inverted.
    q, end = source + 2, source + count
    flip = np.uint8(0 if load8(q) & np.uint8(128) else 255)
    sign = np.uint8(128)
    if flip:
        store8(out, np.uint8(45))
        out += 1
    first = out
    # Digits before the point from the left, groups of nine last; after it groups of nine first.
    for part in range(2):
        remaining = integer_digits if part == 0 else scale
        if part == 1:
            if out == first:
                store8(out, np.uint8(48))
                out += 1
            if remaining == 0:
                break
            store8(out, np.uint8(46))
            out += 1
        while remaining:
            digits = (remaining % 9 or 9) if part == 0 else min(remaining, 9)
            size = (digits + 1) // 2 if digits < 9 else 4
            if q + size > end:
                return JSON_BAD
            number = np.uint64(0)
            for _ in range(size):
                number = number << np.uint64(8) | np.uint64(load8(q) ^ sign ^ flip)
                sign = np.uint8(0)
                q += 1
            if number >= np.uint64(POWERS_OF_TEN[digits]):
                return JSON_BAD
            if part == 1 or out > first:
                out = put_number(out, number, digits)
            elif number:
                out = put_unsigned(out, number)
            remaining -= digits
    return out if q == end else JSON_BAD


@kernel
def _varying(at: int, end: int) -> Any:
    """(length, bytes of it) of a string: seven bits a byte, the lowest first; (-1, 0) where it leads beyond ``end``."""
    length = np.int64(0)
    for k in range(5):
        if at + k >= end:
            break
        byte = np.int64(load8(at + k))
        length |= (byte & 127) << (7 * k)
        if byte < 128:
            return (length, k + 1) if length <= end - at - k - 1 else (np.int64(-1), 0)
    return np.int64(-1), 0


@kernel
def _put_opaque(at: int, end: int, out: int, limit: int) -> Any:
    """A value of an SQL type that JSON has no type for: its type code, length and bytes."""
    if at >= end:
        return JSON_BAD
    kind = np.int64(load8(at))
    length, length_bytes = _varying(at + 1, end)
    if length < 0:
        return JSON_BAD
    source = at + 1 + length_bytes
    if kind == _NEWDECIMAL:
        return _put_decimal(source, length, out)
    if kind == _DATE_TYPE or kind == _TIME_TYPE or kind == _DATETIME_TYPE or kind == _TIMESTAMP_TYPE:  # noqa: PLR1714, SIM109
        return _put_moment(kind, source, length, out)
    return _put_base64(kind, source, length, out, limit)


@kernel
def put_scalar(kind: int, at: int, end: int, out: int, limit: int) -> Any:  # noqa: PLR0911 - one a type
    """The address after the text of anything but a container, or JSON_NO_ROOM, JSON_BAD."""
    # Strings and values of SQL types have their length before them.
    if kind == JSON_STRING:
        length, length_bytes = _varying(at, end)
        return JSON_BAD if length < 0 else put_string(at + length_bytes, length, out, limit)
    if kind == JSON_OPAQUE:
        return _put_opaque(at, end, out, limit)
    if kind > JSON_STRING:
        return JSON_BAD
    # Numbers have the size of their type, little-endian; literals one byte.
    size = 1 if kind == JSON_LITERAL else 2 if kind <= JSON_UINT16 else 4 if kind <= JSON_UINT32 else 8
    if at + size > end:
        return JSON_BAD
    # Literals: null, true and false, as little-endian numbers of four letters.
    if kind == JSON_LITERAL:
        literal = load8(at)
        if literal > 2:
            return JSON_BAD
        if literal == 2:
            store32(out, np.uint32(0x736C6166))
            store8(out + 4, np.uint8(101))
            return out + 5
        store32(out, np.uint32(0x65757274 if literal else 0x6C6C756E))
        return out + 4
    # Integers by width and sign. What is left is a double; JSON has neither infinity nor NaN.
    if kind == JSON_INT16:
        return put_signed(out, np.int64(np.int16(load16(at))))
    if kind == JSON_UINT16:
        return put_unsigned(out, np.uint64(load16(at)))
    if kind == JSON_INT32:
        return put_signed(out, np.int64(np.int32(load32(at))))
    if kind == JSON_UINT32:
        return put_unsigned(out, np.uint64(load32(at)))
    if kind == JSON_INT64:
        return put_signed(out, np.int64(load64(at)))
    if kind == JSON_UINT64:
        return put_unsigned(out, load64(at))
    bits = load64(at)
    return JSON_BAD if (bits >> np.uint64(52)) & np.uint64(0x7FF) == np.uint64(0x7FF) else put_double(out, bits)
