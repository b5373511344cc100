from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.demo.server_rows import TEXT_CONNECTION, selection, server_rows, tables
from spark_jobs.errors import SourceError, Unsupported
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql

HUGE = str(2**64 - 1)


@pytest.fixture
def answer(database: Database) -> Any:
    def ask(declared: str, *values: str) -> pa.Table:
        database.execute("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
        database.execute(f"CREATE TABLE t (id INT PRIMARY KEY, v {declared})")
        for at, value in enumerate(values):
            database.execute(f"INSERT INTO t VALUES ({at}, {value})")
        with database.server.connect(**TEXT_CONNECTION) as connection:
            return server_rows(connection, selection(connection, database.name, "t")).sort_by("id")

    return ask


@pytest.mark.parametrize(
    "declared, values, arrow, text",
    [
        ("TINYINT", ["-128", "127", "NULL"], "int8", ["-128", "127", None]),
        ("TINYINT UNSIGNED", ["255"], "int16", ["255"]),
        ("MEDIUMINT UNSIGNED", ["16777215"], "int32", ["16777215"]),
        ("INT UNSIGNED", ["4294967295"], "int64", ["4294967295"]),
        ("BIGINT", [str(-(2**63))], "int64", [str(-(2**63))]),
        ("BIGINT UNSIGNED", [HUGE], "decimal128(20, 0)", [HUGE]),
        ("DECIMAL(12,2)", ["-0.10", "9999999999.99"], "decimal128(12, 2)", ["-0.10", "9999999999.99"]),
        ("DECIMAL(40,2)", ["1.10"], "string", ["1.10"]),
        ("FLOAT", ["0.1", "-3.4028234e38"], "float", ["0.1", "-3.4028235e+38"]),
        ("DOUBLE", ["0.1", "5e-324"], "double", ["0.1", "5e-324"]),
        ("BIT(12)", ["4095"], "int64", ["4095"]),
        ("BIT(64)", [HUGE], "decimal128(20, 0)", [HUGE]),
        ("YEAR", ["2155", "0"], "int16", ["2155", "0"]),
        ("DATE", ["'2024-02-29'"], "date32[day]", ["2024-02-29"]),
        ("DATETIME(6)", ["'1000-01-01 00:00:00.000001'"], "timestamp[us]", ["1000-01-01 00:00:00.000001"]),
        ("TIMESTAMP(3)", ["'2038-01-19 03:14:07.999'"], "timestamp[us, tz=UTC]", ["2038-01-19 03:14:07.999000Z"]),
        ("TIME(3)", ["'-00:00:00.001'", "'838:59:59'"], "string", ["-00:00:00.001", "838:59:59.000"]),
        ("VARCHAR(9) CHARACTER SET latin1", ["'Größe'"], "string", ["Größe"]),
        ("ENUM('a','b')", ["'b'"], "string", ["b"]),
        ("SET('a','b')", ["'b,a'", "''"], "string", ["a,b", ""]),
        ("JSON", ["'[1]'"], "string", ["[1]"]),
    ],
)
def test_types(answer: Any, declared: str, values: list[str], arrow: str, text: list[str | None]) -> None:
    column = answer(declared, *values).column("v")
    assert str(column.type) == arrow
    assert column.cast(pa.string()).to_pylist() == text


@pytest.mark.parametrize(
    "declared, value, expected",
    [("BINARY(4)", "x'6100'", b"a\0\0\0"), ("VARBINARY(4)", "x'ff00'", b"\xff\0"), ("BLOB", "''", b"")],
)
def test_bytes(answer: Any, declared: str, value: str, expected: bytes) -> None:
    assert answer(declared, value).column("v").to_pylist() == [expected]


@pytest.mark.parametrize(
    "declared, value, text",
    [
        ("DATE", "'2024-00-00'", "2024-00-00"),
        ("DATETIME(3)", "'0000-00-00'", "0000-00-00 00:00:00.000"),
        ("TIMESTAMP NULL", "0", "0000-00-00 00:00:00"),
    ],
)
def test_dates_that_are_none_stand_in_raw(answer: Any, declared: str, value: str, text: str) -> None:
    all_rows = answer(declared, value, "NULL").to_pylist()
    assert all_rows == [{"id": 0, "v": None, "_raw": f'{{"v": "{text}"}}'}, {"id": 1, "v": None, "_raw": None}]


def test_a_table_without_rows(answer: Any) -> None:
    assert answer("INT").num_rows == 0


def test_key_and_tables(database: Database) -> None:
    database.execute("CREATE TABLE `a ``b` (x INT, y INT, z INT, PRIMARY KEY (z, x))")
    database.execute("CREATE VIEW v AS SELECT 1 AS one")
    with database.server.connect(**TEXT_CONNECTION) as connection:
        assert tables(connection, database.name) == ["a `b"]
        assert selection(connection, database.name, "a `b").key == ("z", "x")


def test_what_is_not_compared_is_named(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, place GEOMETRY)")
    with database.server.connect(**TEXT_CONNECTION) as connection:
        with pytest.raises(Unsupported, match=rf"{database.name}\.t\.place: .*type geometry are not compared"):
            selection(connection, database.name, "t")
        with pytest.raises(SourceError, match=rf"no table {database.name}\.u"):
            selection(connection, database.name, "u")
