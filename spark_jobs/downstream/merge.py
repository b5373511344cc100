"""Silver -> downstream: one MERGE a table, exactly once.

Put here: the order of a merge, and the way that it takes. Not here: what silver has for it (merge_job.py), the rows
(silver_reader.py), the statement (merge_sql.py), or how silver came about (engine/silver_job.py).

Live, the windows after the downstream table's checkpoint are folded per key and merged; a row is taken where its
position is newer than the target's. A table that holds nothing yet is not merged into but appended to.

What statements did to silver's columns is done to the target's first, step by step. Where one emptied the table,
silver's rows before it are left out, and the same MERGE deletes the target's.

Where windows were **replayed** since the silver version that was last merged, the keys of their old and new rows are
folded over all of silver and written where the content differs: a mended decoder takes effect, an unchanged range
changes nothing, and no key goes back, because the fold holds the newest state. The same is done with the keys of rows
that were **loaded**: they count as older than all that the log says behind where the load began.

Where silver was **renewed** (by other rules about its columns, or about which statements empty the table, or because
the table was rebuilt), all of silver is folded and replaces the target, columns and all, in one commit: once silver
is where the target is, so that nobody sees the table go back. The same is done where windows that the target has not
got were folded into one, while no route led to it.

A **part** of a table of several (multi_source.py) is merged as a table by itself, its marks beside each row and in the
key. The columns are the union of all parts', so statements are not carried out on it: where one changed values of rows,
the part is replaced by what silver folds to.

Where row images leave columns out, a silver row may lack some: then the rows of a key are laid over each other
(silver/partial_rows.py), those of all of silver. A key that no row ever held whole has no row downstream; commits count
those.

A **bag** (a table without a key) has as many copies of a row as silver's windows add up to: for each image that the
merge is about the sum over all of silver is taken and set, whatever the target holds. So live and replayed are alike.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from spark_jobs.downstream.merge_job import (
    ADDED,
    Merged,
    MergeJob,
    SilverDelta,
    commit_of,
    range_of,
    require_settled,
    silver_delta,
)
from spark_jobs.downstream.merge_sql import merge_statement
from spark_jobs.downstream.multi_source import MARKS, PartTable
from spark_jobs.downstream.silver_reader import SilverReader, quoted
from spark_jobs.errors import TableStopped, about
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver import table as silver
from spark_jobs.text.sql import literal

MergeStrategy = Callable[[SparkSession, MergeJob, Head, "SilverDelta", Checkpoint], tuple[Head, dict[str, int]]]
"""Brings what silver has to the target, in one commit: the new head, and Delta's counts of rows."""


def merge(spark: SparkSession, work: MergeJob, way: MergeStrategy | None = None) -> Merged | None:
    """Brings a downstream table up to a silver table's pinned head; None where it is there already.

    way: how, where it is not by this part's rows alone. Raises TableStopped, LakeError, LostRace.
    """
    began = time.monotonic()
    with about(str(work)):
        # The pinned head of silver against the target's checkpoint. Nothing is read of either yet.
        assert isinstance(work.target, PartTable)
        head, delta = _prepared(spark, work, work.target)
        range_ = range_of(work, head, delta)
        if range_ is None:
            return None
        # A first or renewed table is written whole, everything else is merged.
        is_first = head.checkpoint is None and work.target.empty()
        session = session_over(start_session(spark), delta.size)
        bring = way or (_appended if is_first else _renewed if delta.is_renewed else _merged)
        # Keys whose rows lack columns are merged by all of silver, which tells how many were never seen whole.
        unseen = _never_whole(session, work)
        landed, counts = bring(session, work, head, delta, commit_of(work, range_, unseen))
    return Merged(
        source=work.source,
        name=work.name,
        target=work.target.path,
        head=landed,
        range=range_,
        inserted=counts["num_inserted_rows"],
        updated=counts["num_updated_rows"],
        deleted=counts["num_deleted_rows"],
        redone=len(delta.redone),
        seconds=time.monotonic() - began,
        unseen=unseen,
        mode=work.mode,
    )


def _is_laid_over(work: MergeJob) -> bool:
    """Whether rows of a key may lack columns, which all of silver tells together."""
    return work.columns.has_partial and not work.columns.is_bag


def _never_whole(spark: SparkSession, work: MergeJob) -> int:
    """How many keys have no row downstream, since no row image of theirs was whole."""
    return SilverReader(spark, work).unseen() if _is_laid_over(work) else 0


def _appended(
    spark: SparkSession, work: MergeJob, head: Head, delta: "SilverDelta", checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Fills a table that holds no row, so that none has to be looked for."""
    counted = Observation()
    rows = _stored(SilverReader(spark, work).pending(None, delta), work)
    landed = work.target.append(rows.observe(counted, F.count(F.lit(1)).alias("rows")), head, checkpoint)
    return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}


def _renewed(
    spark: SparkSession, work: MergeJob, head: Head, _news: "SilverDelta", checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Replaces the table by what all of silver folds to."""
    counted = Observation()
    rows = _stored(SilverReader(spark, work).all_rows(), work)
    rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    landed = work.target.overwrite(rows, head, checkpoint)
    return landed, {"num_inserted_rows": counted.get["rows"], "num_updated_rows": 0, "num_deleted_rows": 0}


def _merged(
    spark: SparkSession, work: MergeJob, head: Head, delta: "SilverDelta", checkpoint: Checkpoint
) -> tuple[Head, dict[str, int]]:
    """Runs the statement; returns the new head and Delta's counts of rows."""
    is_complete = bool(delta.redone) or (delta.is_loaded and head.checkpoint is not None) or _is_laid_over(work)
    floor = work.floor if is_complete or (work.floor and head.position and head.position <= work.floor) else None
    statement = merge_statement(work.target, work.columns, floor, is_complete=is_complete)
    counts: list[Row] = []

    def run(session: SparkSession) -> None:
        silver_rows = SilverReader(session, work)
        rows = silver_rows.touched_rows(head, delta) if is_complete else silver_rows.pending(head.position, delta)
        counts.extend(session.sql(statement, source=rows).collect())

    landed = work.target.statement(spark, head, checkpoint, run)
    return landed, counts[0].asDict()


def _stored(rows: DataFrame, work: MergeJob) -> DataFrame:
    """The rows of a merge that are there, as a table without any takes them."""
    marks = (f"{literal(value)} AS {name}" for name, value in work.target.marks.items())
    is_whole = f" AND {silver.ABSENT} IS NULL" if silver.ABSENT in rows.columns else ""
    return rows.where(f"NOT _gone{is_whole}").selectExpr(*quoted([*work.columns.types, *ADDED]), *marks)


def _prepared(spark: SparkSession, work: MergeJob, target: PartTable) -> tuple[Head, "SilverDelta"]:
    """The target with silver's columns, and what silver has that it has not."""
    require_settled(work)
    return _prepared_part(spark, work, target, target.head())


def _prepared_part(
    spark: SparkSession, work: MergeJob, target: PartTable, head: Head | None
) -> tuple[Head, "SilverDelta"]:
    """The same of a part: the target has all columns that silver has. Raises TableStopped where it cannot have them."""
    collisions = [name for name in work.columns.types if name.lower() in MARKS]
    if collisions:
        raise TableStopped(
            f"its column {collisions[0]} has the name of one that is added where several tables are merged into one; "
            "rename it, or route it to a table of its own"
        )
    if head is None:
        head = target.new(work.columns.types | MARKS | ADDED, silver.properties(target))
        return head, silver_delta(work, head)
    delta = silver_delta(work, head)
    if delta.waits:
        return head, delta
    head = target.fit(spark, head, work.columns.types)
    is_changed = not all(step.startswith(_LEAVES_ROWS) for step in delta.steps)
    return head, replace(delta, is_renewed=delta.is_renewed or (head.checkpoint is not None and is_changed))


_LEAVES_ROWS = ("ADD COLUMN", "ALTER COLUMN", "SET TBLPROPERTIES")
"""Steps behind which all rows are as they were, those of a new column NULL."""
