"""Derived changes of the slice that is being read, until they are rows of a table.

Where an event has a later change of the row that a derived one is of, that one is what the row is after it, and the
derived one is left out.

Put here: what is left out, and the columns of the rest by transaction and child. Not here: which changes are derived
(derivation.py), the order of the log (walk.py).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import Changes, TableDefinition, TableName
from spark_jobs.bronze.derived_slices import FIRST_DERIVED_ROW, DerivedSlice
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.cascades.derivation import DerivedChange, Key, Row
from spark_jobs.cascades.key_columns import RAW
from spark_jobs.cascades.logged_rows import LoggedRow, LoggedSlice
from spark_jobs.cascades.parent_changes import Boundaries
from spark_jobs.log.position import Position

_UPDATE, _DELETE = 2, 3
"""Values of ``Changes.op``."""
_RAW_TYPE = pa.map_(pa.string(), pa.string())
_MOMENT = pa.timestamp("us", "UTC")


@dataclass(slots=True)
class _Effects:
    """Derived changes of the slice at hand, that follow from one row of the log.

    Attributes:
        at: that of the row.
        first: number of the first of them in the event.
        kept: by index in ``changes`` what the log has no later change of in the same event: of the row by the identity
            before, and by the one after the change. Of others, both.
    """

    changes: Sequence[DerivedChange]
    at: Position
    first: int
    committed_at: datetime
    gtid: str | None
    kept: dict[int, tuple[bool, bool]] = field(default_factory=dict)

    def leave_out(self, number: int, identity: Key, moved_to: Key | None) -> None:
        """Leave out what a later change of the same event says of an identity.

        moved_to: the row's identity after the change, where that is another one.
        """
        has_old, has_new = self.kept.get(number, (True, True))
        if moved_to is None:
            has_old = has_new = False
        has_old = has_old and identity != self.changes[number].identity
        has_new = has_new and identity != moved_to
        self.kept[number] = has_old, has_new

    def images(self) -> Iterator[tuple[int, DerivedChange, Row, Row | None]]:
        """Number in the event, change, and the row before and after it.

        None where it is deleted, or its new identity is another row's by now.
        """
        for number, derived in enumerate(self.changes):
            before, after = derived.before, derived.after
            has_old, has_new = self.kept.get(number, (True, True))
            if has_old or has_new:
                is_deleted = after is None or not has_new
                old = before if has_old or after is None else after
                yield self.first + number, derived, old, None if is_deleted else after


@dataclass(slots=True)
class PendingColumns:
    """Derived changes of a transaction and child, column by column. at: that of the first."""

    at: Position
    gtid: str | None
    offsets: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    before: list[Row] = field(default_factory=list)
    after: list[Row | None] = field(default_factory=list)

    def add(self, at: Position, number: int, committed_at: datetime, before: Row, after: Row | None) -> None:
        """Add a change. number: in its event. after: None of a delete."""
        self.offsets.append(at.offset)
        self.numbers.append(number)
        self.times.append(committed_at)
        self.before.append(before)
        self.after.append(after)

    def to_slice(self, start: Position, logged: TableDefinition, definition: TableDefinition) -> DerivedSlice:
        """The changes as a slice.

        start: of the transaction. logged: the table as the log has it. definition: with its columns' names.
        """
        # Images as the decoder has them: of a delete the row as it was.
        images = [*zip(self.before, self.after, strict=True)]
        after = [old if new is None else new for old, new in images]
        before = [None if new is None else old for old, new in images]
        changes = Changes(
            op=pa.array([_DELETE if new is None else _UPDATE for new in self.after], pa.uint8()),
            offset=pa.array(self.offsets, pa.int64()),
            row=pa.array(self.numbers, pa.int32()),
            committed_at=pa.array(self.times, _MOMENT),
            gtid=None,
            after=_image(after, definition),
            before=_image(before, definition),
            raw=_raw(after),
            before_raw=_raw(before),
        )
        return DerivedSlice(definition.name, self.at, start, logged, changes, self.gtid)


class PendingChanges:
    """Derived changes of the slice at hand, and among them those of its newest event."""

    def __init__(self, identity: Callable[[TableName, Row], Key], keyless: Mapping[TableName, object]) -> None:
        """identity: a row's key in its table. keyless: tables that have none."""
        self._identity, self._keyless = identity, keyless
        self._effects: list[_Effects] = []
        self._count = FIRST_DERIVED_ROW
        self._unlisted: list[_Effects] = []
        self._by_row: dict[tuple[TableName, Key], list[tuple[_Effects, int, Key | None]]] = defaultdict(list)

    @property
    def has_of_event(self) -> bool:
        """True if the newest event has derived changes."""
        return bool(self._unlisted or self._by_row)

    def begin_event(self) -> None:
        """Begin another event: changes that are added from now on are of it."""
        self._count = FIRST_DERIVED_ROW
        self._unlisted.clear()
        self._by_row.clear()

    def add(self, row: LoggedRow, changes: Sequence[DerivedChange]) -> None:
        """Add what is derived of a row of the newest event."""
        effects = _Effects(changes, row.at, self._count, row.committed_at, row.gtid)
        self._count += len(changes)
        self._effects.append(effects)
        self._unlisted.append(effects)

    def supersede(self, name: TableName, identity: Key) -> None:
        """Leave out derived changes of a row that the newest event changes later."""
        for effects in self._unlisted:
            for number, derived in enumerate(effects.changes):
                moved_to = self._moved_to(derived)
                for known in {derived.identity, moved_to or derived.identity}:
                    self._by_row[derived.table, known].append((effects, number, moved_to))
        self._unlisted.clear()
        for effects, number, moved_to in self._by_row.pop((name, identity), ()):
            effects.leave_out(number, identity, moved_to)

    def _moved_to(self, derived: DerivedChange) -> Key | None:
        """The identity that a row has after a change, where it gets another one."""
        if derived.after is None or derived.table in self._keyless:
            return None
        identity = self._identity(derived.table, derived.after)
        return None if identity == derived.identity else identity

    def take(
        self, part: LoggedSlice, index: SliceIndex, end: Position | None = None
    ) -> dict[tuple[TableName, Position], PendingColumns]:
        """All changes, by child and start of the transaction; those before ``end``. Then it has none.

        part: the slice. index: where it is. Raises LakeError.
        """
        pending = [effects for effects in self._effects if end is None or effects.at < end]
        self._effects = []
        self.begin_event()
        grouped: dict[tuple[TableName, Position], PendingColumns] = {}
        boundaries = Boundaries.of(index, part.number) if pending and not part.is_moved else None
        for at, of_event in groupby(pending, key=lambda effects: effects.at):
            start = boundaries.before(at.offset) if boundaries else part.at
            # Positions and names of tables are compared once an event, and not once a row.
            by_table: dict[TableName, PendingColumns] = {}
            for effects in of_event:
                for number, derived, before, after in effects.images():
                    columns = by_table.get(derived.table)
                    if columns is None:
                        columns = grouped.setdefault((derived.table, start), PendingColumns(at, effects.gtid))
                        by_table[derived.table] = columns
                    columns.add(at, number, effects.committed_at, before, after)
        return grouped


def _image(rows: Sequence[Row | None], definition: TableDefinition) -> pa.RecordBatch:
    names = definition.column_names()
    arrays = [
        pa.array([None if row is None else row[name] for row in rows], column.arrow)
        for name, column in zip([name.casefold() for name in names], definition.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _raw(rows: Sequence[Row | None]) -> pa.Array | None:
    texts: list[Any] = [None if row is None else row[RAW] for row in rows]
    return pa.array(texts, _RAW_TYPE) if any(texts) else None
