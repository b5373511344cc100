"""Order times of a source: commit times of its transactions that compare with those of other sources.

A transaction's order time is the greater of its own commit time and the order time of the one before it in the log. So
it never goes back, however the server's clock was set, and however late the log's own times are: servers that log
whole seconds say when a statement began, not in which order they ended. Nearly all transactions have their own commit
time as order time; the others, which are **late**, stand in a table a source (``clock/<source>``), by where they lie.

The table is written once, forward along bronze, and never again: what an order time is depends on the log alone, not
on which windows or backfills ask for it, and stays known when gc has removed the log.

A commit says how far the log was looked through, and the greatest order time up to there. An idle server moves that on
by its own clock: whatever it logs after that position counts as no earlier.

Put here: finding late transactions. Not here: the order time of rows (engine/merge/order_times.py), or what is merged
by it (engine/merge/shared_merge.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import FormatDescription, read_commits
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.downstream.commit import ClockCommit
from spark_jobs.errors import TableStopped
from spark_jobs.lake import driver_commit, task_files
from spark_jobs.lake.commit import Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.retry import retry_on_conflict
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.runtime.executors import checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {"stretch": "INT", "number": "BIGINT", "start": "BIGINT", "stop": "BIGINT", "order_at": "TIMESTAMP"}
"""A run of transactions of one file, [start, stop), and the order time of all of them."""
_IDLE = timedelta(minutes=1)
"""Seconds that an idle server's clock has to be ahead before a commit says so."""
_LATE_SCHEMA = pa.schema(
    [("stretch", pa.int32()), *((name, pa.int64()) for name in ("number", "start", "stop", "order_at"))]
)
_INSTANT = pa.timestamp("us", "UTC")
_ROWS = _LATE_SCHEMA.set(4, pa.field("order_at", _INSTANT))
_SPAN = "stretch INT, number BIGINT, start BIGINT, stop BIGINT, least BIGINT, greatest BIGINT, rises BOOLEAN"
_SPAN_SCHEMA = pa.schema(
    [
        ("stretch", pa.int32()),
        *((name, pa.int64()) for name in ("number", "start", "stop", "least", "greatest")),
        ("rises", pa.bool_()),
    ]
)
Micros = NDArray[np.int64]
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Clock:
    """A source's order times from ``begin`` to ``position``. reached: the greatest; None where nothing was committed.

    has_late: whether the table may hold any transaction.
    """

    source: str
    table: Table
    version: int
    begin: Position
    position: Position
    reached: datetime | None
    has_late: bool

    @classmethod
    def of(cls, source: str, table: Table, head: Head) -> "Clock":
        commit = ClockCommit.of_head(head)
        assert commit
        reached = None if commit.reached is None else _instant(commit.reached)
        return cls(source, table, head.version, commit.begin, commit.position, reached, commit.has_late)


def clock_of(lake: Lake, source: str) -> Clock | None:
    """A source's order times as far as they are known, without a JVM."""
    table = lake.clock(source)
    head = table.head()
    return Clock.of(source, table, head) if head and head.checkpoint else None


def order_time_at(lake: Lake, source: str, position: Position) -> datetime | None:
    """An order time that the source had reached at a position of its log: nothing after it is older. Without a JVM.

    It is the greatest that a commit says; None where none is left that tells of the log up to there alone.
    """
    table = lake.clock(source)
    commits = (ClockCommit.of(checkpoint) for _, checkpoint in table.since(-1) if checkpoint.position <= position)
    newest = next(commits, None)
    return None if newest is None or newest.reached is None else _instant(newest.reached)


def advance(spark: "SparkSession", lake: Lake, source: str, now: datetime | None = None) -> Clock | None:
    """Look through what bronze has got since; None while bronze is empty.

    now: what the source's clock said before it was asked where its log ends. Raises TableStopped where gc removed what
    was to be looked through, DecodeError, LostRace where other writers keep winning.
    """
    # Another run of the source looks through the same.
    return retry_on_conflict(lambda: _advance(spark, lake, source, now))


def _advance(spark: "SparkSession", lake: Lake, source: str, now: datetime | None) -> Clock | None:
    """Read the commit times of the log since the last commit of the clock; None without a bronze table."""
    snapshot, table = BronzeSnapshot.find(lake, source), lake.clock(source)
    if snapshot is None:
        return None
    # From where the clock stands. Slices that gc removed before they were read are an error: times would be missing.
    head = table.head()
    end, oldest = snapshot.end, snapshot.oldest
    before = ClockCommit.of_head(head) or ClockCommit(oldest, new_batch(), begin=oldest)
    since = before.position
    if since < snapshot.complete_from and since < end:
        raise TableStopped(
            f"{source}: its order times are known up to {since}, and "
            f"{bronze.removal_message(source, Range(since, oldest))}"
        )
    # An idle source moves on by the wall clock, at most once in a while. Without news nothing is committed.
    idle = _micros(now) if now and not _is_soon(now, before.reached) else None
    if head and since >= end and idle is None:
        return Clock.of(source, table, head)
    # Late transactions are stored one by one; for all others the greatest time reached is enough.
    late = LateTransactions(reached=before.reached)
    if since < end:
        late = _looked_through(spark, snapshot, Range(since, end), before.reached)
    reached = max((reached_time for reached_time in (late.reached, idle) if reached_time is not None), default=None)
    commit = ClockCommit(
        max(since, end), new_batch(), begin=before.begin, reached=reached, has_late=before.has_late or late.are_any
    )
    return Clock.of(source, table, late.appended(table, head or table.unwritten_head(COLUMNS, {}), commit))


def _is_soon(now: datetime, reached: int | None) -> bool:
    return reached is not None and now - _instant(reached) < _IDLE


@dataclass(frozen=True, slots=True)
class LateTransactions:
    """Late transactions of a part of bronze, and the order time reached after it.

    slices: those that are late as a whole, a row each. mixed: the slices of which some are late, for ``_late_task``.
    """

    slices: pa.Table = field(default_factory=_LATE_SCHEMA.empty_table)
    mixed: "DataFrame | None" = None
    reached: int | None = None

    @property
    def are_any(self) -> bool:
        """True if there may be any."""
        return bool(len(self.slices)) or self.mixed is not None

    def appended(self, table: Table, head: Head, commit: ClockCommit) -> Head:
        """Commit them; tasks write the rows of mixed slices, which may be many. Raises LostRace."""
        upon = driver_commit.snapshot_upon(table.path, head, appends=True)
        rows = self.slices.set_column(4, "order_at", self.slices.column("order_at").cast(_INSTANT))
        files = driver_commit.commit_of_rows(upon, rows, head)["adds"]
        files += [] if self.mixed is None else task_files.write_in_tasks(self.mixed, _late_task, upon)
        return table.append_files(upon, files, head, commit)


def _looked_through(
    spark: "SparkSession", snapshot: BronzeSnapshot, within: Range, before: int | None
) -> LateTransactions:
    """Look through a part of bronze, in Spark tasks."""
    from pyspark.sql import functions as F

    # Control slices have no transactions.
    slices = bronze.read(spark, snapshot.table, snapshot.version, within).where("kind <> 'control'")
    session = slices.sparkSession
    # The greatest order time before each slice says whether it is wholly in order, wholly late, or mixed.
    spans = _in_order(snapshot.table.collect_arrow(_spans(slices)))
    greatest = spans.column("greatest").to_numpy()
    floor = floors(greatest, before)
    is_late, mixed = late_slices(spans, floor)
    positions = spans.select(["stretch", "number", "start", "stop"]).append_column("order_at", pa.array(floor))
    whole_slices = positions.filter(pa.array(is_late)).cast(_LATE_SCHEMA)
    mixed_slices = None
    # Mixed slices are decoded in tasks, which write their late transactions one by one.
    if mixed.any():
        mixed_positions = positions.filter(pa.array(mixed)).rename_columns(
            ["stretch", "number", "start", "_stop", "_floor"]
        )
        joined = slices.join(F.broadcast(session.createDataFrame(mixed_positions)), ["stretch", "number", "start"])
        mixed_slices = joined.select("stretch", "number", "file", "start", "context", "payload", "_floor")
    reached = max(
        (int(order_time) for order_time in (*greatest[-1:], *floor[-1:]) if order_time > _NEVER), default=before
    )
    return LateTransactions(whole_slices, mixed_slices, reached)


def _spans(slices: "DataFrame") -> "DataFrame":
    """Least and greatest commit time (µs) of each slice, and whether none is less than the one before it.

    A slice of one transaction, or of a part of one, tells its time itself; of several it is the last one's.
    """
    micros = "unix_micros(committed_at)"
    alone = slices.where("transactions <= 1").selectExpr(
        "stretch", "number", "start", "stop", f"{micros} AS least", f"{micros} AS greatest", "true AS rises"
    )
    names = ("stretch", "number", "file", "start", "stop", "context", "payload")
    grouped = slices.where("transactions > 1").select(*names)
    return alone.union(grouped.mapInArrow(checked(_span_task), _SPAN))


def _in_order(spans: pa.Table) -> pa.Table:
    return spans.sort_by([(name, "ascending") for name in ("stretch", "number", "start")])


_NEVER = np.iinfo(np.int64).min


def floors(greatest: Micros, before: int | None) -> Micros:
    """The order time that was reached before each slice. greatest: of each slice, in order."""
    first = _NEVER if before is None else before
    reached: Micros = np.maximum.accumulate(np.concatenate([np.array([first], np.int64), greatest]))
    return reached[:-1]


def late_slices(spans: pa.Table, floor: Micros) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Two masks of ordered slices: those that are late as a whole, and those that may have late transactions."""
    minimum, greatest = (spans.column(name).to_numpy() for name in ("least", "greatest"))
    rises = spans.column("rises").to_numpy(zero_copy_only=False).astype(np.bool_)
    is_late = ~(rises & (minimum >= floor))
    all_late = is_late & (greatest <= floor)
    return all_late, is_late & ~all_late


def late_transactions(committed: Micros, floor: int) -> tuple[NDArray[np.intp], Micros]:
    """Late transactions of some in order, and their order times. floor: what was reached before them."""
    order = np.maximum(np.maximum.accumulate(committed), floor)
    late = np.flatnonzero(order > committed)
    return late, order[late]


def _span_task(slices: Batches) -> Batches:
    for row in _slice_rows(slices):
        times = _transactions(row)[2]
        rises = bool((np.diff(times) >= 0).all())
        position = {name: row[name] for name in ("stretch", "number", "start", "stop")}
        fields = position | {"least": int(times.min()), "greatest": int(times.max()), "rises": rises}
        yield pa.RecordBatch.from_pylist([fields], schema=_SPAN_SCHEMA)


def _late_task(slices: Batches) -> Batches:
    for row in _slice_rows(slices):
        start, stop, times = _transactions(row)
        late, order = late_transactions(times, row["_floor"])
        columns = [start[late], stop[late], order]
        positions = [np.full(len(late), row[name]) for name in ("stretch", "number")]
        arrays = [
            pa.array(cells).cast(field.type) for cells, field in zip([*positions, *columns], _LATE_SCHEMA, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=_LATE_SCHEMA).cast(_ROWS)


def _slice_rows(slices: Batches) -> Iterator[dict[str, Any]]:
    """A slice at a time; its payload stays where it is."""
    for batch in slices:
        for at in range(batch.num_rows):
            cells = {name: batch.column(name)[at] for name in batch.schema.names}
            yield {name: cell.as_buffer() if name == "payload" else cell.as_py() for name, cell in cells.items()}


def _transactions(log_slice: dict[str, Any]) -> tuple[Micros, Micros, Micros]:
    """Start, stop and commit time (µs) of each transaction of a slice. Raises DecodeError."""
    head = log_slice["context"][: int.from_bytes(log_slice["context"][9:13], "little")]
    format_ = FormatDescription.parse(head, f"{log_slice['file']}:{log_slice['start']}: context")
    commits = list(read_commits([memoryview(log_slice["payload"])], log_slice["file"], log_slice["start"], format_))
    start, stop, times = (np.concatenate([getattr(part, name) for part in commits]) for name in _COMMIT_COLUMNS)
    return start, stop, times


_COMMIT_COLUMNS = ("start", "stop", "committed")


def _micros(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _instant(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
