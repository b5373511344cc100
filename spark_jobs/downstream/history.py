"""Every change of a table -> the versions of its rows, from when to when each was there: ``mode: history``.

A row is a change: the row after it, and until when that stayed. A change of the key ends the version of the old key and
begins one of the new key. A delete is a row that ends when it begins, and says which row went. Statements that empty
the table end all versions. Rows of a table without a key are versions of an image: each delete ends the oldest one.

So the table has all that its intervals are computed from: live, those of keys that changed and are current; where a
range was replayed or rows were loaded, all.

Put here: the intervals, and the statement. Not here: the changes (change_log.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession, Window
from pyspark.sql import functions as F

from spark_jobs.downstream.change_log import OF_EVENTS, ChangeReader, Extent, events, logged_in
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta, overwrite
from spark_jobs.downstream.silver_reader import among, identities_of, identity_names, quoted
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.runtime.connect import in_session_of
from spark_jobs.silver import table as silver
from spark_jobs.text.sql import with_rows

_ON_THE_WAY = "_identity_of_history_"
_CUTS, _CUT, _NEXT, _END, _ALIVE, _EPOCH, _CAME, _WENT, _EXCESS, _PAIR = (
    f"{_ON_THE_WAY}{name}"
    for name in ("cuts", "cut", "next", "end", "alive", "epoch", "came", "went", "excess", "pair")
)
_MARKER = f"_op = '{silver.Op.TRUNCATE}'"


def versions(changes: DataFrame, columns: silver.Columns) -> DataFrame:
    """Changes with ``_valid_from``, ``_valid_to`` and ``_is_current``, those that are all there are of their keys.

    changes: silver's columns and what they have besides; statements that emptied the table are among them.
    """
    names = identity_names(columns)
    pairs = zip(columns.identity(), names, strict=True)
    rows = changes.withColumns({name: F.expr(cell) for cell, name in pairs})
    # The statements that emptied the table beside each row: they are few, and end what is there.
    place = F.struct(F.col("_position").alias("p"), F.col("_committed_at").alias("at"))
    cuts = changes.where(_MARKER).agg(F.array_sort(F.collect_list(place)).alias(_CUTS))
    rows = rows.crossJoin(F.broadcast(cuts)).withColumns(
        {
            _ALIVE: F.expr(f"_op NOT IN ('{silver.Op.DELETE}', '{silver.Op.TRUNCATE}')"),
            _CUT: F.expr(f"get(filter({_CUTS}, cut -> cut.p > _position), 0)"),
            _EPOCH: F.expr(f"size(filter({_CUTS}, cut -> cut.p <= _position))"),
        }
    )
    # A version ends with the next change of its key or with the next such statement, whichever comes first.
    ended = (_ended_images if columns.is_bag else _ended_keys)(rows, names, place)
    end = F.expr(
        f"CASE WHEN NOT {_ALIVE} THEN named_struct('p', _position, 'at', _committed_at) "
        f"WHEN {_NEXT} IS NULL OR {_CUT}.p < {_NEXT}.p THEN {_CUT} ELSE {_NEXT} END"
    )
    intervals = {
        "_valid_from": F.col("_committed_at"),
        "_valid_to": F.col(f"{_END}.at"),
        "_is_current": F.expr(f"{_END} IS NULL"),
    }
    return ended.withColumn(_END, end).withColumns(intervals)


def _ended_keys(rows: DataFrame, identity: Sequence[str], place: Column) -> DataFrame:
    """With the next change of the same key."""
    window = Window.partitionBy(*identity).orderBy("_position", _ALIVE)
    return rows.withColumn(_NEXT, F.lead(place).over(window))


def _ended_images(rows: DataFrame, identity: Sequence[str], place: Column) -> DataFrame:
    """With the delete of the same image that took it: the nth of those that found one took the nth that came.

    A delete finds none where the table is older than its log.
    """
    window = Window.partitionBy(*identity, _EPOCH).orderBy("_position", _ALIVE)
    window = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    counted = rows.withColumns(
        {_CAME: F.sum(F.expr(f"int({_ALIVE})")).over(window), _WENT: F.sum(F.expr(f"int(NOT {_ALIVE})")).over(window)}
    )
    counted = counted.withColumn(_EXCESS, F.max(F.expr(f"greatest({_WENT} - {_CAME}, 0)")).over(window))
    before = F.lag(_EXCESS, 1, 0).over(Window.partitionBy(*identity, _EPOCH).orderBy("_position", _ALIVE))
    matched = F.when(F.col(_EXCESS) == before, F.col(_WENT) - F.col(_EXCESS))
    paired = counted.withColumn(_PAIR, F.when(F.col(_ALIVE), F.col(_CAME)).otherwise(matched))
    pair = Window.partitionBy(*identity, _EPOCH, _PAIR)
    return paired.withColumn(_NEXT, F.max(F.when(~F.col(_ALIVE), place)).over(pair))


@dataclass(frozen=True, slots=True)
class HistoryWay:
    """How every change comes to a table with mode history."""

    changes: ChangeReader

    def bring(
        self, spark: SparkSession, work: MergeJob, head: Head, delta: SilverDelta, checkpoint: Checkpoint
    ) -> tuple[Head, dict[str, int]]:
        """In one commit; the new head, and counts of rows."""
        extent = Extent.of(work, head, delta)
        logged = logged_in(spark, work, extent, self.changes)
        if extent.is_restated:
            return self._restated(spark, work, head, checkpoint, rows=(extent, logged(spark)))
        # The statement reads the changes several times, and they are decoded once.
        counts: list[Row] = []

        def run(session: SparkSession) -> None:
            rows = events(session, work, extent, self.changes, logged(session)).persist()
            try:
                counts.extend(session.sql(_statement(work), source=_source(session, work, head, rows)).collect())
            finally:
                rows.unpersist()

        landed = work.target.statement(spark, head, checkpoint, run)
        return landed, counts[0].asDict()

    def _restated(
        self, spark: SparkSession, work: MergeJob, head: Head, checkpoint: Checkpoint, *, rows: tuple[Extent, DataFrame]
    ) -> tuple[Head, dict[str, int]]:
        """Replaces all rows. rows: an extent, and the changes in the log of it; the target has the others."""
        extent, logged = rows
        new_rows = changes = events(spark, work, extent, self.changes, logged).persist()
        if not extent.is_all:
            changes = _as_changes(work.target.read(spark, head.version).where(f"NOT ({extent.of_target})"), work)
            changes = changes.unionByName(in_session_of(new_rows, changes))
        counted = Observation()
        try:
            intervals = versions(changes, work.columns).select(*quoted(work.stored))
            intervals = intervals.observe(counted, F.count(F.lit(1)).alias("rows"))
            landed = overwrite(spark, work, intervals, head, checkpoint)
        finally:
            new_rows.unpersist()
        return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}


def _as_changes(rows: DataFrame, work: MergeJob) -> DataFrame:
    """Rows of the target as the changes that they are."""
    with_gtid = rows.withColumn("_gtid", F.lit(None).cast("string"))
    return with_gtid.select(*quoted([*work.columns.types, *OF_EVENTS]))


def _source(session: SparkSession, work: MergeJob, head: Head, rows: DataFrame) -> DataFrame:
    """For each key or image that changed a row that deletes its current versions, and the rows in their place."""
    names = identity_names(work.columns)
    current = work.target.read(session, head.version).where("_is_current")
    is_emptied = work.floor is not None and head.position is not None and work.floor >= head.position
    if not is_emptied:
        touched = in_session_of(identities_of(rows.where(f"NOT ({_MARKER})"), work.columns).distinct(), current)
        pairs = zip(work.columns.identity(), names, strict=True)
        current = among(current.withColumns({name: F.expr(cell) for cell, name in pairs}), touched)
    changes = _as_changes(current, work)
    changes = changes.unionByName(in_session_of(rows, changes))
    deletes = identities_of(changes.where(f"NOT ({_MARKER})"), work.columns).distinct().withColumn("_gone", F.lit(True))
    inserts = versions(changes, work.columns).select(*quoted(work.stored)).withColumn("_gone", F.lit(False))
    return inserts.unionByName(deletes, allowMissingColumns=True)


def _statement(work: MergeJob) -> str:
    names = quoted(work.stored)
    on = work.columns.is_same_row("t.", [f"s.{name}" for name in identity_names(work.columns)])
    clauses = (
        f" s ON t._is_current AND s._gone AND {on} WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({', '.join(names)}) "
        f"VALUES ({', '.join(f's.{name}' for name in names)})"
    )
    return with_rows(f"MERGE INTO {work.target.sql} t USING ", clauses)
