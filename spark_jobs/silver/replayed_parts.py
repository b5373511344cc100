"""Windows of a table that are decoded again: their definition, and the projection to the present one.

Put here: which windows lie between which statements, and the projection of their rows. Not here: which windows these
are (pipeline/replay_plan.py), decoding them (engine/silver/replay_job.py), or the commit (pipeline/backfill/replay.py).
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableDefinition
from spark_jobs.errors import LakeError
from spark_jobs.log.position import Range
from spark_jobs.silver import masking
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.projection import Projection, projection_of
from spark_jobs.silver.table_timeline import SchemaChange, TableState, schema_changes_in


@dataclass(frozen=True, slots=True)
class ReplayedPart:
    """Windows between two statements that change the table."""

    window: Window
    state: TableState
    later: tuple[SchemaChange, ...]
    """The statements after them."""

    def projection(self, work: CompactionJob) -> Projection:
        """Projection from the columns that the rows have to the present ones. Raises TableStopped."""
        columns = work.columns_of(self.state)
        projection = projection_of(columns.types, self.later, work.columns_of)
        for change in self.later:
            if change.state.definition and change.origins is not None:
                after = work.columns_of(change.state)
                masking.origins_seen(work.filters.columns, change.origins, columns, after)
                masking.fills_seen(work.filters.columns, change.fills, after)
        return projection


def parts_of(work: CompactionJob, columns: silver.Columns) -> Iterator[ReplayedPart]:
    """The windows of a job, by the definition of their time. columns: those that silver has now.

    Raises LakeError where nothing tells how rows of a window are defined, or which key they have.
    """
    remaining = set(work.window.ranges)
    starts = [log_range.start for log_range in work.window.ranges]
    for at, step in enumerate(work.steps):
        first, last = (bisect_left(starts, end) for end in (step.range.start, step.range.stop))
        ranges = tuple(work.window.ranges[first:last])
        if isinstance(step, SchemaChange) or not ranges:
            continue
        remaining -= {*ranges}
        _require_keyed(work, columns, step.definition, ranges[-1])
        later = tuple(schema_changes_in(work.steps[at:]))
        yield ReplayedPart(replace(work.window, ranges=ranges), step.state, later)
    if remaining:
        unknown = min(remaining, key=lambda log_range: log_range.start.order)
        raise LakeError(f"the definition of rows in {unknown} is not known; begin the range earlier")


def _require_keyed(work: CompactionJob, columns: silver.Columns, logged: TableDefinition, window: Range) -> None:
    """Check that the key is known if silver has one for a window's rows. Raises LakeError."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    emptied = SilverCommit.of(work.head.checkpoint).emptied_at
    if not columns.is_keyless and not logged.key and (emptied is None or emptied < window.stop):
        raise LakeError(f"the key of rows in {window} is not known; begin the range earlier")
