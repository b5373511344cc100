"""The bronze table: the log itself, one row a slice.

Put here: its columns and how ranges of it are read. Not here: how bytes become slices (binlog/transactions.py), or what
fills it (extract.py).

A slice is a run of bytes of one file: several whole transactions, or a part of a large one. Order is (stretch, number,
start), all integers. The payloads of a file, in order, are the file.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import SLICE_SCHEMA
from spark_jobs.lake import Checkpoint, Table
from spark_jobs.position import Position, Range
from spark_jobs.session import own_session

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

PROPERTIES = {"delta.dataSkippingNumIndexedCols": "4"}
DDL = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())

_ADDED = {"stretch": pa.int32(), "number": pa.int64(), "server_uuid": pa.string()}
ARROW = pa.schema([(name, _ADDED[name]) if name in _ADDED else SLICE_SCHEMA.field(name) for name in COLUMNS])

READING = {
    # A batch of the defaults (4,096 and 10,000 rows) of 1 MiB payloads would be gigabytes.
    "spark.sql.parquet.columnarReaderBatchSize": "16",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    # Splits follow payload bytes, so that a window is decoded by as many tasks as it is worth.
    "spark.sql.files.maxPartitionBytes": str(32 << 20),
    "spark.sql.files.openCostInBytes": str(1 << 20),
}


def begin(checkpoint: Checkpoint) -> Position:
    """Where the first extraction began: nothing of the log before it was ever read."""
    return Position.parse(checkpoint.notes["begin"])


def read(spark: SparkSession, bronze: Table, version: int, within: Range) -> DataFrame:
    """The slices that begin within a range, at one Delta version."""
    session = own_session(spark, READING)
    return bronze.read(session, version).where(inside(within))


def overlapping(spark: SparkSession, bronze: Table, version: int, wanted: Range) -> DataFrame:
    """The slices of which a byte lies in a range, and those that continue a transaction begun in it."""
    stretch, number = F.col("stretch"), F.col("number")
    begin, end = wanted.start, wanted.stop
    here = (stretch == begin.stretch) & (
        (number > begin.number) | ((number == begin.number) & (F.col("stop") > begin.offset))
    )
    before = (number < end.number) | ((number == end.number) & (F.col("transaction_start") < end.offset))
    slices = bronze.read(own_session(spark, READING), version)
    return slices.where(
        (here | (stretch > begin.stretch)) & (((stretch == end.stretch) & before) | (stretch < end.stretch))
    )


def inside(within: Range) -> Column:
    """Whether a slice begins in a range."""
    return _at_or_after(within.start) & ~_at_or_after(within.stop)


def _at_or_after(position: Position) -> Column:
    """Whether a slice begins at or after a position; written so that Delta skips files by each of its parts."""
    stretch, number, start = F.col("stretch"), F.col("number"), F.col("start")
    here = (stretch == position.stretch) & (number == position.number) & (start >= position.offset)
    later_file = (stretch == position.stretch) & (number > position.number)
    return here | later_file | (stretch > position.stretch)


def first_slices(slices: DataFrame, schema: str, table: str, ranges: Sequence[Range]) -> dict[int, dict[str, Any]]:
    """Of each range, by its ordinal, the first slice that has rows of a table; nothing of one that has none."""
    ordinal = F.lit(None).cast("int")
    for at, part in enumerate(ranges):
        ordinal = F.when(inside(part), at).otherwise(ordinal)
    names = ("stretch", "file", "start", "context", "payload")
    rows = slices.where((F.col("kind") == "rows") & holding(schema, table)).withColumn("part", ordinal)
    first = F.min_by(F.struct(*names), F.struct("stretch", "number", "start")).alias("slice")
    found = rows.where("part IS NOT NULL").groupBy("part").agg(first).toArrow().to_pylist()
    return {row["part"]: row["slice"] for row in found}


def holding(schema: str, table: str) -> Column:
    """Whether a slice may hold rows of a table; tables unknown (null) means any."""
    named = F.exists("tables", lambda name: (name["schema"] == schema) & (name["table"] == table))
    return F.col("tables").isNull() | named
