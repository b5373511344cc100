"""The first and the last values of every type, and those around its odd ones, as SQL.

Put here: a line a type. Not here: random values (kinds.py), or what is compared.
"""

from collections.abc import Iterator, Sequence

from tests.differential.columns import Dialect

_TEXTS = ["''", "'a '", "REPEAT('z', {n})", "'\\0'", "' '"]
_BYTES = ["''", "x'00'", "x'ff00'", "REPEAT(x'ff', {n})", "REPEAT(x'00', {n})"]
_LABELS = ", ".join(f"'l{number}'" for number in range(64))


def _integers(name: str, bits: int) -> Iterator[tuple[str, list[str]]]:
    half = 1 << bits - 1
    yield name, [str(-half), str(half - 1), "0", "-1", "1"]
    yield f"{name} UNSIGNED", ["0", str(2 * half - 1), str(half), str(half - 1)]
    yield f"{name} ZEROFILL", ["0", str(2 * half - 1), "7"]


def _numbers() -> Iterator[tuple[str, list[str]]]:
    for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)):
        yield from _integers(name, bits)
    nines = "9" * 65
    yield "DECIMAL(65,0)", [nines, f"-{nines}", "0", "-1", "999999999", "1000000000"]
    yield "DECIMAL(65,30)", [f"{nines[:35]}.{nines[:30]}", f"-{nines[:35]}.{nines[:30]}", "-0." + "0" * 29 + "1", "0"]
    yield "DECIMAL(5,5)", ["0.99999", "-0.99999", "-0.00001", "0"]
    yield "DECIMAL(10,2) UNSIGNED ZEROFILL", ["99999999.99", "0", "1.5"]
    yield "FLOAT", ["3.402823466E+38", "-3.402823466E+38", "1.175494351E-38", "-0e0", "0.1", "16777217"]
    yield "FLOAT(7,3)", ["9999.999", "-9999.999", "0.001"]
    yield "DOUBLE", ["1.7976931348623157E+308", "-1.7976931348623157E+308", "2.2250738585072014E-308", "-0e0", "0.1"]
    yield "BIT(1)", ["b'0'", "b'1'"]
    yield "BIT(64)", ["0", "18446744073709551615", "9223372036854775808", "255"]
    yield "BIT(17)", ["0", "131071", "65536"]


def _times() -> Iterator[tuple[str, list[str]]]:
    days = ["0000-00-00", "0000-01-01", "0001-01-01", "1000-01-01", "1969-12-31", "9999-12-31", "2024-02-29"]
    partial = ["2024-00-10", "2024-05-00", "2024-00-00"]
    yield "DATE", [f"'{day}'" for day in [*days, *partial]]
    yield "YEAR", ["0", "1901", "2155", "1970"]
    for digits in range(7):
        fraction = "." + "9" * digits if digits else ""
        smallest = "." + "1".rjust(digits, "0") if digits else ""
        moments = [f"'{day} {clock}'" for day in [*days, *partial] for clock in ("00:00:00", f"23:59:59{fraction}")]
        yield f"DATETIME({digits})", moments
        yield (
            f"TIMESTAMP({digits}) NULL",
            [
                *("'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", f"'2038-01-19 03:14:07{fraction}'"),
                *("'2000-02-29 00:00:00'", f"'1970-01-01 00:00:01{smallest}'", "'2000-03-01 00:00:00'"),
            ],
        )
        yield (
            f"TIME({digits})",
            [
                *("'-838:59:59'", "'838:59:59'", "'00:00:00'", f"'-00:00:00{smallest}'", f"'-00:00:01{fraction}'"),
                *(f"'-23:59:59{fraction}'", f"'24:00:00{smallest}'", f"'-100:00:00{smallest}'"),
            ],
        )


def _strings() -> Iterator[tuple[str, list[str]]]:
    for name, length in (
        ("CHAR", 255),
        ("CHAR", 1),
        ("VARCHAR", 1),
        ("VARCHAR", 63),
        ("VARCHAR", 64),
        ("VARCHAR", 300),
    ):
        yield f"{name}({length}) CHARACTER SET utf8mb4", [value.format(n=length) for value in _TEXTS]
    for name, length in (("BINARY", 255), ("BINARY", 1), ("VARBINARY", 255), ("VARBINARY", 256)):
        yield f"{name}({length})", [value.format(n=length) for value in _BYTES]
    yield "ENUM('', 'a', 'b')", ["1", "2", "3", "'none'"]
    yield f"SET({_LABELS})", ["0", "1", "18446744073709551615", "9223372036854775808"]


def _long() -> Iterator[tuple[str, list[str]]]:
    for prefix, length in (("TINY", 255), ("", 65535), ("MEDIUM", 65536), ("LONG", 1 << 20)):
        yield f"{prefix}BLOB", [value.format(n=length) for value in _BYTES]
        yield f"{prefix}TEXT CHARACTER SET latin1", [value.format(n=length) for value in _TEXTS]


def _special(dialect: Dialect) -> Iterator[tuple[str, list[str]]]:
    """Documents, shapes, and what one of the two kinds of servers has alone."""
    numbers = "[18446744073709551615, -9223372036854775808, 0.1, 1e308, -0.0, 65536, 32768]"
    yield "JSON", ["'null'", "'{}'", f"'{numbers}'", "'\"\"'", '\'{"a": {"": [true, false, null]}}\'', "'\"\\\\n\"'"]
    yield "POINT", ["ST_GeomFromText('POINT(0 0)')", "ST_GeomFromText('POINT(-1.5 1e300)')"]
    yield "GEOMETRY", ["ST_GeomFromText('LINESTRING(0 0, 1 1)')", "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2))')"]
    if dialect.vendor == "mariadb":
        yield "UUID", ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]
        yield "INET6", ["'::'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'::ffff:1.2.3.4'"]
        yield "INET4", ["'0.0.0.0'", "'255.255.255.255'"]
        yield "VARCHAR(300) COMPRESSED", ["''", "'a'", "REPEAT('z', 300)"]
        yield "BLOB COMPRESSED", ["''", "x'00'", "REPEAT('z', 60000)"]


def edge_tables(dialect: Dialect) -> Iterator[tuple[str, str, list[str]]]:
    """Name, columns, and the values of rows: of each type every value, and NULL."""
    groups = [list(_numbers()), list(_times()), list(_strings()), list(_long()), list(_special(dialect))]
    for nth, columns in enumerate(groups):
        declared = ", ".join(f"c{at} {kind}" for at, (kind, _) in enumerate(columns))
        yield (
            f"edges{nth}",
            f"id INT PRIMARY KEY, n INT, {declared}",
            list(_value_rows([values for _, values in columns])),
        )


def _value_rows(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    for at in range(max(map(len, columns)) + 1):
        cells = [[*values, "NULL"][at % (len(values) + 1)] for values in columns]
        yield f"({at}, {at}, {', '.join(cells)})"
