"""Extent of a merge of every change: its range of the log, and the rows of target and silver in it.

Put here: that part, and the rows that lie in it. Not here: the windows of the log (column_history.py), or what becomes
of the rows (change_task.py).

A row is where its position is. So a range that was replayed replaces the rows whose positions lie in it. What no change
in the log says comes from silver: rows that were loaded or mended, rows that came with a table's name, and statements
that emptied the table.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.lake.commit import Head
from spark_jobs.lake.ranges import joined
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.positions import bounds_of, may_overlap, within
from spark_jobs.silver.windows import OF_CHANGES

STATEMENTS = (silver.Op.TRUNCATE, silver.Op.RENAME)
"""Operations of rows that a statement left, where it stands."""

_WINDOW = ("_window_start", "_window_stop")


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of a merge in the log: all of it, or some ranges, which are in order and do not touch."""

    ranges: tuple[Range, ...] = ()
    is_all: bool = False
    is_restated: bool = False
    """True if the target may have rows of it."""
    from_server: tuple[silver.Op, ...] = ()
    """Operations of rows read from the server that are taken, in the place of those that the target has."""

    @classmethod
    def of(cls, work: MergeJob, head: Head, delta: SilverDelta) -> "Extent":
        """Rows that a target at its head lacks of silver at its pinned one."""
        if head.checkpoint is None or delta.is_renewed:
            return cls(is_all=True, from_server=silver.FROM_SERVER)
        assert head.position
        assert work.pinned.position
        pending = [Range(head.position, work.pinned.position)] if head.position < work.pinned.position else []
        is_restated = bool(delta.redone) or bool(delta.from_server)
        return cls(tuple(joined([*delta.redone, *pending])), is_restated=is_restated, from_server=delta.from_server)

    @property
    def hull(self) -> Range | None:
        """Range from the beginning of the first range to the end of the last; None where there is no range."""
        return Range(self.ranges[0].start, self.ranges[-1].stop) if self.ranges else None

    @property
    def _hull_ranges(self) -> list[Range]:
        return [self.hull] if self.hull else []

    def with_ranges(self, ranges: Iterable[Range]) -> "Extent":
        """Extent with more ranges, which may overlap those that it has."""
        return self if self.is_all else replace(self, ranges=tuple(joined([*self.ranges, *ranges])))

    def overlaps(self, log_range: Range) -> bool:
        return self.is_all or any(log_range.overlaps(part) for part in self.ranges)

    def holds(self, positions: pa.ChunkedArray) -> pa.Array:
        """Positions that lie in it."""
        return pa.array(np.ones(len(positions), np.bool_)) if self.is_all else within(positions, self.ranges)

    def begins_before(self, position: Position | None) -> bool:
        """True if some of it lies before a position."""
        return bool(self.ranges) and position is not None and self.ranges[0].start < position

    def back_to(self, start: Position, until: Position) -> "Extent":
        """Extent with all of the log between two positions too, which the target may have rows of."""
        return replace(self.with_ranges([Range(start, until)]), is_restated=True) if start < until else self

    def target_mask(self, rows: pa.Table) -> pa.Array:
        """Mask of the rows of the target that the merge replaces. rows: with ``_op`` and ``_position``."""
        op, position = rows.column("_op"), rows.column("_position")
        of_log = pc.and_(pc.invert(silver.is_from_server(op)), within(position, self.ranges))
        is_statement = pc.is_in(op, pa.array([str(kind) for kind in STATEMENTS]))
        of_log = pc.or_(of_log, pc.and_(is_statement, within(position, self._hull_ranges)))
        return pc.or_(of_log, self._is_from_server(op))

    def silver_mask(self, rows: pa.Table) -> pa.Array:
        """Mask of the rows of silver that the merge takes and no change in the log says.

        Rows: ``_op``, ``_window_start``.
        """
        op = rows.column("_op")
        is_taken = pc.is_in(op, pa.array([str(kind) for kind in STATEMENTS]))
        if not self.is_all:
            is_taken = pc.and_(is_taken, within(rows.column("_window_start"), self._hull_ranges))
        return pc.or_(is_taken, self._is_from_server(op))

    def may_be_of(self, file: DataFile, schema: TableSchema) -> bool:
        """True if a data file of the target may have rows that the merge replaces."""
        if not self.is_restated:
            return False
        if self.from_server and has_operation(file, schema, *self.from_server):
            return True
        return may_overlap(file, schema, "_position", self._hull_ranges)

    def _is_from_server(self, operations: pa.ChunkedArray) -> pa.ChunkedArray:
        """Mask of the rows that were read from the server, and are taken."""
        return pc.is_in(operations, pa.array([str(kind) for kind in self.from_server], pa.string()))


def has_operation(file: DataFile, schema: TableSchema, *operations: silver.Op) -> bool:
    """True if a data file may have rows of some operations, by its statistics."""
    bounds = file.bounds(schema, "_op")
    if bounds.minimum is None or bounds.maximum is None:
        return True
    return any(bounds.minimum <= operation <= bounds.maximum for operation in operations)


def may_have_statements(file: DataFile, schema: TableSchema, *operations: silver.Op) -> bool:
    """True if a data file of silver may have rows of operations that no change in the log has, by its statistics.

    Rows of several operations that have one window are changes: no statement or load has a window in common with them.
    """
    if not has_operation(file, schema, *operations):
        return False
    bounds = file.bounds(schema, "_op")
    kinds, indexes = {bounds.minimum, bounds.maximum}, [bounds_of(file, schema, name) for name in _WINDOW]
    is_one_window = all(lowest is not None and lowest == highest for lowest, highest in indexes)
    return not (is_one_window and len(kinds) > 1 and kinds <= {*OF_CHANGES})
