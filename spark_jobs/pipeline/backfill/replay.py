"""Replay of windows of one table, which are replaced in silver where a row differs.

Put here: whether the windows or all rows are replaced, and the commit. Not here: which windows these are
(pipeline/replay_windows.py), decoding and comparing them (engine/silver/replay_job.py).

What decodes to the rows that are there already is not written again. Where rules about columns changed, or which
statements are left out, all of the table is replayed and its rows are replaced, columns and all, in one commit: what a
fresh run would have.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.silver import replay_job, silver_job
from spark_jobs.engine.silver.replay_job import ReplayedWindows
from spark_jobs.errors import LakeError, PartialImage, about
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.request import ReplayedTable, RowDifference
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import Compacted, CompactionJob
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from spark_jobs.silver.windows import windows_of


def replay(spark: SparkSession, work: CompactionJob, capacity: Capacity) -> ReplayedTable:
    """Decode the window's ranges again and replace them where a row differs. Raises LostRace."""
    began = time.monotonic()
    work = work.with_partial_flag()
    assert work.head is not None
    with about(str(work)):
        columns = silver.stored_columns(work.table, work.head)
        is_renewed = work.is_ruled and (work.is_reshaped or _is_emptied_elsewhere(work))
        columns = _shape(work, columns)
        try:
            replayed = replay_job.decode_windows(spark, work, columns, capacity, is_renewed=is_renewed)
        except PartialImage:
            # The table's first row without all columns: it gets a column that says what rows lack.
            if work.has_partial:
                raise
            work, columns = replace(work, has_partial=True), replace(columns, has_partial=True)
            replayed = replay_job.decode_windows(spark, work, columns, capacity, is_renewed=is_renewed)
        if is_renewed:
            difference, head = _renewed(replayed, columns)
        else:
            difference, head = _replaced(spark, replayed, columns, capacity)
        if head is None:
            replayed.discard()
    seconds = time.monotonic() - began
    compacted = _summary(replayed, head, seconds) if head else None
    return ReplayedTable(work.name, _ranges(replayed), difference, compacted, seconds)


def _ranges(replayed: ReplayedWindows) -> tuple[Range, ...]:
    """Rows that a rename brought are ranges of their own beside the windows."""
    return tuple(sorted((window.range for window in replayed.windows), key=lambda log_range: log_range.start.order))


def _replaced(
    spark: SparkSession, replayed: ReplayedWindows, columns: silver.Columns, capacity: Capacity
) -> tuple[RowDifference, Head | None]:
    """The new rows in the place of those that silver holds, where one differs: what differs, and the commit."""
    work = replayed.work
    comparison = replay_job.compare_with_silver(spark, replayed, capacity)
    difference = RowDifference(comparison.rows, comparison.new, comparison.removed)
    if not difference.is_nonempty:
        return difference, None
    commit = replace(_replay_commit(replayed, _state_at_window(work), columns), ranges=_ranges(replayed))
    changes = replay_job.arguments_to_replace_windows(spark, replayed, comparison)
    changes["adds"] += silver_job.marker_files(replayed.design, _emptied_earlier(work))
    return difference, _landed(replayed, commit, changes, mode="Append")


def _replay_commit(replayed: ReplayedWindows, state: TableState, columns: silver.Columns) -> SilverCommit:
    work = replayed.work
    assert work.head is not None
    assert work.head.checkpoint is not None
    within = Range(_ranges(replayed)[0].start, work.head.checkpoint.position)
    commit = work.commit(within, state, columns, _left_out(replayed))
    return replace(commit, kind=CommitKind.REDO)


def _landed(replayed: ReplayedWindows, commit: SilverCommit, changes: Mapping[str, Any], *, mode: str) -> Head:
    work = replayed.work
    assert work.head is not None
    parameters = {"mode": mode, "partitionBy": "[]"}
    return work.table.land(replayed.snapshot, work.head, commit, operation_parameters=parameters, **changes)


def _state_at_window(work: CompactionJob) -> TableState:
    """State of the table at the end, with what is known of its beginning since log before the first extraction is."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    noted, state = TableState.of(SilverCommit.of(work.head.checkpoint)), work.state
    if state is None:
        return noted
    return replace(noted, emptied=noted.emptied or state.emptied, is_complete=noted.is_complete or state.is_complete)


def _emptied_earlier(work: CompactionJob) -> list[SchemaChange]:
    """The statements before the first extraction that emptied the table, and that silver does not show yet."""
    if work.state is None:
        return []
    present = _window_starts(work, silver.Op.TRUNCATE)
    return [change for change in _emptying(work) if change.range.start.order not in present]


def _left_out(replayed: ReplayedWindows) -> dict[str, int]:
    """Rows that rules left out of the windows, by rule."""
    work = replayed.work
    counts = Counter(work.filters.skipped_in(work.window.ranges))
    counts.update(
        change.left_out_by for change in work.steps if isinstance(change, SchemaChange) and change.left_out_by
    )
    for result in replayed.results:
        counts.update(result.filtered)
    return dict(counts)


def _shape(work: CompactionJob, columns: silver.Columns) -> silver.Columns:
    """The columns that silver is to have. Raises LakeError where rules changed them, and not all is replayed."""
    if not work.is_reshaped:
        return columns
    if not work.is_whole:
        raise LakeError("the rules about its columns changed; replay all of its log, not a part")
    definition = next((step.state for step in reversed(work.steps) if step.state.definition), None)
    return work.columns_of(definition) if definition else columns


def _is_emptied_elsewhere(work: CompactionJob) -> bool:
    """True if other statements empty the table than those that silver has, as far as all of it is replayed."""
    if not work.is_whole:
        return False
    return _window_starts(work, silver.Op.TRUNCATE) != {change.range.start.order for change in _emptying(work)}


def _window_starts(work: CompactionJob, *operations: silver.Op) -> set[tuple[int, ...]]:
    """Starts of the windows of operations, as silver shows them."""
    assert work.head is not None
    snapshot = snapshot_of(work.table.path, work.head.version)
    assert snapshot is not None
    return {start for start, _ in windows_of(snapshot, operations)}


def _emptying(work: CompactionJob) -> list[SchemaChange]:
    return [step for step in work.steps if isinstance(step, SchemaChange) and step.empties]


def _renewed(replayed: ReplayedWindows, columns: silver.Columns) -> tuple[RowDifference, Head | None]:
    """Replace all rows, and the columns by those that rules leave. Raises LakeError where rows are in no log."""
    work = replayed.work
    # Rows that were read from the server are in no log: overwriting would lose them.
    if _window_starts(work, *silver.FROM_SERVER):
        raise LakeError(
            f"{work.table.path} has rows that were loaded or mended, which no log has; under other rules it cannot be "
            "replayed"
        )
    # All rows, and a marker for each statement that emptied the table, in one commit at the position where it stands.
    commit = replace(
        _replay_commit(replayed, work.steps[-1].state, columns), ranges=work.window.ranges, is_overwrite=True
    )
    changes = replay_job.arguments_to_replace_all(replayed)
    changes["adds"] += silver_job.marker_files(replayed.design, _emptying(work))
    present = sum(
        (file.num_records or 0) - (file.deletion_vector.cardinality if file.deletion_vector else 0)
        for file in replayed.snapshot.files
    )
    head = _landed(replayed, commit, changes, mode="Overwrite")
    return RowDifference(replayed.rows, replayed.rows, present), head


def _summary(replayed: ReplayedWindows, head: Head, seconds: float) -> Compacted:
    """Summary, by the rows that were decoded."""
    work, results = replayed.work, replayed.results
    newest = max((result.newest_us for result in results if result.newest_us is not None), default=None)
    return Compacted(
        source=work.source,
        name=work.name,
        range=_extent(_ranges(replayed)),
        head=head,
        changes=sum(result.changes for result in results),
        inserts=sum(result.inserts for result in results),
        updates=sum(result.updates for result in results),
        deletes=sum(result.deletes for result in results),
        committed_at=None if newest is None else datetime.fromtimestamp(newest / 1e6, UTC),
        left_out=_left_out(replayed),
        seconds=seconds,
    )


def _extent(ranges: Sequence[Range]) -> Range:
    return Range(ranges[0].start, ranges[-1].stop)
