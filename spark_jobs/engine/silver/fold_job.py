"""Job of folding old windows of a silver table into one: its input, the fold, and what a commit replaces.

Put here: the two jobs of a table. Not here: what tasks do (fold_task.py), or which tables are folded and when
(operations/retention/fold_windows.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.silver import fold_task, replay_job, silver_job
from spark_jobs.engine.silver.fold_task import FoldedFiles, FoldTarget, OldFiles, OldRows
from spark_jobs.engine.silver.replay_task import ReplacedRows
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.positions import PositionKey, bounds_of

_MOST_BUCKETS = 1 << 12


@dataclass(frozen=True, slots=True)
class OldWindows:
    """Old windows of a table, which end at a position at the latest: as ``OldRows``, of all files."""

    count: int
    rows: int
    folded_rows: int
    window: tuple[PositionKey, PositionKey] | None
    """Begin of the first of them, and end of the last one."""
    emptied: PositionKey | None


def old_windows(
    spark: SparkSession, snapshot: Snapshot, oldest: Position, folded_to: Position | None, capacity: Capacity
) -> OldWindows:
    """Windows to fold. folded_to: up to where windows are folded already. Raises LakeError."""
    groups = _packed(_files_before(snapshot, oldest), capacity)
    tasks = [OldFiles(snapshot.path, group, snapshot.schema, oldest, folded_to) for group in groups]
    results = spark_job.run(spark, tasks, fold_task.measured_windows)
    replay_job.require_done(results)
    all_rows = [result for result in results if isinstance(result, OldRows)]
    windows = {window for rows in all_rows for window in rows.windows}
    extent = (min(start for start, _ in windows), max(stop for _, stop in windows)) if windows else None
    emptied = max((rows.emptied for rows in all_rows if rows.emptied), default=None)
    row_count, folded_rows = (sum(getattr(rows, name) for rows in all_rows) for name in ("rows", "folded_rows"))
    return OldWindows(len(windows), row_count, folded_rows, extent, emptied)


def _files_before(snapshot: Snapshot, position: Position) -> list[DataFile]:
    """Files that may have windows which end at a position at the latest."""
    bounds = ((file, bounds_of(file, snapshot.schema, "_window_stop")[0]) for file in snapshot.files)
    return [file for file, lowest in bounds if lowest is None or lowest <= position.order]


def _packed(files: Sequence[DataFile], capacity: Capacity) -> Iterator[tuple[DataFile, ...]]:
    return spark_job.packed(files, lambda file: file.size, capacity.task_bytes / silver_job.UNPACKED)


@dataclass(frozen=True, slots=True)
class FoldedWindows:
    """Result of a fold: the rows that it wrote, and those that they replace."""

    files: tuple[DataFile, ...]
    replaced: tuple[ReplacedRows, ...]

    @property
    def rows(self) -> int:
        return sum(file.num_records or 0 for file in self.files)


def fold(  # noqa: PLR0913 - the table, and what of it
    spark: SparkSession,
    snapshot: Snapshot,
    columns: silver.Columns,
    windows: OldWindows,
    capacity: Capacity,
    *,
    floor: Position,
    emptied: Position | None,
) -> FoldedWindows:
    """Fold windows. floor: where the last of them ends. emptied: the last statement that emptied the table."""
    # All files that may have rows below the floor; the rows go to as many buckets as their size asks for.
    assert windows.window is not None
    files = _files_before(snapshot, floor)
    size = silver_job.UNPACKED * sum(file.size for file in files)
    buckets = max(1, min(-(-size // capacity.task_bytes), _MOST_BUCKETS))
    target = FoldTarget(snapshot.path, snapshot.schema, snapshot.configuration, columns, windows.window)
    tasks = [
        FoldedFiles(snapshot.path, group, snapshot.schema, columns, floor, emptied, buckets, tuple(files))
        for group in _packed(files, capacity)
    ]
    results = spark_job.run(spark, tasks, fold_task.work, fold_task.finish(target), buckets)
    replay_job.require_done(results)
    added = tuple(result for result in results if isinstance(result, DataFile))
    return FoldedWindows(added, tuple(result for result in results if isinstance(result, ReplacedRows)))


def arguments_of_fold(spark: SparkSession, snapshot: Snapshot, windows: FoldedWindows) -> dict[str, Any]:
    """The arguments of the commit of a fold. Raises LakeError."""
    changes = replay_job.arguments_to_remove_rows(spark, snapshot, snapshot.schema, windows.replaced)
    metrics = {"numFiles": len(windows.files), "numOutputRows": windows.rows}
    return changes | {"adds": [*windows.files, *changes["adds"]], "metrics": metrics}
