"""Row changes as JSON lines, in the log's order.

Put here: which changes there are, and their lines. Not here: decoding (binlog/), values as text (json_encoding.py),
keeping what is prepared (xa_buffer.py). One slice is in memory at a time, and of its values as text only a portion.
"""

import heapq
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import (
    Changes,
    Decoder,
    Definitions,
    Slicer,
    TableDefinition,
    TableName,
    XaStep,
    read_session,
    xa_step,
)
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import split
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.bronze.seek import PlaceText, range_in
from spark_jobs.bronze.xa import EFFECT, LOGGED, LOGGED_AT, OF_XA, by_bytes, committed
from spark_jobs.changes.json_encoding import NULL, Image, bytes_at, images, instants, pieces_of, text_of
from spark_jobs.changes.xa_buffer import PreparedBuffer
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.ddl.classify import judge
from spark_jobs.errors import DecodeError, Truncated, Unsupported
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position, Range
from spark_jobs.runtime.executors import checked

logger = logging.getLogger(__name__)

OPERATIONS = {1: "insert", 2: "update", 3: "delete"}
_DECIMAL = 246
_GEOMETRY = 255
_ROWS = 4096
"""The most rows of a block: enough to spread the cost of a block, few enough to be text all at once."""
_PORTION = 4 << 20
"""Bytes of values that become text at once."""
_BEHIND = 1 << 32
"""A row's number that is behind those of every event."""
_BEGIN = 4096
"""Bytes of a statement's slice in which its session is told."""
_LONG = 1 << 16
"""Bytes of a value from which on it is written piece by piece."""
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
Batches = Iterator[pa.RecordBatch]
TableFilter = Callable[[TableName], bool]
Complete = Callable[[TableDefinition], TableDefinition]
"""Adds to a table's definition what the log leaves out of it: names, signs, character sets, labels."""


def as_logged(definition: TableDefinition) -> TableDefinition:
    """Adds nothing to what the log says of a table."""
    return definition


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One JSON line in pieces, its newline the end of the last one, and where its change stands.

    It is one piece unless values are so long that they are better not held as text.
    """

    offset: int
    row: int
    pieces: Iterable[str]


class JsonChanges:
    """Turns slices (rows of SLICE_SCHEMA or of bronze) of one file into JSON lines."""

    def __init__(
        self, source: str | None, is_wanted: TableFilter, complete: Complete = as_logged, *, prepared: bool = False
    ) -> None:
        """prepared: whether rows of XA transactions are written; the caller knows that they took effect."""
        self.source = source
        self.is_wanted = is_wanted
        self.complete = complete
        self._prepared = prepared
        self._definitions = Definitions()
        self._decoders: dict[TableDefinition, Decoder] = {}

    def lines(self, batch: pa.RecordBatch, committed: datetime | None = None) -> Iterator[ChangeLine]:
        """The changes of the batch's slices, in order of offset and row. Raises DecodeError, Unsupported.

        committed: when, where it was not the transaction itself that committed its rows.
        """
        for at in range(batch.num_rows):
            yield from self._slice(batch, at, committed)

    def _slice(self, batch: pa.RecordBatch, at: int, committed: datetime | None) -> Iterator[ChangeLine]:
        names = ("file", "start", "context", "committed_at", "transaction_start", "gtid")
        cells = {name: batch.column(name)[at] for name in names}
        payload = bytes_at(batch.column("payload"), at)
        place = (cells["file"].as_py(), cells["start"].as_py(), cells["context"].as_py(), payload)
        transaction = {name: cells[name].as_py() for name in ("transaction_start", "gtid")}
        tables = []
        for definition in self._definitions.of_slice(*place):
            if self.is_wanted(definition.name):
                decoder = self._decoder(definition)
                changes = decoder.decode(*place, committed_us=cells["committed_at"].value, **transaction)
                tables.append(_held_back(place[0], self._encode(place[0], decoder.definition, changes, committed)))
        return heapq.merge(*tables, key=lambda change: (change.offset, change.row))

    def _decoder(self, definition: TableDefinition) -> Decoder:
        """The decoder of the tables that the log defines so."""
        if definition not in self._decoders:
            completed = self.complete(definition)
            exact = completed == definition
            self._decoders[definition] = Decoder(
                completed,
                before="all",
                rows=_ROWS,
                gtids=True,
                partial=True,
                prepared=self._prepared,
                exact=exact,
                redacted=True,
            )
        return self._decoders[definition]

    def _encode(
        self, file: str, definition: TableDefinition, changes_: Iterable[Changes], committed: datetime | None
    ) -> Iterator[ChangeLine]:
        name = definition.name
        names = f'"schema": {text_of(name.schema)}, "table": {text_of(name.table)}'
        begin = f'{{"source": {text_of(self.source)}, "file": {text_of(file)}, "offset": '
        for changes in _portions(changes_):
            after = images(definition, changes.after, changes.raw, changes.present)
            before = images(definition, changes.before, changes.before_raw, changes.before_present)
            times = _times(changes, committed)
            places = zip(changes.op.to_pylist(), changes.offset.to_pylist(), changes.row.to_pylist(), strict=True)
            rest = zip(_gtids(changes), times, before, after, strict=True)
            for (op, offset, row), (gtid, time, old, new) in zip(places, rest, strict=True):
                head = (
                    f'{begin}{offset}, "row": {row}, "gtid": {gtid}, "committed_at": "{time}", {names}, '
                    f'"op": "{OPERATIONS[op]}", "before": '
                )
                pair = {1: (NULL, new), 2: (old, new), 3: (new, NULL)}[op]
                yield ChangeLine(offset, row, _line(head, *pair))


def wanted_tables(names: Sequence[str]) -> TableFilter:
    """A test for tables named ``DB.TABLE`` (patterns are fine); any table passes where none is named.

    Raises ConfigError.
    """
    patterns = [Pattern.parse(name) for name in names]
    return lambda name: not patterns or any(pattern.matches(name.schema, name.table) for pattern in patterns)


def changes_of_files(
    files: Iterable[tuple[str, Iterator[bytes]]], is_wanted: TableFilter, complete: Complete = as_logged
) -> Iterator[str]:
    """The changes in binlog files, given by name and chunks of bytes: JSON lines, long ones in several pieces.

    Rows of XA transactions come when the log commits them. What is still prepared at the end is warned of by name.
    Raises DecodeError where a file is damaged or cut, after all that stands before.
    """
    redacted: dict[str, int] = {}
    with PreparedBuffer() as prepared:
        for file, chunks in files:
            reader = _File(file, is_wanted, complete, prepared)
            yield from reader.read(chunks)
            redacted |= {file: reader.redacted} if reader.redacted else {}
        for file, count in redacted.items():
            logger.warning("%s: %d events were redacted when the log was extracted, and are missing here", file, count)
        for xid, place in prepared.waiting():
            logger.warning(
                "%s: rows of XA transaction %s are missing: it is prepared, and no file given says whether it was "
                "committed; give the files behind it too", place, xid,
            )  # fmt: skip


class _File:
    """One file on its way to JSON lines."""

    def __init__(self, file: str, is_wanted: TableFilter, complete: Complete, prepared: PreparedBuffer) -> None:
        self._file, self._is_wanted, self._complete = file, is_wanted, complete
        self._encode = JsonChanges(None, is_wanted, complete, prepared=True)
        self._prepared = prepared
        self._part_of: int | None = None
        """Where the XA transaction begins that the last slice was a part of."""
        self.redacted = 0
        """Events whose content was left out when the log was extracted."""
        self._shown_to = 0
        """Offset behind the last slice whose rows were written."""

    def read(self, chunks: Iterator[bytes]) -> Iterator[str]:
        slicer = Slicer(self._file, 0, None)
        for chunk in chunks:
            for batch in slicer.feed(chunk):
                yield from self._batch(batch)
        for batch in slicer.finish():
            yield from self._batch(batch)
        if slicer.pending:
            rest = f"{slicer.pending} bytes at the end are no complete transaction"
            note = "; rows of it were written already" if self._shown_to > slicer.complete else ""
            raise Truncated(f"{self._file}:{slicer.complete}: {rest}; copy the file again{note}")

    def _batch(self, batch: pa.RecordBatch) -> Iterator[str]:
        self.redacted += sum(event["events"] for event in batch.column("redacted").to_pylist() if event)
        kinds, starts = batch.column("kind").to_pylist(), batch.column("transaction_start").to_pylist()
        for at, (kind, start) in enumerate(zip(kinds, starts, strict=True)):
            part = batch.slice(at, 1)
            step = None
            if kind == "statement":
                begin, context = (part.column(name)[0].as_py() for name in ("start", "context"))
                payload = bytes_at(part.column("payload"), 0)
                step = xa_step(self._file, begin, context, payload, start, inside=start == self._part_of)
            if step and step.kind == "undone":
                raise Unsupported(
                    f"{self._file}:{start}: this transaction has a ROLLBACK past rows of it, and which stay is not "
                    "logged; those before it were written already"
                )
            if step:
                yield from self._xa(step, part, start)
                continue
            if kind == "statement":
                self._judge(part)
            if kind != "control":
                yield from self._lines(self._encode, part)
                self._shown_to = part.column("stop")[0].as_py()

    def _lines(self, encoder: JsonChanges, part: pa.RecordBatch, committed: datetime | None = None) -> Iterator[str]:
        for line in encoder.lines(part, committed):
            yield from line.pieces

    def _xa(self, step: XaStep, part: pa.RecordBatch, start: int) -> Iterator[str]:
        place = f"{self._file}:{start}"
        self._part_of = start if step.kind == "part" else None
        if step.kind in ("part", "prepared", "at once"):
            self._prepared.add(part, place)
        if step.xid is None:
            return
        if step.kind in ("prepared", "at once"):
            earlier = self._prepared.prepare(step.xid)
            if earlier:
                logger.warning("%s: rows of XA transaction %s are missing: no file given ends it", earlier, step.xid)
        if step.kind in ("committed", "at once"):
            yield from self._release(step.xid, place, part.column("committed_at")[0].as_py())
        if step.kind == "rolled back":
            self._prepared.drop(step.xid)

    def _release(self, xid: str, place: str, committed: datetime) -> Iterator[str]:
        parts = self._prepared.take(xid)
        if parts is None:
            logger.warning("%s: XA transaction %s is committed, but no file given has its rows", place, xid)
            return
        encoders: dict[str, JsonChanges] = {}
        for part in parts:
            file = part.column("file")[0].as_py()
            encoders.setdefault(file, JsonChanges(None, self._is_wanted, self._complete, prepared=True))
            yield from self._lines(encoders[file], part, committed)

    def _judge(self, part: pa.RecordBatch) -> None:
        """Raises Unsupported for a statement that changes rows of a wanted table and does not say which."""
        text, database = (part.column(name)[0].as_py() for name in ("statement", "database"))
        statement = judge(text, database or "", read_session(bytes(bytes_at(part.column("payload"), 0)[:_BEGIN])))
        if statement.writes is None or any(self._is_wanted(TableName(*name)) for name in statement.writes):
            raise Unsupported(
                f"{self._file}:{part.column('start')[0].as_py()}: {statement.verb} changes rows in statement format, "
                f"which says what was asked, not what happened: {statement.short}; name the tables that are wanted "
                "without it, or set binlog_format = ROW on the server for the rows to come"
            )


def changes_of_bronze(
    spark: SparkSession, lake: Lake, source: str, start: PlaceText, stop: PlaceText, *, is_wanted: TableFilter
) -> Iterator[str]:
    """The changes of a range of bronze, snapped outward to transactions; all of it by default.

    start, stop: places. Rows of XA transactions come where the range commits them, from wherever they were logged.
    Raises LakeError; SourceError and ConfigError for places.
    """
    encoder = JsonChanges(source, is_wanted, prepared=True)
    part_ = _of_range(spark, lake, source, start, stop)
    slices = part_.taking_effect()
    left_out = bronze.redacted(slices)
    if left_out:
        logger.warning("%s: in the slices that hold this range, %s", source, left_out)
    places = (F.coalesce(f"{EFFECT}.{name}", name) for name in ("stretch", "number", "start"))
    for row in slices.orderBy(*places, "start").toLocalIterator(prefetchPartitions=True):
        cells = _cells(row)
        for part in [cells] if row[EFFECT] else _cut(cells, part_.within):
            for line in encoder.lines(part, row["committed_at"] if row[EFFECT] else None):
                yield from line.pieces


def transactions_of_bronze(
    spark: SparkSession, lake: Lake, source: str, start: PlaceText, stop: PlaceText
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(stretch, slices) of the transactions that a range touches, in order, no more of them than that.

    Slices are of SLICE_SCHEMA or of bronze, one at a time in memory. Control events are dropped.

    Raises as ``range_in``.
    """
    part_ = _of_range(spark, lake, source, start, stop)
    for row in part_.slices.orderBy("stretch", "number", "start").toLocalIterator(prefetchPartitions=True):
        for part in _cut(_cells(row), part_.within):
            yield row["stretch"], part


def _cells(row: Row) -> pa.RecordBatch:
    """A slice out of bronze."""
    return pa.RecordBatch.from_pydict({name: [row[name]] for name in bronze.ARROW.names}, schema=bronze.ARROW)


CHANGE = (
    "source STRING, file STRING, offset BIGINT, row INT, gtid STRING, committed_at TIMESTAMP, schema STRING, "
    "table STRING, op STRING, before STRING, after STRING"
)
"""A change's keys as columns; the two images are JSON text."""
_LINE = "stretch INT, number BIGINT, line STRING"


def changes_frame(
    spark: SparkSession, lake: Lake, source: str, start: PlaceText, stop: PlaceText, *, is_wanted: TableFilter
) -> DataFrame:
    """The same changes as a DataFrame of ``stretch, number`` (of the file) and CHANGE, decoded by Spark's tasks.

    In no order: (stretch, number, offset, row) is the log's. Rows of XA transactions that the range commits have the
    place where they were logged, and the time of the commit. Raises as ``range_in``; what a task cannot read fails the
    job that first needs the row.
    """
    part = _of_range(spark, lake, source, start, stop)
    lines = part.taking_effect().mapInArrow(checked(_lines_task(source, is_wanted, part.within)), _LINE)
    return lines.select("stretch", "number", F.from_json("line", CHANGE).alias("change")).select(
        "stretch", "number", "change.*"
    )


def _lines_task(source: str, is_wanted: TableFilter, within: Range) -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices to lines."""

    def run(batches: Batches) -> Batches:
        encoder = JsonChanges(source, is_wanted, prepared=True)
        for batch in batches:
            for cells in (batch.slice(at, 1) for at in range(batch.num_rows)):
                is_elsewhere = cells.column(EFFECT)[0].is_valid
                parts = [cells] if is_elsewhere else _cut(cells, within)
                committed = cells.column("committed_at")[0].as_py() if is_elsewhere else None
                lines = ["".join(line.pieces) for part in parts for line in encoder.lines(part, committed)]
                place = [pa.repeat(cells.column(name)[0], len(lines)) for name in ("stretch", "number")]
                yield pa.RecordBatch.from_arrays([*place, pa.array(lines, pa.string())], ["stretch", "number", "line"])

    return run


@dataclass(frozen=True, slots=True)
class _Part:
    """A range of bronze. slices: those that hold it. begin: where the transaction begins that the range begins in."""

    spark: SparkSession
    snapshot: bronze.BronzeSnapshot
    within: Range
    begin: Position
    slices: DataFrame

    def taking_effect(self) -> DataFrame:
        """The slices whose rows the range commits, by their bytes' place; those of XA transactions have EFFECT.

        Raises DecodeError.
        """
        committed_rows, nowhere = self.slices.where(f"NOT ({OF_XA})"), F.lit(None).cast(LOGGED_AT)
        if self.slices.where(OF_XA).isEmpty():
            return committed_rows.withColumn(EFFECT, nowhere)
        range_ = Range(self.begin, self.within.stop)
        oldest = self.snapshot.oldest
        xa = committed(DataFiles(self.snapshot.table, self.snapshot.version), range_, oldest)
        if not len(xa.rows):
            return committed_rows.withColumn(EFFECT, nowhere)
        log = bronze.read_all(self.spark, self.snapshot.table, self.snapshot.version)
        return by_bytes(committed_rows.withColumn(LOGGED, nowhere).unionByName(xa.slices(log)))


def _of_range(spark: SparkSession, lake: Lake, source: str, start: PlaceText, stop: PlaceText) -> _Part:
    """With the earlier parts of a transaction that the range begins inside."""
    within = range_in(spark, lake, source, start, stop)
    snapshot = bronze.BronzeSnapshot.of(lake, source)

    def overlapping(range_: Range) -> DataFrame:
        return bronze.overlapping(spark, snapshot.table, snapshot.version, range_).where("kind != 'control'")

    slices = overlapping(within)
    first = slices.select("stretch", "file", "transaction_start").orderBy("stretch", "number", "start").head()
    if first is None:
        return _Part(spark, snapshot, within, within.start, slices)
    begin = min(within.start, Position(first["file"], first["transaction_start"], first["stretch"]))
    return _Part(spark, snapshot, within, begin, overlapping(Range(begin, within.stop)))


def _cut(cells: pa.RecordBatch, within: Range) -> Iterator[pa.RecordBatch]:
    """The transactions of one slice that the range touches; the slice itself where it lies inside or is part of one."""
    begin, end = within.start, within.stop
    stretch, file, start, stop = (cells.column(name)[0].as_py() for name in ("stretch", "file", "start", "stop"))
    here = [(at.stretch, at.file) == (stretch, file) for at in (begin, end)]
    if not any(is_here and start < at.offset < stop for is_here, at in zip(here, (begin, end), strict=True)):
        yield cells
        return
    low = begin.offset if here[0] else 0
    high = end.offset if here[1] else stop
    cut = [(_number(piece, "transaction_start"), piece) for piece in split(cells)]
    stops = {start_: _number(piece, "stop") for start_, piece in cut}
    yield from (piece for start_, piece in cut if stops[start_] > low and start_ < high)


def _number(cells: pa.RecordBatch, name: str) -> int:
    return int(cells.column(name)[0].as_py())


def _held_back(file: str, lines: Iterator[ChangeLine]) -> Iterator[ChangeLine]:
    """The lines of a table; its failure comes as one of them, in its place among the lines of other tables."""
    try:
        yield from lines
    except DecodeError as error:
        place = str(error).removeprefix(f"{file}:").split(":", 1)[0]  # every message begins with file:offset
        yield ChangeLine(int(place), _BEHIND, _failure(error))


def _failure(error: DecodeError) -> Iterator[str]:
    yield from ()
    raise error


def _line(head: str, before: Image, after: Image) -> Iterable[str]:
    """A change as pieces of its line; one piece where no value is long."""
    cells = (head, *before, ', "after": ', *after, "}\n")
    try:
        return ("".join(cells),)  # type: ignore[arg-type]  # what is not text is told by join
    except TypeError:
        return pieces_of(cells)


def _portions(batches: Iterable[Changes]) -> Iterator[Changes]:
    """The changes in so many parts that the values of each are few bytes, or one row."""
    for changes in batches:
        step = max(1, len(changes) * _PORTION // max(changes.nbytes, 1))
        for first in range(0, len(changes), step):
            yield changes if step >= len(changes) else changes.slice(first, min(step, len(changes) - first))


def _times(changes: Changes, committed: datetime | None) -> list[str]:
    """When each row was committed, as text."""
    times = pa.array([committed], changes.committed_at.type) if committed else changes.committed_at
    texts: list[str] = instants(times, 6).to_pylist()
    return texts * len(changes) if committed else texts


def _gtids(changes: Changes) -> list[str]:
    """One JSON text a row."""
    if changes.gtid is None:
        return ["null"] * len(changes)
    texts = [text_of(gtid) for gtid in changes.gtid.dictionary.to_pylist()]
    return [texts[at] for at in changes.gtid.indices.to_pylist()]
