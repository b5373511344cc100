"""Landing of slices: tasks write them as data files of bronze, which extract.py commits.

Put here: writing and counting slices. Not here: which parts of the log are read (extract.py), or Delta's log (delta/).
"""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import reduce
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.runtime.engine_errors import translated
from spark_jobs.runtime.executors import checked
from spark_jobs.runtime.tasks_here import is_here, task_errors
from spark_jobs.storage.store_access import with_registered_stores

_GROUP_ROWS = 32
"""Slices of a row group at most; until it ends, they are in memory."""
_GROUP_BYTES = 32 << 20
_UNBOUNDED = ("maps", "context", "payload")
"""Columns without bounds of their pages: they would be kept as they are, three slices for one, and nobody asks."""
Batches = Iterator[pa.RecordBatch]
_RESULT = pa.schema([("value", pa.binary())])


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceCounts:
    """Counts of slices, and of the transactions and events in them."""

    slices: int = 0
    transactions: int = 0
    events: int = 0
    ignored: int = 0
    redacted_events: int = 0
    redacted_bytes: int = 0
    """Bytes of the log that are not the server's own, for redacted events."""

    def counts(self) -> dict[str, int]:
        """The counts by name."""
        return {item.name: getattr(self, item.name) for item in fields(SliceCounts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(SliceCounts):
    """Counts of slices, their newest commit and their last GTID."""

    committed_at: int | None = None
    """The newest transaction's, in microseconds."""
    last_gtid: tuple[int, int, str] | None = None
    """File number, offset and GTID of the last slice that has one; heads and ROTATEs have none."""

    @classmethod
    def of(cls, slices: pa.RecordBatch) -> "Totals":
        """The totals of a batch of slices: counts, newest commit time (µs), last GTID, and redacted bytes."""

        def total(column: pa.Array) -> int:
            return int(pc.sum(column).as_py() or 0)

        # Slices of a task come in no order of the log; the last GTID is that of the last position.
        with_gtid = slices.select(["number", "start", "gtid"]).filter(pc.is_valid(slices.column("gtid")))
        positions = sorted(zip(*(column.to_pylist() for column in with_gtid.columns), strict=True))
        redacted = slices.column("redacted") if "redacted" in slices.schema.names else None
        return cls(
            slices=slices.num_rows,
            transactions=total(slices.column("transactions")),
            events=total(slices.column("events")),
            ignored=total(slices.column("ignored")),
            committed_at=pc.max(slices.column("committed_at").cast(pa.int64())).as_py(),
            last_gtid=positions[-1] if positions else None,
            redacted_events=0 if redacted is None else total(pc.struct_field(redacted, "events")),
            redacted_bytes=0 if redacted is None else total(pc.struct_field(redacted, "bytes")),
        )

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            **{name: count + getattr(other, name) for name, count in self.counts().items()},
            committed_at=max(
                (time for time in (self.committed_at, other.committed_at) if time is not None), default=None
            ),
            last_gtid=max((last for last in (self.last_gtid, other.last_gtid) if last is not None), default=None),
        )


@dataclass(frozen=True, slots=True)
class Landed:
    """The files of tasks, which no commit names yet, and what was counted of their slices."""

    files: tuple[DataFile, ...]
    totals: Totals


def land_slices(
    spark: SparkSession, snapshot: Snapshot, count: int, tasks: int, slicing: Callable[[Batches], Batches]
) -> Landed:
    """Write what a task makes of the ids of parts below a count. Raises what a task raised, LakeError.

    spark: the session, or TASKS_HERE.
    """
    writing = _writing(snapshot.path, snapshot.schema, dict(snapshot.configuration), slicing)
    if is_here(spark):
        with task_errors(spark, snapshot.path):
            results = pa.Table.from_batches(writing(iter([_ids(count)])), _RESULT)
    else:
        with translated(snapshot.path):
            ids = spark.range(0, count, 1, tasks)
            results = ids.mapInArrow(checked(with_registered_stores(writing)), "value BINARY").toArrow()
    landed: list[Landed] = [pickle.loads(value) for value in results.column("value").to_pylist()]  # noqa: S301 - our own
    files = tuple(file for part in landed for file in part.files)
    return Landed(files, reduce(Totals.__add__, (part.totals for part in landed), Totals()))


def _ids(count: int) -> pa.RecordBatch:
    """The rows of ``spark.range(count)``."""
    return pa.record_batch([pa.array(range(count), pa.int64())], ["id"])


def _writing(
    path: str, schema: TableSchema, configuration: dict[str, str], slicing: Callable[[Batches], Batches]
) -> Callable[[Batches], Batches]:
    """A mapInArrow function from ids of parts to one data file, and its totals."""

    def run(ids: Batches) -> Batches:
        totals = Totals()

        def counted() -> Batches:
            nonlocal totals
            for slices in slicing(ids):
                totals += Totals.of(slices)
                yield slices

        # No slice, no file: the first group decides whether one is opened.
        groups = row_groups(counted())
        files = [
            data_files.write_parts(path, chain([first], groups), schema, configuration, **layout_of(schema))
            for first in islice(groups, 1)
        ]
        value = pickle.dumps(Landed(tuple(files), totals))
        yield pa.record_batch([pa.array([value], pa.binary())], _RESULT)

    return run


def layout_of(schema: TableSchema) -> data_files.FileLayout:
    """Layout of a data file of bronze."""
    return {"page_statistics": [name for name in schema.names if name not in _UNBOUNDED], "compression": "zstd"}


def row_groups(slices: Batches) -> Iterator[pa.Table]:
    """The slices in tables that are a row group each."""
    waiting: list[pa.RecordBatch] = []
    for batch in slices:
        for at in range(0, batch.num_rows, _GROUP_ROWS):
            piece = batch.slice(at, _GROUP_ROWS)
            full = sum(rows.num_rows for rows in waiting) + piece.num_rows > _GROUP_ROWS
            if waiting and (full or sum(rows.nbytes for rows in waiting) > _GROUP_BYTES):
                yield pa.Table.from_batches(waiting)
                waiting = []
            waiting.append(piece)
    if waiting:
        yield pa.Table.from_batches(waiting)
