"""Bronze -> silver: the net change per key of a window of the log.

Put here: windows, the decoding task, and the reduction to one row a key. Not here: how bytes become columns (binlog/),
or what becomes of silver rows (merge.py).

A table's window runs from its checkpoint to bronze's end. Its slices are decoded where they lie, reduced to one row a
key inside the task, and only what is left is shuffled; a small window is one task's, and nothing is. Last and first are
told by position, not by arrival.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark_jobs import bronze, silver
from spark_jobs.binlog import Decoder, TableDefinition, TableName
from spark_jobs.errors import about
from spark_jobs.lake import Checkpoint, Head, Table, identifier, new_batch
from spark_jobs.net import Place, net_rows, reduce, settle
from spark_jobs.position import Range

log = logging.getLogger(__name__)

_REDUCE_AT = 1 << 19
"""Rows that a task gathers before it reduces them again: a hot key costs no more than this."""
_PIECES = 256
"""Decoded pieces held at once: each has buffers made for more rows than a small slice fills them with."""
_BATCH = 1 << 16
_ONE_TASK = 64 << 20
"""Bytes of a table's slices up to which one task decodes and reduces all of them.

Its rows fit into memory, and decoding them takes less time than a shuffle does; beyond, Spark sorts them, on disk if
need be."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What one window added to a silver table: rows by net operation, and how many changes they came from."""

    source: str
    name: TableName
    range: Range
    head: Head
    definition: TableDefinition
    changes: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    committed_at: datetime | None = None
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        return self.inserts + self.updates + self.deletes


@dataclass(frozen=True, slots=True)
class Window:
    """A part of bronze (one Delta version of it) that becomes one or more windows of a silver table."""

    table: Table
    version: int
    ranges: tuple[Range, ...]

    @property
    def whole(self) -> Range:
        return Range(self.ranges[0].start, self.ranges[-1].stop)


@dataclass(frozen=True, slots=True)
class Work:
    """One table that has something to compact, and the silver head (None: no table yet) that it is planned upon."""

    source: str
    window: Window
    definition: TableDefinition
    table: Table
    head: Head | None
    size: int
    """Bytes of log that the table's slices hold."""

    @property
    def name(self) -> TableName:
        return self.definition.name

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"

    def notes(self, columns: silver.Columns) -> dict[str, Any]:
        """What a silver commit says besides its position."""
        whole = self.window.whole
        said = {"start": str(whole.start), "bronze_version": self.window.version, "log_bytes": self.size}
        return said | {"key": list(columns.key)}


def compact(spark: SparkSession, work: Work) -> Compacted:
    """Appends a window to a silver table. Raises TableStopped, DecodeError, LostRace."""
    began = time.monotonic()
    with about(str(work)):
        head, columns = prepared(spark, work)
        net = net_changes(spark, work, columns)
        checkpoint = Checkpoint(work.window.whole.stop, new_batch(), notes=work.notes(columns))
        landed = work.table.append(net.rows, head, checkpoint)
    return net.summary(work, landed, time.monotonic() - began)


def prepared(spark: SparkSession, work: Work) -> tuple[Head, silver.Columns]:
    """The silver table, made where it is new, and its columns."""
    columns = silver.columns(work.definition)
    wanted = columns.types | silver.ADDED
    if work.head is None:
        return work.table.create(spark, wanted, silver.properties(work.table)), columns
    silver.require_same_columns(work.table, wanted, str(work.name))
    return work.head, columns


@dataclass(frozen=True, slots=True)
class Net:
    """Silver rows that are yet to be computed, and what is counted while they are."""

    rows: DataFrame
    counted: Observation
    decoded: Observation

    def summary(self, work: Work, head: Head, seconds: float) -> Compacted:
        """What was done, once the rows were written."""
        counts, micros = self.counted.get, self.decoded.get["micros"]
        return Compacted(
            source=work.source,
            name=work.name,
            range=work.window.whole,
            head=head,
            definition=work.definition,
            changes=self.decoded.get["changes"] or 0,
            inserts=counts["insert"],
            updates=counts["update"],
            deletes=counts["delete"],
            committed_at=None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC),
            seconds=seconds,
        )


def net_changes(spark: SparkSession, work: Work, columns: silver.Columns) -> Net:
    """Silver rows of the window's ranges: one row a key and range."""
    counted, decoded = Observation(), Observation()
    alone = work.size <= _ONE_TASK
    slices = _slices(spark, work.window, work.name)
    task = decoding_task(work.definition, columns, alone=alone)
    changes = (slices.coalesce(1) if alone else slices).mapInArrow(task, _decoded_ddl(columns))
    changes = changes.observe(decoded, F.sum("_changes").alias("changes"), F.max("_micros").alias("micros"))
    rows = _silver_rows(changes if alone else _last_per_key(changes, columns), columns, work.window.ranges)
    by_operation = (F.count_if(F.col("_op") == op).alias(op) for op in ("insert", "update", "delete"))
    return Net(rows.observe(counted, *by_operation), counted, decoded)


def _slices(spark: SparkSession, window: Window, name: TableName) -> DataFrame:
    slices = bronze.read(spark, window.table, window.version, window.whole)
    slices = slices.where((F.col("kind") == "rows") & bronze.holding(name.schema, name.table))
    names = ("stretch", "number", "start", "file", "transaction_start", "committed_at", "context", "payload")
    return slices.select(*names, _ordinal(window.ranges).alias("window")).where("window IS NOT NULL")


def _ordinal(ranges: Sequence[Range]) -> Column:
    """Which of the ranges, which touch or have gaps but do not overlap, a slice begins in; null for none."""
    found = F.lit(None).cast("int")
    for ordinal, part in enumerate(ranges):
        found = F.when(bronze.inside(part), ordinal).otherwise(found)
    return found


def _last_per_key(changes: DataFrame, columns: silver.Columns) -> DataFrame:
    """One row a key and window: the last image, and whether the key existed before the first."""
    keys = [F.col(identifier(name)) for name in columns.key]
    carried = [*columns.rest, "_exists", "_position", "_committed_at", "_raw"]
    rest = F.struct(*(F.col(identifier(name)) for name in carried))
    grouped = changes.groupBy("_window", *keys).agg(
        F.max_by(rest, "_position").alias("last"), F.min_by("_existed", "_position").alias("_existed")
    )
    return grouped.select("_window", *keys, "_existed", *(F.col(f"last.{identifier(name)}") for name in carried))


def _silver_rows(settled: DataFrame, columns: silver.Columns, ranges: Sequence[Range]) -> DataFrame:
    """One row a key and window, with the columns of a silver table."""
    starts = F.array(*(silver.place(part.start) for part in ranges))
    stops = F.array(*(silver.place(part.stop) for part in ranges))
    op = F.when(~F.col("_exists"), "delete").when(F.col("_existed"), "update").otherwise("insert")
    computed = {"_op": op, "_window_start": F.get(starts, "_window"), "_window_stop": F.get(stops, "_window")}
    names = [*columns.types, *silver.ADDED]
    return settled.select(*(computed.get(name, F.col(identifier(name))).alias(name) for name in names))


_DECODED = {
    "_window": "INT",
    "_existed": "BOOLEAN",
    "_exists": "BOOLEAN",
    "_position": silver.CHANGE_PLACE,
    "_committed_at": "TIMESTAMP",
    "_raw": "MAP<STRING, STRING>",
    "_changes": "BIGINT",
    "_micros": "BIGINT",
}


def _decoded_ddl(columns: silver.Columns) -> str:
    return ", ".join(f"{identifier(name)} {kind}" for name, kind in (columns.types | _DECODED).items())


Batches = Iterator[pa.RecordBatch]


def decoding_task(definition: TableDefinition, columns: silver.Columns, *, alone: bool) -> Callable[[Batches], Batches]:
    """A mapInArrow function from slices to two rows at most a key and gathered run of changes.

    ``alone``: it gets all slices of the window; then it gives one row a key and window.
    """
    finish = settle if alone else reduce

    def run(slices: Batches) -> Batches:
        gathered: list[pa.Table] = []
        most = _REDUCE_AT
        for rows in _decoded(Decoder(definition), slices, columns):
            gathered.append(rows)
            if sum(map(len, gathered)) >= most or len(gathered) >= _PIECES:
                gathered = [reduce(pa.concat_tables(gathered), columns.key)]
                most = max(_REDUCE_AT, 2 * len(gathered[0]))
                if len(gathered[0]) >= _REDUCE_AT // 2 and not alone:  # few keys repeat; holding them gains nothing
                    yield from gathered.pop().combine_chunks().to_batches(_BATCH)
        if gathered:
            yield from finish(pa.concat_tables(gathered), columns.key).combine_chunks().to_batches(_BATCH)

    return run


def _decoded(decoder: Decoder, slices: Batches, columns: silver.Columns) -> Iterator[pa.Table]:
    names = list(columns.types)
    for batch in slices:
        for cells in ({name: batch.column(name)[at] for name in batch.schema.names} for at in range(batch.num_rows)):
            given = {name: cells[name].as_py() for name in ("file", "stretch", "number", "window")}
            start, context = cells["start"].as_py(), cells["context"].as_py()
            begun = {
                "transaction_start": cells["transaction_start"].as_py(),
                "committed_us": cells["committed_at"].value,
            }
            for changes in decoder.decode(given["file"], start, context, cells["payload"].as_buffer(), **begun):
                yield from net_rows(changes, Place(**given), names, columns.key)
