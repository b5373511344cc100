"""Windows done again, loads and new windows in any order: a target is what silver's newest row of each key says."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream.merge_job import Merged, MergeJob
from spark_jobs.engine import downstream_job, downstream_task
from spark_jobs.engine.downstream_job import PreparedMerge
from spark_jobs.engine.restatement import unchanged
from spark_jobs.engine.spark_job import Capacity
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns, Op
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, newest, rows_of, table_of
from tests.timelines import NAME, OLD

COLUMNS = Columns({"id": "INT", "v": "INT"}, ("id",))
KEY = ("id",)
State = dict[int, tuple[int | None, int]]
"""By key its value and position."""


@dataclass
class Silver:
    """A silver table whose commits are written here, its rows beside it, and the table that it is merged into."""

    folder: Path
    rows: list[Row] = field(default_factory=list)
    stop: int = 100

    def __post_init__(self) -> None:
        self.table, self.target = (Table(str(self.folder / name), plain=False) for name in ("silver", "target"))

    def window(self, rows: list[Row]) -> None:
        start, self.stop = self.stop, self.stop + 100
        window_rows = [replace(row, window=start, place=start + row.place) for row in rows]
        self.rows += window_rows
        self._commit(CommitKind.LIVE, window_rows, start=start)

    def load(self, rows: list[Row]) -> None:
        """Rows that count as older than all windows; a second load of a key is of the same state or a later one."""
        loaded = [replace(row, op=Op.LOAD, window=50, place=50) for row in rows]
        loaded_keys = {row.key for row in self.rows if row.op == Op.LOAD}
        loaded = [row for row in loaded if row.key not in loaded_keys]
        self.rows += loaded
        self._commit(CommitKind.LOAD, loaded, start=self.stop)

    def redo(self, start: int, rows: list[Row], *, by_vector: bool) -> None:
        """A window's rows are replaced; of files that hold others too they are marked, or these are written again."""
        replayed = [replace(row, window=start, place=start + row.place) for row in rows]
        self.rows = [row for row in self.rows if row.op == Op.LOAD or row.window != start] + replayed
        ranges = (Range(at(start), at(start + 100)),)
        self._commit(
            CommitKind.REDO, replayed, ranges=ranges, is_removed=lambda row: in_window(row, start), by_vector=by_vector
        )

    def renew(self, rows: list[Row]) -> None:
        """All rows are replaced, those of an earlier window."""
        self.rows = [replace(row, window=100, place=100 + row.place) for row in rows]
        self._commit(CommitKind.RESET, self.rows, is_removed=lambda _: True, is_overwrite=True)

    def compact(self) -> None:
        """All files become one, as maintenance writes them."""
        self._commit(CommitKind.MAINTENANCE, [], is_removed=lambda _: False, rewrites=True)

    def _commit(
        self,
        kind: CommitKind,
        rows: list[Row],
        *,
        start: int | None = None,
        ranges: tuple[Range, ...] = (),
        is_removed: Callable[[dict[str, Any]], bool] | None = None,
        by_vector: bool = False,
        rewrites: bool = False,
        is_overwrite: bool = False,
    ) -> None:
        snapshot = snapshot_of(self.table.path) or new_table(self.table.path, COLUMNS.stored, MAPPED)
        added = [self._write(snapshot, table_of(rows, KEY, snapshot.schema))] if rows else []
        removed, marked, kept_rows = list[DataFile](), [], list[pa.Table]()
        for file in snapshot.files if is_removed else ():
            columns_ = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
            dead = set(map(int, deletion_vectors.row_numbers(snapshot.path, file.deletion_vector)))
            hit = {at for at, row in enumerate(columns_.to_pylist()) if is_removed and is_removed(row)} - dead
            if not (hit or rewrites):
                continue
            alive = [at for at in range(len(columns_)) if at not in hit | dead]
            if by_vector and alive:
                vectors = deletion_vectors.write(snapshot.path, [BitMap64(hit | dead)], snapshot.configuration)
                marked += [(file, vectors[0])]
            else:
                removed.append(file)
                kept_rows.append(columns_.take(pa.array(alive, pa.int64())))
        remaining = pa.concat_tables(kept_rows) if kept_rows else None
        if remaining is not None and len(remaining):
            added.append(self._write(snapshot, remaining))
        commit = SilverCommit(
            at(self.stop),
            new_batch(),
            kind,
            start=None if start is None else at(start),
            ranges=ranges,
            is_overwrite=is_overwrite,
            definition=OLD,
        )
        commits.commit(
            snapshot,
            adds=added,
            removes=removed,
            dv_updates=marked,
            transaction=(APPLICATION, snapshot.version + 2),
            user_metadata=commit.to_json(),
        )

    def _write(self, snapshot: Snapshot, rows: pa.Table) -> DataFile:
        return data_files.write(snapshot.path, rows, snapshot.schema, snapshot.configuration)

    def work(self, replays: tuple[Range, ...] = ()) -> MergeJob:
        head = self.table.head()
        assert head is not None
        return MergeJob("shop", NAME, COLUMNS, self.table, head, self.target, replays)

    def merge(self, replays: tuple[Range, ...] = ()) -> Merged | None:
        unit = downstream_job.prepared(0, self.work(replays))
        if unit is None:
            return None
        assert isinstance(unit, PreparedMerge), unit
        (task,) = downstream_job.tasks_of([unit], Capacity(1))
        return downstream_job.commit(unit, [*downstream_task.work(task)])

    @property
    def expected(self) -> State:
        by_key: dict[Any, Row] = {}
        for row in sorted(self.rows, key=lambda row: row.place):
            by_key[row.key] = row
        return {key[0]: (row.value, row.place) for key, row in by_key.items() if row.op != Op.DELETE}

    @property
    def target_state(self) -> State:
        state = {row["id"]: (row["v"], row["_position"]["offset"]) for row in rows_of(newest(self.target.path))}
        assert len(state) == len(rows_of(newest(self.target.path))), "a key is there twice"
        return state


def in_window(row: dict[str, Any], start: int) -> bool:
    return bool(row["_op"] != Op.LOAD and row["_window_start"]["offset"] == start)


@st.composite
def windows(draw: st.DrawFn) -> list[Row]:
    keys = draw(st.lists(st.integers(0, 7), unique=True, min_size=1, max_size=5))
    ops = st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE])
    return [Row((key,), draw(st.integers(0, 99)), place, draw(ops)) for place, key in enumerate(keys)]


STEPS = st.sampled_from(["window", "window", "load", "redo", "vector", "compact", "renew", "merge", "again"])


@pytest.mark.parametrize("first", ["window", "load"])
def test_a_target_is_what_all_of_silver_says(first: str, tmp_path: Path) -> None:
    number = 0

    @examples(40)
    @given(st.lists(STEPS, min_size=4, max_size=9), st.data())
    def check(steps: list[str], data: st.DataObject) -> None:
        nonlocal number
        number += 1
        lake = Silver(tmp_path / f"{first}-{number}")
        for step in [first, "window", "merge", *steps, "merge"]:
            start = data.draw(st.sampled_from([*range(100, max(200, lake.stop), 100)]))
            replays: tuple[Range, ...] = ()
            match step:
                case "window":
                    lake.window(data.draw(windows()))
                case "load":
                    lake.load([replace(row, op=Op.LOAD) for row in data.draw(windows())])
                case "redo" | "vector" if start < lake.stop:
                    lake.redo(start, data.draw(windows()), by_vector=step == "vector")
                case "compact":
                    lake.compact()
                case "renew":
                    lake.renew(data.draw(windows()))
                case "again":
                    replays = (Range(at(start), at(start + 100)),)
            if step in ("merge", "again"):
                lake.merge(replays)
                assert lake.target_state == lake.expected

    check()


@pytest.fixture
def two(tmp_path: Path) -> Silver:
    """Two windows that the target has: key 1 of the first, keys 1 and 2 of the second."""
    lake = Silver(tmp_path)
    lake.window([Row((1,), 10, 1), Row((3,), 30, 2)])
    lake.window([Row((1,), 11, 1, Op.UPDATE), Row((2,), 20, 2)])
    lake.merge()
    return lake


def test_a_window_that_decodes_to_the_same_changes_no_row(two: Silver) -> None:
    two.redo(100, [Row((1,), 10, 1), Row((3,), 30, 2)], by_vector=False)
    files = newest(two.target.path).files
    merged = two.merge()
    assert merged is not None
    assert (merged.inserted, merged.updated, merged.deleted, merged.redone) == (0, 0, 0, 1)
    assert newest(two.target.path).files == files
    assert two.target_state == {1: (11, 201), 2: (20, 202), 3: (30, 102)}


def test_no_key_goes_back(two: Silver) -> None:
    """A later window has key 1 too: what the older one says of it now is no state of it."""
    two.redo(100, [Row((1,), 99, 1), Row((4,), 40, 2)], by_vector=False)
    merged = two.merge()
    assert merged is not None
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 0, 1)
    assert two.target_state == {1: (11, 201), 2: (20, 202), 4: (40, 102)}


def test_loaded_rows_fill_what_no_window_says(two: Silver) -> None:
    two.load([Row((1,), 9, 0), Row((5,), 50, 0)])
    merged = two.merge()
    assert merged is not None
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 0, 0)
    assert two.target_state == {1: (11, 201), 2: (20, 202), 3: (30, 102), 5: (50, 50)}


def test_a_row_that_is_wrong_downstream_is_mended_by_merging_its_window_again(two: Silver) -> None:
    target = newest(two.target.path)
    (file,) = target.files
    (vector,) = deletion_vectors.write(target.path, [BitMap64([0])], target.configuration)
    head = two.target.head()
    assert head is not None
    assert head.checkpoint is not None
    commits.commit(
        target,
        dv_updates=[(file, vector)],
        transaction=(APPLICATION, head.counter + 1),
        user_metadata=head.checkpoint.to_json(),
    )
    assert len(two.target_state) == 2
    assert two.merge() is None
    two.merge((Range(at(100), at(200)), Range(at(200), at(300))))
    assert two.target_state == two.expected


def test_only_files_that_may_hold_the_keys_are_read(two: Silver, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in range(10, 60, 10):
        two.window([Row((start + key,), 0, key) for key in range(5)])
    two.merge()
    files_read: list[str] = []
    original = data_files.read_row_group

    def noted(opened: Any, *rest: Any) -> Any:
        files_read.append(str(opened.reader))
        return original(opened, *rest)

    two.redo(100, [Row((3,), 31, 2)], by_vector=False)
    monkeypatch.setattr(data_files, "read_row_group", noted)
    two.merge()
    assert two.target_state == two.expected
    assert len(files_read) < len(newest(two.table.path).files)


def test_values_are_compared_through_structures_and_maps() -> None:
    kind = pa.map_(pa.string(), pa.string())
    place = pa.struct([("a", pa.int32()), ("b", pa.int32())])

    def table(values: list[Any], maps: list[Any], places: list[Any]) -> pa.Table:
        columns = [pa.array(values, pa.int32()), pa.array(maps, kind), pa.array(places, place)]
        return pa.table(columns, names=["v", "m", "p"])

    entry = [("a", "b")]
    first = table([1, 2, None, 4, 5, 6], [None, entry, None, entry, None, None], [{"a": 1, "b": 2}] * 5 + [None])
    second = table(
        [1, 2, None, 4, None, 6],
        [None, entry, None, [("a", "c")], None, None],
        [{"a": 1, "b": 2}] * 2 + [{"a": 1, "b": 3}] + [{"a": 1, "b": 2}] * 2 + [{"a": None, "b": None}],
    )
    assert unchanged(first, second).tolist() == [True, True, False, False, False, False]
