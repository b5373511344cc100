"""A silver table whose rows lack columns: the column that says so, and its names behind statements."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.bronze.index import SliceIndex, read_index
from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.silver import silver_job, silver_plan
from spark_jobs.engine.silver.silver_plan import PreparedCompaction, stopped_before_failures
from spark_jobs.engine.silver.silver_task import WindowResult
from spark_jobs.errors import PartialImage, TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import DataRange
from tests.binlogs.slicing import bronze_of, rows_at
from tests.binlogs.timelines import NAME, at, steps
from tests.spark_jobs.engine.lake_rows import newest, rows_of

WHOLE = Range(at(10), at(1000))


def work_of(folder: Path, *statements: tuple[int, str]) -> tuple[CompactionJob, SliceIndex]:
    timeline = steps(*statements)
    if statements:
        timeline.append(DataRange(Range(timeline[-1].range.stop, at(1000)), timeline[-1].state))
    slices = rows_at([(start, "rows", "t") for start in range(10, 1000, 10)])
    bronze, version = bronze_of(folder / "bronze", [slices])
    table = Table(str(folder / "silver"), plain=False)
    return CompactionJob("shop", NAME, Window(bronze, version, (WHOLE,)), timeline, table, table.head(), 990), (
        read_index(bronze, version)
    )


def prepared(folder: Path, *statements: tuple[int, str], has_partial: bool = True) -> PreparedCompaction:
    work, index = work_of(folder, *statements)
    preparation = silver_plan.prepared([replace(work, has_partial=has_partial)], index)
    assert preparation.errors == {}
    return preparation.units[0]


def file_of(unit: PreparedCompaction, window: int, key: int, absent: list[str] | None) -> DataFile:
    """A row of a window as a task writes it."""
    schema = unit.unit.windows[window].schema
    cells = {"id": key, "_op": "update", "_position": {"stretch": 1, "number": 1, "offset": 10, "row": 0}}
    cells |= {silver.ABSENT: absent} if absent else {}
    fields = schema.arrow(physical=False)
    rows = pa.Table.from_pylist([{name: cells.get(name) for name in fields.names}], fields)
    return data_files.write(unit.unit.path, rows, schema, unit.unit.windows[window].configuration)


def committed(unit: PreparedCompaction, *absent: list[str] | None) -> Snapshot:
    """The table after commits of a row a window, with what each row lacks."""
    results = [
        WindowResult(0, window, file_of(unit, window, 10 * len(unit.snapshot.files) + window, names))
        for window, names in enumerate(absent)
    ]
    silver_job.commit(unit, results)
    return newest(unit.unit.path)


def absent_of(snapshot: Snapshot) -> dict[int, list[str] | None]:
    return {row["id"]: row["_absent"] for row in rows_of(snapshot)}


@pytest.mark.parametrize("is_new", [True, False])
def test_a_table_gets_the_column_with_its_next_commit(is_new: bool, tmp_path: Path) -> None:
    """Without a commit of its own; rows that are there are whole."""
    if not is_new:
        assert silver.ABSENT not in committed(prepared(tmp_path, has_partial=False), None).schema.names
    unit = prepared(tmp_path)
    assert [stage.changes_design for stage in unit.stages] == [not is_new]
    behind = committed(unit, ["v"])
    assert behind.version == (0 if is_new else 1)
    assert behind.schema.spark_types[silver.ABSENT] == "ARRAY<STRING>"
    assert absent_of(behind) == ({0: ["v"]} if is_new else {0: None, 10: ["v"]})
    assert prepared(tmp_path, has_partial=False).work.has_partial, "it keeps it"


def test_a_unit_is_done_again_with_the_column_and_up_to_where_it_stopped(tmp_path: Path) -> None:
    committed(prepared(tmp_path, has_partial=False), None)
    work, index = work_of(tmp_path, (300, "ALTER TABLE t ADD w INT"))
    (unit,) = silver_plan.prepared([work], index).units
    stopped = TableStopped("no")
    shortened = stopped_before_failures(unit, [WindowResult(0, 0, error=stopped, failing=at(200))], index)
    assert shortened.ended is not None
    partial_unit = stopped_before_failures(shortened, [WindowResult(0, 0, error=PartialImage("p"))], index)
    assert partial_unit.work.has_partial
    assert partial_unit.ended == shortened.ended
    assert [window.columns.has_partial for window in partial_unit.unit.windows] == [True]
    assert [stage.step.range for stage in partial_unit.stages] == [Range(at(10), at(200))]
    assert partial_unit.stages[0].changes_design


def test_rows_that_are_there_lack_the_column_by_its_new_name(tmp_path: Path) -> None:
    """Those of the run's earlier windows too; files without such rows stay."""
    committed(prepared(tmp_path), ["v"])
    whole_files = {file.path for file in committed(prepared(tmp_path), None).files}
    unit = prepared(tmp_path, (300, "ALTER TABLE t RENAME COLUMN v TO x"), (500, "ALTER TABLE t ADD v INT"))
    behind = committed(unit, ["v"], ["v"])
    assert absent_of(behind) == {0: ["x"], 10: None, 20: ["x"], 21: ["v"]}
    assert len(whole_files & {file.path for file in behind.files}) == 1
    assert [stage.changes_design for stage in unit.stages] == [False, True, True, False]


def test_a_column_that_goes_is_lacked_no_more(tmp_path: Path) -> None:
    committed(prepared(tmp_path), ["v"])
    behind = committed(prepared(tmp_path, (300, "ALTER TABLE t DROP v")), ["v"], None)
    assert absent_of(behind) == {0: None, 10: None, 11: None}
