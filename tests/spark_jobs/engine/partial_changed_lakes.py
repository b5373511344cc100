"""Random changes of a table whose images leave columns out, and targets that are made of each of them, without Spark.

Put here: the lake, what is done to it, and what its targets have by a loop over the changes. Not here: what tests ask.
"""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import EventFilter, TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.engine.changes.column_history import ChangedLog
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.silver import silver_job
from spark_jobs.lake.commit import CommitKind, Head, new_batch
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.partial_changes import NAMES, SHAPE, TABLE, op_of
from tests.spark_jobs.engine.changed_lakes import Cells, ChangedLake
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.logs_of_rows import FILE, carried_out_undivided, units_of
from tests.spark_jobs.engine.partial_logs import NAME, OLDER, log_of, random_changes, work_of
from tests.twins.plain_layers import Image, RowChange

COLUMNS = silver.columns(TABLE, has_partial=True)
_ANY = Scope.parse(("shop.*",))


def ignoring(kind: str) -> TableFilters:
    """A rule that filters changes of a kind."""
    return TableFilters(events=(EventFilter("r", _ANY, (kind,), (), "ignore"),))


@dataclass
class PartialLake(ChangedLake):
    """A log in bronze, its windows in silver, and a target with a mode."""

    transactions: list[list[RowChange]] = field(default_factory=list)
    window_rules: dict[int, TableFilters] = field(default_factory=dict)
    """By the number of the window those that silver has it by."""
    replays: tuple[Range, ...] = ()
    all_loads: list[tuple[int, Sequence[Cells]]] = field(default_factory=list)
    is_emptied: bool = False

    def __post_init__(self) -> None:
        chance = Random(self.seed)
        changes = iter([*random_changes(chance, 4 * self.count)])
        for _ in range(self.count):
            self.transactions.append(
                [change for _, change in zip(range(chance.randrange(1, 5)), changes, strict=False)]
            )
        self.log = log_of(self.transactions)
        silver_work = self._compacted("silver", self.rules)
        self.window_rules = dict.fromkeys(range(self.windows), self.rules)
        self.silver, self.columns = {NAME: silver_work.table}, {NAME: COLUMNS}
        bronze, end = silver_work.window.table, Position(FILE, len(self.log.content))
        commit = BronzeCommit(end, "b", begin=Position(FILE, 0))
        head = Head(silver_work.window.version, 1, commit)
        self.changed_log = ChangedLog(BronzeSnapshot("shop", bronze, head, commit), lambda _: self.rules, self.replayed)

    def _compacted(self, name: str, rules: TableFilters) -> CompactionJob:
        """Silver's windows, in a table of its own. Raises AssertionError where silver stops."""
        work, index = work_of(self.log, self.folder / name, self.cuts)
        work = replace(work, has_partial=True, filters=rules)
        (unit,) = units_of([work], index)
        unit, results = carried_out_undivided(work.window.table.path, unit, index, Capacity(2))
        assert not any(result.error for result in results)
        silver_job.commit(unit, results)
        return work

    @property
    def windows(self) -> int:
        return len(self.cuts) + 1

    @property
    def commits(self) -> int:
        """Number of silver that has."""
        return newest(self.silver[NAME].path).version + 1

    @property
    def bounds(self) -> list[int]:
        """The numbers of the transactions between which windows lie."""
        return [0, *self.cuts, len(self.log.ends)]

    @property
    def uniform_from(self) -> int:
        """The number of the transaction from which on windows have the present rules."""
        unlike_windows = [at for at, rules in self.window_rules.items() if rules != self.rules]
        return self.bounds[max(unlike_windows, default=-1) + 1]

    def redone(self, first: int, stop: int, rules: TableFilters | None = None) -> None:
        """Puts some windows, by other rules or the same, in the place of silver's; nothing where silver stops by them.

        Those behind them have to have the same rules.
        """
        new_rules = self.rules if rules is None else rules
        stop = stop if self.bounds[stop] >= self.uniform_from and new_rules == self.rules else self.windows
        try:
            work = self._compacted(f"again{new_batch()}", new_rules)
        except AssertionError:
            return
        self.rules = new_rules
        self.window_rules |= dict.fromkeys(range(first, stop), new_rules)
        ranges = tuple(self.log.range(self.bounds[at], self.bounds[at + 1]) for at in range(first, stop))
        offsets = {log_range.start.offset for log_range in ranges}
        (table, compacted_table) = newest(self.silver[NAME].path), newest(work.table.path)
        rows = {
            offset: [row for row in rows_of(compacted_table) if row["_window_start"]["offset"] == offset]
            for offset in offsets
        }
        removed = [
            file
            for file in table.files
            if file.field_bounds(table.schema, "_window_start", "offset").minimum in offsets
            and file.bounds(table.schema, "_op").minimum != silver.Op.LOAD
        ]
        added = [_written_file(table, all_rows) for all_rows in rows.values() if all_rows]
        self._commit_silver(NAME, added, removes=removed, kind=CommitKind.REDO, ranges=ranges, steps=None, loaded=None)

    def merged_again(self, first: int, stop: int) -> None:
        """Windows that the next merge takes again although silver has not replaced them."""
        start = max(first, next(at for at, offset in enumerate(self.bounds) if offset >= self.uniform_from))
        bounds = self.bounds[start : stop + 1]
        self.replays = tuple(self.log.range(*pair) for pair in pairwise(bounds))

    def work(self, name: TableName, commits: int) -> MergeJob:
        replays, self.replays = self.replays, ()
        return replace(super().work(name, commits), replays=replays)

    def reset(self) -> None:
        """Makes silver by the present rules, and the target is made again."""
        self.redone(0, self.windows)
        shutil.rmtree(self.target(NAME).path)

    def loaded(self, after: int) -> None:
        """The rows that the server has after some transactions, read by a load."""
        rows = [tuple(row.values()) for row in self._truth(after)]
        self.all_loads.append((after, rows))
        self.load(NAME, after, rows)

    def truncate(self, name: TableName, **filled: Any) -> None:
        super().truncate(name, **filled)
        self.is_emptied = True

    def replayed(self, work: Any, log_range: Range | None) -> CompactionJob | None:
        bounds = [0, *self.cuts, len(self.log.ends)]
        windows = [self.log.range(*pair) for pair in pairwise(bounds)]
        touched = tuple(window for window in windows if log_range is None or window.overlaps(log_range))
        steps = [DataRange(window, TableState(TABLE)) for window in windows]
        snapshot = self.changed_log.snapshot
        window = Window(snapshot.table, snapshot.version, touched)
        return CompactionJob("shop", work.name, window, steps, work.origin, work.pinned, 9, self.rules, True)

    def _truth(self, after: int) -> list[Image]:
        """The server's rows after some transactions."""
        rows: dict[int, dict[str, Any]] = {row["id"]: dict(row) for row in OLDER}
        for change in (change for transaction in self.transactions[:after] for change in transaction):
            before = {} if change.before is None else rows.pop(change.before["id"])
            if change.after is not None:
                row = (SHAPE.default_row() if change.before is None else before) | dict(change.after)
                rows[row["id"]] = {name: row[name] for name in NAMES}
        return [rows[key] for key in sorted(rows)]

    def twin(self, windows: int) -> "Twin":
        """What the target has of so many windows."""
        twin = Twin()
        for number, (first, stop) in enumerate(pairwise(self.bounds[: windows + 1])):
            ignored = self.window_rules[number].ignored_kinds()
            for at in range(first, stop):
                for offset, rows in self.all_loads:
                    if offset == at:
                        twin.load(rows)
                for change in self.transactions[at]:
                    if op_of(change) not in ignored:
                        twin.change(change)
        for offset, rows in self.all_loads:
            if offset == self.bounds[windows] == len(self.log.ends):
                twin.load(rows)
        if self.is_emptied:
            twin.truncate()
        return twin

    def require_same(self, windows: int) -> None:
        """The target's rows, in the log's order, and its count of keys never whole are the twin's."""
        twin = self.twin(windows)
        rows = rows_of(newest(self.target(NAME).path))
        rows.sort(key=lambda row: (*row["_position"].values(), row["_op"] != "delete", row["id"] or 0))
        lake_rows = [
            (row["_op"], tuple(row[name] for name in NAMES), *([row["_is_current"]] if "_is_current" in row else []))
            for row in rows
        ]
        assert lake_rows == (twin.versions() if self.mode is Mode.HISTORY else twin.changes)
        commit = DownstreamCommit.of_head(self.target(NAME).head())
        assert commit
        assert commit.keys_never_whole == len(twin.never_whole)


def _written_file(table: Snapshot, rows: list[dict[str, Any]]) -> Any:
    schema = table.schema.arrow(physical=False)
    cells = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    return data_files.write(table.path, cells, table.schema, table.configuration)


class Twin:
    """Changes and versions as plain Python makes them, what is cells_known of each row in a dictionary."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, Cells]] = []
        self._lives: dict[int, dict[str, Any]] = {}
        self._events: list[tuple[str, Cells, int | None]] = []
        """Operation, row, and the key that it is a version of, None of one that is gone; deletes of old keys too."""
        self._current: dict[int, int] = {}

    def change(self, change: RowChange) -> None:
        before, after = change.before, change.after
        old, new = None if before is None else before["id"], None
        cells_known = {} if old is None else self._lives.pop(old, {}) | dict(before or {})
        if after is not None:
            row = (SHAPE.default_row() if old is None else cells_known) | dict(after)
            new = row["id"]
            self._lives[new] = dict(row)
        if old is not None and old != new:
            self._add("delete", cells_known, None, old, is_change=new is None)
        if new is not None:
            self._add("insert" if old is None else "update", self._lives[new], new, new, is_change=True)

    def load(self, rows: Collection[Cells]) -> None:
        for cells in rows:
            row = dict(zip(NAMES, cells, strict=True))
            self._lives[row["id"]] = row
            self._add("load", row, row["id"], row["id"], is_change=True)

    def truncate(self) -> None:
        self._lives.clear()
        self._current.clear()
        self.changes.append(("truncate", (None,) * len(NAMES)))
        self._events.append(("truncate", (None,) * len(NAMES), None))

    def _add(self, op: str, row: Image, key: int | None, ended: int, *, is_change: bool) -> None:
        if row.keys() != {*NAMES}:
            return
        cells = tuple(row[name] for name in NAMES)
        self._current.pop(ended, None)
        if key is not None:
            self._current[key] = len(self._events)
        self._events.append((op, cells, key))
        if is_change:
            self.changes.append((op, cells))

    def versions(self) -> list[tuple[str, Cells, bool]]:
        current = {*self._current.values()}
        return [(op, cells, nth in current) for nth, (op, cells, _) in enumerate(self._events)]

    @property
    def never_whole(self) -> list[int]:
        return [key for key, row in self._lives.items() if row.keys() != {*NAMES}]
