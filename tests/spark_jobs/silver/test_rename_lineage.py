from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.scan import LoggedStatement, RangeScan
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.ddl.classify import classify
from spark_jobs.downstream import publication
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.run import extract_source
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.planning_context import PlanningContext
from spark_jobs.silver.rename_lineage import RenameLineage, made_at, renamed_tables
from spark_jobs.silver.table_timeline import DataRange
from tests.binlogs.logs import SOURCE, Logs, day, file
from tests.binlogs.segment_spec import Commit, Delete, Insert, Statement

NAME = TableName("shop", "t")


def at(offset: int) -> Position:
    return Position("b.000001", offset)


def scan_of(*statements: str) -> RangeScan:
    """Statements at 100, 200, …"""
    positions = enumerate(statements, start=1)
    return RangeScan(
        {},
        tuple(LoggedStatement(at(n * 100), classify(text, "shop"), at(n * 100 + 9), "shop") for n, text in positions),
    )


@pytest.mark.parametrize(
    "statements, offset",
    [
        ([], None),
        (["CREATE TABLE t (id INT)"], 100),
        (["CREATE TABLE t LIKE u", "ALTER TABLE t ADD c INT"], 100),
        (["CREATE TABLE u LIKE t"], None),
        (["CREATE TABLE IF NOT EXISTS t (id INT)"], None),
        (["CREATE TABLE t (id INT)", "DROP TABLE t, u"], None),
        (["CREATE TABLE t (id INT)", "DROP DATABASE shop"], None),
        (["CREATE TABLE t (id INT)", "DROP TABLE u", "DROP TABLE t", "CREATE TABLE t (id INT)"], 400),
        (["CREATE TABLE t (id INT)", "RENAME TABLE t TO u"], None),
        (["CREATE TABLE t (id INT)", "RENAME TABLE t TO u, v TO t"], 200),
        (["ALTER TABLE u RENAME t", "TRUNCATE t"], 100),
    ],
)
def test_where_a_table_was_made_that_is_there(statements: list[str], offset: int | None) -> None:
    assert made_at(scan_of(*statements), NAME, at(4)) == (offset and at(offset))


def test_names_that_tables_are_given() -> None:
    scan = scan_of(
        "RENAME TABLE a TO tmp, b TO a, tmp TO b", "ALTER TABLE c RENAME s.d", "RENAME TABLE", "DROP TABLE e"
    )
    assert [str(name) for name in renamed_tables(scan)] == ["shop.a", "shop.b", "s.d"]


CREATE = "CREATE TABLE {} (id INT NOT NULL PRIMARY KEY, note VARCHAR(40))"


@pytest.mark.spark
@pytest.mark.long
def test_rows_lie_under_the_old_name_in_silver_as_it_was_and_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    orders, only_orders = TableName("shop", "orders"), logs.pipeline(tables=["shop.orders"])
    logs.write(1, Statement("shop", CREATE.format("orders")), Insert("shop.orders", (1, "a")), Commit())
    logs.run(only_orders)
    logs.write(2, Insert("shop.orders", (2, "b")), Commit(), Statement("shop", "RENAME TABLE orders TO `lines`"))
    logs.write(3, Delete("shop.lines", (1, "a")), Insert("shop.lines", (3, "c")), Commit())
    logs.run(only_orders)
    assert logs.rows("orders") == [(1, "a"), (2, "b")], "they are kept, as those of a table that was dropped"
    assert logs.run().stopped == {}, "the name is in scope now, and the other's silver is far behind the statement"
    assert logs.rows("lines") == [(2, "b"), (3, "c")]
    (lines,) = (entry for entry in publication.read(logs.lake, SOURCE) if entry.table == "lines")
    assert lines.complete

    head = logs.bronze()
    assert head.checkpoint
    context = PlanningContext(logs.lake, BronzeSnapshot.of(logs.lake, SOURCE))
    commit = SilverCommit.of_head(logs.lake.silver(SOURCE, "shop", "lines").head())
    assert commit
    until = commit.emptied_at
    assert until
    by_silver, by_log = (
        RenameLineage(replace(context, by_log=by_log)).contents(orders, until) for by_log in (False, True)
    )
    assert by_silver.base is not None
    assert by_log.base is None
    assert (by_silver.since.file, by_log.since.file) == (file(2), file(1))
    assert any(isinstance(step, DataRange) for step in by_log.steps)
    log_range = Range(Position(file(1), 4), head.checkpoint.position)
    outcome = backfill_source(spark, logs.pipeline(), SOURCE, log_range, lambda _: True)
    assert (outcome.stopped, outcome.compacted) == ({}, [])


@pytest.mark.spark
@pytest.mark.long
def test_the_log_is_kept_of_a_table_that_is_to_take_the_place_of_another(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, Statement("shop", CREATE.format("orders")), Insert("shop.orders", (1, "a")), Commit())
    logs.write(2, Statement("shop", "CREATE TABLE _orders_gho LIKE orders"))
    logs.write(3, Insert("shop._orders_gho", (1, "a")), Commit())
    logs.write(4, Insert("shop.orders", (2, "b")), Commit(), Insert("shop._orders_gho", (2, "b")), Commit())
    logs.run()
    pipeline = logs.pipeline(retention={"bronze": "1d"})
    collected = gc_source(spark, pipeline, SOURCE, now=day(20))
    assert [file.file for file in collected.files] == [file(1)]
    assert str(collected.kept_for).startswith(f"shop._orders_gho, at {file(2)}:")
    logs.write(5, Statement("shop", "RENAME TABLE orders TO _orders_del, _orders_gho TO orders"))
    logs.write(6, Insert("shop.orders", (3, "c")), Commit())
    extract_source(spark, pipeline, SOURCE)
    assert logs.run().stopped == {}
    assert logs.rows("orders") == [(1, "a"), (2, "b"), (3, "c")]
    collected = gc_source(spark, pipeline, SOURCE, now=day(20))
    assert [file.file for file in collected.files] == [file(number) for number in range(2, 6)]
