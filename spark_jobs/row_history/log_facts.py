"""Author of a change: connection, server, statement and transaction, from the events beside its row.

Put here: looking that up for changes that are chosen, in their slices and in earlier ones of their transactions.
Not here: layouts of events (binlog/).
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_jobs.binlog import Marks, SliceBytes, SliceMarks, SliceTexts, StatementTexts, xa_step
from spark_jobs.bronze.effective_slices import EffectiveSlices, LocatedSlice
from spark_jobs.changes.json_encoding import bytes_at
from spark_jobs.log.position import Position, Range


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Facts of the log about a change besides its row; None where it does not say.

    transaction: where the transaction begins that the change took effect with. connection: the thread id of the session
    that made it. xa: the id of an XA transaction, as the server writes it.
    """

    transaction: Position
    server_id: int
    connection: int | None = None
    statement: str | None = None
    xa: str | None = None


@dataclass(frozen=True, slots=True)
class _SliceFacts:
    """Facts of one slice."""

    log_slice: LocatedSlice
    marks: SliceMarks
    texts: SliceTexts
    starts: tuple[int, ...]
    """Offsets at which transactions begin, the first of one that may begin before the slice."""
    xa: str | None

    def of(self, offset: int, row: int) -> LogFacts:
        _, server_id = self.marks.stamp(offset)
        begin = self.log_slice.begin
        if self.log_slice.committed is None:
            at = bisect_right(self.starts, offset) - 1
            begin = replace(begin, offset=self.starts[max(at, 0)])
        return LogFacts(begin, server_id, self.marks.thread(offset), self.texts.text(offset, row), self.xa)


@dataclass(slots=True)
class FactsReader:
    """Looks facts up, slice by slice in order; a slice without chosen changes need not be asked for."""

    slices: EffectiveSlices
    _current: _SliceFacts | None = None
    _open: "_OpenTransaction | None" = None
    _xids: dict[Position, str | None] = field(default_factory=dict)

    def of(self, log_slice: LocatedSlice, offset: int, row: int) -> LogFacts:
        """The facts of a change. Raises DecodeError, LakeError."""
        if self._current is None or self._current.log_slice is not log_slice:
            self._current = self._facts_of_slice(log_slice)
        return self._current.of(offset, row)

    def _facts_of_slice(self, log_slice: LocatedSlice) -> _SliceFacts:
        cells = log_slice.cells
        file, start, first, stretch = (
            cells.column(name)[0].as_py() for name in ("file", "start", "transaction_start", "stretch")
        )
        begin = Position(file, first, stretch)
        # What a transaction says at its beginning, earlier slices of it have: they are read once.
        if self._open is None or self._open.begin != begin or self._open.end > start:
            self._open = _OpenTransaction(begin, first)
        if self._open.end < start:
            part = Range(replace(begin, offset=self._open.end), replace(begin, offset=start))
            for earlier in self.slices.logged_slices(part):
                self._open.read(earlier)
        marks, texts = self._open.read(cells)
        starts = tuple(sorted({first, *marks.starts}))
        self._open.begin = replace(begin, offset=starts[-1])
        return _SliceFacts(log_slice, marks, texts, starts, self._xid(log_slice))

    def _xid(self, log_slice: LocatedSlice) -> str | None:
        """The id of the XA transaction that a slice belongs to, by the slice that commits it; None of no XA."""
        if log_slice.committed is None:
            return None
        position = log_slice.position
        if position not in self._xids:
            self._xids[position] = next(self._ids_at(position), None)
        return self._xids[position]

    def _ids_at(self, position: Position) -> Iterator[str]:
        """The id in the XA COMMIT, or XA_PREPARE of a transaction in one phase, at a position."""
        for cells in self.slices.logged_slices(Range(position, replace(position, offset=position.offset + 1))):
            file, start, context, first = (
                cells.column(name)[0].as_py() for name in ("file", "start", "context", "transaction_start")
            )
            step = xa_step(file, start, context, bytes_at(cells.column("payload"), 0), first, inside=first != start)
            if step and step.xid:
                yield step.xid


@dataclass(slots=True)
class _OpenTransaction:
    """The slices of one file as far as they were read, from the beginning of a transaction on.

    begin: of the transaction that begins last in them. end: offset after the last slice that was read.
    """

    begin: Position
    end: int
    _marks: Marks = field(default_factory=Marks)
    _texts: StatementTexts = field(default_factory=StatementTexts)

    def read(self, cells: pa.RecordBatch) -> tuple[SliceMarks, SliceTexts]:
        """Read the next slice."""
        payload = bytes_at(cells.column("payload"), 0)
        file, start, stop, context, first = (
            cells.column(name)[0].as_py() for name in ("file", "start", "stop", "context", "transaction_start")
        )
        self.end = stop
        texts = self._texts.of_slice(file, SliceBytes(start, context, payload, first))
        return self._marks.of_slice(cells, 0, payload), texts
