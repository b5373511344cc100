"""Source tables that write the same keys: their logs, what these come to, silver tables and order times of them.

Put here: all of these. Not here: merges, or what is compared.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream.commit import ClockCommit
from spark_jobs.downstream.commit_clock import COLUMNS as LATE_COLUMNS
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.multi_source import Owner, SharedPart
from spark_jobs.lake.commit import APPLICATION, CommitKind, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns
from tests.binlogs.timelines import OLD
from tests.spark_jobs.engine.lake_rows import LOG, MAPPED

OWNERS: list[Owner] = [("eu", "shop_1", "t"), ("eu", "shop_2", "t"), ("us", "shop_1", "t")]
TYPES = {
    OWNERS[0]: {"id": "INT", "v": "INT"},
    OWNERS[1]: {"id": "INT", "V": "INT", "more": "STRING"},
    OWNERS[2]: {"id": "BIGINT", "v": "INT"},
}
"""Columns of the tables: one has a wider key, one another column."""
KEYS = 6
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Rows = dict[int, tuple[Any, ...]]
"""By key a value, and whose it is."""


@dataclass(frozen=True, slots=True)
class Change:
    """One in a source's log. order: the greatest second up to it, of the source."""

    owner: Owner
    offset: int
    second: int
    order: int
    op: str
    key: int = 0
    value: int = 0


def log_of(generator: random.Random, source: str, length: int) -> list[Change]:
    """Changes of few keys, by a clock that goes back now and then."""
    own_tables = [owner for owner in OWNERS if owner[0] == source]
    changes, second, order = [], generator.randrange(20), -1
    for nth in range(1, length + 1):
        second = max(second + generator.choice([0, 1, 1, 2, 5, -7]), 0)
        order = max(order, second)
        op = generator.choices(["put", "delete", "truncate"], [12, 5, 1])[0]
        key, value = generator.randrange(KEYS), generator.randrange(1000)
        changes.append(Change(generator.choice(own_tables), 100 * nth, second, order, op, key, value))
    return changes


def truth(changes: Sequence[Change]) -> Rows:
    """Every change applied in the order of (order time, source, position)."""
    rows: Rows = {}
    keys_of: dict[Owner, set[int]] = {owner: set() for owner in OWNERS}
    for change in sorted(changes, key=lambda change: (change.order, change.owner[0], change.offset)):
        deleted = keys_of[change.owner] if change.op == "truncate" else {change.key}
        for key in sorted(deleted):
            rows.pop(key, None)
        keys_of[change.owner] -= deleted
        if change.op == "put":
            rows[change.key] = (change.value, *change.owner)
            keys_of[change.owner].add(change.key)
    return rows


def late_transactions(lake: Lake, source: str, changes: Sequence[Change], begin: int = 4) -> None:
    """Writes a source's order times."""
    table = new_table(lake.clock(source).path, LATE_COLUMNS, {})
    rows = [
        {"stretch": 1, "number": 1, "start": change.offset, "stop": change.offset + 50, "order_at": _at(change.order)}
        for change in changes
        if change.order > change.second
    ]
    commit = ClockCommit(
        Position(LOG, 1 << 30), new_batch(), begin=Position(LOG, begin), reached=0, has_late=bool(rows)
    )
    commits.commit(
        table, adds=_written_files(table, rows), transaction=(APPLICATION, 1), user_metadata=commit.to_json()
    )


@dataclass
class SharedSource:
    """A source table: what silver has of it by window, and what was merged of it."""

    lake: Lake
    owner: Owner
    changes: list[Change]
    """All that silver may take."""
    windows: dict[tuple[int, int], list[Change]] = field(default_factory=dict)
    stop: int = 4
    merged_changes: list[Change] = field(default_factory=list)

    @property
    def work(self) -> MergeJob:
        table = self.lake.silver(*self.owner)
        head = table.head()
        assert head
        target = SharedPart(self.lake.downstream("world", "t"), self.owner)
        columns = Columns(self.types, ("id",))
        return MergeJob(self.owner[0], TableName(*self.owner[1:]), columns, table, head, target)

    @property
    def types(self) -> dict[str, str]:
        """Its columns; a table with ``compat: plain`` gets no wider types."""
        return TYPES[self.owner] | ({"id": "INT"} if self.lake.plain else {})

    @property
    def silver_changes(self) -> list[Change]:
        return [change for part in self.windows.values() for change in part]

    def grow(self, length: int) -> None:
        """The next window."""
        start, self.stop = self.stop, self.stop + length
        self.windows[start, self.stop] = [change for change in self.changes if start <= change.offset < self.stop]
        self._commit_window(CommitKind.LIVE, (start, self.stop), start)

    def redo(self, window: tuple[int, int], key: int) -> None:
        """Leaves a key out of a window, as a rule does that was changed."""
        self.windows[window] = self.without(window, key)
        self._commit_window(
            CommitKind.REDO, window, self.stop, ranges=(Range(_position_at(window[0]), _position_at(window[1])),)
        )

    def rebuild(self, key: int) -> None:
        """Writes silver anew, without a key, as one window."""
        changes = sorted((change for window in self.windows for change in self.without(window, key)), key=_offset)
        window = 4, self.stop
        self.windows = {window: changes}
        self._commit_window(CommitKind.LIVE, window, 4, is_overwrite=True)

    def without(self, window: tuple[int, int], key: int) -> list[Change]:
        """A window's changes but those of a key."""
        return [change for change in self.windows[window] if change.op == "truncate" or change.key != key]

    def _commit_window(self, kind: CommitKind, window: tuple[int, int], start: int, **fields: Any) -> None:
        """The rows of a window in the place of those that it had, or of all."""
        columns = Columns(self.types, ("id",))
        path = self.lake.silver(*self.owner).path
        table = snapshot_of(path) or new_table(path, columns.stored, MAPPED)
        cuts = [change.offset for change in self.silver_changes if change.op == "truncate"]
        commit = SilverCommit(
            _position_at(self.stop),
            new_batch(),
            kind,
            start=_position_at(start),
            definition=OLD,
            emptied_at=_position_at(max(cuts)) if cuts else None,
            **fields,
        )
        removed = [
            file
            for file in table.files
            if fields.get("is_overwrite") or window[0] <= _start_of(table, file) < window[1]
        ]
        rows = [self._named(row) for row in rows_of(self.windows[window], *window)]
        commits.commit(
            table,
            adds=_written_files(table, rows),
            removes=removed,
            transaction=(APPLICATION, table.version + 2),
            user_metadata=commit.to_json(),
        )

    def _named(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"V" if name == "v" and self.owner == OWNERS[1] else name: value for name, value in row.items()}


def rows_of(changes: Sequence[Change], start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Silver rows of one window, cut where the table is emptied: the last change of every key."""
    for is_cut, part in groupby(changes, lambda change: change.op == "truncate" and change.offset):
        part_changes = list(part)
        if is_cut:
            cut = part_changes[0].offset
            yield row_of(part_changes[0], "truncate", (cut, cut + 50), -1)
            start = cut + 50
            continue
        last = part_changes[-1].offset
        cuts = [change.offset for change in changes if change.op == "truncate" and change.offset > last]
        for change in {change.key: change for change in part_changes}.values():
            yield row_of(change, "delete" if change.op == "delete" else "update", (start, min([*cuts, stop])), 0)


def row_of(change: Change, op: str, window: tuple[int, int], nth: int) -> dict[str, Any]:
    """A row of silver."""
    values = {"id": change.key, "v": change.value if op == "update" else None} if op != "truncate" else {}
    at = {"_position": _position_cell(change.offset, row=nth), "_committed_at": _at(change.second)}
    start, stop = (_position_cell(offset) for offset in window)
    return values | at | {"_op": op, "_existed": True, "_window_start": start, "_window_stop": stop}


def _written_files(table: Snapshot, rows: Sequence[dict[str, Any]]) -> list[DataFile]:
    if not rows:
        return []
    fields = table.schema.arrow(physical=False)
    cells = pa.Table.from_pylist([{name: row.get(name) for name in fields.names} for row in rows], fields)
    return [data_files.write(table.path, cells, table.schema, table.configuration)]


def _start_of(table: Snapshot, file: DataFile) -> int:
    minimum = file.field_bounds(table.schema, "_window_start", "offset").minimum
    assert isinstance(minimum, int)
    return minimum


def _position_cell(offset: int, **row: int) -> dict[str, int]:
    return {"stretch": 1, "number": 1, "offset": offset} | row


def _at(second: int) -> datetime:
    return EPOCH + timedelta(seconds=second)


def _position_at(offset: int) -> Position:
    return Position(LOG, offset)


def _offset(change: Change) -> int:
    return change.offset
