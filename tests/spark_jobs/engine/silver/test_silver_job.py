"""Units packed into tasks, the stages of statements, and commits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.bronze.index import OF_TABLE, read_index
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.silver import silver_job, silver_plan
from spark_jobs.engine.silver.silver_plan import PreparedCompaction
from spark_jobs.engine.silver.silver_task import Refill, SilverTask, SilverUnit, WindowResult, work
from spark_jobs.errors import LostRace
from spark_jobs.lake.commit import APPLICATION, CommitKind
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table import Columns
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableState, TimelineStep
from tests.binlogs.slicing import bronze_of, rows_at
from tests.binlogs.timelines import NAME, OLD, at, steps
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, newest, rows_of, table_of
from tests.spark_jobs.engine.logs_of_rows import carried_out, log_of, units_of, works_of

Slice = tuple[int, int]
"""The row group that a slice is in, and its bytes."""
WINDOWS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 1 << 20)), max_size=6), min_size=1, max_size=3)


def packed(number: int, windows: list[list[Slice]], *, ordered: bool) -> PreparedCompaction:
    """A unit with slices, of which only positions and bytes mean something."""
    tables = []
    for window in windows:
        rows = [
            dict.fromkeys(OF_TABLE.names)
            | {"data_file": "a", "row_group": group, "row": nth, "bytes": size, "stretch": 1, "number": 1}
            | ({"effect_start": 4} if ordered else {})
            for nth, (group, size) in enumerate(sorted(window))
        ]
        tables.append(pa.Table.from_pylist(rows, OF_TABLE))
    return PreparedCompaction(cast(Any, None), SilverUnit(number, "t", "p", ()), cast(Any, None), (), tuple(tables))


@examples(150)
@given(st.lists(st.tuples(WINDOWS, st.booleans()), max_size=5), st.integers(1, 4), st.integers(18, 25))
def test_every_slice_is_in_one_task(shapes: list[tuple[list[list[Slice]], bool]], slots: int, bits: int) -> None:
    units = [packed(number, windows, ordered=ordered) for number, (windows, ordered) in enumerate(shapes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(silver_job, "_LEAST_TASK_BYTES", 1 << bits)
        all_tasks, buckets, assigned = silver_job.tasks_of("bronze", units, Capacity(slots))
    tasks = [task for task in all_tasks if isinstance(task, SilverTask)]
    assert tasks == all_tasks
    slices = [
        (*at, row["row_group"], row["row"])
        for task in tasks
        for at, table in task.slices.items()
        for row in table.to_pylist()
    ]
    assert sorted(slices) == sorted(
        (unit.unit.number, at, row["row_group"], row["row"])
        for unit in units
        for at, table in enumerate(unit.slices)
        for row in table.to_pylist()
    )
    homes = {
        unit.unit.number: [task for task in tasks if any(n == unit.unit.number for n, _ in task.slices)]
        for unit in units
    }
    with_buckets = {unit.number: unit.buckets for unit in assigned}
    for unit in units:
        number, unit_tasks = unit.unit.number, homes[unit.unit.number]
        assert (len(unit_tasks) > 1) == (number in with_buckets), "buckets only where several tasks have slices"
        assert not (unit.is_ordered and len(unit_tasks) > 1), "one task numbers the rows of XA transactions"
        for task in unit_tasks:
            (task_unit,) = (unit for unit in task.units if unit.number == number)
            assert task_unit.buckets == with_buckets.get(number, ())
    assert all(
        0 <= bucket < buckets and len({*bucket_list}) == len(bucket_list)
        for bucket_list in with_buckets.values()
        for bucket in bucket_list
    )
    assert (buckets > 0) == bool(assigned)


def work_of(folder: Path, timeline: list[TimelineStep]) -> tuple[CompactionJob, Any]:
    """Silver's work on shop.t from 10 to 1000, with slices of 10 bytes all the way."""
    bronze, version = bronze_of(folder / "bronze", [rows_at([(start, "rows", "t") for start in range(10, 1000, 10)])])
    log_range = Range(at(10), at(1000))
    table = Table(str(folder / "silver"), plain=False)
    work = CompactionJob("shop", NAME, Window(bronze, version, (log_range,)), timeline, table, table.head(), 990)
    return work, read_index(bronze, version)


def prepared(folder: Path, *statements: tuple[int, str]) -> PreparedCompaction:
    timeline = steps(*statements)
    if statements:
        timeline.append(DataRange(Range(timeline[-1].range.stop, at(1000)), timeline[-1].state))
    work, index = work_of(folder, timeline)
    preparation = silver_plan.prepared([work], index)
    assert preparation.errors == {}
    return preparation.units[0]


RENAME = "ALTER TABLE t RENAME COLUMN w TO x"
ADD = "ALTER TABLE t ADD w INT NOT NULL DEFAULT 4"
CASES: list[tuple[list[str], list[list[str]], list[list[str]]]] = [
    ([], [["id", "v"]], [[]]),
    ([ADD], [["id", "v"], ["id", "v", "w"], ["id", "v", "w"]], [["w"], []]),
    (["ALTER TABLE t ADD w INT FIRST"], [["id", "v"], ["w", "id", "v"], ["w", "id", "v"]], [[], []]),
    (["ALTER TABLE t DROP v"], [["id", "v"], ["id"], ["id"]], [[], []]),
    (["ALTER TABLE t RENAME COLUMN v TO x"], [["id", "v"], ["id", "x"], ["id", "x"]], [[], []]),
    ([ADD, RENAME], [["id", "v"], ["id", "v", "w"], *2 * [["id", "v", "x"]]], [["w"], []]),
    (["TRUNCATE t"], [["id", "v"], ["id", "v"], ["id", "v"]], [[], []]),
]  # fmt: skip


@pytest.mark.parametrize("statements, names, fills", CASES, ids=["; ".join(case[0]) or "none" for case in CASES])
def test_stages_and_commits(
    statements: list[str], names: list[list[str]], fills: list[list[str]], tmp_path: Path
) -> None:
    """A commit a window and statement: its columns, position, counter and metadata; rows as they are behind all."""
    unit = prepared(tmp_path, *((300 * (nth + 1), text) for nth, text in enumerate(statements)))
    name_list = [[name for name in stage.design.schema.names if not name.startswith("_")] for stage in unit.stages]
    assert name_list == names
    assert [[fill.column.name for fill in window.fills] for window in unit.unit.windows] == fills
    results = results_of(unit)
    compacted = silver_job.commit(unit, results)
    behind = newest(unit.unit.path)
    assert behind.version == len(unit.stages) - 1 == compacted.head.version
    assert (behind.transactions, compacted.head.counter) == ({APPLICATION: len(unit.stages)}, len(unit.stages))
    assert (compacted.changes, compacted.inserts, compacted.range) == (len(fills), len(fills), Range(at(10), at(1000)))
    commits = [SilverCommit.of(checkpoint) for _, checkpoint in unit.work.table.since(-1)]
    assert [commit.position for commit in sorted(commits, key=lambda commit: commit.position)] == [
        stage.step.range.stop for stage in unit.stages
    ]
    kinds = [commit.kind for commit in sorted(commits, key=lambda commit: commit.position)]
    assert kinds == [CommitKind.LIVE if stage.window is not None else CommitKind.CHANGE for stage in unit.stages]
    assert all(commit.bronze_version == 0 and commit.key == ("id",) for commit in commits)
    rows = sorted(rows_of(behind), key=lambda row: row["_position"]["offset"])
    assert [row["_op"] for row in rows if row["_op"] != "truncate"] == ["insert"] * len(fills)
    assert sum(row["_op"] == "truncate" for row in rows) == ("TRUNCATE t" in statements)
    if ADD in statements:
        assert rows[0]["w" if len(statements) == 1 else "x"] == 4
    counts = [version["operationMetrics"]["numOutputRows"] for version in unit.work.table.history()][::-1]
    markers = ["1" if "TRUNCATE t" in statements else "0"]
    assert [int(count) for count in counts] == [
        1 if stage.window is not None else int(*markers) for stage in unit.stages
    ]
    with pytest.raises(LostRace):
        silver_job.commit(unit, results)


def results_of(unit: PreparedCompaction, key: Callable[[int], Any] = int) -> list[WindowResult]:
    """A row a window, as tasks write it. key: by the window's number."""
    results = []
    for nth, window in enumerate(unit.unit.windows):
        values = [replace(fill, value=pa.scalar(4)) for fill in window.fills]
        schema = window.schema
        offset = window.ranges[0].start.offset
        rows = table_of([Row((key(nth),), nth, offset, "insert", offset)], window.columns.key, schema)
        file = fills.write(unit.unit.path, rows, schema, window.configuration, values)
        results.append(WindowResult(unit.unit.number, nth, file, changes=1, inserts=1))
    return results


EXACT = "!2024-00-00"


def with_exact(unit: PreparedCompaction) -> list[WindowResult]:
    """A row a window whose key is one that only an exact text holds."""
    return results_of(unit, key=lambda nth: f"{EXACT}{nth}")


def test_exact_texts_follow_the_names_of_their_columns(tmp_path: Path) -> None:
    """Of rows in silver and in windows before the statement; not of those after it."""
    first = prepared(tmp_path)
    silver_job.commit(first, with_exact(first))
    unit = prepared(tmp_path, (300, "ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN id TO v"))
    silver_job.commit(unit, with_exact(unit))
    rows = rows_of(newest(unit.snapshot.path))
    assert sorted(dict(row["_raw"]).popitem() for row in rows) == [("v", f"{EXACT}{nth}") for nth in (0, 0, 1)]
    assert [stage.exact[0].names for stage in unit.stages if stage.exact] == [{"id": "v", "v": "w"}]


def test_a_column_is_filled_after_exact_texts_were_renamed(tmp_path: Path) -> None:
    """Files that the rename has written again are not replaced by those that were filled before it."""
    first = prepared(tmp_path)
    silver_job.commit(first, with_exact(first))
    plain = replace(results_of(first)[0], window=0)
    assert plain.file is not None
    stored = newest(first.snapshot.path)
    commits.commit(stored, adds=[plain.file])
    head = first.work.table.head()
    assert head is not None
    job, index = work_of(
        tmp_path, steps((300, "ALTER TABLE t RENAME COLUMN v TO x, RENAME COLUMN id TO v"), (600, ADD))
    )
    (planned,) = silver_plan.prepared([replace(job, head=replace(head, version=1))], index).units
    stages = tuple(replace(stage, fills=valued(stage.fills)) for stage in planned.stages)
    unit = replace(planned, stages=stages)
    all_fills = tuple(fill for stage in stages for fill in stage.fills)
    snapshot = unit.snapshot
    refill = Refill(0, snapshot.path, snapshot.files, snapshot.schema, snapshot.configuration, all_fills)
    outcomes = [outcome for outcome in work(refill) if isinstance(outcome, WindowResult)]
    silver_job.commit(unit, [*with_exact(unit), *outcomes])
    rows = rows_of(newest(snapshot.path))
    filled = [(row["w"], row["_raw"] and dict(row["_raw"])) for row in rows if row["w"] == 4]
    assert sorted(filled, key=str) == [(4, None), *2 * [(4, {"v": f"{EXACT}0"})]]


def valued(column_fills: Sequence[ColumnFill]) -> tuple[ColumnFill, ...]:
    return tuple(replace(fill, value=pa.scalar(4)) for fill in column_fills)


def test_a_run_that_ends_between_two_renames_does_not_repeat_the_first(tmp_path: Path) -> None:
    swap = "ALTER TABLE t RENAME COLUMN v TO id, RENAME COLUMN id TO v"
    unit = prepared(tmp_path, (300, swap), (600, swap))
    statements = [at for at, stage in enumerate(unit.stages) if stage.window is None]
    silver_job.commit(replace(unit, stages=unit.stages[: statements[1]]), with_exact(unit))
    row = min(rows_of(newest(unit.snapshot.path)), key=lambda row: row["_position"]["offset"])
    assert dict(row["_raw"]) == {"v": f"{EXACT}0"}, "the second statement has not changed it yet"


def test_a_default_that_only_a_text_holds_is_in_all_rows_before(tmp_path: Path) -> None:
    first = prepared(tmp_path)
    silver_job.commit(first, results_of(first))
    unit = prepared(tmp_path, (300, "ALTER TABLE t ADD d DATE NOT NULL DEFAULT '0000-00-00'"))
    silver_job.commit(unit, results_of(unit))
    rows = sorted(rows_of(newest(unit.snapshot.path)), key=lambda row: row["_position"]["offset"])
    assert [row["_raw"] and dict(row["_raw"]) for row in rows] == [*2 * [{"d": "0000-00-00"}], None]


def test_a_log_of_two_tables_is_committed(tmp_path: Path) -> None:
    works, index = works_of(log_of(Random(3)), tmp_path, [4])
    units = units_of(works, index)
    results, _ = carried_out(works[0].window.table.path, units, Capacity(1))
    for unit in units:
        compacted = silver_job.commit(unit, results[unit.unit.number])
        assert compacted.head.position == unit.work.window.extent.stop
        assert compacted.rows == len(rows_of(newest(unit.unit.path)))


def test_files_that_are_there_are_replaced_by_filled_ones(tmp_path: Path) -> None:
    first = prepared(tmp_path)
    silver_job.commit(first, results_of(first))
    unit = prepared(tmp_path, (300, ADD))
    (fill,) = (replace(fill, value=pa.scalar(4)) for stage in unit.stages for fill in stage.fills)
    snapshot = unit.snapshot
    refill = Refill(0, snapshot.path, snapshot.files, snapshot.schema, snapshot.configuration, (fill,))
    silver_job.commit(
        unit, [*results_of(unit), *(outcome for outcome in work(refill) if isinstance(outcome, WindowResult))]
    )
    assert sorted((row["id"], row["w"]) for row in rows_of(newest(snapshot.path))) == [(0, 4), (0, 4), (1, None)]


def test_a_statement_that_empties_the_table_is_a_row_of_silver(tmp_path: Path) -> None:
    timeline = steps((300, "TRUNCATE t"), (500, "ALTER TABLE t ADD note TEXT"), state=TableState(OLD))
    changes = [step for step in timeline if isinstance(step, SchemaChange)]
    assert [change.empties for change in changes] == [True, False]
    columns = Columns({"id": "INT", "v": "INT"}, ("id",))
    design = new_table(str(tmp_path), columns.stored, MAPPED)
    (marker,) = silver_job.marker_files(design, changes[:1])
    (row,) = data_files.read_columns(design.path, marker, design.schema.names, design.schema).to_pylist()
    position = row["_position"]
    assert (row["_op"], position["offset"], position["row"], row["id"]) == ("truncate", 300, -1, None)
    assert silver_job.marker_files(design, []) == []


def test_no_row_of_a_table_without_partial_images_lacks_a_column(tmp_path: Path) -> None:
    """A run may change columns before the window with the table's first partial image."""
    design = new_table(str(tmp_path), Columns({"id": "INT", "v": "INT"}, ("id",)).stored, MAPPED)
    (marker,) = silver_job.marker_files(
        design, [step for step in steps((300, "TRUNCATE t")) if isinstance(step, SchemaChange)]
    )
    assert not silver_job.may_change(design, marker, ExactTextChange(absent={"v": "w"}))
