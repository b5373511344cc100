"""Logs that tell types alone (MySQL 5.7, MariaDB's default), against the servers that wrote them.

Put here: whole logs, logs that begin after their CREATE TABLE, with a schema dump and without anything. Not here: which
definition counts where (tests/spark_jobs/changes/test_table_definitions.py).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.demo.server import MySQLServer
from tests.differential.comparison import Log, connected, logged
from tests.differential.workload import Connection
from tests.fix_cli import Stratalog
from tests.fix_servers import Servers, telling
from tests.services.schema_dumps import schema_dump

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

WITHOUT = (("mysql-5.7", None), ("mariadb-11.4", "NO_LOG"))
WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_INTEGERS = ", ".join(f"s{bits} {kind}, u{bits} {kind} UNSIGNED" for kind, bits in WIDTHS.items())
CREATE = (
    f"CREATE TABLE t (id INT PRIMARY KEY, {_INTEGERS}, e ENUM('n', 'y', 'ä'), s SET('p', 'q', 'r'), "
    "w VARCHAR(9) CHARACTER SET latin1, b VARBINARY(9), d DECIMAL(5,2) UNSIGNED) DEFAULT CHARSET utf8mb4"
)


def edge_rows() -> list[tuple[int, ...]]:
    """For every width the ends of both ranges, their neighbours and 0; columns in the order s8, u8, s16 …."""
    edges = [
        (
            (-(1 << bits - 1), -(1 << bits - 1) + 1, -1, 0, (1 << bits - 1) - 1),
            ((1 << bits) - 1, (1 << bits) - 2, 1 << bits - 1, 0, (1 << bits - 1) - 1),
        )
        for bits in WIDTHS.values()
    ]
    return [tuple(pair[side][offset] for pair in edges for side in (0, 1)) for offset in range(5)]


def insert(first: int) -> str:
    rows = [
        f"({first + at}, {', '.join(map(str, row))}, {at % 4}, {at}, 'é', X'FF00', {at}.25)"
        for at, row in enumerate(edge_rows())
    ]
    return f"INSERT IGNORE INTO t VALUES {', '.join(rows)}, ({first + 9}{', NULL' * 15})"


@dataclass(frozen=True)
class TwoLogs:
    """A log from its CREATE TABLE on, and one that begins after it; rows that the server has in the end, by column."""

    created: Log
    continued: Log
    rows: list[dict[str, Any]]
    dump: str


@contextmanager
def two_logs(name: str, server: MySQLServer, alter: str) -> Iterator[TwoLogs]:
    """Edge values before and after a statement that changes the table, and an update and a delete of them."""
    with connected(server) as connection:
        connection.execute("CREATE DATABASE signs CHARACTER SET utf8mb4")
        try:
            connection.execute("SET sql_mode = ''")
            with logged(server, connection) as created:
                connection.execute("USE signs")
                for statement in (CREATE, insert(10), "DELETE FROM t"):
                    connection.execute(statement)
            dump, _ = schema_dump(name, server, "signs")
            with logged(server, connection) as continued:
                for statement in (insert(30), "DELETE FROM t WHERE id > 30", alter, "UPDATE t SET s8 = 0, u8 = 255"):
                    connection.execute(statement)
            yield TwoLogs(created, continued, rows_of(connection), dump)
        finally:
            connection.execute("DROP DATABASE signs")


def rows_of(connection: Connection) -> list[dict[str, Any]]:
    """The table as the change feed writes it."""
    names = [row[0] for row in connection.execute("SHOW COLUMNS FROM t")]
    rows = connection.execute(f"SELECT {', '.join(f'HEX({n})' if n == 'b' else n for n in names)} FROM t ORDER BY id")
    return [dict(zip(names, map(_expected_value, names, row), strict=True)) for row in rows]


def _expected_value(name: str, value: Any) -> Any:
    if value is None or name in ("e", "s", "w", "d"):
        return value
    return {"base64": "/wA="} if name == "b" else int(value)


def lines(log: Log) -> list[dict[str, Any]]:
    pieces = changes_of_files(log.chunks(), wanted_tables(["signs.t"]))
    return [json.loads(line) for line in "".join(pieces).splitlines()]


def with_unsigned(change: dict[str, Any], image: str) -> dict[str, Any]:
    """An image whose values are those that were asked for as UNSIGNED, where it has both readings."""
    row: dict[str, Any] = change[image]
    return row | (change.get("unsigned", {}).get(image) or {})


@pytest.mark.parametrize("name, metadata", WITHOUT)
def test_statements_of_the_log_tell_signs_names_labels_and_character_sets(
    name: str, metadata: str | None, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """The statement between the rows renames and moves columns, and gives labels other numbers."""
    alter = (
        "ALTER TABLE t MODIFY u8 TINYINT UNSIGNED AFTER s64, CHANGE s16 v16 SMALLINT FIRST, "
        "MODIFY e ENUM('ä', 'y', 'n'), ADD z BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615 AFTER s8"
    )
    server = servers.get(name)
    with telling(server, metadata), two_logs(name, server, alter) as logs:
        whole_log = Log(logs.created.files + logs.continued.files)
        changes = lines(whole_log)
    inserted = [change["after"] for change in changes if change["op"] == "insert"]
    assert [list(image) for image in inserted[:1]] == [
        ["id", *(f"{sign}{bits}" for bits in WIDTHS.values() for sign in "su"), "e", "s", "w", "b", "d"]
    ]
    images = [[row.get(f"{sign}{bits}") for bits in WIDTHS.values() for sign in "su"] for row in inserted]
    assert images == 2 * [*map(list, edge_rows()), [None] * 10]
    assert [row["e"] for row in inserted[:5]] == ["", "n", "y", "ä", ""]
    assert [row["s"] for row in inserted[:5]] == ["", "p", "q", "p,q", "r"]
    assert {row["w"] for row in inserted} == {"é", None}
    assert changes[-1]["after"] == logs.rows[-1]
    assert not any("unsigned" in change for change in changes)
    assert caplog.messages == []


@pytest.mark.parametrize("name, metadata", WITHOUT)
def test_a_dump_tells_them_where_the_log_begins_later(
    name: str, metadata: str | None, servers: Servers, stratalog: Stratalog, tmp_path: Path
) -> None:
    server = servers.get(name)
    alter = "ALTER TABLE t CHANGE u64 v64 BIGINT UNSIGNED FIRST"
    with telling(server, metadata), two_logs(name, server, alter) as logs:
        dump = tmp_path / "dump.sql"
        dump.write_text(logs.dump, encoding="utf-8")
        ran = stratalog("changes", *logs.continued.files, "--table", "signs.t", "--schema", dump)
        listed = stratalog("events", *logs.continued.files, "--table", "signs.t", "--schema", dump)
    assert (ran.status, ran.err) == (0, "")
    changes = [json.loads(line) for line in ran.out.splitlines()]
    images = [[change["after"][f"{s}{n}"] for n in WIDTHS.values() for s in "su"] for change in changes[:6]]
    assert images == [*map(list, edge_rows()), [None] * 10]
    assert changes[-1]["op"] == "update"
    assert [change["after"] for change in changes if change["op"] == "update"] == logs.rows
    assert "u64 bigint unsigned, e enum('n','y','ä')" in listed.out
    assert "(v64 bigint unsigned, id int" in listed.out


@pytest.mark.parametrize("name, metadata", WITHOUT)
def test_without_any_of_them_both_readings_are_written(
    name: str, metadata: str | None, servers: Servers, stratalog: Stratalog
) -> None:
    server = servers.get(name)
    with telling(server, metadata), two_logs(name, server, "ANALYZE TABLE t") as logs:
        ran = stratalog("changes", *logs.continued.files, "--table", "signs.t")
    assert ran.status == 0
    assert ran.err.count("\n") == 1
    assert "signs.t: the log does not have names (columns are @1, @2, …); the signs of integers" in ran.err
    changes = [json.loads(line) for line in ran.out.splitlines()]
    # Each value is right in one of the readings, and there is a second one where the highest bit is set alone.
    for change, row in zip(changes[:5], edge_rows(), strict=True):
        readings = change.get("unsigned", {"after": {}})["after"]
        for at, (value, bits) in enumerate(zip(row, [bits for bits in WIDTHS.values() for _ in "su"], strict=True), 2):
            signed = change["after"][f"@{at}"]
            assert value in (signed, readings.get(f"@{at}"))
            assert (f"@{at}" in readings) == (signed < 0)
            assert readings.get(f"@{at}", signed) == signed % (1 << bits)
    assert [change["after"]["@12"] for change in changes[:6]] == [0, 1, 2, 3, 0, None]
    assert [change["after"]["@13"] for change in changes[:6]] == [0, 1, 2, 3, 4, None]
    assert changes[0]["after"]["@14"] == {"base64": "6Q=="}
    # An update has both images, a delete the one before.
    update = changes[-1]
    assert update["op"] == "update"
    assert update["unsigned"]["after"]["@3"] == 255
    assert with_unsigned(update, "before")["@3"] == 255
    deletes = [change for change in changes if change["op"] == "delete" and "unsigned" in change]
    assert {change["unsigned"]["after"] for change in deletes} == {None}


@pytest.mark.parametrize("name, metadata", WITHOUT)
def test_tables_take_the_character_set_that_their_database_has_when_they_are_created(
    name: str, metadata: str | None, servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    columns = "(id INT PRIMARY KEY, w VARCHAR(9), x TEXT, y CHAR(3) CHARACTER SET latin1)"
    server = servers.get(name)
    with telling(server, metadata), connected(server) as connection:
        try:
            with logged(server, connection) as log:
                for statement in (
                    "CREATE DATABASE signs CHARACTER SET cp1251",
                    "USE signs",
                    f"CREATE TABLE a {columns}",
                    "INSERT INTO a VALUES (1, 'жук', 'щука', 'é')",
                    "ALTER DATABASE signs COLLATE latin2_bin",
                    f"CREATE TABLE b {columns}",
                    "CREATE TABLE c LIKE a",
                    "INSERT INTO b VALUES (1, 'łza', 'żółw', 'é')",
                    "INSERT INTO c VALUES (1, 'ж', 'щ', NULL)",
                    "INSERT INTO a VALUES (2, 'ёж', 'ель', 'ü')",
                ):
                    connection.execute(statement)
            expected = [
                (table, {"id": int(row[0]), "w": row[1], "x": row[2], "y": row[3]})
                for table in ("a", "b", "c")
                for row in connection.execute(f"SELECT id, w, x, y FROM signs.{table} ORDER BY id")
            ]
        finally:
            connection.execute("DROP DATABASE signs")
    pieces = changes_of_files(log.chunks(), wanted_tables(["signs.*"]))
    changes = [json.loads(line) for line in "".join(pieces).splitlines()]
    all_rows = [(change["table"], change["after"]) for change in changes]
    assert sorted(all_rows, key=lambda row: (row[0], row[1]["id"])) == expected
    assert caplog.messages == []
