"""The changes of a delivery's tables in the log's order, in portions of whole transactions, without a JVM.

Put here: decoding slices of several tables side by side, and where portions end. Not here: the tables' definitions
(log_tables.py), what rules leave of a row (judgement.py), or what conflicts (causality.py).

A slice is decoded once for each table that it has rows of. Before images have all columns: keys of both images decide
what conflicts.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog import Changes, Decoder, Scans, transaction_starts
from spark_jobs.delivery.ordered.log_tables import Logged
from spark_jobs.engine.silver.silver_task import OpenSlices
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.decode_task import decoded
from spark_jobs.silver.slice_runs import SliceRun
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableState

Order = tuple[int, int, int]
"""Order of a position: stretch, file number, offset (bytes)."""
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Changes of one table in one slice. table: its number. step: of its timeline."""

    table: int
    step: int
    changes: Changes
    order: Order
    """Position where the slice takes effect."""
    begin: Position
    """Position where the transaction begins that the slice begins in: before the slice, where it continues one."""
    transactions: Numbers
    """Offset where the transaction of each change begins."""

    @property
    def last_transaction(self) -> Order:
        """Position where the transaction of the last change begins."""
        return self.begin.stretch, self.begin.number, int(self.transactions[-1])


@dataclass(frozen=True, slots=True)
class OrderedStatement:
    """A statement that changes a table. table: its number."""

    table: int
    step: SchemaChange

    @property
    def order(self) -> Order:
        return self.step.range.start.order


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of one table, by one definition, in a portion.

    file_names: of each of ``changes`` the file that they stand in. file, offset, row: of each change.
    """

    table: int
    state: TableState
    changes: tuple[Changes, ...]
    file_names: tuple[str, ...]
    file: Numbers
    """Stretch and file number of each, as one number."""
    offset: Numbers
    row: Numbers
    transaction: Numbers


@dataclass(frozen=True, slots=True)
class Portion:
    """The changes of whole transactions. end: the position after the last, as far as the log has nothing before it."""

    tables: tuple[TableChanges, ...]
    end: Position

    @property
    def rows(self) -> int:
        return sum(len(table.offset) for table in self.tables)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements at one position, about one or more tables. end: behind them."""

    statements: tuple[OrderedStatement, ...]
    end: Position


Step = Portion | Statements


def steps(logged: Logged, rows: int) -> Iterator[Step]:
    """The log of the range, in order; portions of about so many rows, or more where a transaction has them.

    Raises LakeError, DecodeError.
    """
    generators: list[Iterator[Piece | OrderedStatement]] = [_ordered_statements(logged)]
    opened = OpenSlices(logged.snapshot.table.path)
    generators += [_pieces(logged, opened, number, job) for number, job in enumerate(logged.jobs)]
    merged = heapq.merge(*generators, key=lambda item: (item.order, isinstance(item, Piece)))
    pieces: list[Piece] = []
    latest: Order = (0, 0, 0)
    count = 0
    for _, items in groupby(merged, key=lambda item: item.order):
        at_once = list(items)
        statements = tuple(item for item in at_once if isinstance(item, OrderedStatement))
        new = [item for item in at_once if isinstance(item, Piece)]
        # A portion ends between transactions: in front of a statement, or of a transaction that it has no row of.
        is_boundary = not new or latest < min(piece.begin.order for piece in new)
        if pieces and (statements or (count >= rows and is_boundary)):
            end = statements[0].step.range.start if statements else min(piece.begin for piece in new)
            yield _portion(logged, pieces, end)
            pieces, count = [], 0
        if statements:
            yield Statements(statements, max(statement.step.range.stop for statement in statements))
        pieces += new
        latest = max([latest, *(piece.last_transaction for piece in new)])
        count += sum(len(piece.changes) for piece in new)
    yield _portion(logged, pieces, logged.within.stop)


def _ordered_statements(logged: Logged) -> Iterator[OrderedStatement]:
    """Statements of all tables, in order."""
    listed = [
        OrderedStatement(number, step)
        for number, job in enumerate(logged.jobs)
        for step in job.steps
        if isinstance(step, SchemaChange)
    ]
    yield from sorted(listed, key=lambda statement: statement.order)


def _pieces(logged: Logged, opened: OpenSlices, table: int, job: CompactionJob) -> Iterator[Piece]:
    """The changes of one table, slice by slice. opened: the slices of all tables."""
    numbers = [number for number, step in enumerate(job.steps) if isinstance(step, DataRange)]
    ranges: list[Range] = [job.steps[number].range for number in numbers]
    slices = logged.index.slices_of_table(job.name, ranges)
    if not len(slices):
        return
    for window, runs in groupby(opened.runs(slices), lambda run: run.origin.window):
        step = job.steps[numbers[window]]
        assert isinstance(step, DataRange)
        yield from _decoded(step, runs, opened.scans, job, (table, numbers[window]))


def _decoded(
    step: DataRange, runs: Iterator[SliceRun], scans: Scans, job: CompactionJob, owner: tuple[int, int]
) -> Iterator[Piece]:
    decoder = Decoder(step.definition, before="all", prepared=True, scans=scans)
    current: list[SliceRun] = []

    def noted() -> Iterator[SliceRun]:
        for run in runs:
            current[:] = [run.without(job.filters.skips) if job.filters.skips else run]
            yield current[0]

    for changes, _ in decoded(decoder, noted()):
        if len(changes):
            yield _piece(current[0], scans, changes, owner)


def _piece(run: SliceRun, scans: Scans, changes: Changes, owner: tuple[int, int]) -> Piece:
    # Rows of an XA transaction are one transaction where that is committed.
    if run.effect is not None:
        constant = np.full(len(changes), run.effect.offset, np.int64)
        return Piece(*owner, changes, run.effect.order, run.effect, constant)
    (log_slice,) = run.slices
    assert log_slice.transaction_start is not None
    begin, position = (
        Position(run.origin.file, offset, run.origin.stretch)
        for offset in (log_slice.transaction_start, log_slice.start)
    )
    # Changes that were derived from foreign keys are of one transaction, that of their parents' events.
    inner: Sequence[int] | NDArray[np.int64] = (
        [] if run.is_derived else transaction_starts(run.origin.file, log_slice, scans)
    )
    starts = np.concatenate([np.array([begin.offset], np.int64), np.array(inner, np.int64)])
    transactions = starts[np.searchsorted(starts[1:], changes.offset.to_numpy(), side="right")]
    return Piece(*owner, changes, position.order, begin, transactions)


def _portion(logged: Logged, pieces: Sequence[Piece], end: Position) -> Portion:
    grouped: dict[tuple[int, int], list[Piece]] = {}
    for piece in pieces:
        grouped.setdefault((piece.table, piece.step), []).append(piece)
    return Portion(tuple(_table_changes(logged, *key, table_pieces) for key, table_pieces in grouped.items()), end)


def _table_changes(logged: Logged, table: int, step: int, pieces: Sequence[Piece]) -> TableChanges:
    files = [np.full(len(piece.changes), (piece.order[0] << 40) + piece.order[1], np.int64) for piece in pieces]
    return TableChanges(
        table,
        logged.jobs[table].steps[step].state,
        tuple(piece.changes for piece in pieces),
        tuple(piece.begin.file for piece in pieces),
        np.concatenate(files),
        _joined_numbers(pieces, lambda piece: piece.changes.offset.to_numpy()),
        _joined_numbers(pieces, lambda piece: piece.changes.row.to_numpy().astype(np.int64)),
        _joined_numbers(pieces, lambda piece: piece.transactions),
    )


def _joined_numbers(pieces: Sequence[Piece], values: Callable[[Piece], Numbers]) -> Numbers:
    return np.concatenate([values(piece) for piece in pieces])
