"""Slices of a part of the log in the order in which they take effect, read without a JVM.

Put here: reading slices in order, however large the part is. Not here: metadata of slices (index.py), which part is
read (seek.py), or what slices become (changes/).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableName
from spark_jobs.bronze.boundaries import split_transactions
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.data_files import ChosenRows, DataFiles
from spark_jobs.bronze.index import SliceIndex, read_slices
from spark_jobs.bronze.table import ARROW, COLUMNS, BronzeSnapshot
from spark_jobs.bronze.xa import committed, taking_effect
from spark_jobs.log.position import Position, Range

_SLICES = 4096
"""Slices whose metadata are in memory at once, or those of one data file."""


@dataclass(frozen=True, slots=True)
class LocatedSlice:
    """A slice as a row of bronze.

    position: where it takes effect. begin: where the transaction begins that it begins in, or is committed by.
    committed: when, of slices of XA transactions, which were logged elsewhere; None of all others.
    """

    cells: pa.RecordBatch
    position: Position
    begin: Position
    committed: datetime | None

    def holds(self, at: Position) -> bool:
        """True if the slice has the bytes at a position."""
        stretch, file, start, stop = (
            self.cells.column(name)[0].as_py() for name in ("stretch", "file", "start", "stop")
        )
        return (at.stretch, at.file) == (stretch, file) and start <= at.offset < stop


class EffectiveSlices:
    """Slices of one version of bronze, but for control events."""

    def __init__(self, snapshot: BronzeSnapshot, files: DataFiles | None = None) -> None:
        """files: those of the version, where they are open. Raises LakeError."""
        self._snapshot = snapshot
        self._files = DataFiles(snapshot.table, snapshot.version) if files is None else files
        self._names = {stretch.number: stretch.file for stretch in stretches(snapshot.checkpoint)}

    def of_range(
        self,
        within: Range,
        tables: Collection[TableName] | None = None,
        positions: Collection[tuple[int, ...]] | None = None,
        selected: ChosenRows | None = None,
    ) -> Iterator[LocatedSlice]:
        """The slices that a range touches, in order; whole transactions. Raises LakeError, DecodeError.

        A range that begins inside a transaction gets its earlier slices, and one that ends inside it the later ones.
        tables: only slices that may have rows of one of these. positions: only those that take effect
        there (``Position.order``). selected: of each data file only these, and those of XA transactions. Payloads of
        no others are read.
        """
        for part in self._parts(self.outer(within)):
            index = self._slices(part, selected)
            xa = committed(self._files, part, self._snapshot.oldest)
            effective = taking_effect(index, xa)
            yield from (self._located_slices(effective, row) for row in _rows_of(effective, tables, positions))

    def outer(self, within: Range) -> Range:
        """A range with the whole transactions that it touches. Raises LakeError."""
        return Range(self._transaction_begin(within.start), self._transaction_end(within.stop))

    def transaction_at(self, position: Position) -> Position:
        """The start of the transaction that a position is in; the position itself if it is in none.

        Raises LakeError.
        """
        for cells in self.logged_slices(Range(position, replace(position, offset=position.offset + 1))):
            if (cells.column("stretch")[0].as_py(), cells.column("file")[0].as_py()) == (
                position.stretch,
                position.file,
            ):
                begins = [
                    (piece.column("start")[0].as_py(), piece.column("transaction_start")[0].as_py())
                    for piece in split_transactions(cells)
                ]
                return replace(position, offset=max(begin for start, begin in begins if start <= position.offset))
        return position

    def logged_slices(self, part: Range) -> Iterator[pa.RecordBatch]:
        """The slices whose bytes lie in a part of the log, where they were logged, as rows of bronze.

        Raises LakeError.
        """
        index = self._slices(part)
        yield from (self._slice_batch(log_slice) for log_slice in index.slices.to_pylist())

    def index_of_file(self, file: int) -> SliceIndex:
        """The slices of one data file. Raises LakeError."""
        no_rows = np.zeros(0, np.int64)
        return read_slices(self._files, selected=lambda number: None if number == file else no_rows)

    def cells_of(self, index: SliceIndex, file: int, table: TableName) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The slices of a data file that may have rows of a table, each with its row number in the file.

        Those of XA transactions are not among them. Raises LakeError.
        """
        starts = self._files.starts(file)
        for row in index.rows_of(table).tolist():
            log_slice = index.slices.slice(row, 1).to_pylist()[0]
            yield int(starts[log_slice["row_group"]]) + log_slice["row"], self._slice_batch(log_slice)

    def _parts(self, outer: Range) -> Iterator[Range]:
        """The range in parts whose metadata fit into memory."""
        begin = outer.start
        for stretch, number, start in self._files.cuts(outer, _SLICES):
            end = Position(self._names[stretch](number), start, stretch)
            if begin < end < outer.stop:
                yield Range(begin, end)
                begin = end
        if begin < outer.stop:
            yield Range(begin, outer.stop)

    def _slices(self, part: Range, selected: ChosenRows | None = None) -> SliceIndex:
        """The slices that a part touches: those that begin before it are of the first part alone."""
        index = read_slices(self._files, part, selected=selected)
        return index.where(~index.is_kind("control"))

    def _transaction_begin(self, start: Position) -> Position:
        """Position where the transaction begins that a position lies in, or the slice that holds it."""
        index = self._slices(Range(start, replace(start, offset=start.offset + 1)))
        if not len(index):
            return start
        log_slice = index.slices.slice(0, 1).to_pylist()[0]
        is_here = (log_slice["stretch"], log_slice["number"]) == start.order[:2]
        return (
            min(start, Position(log_slice["file"], log_slice["transaction_start"], log_slice["stretch"]))
            if is_here
            else start
        )

    def _transaction_end(self, stop: Position) -> Position:
        """Position where the transaction ends that a position lies in; the end of bronze at most."""
        following = min(replace(stop, file=self._names[stop.stretch](stop.number + 1), offset=0), self._snapshot.end)
        if not stop < following:
            return stop
        index = self._slices(Range(stop, following))
        begins = np.array(index.slices.column("transaction_start").to_pylist(), np.int64)
        ends = index.slices.filter(pa.array(begins < stop.offset))
        if not len(ends):
            return stop
        return replace(stop, offset=max(stop.offset, pc.max(ends["stop"]).as_py()))

    def _located_slices(self, index: SliceIndex, row: int) -> LocatedSlice:
        log_slice = index.slices.slice(row, 1).to_pylist()[0]
        cells = self._slice_batch(log_slice)
        is_moved = index.is_moved(row)
        position = index.position(row)
        begin = (
            position if is_moved else Position(log_slice["file"], log_slice["transaction_start"], log_slice["stretch"])
        )
        return LocatedSlice(cells, position, begin, log_slice["committed_at"] if is_moved else None)

    def _slice_batch(self, log_slice: Mapping[str, Any]) -> pa.RecordBatch:
        """A slice's row of bronze. log_slice: its row of the index."""
        stored = self._files.group(log_slice["data_file"], log_slice["row_group"], tuple(COLUMNS))
        return stored.slice(log_slice["row"], 1).select(ARROW.names).cast(ARROW).combine_chunks().to_batches()[0]


def _rows_of(
    index: SliceIndex, tables: Collection[TableName] | None, positions: Collection[tuple[int, ...]] | None
) -> Iterable[int]:
    """The slices of an index that may have rows of some tables, of any where none are named.

    At some positions, or any.
    """
    rows: Iterable[int] = range(len(index))
    if tables is not None:
        rows = np.unique(np.concatenate([index.rows_of(table) for table in tables])).tolist() if tables else ()
    return rows if positions is None else (row for row in rows if index.position(row).order in positions)
