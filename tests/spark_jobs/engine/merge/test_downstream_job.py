"""Merges as units of a job, upon silver and downstream tables that a commit each made; tasks run in this process."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.delta import commits, data_files, schema_changes
from spark_jobs.delta.snapshot import DataFile, new_table, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import Merged, MergeJob, silver_delta
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job, downstream_task
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.merge.downstream_task import DownstreamUnit
from spark_jobs.errors import LakeError, LostRace, TableStopped
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.schema_evolution import steps
from spark_jobs.silver.table import Columns
from tests.binlogs.timelines import NAME, OLD
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, newest, rows_of, table_of

COLUMNS = Columns({"id": "INT", "v": "INT"}, ("id",))


class Lake:
    """A silver table, written window by window, and the table that it is merged into."""

    def __init__(self, folder: Path) -> None:
        self.silver, self.target = (Table(str(folder / name), plain=False) for name in ("silver", "target"))
        self.columns, self.stop = COLUMNS, 100

    def window(
        self, *rows: Row, kind: CommitKind = CommitKind.LIVE, steps: Sequence[str] = (), recorded: Sequence[str] = ()
    ) -> None:
        """One commit: rows of a window of 100 bytes, or a statement. recorded: its steps, where these are not all."""
        start, self.stop = self.stop, self.stop + 100
        table = snapshot_of(self.silver.path) or new_table(self.silver.path, self.columns.stored, MAPPED)
        behind = schema_changes.apply(table, steps) if steps else table
        rows = tuple(replace(row, window=start, position=start + row.position) for row in rows)
        files = (
            [data_files.write(table.path, table_of(rows, ("id",), table.schema), table.schema, table.configuration)]
            if rows
            else []
        )
        commit = SilverCommit(
            at(self.stop), new_batch(), kind, start=at(start), steps=tuple(recorded or steps) or None, definition=OLD
        )
        commits.commit(
            table,
            adds=files,
            metadata=behind.metadata if steps else None,
            protocol=behind.protocol if steps else None,
            transaction=(APPLICATION, table.version + 2),
            user_metadata=commit.to_json(),
        )

    @property
    def work(self) -> MergeJob:
        head = self.silver.head()
        assert head is not None
        return MergeJob("shop", NAME, self.columns, self.silver, head, self.target)

    def prepared(self) -> PreparedMerge:
        unit = downstream_job.prepared(0, self.work)
        assert isinstance(unit, PreparedMerge), unit
        return unit

    def merge(self, unit: PreparedMerge | None = None) -> Merged:
        unit = unit or self.prepared()
        (task,) = downstream_job.tasks_of([unit], Capacity(1))
        return downstream_job.commit(unit, [*downstream_task.work(task)])

    @property
    def rows(self) -> dict[int, int]:
        return {row["id"]: row["v"] for row in rows_of(newest(self.target.path))}


@pytest.fixture
def two(tmp_path: Path) -> Lake:
    """A lake whose target has the first of two windows."""
    lake = Lake(tmp_path)
    lake.window(*(Row((key,), key, key) for key in range(6)))
    lake.merge()
    lake.window(Row((1,), 10, 1, "update"), Row((2,), None, 2, "delete"), Row((9,), 90, 3))
    return lake


def test_windows_are_merged_once(two: Lake) -> None:
    assert two.rows == {key: key for key in range(6)}
    merged = two.merge()
    assert (merged.inserted, merged.updated, merged.deleted, merged.range) == (1, 1, 1, Range(at(200), at(300)))
    assert two.rows == {0: 0, 1: 10, 3: 3, 4: 4, 5: 5, 9: 90}
    assert downstream_job.prepared(0, two.work) is None, "it is up to date"
    head = two.target.head()
    assert head is not None
    assert (
        (head.version, head.counter, head.position)
        == (1, 2, at(300))
        == (merged.head.version, merged.head.counter, at(300))
    )
    commit = DownstreamCommit.of_head(head)
    assert commit is not None
    assert (commit.silver_version, commit.source, commit.table, commit.start) == (1, "shop", str(NAME), at(200))


@pytest.mark.parametrize("has_grown", [False, True])
def test_silver_of_a_backup_is_merged_as_a_whole(two: Lake, has_grown: bool) -> None:
    """Its next window gets a number that the target has merged already."""
    two.merge()
    for file in Path(two.silver.path, "_delta_log").glob(f"{1:020}*"):
        file.unlink()
    if has_grown:
        two.window(Row((7,), 70, 1))
    head = two.target.head()
    assert head is not None
    delta = silver_delta(two.work, head)
    assert (delta.is_renewed, delta.waits) == (True, not has_grown)


def test_a_unit_has_the_files_that_the_target_has_not(two: Lake) -> None:
    unit = two.prepared().unit
    assert isinstance(unit, DownstreamUnit)
    assert len(unit.pending) == 1 < len(newest(two.silver.path).files)
    assert (unit.after, unit.windows, unit.rewrites, unit.fills, unit.empties) == (at(200), 1, False, (), False)


def test_deletion_vectors_are_united_with_those_that_are_there(two: Lake) -> None:
    two.merge()
    first = [file.deletion_vector and file.deletion_vector.cardinality for file in newest(two.target.path).files]
    two.window(Row((3,), None, 1, "delete"), Row((0,), 7, 2, "update"))
    two.merge()
    second = [file.deletion_vector.cardinality for file in newest(two.target.path).files if file.deletion_vector]
    assert (2 in first, second) == (True, [4])
    assert two.rows == {0: 7, 1: 10, 4: 4, 5: 5, 9: 90}


def test_whoever_commits_second_has_lost_the_race(two: Lake) -> None:
    first, second = two.prepared(), two.prepared()
    two.merge(first)
    rows = two.rows
    with pytest.raises(LostRace):
        two.merge(second)
    assert two.rows == rows


def test_columns_that_a_statement_changed_are_changed_in_the_commit(two: Lake) -> None:
    two.window(kind=CommitKind.CHANGE, steps=["RENAME COLUMN `v` TO `x`", "ADD COLUMN (`w` INT AFTER `x`)"])
    two.columns = Columns({"id": "INT", "x": "INT", "w": "INT"}, ("id",))
    two.merge()
    assert {row["id"]: (row["x"], row["w"]) for row in rows_of(newest(two.target.path))} == {
        key: (value, None) for key, value in {0: 0, 1: 10, 3: 3, 4: 4, 5: 5, 9: 90}.items()
    }
    assert newest(two.target.path).version == 1


def test_other_columns_than_silver_s_stop_the_table(two: Lake) -> None:
    work = replace(two.work, columns=Columns({"id": "BIGINT"}, ("id",)))
    with pytest.raises(TableStopped, match=r"shop\.t"):
        downstream_job.prepared(0, work)


def test_all_of_silver_replaces_a_target_whose_commits_silver_s_log_has_forgotten(two: Lake) -> None:
    two.window(Row((3,), 33, 1, "update"))
    commits.write_checkpoint(two.silver.path, 2)
    for file in Path(two.silver.path, "_delta_log").glob(f"{1:020}*"):
        file.unlink()
    Path(two.silver.path, "_delta_log", f"{0:020}.json").unlink()
    merged = two.merge()
    assert merged.inserted == 6
    assert two.rows == {0: 0, 1: 10, 3: 33, 4: 4, 5: 5, 9: 90}


def test_what_another_tool_gave_to_a_target_is_refused(two: Lake) -> None:
    target = newest(two.target.path)
    metadata = target.metadata.with_schema(target.schema, dict(target.configuration) | {"delta.appendOnly": "true"})
    head = two.target.head()
    assert head is not None
    assert head.checkpoint is not None
    commits.commit(target, metadata=metadata, user_metadata=replace(head.checkpoint, batch=new_batch()).to_json())
    with pytest.raises(LakeError, match="appendOnly is true: Stratalog does not write such a table; take back"):
        two.prepared()


def test_exact_texts_follow_the_names_of_columns(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.columns = Columns({"id": "INT", "v": "INT", "d": "DATE"}, ("id",))
    lake.window(Row((1,), 10, 1), Row((2,), 20, 2))
    lake.merge()
    # As though a row of the target had a day that no DATE holds.
    target = newest(lake.target.path)
    (file,) = target.files
    rows = data_files.read_columns(target.path, file, target.schema.names, target.schema)
    raw = pa.array([[("d", "0000-00-00")], None], rows.schema.field("_raw").type)
    rows = rows.set_column(rows.schema.get_field_index("_raw"), "_raw", raw)
    head = lake.target.head()
    assert head is not None
    assert head.checkpoint is not None
    commits.commit(
        target,
        adds=[data_files.write(target.path, rows, target.schema, target.configuration)],
        removes=[file],
        transaction=(APPLICATION, head.counter + 1),
        user_metadata=replace(head.checkpoint, batch=new_batch()).to_json(),
    )
    renamed = steps(
        {"id": "INT", "v": "INT", "d": "DATE"},
        {"id": "INT", "v": "INT", "e": "DATE"},
        {"id": "id", "v": "v", "e": "d"},
        {},
    )
    lake.window(
        kind=CommitKind.CHANGE, steps=[step for step in renamed if not step.startswith("UPDATE")], recorded=renamed
    )
    lake.columns = Columns({"id": "INT", "v": "INT", "e": "DATE"}, ("id",))
    lake.merge()
    rows_behind = {row["id"]: row["_raw"] for row in rows_of(newest(lake.target.path))}
    assert rows_behind == {1: [("e", "0000-00-00")], 2: None}


def sized(unit: PreparedMerge, number: int, size: int, *, rewrites: bool = False) -> PreparedMerge:
    assert isinstance(unit.unit, DownstreamUnit)
    file = DataFile(dict(unit.unit.pending[0].action) | {"size": size})
    return replace(unit, unit=replace(unit.unit, number=number, pending=(file,), rewrites=rewrites))


def ranged(unit: PreparedMerge, ranges: Sequence[tuple[int, int]], size: int, windows: int = 1) -> PreparedMerge:
    """With files of keys in these ranges."""
    assert isinstance(unit.unit, DownstreamUnit)
    (id_,) = (column.physical_name for column in unit.unit.origin_schema.columns if column.name == "id")
    files = []
    for number, (lowest, highest) in enumerate(ranges):
        stats = {"numRecords": 2, "minValues": {id_: lowest}, "maxValues": {id_: highest}, "nullCount": {id_: 0}}
        action = dict(unit.unit.pending[0].action) | {"path": str(number), "size": size, "stats": json.dumps(stats)}
        files.append(DataFile(action))
    return replace(unit, unit=replace(unit.unit, pending=tuple(files), windows=windows))


def test_files_with_ranges_of_their_own_are_merged_one_by_one(two: Lake, tmp_path: Path) -> None:
    mib, lake = 1 << 20, Lake(tmp_path / "new")
    lake.window(Row((1,), 1, 1))
    unit, disjoint = lake.prepared(), [(20, 29), (0, 9), (10, 19), (30, 30)]

    def divided(unit: PreparedMerge) -> list[list[str]]:
        tasks = downstream_job.tasks_of([unit], Capacity(1, 16 * mib))
        return [[file.path for part in task for file in part.pending] for task in tasks]

    assert divided(ranged(unit, disjoint, 8 * mib)) == [["1", "2"], ["0", "3"]]
    file_lists = [["0", "1", "2", "3"]]
    assert divided(ranged(unit, [(20, 30), *disjoint[1:]], 8 * mib)) == file_lists * 2, "30 may be in two"
    assert divided(ranged(unit, disjoint, 8 * mib, windows=2)) == file_lists * 2, "a key may be in two windows"
    assert divided(ranged(unit, disjoint, 17 * mib)) == file_lists * 5, "a file is too large for a task"
    assert divided(ranged(two.prepared(), disjoint, 8 * mib)) == file_lists * 2, "old rows are looked for"


def test_units_are_packed_by_bytes_and_large_ones_parted(two: Lake) -> None:
    mib = 1 << 20
    sizes = [1, 2, mib // 2, 40 * mib, mib // 2, 3]
    units = [sized(two.prepared(), number, size) for number, size in enumerate(sizes)]
    tasks = downstream_job.tasks_of([*units, sized(units[0], 6, 40 * mib, rewrites=True)], Capacity(4))
    parts = [(unit.number, unit.part, unit.parts) for task in tasks for unit in task]
    (count,) = {total for number, _, total in parts if number == 3}
    assert count > 1
    assert sorted(parts) == sorted(
        [(number, 0, 1) for number in (0, 1, 2, 4, 5, 6)] + [(3, part, count) for part in range(count)]
    )
    assert all(len(task) == 1 for task in tasks for unit in task if unit.parts > 1)
    # Nobody needs more memory than ``spark.task_bytes`` says.
    for task_bytes, count in (32 * mib, 4), (4 * mib, 10), (mib, 40):
        assert len(downstream_job.tasks_of([sized(units[0], 0, 40 * mib)], Capacity(4, task_bytes))) == count
    small = downstream_job.tasks_of([sized(units[0], number, 1) for number in range(100)], Capacity(2))
    assert 1 < len(small) < 100
    assert sorted(unit.number for task in small for unit in task) == [*range(100)]
    assert downstream_job.tasks_of([], Capacity(2)) == []
