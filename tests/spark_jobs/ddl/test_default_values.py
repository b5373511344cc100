"""Values of defaults, by themselves and beside those of servers."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pymysql
import pytest
from pymysql.cursors import Cursor

from spark_jobs.binlog import Column, Moment
from spark_jobs.ddl.columns import DeclaredColumn, declared_column, words_of
from spark_jobs.ddl.default_values import Fill, fill_of, on_server_default, with_default
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import Unsupported
from tests.fix_servers import Servers


def column(text: str) -> DeclaredColumn:
    name, *rest = words_of(text)
    return declared_column(name.text, rest)


@pytest.mark.parametrize(
    "text, fill",
    [
        ("c INT", None),
        ("c INT DEFAULT NULL", None),
        ("c INT NOT NULL", "0"),
        ("c INT DEFAULT -5", "-5"),
        ("c INT DEFAULT '7'", "7"),
        ("c TINYINT(1) DEFAULT TRUE", "1"),
        ("c BIT(5) DEFAULT b'101'", "5"),
        ("c BIGINT DEFAULT 0x10", "16"),
        ("c DECIMAL(10,2) DEFAULT 1.5", "'1.50'"),
        ("c DECIMAL(10,2) DEFAULT .5", "'0.50'"),
        ("c DECIMAL(10,2) DEFAULT -.5", "'-0.50'"),
        ("c DECIMAL(10,2) NOT NULL", "'0.00'"),
        ("c DOUBLE DEFAULT -1e3", "'-1E+3'"),
        ("c VARCHAR(9) DEFAULT 'it''s'", "'it\\'s'"),
        ("c VARCHAR(9) DEFAULT 5", "'5'"),
        ("c CHAR(9) DEFAULT 'a  '", "'a'"),
        ("c VARCHAR(9) NOT NULL", "''"),
        ("c VARBINARY(9) DEFAULT 'ab'", "X'6162'"),
        ("c BINARY(4) DEFAULT 'ab'", "X'61620000'"),
        ("c VARBINARY(9) DEFAULT 0x4100", "X'4100'"),
        ("c ENUM('a','b') NOT NULL", "'a'"),
        ("c ENUM('a','b') DEFAULT 'b'", "'b'"),
        ("c SET('a','b') DEFAULT 'b,a'", "'a,b'"),
        ("c DATE DEFAULT '2024-02-29'", "'2024-02-29'"),
        ("c DATETIME(3) DEFAULT '2024-02-29 01:02:03.5'", "'2024-02-29 01:02:03.500000'"),
        ("c DATETIME DEFAULT '2024-02-29'", "'2024-02-29 00:00:00'"),
        ("c TIME(2) DEFAULT '-10:00:00'", "'-10:00:00.00'"),
        ("c TIME NOT NULL", "'00:00:00'"),
        ("c YEAR DEFAULT 1999", "1999"),
        ("c JSON", None),
        ("c TEXT NOT NULL", "''"),
        ("c DECIMAL(65,30) NOT NULL DEFAULT 1", f"'1.{'0' * 30}'"),
        (f"c DECIMAL(65,30) DEFAULT {'9' * 35}.{'9' * 30}", f"'{'9' * 35}.{'9' * 30}'"),
        ("c DECIMAL(5,1) DEFAULT '-0'", "'0.0'"),
        ("c FLOAT(7,2) DEFAULT 1.239", "'1.24'"),
        ("c DOUBLE(10,3) DEFAULT -2.0005", "'-2.001'"),
        ("c DOUBLE(10,3) DEFAULT 1.239", "'1.2389999999999999'"),
        ("c VARCHAR(9) DEFAULT 007", "'7'"),
        ("c CHAR(9) DEFAULT 0010", "'10'"),
        ("c TIME DEFAULT '-00:00:00'", "'00:00:00'"),
        ("c TIME DEFAULT '012:00:00'", "'12:00:00'"),
        ("c TIME(1) DEFAULT '-00:00:00.1'", "'-00:00:00.1'"),
        ("c BIT(8) DEFAULT '5'", "53"),
        ("c YEAR DEFAULT '0000'", "0"),
    ],
)
def test_older_rows_get_what_the_server_gives_them(text: str, fill: str | None) -> None:
    assert fill_of(column(text)) == (fill and Fill(fill))


HALF_PAST = Moment(1_900_000_000, 123_456, "+05:30")  # 2030-03-17 17:46:40 UTC


@pytest.mark.parametrize(
    "text, fill",
    [
        ("c TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "TIMESTAMP'2030-03-17 17:46:40Z'"),
        ("c TIMESTAMP NOT NULL DEFAULT current_timestamp() ON UPDATE NOW()", "TIMESTAMP'2030-03-17 17:46:40Z'"),
        ("c TIMESTAMP(3) DEFAULT NOW(3)", "TIMESTAMP'2030-03-17 17:46:40.123000Z'"),
        ("c TIMESTAMP(6) DEFAULT LOCALTIMESTAMP(6)", "TIMESTAMP'2030-03-17 17:46:40.123456Z'"),
        ("c TIMESTAMP(6) DEFAULT NOW()", "TIMESTAMP'2030-03-17 17:46:40.123456Z'"),  # as MariaDB takes it
        ("c DATETIME DEFAULT LOCALTIME", "'2030-03-17 23:16:40'"),
        ("c DATETIME(2) DEFAULT CURRENT_TIMESTAMP(2)", "'2030-03-17 23:16:40.120000'"),
        ("c TIMESTAMP DEFAULT '2024-02-29 03:00:00'", "TIMESTAMP'2024-02-28 21:30:00Z'"),
        ("c TIMESTAMP(1) DEFAULT '2024-02-29 12:00:00.5'", "TIMESTAMP'2024-02-29 06:30:00.500000Z'"),
        ("c DATETIME DEFAULT '2024-02-29 12:00:00'", "'2024-02-29 12:00:00'"),
        ("c TIMESTAMP NULL", None),
    ],
)
def test_older_rows_get_the_time_of_the_statement(text: str, fill: str | None) -> None:
    assert fill_of(column(text), HALF_PAST) == (fill and Fill(fill))


def test_a_timestamp_of_zeros_is_no_time_of_a_zone() -> None:
    assert fill_of(column("c TIMESTAMP NOT NULL DEFAULT 0"), HALF_PAST) == Fill("NULL", "0000-00-00 00:00:00")


@pytest.mark.parametrize(
    "text, moment, reason",
    [
        ("c TIMESTAMP(6) DEFAULT NOW(6)", Moment(1, None, "UTC"), "the fraction of its second is not in the log"),
        ("c DATETIME DEFAULT NOW()", Moment(1, 2, "SYSTEM"), r"time zone is the server's own \(SYSTEM\)"),
        ("c DATETIME DEFAULT NOW()", Moment(1, 2), "session's time zone is not in the log"),
        ("c TIMESTAMP DEFAULT '2024-02-29 12:00:00'", Moment(1, 2, "system"), r"zone is the server's own \(SYSTEM\)"),
        ("c DATETIME DEFAULT NOW()", Moment(1, 2, "Europe/Atlantis"), "time zone 'Europe/Atlantis' is not known here"),
        ("c DATE DEFAULT (CURRENT_DATE)", HALF_PAST, "it is no constant"),
    ],
)
def test_a_time_that_the_log_does_not_tell_is_refused(text: str, moment: Moment, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        fill_of(column(text), moment)


@pytest.mark.parametrize(
    "text, exact",
    [
        ("c DATE NOT NULL", "0000-00-00"),
        ("c DATETIME NOT NULL", "0000-00-00 00:00:00"),
        ("c DATETIME(3) NOT NULL DEFAULT '0000-00-00 00:00:00'", "0000-00-00 00:00:00.000"),
        ("c DATETIME DEFAULT '0000-00-00'", "0000-00-00 00:00:00"),
        ("c TIMESTAMP NOT NULL DEFAULT 0", "0000-00-00 00:00:00"),
        ("c DATE DEFAULT '0000-00-00'", "0000-00-00"),
    ],
)
def test_older_rows_get_a_date_of_zeros_as_its_text(text: str, exact: str) -> None:
    assert fill_of(column(text)) == Fill("NULL", exact)
    assert with_default(column(text)).default is None


@pytest.mark.parametrize(
    "text, reason",
    [
        ("c DATETIME DEFAULT CURRENT_TIMESTAMP", "it is no constant"),
        ("c INT DEFAULT (1 + 1)", "it is no constant"),
        ("c INT AUTO_INCREMENT UNIQUE", "it counts by itself"),
        ("c SERIAL", "it counts by itself"),
        ("c INT GENERATED ALWAYS AS (id + 1) STORED", "it is computed"),
        ("c INT AS (id + 1)", "it is computed"),
        ("c DECIMAL(5,1) DEFAULT 1.25", "it is rounded"),
        ("c INT DEFAULT 1.5", "it is rounded"),
        ("c DATE DEFAULT '24-2-29'", "it is no date"),
        ("c DATE DEFAULT '2023-02-29'", "it is no date of the calendar"),
        ("c TIMESTAMP NOT NULL", "no constant of type timestamp is known here"),
        ("c TIMESTAMP NOT NULL DEFAULT '2024-02-29 00:00:00'", "no constant of type timestamp is known here"),
        ("c ENUM('a','b') DEFAULT 'A'", "none of the labels"),
        ("c ENUM('a','b') DEFAULT 2", "none of the labels"),
        ("c YEAR DEFAULT 99", "no year of four digits"),
        ("c YEAR DEFAULT '0'", "no year of four digits"),
        ("c BIT(64) DEFAULT -1", "bits are those of another number"),
        ("c DOUBLE DEFAULT -0e0", "negative zero"),
        ("c DOUBLE DEFAULT '1_0'", "is no number"),
        ("c FLOAT(4,2) DEFAULT 100", "beyond the numbers"),
        ("c TIME DEFAULT '838:59:59.5'", "no time as it is written"),
        ("c TIME(1) DEFAULT '838:59:59.5'", "beyond the times"),
        ("c TEXT DEFAULT ''", "MySQL drops an empty default"),
        ("c BLOB DEFAULT ''", "MySQL drops an empty default"),
        ("c VARBINARY(9) DEFAULT 'ü'", "character set"),
        ("c JSON NOT NULL", "no constant of type json"),
    ],
)
def test_what_only_the_server_knows_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason):
        fill_of(column(text))


@pytest.mark.parametrize(
    "text, fallback, extra, is_mariadb, expected",
    [
        ("c INT", None, "", False, "NULL"),
        ("c INT NOT NULL", None, "", False, "0"),
        ("c INT", "7", "", False, "7"),
        ("c VARCHAR(9)", "NULL", "", False, "'NULL'"),
        ("c VARCHAR(9)", "it's", "", False, "'it\\'s'"),
        ("c BIT(4)", "b'101'", "", False, "5"),
        ("c DATETIME", "CURRENT_TIMESTAMP", "on update CURRENT_TIMESTAMP", False, None),
        ("c DATETIME", "2024-01-02 03:04:05", "", False, "'2024-01-02 03:04:05'"),
        ("c VARCHAR(36)", "uuid()", "DEFAULT_GENERATED", False, None),
        ("c BINARY(2)", "0x61", "", False, None),
        ("c INT NOT NULL", None, "auto_increment", False, None),
        ("c INT", "NULL", "", True, "NULL"),
        ("c VARCHAR(9)", "'NULL'", "", True, "'NULL'"),
        ("c INT", "7", "", True, "7"),
        ("c INT", "(1 + 1)", "", True, None),
        ("c TEXT", "''", "", True, "''"),
        ("c FLOAT", "1.5", "", False, "'1.5'"),
        ("c FLOAT", "1.23457e17", "", False, None),
        ("c DECIMAL(65,30)", f"1.{'0' * 30}", "", False, f"'1.{'0' * 30}'"),
        ("c DATETIME", "current_timestamp()", "", True, None),
    ],
)
def test_a_default_as_information_schema_has_it(
    text: str, fallback: str | None, extra: str, is_mariadb: bool, expected: str | None
) -> None:
    default = on_server_default(column(text).column, {"fallback": fallback, "extra": extra}, is_mariadb=is_mariadb)
    assert (default.default, default.computed) == (expected, False)


@pytest.mark.parametrize("extra", ["VIRTUAL GENERATED", "STORED GENERATED", "STORED GENERATED INVISIBLE"])
def test_a_column_that_is_computed_has_no_default(extra: str) -> None:
    column = on_server_default(Column("c", 3), {"fallback": None, "extra": extra}, is_mariadb=True)
    assert (column.default, column.computed) == (None, True)


TYPES = (
    *(
        "TINYINT",
        "SMALLINT",
        "MEDIUMINT",
        "INT",
        "BIGINT",
        "INT UNSIGNED",
        "BIGINT UNSIGNED",
        "INT(5) ZEROFILL",
        "BOOL",
    ),
    *("DECIMAL(10,2)", "DECIMAL(65,30)", "DECIMAL(38,0)", "DECIMAL(40,2) UNSIGNED"),
    *("FLOAT", "FLOAT(7,2)", "DOUBLE", "DOUBLE(10,3)", "FLOAT(30)", "FLOAT(8,0)", "BIT(1)", "BIT(8)", "BIT(64)"),
    *("CHAR(12)", "VARCHAR(40)", "VARCHAR(40) CHARACTER SET latin1", "CHAR(3)", "BINARY(5)", "VARBINARY(40)"),
    *("DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP NULL", "TIMESTAMP(2) NULL", "TIME", "TIME(2)", "YEAR"),
    *("ENUM('a','b','2','0')", "ENUM('', 'ä', 'B ')", "SET('a','b','2')", "SET('x','ö')", "TEXT", "BLOB", "JSON"),
)
LITERALS = (
    *("NULL", "0", "1", "-1", "+5", "- 1", "007", "0010", "127", "99", "70", "69", "1999", "2155", "2156", "00"),
    *("1.5", "-2.5", "1.239", "-2.0005", "0.125", "1.005", "1e2", "-1e3", "1.5e-3", ".5", "5.", "-0", "-0.0", "-0e0"),
    *("123456789012345678", "18446744073709551615", "18446744073709551616", "1e20", "16777217", "0.1", "1e-50"),
    *("12345678901234567890123456789012345.5", "1.123456789012345678901234567890", "100000000000000000000000000000"),
    *("0x41", "x'41'", "X'4a4b'", "0x0", "b'101'", "0b1", "b'0'", "x'00'", "0x3130", "TRUE", "FALSE", "true"),
    *("''", "'0'", "'00'", "'0000'", "'7'", "' 7'", "'7 '", "'007'", "'-5'", "'1.5'", "'1.50'", "'1e2'", "'-0'"),
    *("'-0.0'", "'1_0'", "'NaN'", "'Infinity'", "'0x10'", "'TRUE'", "'99'", "'1999'", "'70'", "'.5'", "'+5'", "'5.'"),
    *("'a'", "'A'", "'a '", "'b'", "'2'", "'1'", "'a,b'", "'b,a'", "'b,a,a'", "',a'", "'ä'", "'Ä'", "'B'", "'x,ö'"),
    *("'it''s'", r"'it\'s'", r"'a\\b'", r"'a\nb'", r"'a\%b'", r"'a\_b'", r"'a\qb'", r"'a\0b'", r"'a\Zb'", r"'\t'"),
    *('"a"', '"it\'s"', "'${x}'", "'{}'", "'a' 'b'", "N'a'", "n'b'", "_utf8mb4'a'", "_latin1'a'", "_binary'a'"),
    *("'2024-02-29'", "'2024-2-9'", "'24-02-29'", "'20240229'", "20240229", "240229", "'240229'", "'2024/02/29'"),
    *("'2024-02-29 01:02:03'", "'2024-02-29 1:2:3'", "'2024-02-29T01:02:03'", "'2024-02-29 01:02:03.5'"),
    *("'2024-02-29 01:02:03.456'", "'2024-02-29 01:02:03.4567'", "'2024-02-29 23:59:59.9999'", "20240229010203"),
    *("'20240229010203'", "'2024-02-29 01:02'", "'2024-02-29 '", "' 2024-02-29'", "'2024-02-29 01:02:03+02:00'"),
    *("'0000-00-00'", "'0000-00-00 00:00:00'", "'0000-00-00 00:00:00.000'", "'2024-00-00'", "'2023-02-29'", "'000'"),
    *("'1970-01-01 00:00:01'", "'9999-12-31'", "'2038-01-19 03:14:08'", "'0001-01-01'", "DATE'2024-02-29'"),
    *("TIMESTAMP'2024-02-29 01:02:03'", "TIME'10:11:12'", "'10:11:12'", "'-10:11:12'", "'012:00:00'", "'-00:00:00'"),
    *("'838:59:59'", "'839:00:00'", "'10:11:12.5'", "'10:11:12.55'", "'10:11:12.555'", "'23:59:59.999'", "'10:11'"),
    *("'101112'", "101112", "'1 10:11:12'", "'-00:00:00.1'", "'838:59:59.5'", "'00:00:60'", "'1:2:3'", "'-000:00:00'"),
    *(
        "CURRENT_TIMESTAMP",
        "NOW()",
        "CURRENT_TIMESTAMP(2)",
        "NOW(3)",
        "LOCALTIME",
        "(1 + 1)",
        "('a')",
        "('2024-02-29')",
    ),
    *("(CURRENT_DATE)", "('[1]')", "'[1, 2]'", "'null'", "CURRENT_USER", "(UUID())", "(-5)", "(007)", "(1.239)"),
)
_DECLARED = """
SELECT COLUMN_DEFAULT, EXTRA, NUMERIC_SCALE, NUMERIC_PRECISION FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = 'default_values' AND TABLE_NAME = 't' AND COLUMN_NAME = 'c'
"""
CONVERTED = {
    "FLOAT(7,2)": ("1.239", "1.5", "-2.0005", "0.125", "1.005", "007"),
    "DOUBLE(10,3)": ("1.239", "-2.0005", "1e2", "'1.5'"),
    "FLOAT": ("16777217", "0.1", "-0", "-0e0"),
    "DECIMAL(65,30)": ("1", "1.5", "-0", "'1e2'", "-.5"),
    "VARCHAR(40)": ("007", "0", "123456789012345678", "18446744073709551616", "1.50", "-5", "'007'"),
    "CHAR(12)": ("0010", "'a '"),
    "TIME": ("'-00:00:00'", "'012:00:00'", "'-012:00:00'", "'838:59:59'", "101112"),
    "TIME(2)": ("'-00:00:00.1'", "'-000:00:00'"),
    "YEAR": ("'0'", "'0000'", "0", "70", "1999"),
    "BIT(64)": ("'a'", "-1", "b'101'", "0x41"),
    "DATETIME(3)": ("NOW()", "NOW(3)", "'2024-02-29'"),
    "TIMESTAMP NULL": ("0", "'2024-02-29 01:02:03'"),
}
"""Some of them that are not what they look like."""
EMPTY = "NOT NULL"
"""In place of a default: what the server takes without one."""
NOW = Moment(1_709_168_523, 120_000, "+02:00")


@pytest.fixture
def connection(request: pytest.FixtureRequest, servers: Servers) -> Iterator["pymysql.Connection[Any]"]:
    server: MySQLServer = servers.get(request.param)
    with server.connect() as server_connection:
        with server_connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS default_values CHARACTER SET utf8mb4")
            cursor.execute("USE default_values")
            cursor.execute("SET time_zone = '+02:00', timestamp = 1709168523.12")
        yield server_connection


def value_of(sql: str, kind: Column) -> object:
    """An SQL literal of the lake as the value that it is there."""
    code = kind.type_code
    if (match := re.fullmatch(r"TIMESTAMP'(.*)Z'", sql)) or (
        code in (10, 18) and (match := re.fullmatch("'(.*)'", sql))
    ):
        moment = dt.datetime.fromisoformat(match[1])
        return moment.date() if code == 10 else moment
    if match := re.fullmatch(r"X'([0-9a-f]*)'", sql):
        return bytes.fromhex(match[1])
    text = sql
    if sql.startswith("'"):  # Spark's SQL reads \u0024 as a dollar sign
        text = re.sub(r"\\(u0024|.)", lambda match: "$" if match[1] == "u0024" else match[1], sql[1:-1])
    if code in (4, 5):
        return float(np.float32(text)) if code == 4 else float(text)
    return Decimal(text) if code in (1, 2, 3, 8, 9, 13, 16, 246) else text


def query(kind: Column) -> str:
    """SQL for a server: the value in a form that loses nothing."""
    if kind.type_code in (1, 2, 3, 8, 9, 13, 16):
        return "c + 0"
    if kind.type_code in (4, 5):
        return "c * 1e0"
    if kind.type_code == 246:
        return "CAST(c AS CHAR)"
    if kind.type_code == 17:
        return "c"
    if kind.type_code in (15, 252, 254) and kind.charset == 63:
        return "CAST(c AS BINARY)"
    return "c" if kind.type_code in (10, 18) else "CAST(c AS CHAR)"


def of_server(value: Any, kind: Column) -> object:
    if kind.type_code in (1, 2, 3, 8, 9, 13, 16, 246):
        return Decimal(str(value))
    if kind.type_code == 17 and isinstance(value, dt.datetime):
        return value - dt.timedelta(hours=2)
    if kind.type_code in (4, 5):
        return float(value)
    return value


def filled(fill: Fill | None, kind: Column) -> object:
    if fill is None:
        return None
    return fill.exact if fill.exact is not None else value_of(fill.sql, kind)


def lines(cursor: Cursor, definition: str, *, is_mariadb: bool, counts: Counter[str]) -> Iterator[str]:
    """What differs between the value of a row that was there before the column, and the lake's."""
    cursor.execute("DROP TABLE IF EXISTS t")
    cursor.execute("CREATE TABLE t (id INT) ENGINE=MyISAM")
    cursor.execute("INSERT INTO t VALUES (1)")
    try:
        cursor.execute(f"ALTER TABLE t ADD COLUMN c {definition}")
    except pymysql.MySQLError:
        counts["the server refuses"] += 1
        return
    try:
        parsed = declared_column("c", words_of(definition), "utf8mb4")
        fill = fill_of(parsed, NOW)
    except Unsupported:
        counts["refused"] += 1
        return
    kind = parsed.column
    cursor.execute(f"SELECT {query(kind)} FROM t")
    ((value,),) = cursor.fetchall()
    on_server = None if value is None else of_server(value, kind)
    here = filled(fill, kind)
    is_same = repr(here) == repr(on_server) or (here == on_server and not isinstance(here, (float, str)))
    counts["equal" if is_same else "different"] += 1
    if not is_same:
        yield f"{definition}: the server has {on_server!r}, the lake {here!r}"
    try:
        cursor.execute("INSERT INTO t (id) VALUES (2)")
    except pymysql.MySQLError:  # a strict session has no value for NOT NULL without a default
        return
    cursor.execute(f"SELECT {query(kind)} FROM t WHERE id = 2")
    ((value,),) = cursor.fetchall()
    cursor.execute(_DECLARED)
    ((fallback, extra, scale, digits),) = cursor.fetchall()
    row = {"fallback": fallback, "extra": extra, "scale": scale, "digits": digits}
    default = on_server_default(kind, row, is_mariadb=is_mariadb).default
    if default is None:
        counts["not known of information_schema"] += 1
        return
    on_server = None if value is None else of_server(value, kind)
    here = None if default == "NULL" else value_of(default, kind)
    if repr(here) != repr(on_server) and (here != on_server or isinstance(here, (float, str))):
        counts["different by information_schema"] += 1
        yield f"{definition}: the server has {on_server!r}, by information_schema ({fallback!r}) it is {here!r}"


@pytest.mark.mysql
@pytest.mark.parametrize("connection", ["mysql-5.7", "mysql-8.0", "mariadb-11.4"], indirect=True)
def test_defaults_that_servers_convert(connection: "pymysql.Connection[Any]") -> None:
    counts = Counter[str]()
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
        is_mariadb = "MariaDB" in version
        cursor.execute("SET sql_mode = 'STRICT_TRANS_TABLES'")
        definitions = [f"{kind} DEFAULT {literal}" for kind, literals in CONVERTED.items() for literal in literals]
        unlike = [
            line
            for table_definition in definitions
            for line in lines(cursor, table_definition, is_mariadb=is_mariadb, counts=counts)
        ]
    assert not unlike, "\n".join(unlike)
    assert counts["equal"] >= 20


@pytest.mark.mysql
@pytest.mark.long
@pytest.mark.parametrize("connection", ["mysql-5.7", "mysql-8.0", "mariadb-11.4"], indirect=True)
@pytest.mark.parametrize("mode", ["STRICT_TRANS_TABLES", ""])
def test_a_default_is_the_server_s_or_refused(
    connection: "pymysql.Connection[Any]", mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every type with every literal."""
    counts = Counter[str]()
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
        cursor.execute(f"SET sql_mode = '{mode}'")
        definitions = [f"{kind} DEFAULT {literal}" for kind in TYPES for literal in LITERALS]
        definitions += [f"{kind} {EMPTY}" for kind in TYPES]
        is_mariadb = "MariaDB" in version
        unlike = [
            line
            for table_definition in definitions
            for line in lines(cursor, table_definition, is_mariadb=is_mariadb, counts=counts)
        ]
    with capsys.disabled():
        print(f"defaults, {version}, sql_mode={mode or 'none'}: {dict(counts)}")  # noqa: T201 - what was compared
    assert not unlike, "\n".join(unlike)
    assert counts["equal"] > 500
