from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.bronze.export import export
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.delta import commits, data_files, schema_changes, vacuum
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream.publication import consistent, read
from spark_jobs.engine.jobs import rewrite
from spark_jobs.errors import LostRace
from spark_jobs.lake.commit import Checkpoint, CommitKind, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.observation import verified
from spark_jobs.operations.observation.verified import EQUAL, Verified
from spark_jobs.operations.retention import maintenance
from spark_jobs.operations.retention.maintenance import (
    Maintained,
    Upkeep,
    _hours,
    maintain_source,
    newest_with_same_rows,
    superseded,
)
from spark_jobs.pipeline import iceberg_tables
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.run import extract_source
from spark_jobs.runtime.lazy_session import lazy_session
from spark_jobs.storage.files import StoredPath, walk
from tests.binlogs.logs import SOURCE, Logs, file
from tests.binlogs.segment_spec import Commit, Insert, Update
from tests.command_result import without_codes
from tests.lakes.iceberg_readers import by_delta, by_pyiceberg
from tests.lakes.lake_tables import marked_rows, no_rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def three_runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Logs:
    """Three runs of a file each: a row comes, then is changed, so that it is marked as deleted in an older file."""
    logs = Logs(spark, tmp_path_factory.mktemp("three_runs"))
    for number in range(1, 4):
        updated = [Update("shop.orders", (1, str(number - 1)), (1, str(number)))] if number > 1 else []
        logs.write(number, Insert("shop.orders", (number, str(number))), *updated, Commit())
        logs.run()
    return logs


@pytest.fixture
def logs(three_runs: Logs, tmp_path: Path) -> Logs:
    """The test's own copy."""
    return three_runs.copied(tmp_path)


def tables(logs: Logs) -> dict[str, Table]:
    lake = logs.lake
    return {
        "bronze": lake.bronze(SOURCE),
        "silver": lake.silver(SOURCE, "shop", "orders"),
        "downstream": lake.downstream("shop", "orders"),
    }


def done_to(upkeep: Upkeep, table: Table) -> Maintained:
    return next(lake_table for lake_table in upkeep.tables if lake_table.path == table.path)


def all_contents(logs: Logs) -> dict[str, Any]:
    rows = {name: sorted(map(repr, table.read(logs.spark).collect())) for name, table in tables(logs).items()}
    return rows | {"positions": [table.head().position for table in tables(logs).values()]}  # type: ignore[union-attr]


@pytest.mark.long
def test_files_are_written_together_and_nothing_else_changes(logs: Logs, tmp_path: Path) -> None:
    before, start = all_contents(logs), consistent(logs.spark, logs.lake, SOURCE)
    verified.note(logs.lake, SOURCE, [Verified("shop", "orders", EQUAL, "b.000001:4", verified.now())])
    upkeep = maintain_source(logs.spark, logs.pipeline(), SOURCE)
    assert upkeep.stopped == {}
    assert done_to(upkeep, logs.lake.verified(SOURCE)).files_after == 1
    for table in tables(logs).values():
        maintenance_result = done_to(upkeep, table)
        assert (maintenance_result.files_before > 1, maintenance_result.files_after, maintenance_result.kept_hours) == (
            True,
            1,
            7 * 24,
        ), table.path
        assert len(table.file_sizes()) == 1
        assert marked_rows(table) == 0
    assert all_contents(logs) == before
    assert start.tables["shop", "orders"].rows is not None
    assert start.tables["shop", "orders"].rows.count() == 3, "a reader of older versions goes on"
    (entry,) = read(logs.lake, SOURCE)
    heads = [tables(logs)[name].head() for name in ("silver", "downstream")]
    assert [entry.silver_version, entry.downstream_version] == [head.version for head in heads if head]

    second = maintain_source(logs.spark, logs.pipeline(), SOURCE)
    assert [lake_table.version_before == lake_table.version_after for lake_table in second.tables] == [True] * len(
        second.tables
    )
    from spark_jobs.operations.observation.backlog import is_every_table_current

    assert is_every_table_current(logs.pipeline(), SOURCE), "the next run has nothing to do"
    logs.write(4, Insert("shop.orders", (4, "4")), Update("shop.orders", (1, "3"), (1, "4")), Commit())
    assert logs.run().stopped == {}
    assert logs.rows("orders") == [(1, "4"), (2, "2"), (3, "3"), (4, "4")]
    full_range = Range(Position(file(1), 4), Position(file(4), 4))
    outcome = backfill_source(logs.spark, logs.pipeline(), SOURCE, full_range, wanted_tables([]))
    assert (outcome.compacted, outcome.merged, outcome.stopped) == ([], [], {})
    assert len(list(export(logs.spark, logs.lake, SOURCE, tmp_path / "out"))) == 4


@pytest.mark.long
def test_a_purge_removes_every_marked_row(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables(logs)["downstream"]
    monkeypatch.setattr(rewrite, "DEAD", 2.0)
    monkeypatch.setattr(rewrite, "SMALL", 1)
    maintain_source(logs.spark, logs.pipeline(), SOURCE)
    assert marked_rows(table) > 0, "too few to be worth it"
    before = all_contents(logs)
    maintain_source(logs.spark, logs.pipeline(), SOURCE, purge=True)
    assert marked_rows(table) == 0
    assert all_contents(logs) == before


@pytest.mark.long
def test_files_go_that_no_reader_needs_and_stay_while_one_does(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    silver = tables(logs)["silver"]
    before = silver.head()
    maintain_source(logs.spark, logs.pipeline(), SOURCE)
    assert before is not None

    def file_count() -> int:
        return len([path for path in Path(silver.path).rglob("*.parquet") if path.parent.name != "_delta_log"])

    full = file_count()
    assert full >= 4
    hours = _hours(silver, before.version, timedelta(0))
    assert hours == 2, "the version before was replaced less than an hour ago"
    newest, older = snapshot_of(silver.path), snapshot_of(silver.path, before.version)
    assert newest is not None
    assert older is not None
    assert vacuum.unnamed_files(newest, vacuum.list_files(newest), hours) == []
    after = silver.head()
    assert after is not None
    assert (_hours(silver, after.version, timedelta(0)), _hours(silver, None, timedelta(days=2))) == (0, 48)
    assert len(vacuum.unnamed_files(newest, vacuum.list_files(newest), 0, [older])) == full - 1 - len(older.files)
    monkeypatch.setattr(maintenance, "_hours", lambda *_: 0)
    monkeypatch.setattr(maintenance, "_maintained_tables", lambda lake, source: [(silver, ())])
    listed = []

    def counted_walk(folder: StoredPath) -> Iterator[tuple[str, float]]:
        listed.append(str(folder))
        return walk(folder)

    monkeypatch.setattr(vacuum, "walk", counted_walk)
    assert maintain_source(logs.spark, logs.pipeline(), SOURCE).stopped == {}
    assert file_count() == 1
    assert listed == [silver.path], "a listing of a store's folder is a request for each thousand files"
    assert silver.head() == after, "removing files is no version of the table"


@pytest.mark.long
def test_old_files_go_of_a_table_that_iceberg_cannot_show_but_those_that_it_names(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    downstream = tables(logs)["downstream"]
    with_iceberg = logs.pipeline(iceberg=True)
    iceberg_tables.show_tables(with_iceberg, SOURCE)
    shown_rows = by_delta(downstream.path)
    shown = snapshot_of(downstream.path)
    for number in (4, 5):
        logs.write(number, Insert("shop.orders", (number, "x")), Update("shop.orders", (1, "x"), (1, "y")), Commit())
        logs.run()
        rewritten(downstream)
    widened = snapshot_of(downstream.path)
    assert widened
    widening = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    change = schema_changes.apply(widened, [widening, "ALTER COLUMN id TYPE DECIMAL(20,0)"])
    commits.commit(widened, metadata=change.metadata, protocol=change.protocol)
    monkeypatch.setattr(maintenance, "_hours", lambda *_: 0)
    upkeep = maintain_source(logs.spark, with_iceberg, SOURCE)
    assert [*upkeep.stopped] == [downstream.path]
    assert (
        "column id was widened from integer to decimal(20,0), and Iceberg's readers" in upkeep.stopped[downstream.path]
    )
    (entry,) = read(logs.lake, SOURCE)
    named = [shown, snapshot_of(downstream.path, entry.downstream_version), snapshot_of(downstream.path)]
    present = {path.name for path in Path(downstream.path).glob("*.parquet")}
    assert present == {file.path for snapshot in named if snapshot for file in snapshot.files}
    assert by_pyiceberg(downstream.path) == shown_rows != by_delta(downstream.path)


def rewritten(table: Table) -> None:
    """One more version of a table, whose rows are in one file."""
    snapshot = snapshot_of(table.path)
    assert snapshot
    rows = [data_files.read_living(table.path, file, snapshot.schema.names, snapshot.schema) for file in snapshot.files]
    file = data_files.write(table.path, pa.concat_tables(rows), snapshot.schema, snapshot.configuration)
    commits.commit(snapshot, adds=[file], removes=list(snapshot.files))


@pytest.mark.long
def test_a_version_that_a_merge_compares_with_is_kept_however_old(logs: Logs) -> None:
    lake = logs.lake
    (entry,) = read(lake, SOURCE)
    needed_versions = {table.path: versions for table, versions in maintenance._maintained_tables(lake, SOURCE)}
    assert entry.silver_version in needed_versions[tables(logs)["silver"].path]
    assert needed_versions[tables(logs)["downstream"].path] == (entry.downstream_version,)
    since = superseded(tables(logs)["bronze"], 0)
    assert since is not None
    assert timedelta(0) < datetime.now(UTC) - since < timedelta(hours=1)


@pytest.mark.long
def test_a_writer_that_planned_before_loses_and_one_that_comes_first_is_waited_for(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables(logs)["downstream"]
    planned = table.head()
    assert planned is not None
    assert planned.checkpoint is not None
    first, late = (replace(planned.checkpoint, batch=new_batch()) for _ in range(2))
    right = rewrite.land
    raced: list[str] = []

    def slow(target: Table, upon: Any, head: Any, *files: Any) -> Any:
        if target.path == table.path and not raced:
            raced.append(target.path)
            target.append_rows(no_rows(target), head, first)
        return right(target, upon, head, *files)

    monkeypatch.setattr(rewrite, "land", slow)
    upkeep = maintain_source(logs.spark, logs.pipeline(), SOURCE)
    assert (upkeep.stopped, len(table.file_sizes()), raced) == ({}, 1, [table.path])
    with pytest.raises(LostRace):
        table.append_rows(no_rows(table), planned, late)


@pytest.mark.long
def test_what_lands_while_files_are_written_together_stays_the_newest_that_a_table_says(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit holds upon whatever was appended since."""
    logs.write(4, Insert("shop.orders", (4, "4")), Commit())
    table, right = tables(logs)["bronze"], rewrite.run
    landed: list[Position] = []

    def slow(*arguments: Any) -> Any:
        results = right(*arguments)
        landed.append(extract_source(logs.spark, logs.pipeline(), SOURCE).range.stop)
        return results

    monkeypatch.setattr(rewrite, "run", slow)
    assert maintain_source(logs.spark, logs.pipeline(), SOURCE).stopped == {}
    head = table.head()
    assert head is not None
    assert ([head.position], len(table.file_sizes())) == (landed, 2)
    assert table.history(1)[0]["operation"] == "REWRITE", "behind the extraction"
    slices = table.read(logs.spark).count()
    assert logs.run().stopped == {}
    assert table.read(logs.spark).count() == slices, "nothing is extracted twice"
    assert logs.rows("orders")[-1] == (4, "4")
    (entry,) = read(logs.lake, SOURCE)
    assert entry.holds(str(landed[0]))


def test_the_newest_version_with_the_same_rows_is_behind_maintenance_alone(tmp_path: Path) -> None:
    table, column = Table(str(tmp_path / "t"), plain=False), {"a": "STRING"}
    kinds = (CommitKind.LIVE, CommitKind.MAINTENANCE, CommitKind.LIVE, CommitKind.MAINTENANCE, CommitKind.MAINTENANCE)
    for number, kind in enumerate(kinds):
        checkpoint = Checkpoint(Position("b.000001", 4 + number), new_batch(), kind=kind)
        head = table.head() or table.unwritten_head(column, {})
        table.replace_rows(pa.table({"a": [str(number)]}), {}, head, checkpoint, columns=column)
    assert [newest_with_same_rows(table, version) for version in range(5)] == [0, 1, 4, 4, 4]


@pytest.mark.long
def test_a_table_that_cannot_be_maintained_does_not_stop_the_others(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(self: Table, *_: Any) -> None:
        raise LostRace(f"{self.path}: another writer")

    bronze = tables(logs)["bronze"].path
    right = rewrite.land
    monkeypatch.setattr(rewrite, "land", lambda table, *a: busy(table) if table.path == bronze else right(table, *a))
    upkeep = maintain_source(logs.spark, logs.pipeline(), SOURCE)
    assert [*upkeep.stopped] == [bronze]
    assert without_codes(upkeep.stopped[bronze]).startswith(f"{bronze}: another writer; run again")
    assert done_to(upkeep, tables(logs)["silver"]).files_after == 1
    assert lake_of(logs.pipeline()).bronze(SOURCE).path == bronze


@pytest.mark.parametrize(
    "change, reason",
    [
        ("ADD CONSTRAINT positive CHECK (id > 0)", "it has the constraint positive"),
        ("SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')", "its protocol has the table feature rowTracking"),
    ],
)
@pytest.mark.long
def test_a_table_with_another_tool_s_feature_is_left_as_it_is_by_name(logs: Logs, change: str, reason: str) -> None:
    table = tables(logs)["downstream"]
    logs.spark.sql(f"ALTER TABLE {table.sql} {change}")
    before, head = all_contents(logs), table.head()
    upkeep = maintain_source(logs.spark, logs.pipeline(), SOURCE)
    assert [*upkeep.stopped] == [table.path]
    assert f"{table.path}: {reason}: Stratalog does not write such a table" in upkeep.stopped[table.path]
    assert done_to(upkeep, tables(logs)["silver"]).files_after == 1, "others go on"
    assert (table.head(), all_contents(logs)) == (head, before)


@pytest.mark.long
def test_no_session_is_made_where_little_is_written(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> SparkSession:
        raise AssertionError("Spark starts")

    before = all_contents(logs)
    upkeep = maintain_source(lazy_session(make), logs.pipeline(), SOURCE)
    assert (upkeep.stopped, len(upkeep.tables)) == ({}, 5)
    assert done_to(upkeep, tables(logs)["silver"]).files_after == 1
    assert all_contents(logs) == before
    logs.write(4, Insert("shop.orders", (4, "4")), Commit())
    logs.run()
    monkeypatch.setattr(maintenance, "_HERE", 1000)
    with pytest.raises(AssertionError, match="Spark starts"):
        maintain_source(lazy_session(make), logs.pipeline(), SOURCE)
