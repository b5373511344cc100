"""Columns of numbers and times.

Put here: a function a type. Not here: texts, bytes and documents (kinds.py), what a column is (columns.py).
"""

import struct
from collections.abc import Callable
from functools import partial
from random import Random

from tests.differential.columns import Column, Dialect, instant, mostly, one_of, shortest

# Numbers


def integer(name: str, bits: int, random: Random, _: Dialect) -> Column:
    low, high, sign = (
        (0, 2**bits - 1, " UNSIGNED") if random.random() < 0.5 else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, "")
    )
    edges = {low, high, 0, 1, low + 1, high // 2, high // 2 + 1, max(low, -1)}
    usual = partial(_between, low, high)
    odd = one_of(str(low - 1), str(high + 1), "'nonsense'")
    return Column(f"{name}{sign}", mostly(usual, *map(str, edges)), "{c}", int, odd)


def _between(low: int, high: int, random: Random) -> str:
    return str(random.randint(low, high) if random.random() < 0.5 else random.randint(max(low, -200), min(high, 200)))


def decimal(random: Random, _: Dialect) -> Column:
    precision = random.choice([1, 2, 5, 9, 10, 18, 19, 27, 30, 38, 39, 64, 65, random.randint(1, 65)])
    scale = random.choice([0, min(precision, 30), random.randint(0, min(precision, 30))])
    integer_digits = precision - scale

    def digits(random: Random) -> str:
        sign = random.choice(["", "-"])
        left = "".join(random.choices("0123456789", k=random.randint(0, integer_digits))) or "0"
        right = "".join(random.choices("0123456789", k=random.randint(0, scale))) or "0"
        return f"{sign}{left}.{right}"

    largest = f"{'9' * integer_digits or 0}.{'9' * scale or 0}"
    smallest = f"0.{'0' * (scale - 1)}1" if scale else "1"
    edges = (largest, f"-{largest}", smallest, f"-{smallest}", "0")
    return Column(
        f"DECIMAL({precision},{scale})", mostly(digits, *edges), "{c}", str, one_of(f"1{largest}", f"-1{largest}")
    )


def float_(random: Random, _: Dialect) -> Column:
    def any_bits(random: Random) -> str:
        value = struct.unpack("<f", random.randbytes(4))[0]
        return repr(value) if abs(value) < 3.4e38 else "0.1"

    edges = ("0", "-0e0", "0.1", "3.4028234e38", "-3.4028234e38", "1.17549435e-38", "1e-45", "16777217")
    return Column("FLOAT", mostly(any_bits, *edges), "{c} * 1e0", shortest, one_of("1e300", "-1e300"))


def double(random: Random, _: Dialect) -> Column:
    def any_bits(random: Random) -> str:
        value = struct.unpack("<d", random.randbytes(8))[0]
        return repr(value) if abs(value) < 1.7e308 else "0.1"

    edges = ("0", "-0e0", "0.1", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "9007199254740993")
    return Column("DOUBLE", mostly(any_bits, *edges), "{c}", float)


def bit(random: Random, _: Dialect) -> Column:
    size = random.choice([1, 7, 8, 9, 16, 17, 32, 63, 64])
    edges = ("0", str(2**size - 1), str(2 ** (size - 1)))
    return Column(f"BIT({size})", mostly(partial(_between, 0, 2**size - 1), *edges), "{c} + 0", int)


def year(random: Random, _: Dialect) -> Column:
    usual = mostly(lambda random: str(random.randint(1901, 2155)), "1901", "2155", "0")
    return Column("YEAR", usual, "{c}", int, one_of("1900", "2156", "'00'", "'zero'"))


# Times


def fraction(random: Random, digits: int) -> str:
    return f".{random.choice([0, 1, 10**digits - 1, random.randrange(10**digits)]):0{digits}}" if digits else ""


def day(random: Random) -> str:
    year = random.choice([1, 99, 999, 1000, 1582, 1969, 1970, 2000, 2024, 9999, random.randint(1, 9999)])
    return f"{year:04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def odd_day(random: Random) -> str:
    """A zero, partial or impossible date."""
    partial_text = f"{random.randint(0, 9999):04}-{random.randint(0, 12):02}-{random.randint(0, 31):02}"
    return random.choice(["0000-00-00", "2023-02-31", "2024-00-00", "2024-05-00", "0000-00-01", partial_text])


def clock(random: Random) -> str:
    edges = ["00:00:00", "23:59:59"]
    return random.choice([*edges, f"{random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}"])


def date(_: Random, __: Dialect) -> Column:
    return Column("DATE", lambda r: f"'{day(r)}'", "{c}", str, lambda r: f"'{odd_day(r)}'")


def datetime(random: Random, _: Dialect) -> Column:
    n = random.randint(0, 6)

    def text(days: Callable[[Random], str], random: Random) -> str:
        return f"'{days(random)} {clock(random)}{fraction(random, n)}'"

    return Column(f"DATETIME({n})", partial(text, day), "{c}", str, partial(text, odd_day))


def timestamp(random: Random, dialect: Dialect) -> Column:
    n = random.randint(0, 6)
    last = 2**32 - 1 if dialect.since(None, (11, 5)) else 2**31 - 1

    def seconds(random: Random) -> str:
        at = random.choice([1, 2, 86399, 86400, 951782400, 1711843200, 2**31 - 1, last, random.randint(1, last)])
        return f"FROM_UNIXTIME({at}{fraction(random, n) if at < last else ''})"

    return Column(
        f"TIMESTAMP({n})",
        seconds,
        "{c}",
        instant,
        one_of("'0000-00-00 00:00:00'", "'2024-00-01 00:00:00'", "'1969-01-01 00:00:00'"),
    )


def time(random: Random, _: Dialect) -> Column:
    n = random.randint(0, 6)

    def text(random: Random) -> str:
        hours = random.choice([0, 1, 23, 24, 255, 256, 512, 837, random.randrange(838)])
        sign = random.choice(["", "-"])
        return f"'{sign}{hours:02}:{random.randrange(60):02}:{random.randrange(60):02}{fraction(random, n)}'"

    edges = ("'838:59:59'", "'-838:59:59'", "'00:00:00'", f"'-00:00:00{'.' + '0' * (n - 1) + '1' if n else ''}'")
    return Column(f"TIME({n})", mostly(text, *edges), "{c}", str, one_of("'900:00:00'", "'-900:00:00'", "'xyz'"))
