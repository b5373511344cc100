import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest
from pymysql.cursors import DictCursor

from spark_jobs.errors import SourceError
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyColumn, KeyRange, in_text, key_of, ranges
from tests.fix_mysql import Database


def key(*columns: KeyColumn) -> Key:
    return Key("shop", "orders", columns)


@pytest.mark.parametrize(
    "column, text, sql, parameter",
    [
        (KeyColumn("id", "bigint"), "-9", "`id` > %s", -9),
        (KeyColumn("a`b%c", "int"), "9", "`a``b%%c` > %s", 9),
        (KeyColumn("f", "float"), "0.10000000149011612", "`f` > %s", 0.10000000149011612),
        (KeyColumn("n", "varchar", "latin1"), "E4", "`n` > _latin1 x%s", "E4"),
        (KeyColumn("b", "varbinary"), "00FF", "`b` > x%s", "00FF"),
        (KeyColumn("e", "enum", "utf8mb4"), "2", "CAST(`e` AS UNSIGNED) > %s", 2),
        (KeyColumn("d", "datetime"), "0000-00-00 00:00:00", "`d` > %s", "0000-00-00 00:00:00"),
    ],
)
def test_a_boundary_is_compared_as_its_type_wants(column: KeyColumn, text: str, sql: str, parameter: object) -> None:
    assert KeyRange((text,), None).condition(key(column)) == (sql, [parameter])


def test_keys_of_several_columns_are_compared_column_by_column() -> None:
    two = key(KeyColumn("a", "int"), KeyColumn("b", "int"))
    above = "(`a` > %s OR (`a` = %s AND `b` > %s))"
    below = "(`a` < %s OR (`a` = %s AND `b` <= %s))"
    assert KeyRange(("1", "2"), ("3", "4")).condition(two) == (f"{above} AND {below}", [1, 1, 2, 3, 3, 4])
    assert KeyRange(None, ("3", "4")).condition(two) == (below, [3, 3, 4])
    assert KeyRange(None, None).condition(two) == ("TRUE", [])


def test_a_type_without_an_order_is_refused_by_name() -> None:
    with pytest.raises(SourceError, match="column g of type geometry"):
        KeyRange(("1",), None).condition(key(KeyColumn("g", "geometry")))


@contextmanager
def dict_connection(database: Database) -> Iterator["pymysql.Connection[DictCursor]"]:
    """As sources connect: rows are dictionaries."""
    server = database.server
    options: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
    with pymysql.connect(**options, password=server.password, cursorclass=DictCursor, autocommit=True) as connection:
        connection.query("SET time_zone = '+00:00', sql_mode = ''")
        yield connection


def walked(database: Database, table: str, rows: int) -> list[list[tuple[Any, ...]]]:
    """The keys in each range of a walk, in the order that the server gives them."""
    with dict_connection(database) as connection:
        key = key_of(connection, database.name, table)
        parts = []
        for part in ranges(connection, key, rows=rows):
            condition, parameters = part.condition(key)
            expressions = in_text(", ".join(column.expression for column in key.columns))
            statement = f"SELECT {expressions} FROM {in_text(key.table)} WHERE {condition}"
            with connection.cursor(pymysql.cursors.Cursor) as cursor:
                cursor.execute(statement, parameters)
                parts.append(list(cursor.fetchall()))
    return parts


KEYS: dict[str, tuple[str, str, Callable[[random.Random], object]]] = {
    "whole": ("BIGINT UNSIGNED", "id", lambda chance: chance.choice([0, 2**64 - 1, chance.randrange(2**64)])),
    "signed": ("INT", "id", lambda chance: chance.randrange(-(2**31), 2**31)),
    "exact": ("DECIMAL(30,10)", "id", lambda chance: f"{chance.randrange(-(10**9), 10**9)}.{chance.randrange(10**10)}"),
    "single": ("FLOAT", "id", lambda chance: chance.random()),
    "double": ("DOUBLE", "id", lambda chance: chance.uniform(-1e300, 1e300)),
    "latin": ("VARCHAR(20) CHARACTER SET latin1", "id", lambda chance: "".join(chance.choices("aäZz ß%'\\", k=6))),
    "chinese": ("VARCHAR(20) CHARACTER SET gbk", "id", lambda chance: "".join(chance.choices("中文字誠a\\'", k=5))),
    "text": ("VARCHAR(20) CHARACTER SET utf8mb4", "id", lambda chance: "".join(chance.choices("aAäéе😀_%'", k=5))),
    "cased": (
        "CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "id",
        lambda chance: "".join(chance.choices("aAb ", k=6)),
    ),
    "bytes": ("VARBINARY(9)", "id", lambda chance: chance.randbytes(chance.randrange(9))),
    "padded": ("BINARY(4)", "id", lambda chance: chance.randbytes(chance.randrange(5))),
    "prefix": ("BLOB", "id(8)", lambda chance: chance.randbytes(8)),
    "label": ("ENUM('z','y','x','a')", "id", lambda chance: chance.choice("zyxa")),
    "labels": ("SET('z','y','x','a','b')", "id", lambda chance: chance.randrange(32)),
    "bits": ("BIT(64)", "id", lambda chance: chance.randrange(2**64)),
    "day": ("DATE", "id", lambda chance: f"{chance.randrange(1000, 9999)}-{chance.randrange(13):02}-00"),
    "moment": (
        "DATETIME(6)",
        "id",
        lambda chance: f"2024-01-{chance.randrange(1, 32):02} 10:00:00.{chance.randrange(10**6)}",
    ),
    "instant": (
        "TIMESTAMP(3)",
        "id",
        lambda chance: f"2024-03-31 {chance.randrange(24):02}:30:00.{chance.randrange(999)}",
    ),
    "clock": ("TIME(2)", "id", lambda chance: f"{chance.randrange(-800, 800)}:00:{chance.randrange(60)}.5"),
    "year": ("YEAR", "id", lambda chance: chance.choice([0, *range(1901, 2155)])),
}


@pytest.mark.mysql
def test_a_walk_meets_every_row_once_whatever_the_key(database: Database) -> None:
    chance = random.Random(7)
    database.execute("SET sql_mode = '', time_zone = '+00:00'")
    for name, (kind, keyed, value) in KEYS.items():
        table = f"`{name}%s`"
        database.execute(f"CREATE TABLE {table} (id {kind} NOT NULL, `n%s` INT, PRIMARY KEY ({keyed}))")
        for number in range(40):
            statement = f"INSERT IGNORE INTO {table.replace('%', '%%')} VALUES (%s, %s)"
            database.execute(statement, (value(chance), number))
        (total,) = database.execute(f"SELECT COUNT(*) FROM {table}")[0]
        parts = walked(database, f"{name}%s", 3)
        keys = [key for part in parts for key in part]
        assert len(keys) == len(set(keys)) == total, name
        assert all(len(part) == 3 for part in parts[: total // 3]), name


@pytest.mark.mysql
def test_a_walk_over_a_key_of_several_columns_goes_on_where_it_was_left(database: Database) -> None:
    chance = random.Random(8)
    database.execute("CREATE TABLE t (b VARCHAR(9), a INT, e ENUM('y','x'), v INT, PRIMARY KEY (e, b, a))")
    for _ in range(60):
        row = (chance.choice("aAbä"), chance.randrange(9), chance.choice("xy"))
        database.execute("INSERT IGNORE INTO t VALUES (%s, %s, %s, 1)", row)
    (total,) = database.execute("SELECT COUNT(*) FROM t")[0]
    keys = [key for part in walked(database, "t", 4) for key in part]
    assert len(keys) == len(set(keys)) == total
    with dict_connection(database) as connection:
        key = key_of(connection, database.name, "t")
        assert [column.name for column in key.columns] == ["e", "b", "a"]
        all_ranges = list(ranges(connection, key, rows=7))
        later_ranges = list(ranges(connection, key, rows=7, after=all_ranges[1].up_to))
        assert later_ranges == all_ranges[2:]
        assert list(ranges(connection, key, rows=10**6)) == [KeyRange(None, None)]


@pytest.mark.mysql
def test_what_has_no_key_is_refused_by_name(database: Database) -> None:
    database.execute("CREATE TABLE bag (id INT)")
    with dict_connection(database) as connection:
        with pytest.raises(SourceError, match=rf"{database.name}\.bag has no primary key"):
            key_of(connection, database.name, "bag")
        with pytest.raises(SourceError, match=r"no table .*\.gone"):
            key_of(connection, database.name, "gone")
        with pytest.raises(SourceError, match="no column x"):
            key_of(connection, database.name, "bag", ("x",))
        assert key_of(connection, database.name, "bag", ("id",)).columns == (KeyColumn("id", "int"),)
