"""A log of changes -> a downstream table with a row for each: ``mode: append``, and what ``mode: history`` begins with.

Changes are decoded from bronze again, since silver has the net change of a window. What no change in the log says comes
from silver: rows that were loaded, rows that came with a table's name, and statements that emptied the table.

A row is where its position is. So a range that was replayed replaces the rows whose positions lie in it.

Put here: which part of the log a merge takes, its rows, and mode append. Not here: decoding
(pipeline/logged_changes.py), or the versions of a row (history.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark_jobs.downstream.merge_job import MergeJob, SilverDelta, overwrite
from spark_jobs.downstream.silver_reader import quoted
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.log.position import Range
from spark_jobs.runtime.connect import in_session_of
from spark_jobs.silver import table as silver
from spark_jobs.text import sql
from spark_jobs.text.sql import literal

OF_EVENTS = ("_op", "_position", "_committed_at", "_gtid", "_raw")
"""What changes have besides the source's columns."""
_AT = "_named_at"
_PLACE = "_place"


class ChangeReader(Protocol):
    """Every change of the tables of a source (pipeline/logged_changes.py)."""

    def of(self, spark: SparkSession, work: MergeJob, range_: Range | None) -> Callable[[SparkSession], DataFrame]:
        """The changes in silver's windows of a range, or in all: given in a session. Raises TableStopped, LakeError."""

    def time_before(self, session: SparkSession, work: MergeJob, place: tuple[int, ...]) -> object:
        """When the last transaction before a position was committed; None where nothing tells."""

    def statement_gtids(self, work: MergeJob, range_: Range | None) -> dict[tuple[int, int, int], str]:
        """GTIDs of the statements in a range, or in all of bronze, by where they stand."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Which part of the log a merge takes. range: None for all, or for none where is_all is false."""

    range: Range | None
    is_all: bool
    is_restated: bool
    """Whether the target may have rows of it."""
    has_loads: bool

    @classmethod
    def of(cls, work: MergeJob, head: Head, delta: SilverDelta) -> "Extent":
        if head.checkpoint is None or delta.is_renewed:
            return cls(None, is_all=True, is_restated=True, has_loads=True)
        assert head.position
        assert work.pinned.position
        pending = [Range(head.position, work.pinned.position)] if head.position < work.pinned.position else []
        ranges = [*delta.redone, *pending]
        range_ = Range(min(part.start for part in ranges), max(part.stop for part in ranges)) if ranges else None
        is_restated = bool(delta.redone) or delta.is_loaded
        return cls(range_, is_all=False, is_restated=is_restated, has_loads=delta.is_loaded)

    @property
    def of_statements(self) -> str:
        """SQL: the rows of silver that no change in the log says."""
        within = "TRUE" if self.is_all else silver.within(self.range) if self.range else "FALSE"
        loads = f" OR _op = '{silver.Op.LOAD}'" if self.has_loads else ""
        return f"(_op IN ('{silver.Op.TRUNCATE}', '{silver.Op.RENAME}') AND {within}){loads}"

    @property
    def of_target(self) -> str:
        """SQL: the rows of the target that the merge replaces."""
        loaded = f"_op = '{silver.Op.LOAD}'"
        parts = [loaded] if self.has_loads else []
        if self.range:
            start, stop = silver.before_sql(self.range.start), silver.before_sql(self.range.stop)
            parts.append(f"(NOT {loaded} AND _position >= {start} AND _position < {stop})")
        return " OR ".join(parts) or "FALSE"


def events(
    session: SparkSession, work: MergeJob, extent: Extent, changes: ChangeReader, logged: DataFrame
) -> DataFrame:
    """The changes of an extent: silver's columns and OF_EVENTS. logged: those in the log."""
    names = quoted([*work.columns.types, *OF_EVENTS])
    rows = work.origin.read(session, work.pinned.version).where(extent.of_statements)
    if work.columns.is_bag:
        rows = rows.withColumn(silver.COPIES, F.expr(f"explode(sequence(1L, coalesce({silver.COPIES}, 1L)))"))
    rows = rows.withColumn("_gtid", F.expr(_gtid_sql(work, rows, extent, changes)))
    rows = _dated(session, work, rows, changes)
    return logged.select(*names).unionByName(in_session_of(rows.select(*names), logged))


def _gtid_sql(work: MergeJob, rows: DataFrame, extent: Extent, changes: ChangeReader) -> str:
    """SQL: the GTID under which the statement is logged that emptied the table; silver's rows do not say it."""
    is_marker = f"_op = '{silver.Op.TRUNCATE}'"
    places = {tuple(row["_window_start"]) for row in work.target.collect(rows.where(is_marker).select("_window_start"))}
    gtids = changes.statement_gtids(work, None if extent.is_all else extent.range) if places else {}
    cases = [
        f"WHEN {is_marker} AND _window_start = {_place_sql(place)} THEN {literal(gtids[place])}"
        for place in sorted(places & gtids.keys())
    ]
    return f"CAST(CASE {' '.join(cases)} ELSE NULL END AS STRING)" if cases else "CAST(NULL AS STRING)"


def _place_sql(place: tuple[int, int, int]) -> str:
    stretch, number, offset = place
    return f"named_struct('stretch', {stretch}, 'number', {number}L, 'offset', {offset}L)"


def _dated(session: SparkSession, work: MergeJob, rows: DataFrame, changes: ChangeReader) -> DataFrame:
    """With the times at which rows came: with the name of the statement, loaded ones of where the load began."""
    markers = rows.where(f"_op = '{silver.Op.TRUNCATE}'")
    markers = markers.select(F.col("_window_start").alias(_PLACE), F.col("_committed_at").alias(_AT))
    named = F.expr(f"_op = '{silver.Op.RENAME}' AND _window_start = {_PLACE}")
    dated = rows.join(F.broadcast(markers), named, "left").withColumn("_committed_at", F.coalesce(_AT, "_committed_at"))
    loads = rows.where(f"_op = '{silver.Op.LOAD}'").select("_window_start").distinct()
    cases = []
    for row in work.target.collect(loads):
        place = tuple(row["_window_start"])
        at = changes.time_before(session, work, place)
        text = f"TIMESTAMP {literal(str(at))}" if at else "NULL"
        cases.append(f"WHEN _op = '{silver.Op.LOAD}' AND _window_start = {_place_sql(place)} THEN {text}")
    times = f"CASE {' '.join(cases)} ELSE _committed_at END" if cases else "_committed_at"
    return dated.withColumn("_committed_at", F.expr(times))


@dataclass(frozen=True, slots=True)
class AppendWay:
    """How every change comes to a table with mode append."""

    changes: ChangeReader

    def bring(
        self, spark: SparkSession, work: MergeJob, head: Head, delta: SilverDelta, checkpoint: Checkpoint
    ) -> tuple[Head, dict[str, int]]:
        """In one commit; the new head, and counts of rows."""
        extent = Extent.of(work, head, delta)
        logged = logged_in(spark, work, extent, self.changes)(spark)
        counted = Observation()
        rows = events(spark, work, extent, self.changes, logged).select(*quoted(work.stored)).orderBy("_position")
        rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
        if extent.is_all:
            landed = overwrite(spark, work, rows, head, checkpoint)
        elif extent.is_restated:
            landed = work.target.replace(rows, extent.of_target, head, checkpoint)
        else:
            landed = work.target.append(rows, head, checkpoint)
        return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}


def logged_in(
    spark: SparkSession, work: MergeJob, extent: Extent, changes: ChangeReader
) -> Callable[[SparkSession], DataFrame]:
    """The changes in the log of an extent, given in a session. Raises TableStopped, LakeError."""
    if extent.is_all or extent.range:
        return changes.of(spark, work, extent.range)
    types = {name: kind for name, kind in silver.ADDED.items() if name in OF_EVENTS} | {"_gtid": "STRING"}
    return lambda session: session.createDataFrame([], sql.columns(work.columns.types | types))
