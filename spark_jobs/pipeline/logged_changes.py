"""Every change of a table in a range of its log, decoded from bronze again, for downstream tables made of changes.

Put here: planning the range, and the rows of its windows with silver's present columns. Not here: decoding
(silver/window_rows.py), or what becomes of the rows (downstream/change_log.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import Pipeline
from spark_jobs.config.modes import Mode
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.engine.change_job import ChangedLog
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.ranges import union
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.replay_plan import NeedsEarlierLog, plan_table
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.decode_task import DECODED, OF_CHANGES
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.quarantine import with_skips
from spark_jobs.silver.replayed_parts import parts_of
from spark_jobs.silver.window_rows import change_rows
from spark_jobs.text import sql
from spark_jobs.text.sql import identifier

_COUNTED = ("_changes", "_micros")
_OF_CHANGES = {name: kind for name, kind in (OF_CHANGES | DECODED).items() if name not in _COUNTED}


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """Every change of the tables of a source."""

    pipeline: Pipeline
    source: str

    def log(self) -> ChangedLog:
        """What tasks of the engine decode changes from: bronze as it is now. Raises LakeError."""
        lake = lake_of(self.pipeline)
        rules = with_skips(self.pipeline.filters, lake, self.source)
        return ChangedLog(BronzeSnapshot.of(lake, self.source), partial(filters_of, rules, self.source))

    def of(self, spark: SparkSession, work: MergeJob, range_: Range | None) -> Callable[[SparkSession], DataFrame]:
        """The changes that silver's windows in a range come of; all without one.

        What is returned gives them in a session: rows with silver's columns, ``_op``, ``_position``, ``_committed_at``,
        ``_gtid`` and ``_raw``. Raises TableStopped where bronze lacks log; LakeError.
        """
        snapshot = BronzeSnapshot.of(lake_of(self.pipeline), self.source)
        assert work.pinned.position
        range_ = range_ or Range(snapshot.earliest, work.pinned.position)
        try:
            job = plan_table(spark, self.pipeline, snapshot, work.name, work.pinned, range_=range_, has_inherited=False)
        except NeedsEarlierLog as error:
            raise TableStopped(_missing(work, error.begin, snapshot)) from error
        return lambda session: _rows(session, work, job)

    def time_before(self, session: SparkSession, work: MergeJob, place: tuple[int, ...]) -> object:
        """When the last transaction before a position was committed; None where bronze has none."""
        snapshot = BronzeSnapshot.of(lake_of(self.pipeline), self.source)
        slices = bronze.read_all(session, snapshot.table, snapshot.version)
        stretch, number, offset = place
        before = f"struct(stretch, number, start) < struct({stretch}, {number}L, {offset}L)"
        times = slices.where(before).agg(F.max("committed_at").alias("at"))
        return work.target.collect(times)[0]["at"]

    def statement_gtids(self, work: MergeJob, range_: Range | None) -> dict[tuple[int, int, int], str]:
        """GTIDs of the statements in a range, or in all of bronze, by where they stand. Without a JVM."""
        snapshot = BronzeSnapshot.of(lake_of(self.pipeline), self.source)
        assert work.pinned.position
        return bronze.statement_gtids(snapshot, range_ or Range(snapshot.earliest, work.pinned.position))


def _missing(work: MergeJob, begin: Position, snapshot: BronzeSnapshot) -> str:
    removed = bronze.removal_message(work.source, Range(begin, snapshot.oldest))
    return (
        f"a table with mode: {work.mode} is made of every change since {begin}, and {removed}; or give the table "
        "another mode (downstream:)"
    )


def _rows(session: SparkSession, work: MergeJob, job: CompactionJob | None) -> DataFrame:
    columns = work.columns
    types = columns.types | _OF_CHANGES
    if job is None:
        return session.createDataFrame([], sql.columns(types))
    frames = []
    for part in parts_of(job, columns):
        rows = change_rows(session, job, part.window, part.standing, splits=work.mode is Mode.HISTORY)
        expressions = {name: identifier(name) for name in rows.columns} | part.projection(job).sql()
        frames.append(rows.selectExpr(*silver.cells_sql(types, expressions)))
    return union(frames)
