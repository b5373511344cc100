"""Old windows folded: what they fold to, when that is done, and what is refused since.

Put here: random rows beside a plain twin, and described logs. Not here: a real server's tables
(tests/pipeline/test_fold.py).
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.export import export
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream import publication
from spark_jobs.downstream.multi_source import SharedPart
from spark_jobs.downstream.publication import consistent
from spark_jobs.lake.commit import Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.operations.retention.fold_windows import why_not
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import Upkeep, maintain_source
from spark_jobs.pipeline.archive import read_archive
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.commit import READING, LoadCommit
from spark_jobs.pipeline.run import compact_source, extract_source
from spark_jobs.silver import table as silver
from tests.binlogs.logs import SOURCE, Logs, day, file
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Update
from tests.lakes.lake_tables import no_rows

pytestmark = pytest.mark.spark

SHOP = TableName("shop", "orders")
NAME = ("shop", "orders")


def write_log(logs: Logs) -> None:
    """Files of days 1 to 6, by four runs: an order comes, lives, or goes, and comes back."""
    for number in range(1, 7):
        changes: list[Change] = [Insert("shop.orders", (number, "new"))]
        changes += [Update("shop.orders", (1, "new" if number == 2 else str(number - 1)), (1, str(number)))] * (
            number > 1
        )
        changes += [Delete("shop.orders", (2, "new"))] * (number == 3) + [Insert("shop.orders", (2, "back"))] * (
            number == 6
        )
        changes += [Delete("shop.orders", (3, "new"))] * (number == 5)
        logs.write(number, *changes, Commit())
        if number not in (1, 3):
            logs.run()


def oldest(logs: Logs) -> Position:
    bronze_head = head(logs.lake.bronze(SOURCE))
    assert bronze_head is not None
    assert bronze_head.checkpoint is not None
    return bronze.oldest(bronze_head.checkpoint)


def since(logs: Logs, number: int) -> Range:
    end = logs.bronze().position
    assert end is not None
    return Range(Position(file(number), 4), end)


TRUTH = [(1, "6"), (2, "back"), (4, "new"), (5, "new"), (6, "new")]


def keeping(logs: Logs, *, fold: bool = True) -> Pipeline:
    return logs.pipeline(retention={"bronze": "2d", "fold": fold})


def maintained(logs: Logs, *, fold: bool = True) -> Upkeep:
    upkeep = maintain_source(logs.spark, keeping(logs, fold=fold), SOURCE)
    assert upkeep.stopped == {}
    return upkeep


def folds(upkeep: Upkeep) -> dict[str, tuple[str, int, int]]:
    fold_results = [maintenance_result.folded for maintenance_result in upkeep.tables if maintenance_result.folded]
    return {fold.name.table: (str(fold.floor), fold.rows_before, fold.rows_after) for fold in fold_results}


def floor(logs: Logs) -> str:
    """Position where the fourth run ended, behind which gc leaves two files."""
    return f"{file(4)}:{(logs.binlogs / file(4)).stat().st_size}"


def head(table: Table) -> Head:
    table_head = table.head()
    assert table_head is not None
    return table_head


def corrupted(logs: Logs, table: Table, condition: str) -> None:
    """As if a run had decoded these rows wrongly."""
    logs.spark.sql(f"UPDATE {table.sql} SET note = 'wrong' WHERE {condition}")


@pytest.mark.long
def test_windows_below_bronze_are_folded_and_the_rest_is_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(spark, tmp_path)
    write_log(logs)
    archive = tmp_path / "archive"
    shutil.copytree(logs.binlogs, archive)
    table, target = logs.lake.silver(SOURCE, *NAME), logs.lake.downstream(*NAME)
    assert folds(maintained(logs)) == {}, "bronze has all of it"
    gc_source(spark, keeping(logs), SOURCE, now=day(6.9))
    assert folds(maintained(logs, fold=False)) == {}, "nobody asked for it"
    before = consistent(spark, logs.lake, SOURCE).tables["shop", "orders"].rows
    assert before is not None
    rows = table.read(spark).count()
    assert folds(maintained(logs)) == {"orders": (floor(logs), 6, 3)}
    assert table.read(spark).count() == rows - 3
    assert before.count() == len(TRUTH), "a reader of what was published before goes on"
    assert logs.rows("orders") == TRUTH
    (entry,) = (entry for entry in publication.read(logs.lake, SOURCE) if entry.table == "orders")
    assert entry.silver_version == head(table).version
    assert folds(maintained(logs)) == {}, "once"

    shutil.rmtree(target.path)
    assert logs.run().stopped == {}
    assert logs.rows("orders") == TRUTH, "written anew from what was folded"

    later = since(logs, 6)
    corrupted(logs, table, f"_window_stop > {silver.position_sql(later.start)} AND _op <> 'delete'")
    corrupted(logs, target, "id IN (1, 2, 6)")
    outcome = backfill_source(spark, keeping(logs), SOURCE, later, lambda name: name == SHOP)
    assert (outcome.stopped, logs.rows("orders")) == ({}, TRUTH)

    reason = f"its windows before {floor(logs)} are folded into one, and are not replayed, whatever bronze holds"
    outcome = backfill_source(spark, keeping(logs), SOURCE, since(logs, 1), lambda name: name == SHOP)
    assert reason in outcome.stopped[SHOP]
    assert oldest(logs) > since(logs, 1).start, "no file is brought for a table that has no use of it"
    read_archive(spark, keeping(logs), SOURCE, archive)
    assert len(list(export(spark, logs.lake, SOURCE, tmp_path / "out"))) == 6, "what was brought back is there"
    outcome = backfill_source(spark, keeping(logs), SOURCE, since(logs, 1), lambda _: True)
    assert set(outcome.stopped) == {SHOP}
    assert reason in outcome.stopped[SHOP]
    assert logs.rows("orders") == TRUTH

    reset(keeping(logs), SOURCE, plan_reset(keeping(logs), SOURCE, str(SHOP)))
    assert "it is reset" in maintained(logs).unfolded[SHOP]
    assert logs.run().stopped == {}
    assert (logs.rows("orders"), silver.fold_floor(head(table))) == (TRUTH, None)
    outcome = backfill_source(spark, keeping(logs), SOURCE, since(logs, 1), lambda name: name == SHOP)
    assert (outcome.stopped, logs.rows("orders")) == ({}, TRUTH)


@pytest.mark.long
def test_a_table_waits_where_something_is_still_to_come_by(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(spark, tmp_path)
    write_log(logs)
    gc_source(spark, keeping(logs), SOURCE, now=day(6.9))
    table, lake = logs.lake.silver(SOURCE, *NAME), logs.lake
    logs.write(7, Insert("shop.orders", (7, "new")), Commit())
    extract_source(spark, keeping(logs), SOURCE)
    compact_source(spark, keeping(logs), SOURCE)
    (entry,) = (entry for entry in publication.read(lake, SOURCE) if entry.table == "orders")
    assert why_not(lake, entry, head(table)) == "downstream has not got all of it yet"
    logs.run()
    (entry,) = (entry for entry in publication.read(lake, SOURCE) if entry.table == "orders")
    assert why_not(lake, entry, head(table)) is None
    assert why_not(lake, replace(entry, downstream=None), head(table)) == "downstream has not got all of it yet"
    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.operations.retention.fold_windows.view", SharedPart)
        assert "keys in common with other sources" in str(why_not(lake, entry, head(table)))
    definition = TableDefinition(SHOP, (Column("id", 3),), key=(0,))
    at = Position(file(6), 4)
    with monkeypatch.context() as patched:
        loading = LoadCommit(at, "b", state=READING, read_from=at, definition=definition, chunk_rows=10)
        patched.setattr("spark_jobs.operations.retention.fold_windows.progress", lambda *_: loading)
        assert why_not(lake, entry, head(table)) == "it is being loaded"

    right = Table.land
    raced: list[str] = []

    def overtaken(self: Table, snapshot: Snapshot, upon: Head, commit: Any, **changes: Any) -> Head:
        if self.path == table.path and not raced:
            raced.append(self.path)
            assert upon.checkpoint is not None
            self.append_rows(no_rows(self), upon, replace(upon.checkpoint, batch=new_batch()))
        return right(self, snapshot, upon, commit, **changes)

    monkeypatch.setattr(Table, "land", overtaken)
    upkeep = maintained(logs)
    assert (folds(upkeep), upkeep.unfolded) == ({}, {SHOP: "downstream has not got all of it yet"}), (
        "a window came first"
    )


def run_again(logs: Logs) -> None:
    logs.write(7, Insert("shop.orders", (7, "new")), Commit())
    assert logs.run(keeping(logs)).stopped == {}


def done_again(logs: Logs) -> None:
    """A window above the floor, of which silver and downstream had something else."""
    later = since(logs, 6)
    for table in (logs.lake.silver(SOURCE, *NAME), logs.lake.downstream(*NAME)):
        corrupted(logs, table, "id = 6")
    outcome = backfill_source(logs.spark, keeping(logs), SOURCE, later, lambda name: name == SHOP)
    assert (outcome.stopped, len(outcome.compacted)) == ({}, 1)


def between(patched: pytest.MonkeyPatch, table: Table, do: Callable[[], object]) -> list[str]:
    """Has something done just before the first commit of a kind to a table; gives the tables where it was."""
    paths: list[str] = []

    def patch(name: str, right: Callable[..., Head]) -> None:
        def overtaken(self: Table, *arguments: Any, **options: Any) -> Head:
            if self.path == table.path and not paths:
                paths.append(self.path)
                do()
            return right(self, *arguments, **options)

        patched.setattr(Table, name, overtaken)

    patch("land", Table.land)
    patch("replace_rows", Table.replace_rows)
    return paths


@pytest.mark.long
def test_maintenance_beside_a_run_a_backfill_and_other_maintenance(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer comes between what maintenance has planned and its commit, at the fold and where it publishes."""
    first = Logs(spark, tmp_path / "first")
    first.folder.mkdir()
    write_log(first)
    gc_source(spark, keeping(first), SOURCE, now=day(6.9))
    writers: list[Callable[[Logs], object]] = [maintained, run_again, done_again, done_again]
    for at, writer in enumerate(writers):
        logs = first.copied(tmp_path / str(at))
        table = logs.lake.published() if at == 3 else logs.lake.silver(SOURCE, *NAME)
        with monkeypatch.context() as patched:
            overtaken_paths = between(patched, table, partial(writer, logs))
            maintained(logs)
        assert overtaken_paths
        assert folds(maintained(logs)) == {}, "what lost was planned anew"
        assert logs.rows("orders") == TRUTH + ([(7, "new")] if writer is run_again else [])
        (entry,) = (entry for entry in publication.read(logs.lake, SOURCE) if entry.table == "orders")
        heads = head(logs.lake.silver(SOURCE, *NAME)), head(logs.lake.downstream(*NAME))
        assert silver.fold_floor(heads[0]) is not None
        assert [entry.silver_version, entry.downstream_version] == [head.version for head in heads]
