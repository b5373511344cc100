"""Extraction of a source into bronze: whole transactions, byte for byte, with the position in the same commit.

Put here: what a run reads and how it is landed. Not here: where bytes come from (source/), how they are cut into slices
(binlog/slices/slicer.py), what they mean.

Ranges, not bytes, go through the driver: it lists what there is to read, a task a file, and every task opens its own
file or dump connection and must end exactly where the driver said, at the end of a transaction.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.binlog import Slicer
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.landing import SliceCounts, Totals, land_slices
from spark_jobs.bronze.log_index import Stretch, without_old_gtids
from spark_jobs.bronze.redaction import Redaction
from spark_jobs.bronze.resume import first_log, next_log
from spark_jobs.errors import DecodeError, about
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range, file_number
from spark_jobs.source.protocol import FilePart, PartReader, Source
from spark_jobs.source.retention_margin import Margin, margin
from spark_jobs.text.counts import counted

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Extracted(SliceCounts):
    """Addition of one run to a bronze table. ``range`` is empty where nothing was new."""

    source: str
    range: Range
    head: Head
    files: int = 0
    bytes: int = 0
    committed_at: datetime | None = None
    gtid: str | None = None
    seconds: float = 0.0
    margin: Margin | None = None
    """Log that the source still had before ``range``."""
    stretch: Stretch | None = None
    """Stretch in which ``range`` ends."""


@dataclass(frozen=True, slots=True)
class ExtractionPlan:
    """Log to read, and the head that it is read upon."""

    source: str
    head: Head
    range: Range
    parts: tuple[FilePart, ...]
    uuid: str | None
    begin: Position
    stretches: tuple[Stretch, ...]
    margin: Margin | None = None
    redact: Redaction | None = None

    @property
    def stretch(self) -> Stretch:
        """The stretch that is read."""
        return self.stretches[-1]

    @property
    def bytes(self) -> int:
        """Bytes of log to read."""
        return sum(part.stop - part.start for part in self.parts)

    @property
    def opens(self) -> bool:
        """True if the end lies in a stretch that the head knows nothing of."""
        return self.range.stop.stretch > self.range.start.stretch

    def commit(self) -> BronzeCommit:
        """Metadata of the commit that has all of it."""
        return BronzeCommit(
            self.range.stop,
            new_batch(),
            start=self.range.start,
            begin=self.begin,
            server_uuid=self.uuid,
            log_bytes=self.bytes,
            margin_bytes=self.margin.bytes if self.margin else None,
            stretches=without_old_gtids(self.stretches),
            derives_cascades=self.head.checkpoint is None,
        )


@dataclass(frozen=True, slots=True)
class LogParts:
    """Parts of the files of one stretch of the log, and how a task reads them.

    uuid: the server's, where it is known. redact: the tables whose rows are blanked before anything is written.
    """

    source: str
    stretch: int
    files: tuple[FilePart, ...]
    reading: PartReader
    uuid: str | None = None
    redact: Redaction | None = None


@dataclass(frozen=True, slots=True)
class LandedSlices:
    """Bronze after a commit of slices, and what was counted of them."""

    head: Head
    totals: Totals


def extract(
    spark: SparkSession,
    lake: Lake,
    source: Source,
    start: str,
    *,
    until: Position | None = None,
    redact: Redaction | None = None,
) -> Extracted:
    """Read a source from bronze's head to its end as it is now. Raises SourceError, DecodeError, LakeError.

    ``start`` (``earliest``, ``latest``, or a place: a position, a GTID set, a time) counts only while bronze is empty.
    ``until``: a transaction's end after which nothing is read, though the log continues. ``redact``: the tables whose
    rows are blanked before anything is written.
    """
    began = time.monotonic()
    planned = plan(lake.bronze(source.name), source, start, until)
    return execute_plan(spark, lake, source, replace(planned, redact=redact), began)


def execute_plan(spark: SparkSession, lake: Lake, source: Source, planned: ExtractionPlan, began: float) -> Extracted:
    """Read the planned parts, commit them, and return what was added.

    began: second of the monotonic clock. Raises SourceError, DecodeError, LakeError.
    """
    table = lake.bronze(source.name)
    with about(source.name):
        if planned.opens:
            log.warning(
                "%s: another log continues after %s: stretch %d of the log, from %s%s",
                *(source.name, planned.range.start, planned.stretch.number, planned.stretch.begin),
                f", of {source.endpoint}" if source.endpoint else "",
            )
        if not planned.parts:
            log.info("%s: nothing new; the log ends at %s", source.name, planned.range.stop)
            return _extracted_nothing(table, planned)
        log.info(
            "%s: reading up to %s, %d bytes in %s",
            *(source.name, planned.range.stop, planned.bytes, counted(_files(planned), "file")),
        )
        return land(spark, table, planned, source.reading(), began)


def plan(table: Table, source: Source, start: str, until: Position | None = None) -> ExtractionPlan:
    """The range from bronze's head to the source's end, or ``until``.

    It is fixed before anything is read: the log grows meanwhile, and the next run takes the rest. Raises SourceError,
    AnotherLog, DecodeError.
    """
    with about(source.name):
        return _plan(table, source, start, until)


def _plan(table: Table, source: Source, start: str, until: Position | None) -> ExtractionPlan:
    # An empty bronze begins where the configuration says, any other continues from its checkpoint.
    head = table.head()
    if head is None or head.checkpoint is None:
        next_range = first_log(source, start, until)
        head = head or table.unwritten_head(bronze.COLUMNS, bronze.PROPERTIES)
        return ExtractionPlan(
            source.name,
            head,
            next_range.range,
            next_range.parts,
            next_range.log.uuid,
            next_range.range.start,
            next_range.stretches,
        )
    # The margin is how much of the log the server still keeps beyond the checkpoint; it is measured where something is
    # new.
    next_range = next_log(source, table, head, until)
    position = head.checkpoint.position
    remaining = margin(source, next_range.log, position) if next_range.parts and not next_range.opens else None
    begin = bronze.begin(head.checkpoint)
    return ExtractionPlan(
        source.name,
        head,
        next_range.range,
        next_range.parts,
        next_range.log.uuid,
        begin,
        next_range.stretches,
        remaining,
    )


def land(spark: SparkSession, table: Table, planned: ExtractionPlan, reading: PartReader, began: float) -> Extracted:
    """Read the planned parts in parallel and commit them. Raises LostRace where the head has moved since."""
    parts = LogParts(planned.source, planned.stretch.number, planned.parts, reading, planned.uuid, planned.redact)
    landed = land_parts(spark, table, planned.head, parts, planned.commit())
    # What tasks counted of their slices is what a run says of them.
    totals = landed.totals
    return Extracted(
        source=planned.source,
        range=planned.range,
        head=landed.head,
        files=_files(planned),
        bytes=planned.bytes,
        **totals.counts(),
        committed_at=_utc(totals.committed_at),
        gtid=totals.last_gtid[2] if totals.last_gtid else None,
        margin=planned.margin,
        stretch=planned.stretch,
        seconds=time.monotonic() - began,
    )


def land_parts(spark: SparkSession, table: Table, head: Head, parts: LogParts, commit: Checkpoint) -> LandedSlices:
    """Read parts of a log in tasks, which write their slices, and commit these upon a head.

    A table gets the column of what is redacted with the first slices that have it. Raises SourceError, DecodeError,
    LostRace, LakeError.
    """
    upon = driver_commit.snapshot_upon(table.path, head, appends=True)
    upon, added = driver_commit.with_columns(upon, bronze.REDACTED_COLUMN if parts.redact else {})
    with about(table.path):
        columns = bronze.arrow_schema(upon.schema.arrow(physical=False))
    slicing = slicing_task(parts, columns)
    landed = land_slices(spark, upon, len(parts.files), tasks_for(parts.files), slicing)
    return LandedSlices(table.append_files(upon, landed.files, head, commit, **added), landed.totals)


_TASKS = 8
"""Least number of tasks, where there are as many files: dump connections at once, as far as there are cores."""
_A_TASK = 16 << 20
"""Bytes of log that are worth a task."""


def _utc(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC)


def _extracted_nothing(table: Table, planned: ExtractionPlan) -> Extracted:
    """Result where nothing is to be read.

    A source that starts at its end still gets a checkpoint, or later runs would start later still. So does one that is
    at the end of another log, or later runs would look for that end again.
    """
    head = planned.head
    if head.checkpoint is None or planned.opens:
        head = table.append_rows(bronze.ARROW.empty_table(), head, planned.commit())
    return Extracted(planned.source, planned.range, head, stretch=planned.stretch)


def _files(planned: ExtractionPlan) -> int:
    """Number of the log's files that are read; one may be read in several parts."""
    return len({part.file for part in planned.parts})


def tasks_for(parts: Sequence[FilePart]) -> int:
    """A task a part, or several where they are small: a task, and a file of bronze's, cost more than their bytes."""
    size = sum(part.stop - part.start for part in parts)
    return min(len(parts), max(_TASKS, size // _A_TASK))


Batches = Iterator[pa.RecordBatch]


def slicing_task(parts: LogParts, columns: pa.Schema) -> Callable[[Batches], Batches]:
    """A mapInArrow function from ordinals of parts to slices with these columns; null where they have no such."""

    def run(ids: Batches) -> Batches:
        for batch in ids:
            for at in batch.column(0).to_pylist():
                with about(parts.source):
                    for cut in _read_part(parts.files[at], parts.reading, parts.redact):
                        yield _bronze_rows(cut, parts.stretch, parts.uuid, columns)

    return run


def _read_part(part: FilePart, reading: PartReader, redact: Redaction | None) -> Batches:
    format_, chunks = reading(part)
    slicer = Slicer(part.file, part.start, format_, redact=redact)
    for chunk in chunks:
        yield from slicer.feed(chunk)
    yield from slicer.finish()
    if slicer.complete != part.stop:
        raise DecodeError(
            f"{part.file}:{slicer.complete}: the log was to be read to {part.stop}, but its last complete transaction "
            "ends here; the file is cut, or was changed while it was read"
        )


def _bronze_rows(cut: pa.RecordBatch, stretch: int, uuid: str | None, columns: pa.Schema) -> pa.RecordBatch:
    file = cut.column("file")[0].as_py()
    added = {"stretch": stretch, "number": file_number(file), "server_uuid": uuid}
    cells = {name: cut.column(name) for name in cut.schema.names}
    cells |= {
        name: pa.repeat(pa.scalar(value, columns.field(name).type), cut.num_rows) for name, value in added.items()
    }
    arrays = [cells[field.name] if field.name in cells else pa.nulls(cut.num_rows, field.type) for field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
