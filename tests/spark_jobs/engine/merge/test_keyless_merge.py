"""Copies of rows in targets without a key, against a Counter that takes silver's commits one after the other."""

from bisect import bisect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files, schema_changes
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream.merge_job import ADDED, Merged, MergeJob
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job, keyless_merge
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.merge.downstream_task import DownstreamUnit
from spark_jobs.engine.rows import locate
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import MORE_DELETED, Columns, Op
from tests.binlogs.timelines import NAME, OLD
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import MAPPED, at, newest, rows_of

COLUMNS = Columns({"f": "DOUBLE", "n": "INT", "s": "STRING"}, ())
Cells = tuple[str | None, int | None, str | None]
"""The number as Python writes it in base 16, so that 0 and -0 are two."""
Copies = Counter[Cells]
"""Of each row how many copies came, less those that went."""
ZERO, MINUS_ZERO = float.hex(0.0), float.hex(-0.0)
ROWS: list[Cells] = [
    (ZERO, 1, "a"),
    (MINUS_ZERO, 1, "a"),
    (None, 1, "a"),
    (ZERO, None, None),
    (ZERO, 1, "A"),
    (float.hex(1.5), 2, ""),
    (None, None, None),
]
WINDOW = 100
numbers = count()


def cells_of(row: Mapping[str, Any]) -> Cells:
    return None if row["f"] is None else float.hex(row["f"]), row["n"], row["s"]


@dataclass
class Silver:
    """A silver table whose commits are written here, their copies beside it, and the table that it is merged into."""

    folder: Path
    windows: dict[int, Copies] = field(default_factory=dict)
    loaded: Copies = field(default_factory=Counter)
    stop: int = WINDOW
    floor: int | None = None
    is_complete: bool = True
    plain: bool = False
    has_feed: bool = False
    mode: Mode = Mode.MIRROR
    truncations: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = Table(str(self.folder / "silver"), plain=False)
        self.target = Table(str(self.folder / "target"), plain=self.plain)

    @property
    def state(self) -> Copies:
        """The copies of each row by all commits since the table was emptied."""
        total: Copies = Counter() if self.floor is not None else Counter(self.loaded)
        for start, copies in self.windows.items():
            if self.floor is None or start >= self.floor:
                total.update(copies)
        return total

    def window(self, copies: Mapping[Cells, int]) -> None:
        start, self.stop = self.stop, self.stop + WINDOW
        self.windows[start] = Counter(copies)
        self._commit_rows(CommitKind.LIVE, self._silver_rows(copies, start), start=start)

    def empty(self) -> None:
        """TRUNCATE: a row and window of its own."""
        start, self.stop = self.stop, self.stop + WINDOW
        self.floor = start
        self.truncations.append(start)
        self._commit_rows(
            CommitKind.CHANGE, self._silver_rows({(None, None, None): 0}, start, Op.TRUNCATE), start=start
        )

    def load(self, copies: Mapping[Cells, int]) -> None:
        self.loaded.update(copies)
        self._commit_rows(CommitKind.LOAD, self._silver_rows(copies, 50, Op.LOAD))

    def redo(self, start: int, copies: Mapping[Cells, int]) -> None:
        """A window's rows are replaced; the files that hold others too are written again."""
        self.windows[start] = Counter(copies)
        window = Range(at(start), at(start + WINDOW))
        self._commit_rows(CommitKind.REDO, self._silver_rows(copies, start), replaced=start, ranges=(window,))

    def replace_all(self, copies: Mapping[Cells, int]) -> None:
        """All rows are replaced, as a load of a table without a key does."""
        start = self.stop - WINDOW
        self.windows, self.loaded, self.floor = {start: Counter(copies)}, Counter(), None
        self.truncations.clear()
        self._commit_rows(CommitKind.LOAD, self._silver_rows(copies, start), replaced=-1, is_overwrite=True)

    def compact(self) -> None:
        """All files become one, as maintenance writes them."""
        self._commit_rows(CommitKind.MAINTENANCE, None, replaced=-1)

    def _silver_rows(self, copies: Mapping[Cells, int], start: int, op: str | None = None) -> pa.Table:
        position = {"stretch": 1, "number": 1}
        cells = [
            {
                "f": None if row[0] is None else float.fromhex(row[0]),
                "n": row[1],
                "s": row[2],
                "_op": op or ("delete" if copies[row] < 0 else "insert" if copies[row] else "update"),
                "_position": position | {"offset": start + nth % WINDOW, "row": -1 if op == Op.TRUNCATE else nth},
                "_committed_at": datetime.fromtimestamp(start + nth, UTC),
                "_window_start": position | {"offset": start},
                "_window_stop": position | {"offset": start + WINDOW},
                "_copies": None if op == Op.TRUNCATE else copies[row],
            }
            for nth, row in enumerate(copies)
        ]
        fields = self._snapshot().schema.arrow(physical=False)
        return pa.Table.from_pylist([{name: cell.get(name) for name in fields.names} for cell in cells], fields)

    def _snapshot(self) -> Snapshot:
        return snapshot_of(self.table.path) or new_table(self.table.path, COLUMNS.stored, MAPPED)

    def _commit_rows(
        self,
        kind: CommitKind,
        rows: pa.Table | None,
        *,
        start: int | None = None,
        replaced: int | None = None,
        ranges: tuple[Range, ...] = (),
        is_overwrite: bool = False,
    ) -> None:
        snapshot, parts, removed = self._snapshot(), [rows] if rows is not None else [], list[DataFile]()
        for file in snapshot.files if replaced is not None else ():
            stored = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
            offsets = [position["offset"] for position in stored.column("_window_start").to_pylist()]
            if replaced == -1 or replaced in offsets:
                removed.append(file)
            if file in removed and not is_overwrite:
                parts.append(stored.filter(pa.array([offset != replaced for offset in offsets])))
        table = pa.concat_tables([snapshot.schema.arrow(physical=False).empty_table(), *parts])
        commit = SilverCommit(
            at(self.stop),
            new_batch(),
            kind,
            start=None if start is None else at(start),
            ranges=ranges,
            is_overwrite=is_overwrite,
            definition=OLD,
            emptied_at=None if self.floor is None else at(self.floor),
            is_numbered=not self.is_complete,
            is_complete=self.is_complete,
        )
        commits.commit(
            snapshot,
            adds=[data_files.write(snapshot.path, table, snapshot.schema, MAPPED)] if len(table) else [],
            removes=removed,
            transaction=(APPLICATION, snapshot.version + 2),
            user_metadata=commit.to_json(),
        )

    def prepared(self) -> PreparedMerge | None:
        head = self.table.head()
        assert head is not None
        work = MergeJob("shop", NAME, COLUMNS, self.table, head, self.target, has_feed=self.has_feed, mode=self.mode)
        unit = downstream_job.prepared(0, work)
        assert not isinstance(unit, str), unit
        return unit

    def merge(self, capacity: Capacity | None = None) -> Merged | None:
        unit = self.prepared()
        if unit is None:
            return None
        tasks = downstream_job.tasks_of([unit], capacity or Capacity(1))
        results = [result for task in tasks for result in downstream_job.work(task)]
        assert [result for result in results if result.error or result.stopped] == []
        return downstream_job.commit(unit, results)

    @property
    def target_state(self) -> Copies:
        return Counter(cells_of(row) for row in rows_of(newest(self.target.path)) if not row.get("_deleted"))

    @property
    def deleted(self) -> dict[Cells, int | None]:
        """Of each row that no copy is left of the statement that deleted it, or None where its last copy was."""
        states: dict[Cells, int | None] = {}
        starts = [(50, self.loaded), *self.windows.items()]
        for cells in {cells for _, copies in starts for cells in copies}:
            # Rows before a statement count for nothing after it.
            segments = [bisect(self.truncations, start) for start, copies in starts if cells in copies]
            last = max(segments)
            remaining = sum(copies[cells] for start, copies in starts if bisect(self.truncations, start) == last)
            if last < len(self.truncations):
                states[cells] = self.truncations[last] if remaining > 0 else None
            elif remaining == 0:
                states[cells] = None
        return states

    def require_same(self) -> None:
        """The target has the copies that silver adds up to, and where deleted rows stay these, each once."""
        assert self.target_state == +self.state
        if self.mode is not Mode.SOFT_DELETE:
            return
        deleted = [row for row in rows_of(newest(self.target.path)) if row["_deleted"]]
        assert len({cells_of(row) for row in deleted}) == len(deleted)
        positions = {cells_of(row): row["_position"]["offset"] for row in deleted}
        expected = self.deleted
        assert positions.keys() == expected.keys()
        assert all(offset == expected[cells] for cells, offset in positions.items() if offset in self.truncations)
        assert all(positions[cells] == offset for cells, offset in expected.items() if offset is not None)
        assert all(row["_deleted_at"] == row["_committed_at"] for row in deleted)


def change(chance: Random, state: Copies, rows: list[Cells]) -> dict[Cells, int]:
    """Copies that a window may add and take away: of no row more than there are."""
    touched = chance.sample(rows, chance.randrange(len(rows) + 1))
    return {row: chance.randrange(-state[row], 3) for row in touched}


def _step(chance: Random, silver: Silver) -> None:
    kind = chance.randrange(11)
    if kind < 5:
        silver.window(change(chance, silver.state, ROWS))
    elif kind == 5 and silver.windows:
        start = chance.choice([*silver.windows])
        copies = {row: chance.randrange(-2, 3) for row in chance.sample(ROWS, chance.randrange(1, 5))}
        # No row may have less than no copy by what the replay leaves.
        silver.windows[start] = Counter(copies)
        lacking = {row: -number for row, number in silver.state.items() if number < 0}
        silver.redo(start, {row: copies.get(row, 0) + lacking.get(row, 0) for row in {*copies, *lacking}})
    elif kind == 6 and silver.table.head():
        silver.empty()
    elif kind == 7 and silver.table.head() and silver.floor is None:
        silver.load({row: 1 + chance.randrange(2) for row in chance.sample(ROWS, 2)})
    elif kind == 8 and silver.table.head():
        silver.compact()
    elif kind == 10 and silver.table.head():
        silver.replace_all({row: chance.randrange(1, 4) for row in chance.sample(ROWS, 3)})
    else:
        silver.merge(chance.choice([Capacity(1), Capacity(1, 4000)])) if silver.table.head() else None


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE])
@pytest.mark.parametrize(
    "plain", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["deletion vectors", "plain"]
)
def test_a_target_has_the_copies_that_silver_adds_up_to(
    plain: bool, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream_job, "_LEAST_TASK_BYTES", 1)

    @examples(40)
    @given(st.integers(0, 1 << 30), st.integers(1, 14), st.booleans())
    def check(seed: int, steps: int, indexed: bool) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(locate, "_INDEXED_ROWS", 1 if indexed else 1 << 17)
            patched.setattr(locate, "_ROWS_A_KEY", 0 if indexed else 100)
            chance, silver = Random(seed), Silver(tmp_path / str(next(numbers)), plain=plain, mode=mode)
            for _ in range(steps):
                _step(chance, silver)
            silver.window(change(chance, silver.state, ROWS))
            silver.merge()
            silver.require_same()
            assert silver.merge() is None

    check()


def test_windows_are_counted_once_and_the_rest_of_the_copies_stays_where_it_is(tmp_path: Path) -> None:
    silver = Silver(tmp_path)
    silver.window({ROWS[0]: 3, ROWS[1]: 1})
    assert silver.merge().inserted == 4  # type: ignore[union-attr]
    silver.window({ROWS[0]: -2, ROWS[1]: 2, ROWS[4]: 0})
    merged = silver.merge()
    assert merged is not None
    assert (merged.inserted, merged.deleted) == (2, 2)
    assert silver.target_state == Counter({ROWS[0]: 1, ROWS[1]: 3})
    (row,) = (row for row in rows_of(newest(silver.target.path)) if cells_of(row) == ROWS[0])
    assert row["_position"]["offset"] == WINDOW, "of the copy that stayed"


def stops_of(silver: Silver) -> list[str]:
    """What stops the table."""
    unit = silver.prepared()
    assert unit is not None
    tasks = downstream_job.tasks_of([unit], Capacity(1))
    return [str(result.stopped) for task in tasks for result in downstream_job.work(task)]


def test_more_copies_that_went_than_came_stop_the_table(tmp_path: Path) -> None:
    silver = Silver(tmp_path)
    silver.window({ROWS[0]: 1})
    silver.merge()
    silver.window({ROWS[0]: -2, ROWS[5]: 1})
    assert stops_of(silver) == [f"shop: {NAME}: {MORE_DELETED}"]
    silver.redo(2 * WINDOW, {ROWS[0]: -1})
    assert silver.merge()
    silver.redo(WINDOW, {ROWS[5]: 1})
    assert stops_of(silver) == [f"shop: {NAME}: {MORE_DELETED}"]


def test_a_table_that_is_replaced_gets_the_columns_that_silver_has_now(tmp_path: Path) -> None:
    silver = Silver(tmp_path)
    silver.window({ROWS[0]: 2})
    silver.merge()
    version = newest(silver.target.path).version
    silver.replace_all({ROWS[5]: 3})
    unit = silver.prepared()
    assert unit is not None
    # As though the target had been made before one of the columns.
    before = schema_changes.apply(unit.snapshot, ["DROP COLUMN `s`"])
    commits.commit(
        unit.snapshot, metadata=before.metadata, transaction=(APPLICATION, 2), user_metadata=commit_text(unit)
    )
    silver.merge()
    table = newest(silver.target.path)
    assert (table.version, table.schema.names) == (version + 2, ["f", "n", "s", *ADDED])
    assert silver.target_state == Counter({ROWS[5]: 3})
    assert len(table.files) == 1


def commit_text(unit: PreparedMerge) -> str:
    """What the newest commit of a target says."""
    assert unit.head.checkpoint
    return replace(unit.head.checkpoint, batch=new_batch()).to_json()


def test_of_a_table_older_than_its_log_less_than_no_copy_is_none(tmp_path: Path) -> None:
    silver = Silver(tmp_path, is_complete=False)
    silver.window({ROWS[0]: -2, ROWS[5]: 1})
    silver.merge()
    assert silver.target_state == Counter({ROWS[5]: 1})
    silver.window({ROWS[0]: 1, ROWS[5]: -3})
    silver.merge()
    assert silver.target_state == Counter(), "of the copies that went one has come back"
    silver.window({ROWS[0]: 2, ROWS[5]: 3})
    silver.merge()
    assert silver.target_state == Counter({ROWS[0]: 1, ROWS[5]: 1})


def test_copies_of_a_column_that_is_filled_are_found_in_files_that_lack_it(tmp_path: Path) -> None:
    silver = Silver(tmp_path)
    silver.window({ROWS[0]: 2, ROWS[5]: 1})
    silver.merge()
    silver.window({ROWS[0]: -1})
    unit = silver.prepared()
    assert unit is not None
    task = unit.unit
    assert isinstance(task, DownstreamUnit)
    # As though the target's files had no n: the statement fills it with what silver has there.
    (stored,) = unit.snapshot.files
    altered = schema_changes.apply(unit.snapshot, ["DROP COLUMN `n`", "ADD COLUMN (`n` INT)"])
    fills = (ColumnFill(altered.schema.column("n"), "1", pa.scalar(1, pa.int32())),)
    names = [name for name in task.stored if name != "n"]
    result = keyless_merge.merged(replace(task, schema=altered.schema, fills=fills, rewrites=True))
    assert (result.inserted, result.deleted, result.removed) == (0, 1, (stored.path,))
    (added,) = result.added
    rows = data_files.read_columns(silver.target.path, added, [*names, "n"], altered.schema).to_pylist()
    assert Counter(map(cells_of, rows)) == Counter({ROWS[0]: 1, (ROWS[5][0], 1, ROWS[5][2]): 1})


def test_the_first_copies_of_each_row_go_in_the_order_of_files(tmp_path: Path) -> None:
    silver = Silver(tmp_path)
    for _ in range(2):
        silver.window({ROWS[0]: 2})
        silver.merge()
    silver.window({ROWS[0]: -3})
    unit = silver.prepared()
    assert unit is not None
    (result,) = downstream_job.work((unit.unit,))  # type: ignore[arg-type]
    assert isinstance(result, MergedFiles)
    dead = {path: np.frombuffer(rows, np.int64).tolist() for path, rows in result.dead.items()}
    first, second = (file.path for file in unit.snapshot.files)
    assert dead == {first: [0, 1], second: [0]}
