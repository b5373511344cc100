import logging
import shutil
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.export import export
from spark_jobs.bronze.extract import land, plan
from spark_jobs.changes.bronze_feed import changes_of_bronze
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.delivery.deliver import deliver
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import ConfigError, LakeError, LostRace, SourceError
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention import gc as retention
from spark_jobs.operations.retention.gc import Collected, Reader, gc_source
from spark_jobs.pipeline.archive import read_archive
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.run import run_source
from spark_jobs.source.files import Files
from tests.binlogs.logs import SOURCE, Logs, day, file
from tests.binlogs.segment_spec import Commit, Insert, Statement
from tests.binlogs.xa import prepared
from tests.faults.runs import staged
from tests.lakes.consumers import Shop, order
from tests.lakes.delivered import Copy

REASON = "the group of consumers has acknowledged the log up to there"
KEPT = {"retention": {"bronze": "2d"}}
ANY = wanted_tables([])
RULES = {"row_filters": {"none": {"tables": ["shop.orders"], "insert-value-expr": "id > 99"}}}


@pytest.fixture
def logs(spark: SparkSession, tmp_path: Path) -> Logs:
    """Five files, of days 1 to 5, with an order each."""
    test_logs = Logs(spark, tmp_path)
    for number in range(1, 6):
        test_logs.write(number, Insert("shop.orders", (number, "x")), Commit())
    return test_logs


def gc(logs: Logs, now: float = 5.9, **options: Any) -> Collected:
    keys = {"tables": options.pop("tables")} if "tables" in options else {}
    return gc_source(logs.spark, logs.pipeline(**KEPT, **keys), SOURCE, now=day(now), **options)


def kept_files(logs: Logs) -> list[int]:
    return [file.file_number[1] for file in bronze.files(logs.lake.bronze(SOURCE), logs.bronze().version)]


def names(collected: Collected) -> list[str]:
    return [file.file for file in collected.files]


@pytest.mark.long
@pytest.mark.spark
def test_files_that_are_old_and_read_go_in_batches_and_nobody_gives_less_without_a_word(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    logs.run()
    first = logs.bronze()
    would = gc(logs, dry_run=True)
    assert (names(would), logs.bronze()) == ([file(1), file(2), file(3)], first)

    monkeypatch.setattr(retention, "_BATCH", 1)
    collected = gc(logs)
    assert collected == would
    assert (str(collected.oldest), collected.kept_for) == (f"{file(4)}:4", None)
    assert kept_files(logs) == [4, 5]
    after = logs.bronze()
    assert (after.counter, after.position) == (first.counter + 3, first.position)
    second = gc(logs)
    assert (second.files, second.oldest, logs.bronze()) == ((), collected.oldest, after)

    logs.write(6, Insert("shop.orders", (6, "x")), Insert("shop.later", (1, "new")), Commit())
    assert logs.run().stopped == {}
    assert [row[0] for row in logs.rows("orders")] == [1, 2, 3, 4, 5, 6]
    assert logs.rows("later") == [(1, "new")], "a table that comes later has nothing before it"
    head = logs.bronze()
    assert head.checkpoint
    assert bronze.oldest(head.checkpoint) == collected.oldest

    pattern = (
        rf"bronze no longer holds \[{file(1)}:4, {file(4)}:4\); the oldest that it holds is {file(4)}:4. Bring the"
    )
    with caplog.at_level(logging.WARNING):
        file_names = [exported.path.name for exported in export(logs.spark, logs.lake, SOURCE, tmp_path / "out")]
        lines = "".join(changes_of_bronze(logs.lake, SOURCE, None, None, is_wanted=ANY)).splitlines()
    assert file_names == [file(4), file(5), file(6)]
    assert len(lines) == 4
    assert [pattern.replace("\\", "")[:90] in message for message in caplog.messages] == [True, True]
    with pytest.raises(LakeError, match=pattern):
        list(changes_of_bronze(logs.lake, SOURCE, f"{file(1)}:4", None, is_wanted=ANY))
    full_range = Range(Position(file(1), 4), Position(file(6), 4))
    for number in (1, 2, 3):
        (logs.binlogs / file(number)).rename(tmp_path / file(number))
    message_text = (
        rf"begins at {file(4)}:4, and the replay at {file(1)}:4: "
        rf"it needs {file(1)} to {file(3)}, which no origin has"
    )
    with pytest.raises(LakeError, match=message_text):
        backfill_source(logs.spark, logs.pipeline(), SOURCE, full_range, ANY)
    part = Range(Position(file(5), 4), Position(file(5), 900))
    (reason,) = backfill_source(logs.spark, logs.pipeline(), SOURCE, part, ANY).stopped.values()
    assert f"it needs {file(1)} to {file(3)}, which no" in reason, "its window began before"
    assert len(logs.rows("orders")) == 6


@pytest.mark.long
@pytest.mark.spark
def test_files_put_back_are_the_log_again(logs: Logs, tmp_path: Path) -> None:
    logs.run()
    gc(logs)
    archive = tmp_path / "archive"
    archive.mkdir()
    for number in (2, 3):
        shutil.copy(logs.binlogs / file(number), archive)
    logs.write(6, Insert("shop.orders", (6, "x")), Commit())
    restored = read_archive(logs.spark, logs.pipeline(), SOURCE, archive)
    assert (str(restored.range), restored.extracted) == (f"[{file(2)}:4, {file(4)}:4)", None)
    assert kept_files(logs) == [2, 3, 4, 5]
    with pytest.raises(SourceError, match="no file in it continues bronze at either end"):
        read_archive(logs.spark, logs.pipeline(), SOURCE, archive)
    restored = read_archive(logs.spark, logs.pipeline(), SOURCE, logs.binlogs)
    assert restored.extracted
    assert kept_files(logs) == [1, 2, 3, 4, 5, 6]
    for exported in export(logs.spark, logs.lake, SOURCE, tmp_path / "out"):
        assert exported.path.read_bytes() == (logs.binlogs / exported.path.name).read_bytes()
    full_range = Range(Position(file(1), 4), Position(file(5), 4))
    assert backfill_source(logs.spark, logs.pipeline(), SOURCE, full_range, ANY).stopped == {}


@pytest.mark.thorough
@pytest.mark.spark
def test_nothing_goes_that_a_table_has_not_read_unless_it_is_named(logs: Logs) -> None:
    logs.write(2, Insert("shop.lines", (2, "x")), Commit(), Insert("shop.later", (2, "x")), Commit())
    wide, narrow = ["shop.*"], ["shop.*", "!shop.later"]
    logs.run(logs.pipeline(tables=narrow))
    logs.write(
        6, Statement("shop", "ALTER TABLE orders MODIFY id SMALLINT NOT NULL"), Insert("shop.lines", (6, "x")), Commit()
    )
    logs.run(logs.pipeline(tables=narrow))
    for number in range(7, 10):
        logs.write(number, Insert("shop.lines", (number, "x")), Commit())
    logs.run(logs.pipeline(tables=narrow))

    collected = gc(logs, 20, tables=narrow)
    assert names(collected) == [file(number) for number in range(1, 6)], (
        "it stands before the statement that stopped it"
    )
    assert collected.kept_for
    assert collected.kept_for.name == "shop.orders"
    assert "ALTER TABLE" in collected.kept_for.reason
    with pytest.raises(ConfigError, match=r"shop: no reader 'orders' to ignore; there are shop\.lines, shop\.orders, "):
        gc(logs, 20, tables=narrow, ignored=["orders"])
    assert names(gc(logs, 20, tables=narrow, ignored=["shop.orders"])) == [file(number) for number in range(6, 9)]
    assert kept_files(logs) == [9], "the last file stays"

    logs.write(10, Insert("shop.lines", (10, "x")), Commit())
    stopped = logs.run(logs.pipeline(tables=wide)).stopped
    assert {name.table: "bronze no longer holds [" in message for name, message in stopped.items()} == {
        "orders": True,
        "later": True,
    }
    assert [row[0] for row in logs.rows("lines")] == [2, 6, 7, 8, 9, 10]
    assert len(logs.rows("orders")) == 4


@pytest.mark.spark
def test_an_undecided_xa_transaction_keeps_its_file(logs: Logs) -> None:
    logs.write(2, *prepared(Insert("shop.orders", (2, "x"))))
    logs.run(logs.pipeline(tables=["none.*"]))
    collected = gc(logs, tables=["none.*"])
    assert names(collected) == [file(1)]
    assert collected.kept_for
    assert str(collected.kept_for).startswith(f"xa, at {file(2)}:")
    assert names(gc(logs, tables=["none.*"], ignored=["xa"])) == [file(2), file(3)]


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize(
    "rules", [pytest.param({}, id="plain", marks=pytest.mark.long), pytest.param(RULES, id="ruled")]
)
def test_the_first_window_held_is_done_again_though_the_file_before_it_is_gone(
    spark: SparkSession, tmp_path: Path, rules: dict[str, Any]
) -> None:
    """Its window begins where the file before ends: closed files are read to their last byte."""
    logs = Logs(spark, tmp_path)
    for number in range(1, 6):
        logs.write(number, Insert("shop.orders", (number, "x")), Commit())
        logs.run(logs.pipeline(**rules))
    gc(logs)
    for number in (1, 2, 3):
        (logs.binlogs / file(number)).unlink()
    end = logs.bronze().position
    assert end
    before = Position(file(3), end.offset)  # the files are of one size
    for start in (Position(file(4), 4), before):
        for table in (logs.lake.silver(SOURCE, "shop", "orders"), logs.lake.downstream("shop", "orders")):
            spark.sql(f"UPDATE {table.sql} SET note = 'wrong' WHERE id >= 4")
        assert backfill_source(spark, logs.pipeline(**rules), SOURCE, Range(start, end), ANY).stopped == {}
        assert logs.rows("orders") == [(number, "x") for number in range(1, 6)]
    assert len("".join(changes_of_bronze(logs.lake, SOURCE, str(before), None, is_wanted=ANY)).splitlines()) == 2
    inside = Range(replace(before, offset=before.offset - 1), end)
    with pytest.raises(LakeError, match=rf"it needs {file(3)}, which no"):
        backfill_source(spark, logs.pipeline(**rules), SOURCE, inside, ANY)
    logs.write(6, Insert("shop.orders", (6, "x")), Commit())
    assert logs.run(logs.pipeline(**rules)).stopped == {}
    assert len(logs.rows("orders")) == 6


@pytest.mark.spark
@pytest.mark.parametrize("is_complete", [False, True])
def test_log_that_a_load_needs_stays_while_it_is_open(logs: Logs, is_complete: bool) -> None:
    logs.run()
    entries, position = publication.current(logs.lake, SOURCE)
    assert position
    publication.write(logs.lake, SOURCE, [replace(entry, complete=is_complete) for entry in entries], position)
    staged(logs.pipeline(), TableName("shop", "orders"), [{"id": 2, "note": "x"}], Position(file(2), 4))
    collected = gc(logs)
    assert names(collected) == [file(1)]
    assert collected.kept_for
    assert str(collected.kept_for).startswith(f"shop.orders, at {file(2)}:4 (a load of the table began there")
    command = "if it was interrupted, stratalog load --source shop --table shop.orders ends it"
    assert (command in collected.kept_for.reason) is is_complete


@pytest.mark.spark
def test_log_of_a_table_that_an_online_schema_change_fills_stays(logs: Logs) -> None:
    create = Statement("shop", "CREATE TABLE _orders_gho (id INT NOT NULL PRIMARY KEY, note VARCHAR(40))")
    logs.write(2, create, Insert("shop._orders_gho", (2, "copied")), Commit())
    logs.run()
    collected = gc(logs)
    assert names(collected) == [file(1)]
    assert collected.kept_for
    assert collected.kept_for.name == "shop._orders_gho"
    assert collected.kept_for.reason.startswith("an online schema change fills the table")


@pytest.mark.spark
def test_what_no_run_has_looked_at_stays(logs: Logs) -> None:
    from spark_jobs.pipeline.run import extract_source

    extract_source(logs.spark, logs.pipeline(), SOURCE)
    collected = gc(logs)
    assert collected.files == ()
    assert collected.kept_for
    assert collected.kept_for.name == "silver"
    assert names(gc(logs, ignored=["silver"])) == [file(1), file(2), file(3)]
    (reason,) = logs.run().stopped.values()
    assert "bronze no longer holds [" in reason, "its older rows were never seen"


@pytest.mark.spark
def test_of_gc_and_an_extraction_planned_before_it_the_later_one_loses(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.run()
    source, table = Files(SOURCE, logs.binlogs), logs.lake.bronze(SOURCE)
    logs.write(6, Insert("shop.orders", (6, "x")), Commit())
    late = plan(table, source, "earliest")
    gc(logs, 3.5)
    with pytest.raises(LostRace):
        land(logs.spark, table, late, source.reading(), 0.0)
    assert kept_files(logs) == [2, 3, 4, 5]

    right = retention._Collection._delete_before
    raced: list[int] = []

    def slow(work: Any, oldest: Position, head: Head, checkpoint: Checkpoint) -> Head:
        if not raced:
            raced.append(1)
            land(logs.spark, table, plan(table, source, "earliest"), source.reading(), 0.0)
        return right(work, oldest, head, checkpoint)

    monkeypatch.setattr(retention._Collection, "_delete_before", slow)
    assert names(gc(logs)) == [file(2), file(3)], "gc plans again"
    assert kept_files(logs) == [4, 5, 6]


@pytest.mark.spark
def test_a_bronze_with_another_tool_s_feature_is_refused_by_its_name(logs: Logs) -> None:
    logs.run()
    path = logs.lake.bronze(SOURCE).path
    foreign = {"delta.enableRowTracking": "true"}
    DeltaTable(path).alter.set_table_properties(foreign, raise_if_not_exists=False)
    before = kept_files(logs)
    with pytest.raises(
        LakeError, match=f"{path}: its property delta.enableRowTracking is true: Stratalog does not wri"
    ):
        gc(logs)
    assert kept_files(logs) == before


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("moment", ["before", "after"])
def test_gc_that_dies_between_batches_is_finished_by_the_next(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    class Killed(BaseException):
        pass

    logs.run()
    monkeypatch.setattr(retention, "_BATCH", 1)
    land, commits = Table.land, []

    def fatal(table: Table, upon: Snapshot, head: Head, checkpoint: Checkpoint, **changes: Any) -> Head:
        commits.append(checkpoint)
        if len(commits) < 2:
            return land(table, upon, head, checkpoint, **changes)
        if moment == "after":
            land(table, upon, head, checkpoint, **changes)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Table, "land", fatal)
        with pytest.raises(Killed):
            gc(logs)
    assert kept_files(logs) == ([2, 3, 4, 5] if moment == "before" else [3, 4, 5])
    oldest = logs.bronze().checkpoint
    assert oldest
    assert bronze.oldest(oldest).number == kept_files(logs)[0]
    gc(logs)
    assert kept_files(logs) == [4, 5]


@pytest.mark.spark
def test_without_a_retention_nothing_is_old(logs: Logs) -> None:
    logs.run()
    assert gc_source(logs.spark, logs.pipeline(), SOURCE, now=day(999)).files == ()


def test_a_consumer_group_keeps_the_log_that_it_has_not_acknowledged(tmp_path: Path) -> None:
    shop = Shop(tmp_path, keys="retention: {bronze: 1d}\n")
    for number in range(1, 5):
        shop.log(order(number))

    def would_go(*ignored: str) -> Collected:
        return gc_source(cast(Any, None), shop.pipeline, SOURCE, ignored=["silver", *ignored], dry_run=True)

    with shop.subscription() as subscription:
        assert would_go().kept_for == Reader("group:g", Position("b.000001", 4), REASON)
        subscription.get(2)
        collected = would_go()
        assert ([file.file for file in collected.files], str(collected.oldest)) == (["b.000001"], "b.000002:4")
    assert [file.file for file in would_go("group:g").files] == ["b.000001", "b.000002", "b.000003"]


def test_the_slowest_of_several_groups_keeps_the_log(tmp_path: Path) -> None:
    shop = Shop(tmp_path, keys="retention: {bronze: 1d}\n")
    for number in range(1, 5):
        shop.log(order(number))

    def would_go(*ignored: str) -> Collected:
        return gc_source(cast(Any, None), shop.pipeline, SOURCE, ignored=["silver", *ignored], dry_run=True)

    for group, size in (("fast", 3), ("slow", 1), ("middle", 2)):
        with shop.subscription(group) as subscription:
            subscription.get(size)
            assert len(subscription.get_without_ack(1)) == 1, "what is not acknowledged keeps its log"
    slowest = would_go().kept_for
    assert (names(would_go()), slowest and (slowest.name, slowest.position.file)) == ([], ("group:slow", "b.000001"))
    ignored = ["group:slow", "group:middle", "group:fast"]
    assert [len(names(would_go(*ignored[:count]))) for count in (1, 2, 3)] == [1, 2, 3]
    assert would_go(*ignored[:1]).kept_for == Reader("group:middle", Position("b.000002", 158), REASON)


@pytest.mark.parametrize(
    "position, merged, mode, reason",
    [
        (2, 2, "mirror", "silver has the table up to there"),
        (5, 2, "append", "shop.orders has the table up to there (mode: append)"),
        (5, None, "append", "shop.orders has the table up to there (mode: append)"),
        (5, 2, "mirror", None),
    ],
)
def test_a_table_keeps_the_log_that_is_not_in_it(
    tmp_path: Path, position: int, merged: int | None, mode: str, reason: str | None
) -> None:
    """Silver reads the log, and so does a downstream table that is made of every change; a mirror is made of silver."""
    shop = Shop(tmp_path, keys="retention: {bronze: 1d}\n")
    for number in range(1, 6):
        shop.log(order(number))
    ends = {number: Position(f"b.{number:06d}", 4) for number in range(1, 6)}
    reached = {"position": str(ends[position]), "merged": str(ends[merged]) if merged else None}
    downstream = {"downstream": shop.lake.downstream("shop", "orders").path, "modes": (mode,)}
    entry = Entry(SOURCE, "shop", "orders", "current", **reached, **downstream)  # type: ignore[arg-type]
    publication.write(shop.lake, SOURCE, [entry], ends[5])
    collected = gc_source(cast(Any, None), shop.pipeline, SOURCE, dry_run=True)
    first = min(position, (merged or 1) if mode == "append" else position)
    assert names(collected) == [f"b.{number:06d}" for number in range(1, first)]
    assert collected.kept_for == (Reader("shop.orders", ends[first], reason) if reason else None)


@pytest.mark.spark
@pytest.mark.mysql
def test_a_delivery_in_order_keeps_the_log_that_its_target_lacks(copy: Copy) -> None:
    shop = copy.shop
    keys: dict[str, Any] = {"retention": {"bronze": "1d"}}
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 0)")
    pipeline = copy.pipeline(apply="ordered", **keys)
    copy.run(pipeline)
    with shop.database.server.connect(database=shop.database.name) as connection, connection.cursor() as cursor:
        for statement in ("XA START 'x'", "INSERT INTO t VALUES (50, 0)", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
    shop.execute(
        "INSERT INTO t VALUES (2, 0)", "FLUSH BINARY LOGS", "UPDATE t SET n = 1 WHERE id = 1", "FLUSH BINARY LOGS"
    )
    shop.execute("INSERT INTO t VALUES (3, 0)")
    run_source(shop.spark, pipeline, SOURCE)

    def collected(pipeline: Pipeline, *ignored: str, dry_run: bool = True) -> Collected:
        now = datetime.now(UTC) + timedelta(days=9)
        return gc_source(shop.spark, pipeline, SOURCE, ignored=ignored, dry_run=dry_run, now=now)

    # The log of the transaction that is prepared stays besides.
    waiting = collected(pipeline, "xa")
    assert (waiting.files, waiting.kept_for and waiting.kept_for.name) == ((), "delivery:copy")
    assert "the target has the log up to there (apply: ordered)" in str(waiting.kept_for)
    assert len(collected(pipeline, "xa", "delivery:copy").files) == 2
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    unreachable = copy.pipeline(apply="ordered", port=port, **keys)
    assert "cannot be reached" in str(collected(unreachable, "xa").kept_for)
    assert len(collected(unreachable, "xa", "delivery:copy").files) == 2
    assert len(collected(copy.pipeline(**keys), "xa").files) == 2, "the net change needs no log"

    # What was removed was not needed: the target gets all the same.
    pipeline = copy.pipeline(apply="ordered", **keys)
    assert deliver(pipeline, "copy").stopped == {}
    assert "XA transaction" in str(collected(pipeline).kept_for)
    shop.execute("XA COMMIT 'x'", "FLUSH BINARY LOGS", "UPDATE t SET n = n + 1 WHERE id = 50")
    run_source(shop.spark, pipeline, SOURCE)
    waiting = collected(pipeline, dry_run=False)
    assert (waiting.files, waiting.kept_for and waiting.kept_for.name) == ((), "xa")
    assert "is not read by all" in str(waiting.kept_for)
    assert deliver(pipeline, "copy").stopped == {}
    copy.require_same("t")
    assert len(collected(pipeline, dry_run=False).files) == 3
    shop.execute("UPDATE t SET n = 9")
    assert copy.run(pipeline).stopped == {}
    copy.require_same("t")
