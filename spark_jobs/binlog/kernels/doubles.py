"""Digits of numbers: of integers, and the shortest of a double.

Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020): of all decimals that read back as the double
the shortest, and of these the closest. David Gay's dtoa, which servers use, finds the same digits.

Put here: numbers inside a text. Not here: columns of numbers (value_text.py).
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spark_jobs.binlog.kernels import memory
from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.kernels.compile import kernel
from spark_jobs.binlog.kernels.intrinsics import load8, store8, store16, store32

POWERS_OF_TEN = tuple(10**k for k in range(10))
"""Powers of ten by exponent: what a number with so many digits is below. An operator in a kernel would compile numba's
own power, whose code names the folder that numba is installed in: a wheel would depend on it."""


def _powers_of_ten() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """``[k - TEN_LOW]`` is 10^k rounded up to 128 bits, the highest of them set: high word, low word."""
    rows = []
    for k in range(_TEN_LOW, _TEN_HIGH + 1):
        above, below = 10 ** max(k, 0), 10 ** max(-k, 0)
        shift = 127 - ((above.bit_length() - 1) if k >= 0 else -below.bit_length())
        quotient = -((-above << max(shift, 0)) // (below << max(-shift, 0)))
        rows.append([quotient >> 64, quotient & ((1 << 64) - 1)])
    return np.array(rows, np.uint64)


_TEN_LOW, _TEN_HIGH = -292, 324
_TENS = _powers_of_ten()


def _high() -> Any:
    """An intrinsic ``high(a, b)``: the upper 64 of the 128 bits of a product."""

    @intrinsic
    def multiply(_typing: Any, _a: Any, _b: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            wide = ir.IntType(128)
            product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
            return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return multiply


high64: Any = memory.high64 if CHECKED else _high()


@kernel
def _rounded_to_odd(power: int, factor: Any) -> Any:
    """A power of ten times a factor, without the lower 128 bits; the lowest bit left tells of any in them."""
    above = high64(_TENS[power, 0], factor)
    below = _TENS[power, 0] * factor
    total = below + high64(_TENS[power, 1], factor)
    if total < below:
        above += np.uint64(1)
    return above | (np.uint64(1) if total > np.uint64(1) else np.uint64(0))


@kernel
def shortest(bits: Any) -> Any:
    """(digits, exponent): the value of a finite double that is not 0, its sign left out, is digits * 10^exponent."""
    # The value is number * 2^q. A whole number has its digits already.
    fraction = bits & np.uint64(0xFFFFFFFFFFFFF)
    biased: Any = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    two, four, forty = np.uint64(2), np.uint64(4), np.uint64(40)
    number = fraction | np.uint64(1 << 52) if biased else fraction
    q = (biased or 1) - 1075
    if -52 <= q <= 0 and number & ((np.uint64(1) << np.uint64(-q)) - np.uint64(1)) == 0:
        return number >> np.uint64(-q), np.int64(0)
    # The interval of numbers that round to this double, scaled by a power of ten.
    closer = fraction == 0 and biased > 1
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    shift = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    power = -k - _TEN_LOW
    lower = _rounded_to_odd(power, (four * number - two + np.uint64(closer)) << shift)
    value = _rounded_to_odd(power, (four * number) << shift)
    upper = _rounded_to_odd(power, (four * number + two) << shift)
    odd = number & np.uint64(1)
    lower += odd
    upper -= odd
    # One digit less where exactly one such number is inside, otherwise the nearer neighbour, ties to even.
    digits = value >> two
    if digits >= np.uint64(10):
        shorter = digits // np.uint64(10)
        down = lower <= forty * shorter
        up = forty * shorter + forty <= upper
        if down != up:
            return shorter + np.uint64(up), k + 1
    down = lower <= four * digits
    up = four * digits + four <= upper
    if down == up:
        middle = four * digits + two
        up = value > middle or (value == middle and (digits & np.uint64(1)) != np.uint64(0))
    return digits + np.uint64(up), k


@kernel
def put_number(out: int, number: Any, count: int) -> Any:
    """``count`` digits; returns the address after them."""
    for k in range(count):
        store8(out + count - 1 - k, np.uint8(np.uint64(48) + number % np.uint64(10)))
        number = number // np.uint64(10)
    return out + count


@kernel
def count_digits(number: Any) -> Any:
    count = 1
    while number >= np.uint64(10):
        number = number // np.uint64(10)
        count += 1
    return count


@kernel
def put_unsigned(out: int, number: Any) -> Any:
    return put_number(out, number, count_digits(number))


@kernel
def put_signed(out: int, number: int) -> Any:
    if number < 0:
        store8(out, np.uint8(45))
        return put_unsigned(out + 1, np.uint64(-number))
    return put_unsigned(out, np.uint64(number))


@kernel
def put_double(out: int, bits: Any) -> Any:
    """A finite double as JSON text has it (strings/dtoa.cc, my_gcvt); returns the address after it.

    There is no exponent from 1e-15 to 1e15, and beyond where there is a fraction; whole numbers end in ``.0``.
    """
    # The sign, and zero, which has no shortest digits.
    if bits >> np.uint64(63):
        store8(out, np.uint8(45))
        out += 1
    if bits << np.uint64(1) == np.uint64(0):
        store32(out, np.uint32(0x302E30))  # 0.0
        return out + 3
    # The fewest digits that read back as this number, without zeros at their end.
    digits, exponent = shortest(bits & np.uint64(0x7FFFFFFFFFFFFFFF))
    while digits % np.uint64(10) == np.uint64(0):
        digits = digits // np.uint64(10)
        exponent += 1
    count = count_digits(digits)
    point = count + exponent  # digits before the point
    # Very small and very large numbers: one digit, a point, the others, an exponent.
    if point < -14 or (point > 15 and count <= point):
        end = put_number(out + 1, digits, count)
        store8(out, load8(out + 1))
        if count > 1:
            store8(out + 1, np.uint8(46))
            out = end
        else:
            out += 1
        store8(out, np.uint8(101))
        return put_signed(out + 1, point - 1)
    # Fractions: zeros between the point and the digits.
    if point <= 0:
        store16(out, np.uint16(0x2E30))  # 0.
        for k in range(-point):
            store8(out + 2 + k, np.uint8(48))
        return put_number(out + 2 - point, digits, count)
    # Whole numbers: zeros up to the point, and one behind it.
    if count <= point:
        out = put_number(out, digits, count)
        for _ in range(point - count):
            store8(out, np.uint8(48))
            out += 1
        store16(out, np.uint16(0x302E))  # .0
        return out + 2
    # Others have the point among their digits, which make room for it.
    end = put_number(out + 1, digits, count)
    for k in range(point):
        store8(out + k, load8(out + k + 1))
    store8(out + point, np.uint8(46))
    return end
