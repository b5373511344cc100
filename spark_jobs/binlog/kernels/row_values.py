"""Values of rows that take arithmetic: decimals, dates and times, slots of zeros.

Put here: one value from the wire to its slot. Not here: values that are copied (row_steps.py), text (value_text.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import kernel, part
from spark_jobs.binlog.kernels.intrinsics import (
    load8,
    load16,
    load32,
    load32_big,
    load64_big,
    store8,
    store16,
    store32,
    store64,
)

_MARK_64 = np.uint64(1 << 63)


@part
def zero_slot(slot: int, width: int) -> Any:
    """Zeroes a slot of ``width`` bytes."""
    if width == 8:
        store64(slot, np.uint64(0))
    elif width == 4:
        store32(slot, np.uint32(0))
    elif width == 2:
        store16(slot, np.uint16(0))
    elif width == 16:
        store64(slot, np.uint64(0))
        store64(slot + 8, np.uint64(0))
    else:
        for k in range(width):
            store8(slot + k, np.uint8(0))


@kernel
def read_decimal_18(q: int, slot: int, lead: int, groups: int, tail: int, tail_scale: int, lead_scale: int) -> Any:
    """DECIMAL of at most 18 digits (decimal.cc, bin2decimal) into 16 bytes; False where a group has too many digits."""
    # The sign is the inverted first bit; groups of a negative number are inverted.
    negative = (load8(q) & np.uint8(128)) == 0
    flip = np.uint64(0xFFFFFFFF) if negative else np.uint64(0)
    sign = np.uint64(0x80000000)
    value = np.int64(0)
    good: Any = True
    # A shorter group, whole groups of nine digits in four bytes, and a shorter one.
    if lead:
        part = ((np.uint64(load32_big(q)) ^ sign) ^ flip) >> np.uint64(32 - 8 * lead)
        value = np.int64(part)
        good = value < lead_scale
        sign = np.uint64(0)
        q += lead
    for _ in range(groups):
        part = (np.uint64(load32_big(q)) ^ sign) ^ flip
        value = value * 1000000000 + np.int64(part)
        good &= part < np.uint64(1000000000)
        sign = np.uint64(0)
        q += 4
    if tail:
        part = ((np.uint64(load32_big(q)) ^ sign) ^ flip) >> np.uint64(32 - 8 * tail)
        value = value * tail_scale + np.int64(part)
        good &= np.int64(part) < tail_scale
    if negative:
        # Sign-extended to 128 bits, as Arrow has decimals.
        value = -value
    store64(slot, np.uint64(value))
    store64(slot + 8, np.uint64(value >> 63))
    return good


@kernel
def read_decimal_38(q: int, slot: int, lead: int, groups: int, tail: int, tail_scale: int, lead_scale: int) -> Any:
    """DECIMAL of at most 38 digits into 16 bytes, as read_decimal_18; False where a group has too many digits."""
    # The sign is the inverted first bit; groups of a negative number are inverted.
    negative = (load8(q) & np.uint8(128)) == 0
    flip = np.uint64(0xFFFFFFFF) if negative else np.uint64(0)
    sign = np.uint64(0x80000000)
    mask = np.uint64(0xFFFFFFFF)
    low = np.uint64(0)
    high = np.uint64(0)
    good: Any = True
    for k in range(groups + 2):
        if k == 0:
            size, scale = lead, lead_scale
        elif k <= groups:
            size, scale = 4, 1000000000
        else:
            size, scale = tail, tail_scale
        if size == 0:
            continue
        part = ((np.uint64(load32_big(q)) ^ sign) ^ flip) >> np.uint64(32 - 8 * size)
        good &= np.int64(part) < scale
        sign = np.uint64(0)
        q += size
        # 128 bits times the group's scale, in halves of 32 bits, so that carries stay in 64.
        factor = np.uint64(scale)
        first = (low & mask) * factor + part
        second = (low >> np.uint64(32)) * factor + (first >> np.uint64(32))
        low = (second << np.uint64(32)) | (first & mask)
        high = high * factor + (second >> np.uint64(32))
    # Two's complement.
    if negative:
        low = ~low + np.uint64(1)
        high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
    store64(slot, low)
    store64(slot + 8, high)
    return good


@kernel
def read_date(q: int, slot: int, month_start: int, month_length: int) -> Any:
    """DATE: day, month, year in 5, 4, 15 bits. False (and the mark in the slot) where no calendar has it."""
    packed = np.int64(load16(q)) | np.int64(load8(q + 2)) << 16
    day = packed & 31
    month = (packed >> 5) & 15
    year = packed >> 9
    if month <= 12 and year <= 9999 and 0 < day <= np.int64(load8(month_length + year * 13 + month)):
        store32(slot, np.uint32(np.int64(np.int32(load32(month_start + 4 * (year * 13 + month)))) + day))
        return True
    store32(slot, np.uint32(np.int64(0x80000000) + packed))
    return False


@kernel
def read_datetime(q: int, slot: int, fraction_size: int, unit: int, month_start: int, month_length: int) -> Any:
    """DATETIME(f) (my_time.cc, my_datetime_packed_from_binary). 0: in the slot, 1: marked there, 2: no value."""
    bits = load64_big(q)
    packed = np.int64(bits >> np.uint64(24)) - 0x8000000000
    fraction = np.int64((bits & np.uint64(0xFFFFFF)) >> np.uint64(24 - 8 * fraction_size)) * unit
    if packed < 0 or fraction > 999999:
        return 2
    # Fields by their bits: year and month 17, day 5, hour 5, minute 6, second 6.
    month = packed >> 22
    day = (packed >> 17) & 31
    hour = (packed >> 12) & 31
    minute = (packed >> 6) & 63
    second = packed & 63
    if 0 < day <= np.int64(load8(month_length + month)) and hour < 24 and minute < 60 and second < 60:
        days = np.int64(np.int32(load32(month_start + 4 * month))) + day
        seconds = days * 86400 + hour * 3600 + minute * 60 + second
        store64(slot, np.uint64(seconds * 1000000 + fraction))
        return 0
    # What no timestamp can hold is kept as it is, with a mark, and becomes an exact text.
    store64(slot, _MARK_64 | np.uint64(packed << 20 | fraction))
    return 1


@kernel
def read_timestamp(q: int, slot: int, fraction_size: int, unit: int) -> Any:
    """TIMESTAMP(f): seconds since 1970, big-endian, then the fraction.

    Codes as of read_datetime; second 0 is no time.
    """
    bits = load64_big(q)
    seconds = np.int64(bits >> np.uint64(32))
    fraction = np.int64(((bits >> np.uint64(8)) & np.uint64(0xFFFFFF)) >> np.uint64(24 - 8 * fraction_size)) * unit
    if fraction > 999999:
        return 2
    if seconds == 0:
        store64(slot, _MARK_64 | np.uint64(fraction))
        return 1
    store64(slot, np.uint64(seconds * 1000000 + fraction))
    return 0


@kernel
def read_time(q: int, slot: int, size: int, fraction_size: int, unit: int) -> Any:
    """TIME(f): the slot's magnitude is hour, minute, second in 10, 6, 6 bits, then microseconds in 24."""
    number = np.int64(load64_big(q) >> np.uint64(64 - 8 * size)) - (np.int64(0x800000) << (8 * fraction_size))
    magnitude = abs(number)
    clock = magnitude >> (8 * fraction_size)
    fraction = (magnitude & ((np.int64(1) << (8 * fraction_size)) - 1)) * unit
    packed = clock << 24 | fraction
    store64(slot, np.uint64(-packed if number < 0 else packed))
    return (clock & 63) < 60 and ((clock >> 6) & 63) < 60 and fraction <= 999999 and clock < (1 << 22)
