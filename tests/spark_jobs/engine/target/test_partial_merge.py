"""Silver's rows that lack columns, merged, replayed and loaded, against plain rows and the keys never seen whole."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.modes import Mode
from spark_jobs.delta import commits, data_files, schema_changes
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import Merged, MergeJob
from spark_jobs.downstream.multi_source import PartTable
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job, downstream_task
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.rows import fills as fill_values
from spark_jobs.errors import LostRace
from spark_jobs.lake.commit import APPLICATION, CommitKind, Head, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.positions import LOADED_ROW
from spark_jobs.silver.schema_evolution import FILL
from tests.binlogs.partial_changes import NAMES, SHAPE, TABLE, texts_of
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import MAPPED, at, newest, rows_of
from tests.spark_jobs.engine.partial_logs import NAME, random_changes
from tests.twins.plain_layers import Image, Key, NetRow, RowChange, current_rows, kept_rows, known_rows, silver_rows

COLUMNS = silver.columns(TABLE, has_partial=True)
Window = dict[Key, NetRow]
numbers = count()


@dataclass
class Lake:
    """A silver table whose commits are written here, its windows as plain rows, and the table they are merged into."""

    folder: Path
    is_part: bool = False
    mode: Mode = Mode.MIRROR
    columns: silver.Columns = COLUMNS
    windows: dict[float, Window] = field(default_factory=dict)
    """By the position where they begin; loaded rows begin at 0, or right before the window of their position."""
    stop: int = 1000
    floor: int | None = None
    ended: list[Window] = field(default_factory=list)
    """Windows before the last statement that emptied the table, and of each statement the deletes of all keys."""

    def __post_init__(self) -> None:
        self.silver, target = (Table(str(self.folder / name), plain=False) for name in ("silver", "target"))
        self.target = PartTable(target, ("shop", NAME.schema, NAME.table)) if self.is_part else target

    def window(self, changes: Iterable[RowChange]) -> None:
        start, self.stop = self.stop, self.stop + 1000
        self.windows[start] = silver_rows(enumerate(changes, start), SHAPE)
        self._commit_rows(CommitKind.LIVE, self._silver_rows(self.windows[start], start), start=at(start))

    def load(self, rows: Iterable[Image], offset: int = 10) -> None:
        """Rows that count as older than all windows, or as of a position, which may be in the middle of a window."""
        start = offset // 1000 * 1000
        begin = start - 0.5 if offset > start in self.windows else offset - 10
        loaded = self.windows.setdefault(begin, {})
        new = {
            (row["id"],): NetRow(False, True, row, offset, 1, is_from_server=True)
            for row in rows
            if (row["id"],) not in loaded
        }
        self.windows[begin] = loaded | new
        cells = [row | {"_op": silver.Op.LOAD} for row in self._silver_rows(new, 0)]
        for row in cells:
            row["_position"] |= {"row": LOADED_ROW}
        self._commit_rows(CommitKind.LOAD, cells, start=at(self.stop))

    def redo(self, start: int, changes: Iterable[RowChange]) -> None:
        """Puts other rows in the place of a window's."""
        self.windows[start] = silver_rows(enumerate(changes, start), SHAPE)
        snapshot = newest(self.silver.path)
        removed = [
            file
            for file in snapshot.files
            if file.field_bounds(snapshot.schema, "_window_start", "offset").minimum == start
        ]
        ranges = (Range(at(start), at(start + 1000)),)
        self._commit_rows(
            CommitKind.REDO, self._silver_rows(self.windows[start], start), ranges=ranges, removes=removed
        )

    def rebuild(self, changes: Iterable[RowChange]) -> None:
        """Puts the rows of one window in the place of all that silver has."""
        start, self.stop = self.stop, self.stop + 1000
        self.windows, self.floor = {start: silver_rows(enumerate(changes, start), SHAPE)}, None
        self.ended.clear()
        removed = newest(self.silver.path).files
        rows = self._silver_rows(self.windows[start], start)
        self._commit_rows(CommitKind.LIVE, rows, start=at(start), is_overwrite=True, removes=removed)

    def truncate(self) -> None:
        start, self.stop = self.stop, self.stop + 10
        self.floor = start
        self.ended += [window for _, window in sorted(self.windows.items())]
        keys = known_rows(self.ended)
        self.ended.append({key: NetRow(True, False, {}, start, 0) for key in keys})
        self.windows.clear()
        marker = dict.fromkeys(NAMES) | _position_cells(start, start) | {"_op": silver.Op.TRUNCATE}
        self._commit_rows(CommitKind.CHANGE, [marker], start=at(start))

    def alter(self, *steps: str) -> None:
        start, self.stop = self.stop, self.stop + 10
        self._commit_rows(CommitKind.CHANGE, [], start=at(start), steps=steps)

    def _silver_rows(self, window: Mapping[Key, NetRow], start: int) -> list[dict[str, Any]]:
        return [
            {name: row.values.get(name) for name in NAMES}
            | {"_op": row.op, "_existed": row.existed, "_raw": texts_of(row.values)}
            | {"_absent": [name for name in NAMES if name not in row.values] or None}
            | {"_moved_from": None if row.origin is None else [f"v{part}" for part in row.origin]}
            | _position_cells(row.position, start)
            for row in window.values()
        ]

    def _commit_rows(self, kind: CommitKind, rows: list[dict[str, Any]], **fields: Any) -> None:
        removes, steps = fields.pop("removes", ()), fields.get("steps", ())
        table = snapshot_of(self.silver.path) or new_table(self.silver.path, self.columns.stored, MAPPED)
        behind = schema_changes.apply(table, [step for step in steps if not step.startswith(FILL)])
        schema = table.schema.arrow(physical=False)
        cells = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
        added = [data_files.write(table.path, cells, table.schema, table.configuration)] if rows else []
        emptied = None if self.floor is None else at(self.floor)
        commit = SilverCommit(
            at(self.stop), new_batch(), kind, definition=TABLE, emptied_at=emptied, key=("id",), **fields
        )
        commits.commit(
            table,
            adds=added,
            removes=removes,
            metadata=behind.metadata if steps else None,
            protocol=behind.protocol if steps else None,
            transaction=(APPLICATION, table.version + 2),
            user_metadata=commit.to_json(),
        )

    def prepared(self, replays: tuple[Range, ...] = (), head: Head | None = None) -> PreparedMerge:
        """A merge of silver at a head, its newest unless given. replays: windows to merge again."""
        head = head or self.silver.head()
        assert head is not None
        work = MergeJob("shop", NAME, self.columns, self.silver, head, self.target, replays, self.mode)
        unit = downstream_job.prepared(0, work)
        assert isinstance(unit, PreparedMerge), unit
        return unit

    def merge(self, prepared: PreparedMerge | None = None) -> Merged:
        """One merge, by several tasks where it is large."""
        unit = prepared or self.prepared()
        tasks = downstream_job.tasks_of([unit], Capacity(1, 1 << 11))
        return downstream_job.commit(unit, [result for task in tasks for result in downstream_task.work(task)])

    def require_same(self) -> None:
        """Rows, their exact texts, and the count of keys never whole are what plain rows say."""
        rows, never_whole = current_rows([window for _, window in sorted(self.windows.items())], SHAPE)
        lake_rows = {(row["id"],): row for row in rows_of(newest(self.target.path)) if not row.get("_deleted")}
        assert {key: {name: row[name] for name in NAMES} for key, row in lake_rows.items()} == rows
        assert {key: row["_raw"] for key, row in lake_rows.items()} == {key: texts_of(row) for key, row in rows.items()}
        commit = DownstreamCommit.of_head(self.target.head())
        assert commit is not None
        assert commit.keys_never_whole == len(never_whole)
        if self.mode is Mode.SOFT_DELETE:
            self.require_kept()

    def require_kept(self) -> None:
        """Deleted rows stay, with the values and exact texts that they had last."""
        windows = [*self.ended, *(window for _, window in sorted(self.windows.items()))]
        expected = {
            key: (row, texts_of(row), is_deleted) for key, (row, is_deleted) in kept_rows(windows, SHAPE).items()
        }
        all_rows = rows_of(newest(self.target.path))
        assert len({row["id"] for row in all_rows}) == len(all_rows), "a key has one row"
        assert {
            (row["id"],): ({name: row[name] for name in NAMES}, row["_raw"], row["_deleted"]) for row in all_rows
        } == expected


def _position_cells(offset: int, window: int) -> dict[str, Any]:
    log = {"stretch": 1, "number": 1}
    return {
        "_position": log | {"offset": offset, "row": 0},
        "_committed_at": datetime.fromtimestamp(offset, UTC),
        "_window_start": log | {"offset": window},
        "_window_stop": log | {"offset": window + 1000},
    }


def random_step(lake: Lake, chance: Random, pieces: list[list[RowChange]]) -> None:
    """A window, a replay of one, a load, all of silver replaced, or a statement that empties the table."""
    windows = [int(start) for start in lake.windows if start and start == int(start)]
    kind = chance.choice(["window", "window", "window", "redo", "load", "truncate", "rebuild"])
    if kind == "redo" and windows:
        lake.redo(chance.choice(windows), pieces.pop())
    elif kind == "load" and lake.floor is None:
        offset = 10 if chance.random() < 0.5 else max(windows, default=10) + chance.randint(1, 3)
        lake.load(({"id": key, "a": chance.randrange(9), "b": 2} for key in chance.sample(range(5), 2)), offset)
    elif kind == "truncate" and chance.random() < 0.3:
        lake.truncate()
        # Later changes are of rows that were written since.
        later = [*random_changes(chance, 6 * len(pieces), older_keys=0, lost=0.3)][: 4 * len(pieces)]
        pieces[:] = [later[at_position : at_position + 4] for at_position in range(0, len(later), 4)][::-1]
    elif kind == "rebuild" and chance.random() < 0.5:
        lake.rebuild(pieces.pop())
    else:
        lake.window(pieces.pop())


@pytest.mark.parametrize(
    "is_part, mode",
    [
        (False, Mode.MIRROR),
        pytest.param(True, Mode.MIRROR, marks=pytest.mark.thorough),
        pytest.param(False, Mode.SOFT_DELETE, marks=pytest.mark.thorough),
    ],
)
def test_a_target_is_what_plain_rows_say(is_part: bool, mode: Mode, tmp_path: Path) -> None:
    @examples(25)
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        chance = Random(seed)
        changes = [*random_changes(chance, 90, lost=0.3)][:60]
        pieces = [changes[at_position : at_position + 4] for at_position in range(0, 60, 4)][::-1]
        lake = Lake(tmp_path / str(next(numbers)), is_part=is_part, mode=mode)
        lake.window(pieces.pop())
        for _ in range(chance.randint(1, 5)):
            lake.merge()
            lake.require_same()
            for _ in range(chance.randint(1, 2)):
                if not is_part:
                    random_step(lake, chance, pieces)
                else:
                    lake.window(pieces.pop())
        lake.merge()
        lake.require_same()

    check()


def minimal(key: int, **parts: int) -> RowChange:
    return RowChange({"id": key}, parts)


def test_a_key_waits_until_its_rows_are_whole_together(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([minimal(1, a=1), minimal(2, a=2), RowChange(None, {"id": 3})])
    assert lake.merge().unseen == 2
    lake.window([minimal(1, b=4)])
    merged = lake.merge()
    assert (merged.inserted, merged.unseen) == (1, 1)
    lake.require_same()
    lake.window([RowChange({"id": 2}, None)])
    assert lake.merge().unseen == 0
    lake.require_same()


def test_what_a_row_lacks_has_the_value_that_a_statement_filled(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([RowChange(None, {"id": 1, "a": 1, "b": 1}), RowChange(None, {"id": 2, "a": 2, "b": 2})])
    lake.merge()
    lake.alter("DROP COLUMN `b`", "ADD COLUMN (`b` INT)", "UPDATE SET `b` = CAST(7 AS INT)")
    lake.window([minimal(1, a=5)])
    unit = lake.prepared()
    fills = fill_values.fills_with_values(unit.unit.fills, {"CAST(7 AS INT)": pa.scalar(7)})
    assert len(fills) == 1
    lake.merge(replace(unit, unit=replace(unit.unit, fills=fills)))
    rows = {row["id"]: (row["a"], row["b"]) for row in rows_of(newest(lake.target.path))}
    assert rows == {1: (5, 7), 2: (2, 7)}


def test_a_window_done_again_may_leave_a_key_without_a_whole_row(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([RowChange(None, {"id": 1, "a": 1, "b": 1}), RowChange(None, {"id": 2})])
    lake.window([minimal(1, a=2)])
    lake.merge()
    lake.redo(1000, [RowChange(None, {"id": 2})])
    merged = lake.merge()
    assert (merged.deleted, merged.unseen, merged.redone) == (1, 1, 1)
    lake.require_same()


def test_a_row_that_was_loaded_is_newer_than_changes_before_it(tmp_path: Path) -> None:
    """What they lack is not asked for, and they are not counted."""
    lake = Lake(tmp_path)
    lake.window([RowChange(None, {"id": 3})])
    lake.merge()
    lake.load([{"id": 1, "a": 1, "b": 1}], offset=4010)
    assert lake.merge().unseen == 0
    lake.window([minimal(1, a=2)])
    lake.windows[2000].clear()  # the load has them
    assert lake.merge().unseen == 0
    lake.require_same()


def test_what_a_row_lacks_after_a_delete_is_not_that_of_the_deleted_row(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([RowChange(None, {"id": 1, "a": 1, "b": 1})])
    lake.merge()
    lake.window([RowChange({"id": 1}, None)])
    lake.window([minimal(1, a=2)])
    merged = lake.merge()
    assert (merged.deleted, merged.unseen) == (1, 1)
    lake.require_same()


@pytest.mark.parametrize("merges_between", [False, True])
@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE])
def test_a_statement_right_behind_a_load_ends_its_rows(mode: Mode, *, merges_between: bool, tmp_path: Path) -> None:
    lake = Lake(tmp_path, mode=mode)
    lake.window([RowChange(None, {"id": 1, "a": 1, "b": 1})])
    lake.merge()
    lake.load([{"id": 2, "a": 2, "b": 2}], offset=lake.stop)
    if merges_between:
        lake.merge()
        lake.require_same()
    lake.truncate()
    lake.merge()
    lake.require_same()
    lake.window([RowChange(None, {"id": 3, "a": 3, "b": 3})])
    lake.merge()
    lake.require_same()


@pytest.mark.parametrize(
    "merges", [*range(4), *(pytest.param(merges, marks=pytest.mark.thorough) for merges in range(4, 8))]
)
@pytest.mark.parametrize("change", [minimal(1, a=2), RowChange({"id": 1, "a": 2}, {"id": 2})])
def test_a_row_between_two_statements_has_nothing_of_the_row_before_them(
    change: RowChange, merges: int, tmp_path: Path
) -> None:
    """Its INSERT is in quarantine, and its image lacks a column: nobody knows the row that the second one deleted."""
    lake = Lake(tmp_path, mode=Mode.SOFT_DELETE)
    lake.window([RowChange(None, {"id": 1, "a": 1, "b": 1}), RowChange(None, {"id": 3, "a": 3, "b": 3})])
    steps = (lake.truncate, lambda: lake.window([change]), lake.truncate)
    for at_step, step in enumerate(steps):
        if merges >> at_step & 1:
            lake.merge()
            lake.require_same()
        step()
    lake.merge()
    lake.require_same()
    assert {row["id"] for row in rows_of(newest(lake.target.path))} == {3}


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE])
def test_a_row_whose_insert_is_not_known_has_nothing_of_the_row_deleted_in_its_window(
    mode: Mode, tmp_path: Path
) -> None:
    lake = Lake(tmp_path, mode=mode)
    lake.window([RowChange(None, {"id": key, "a": 1, "b": 1}) for key in (1, 2)])
    gone = [RowChange({"id": key}, None) for key in (1, 2)]
    lake.window([*gone, minimal(1, a=2), minimal(2, a=2), gone[1]])
    assert lake.merge().unseen == 1
    lake.require_same()
    assert not rows_of(newest(lake.target.path))
    lake.window([minimal(1, b=7)])
    lake.merge()
    lake.require_same()
    assert [(row["id"], row["a"], row["b"]) for row in rows_of(newest(lake.target.path))] == [(1, 2, 7)]


def test_a_replay_planned_upon_an_older_silver_is_planned_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([RowChange(None, {"id": 1, "a": 1, "b": 1})])
    before = lake.silver.head()
    lake.window([RowChange({"id": 1}, {"a": 2})])
    lake.merge()
    first = (Range(at(1000), at(2000)),)
    with pytest.raises(LostRace, match="another run has merged more of silver"):
        lake.prepared(first, before)
    lake.merge(lake.prepared(first))
    lake.require_same()


def test_a_table_whose_silver_was_replaced_counts_its_keys_anew(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([minimal(1, a=1), minimal(2, a=1), RowChange(None, {"id": 3})])
    assert lake.merge().unseen == 2
    lake.rebuild([minimal(1, a=1), RowChange(None, {"id": 4})])
    assert lake.merge().unseen == 1
    lake.require_same()
