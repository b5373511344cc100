"""Silver -> a downstream table in which deleted rows stay: ``mode: soft_delete``.

A row has the values that its key had last, and says whether it was deleted, and when. TRUNCATE, and DROP with
``on_drop: drop``, delete the rows that are there, as deleting them one by one would. A key that is inserted again
counts as deleted no more.

Put here: the state of keys with deletes, and the statement. Not here: what is merged and when (merge.py), or the same
in tasks of the engine (engine/downstream_task.py).
"""

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.downstream.merge import merge
from spark_jobs.downstream.merge_job import Merged, MergeJob, SilverDelta, overwrite
from spark_jobs.downstream.modes import require_supported
from spark_jobs.downstream.silver_reader import (
    SilverReader,
    among,
    identity_names,
    newest,
    quoted,
    with_gone,
    with_lacking,
)
from spark_jobs.errors import TableStopped, about
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.silver import table as silver
from spark_jobs.text.sql import identifier, with_rows

_LACKS = "_lacks"
"""Of a touched key on the way: whether silver has no row of it."""
_CUTS = "_cuts"


def merge_soft_delete(spark: SparkSession, work: MergeJob) -> Merged | None:
    """As ``merge`` does, for a table in which deleted rows stay. Raises TableStopped, LakeError, LostRace."""
    with about(str(work)):
        require_supported(work.columns, work.mode)
    return merge(spark, work, _bring)


def _require_unfolded(work: MergeJob) -> None:
    """Raises TableStopped where silver has forgotten which rows were deleted."""
    floor = silver.folded(work.pinned)
    if floor:
        raise TableStopped(
            f"silver's windows before {floor} are folded into one, without the rows that were deleted (mode: "
            f"{work.mode}); bring the log from before back (stratalog extract --source {work.source} --archive DIR) "
            f"and rebuild it (stratalog reset --source {work.source} --table {work.name}), or leave the table a mirror"
        )


def is_rebuilt(work: MergeJob, head: Head, delta: SilverDelta) -> bool:
    """Whether all of silver is folded: it is new or replaced, or a statement emptied it since, which is about all."""
    is_restated = bool(delta.redone) or delta.is_loaded
    is_emptied = work.floor is not None and (head.position is None or work.floor >= head.position)
    return head.checkpoint is None or delta.is_renewed or is_emptied or (is_restated and bool(delta.steps))


def _bring(
    spark: SparkSession, work: MergeJob, head: Head, delta: SilverDelta, checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Brings what silver has to the target, in one commit; the new head, and counts of rows."""
    # All keys, from all of silver.
    if is_rebuilt(work, head, delta):
        _require_unfolded(work)
        counted = Observation()
        rows = _marked(_states(SilverReader(spark, work))).select(*quoted(work.stored))
        rows = rows.observe(counted, F.count_if(~F.col("_deleted")).alias("rows"))
        landed = overwrite(spark, work, rows, head, checkpoint)
        return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}
    # Those of new windows by what these have, those of replayed windows and loaded rows by all of silver.
    is_restated = bool(delta.redone) or delta.is_loaded
    counts: list[Row] = []

    def run(session: SparkSession) -> None:
        reader = SilverReader(session, work)
        if is_restated:
            touched = reader.touched(head, delta)
            rows = with_lacking(_states(reader, touched), touched).withColumn(_LACKS, F.expr("_gone IS NULL"))
        else:
            rows = reader.pending(head.position, delta).withColumn(_LACKS, F.lit(False))
        counts.extend(session.sql(_statement(work, is_restated=is_restated), source=_marked(rows)).collect())

    landed = work.target.statement(spark, head, checkpoint, run)
    return landed, counts[0].asDict()


def _states(reader: SilverReader, touched: DataFrame | None = None) -> DataFrame:
    """The newest row of each key, or of each touched one, and whether it is gone: by itself, or by a statement."""
    rows = with_gone(reader.rows("TRUE"), reader.columns)
    states = newest(rows if touched is None else among(rows, touched), reader.columns)
    return states if reader.work.floor is None else _cut(states, reader)


def _cut(states: DataFrame, reader: SilverReader) -> DataFrame:
    """With a row that stands before a statement that emptied the table as one that this deleted."""
    work = reader.work
    markers = work.origin.read(reader.session, work.pinned.version).where(f"_op = '{silver.Op.TRUNCATE}'")
    cuts = F.array_sort(F.collect_list(F.struct(F.col("_position").alias("p"), F.col("_committed_at").alias("at"))))
    crossed = states.crossJoin(F.broadcast(markers.agg(cuts.alias(_CUTS))))
    first = f"IF(_gone, NULL, get(filter({_CUTS}, cut -> cut.p > _position), 0))"
    crossed = crossed.withColumn(_CUTS, F.expr(first))
    cells = {"_gone": f"_gone OR {_CUTS} IS NOT NULL"}
    cells |= {"_position": f"coalesce({_CUTS}.p, _position)", "_committed_at": f"coalesce({_CUTS}.at, _committed_at)"}
    return crossed.withColumns({name: F.expr(sql) for name, sql in cells.items()}).drop(_CUTS)


def _marked(rows: DataFrame) -> DataFrame:
    return rows.withColumns({"_deleted": F.col("_gone"), "_deleted_at": F.expr("IF(_gone, _committed_at, NULL)")})


def _statement(work: MergeJob, *, is_restated: bool) -> str:
    """is_restated: what differs is written, and keys without a row in silver go; else what is newer is written."""
    names = quoted(work.stored)
    on = work.columns.is_same_row("t.", [f"s.{name}" for name in identity_names(work.columns)])
    plain = [name for name in work.stored if name not in ("_raw", *work.columns.key)]
    equalities = [f"t.{identifier(name)} <=> s.{identifier(name)}" for name in plain]
    equalities.append("map_entries(t._raw) <=> map_entries(s._raw)")
    changed = f"NOT ({' AND '.join(equalities)})" if is_restated else "s._position > t._position"
    clauses = (
        f" s ON {on} WHEN MATCHED AND s.{_LACKS} THEN DELETE "
        f"WHEN MATCHED AND {changed} THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)} "
        f"WHEN NOT MATCHED AND NOT s.{_LACKS} THEN INSERT ({', '.join(names)}) "
        f"VALUES ({', '.join(f's.{name}' for name in names)})"
    )
    return with_rows(f"MERGE INTO {work.target.sql} t USING ", clauses)
