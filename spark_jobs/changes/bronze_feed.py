"""Row changes of bronze: as JSON lines in the log's order, and as a DataFrame.

Put here: which slices a range has, and which of their transactions. Not here: changes of files (feed.py), or lines
(lines.py). One slice is in memory at a time, and of its values as text only a portion.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.bronze import derived_slices
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import split_transactions
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.derived_slices import DerivedChanges, stored_changes
from spark_jobs.bronze.effective_slices import EffectiveSlices, LocatedSlice
from spark_jobs.bronze.seek import LocationText, range_in
from spark_jobs.bronze.xa import EFFECT, LOGGED, LOGGED_AT, OF_XA, by_bytes, committed
from spark_jobs.changes.formats import ChangeLine
from spark_jobs.changes.lines import JsonChanges, Output, TableFilter
from spark_jobs.changes.table_definitions import HistoryDefinitions, VersionsByTable
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.runtime.executors import checked
from spark_jobs.schema.history import by_table

logger = logging.getLogger(__name__)

Batches = Iterator[pa.RecordBatch]


def changes_of_bronze(
    lake: Lake,
    source: str,
    start: LocationText,
    stop: LocationText,
    *,
    is_wanted: TableFilter,
    output: Output | None = None,
) -> Iterator[str]:
    """The changes of a range of bronze, snapped outward to transactions; all of it by default. Without a JVM.

    start, stop: positions. Rows of XA transactions come where the range commits them, from wherever they were logged.
    Raises LakeError; SourceError and ConfigError for positions.
    """
    definitions = HistoryDefinitions(partial(by_table, lake, source))
    encoder = JsonChanges(source, is_wanted, definitions.complete, prepared=True, output=output)
    snapshot = bronze.BronzeSnapshot.of(lake, source)
    within = range_in(snapshot, start, stop)
    redacted = bronze.redacted_within(snapshot.table, snapshot.version, within)
    if redacted:
        logger.warning("%s: in the slices that hold this range, %s", source, redacted)
    slices = EffectiveSlices(snapshot)
    derived = _Derived(snapshot.table.path, slices.outer(within)) if output and output.cascades else None
    for _, line in lines_with_slices(encoder, slices.of_range(within), within, derived):
        yield from line.pieces


class _Derived:
    """The changes that were derived from foreign keys in a part of the log, in order, each given once."""

    def __init__(self, bronze_path: str, part: Range) -> None:
        """Open the derived changes of a range at the first of them. Raises LakeError."""
        self._parts = stored_changes(bronze_path, derived_slices.read(bronze_path, part))
        self._next = next(self._parts, None)

    def until(self, end: Position | None) -> Iterator[DerivedChanges]:
        """The derived changes before a position that were not returned yet; None: all of them."""
        while self._next and (end is None or self._next.at < end):
            yield self._next
            self._next = next(self._parts, None)


def lines_with_slices(
    encoder: JsonChanges, slices: Iterable[LocatedSlice], within: Range, derived: _Derived | None = None
) -> Iterator[tuple[LocatedSlice, ChangeLine]]:
    """The lines of slices in order, each with its slice; of slices around an end of the range its transactions alone.

    derived: changes that are not in the log, to be written with it. Raises DecodeError, Unsupported, LakeError.
    """
    before: LocatedSlice | None = None
    for log_slice in slices:
        if (
            before and before.committed and before.position != log_slice.position
        ):  # no event ends the rows of an XA transaction
            for line in encoder.rest():
                yield before, line
        for line in _lines_of_slice(encoder, log_slice, within, derived):
            yield log_slice, line
        before = log_slice
    if before:
        for line in encoder.rest():
            yield before, line
        for line in encoder.derived_lines(derived.until(None)) if derived else ():
            yield before, line


def _lines_of_slice(
    encoder: JsonChanges, log_slice: LocatedSlice, within: Range, derived: _Derived | None
) -> Iterator[ChangeLine]:
    parts = [log_slice.cells] if log_slice.committed else _cut_transactions(log_slice.cells, within)
    if derived is None:
        yield from chain.from_iterable(encoder.lines(part, log_slice.committed) for part in parts)
        return
    for part in parts:
        begin, end = log_slice.position, log_slice.position
        if not log_slice.committed:
            begin, end = (replace(begin, offset=_integer_cell(part, name)) for name in ("start", "stop"))
        # Those of an XA transaction stand at its XA COMMIT, behind its rows, and in no slice.
        yield from encoder.derived_lines(derived.until(begin))
        yield from encoder.lines(part, log_slice.committed, [*derived.until(end)])


def transactions_of_bronze(
    spark: SparkSession, lake: Lake, source: str, start: LocationText, stop: LocationText
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(stretch, slices) of the transactions that a range touches, in order, no more of them than that.

    Slices are of SLICE_SCHEMA or of bronze, one at a time in memory. Control events are dropped.

    Raises as ``range_in``.
    """
    log_part = _log_part(spark, lake, source, start, stop)
    for row in log_part.slices.orderBy("stretch", "number", "start").toLocalIterator(prefetchPartitions=True):
        for part in _cut_transactions(_slice_batch(row), log_part.within):
            yield row["stretch"], part


def _slice_batch(row: Row) -> pa.RecordBatch:
    """A slice out of bronze."""
    return pa.RecordBatch.from_pydict({name: [row[name]] for name in bronze.ARROW.names}, schema=bronze.ARROW)


CHANGE = (
    "source STRING, file STRING, offset BIGINT, row INT, gtid STRING, committed_at TIMESTAMP, schema STRING, "
    "table STRING, op STRING, before STRING, after STRING"
)
"""A change's keys as columns; the two images are JSON text."""
_LINE = "stretch INT, number BIGINT, line STRING"


def changes_frame(
    spark: SparkSession, lake: Lake, source: str, start: LocationText, stop: LocationText, *, is_wanted: TableFilter
) -> DataFrame:
    """The same changes as a DataFrame of ``stretch, number`` (of the file) and CHANGE, decoded by Spark's tasks.

    In no order: (stretch, number, offset, row) is the log's. Rows of XA transactions that the range commits have the
    position where they were logged, and the time of the commit. Raises as ``range_in``; what a task cannot read fails
    the job that first needs the row.
    """
    part = _log_part(spark, lake, source, start, stop)
    task = _lines_task(source, is_wanted, part.within, by_table(lake, source))
    lines = part.taking_effect().mapInArrow(checked(task), _LINE)
    return lines.select("stretch", "number", F.from_json("line", CHANGE).alias("change")).select(
        "stretch", "number", "change.*"
    )


def _lines_task(
    source: str, is_wanted: TableFilter, within: Range, versions: VersionsByTable
) -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices to lines."""

    def run(batches: Batches) -> Batches:
        encoder = JsonChanges(source, is_wanted, HistoryDefinitions(lambda: versions).complete, prepared=True)
        for batch in batches:
            for cells in (batch.slice(at, 1) for at in range(batch.num_rows)):
                is_elsewhere = cells.column(EFFECT)[0].is_valid
                parts = [cells] if is_elsewhere else _cut_transactions(cells, within)
                committed = cells.column("committed_at")[0].as_py() if is_elsewhere else None
                lines = ["".join(line.pieces) for part in parts for line in encoder.lines(part, committed)]
                position = [pa.repeat(cells.column(name)[0], len(lines)) for name in ("stretch", "number")]
                yield pa.RecordBatch.from_arrays(
                    [*position, pa.array(lines, pa.string())], ["stretch", "number", "line"]
                )

    return run


@dataclass(frozen=True, slots=True)
class _LogPart:
    """A range of bronze. slices: those that hold it. begin: where the transaction begins that the range begins in."""

    spark: SparkSession
    snapshot: bronze.BronzeSnapshot
    within: Range
    begin: Position
    slices: DataFrame

    def taking_effect(self) -> DataFrame:
        """The slices whose rows the range commits, by their bytes' position; those of XA transactions have EFFECT.

        Raises DecodeError.
        """
        committed_rows, nowhere = self.slices.where(f"NOT ({OF_XA})"), F.lit(None).cast(LOGGED_AT)
        if self.slices.where(OF_XA).isEmpty():
            return committed_rows.withColumn(EFFECT, nowhere)
        log_range = Range(self.begin, self.within.stop)
        oldest = self.snapshot.oldest
        xa = committed(DataFiles(self.snapshot.table, self.snapshot.version), log_range, oldest)
        if not len(xa.rows):
            return committed_rows.withColumn(EFFECT, nowhere)
        log = bronze.read_all(self.spark, self.snapshot.table, self.snapshot.version)
        return by_bytes(committed_rows.withColumn(LOGGED, nowhere).unionByName(xa.slices(log)))


def _log_part(spark: SparkSession, lake: Lake, source: str, start: LocationText, stop: LocationText) -> _LogPart:
    """Part of the log with the earlier parts of a transaction that the range begins inside."""
    snapshot = bronze.BronzeSnapshot.of(lake, source)
    within = range_in(snapshot, start, stop)

    def overlapping(log_range: Range) -> DataFrame:
        return bronze.overlapping(spark, snapshot.table, snapshot.version, log_range).where("kind != 'control'")

    slices = overlapping(within)
    first = slices.select("stretch", "file", "transaction_start").orderBy("stretch", "number", "start").head()
    if first is None:
        return _LogPart(spark, snapshot, within, within.start, slices)
    begin = min(within.start, Position(first["file"], first["transaction_start"], first["stretch"]))
    return _LogPart(spark, snapshot, within, begin, overlapping(Range(begin, within.stop)))


def _cut_transactions(cells: pa.RecordBatch, within: Range) -> Iterator[pa.RecordBatch]:
    """The transactions of one slice that the range touches; the slice itself where it lies inside or is part of one."""
    begin, end = within.start, within.stop
    stretch, file, start, stop = (cells.column(name)[0].as_py() for name in ("stretch", "file", "start", "stop"))
    here = [(at.stretch, at.file) == (stretch, file) for at in (begin, end)]
    if not any(is_here and start < at.offset < stop for is_here, at in zip(here, (begin, end), strict=True)):
        yield cells
        return
    low = begin.offset if here[0] else 0
    high = end.offset if here[1] else stop
    cut = [(_integer_cell(piece, "transaction_start"), piece) for piece in split_transactions(cells)]
    stops = {first_offset: _integer_cell(piece, "stop") for first_offset, piece in cut}
    yield from (piece for first_offset, piece in cut if stops[first_offset] > low and first_offset < high)


def _integer_cell(cells: pa.RecordBatch, name: str) -> int:
    return int(cells.column(name)[0].as_py())
