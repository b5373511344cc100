"""The bronze table: the log itself, one row a slice.

Put here: its columns and how ranges of it are read. Not here: how bytes become slices (binlog/slices/slicer.py), or
what fills it (extract.py).

A slice is a run of bytes of one file: several whole transactions, or a part of a large one. Order is (stretch, number,
start), all integers. The payloads of a file, in order, are the file.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import SLICE_SCHEMA
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.data_files import DataFiles
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range, file_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMNS = {
    "stretch": "INT",
    "number": "BIGINT",
    "start": "BIGINT",
    "stop": "BIGINT",
    "file": "STRING",
    "transaction_start": "BIGINT",
    "server_id": "BIGINT",
    "server_uuid": "STRING",
    "gtid": "STRING",
    "committed_at": "TIMESTAMP",
    "kind": "STRING",
    "tables": "ARRAY<STRUCT<schema: STRING, table: STRING>>",
    "database": "STRING",
    "statement": "STRING",
    "events": "INT",
    "transactions": "INT",
    "ignored": "INT",
    "maps": "ARRAY<BINARY>",
    "context": "BINARY",
    "payload": "BINARY",
}
"""Names and Spark types. The first four stand first because Delta keeps minima and maxima of them alone."""

REDACTED_COLUMN = {
    "redacted": "STRUCT<events: INT, bytes: BIGINT, tables: ARRAY<STRUCT<schema: STRING, table: STRING>>>"
}
"""Column of sources that keep rows of tables out (``redact:``): how much of a slice is not the server's own; null for
none of it. Other sources' tables do not have the column."""

PROPERTIES = {"delta.dataSkippingNumIndexedCols": "4"}

_ADDED = {"stretch": pa.int32(), "number": pa.int64(), "server_uuid": pa.string()}
ARROW = pa.schema([(name, _ADDED[name]) if name in _ADDED else SLICE_SCHEMA.field(name) for name in COLUMNS])
REDACTED_ARROW = ARROW.append(SLICE_SCHEMA.field("redacted"))


def arrow_schema(stored: pa.Schema) -> pa.Schema:
    """Slices with the columns of a table, of which those that another tool added are kept. Raises LakeError."""
    lacking = [name for name in ARROW.names if name not in stored.names]
    if lacking:
        raise LakeError(f"it lacks the column {lacking[0]}, which another tool dropped; restore the table's _delta_log")
    return pa.schema([REDACTED_ARROW.field(f.name) if f.name in REDACTED_ARROW.names else f for f in stored])


READING = {
    # A batch of the defaults (4,096 and 10,000 rows) of 1 MiB payloads would be gigabytes.
    "spark.sql.parquet.columnarReaderBatchSize": "16",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    # Splits follow payload bytes, so that a window is decoded by as many tasks as it is worth.
    "spark.sql.files.maxPartitionBytes": str(32 << 20),
    "spark.sql.files.openCostInBytes": str(1 << 20),
}


@dataclass(frozen=True, slots=True)
class BronzeSnapshot:
    """A source's bronze at one head, with log in it."""

    source: str
    table: Table
    head: Head
    checkpoint: BronzeCommit

    @classmethod
    def of(cls, lake: Lake, source: str) -> "BronzeSnapshot":
        """The source's bronze at its newest head. Raises LakeError where bronze is empty."""
        snapshot = cls.find(lake, source)
        if snapshot is None:
            raise LakeError(f"{source}: bronze holds nothing yet; the first run of the source fills it")
        return snapshot

    @classmethod
    def find(cls, lake: Lake, source: str) -> "BronzeSnapshot | None":
        """The source's bronze at its newest head; None where bronze is empty."""
        table = lake.bronze(source)
        head = table.head()
        commit = BronzeCommit.of_head(head)
        return None if head is None or commit is None else cls(source, table, head, commit)

    @property
    def version(self) -> int:
        """Delta's."""
        return self.head.version

    @property
    def begin(self) -> Position:
        """Position where the first extraction began."""
        return begin(self.checkpoint)

    @property
    def earliest(self) -> Position:
        """Earliest position from which bronze ever held the log."""
        return earliest(self.checkpoint)

    @property
    def oldest(self) -> Position:
        """Position where the log that bronze holds begins now."""
        return oldest(self.checkpoint)

    @property
    def complete_from(self) -> Position:
        """Position from which on bronze lacks nothing."""
        return complete_from(self.checkpoint)

    @property
    def end(self) -> Position:
        """Position where the log that bronze holds ends."""
        return self.checkpoint.position

    def require_log(self, until: Position) -> None:
        """Check that no other run has extracted and compacted more log than this snapshot has. Raises LostRace."""
        if self.end < until:
            raise LostRace(f"{self.source}: another run has extracted more log; planned again")


def begin(checkpoint: Checkpoint) -> Position:
    """Position where the first extraction began."""
    first = BronzeCommit.of(checkpoint).begin
    assert first is not None
    return first


def earliest(checkpoint: Checkpoint) -> Position:
    """Earliest position from which bronze ever held the log: of the first extraction, or of log added before it."""
    commit = BronzeCommit.of(checkpoint)
    first = commit.log_index[0].begin
    return min(first, commit.begin) if commit.begin else first


def oldest(checkpoint: Checkpoint) -> Position:
    """Position where the log that bronze holds begins now.

    That is where the first extraction did, or later since gc removed files, or earlier since files were brought.
    """
    return BronzeCommit.of(checkpoint).oldest or begin(checkpoint)


def complete_from(checkpoint: Checkpoint) -> Position:
    """Position from which on bronze holds all that was logged: where it begins, or the end of what gc removed last.

    Nothing lies between the two. Where the log was read up to the very end of a file, what came next counts from there.
    """
    removed_to = BronzeCommit.of(checkpoint).removed_to
    return min(oldest(checkpoint), removed_to) if removed_to else oldest(checkpoint)


def range_removed_by_gc(checkpoint: Checkpoint) -> Range | None:
    """The part of the log that gc has removed; None where it has not removed any."""
    if BronzeCommit.of(checkpoint).oldest is None:
        return None
    first, now = earliest(checkpoint), oldest(checkpoint)
    return Range(first, now) if first < now else None


def require_held(source: str, checkpoint: Checkpoint, start: Position) -> None:
    """Check that gc has not removed log after a position. Raises LakeError."""
    if start < complete_from(checkpoint):
        raise LakeError(f"{source}: {removal_message(source, Range(start, oldest(checkpoint)))}")


def removal_message(source: str, removed: Range) -> str:
    """The message about a part of the log that gc removed, with the remedy."""
    return (
        f"bronze no longer holds {removed}; the oldest that it holds is {removed.stop}. Bring the files back: "
        f"stratalog extract --source {source} --archive DIR, where DIR has copies of them"
    )


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A binlog file in bronze: its first and last byte held, the bytes between them that are, its newest commit."""

    stretch: int
    file: str
    start: int
    stop: int
    size: int
    newest: datetime

    @property
    def file_number(self) -> tuple[int, int]:
        """Order of files."""
        return self.stretch, file_number(self.file)

    @property
    def end(self) -> Position:
        """Position where its last byte held ends."""
        return Position(self.file, self.stop, self.stretch)


def files(bronze: Table, version: int) -> list[HeldFile]:
    """The files of bronze in the log's order, learnt without reading payloads."""
    # Positions and sizes of slices are columns of their own: Parquet reads them without the payloads.
    names = ("stretch", "number", "file", "start", "stop", "committed_at")
    spans = pa.schema([ARROW.field(name) for name in names]).empty_table()
    for batch in DataFiles(bronze, version).read(None, names):
        slices = batch.columns.cast(spans.schema)
        spans = pa.concat_tables([spans, slices])
    spans = spans.append_column("size", pc.subtract(spans["stop"], spans["start"]))
    aggregates = [("start", "min"), ("stop", "max"), ("size", "sum"), ("committed_at", "max")]
    grouped = (
        spans.group_by(["stretch", "number", "file"])
        .aggregate(aggregates)
        .sort_by([("stretch", "ascending"), ("number", "ascending")])
    )
    return [
        HeldFile(*(row[name] for name in ("stretch", "file", "start_min", "stop_max", "size_sum", "committed_at_max")))
        for row in grouped.to_pylist()
    ]


def last_gtid(snapshot: BronzeSnapshot, within: Range) -> str | None:
    """The GTID of the last transaction that begins in a range; None where none has one. Without a JVM."""
    gtids = _gtids_by_position(snapshot, within)
    return gtids[max(gtids)] if gtids else None


def statement_gtids(snapshot: BronzeSnapshot, within: Range) -> dict[tuple[int, int, int], str]:
    """The GTIDs of statements in a range by where they stand (``Position.order``). Without a JVM."""
    return _gtids_by_position(snapshot, within, pc.field("kind") == "statement")


def committed_before(bronze: Table, version: int, position: tuple[int, ...]) -> datetime | None:
    """Time when the last transaction before a position was committed; None where bronze has none. Without a JVM.

    position: stretch, number and offset.
    """
    stretch, number, start = (pc.field(name) for name in ("stretch", "number", "start"))
    in_file = (number < position[1]) | ((number == position[1]) & (start < position[2]))
    is_before = (stretch < position[0]) | ((stretch == position[0]) & in_file)
    batches = bronze.scan(version, ["committed_at"], is_before, rows=1 << 16)
    return max((time for batch in batches if (time := pc.max(batch.column(0)).as_py())), default=None)


def _gtids_by_position(
    snapshot: BronzeSnapshot, within: Range, condition: pc.Expression | None = None
) -> dict[tuple[int, int, int], str]:
    stretch, number, start = (pc.field(name) for name in ("stretch", "number", "start"))

    def since(at: Position) -> pc.Expression:
        in_file = (number > at.number) | ((number == at.number) & (start >= at.offset))
        return (stretch > at.stretch) | ((stretch == at.stretch) & in_file)

    has_gtid = since(within.start) & ~since(within.stop) & pc.field("gtid").is_valid()
    has_gtid = has_gtid if condition is None else has_gtid & condition
    batches = snapshot.table.scan(snapshot.version, ["stretch", "number", "start", "gtid"], has_gtid, rows=1 << 16)
    slices = (tuple(row.values()) for batch in batches for row in batch.to_pylist())
    return {
        (stretch_column, file_number, first_offset): gtid for stretch_column, file_number, first_offset, gtid in slices
    }


@dataclass(frozen=True, slots=True)
class Redacted:
    """Redactions in a part of the log: events, blanked bytes, and tables."""

    events: int
    bytes: int
    tables: tuple[str, ...]

    def __str__(self) -> str:
        of = f" of {', '.join(self.tables)}" if self.tables else ""
        return f"{self.events} events{of} redacted, in {self.bytes} bytes"


def redactions_in(slices: "DataFrame") -> Redacted | None:
    """Redactions in slices; None where there is none. Reads no payload."""
    from pyspark.sql import functions as F

    if "redacted" not in slices.columns:
        return None
    names = F.flatten(F.collect_set("redacted.tables"))
    sums = slices.where("redacted IS NOT NULL").agg(
        F.sum("redacted.events").alias("events"),
        F.sum("redacted.bytes").alias("bytes"),
        F.array_sort(
            F.array_distinct(F.transform(names, lambda column: F.concat_ws(".", column["schema"], column["table"])))
        ),
    )
    events, size, tables = sums.collect()[0]
    return Redacted(events, size, tuple(tables)) if events else None


def redacted_in_all(bronze: Table, version: int) -> tuple[int, int]:
    """Blanked events, and bytes that are not the server's own for them, in all of bronze, without a JVM."""
    redaction = redacted_within(bronze, version)
    return (redaction.events, redaction.bytes) if redaction else (0, 0)


def redacted_within(bronze: Table, version: int, within: Range | None = None) -> Redacted | None:
    """Redactions in the slices that a range touches, or in all; None where there is none. Without a JVM."""
    if "redacted" not in bronze.columns():
        return None
    names = ["stretch", "file", "start", "stop", "redacted"]
    redactions = [
        row["redacted"]
        for batch in bronze.scan(version, names, pc.field("redacted").is_valid(), rows=1 << 16)
        for row in batch.to_pylist()
        if row["redacted"]  # rows of files without the column come all the same
        and (within is None or within.overlaps(_span(row)))
    ]
    tables = {f"{table['schema']}.{table['table']}" for entry in redactions for table in entry["tables"] or ()}
    events, size = (sum(entry[name] for entry in redactions) for name in ("events", "bytes"))
    return Redacted(events, size, tuple(sorted(tables))) if events else None


def _span(row: dict[str, Any]) -> Range:
    return Range(*(Position(row["file"], row[name], row["stretch"]) for name in ("start", "stop")))


def read(spark: "SparkSession", bronze: Table, version: int, within: Range) -> "DataFrame":
    """The slices that begin within a range, at one Delta version."""
    return read_all(spark, bronze, version).where(inside(within))


def read_all(spark: "SparkSession", bronze: Table, version: int) -> "DataFrame":
    """All slices, at one Delta version."""
    from spark_jobs.runtime.spark_session import own_session

    return bronze.read(own_session(spark, READING), version)


def overlapping(spark: "SparkSession", bronze: Table, version: int, log_range: Range) -> "DataFrame":
    """The slices of which a byte lies in a range, and those that continue a transaction that started in it."""
    from pyspark.sql import functions as F

    stretch, number = F.col("stretch"), F.col("number")
    begin, end = log_range.start, log_range.stop
    here = (stretch == begin.stretch) & (
        (number > begin.number) | ((number == begin.number) & (F.col("stop") > begin.offset))
    )
    before = (number < end.number) | ((number == end.number) & (F.col("transaction_start") < end.offset))
    return read_all(spark, bronze, version).where(
        (here | (stretch > begin.stretch)) & (((stretch == end.stretch) & before) | (stretch < end.stretch))
    )


def inside(within: Range) -> "Column":
    """True if a slice begins in a range."""
    return _at_or_after(within.start) & ~_at_or_after(within.stop)


def _at_or_after(position: Position) -> "Column":
    """True if a slice begins at or after a position; written so that Delta skips files by each of its parts."""
    from pyspark.sql import functions as F

    stretch, number, start = F.col("stretch"), F.col("number"), F.col("start")
    here = (stretch == position.stretch) & (number == position.number) & (start >= position.offset)
    later_file = (stretch == position.stretch) & (number > position.number)
    return here | later_file | (stretch > position.stretch)
