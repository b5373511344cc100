"""Reader of a source's log for downstream tables of every change (``mode: append``, ``history``).

Put here: bronze as it is now, and the windows of a table in a part of its log, planned as a replay of silver is.
Not here: decoding, or what becomes of the rows (engine/changes/change_task.py).
"""

from dataclasses import dataclass
from functools import partial

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.engine.changes.column_history import ChangedLog
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.replay_plan import NeedsEarlierLog, plan_table
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.quarantine import with_skips


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """Every change of the tables of a source."""

    pipeline: Pipeline
    source: str

    def log(self) -> ChangedLog:
        """Log that tasks of the engine decode changes from: bronze as it is now. Raises LakeError."""
        lake = lake_of(self.pipeline)
        snapshot = BronzeSnapshot.of(lake, self.source)
        rules = with_skips(self.pipeline.filters, lake, self.source)
        return ChangedLog(snapshot, partial(filters_of, rules, self.source), partial(self._replayed, snapshot))

    def _replayed(self, snapshot: BronzeSnapshot, work: MergeJob, log_range: Range | None) -> CompactionJob | None:
        """Job that replays a range of the log, as ``column_history.Replayed``."""
        assert work.pinned.position
        log_range = Range(snapshot.earliest, work.pinned.position) if log_range is None else log_range
        try:
            return plan_table(self.pipeline, snapshot, work.name, work.pinned, log_range=log_range, has_inherited=False)
        except NeedsEarlierLog as error:
            raise TableStopped(_missing_log(work, error.begin, snapshot)) from error


def _missing_log(work: MergeJob, begin: Position, snapshot: BronzeSnapshot) -> str:
    removed = bronze.removal_message(work.source, Range(begin, snapshot.oldest))
    return (
        f"a table with mode: {work.mode} is made of every change since {begin}, and {removed}; or give the table "
        "another mode (downstream:)"
    )
