"""A table that is rebuilt from bronze: killed and raced it comes to what the server has, and nobody sees half."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline, Spark
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry, consistent
from spark_jobs.engine.silver import silver_job
from spark_jobs.errors import ConfigError, LostRace, TableStopped
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.table import Table
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.repair import Reset, plan_reset, plan_unreset, reset, unreset
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.pipeline.planner import Planner
from spark_jobs.pipeline.run import compact_source, extract_source, merge_source, publish, silver_units
from spark_jobs.silver import table as silver
from tests.binlogs.logs import Logs, day
from tests.binlogs.segment_spec import Commit, Insert, Statement, Update
from tests.fix_pipeline import SOURCE, Shop, require_same, rows

pytestmark = [pytest.mark.spark, pytest.mark.long]


class Killed(BaseException):
    """Ends a run where nothing is prepared for it."""


def entry(lake: Lake, table: str) -> Entry:
    return next(entry for entry in publication.read(lake, SOURCE) if entry.table == table)


def planned(pipeline: Pipeline, table: str, *, drops_older: bool = False) -> Reset:
    return plan_reset(pipeline, SOURCE, table, drops_older=drops_older)


def was_reset(spark: SparkSession, pipeline: Pipeline, table: str, *, drops_older: bool = False) -> Entry:
    return reset(pipeline, SOURCE, planned(pipeline, table, drops_older=drops_older))


def refused(pipeline: Pipeline, table: str) -> str:
    with pytest.raises(ConfigError) as info:
        planned(pipeline, table)
    return str(info.value)


def killed_at(monkeypatch: pytest.MonkeyPatch, part: str, nth: int, moment: str, do: Callable[[], object]) -> None:
    """Does something, and ends it at the nth commit of tables with this in their paths, before or behind that."""
    land, commits = Table.land, list[str]()

    def fatal(self: Table, upon: Snapshot, head: Head, checkpoint: Checkpoint, **changes: Any) -> Head:
        commits.extend([self.path] if part in self.path else [])
        if part not in self.path or len(commits) != nth:
            return land(self, upon, head, checkpoint, **changes)
        if moment == "behind":
            land(self, upon, head, checkpoint, **changes)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Table, "land", fatal)
        with pytest.raises(Killed):
            do()


ALTERED = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE u (id INT PRIMARY KEY)",
    "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
    "ALTER TABLE t ADD COLUMN w VARCHAR(5) DEFAULT 'x', DROP COLUMN v",
    "INSERT INTO t VALUES (4, 'y')",
    "ALTER TABLE t ADD COLUMN v BIGINT NOT NULL DEFAULT 0 FIRST",
    "UPDATE t SET v = 9 WHERE id = 3",
    "INSERT INTO u VALUES (1)",
)
RENAMED = (
    "CREATE TABLE r_old (id INT PRIMARY KEY)",
    "INSERT INTO r_old VALUES (1), (2)",
    "RENAME TABLE r_old TO r",
    "INSERT INTO r VALUES (3)",
)


@pytest.mark.mysql
def test_a_damaged_table_is_done_over(shop: Shop) -> None:
    pipeline, name = shop.pipeline(), f"{shop.database.name}.t"
    lake, spark = lake_of(pipeline), shop.spark
    origin, target = lake.silver(SOURCE, shop.database.name, "t"), lake.downstream(shop.database.name, "t")
    shop.execute(*ALTERED, *RENAMED)
    shop.run(pipeline)
    for damaged in (origin, target):
        spark.sql(f"DELETE FROM {damaged.sql} WHERE id = 1")
        spark.sql(f"UPDATE {damaged.sql} SET v = -1 WHERE id = 2")
    shop.execute("DELETE FROM t WHERE id = 4")
    shop.run(pipeline)
    assert shop.merged(pipeline, "t") != shop.truth("t"), "a live run mends nothing of it"
    before, heads = entry(lake, "t"), (origin.head(), target.head())

    plan = planned(pipeline, name)
    assert (plan.begin, plan.rows, plan.lost_rows) == (shop.start, 2, None)
    assert entry(lake, "t") == before, "planning changes nothing"
    with pytest.raises(ConfigError, match=f"{name} is not reset"):
        plan_unreset(pipeline, SOURCE, name)
    assert "is no table of shop that a run has seen" in refused(pipeline, "shop.none")
    reset(pipeline, SOURCE, plan)
    requested = entry(lake, "t")
    assert (requested.state, requested.position, requested.resets) == ("reset", None, 1)
    assert (requested.merged, requested.downstream_version) == (before.merged, before.downstream_version)
    tables_shown = {table.table: table.state for table in status(pipeline, lake, SOURCE).tables}
    assert [table for table, state in tables_shown.items() if state != "current"] == [name]
    assert tables_shown[name] == "reset"
    assert "is reset already; the next run rebuilds it" in refused(pipeline, name)
    snapshot = consistent(spark, lake, SOURCE)
    snapshot_rows = snapshot.tables[shop.database.name, "t"].rows
    assert list(snapshot.behind) == [(shop.database.name, "t")]
    assert snapshot_rows is not None
    assert len(rows(snapshot_rows)) == plan.rows

    unreset(pipeline, SOURCE, plan_unreset(pipeline, SOURCE, name))
    shop.run(pipeline)
    assert (origin.head(), target.head()) == heads, "taken back, it is as if it had not been said"
    assert entry(lake, "t").state == "current"

    for wrong in (name, f"{shop.database.name}.r"):
        was_reset(spark, pipeline, wrong)
    shop.execute("INSERT INTO t VALUES (7, 5, 'z')", "INSERT INTO u VALUES (2)")
    assert shop.run(pipeline)[1].stopped == {}
    now, at = entry(lake, "t"), str(shop.end())
    assert (now.state, now.position, now.merged, now.resets, now.complete) == ("current", at, at, 3, True)
    for table in ("t", "u", "r"):
        require_same(shop, pipeline, table)
    assert silver.reset_count(lake.silver(SOURCE, shop.database.name, "r").head()) == 1
    heads = origin.head(), target.head()
    shop.run(pipeline)
    assert (origin.head(), target.head()) == heads, "it is done over once"
    shop.execute("UPDATE t SET v = 1", "DELETE FROM t WHERE id = 1")
    shop.run(pipeline)
    require_same(shop, pipeline, "t")


@pytest.mark.mysql
def test_killed_at_any_commit_and_run_again_it_is_the_servers_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, schema = shop.pipeline(), shop.database.name
    lake, spark, name = lake_of(pipeline), shop.spark, f"{schema}.t"
    origin, target = lake.silver(SOURCE, schema, "t"), lake.downstream(schema, "t")
    shop.execute(*ALTERED)
    shop.run(pipeline)
    plan = planned(pipeline, name)
    before = entry(lake, "t")
    killed_at(monkeypatch, "/published", 1, "before", lambda: reset(pipeline, SOURCE, plan))
    assert entry(lake, "t") == before
    for at, (part, nth, moment) in enumerate(
        [
            (origin.path, 1, "before"),
            (origin.path, 1, "behind"),
            (origin.path, 3, "before"),
            (target.path, 1, "behind"),
            ("/published", 1, "before"),
        ]
    ):
        spark.sql(f"DELETE FROM {target.sql} WHERE id <> 1")
        was_reset(spark, pipeline, name)
        shop.execute(f"INSERT INTO t VALUES (5, {at + 10}, 'z')")
        after = (origin.head(), len(rows(target.read(spark))))
        killed_at(monkeypatch, part, nth, moment, lambda: shop.run(pipeline))
        half = origin.head()
        assert half
        assert half.position
        if (nth, moment) == (1, "before") and part == origin.path:
            assert (half, after[1]) == (after[0], 1), "silver is as it was as long as it has nothing better"
        if part == origin.path and half.position < shop.end():
            merge_source(spark, pipeline, SOURCE)
            assert len(rows(target.read(spark))) == 1, "downstream waits for what silver has not again yet"
        if part == origin.path and (nth, moment) != (1, "before"):
            with pytest.raises(ConfigError, match="is being rebuilt, and is at"):
                plan_unreset(pipeline, SOURCE, name)
        assert entry(lake, "t").state == "reset"
        assert shop.run(pipeline)[1].stopped == {}
        require_same(shop, pipeline, "t")
        require_same(shop, pipeline, "u")
        assert silver.reset_count(origin.head()) == entry(lake, "t").resets == at + 1


@pytest.mark.mysql
def test_of_a_table_of_several_the_others_stay_and_a_loaded_one_is_loaded_again(shop: Shop) -> None:
    base = shop.database.name
    shop.execute("CREATE TABLE still (id INT PRIMARY KEY, v INT)", "INSERT INTO still VALUES (1, 1), (2, 2)")
    shop.execute("FLUSH BINARY LOGS")
    shop = Shop(shop.spark, shop.database, shop.folder, shop.end())
    pipeline = shop.pipeline(live=True, routes=[{"from": f"{base}.part_*", "to": "all.parts"}])
    lake, spark = lake_of(pipeline), shop.spark
    for nth in (1, 2):
        shop.execute(f"CREATE TABLE part_{nth} (id INT PRIMARY KEY)", f"INSERT INTO part_{nth} VALUES ({nth}), (9)")
    load_source(spark, pipeline, SOURCE)
    require_same(shop, pipeline, "still")
    target = lake.downstream("all", "parts")
    spark.sql(f"DELETE FROM {target.sql} WHERE id = 9")

    # Changed on the server without logging, its columns too: the log cannot tell, and a load reads it anew.
    shop.execute("SET SESSION sql_log_bin = 0", "ALTER TABLE still ADD COLUMN w INT DEFAULT 7")
    shop.execute("DELETE FROM still WHERE id = 2", "SET SESSION sql_log_bin = 1")
    assert "2 of its rows in silver were loaded, and bronze does not have them" in refused(pipeline, f"{base}.still")
    assert was_reset(spark, pipeline, f"{base}.still", drops_older=True).state == "reset"
    assert planned(pipeline, f"{base}.part_1").rows == 1, "of the part, but for the row that was deleted"
    was_reset(spark, pipeline, f"{base}.part_1")
    assert shop.run(pipeline)[1].stopped == {}
    all_rows = rows(target.read(spark).select("_table", "id").toDF("table", "id"))
    assert all_rows == [("part_1", 1), ("part_1", 9), ("part_2", 2)]
    assert rows(lake.downstream(base, "still").read(spark)) == []
    assert entry(lake, "still").complete is False
    load_source(spark, pipeline, SOURCE)
    require_same(shop, pipeline, "still")
    shop.execute("INSERT INTO still VALUES (3, 3, 3)", "INSERT INTO part_1 VALUES (4)")
    assert shop.run(pipeline)[1].stopped == {}
    require_same(shop, pipeline, "still")


def test_what_bronze_no_longer_has_is_not_dropped_in_silence(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, Statement("shop", "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(40))"))
    logs.write(2, Insert("shop.orders", (1, "old")), Insert("shop.orders", (2, "old")), Commit())
    logs.write(3, Update("shop.orders", (2, "old"), (2, "new")), Insert("shop.lines", (1, "x")), Commit())
    logs.write(4, Insert("shop.lines", (2, "y")), Commit())
    pipeline = logs.pipeline(retention={"bronze": "1d"})
    logs.run(pipeline)
    assert planned(pipeline, "shop.orders").lost_rows is None
    gc_source(spark, pipeline, SOURCE, now=day(3.5))
    assert "1 of its rows in silver are from before mysql-bin.000003:4" in refused(pipeline, "shop.orders")
    assert planned(pipeline, "shop.lines").lost_rows is None
    was_reset(spark, pipeline, "shop.orders", drops_older=True)
    logs.run(pipeline)
    assert rows(logs.lake.downstream("shop", "orders").read(spark)) == [(2, "new")]
    assert entry(logs.lake, "orders").complete is False

    logs.write(
        5, Statement("shop", "ALTER TABLE lines MODIFY id SMALLINT NOT NULL"), Insert("shop.lines", (3, "z")), Commit()
    )
    (reason,) = logs.run(pipeline).stopped.values()
    with pytest.raises(TableStopped, match="rebuilt, the table would stop there: nothing is reset"):
        planned(pipeline, "shop.lines")
    assert entry(logs.lake, "lines").reason == reason


def test_log_that_gc_removes_behind_the_plan_of_a_reset_stops_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """Whoever reset it was told that bronze has all of its rows."""
    logs = Logs(spark, tmp_path)
    logs.write(1, Statement("shop", "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(40))"))
    logs.write(2, Insert("shop.orders", (1, "old")), Commit())
    logs.write(3, Insert("shop.orders", (2, "new")), Commit())
    logs.write(4, Insert("shop.orders", (3, "new")), Commit())
    pipeline = logs.pipeline(retention={"bronze": "1d"})
    logs.run(pipeline)
    plan = planned(pipeline, "shop.orders")
    gc_source(spark, pipeline, SOURCE, now=day(3.5))
    reset(pipeline, SOURCE, plan)
    (reason,) = logs.run(pipeline).stopped.values()
    assert "gc has removed log up to mysql-bin.000003:4 since the table was reset" in reason
    assert rows(logs.lake.downstream("shop", "orders").read(spark)) == [(1, "old"), (2, "new"), (3, "new")]

    # Taken back, the table continues; reset with consent, it is rebuilt.
    unreset(pipeline, SOURCE, plan_unreset(pipeline, SOURCE, "shop.orders"))
    assert logs.run(pipeline).stopped == {}
    was_reset(spark, pipeline, "shop.orders", drops_older=True)
    assert logs.run(pipeline).stopped == {}
    assert rows(logs.lake.downstream("shop", "orders").read(spark)) == [(2, "new"), (3, "new")]


def test_a_run_that_began_before_the_reset_sets_nothing_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(spark, tmp_path)
    logs.write(1, Insert("shop.orders", (1, "a")), Statement("shop", "TRUNCATE orders"))
    logs.write(2, Insert("shop.orders", (2, "b")), Insert("shop.lines", (1, "x")), Commit())
    pipeline, lake, orders = logs.pipeline(), logs.lake, TableName("shop", "orders")
    logs.run()
    entries, slow = publication.read(lake, SOURCE), compact_source(spark, pipeline, SOURCE)
    was_reset(spark, pipeline, "shop.orders")
    publish(pipeline, SOURCE, merge_source(spark, pipeline, SOURCE, slow))
    assert entry(lake, "orders").state == "reset", "what is published by a run of before leaves it so"

    logs.write(3, Insert("shop.orders", (3, "c")), Commit())
    extract_source(spark, pipeline, SOURCE)
    snapshot = BronzeSnapshot.of(lake, SOURCE)
    planner = Planner(pipeline, lake, snapshot)
    late = silver_units(spark, planner.plan(entries), snapshot.table, Spark()).results[orders]
    killed_at(monkeypatch, "silver/shop/shop/orders", 2, "before", logs.run)
    with pytest.raises(LostRace):
        silver_job.commit(*late)
    with pytest.raises(LostRace, match=r"shop\.orders was reset since this run began"):
        planner.plan(entries)
    logs.run()
    assert rows(lake.downstream("shop", "orders").read(spark)) == [(2, "b"), (3, "c")]
    assert silver.reset_count(lake.silver(SOURCE, "shop", "orders").head()) == 1


def prepared(shop: Shop, *statements: str) -> None:
    """An XA transaction under MINIMAL row images, in a session of its own that is gone when it is prepared."""
    branch = ["SET binlog_row_image = MINIMAL", "XA START 'late'", *statements, "XA END 'late'", "XA PREPARE 'late'"]
    with shop.database.server.connect(database=shop.database.name) as connection, connection.cursor() as cursor:
        for statement in branch:
            cursor.execute(statement)


@pytest.mark.mysql
def test_what_row_images_leave_out_and_xa_commits_late_is_there_when_it_is_done_over(shop: Shop) -> None:
    """The first partial image is met in the middle of doing it over, when a part is written already."""
    pipeline, name = shop.pipeline(), f"{shop.database.name}.t"
    shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(9) DEFAULT 'x')",
        "INSERT INTO t VALUES (1, 1, 'a')",
        "ALTER TABLE t ADD COLUMN z INT DEFAULT 5",
        "INSERT INTO t VALUES (2, 2, 'b', 2)",
    )
    shop.run(pipeline)
    was_reset(shop.spark, pipeline, name)
    prepared(shop, "UPDATE t SET v = 10 WHERE id = 1", "INSERT INTO t (id) VALUES (3)")
    shop.execute("SET binlog_row_image = MINIMAL", "UPDATE t SET w = 'c' WHERE id = 2", "SET binlog_row_image = FULL")
    assert shop.run(pipeline)[1].stopped == {}
    assert shop.merged(pipeline, "t") == [(1, 1, "a", 5), (2, 2, "c", 2)]
    shop.execute("XA COMMIT 'late'")
    for is_second in (False, True):
        if is_second:
            was_reset(shop.spark, pipeline, name)
        assert shop.run(pipeline)[1].stopped == {}
        assert shop.merged(pipeline, "t") == [(1, 10, "a", 5), (2, 2, "c", 2), (3, None, "x", 5)]
        require_same(shop, pipeline, "t")
