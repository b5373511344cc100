"""XA transactions on their way: rows downstream where the log commits them, and never before, nor after a rollback."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import DecodeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.log_store import Store
from spark_jobs.operations.repair import add, plan_skip
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.run import extract_source, run_source
from tests.binlogs.logs import SOURCE, Logs, day, file
from tests.binlogs.segment_spec import Commit, Delete, Insert, Query, Rows, Statement, Update
from tests.binlogs.xa import XA, prepared
from tests.fix_pipeline import Shop, rows
from tests.fix_servers import build_or_skip
from tests.services.servers import SERVERS

pytestmark = pytest.mark.spark

ANY = wanted_tables([])
ROWS = 10_000
"""Of a transaction that is several events."""
COMMIT = Statement("", f"XA COMMIT {XA}")
CREATE = Statement("shop", "CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, note VARCHAR(40))")


def insert(number: int, note: str, table: str = "orders") -> Insert:
    return Insert(f"shop.{table}", (number, note))


def xid(name: str) -> str:
    return f"X'{name.encode().hex()}',X'',1"


def silver(logs: Logs, table: str = "orders") -> list[tuple[Any, ...]]:
    """Rows without their windows: operation, key, file and row of the change."""
    rows = logs.lake.silver(SOURCE, "shop", table).read(logs.spark).where("_op <> 'truncate'").collect()
    return sorted(
        (row["_op"], row["id"], row["note"], row["_position"]["number"], row["_position"]["row"]) for row in rows
    )


@pytest.mark.long
def test_rows_take_effect_where_they_are_committed(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path / "in runs")
    logs.folder.mkdir()
    large = [Rows("shop.orders", Update, [((2, "b"), (2, "x" * 40))] * 4000) for _ in range(6)]
    logs.write(
        1,
        CREATE,
        *(insert(1, "a"), insert(2, "b"), Commit()),
        *prepared(Update("shop.orders", (1, "a"), (1, "waits")), insert(3, "waits")),
        *prepared(insert(4, "never"), name=b"never"),
        *prepared(insert(5, "at once"), name=b"once", one_phase=True),
        *prepared(*large, Update("shop.orders", (2, "b"), (2, "last")), name=b"many"),
        *prepared(insert(6, "open"), insert(7, "later", "later"), name=b"open"),
    )
    assert logs.run().stopped == {}
    assert logs.rows("orders") == [(1, "a"), (2, "b"), (5, "at once")]
    first, end = logs.bronze().position, Statement("", f"XA COMMIT {xid('many')}")
    logs.write(2, insert(8, "c"), Commit(), Statement("", f"XA ROLLBACK {xid('never')}"), end)
    logs.write(3, COMMIT, Delete("shop.orders", (3, "waits")), Commit(), *prepared(insert(9, "again")))
    assert logs.run().stopped == {}
    assert logs.rows("orders") == [(1, "waits"), (2, "last"), (5, "at once"), (8, "c")]
    logs.write(4, insert(10, "d"), Commit())
    assert {job.name.table for job in logs.run().compacted} == {"orders"}
    logs.write(5, Statement("", f"XA COMMIT {xid('open')}"), COMMIT)
    assert {job.name.table for job in logs.run().compacted} == {"orders", "later"}
    final = [(1, "waits"), (2, "last"), (5, "at once"), (6, "open"), (8, "c"), (9, "again"), (10, "d")]
    assert (logs.rows("orders"), logs.rows("later")) == (final, [(7, "later")])
    assert {("delete", 3, "waits", 3, 0), ("update", 2, "last", 2, 24000)} <= set(silver(logs))
    assert silver(logs, "later") == [("insert", 7, "later", 5, 0)]

    last = logs.bronze().position
    assert first
    assert last
    before = [logs.lake.silver(SOURCE, "shop", name).head() for name in ("orders", "later")]
    for begin, stop in ((first, last), (Position(file(1), 4), first)):
        outcome = backfill_source(spark, logs.pipeline(), SOURCE, Range(begin, stop), lambda _: True)
        assert (outcome.stopped, outcome.compacted) == ({}, []), "what it decodes to now is what is there"
    assert [logs.lake.silver(SOURCE, "shop", name).head() for name in ("orders", "later")] == before

    at_once = Logs(spark, tmp_path / "at once")
    at_once.folder.mkdir()
    logs.binlogs.rename(at_once.binlogs)
    assert at_once.run().stopped == {}
    assert (at_once.rows("orders"), at_once.rows("later")) == (final, [(7, "later")])


@pytest.mark.thorough
def test_changes_of_a_range_have_the_rows_that_it_commits(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(
        1,
        *(insert(1, "a"), Commit()),
        *prepared(insert(2, "waits"), insert(3, "waits", "lines")),
        *prepared(insert(4, "never"), name=b"never"),
        *prepared(insert(5, "at once"), name=b"once", one_phase=True),
        *prepared(*[Rows("shop.orders", Insert, [(100 + n, "x" * 40) for n in range(ROWS)])], name=b"many"),
    )
    logs.write(2, insert(6, "b"), Commit(), Statement("", f"XA ROLLBACK {xid('never')}"), COMMIT, insert(7, "c"))
    logs.write(3, Statement("", f"XA COMMIT {xid('many')}"), *prepared(insert(8, "open"), name=b"open"))
    extract_source(spark, logs.pipeline(), SOURCE)
    files = sorted(logs.binlogs.iterdir())
    changes = list(
        map(
            json.loads,
            "".join(changes_of_files(((file.name, iter([file.read_bytes()])) for file in files), ANY)).splitlines(),
        )
    )
    assert [change["after"]["id"] for change in changes if change["after"]["id"] < 100] == [1, 5, 6, 2, 3, 7]
    store = Store(spark, logs.pipeline(), SOURCE)

    def changes_of_range(start: Position | None, stop: Position | None) -> list[dict[str, Any]]:
        """As lines; the frame has the same, in whatever order."""
        lines = list(
            map(
                json.loads,
                "".join(changes_of_bronze(logs.lake, SOURCE, start, stop, is_wanted=ANY)).splitlines(),
            )
        )
        frame = store.changes(start, stop).select("file", "offset", "row", "after", "committed_at").collect()
        assert sorted(
            (row["file"], row["offset"], row["row"], json.loads(row["after"])["id"]) for row in frame
        ) == sorted((line["file"], line["offset"], line["row"], line["after"]["id"]) for line in lines)
        return lines

    assert changes_of_range(None, None) == [change | {"source": SOURCE} for change in changes]
    begins = [Position(file(number), 4) for number in (1, 2, 3)]
    assert [change["after"]["id"] for change in changes_of_range(begins[0], begins[1])] == [1, 5]
    second = changes_of_range(begins[1], begins[2])
    assert [(change["file"], change["after"]["id"]) for change in second] == [
        (file(2), 6),
        (file(1), 2),
        (file(1), 3),
        (file(2), 7),
    ]
    assert len({change["committed_at"] for change in second[1:3]} - {second[0]["committed_at"]}) == 1
    (commit,) = [
        transaction for transaction in store.pull(begins[1]) if b"XA COMMIT " + XA.encode() in transaction.payload
    ]
    inside = Position(commit.start.file, commit.start.offset + 1, commit.start.stretch)
    assert [change["after"]["id"] for change in changes_of_range(inside, commit.stop)] == [2, 3], "snapped outward"
    assert len(changes_of_range(begins[2], None)) == ROWS
    assert not [message for message in caplog.messages if "does not hold its rows" in message]


@pytest.mark.long
def test_rows_that_are_committed_far_behind_keep_the_log_until_all_have_read_the_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(spark, tmp_path)
    pipeline = logs.pipeline(retention={"bronze": "2d"})
    logs.write(1, CREATE, insert(1, "a"), Commit(), *prepared(insert(2, "waits")))
    for number in (2, 3, 4):
        logs.write(number, insert(number + 10, "b"), Commit())
    logs.run()
    logs.write(5, COMMIT)
    logs.write(6, insert(20, "c"), Commit())
    extract_source(spark, pipeline, SOURCE)
    collected = gc_source(spark, pipeline, SOURCE, now=day(9))
    assert collected.files == (), "silver is at the end of file 4"
    assert re.fullmatch(
        rf"xa, at {file(1)}:\d+ \(.*its XA COMMIT at {file(5)}:\d+ is not read by all\)", str(collected.kept_for)
    )
    logs.run()
    assert [row[0] for row in logs.rows("orders")] == [1, 2, 12, 13, 14, 20]
    assert [file.file for file in gc_source(spark, pipeline, SOURCE, now=day(9)).files] == [
        file(number) for number in range(1, 6)
    ]


@pytest.mark.long
def test_a_commit_whose_rows_bronze_does_not_hold(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, COMMIT, insert(1, "a"), Commit(), *prepared(insert(2, "gone")))
    assert logs.run().stopped == {}, "orders lacks what was before its log in any case"
    logs.write(2, insert(3, "b"), Commit())
    logs.run()
    pipeline = logs.pipeline(retention={"bronze": "2d"})
    assert [file.file for file in gc_source(spark, pipeline, SOURCE, ignored=["xa"], now=day(9)).files] == [file(1)]
    logs.write(3, COMMIT, insert(4, "c"), Commit())
    (reason,) = logs.run().stopped.values()
    location = re.search(
        r"which XA COMMIT at (\S+) commits, was prepared before the log begins that bronze holds", reason
    )
    assert location, reason
    add(logs.pipeline(), SOURCE, plan_skip(logs.pipeline(), SOURCE, location[1]))
    assert logs.run().stopped == {}
    assert [row[0] for row in logs.rows("orders")] == [1, 3, 4]


def test_what_stops_a_table(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    query = Query("shop", "INSERT INTO lines VALUES (9, 'z')")
    logs.write(1, CREATE, *prepared(insert(1, "a")), *prepared(query, insert(2, "b", "_orders_gho"), name=b"said"))
    logs.write(2, Statement("shop", "TRUNCATE TABLE lines"), insert(1, "a", "lines"), Commit())
    logs.write(3, Statement("shop", "RENAME TABLE orders TO later"), COMMIT, Statement("", f"XA COMMIT {xid('said')}"))
    reasons = {
        name.table: reason.partition(": shop.")[2].partition(": ")[2] for name, reason in logs.run().stopped.items()
    }
    assert set(reasons) == {"orders", "later", "lines"}
    renamed = (
        rf"RENAME TABLE at {file(3)}:\d+ changes the table between rows of an XA transaction, prepared at {file(1)}:"
    )
    assert all(re.match(renamed, reasons[name]) for name in ("orders", "later")), reasons
    assert re.match(rf"INSERT INTO at {file(3)}:\d+ changes rows in statement format", reasons["lines"]), reasons


def test_a_damaged_end_stops_the_source_in_one_message(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, insert(1, "a"), Commit(), Statement("", "XA COMMIT 'x'"))
    with pytest.raises(DecodeError, match=rf"^{file(1)}:\d+: Query event: \S+ \S+ \S+ is no end of an XA transaction"):
        logs.run()


class Sessions:
    """A server's XA transactions, each prepared in a session of its own."""

    def __init__(self, server: MySQLServer, schema: str) -> None:
        self.server, self.schema = server, schema

    def execute(self, *statements: str) -> None:
        with self.server.connect(database=self.schema) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def prepare(self, name: str, *statements: str) -> None:
        self.execute(f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with self.server.connect(database=self.schema) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            return sorted(cursor.fetchall())


@pytest.mark.mysql
def test_a_server(shop: Shop) -> None:
    pipeline, server = shop.pipeline(), Sessions(shop.database.server, shop.database.name)
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE bag (id INT)", "INSERT INTO t VALUES (1,1),(2,2)"
    )
    server.prepare(
        "a", "UPDATE t SET v = 10 WHERE id = 1", "INSERT INTO t VALUES (3,3)", "INSERT INTO bag VALUES (1),(1)"
    )
    server.prepare("b", "DELETE FROM t WHERE id = 2", "INSERT INTO bag VALUES (2)")
    server.prepare("c", "INSERT INTO t VALUES (4,4)")
    server.execute("XA START 'd'", "INSERT INTO t VALUES (5,5)", "XA END 'd'", "XA COMMIT 'd' ONE PHASE")
    assert shop.run(pipeline)[1].stopped == {}
    assert shop.merged(pipeline, "t") == [(1, 1), (2, 2), (5, 5)] == shop.truth("t")
    shop.execute(
        "FLUSH BINARY LOGS",
        "XA ROLLBACK 'c'",
        "XA COMMIT 'b'",
        "INSERT INTO t VALUES (6,6)",
        "UPDATE t SET id = 7 WHERE id = 5",
    )
    shop.run(pipeline)
    assert shop.merged(pipeline, "t") == [(1, 1), (6, 6), (7, 5)] == shop.truth("t")
    assert shop.merged(pipeline, "bag") == [(2,)] == shop.truth("bag")
    shop.execute("XA COMMIT 'a'", "UPDATE t SET v = 11 WHERE id = 1", "DELETE FROM bag WHERE id = 1 LIMIT 1")
    assert shop.run(pipeline)[1].stopped == {}
    assert shop.merged(pipeline, "t") == [(1, 11), (3, 3), (6, 6), (7, 5)] == shop.truth("t")
    assert shop.merged(pipeline, "bag") == [(1,), (2,)] == shop.truth("bag")


@pytest.mark.mysql
@pytest.mark.long
@pytest.mark.parametrize("name", SERVERS)
def test_servers(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Prepared before a restart, decided behind it; compressed where the server can."""
    build = build_or_skip(name)
    options: dict[str, object] = {"log_bin": "log-bin"}
    options |= {"binlog_transaction_compression": "ON"} if name == "mysql-9.7" else {}
    with MySQLServer(tmp_path / "server", options, build) as server:
        sessions = Sessions(server, "")
        sessions.execute(
            "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(2000) CHARACTER SET latin1)"
        )
        login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        path = tmp_path / "pipeline.yaml"
        path.write_text(yaml.safe_dump({"lake": "./lake", "sources": {SOURCE: {"mysql": login}}, "tables": ["shop.*"]}))
        pipeline, sessions = load(path), Sessions(server, "shop")
        target = lake_of(pipeline).downstream("shop", "t")
        sessions.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        sessions.prepare("one", *(f"UPDATE t SET v = '{digit * 1999}' WHERE id = 1" for digit in "abcdefghij"))
        sessions.prepare("two", "INSERT INTO t VALUES (3, 'c')")
        sessions.prepare("never", "DELETE FROM t WHERE id = 2")
        sessions.execute("XA START 'x'", "INSERT INTO t VALUES (4, 'd')", "XA END 'x'", "XA COMMIT 'x' ONE PHASE")
        assert run_source(spark, pipeline, SOURCE)[1].stopped == {}
        assert rows(target) == sessions.rows("t") == [(1, "a"), (2, "b"), (4, "d")]
        server.stop()
        server.start()
        sessions.execute("XA COMMIT 'one'", "XA ROLLBACK 'never'")
        assert run_source(spark, pipeline, SOURCE)[1].stopped == {}
        assert rows(target) == sessions.rows("t") == [(1, "j" * 1999), (2, "b"), (4, "d")]
        sessions.execute("XA COMMIT 'two'")
        assert run_source(spark, pipeline, SOURCE)[1].stopped == {}
        assert rows(target) == sessions.rows("t")
        assert len(sessions.rows("t")) == 4
