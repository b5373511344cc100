"""Windows of one table decoded again, and replaced in silver where a row differs.

Put here: the rows of the windows by what the log says now, the comparison, the commit. Not here: which windows
(pipeline/replay_plan.py), or decoding them (silver/window_rows.py).

What decodes to the rows that are there already is not written again. Where rules about columns changed, or which
statements are left out, all of the table is replayed and its rows are replaced, columns and all, in one commit: what a
fresh run would have.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.errors import LakeError, PartialImage, about
from spark_jobs.lake.commit import CommitKind, Design, Head, new_batch
from spark_jobs.lake.ranges import union
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.request import ReplayedTable, RowDifference
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import Compacted, CompactionJob
from spark_jobs.silver.inherited_rows import inherited_rows
from spark_jobs.silver.partial_rows import ABSENT_TYPE
from spark_jobs.silver.projection import projection_of
from spark_jobs.silver.replayed_parts import parts_of
from spark_jobs.silver.statement_commits import markers
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from spark_jobs.silver.window_rows import WindowRows, window_rows
from spark_jobs.silver.windows import windows_at
from spark_jobs.text.sql import identifier


def replay(spark: SparkSession, work: CompactionJob) -> ReplayedTable:
    """Decodes the window's ranges again and replaces them where a row differs. Raises LostRace."""
    work = work.with_partial_flag()
    try:
        return _replay(spark, work)
    except PartialImage:
        return _replay(spark, add_partial_column(spark, work)[0])


def add_partial_column(spark: SparkSession, work: CompactionJob) -> tuple[CompactionJob, Head | None]:
    """Adds the column of partial row images to silver. Returns the job and the new head. Raises LostRace, PartialImage.

    Rows and position stay. A table gets the column with its first partial image, so that most never have it.
    """
    if work.has_partial:
        raise PartialImage(f"{work.table.path}: takes rows that lack columns, and one was refused")
    head = work.table.head()
    if head is not None and head.checkpoint is not None:
        checkpoint = replace(head.checkpoint, batch=new_batch(), kind=CommitKind.MAINTENANCE)
        head = work.table.alter(spark, head, checkpoint, f"ADD COLUMN ({silver.ABSENT} {ABSENT_TYPE})")
    return replace(work, head=head if work.head else None, has_partial=True), head


def _replay(spark: SparkSession, work: CompactionJob) -> ReplayedTable:
    began = time.monotonic()
    assert work.head is not None
    with about(str(work)):
        # Rows that a rename brought are ranges of their own beside the windows.
        columns = silver.stored_columns(work.table, work.head)
        renames = _renames(work)
        ranges = tuple(
            sorted((*work.window.ranges, *(rename.range for rename in renames)), key=lambda range_: range_.start.order)
        )
        full_job = replace(work, window=replace(work.window, ranges=ranges))
        # Rows as today's columns have them. They are compared with silver's and then written: kept in between.
        parts = list(_parts(spark, work, columns))
        inherited = (_inherited_rows(spark, work, columns, rename) for rename in renames)
        rows = union([*(part for _, part in parts), *inherited]).persist()
        left_out = _left_out(work, [net for net, _ in parts])
        try:
            difference, landed = _put(rows, full_job, columns, left_out)
            compacted = replace(_counted(rows, full_job, landed), left_out=left_out) if landed else None
        finally:
            rows.unpersist()
    seconds = time.monotonic() - began
    return ReplayedTable(work.name, ranges, difference, compacted and replace(compacted, seconds=seconds), seconds)


def _put(
    rows: DataFrame, work: CompactionJob, columns: silver.Columns, left_out: dict[str, int]
) -> tuple[RowDifference, Head | None]:
    """These rows in the place of those that silver holds, where one differs: what differs, and the commit."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    within = Range(work.window.extent.start, work.head.checkpoint.position)
    if work.is_ruled and (work.is_reshaped or _is_emptied_elsewhere(rows.sparkSession, work)):
        difference = _all_rows(rows, work)
        return difference, _renewed(rows, work, _shape(work, columns), left_out)
    difference = _difference(rows, work, work.head, columns)
    if not difference.is_nonempty:
        return difference, None
    commit = work.commit(within, _standing(work), columns, left_out)
    commit = replace(commit, kind=CommitKind.REDO, ranges=work.window.ranges)
    earlier = _emptied_earlier(rows.sparkSession, work)
    condition = rows_of_windows([*work.window.ranges, *(turn.range for turn in earlier)], work.replay)
    rows = rows.unionByName(markers(rows.sparkSession, columns.stored, earlier)) if earlier else rows
    return difference, work.table.replace(rows, condition, work.head, commit)


def _standing(work: CompactionJob) -> TableState:
    """How the table stands at the end, with what is known of its beginning since log before the first extraction is."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    noted, state = TableState.of(SilverCommit.of(work.head.checkpoint)), work.standing
    if state is None:
        return noted
    return replace(noted, emptied=noted.emptied or state.emptied, is_complete=noted.is_complete or state.is_complete)


def _emptied_earlier(spark: SparkSession, work: CompactionJob) -> list[SchemaChange]:
    """The statements before the first extraction that emptied the table, and that silver does not show yet."""
    if work.standing is None:
        return []
    present = _emptied_at(spark, work)
    return [turn for turn in _emptying(work) if turn.range.start.order not in present]


def _left_out(work: CompactionJob, parts: Sequence[WindowRows]) -> dict[str, int]:
    turns = [turn.left_out_by for turn in work.steps if isinstance(turn, SchemaChange) and turn.left_out_by]
    return dict(sum((Counter(net.left_out) for net in parts), Counter(turns)))


def _shape(work: CompactionJob, columns: silver.Columns) -> silver.Columns:
    """The columns that silver is to have. Raises LakeError where rules changed them, and not all is replayed."""
    if not work.is_reshaped:
        return columns
    if not work.is_whole:
        raise LakeError("the rules about its columns changed; replay all of its log, not a part")
    definition = next((step.standing for step in reversed(work.steps) if step.standing.definition), None)
    return work.columns_of(definition) if definition else columns


def _is_emptied_elsewhere(spark: SparkSession, work: CompactionJob) -> bool:
    """Whether other statements empty the table than those that silver has, as far as all of it is replayed."""
    if not work.is_whole:
        return False
    return _emptied_at(spark, work) != {turn.range.start.order for turn in _emptying(work)}


def _emptied_at(spark: SparkSession, work: CompactionJob) -> set[tuple[int, ...]]:
    """Where the statements stand that emptied the table, as silver shows them."""
    assert work.head is not None
    return {start for start, _ in windows_at(spark, work.table, work.head.version, (silver.Op.TRUNCATE,))}


def _emptying(work: CompactionJob) -> list[SchemaChange]:
    return [step for step in work.steps if isinstance(step, SchemaChange) and step.empties]


def _renewed(rows: DataFrame, work: CompactionJob, columns: silver.Columns, filtered: dict[str, int]) -> Head:
    """Replaces all rows, and the columns by those that rules leave. Raises LakeError where rows were loaded."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    # Loaded rows are in no log: overwriting would lose them.
    stored_rows = work.table.read(rows.sparkSession, work.head.version)
    if not stored_rows.where(f"_op = '{silver.Op.LOAD}'").isEmpty():
        raise LakeError(
            f"{work.table.path} has rows that were loaded, which no log has; under other rules it cannot be replayed"
        )
    stored = columns.stored
    # All rows, and a marker for each statement that emptied the table, in one commit at the position where it stands.
    rows_and_markers = rows.unionByName(markers(rows.sparkSession, stored, _emptying(work)))
    standing = work.steps[-1].standing
    within = Range(work.window.extent.start, work.head.checkpoint.position)
    commit = replace(
        work.commit(within, standing, columns),
        kind=CommitKind.REDO,
        filtered=filtered,
        ranges=work.window.ranges,
        is_overwrite=True,
    )
    return work.table.overwrite(Design(stored, {}).of(rows_and_markers), work.head, commit)


def _counted(rows: DataFrame, work: CompactionJob, head: Head) -> Compacted:
    """What was done, by the rows that are kept: what Spark observes of such rows is not told in every plan of them.

    Changes are rows, net: of a bag, copies that came or went.
    """
    # A row of a keyless table counts as many changes as it has copies.
    weight = F.abs(F.col(silver.COPIES)) if silver.COPIES in rows.columns else F.lit(1)
    copies = F.sum(weight).alias("copies")
    newest = F.max(F.unix_micros("_committed_at")).alias("micros")
    groups = rows.groupBy("_op").agg(F.count("*").alias("rows"), copies, newest).collect()
    counts = {row["_op"]: row["rows"] for row in groups}
    micros = max((row["micros"] for row in groups if row["micros"] is not None), default=None)
    return Compacted(
        source=work.source,
        name=work.name,
        range=work.window.extent,
        head=head,
        changes=sum(row["copies"] for row in groups),
        inserts=counts.get(silver.Op.INSERT, 0) + counts.get(silver.Op.RENAME, 0),
        updates=counts.get(silver.Op.UPDATE, 0),
        deletes=counts.get(silver.Op.DELETE, 0),
        committed_at=None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC),
    )


def _parts(spark: SparkSession, work: CompactionJob, columns: silver.Columns) -> Iterator[tuple[WindowRows, DataFrame]]:
    """The windows' rows, each decoded by the definition of its time and projected to the table's present columns."""
    stored = _shape(work, columns).stored
    for part in parts_of(work, columns):
        net = window_rows(spark, work, part.window, part.standing)
        expressions = {name: identifier(name) for name in net.rows.columns} | part.projection(work).sql()
        yield net, net.rows.selectExpr(*silver.cells_sql(stored, expressions))


def _renames(work: CompactionJob) -> list[SchemaChange]:
    """The statement by which the table has its name, where the rows that came with it are to be replayed."""
    return [
        step for step in work.steps if isinstance(step, SchemaChange) and step.inherited and step.range == work.replay
    ]


def _inherited_rows(spark: SparkSession, work: CompactionJob, columns: silver.Columns, turn: SchemaChange) -> DataFrame:
    """The rows that came with the name, projected to the table's present columns."""
    assert turn.standing.definition
    later = [step for step in work.steps[work.steps.index(turn) + 1 :] if isinstance(step, SchemaChange)]
    now = projection_of(turn.standing.columns.types, later).sql()
    names = columns.stored
    rows = inherited_rows(spark, work, turn)
    return rows.selectExpr(*(f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names))


def rows_of_windows(ranges: Sequence[Range], repeated: Range | None = None) -> str:
    """SQL: the rows of windows, and those that came with a name: not the row that says that it emptied the table."""
    windows = silver.within_any([range_ for range_ in ranges if range_ != repeated])
    if repeated is None or repeated not in ranges:
        return windows
    return f"({windows}) OR ({silver.within(repeated)} AND _op = '{silver.Op.RENAME}')"


def _all_rows(rows: DataFrame, work: CompactionJob) -> RowDifference:
    """These rows in the place of all that silver holds."""
    assert work.head is not None
    count = rows.count()
    return RowDifference(count, count, work.table.read(rows.sparkSession, work.head.version).count())


def _difference(rows: DataFrame, work: CompactionJob, head: Head, columns: silver.Columns) -> RowDifference:
    """These rows beside those that silver holds already. Maps do not compare; their entries do."""
    # The same columns on both sides: a row that both have cancels out in the sum.
    stored_rows = work.table.read(rows.sparkSession, head.version).where(
        rows_of_windows(work.window.ranges, work.replay)
    )
    plain = [name for name in columns.stored if name != "_raw"]
    selected = [*(F.col(identifier(name)) for name in plain), F.expr("map_entries(_raw)").alias("_raw")]
    new_side, old_side = (
        rows.select(*selected, F.lit(1).alias(_SIDE)),
        stored_rows.select(*selected, F.lit(-1).alias(_SIDE)),
    )
    both_sides = new_side.union(old_side)
    sides = both_sides.groupBy(*(identifier(name) for name in columns.stored)).agg(
        F.sum(_SIDE).alias("net"), F.sum(F.expr(f"IF({_SIDE} > 0, 1, 0)")).alias("ours")
    )
    counted = sides.selectExpr(
        "coalesce(sum(ours), 0) AS rows",
        "coalesce(sum(greatest(net, 0)), 0) AS new",
        "coalesce(sum(greatest(-net, 0)), 0) AS removed",
    )
    return RowDifference(**work.table.collect(counted)[0].asDict())


_SIDE = "_side"
"""Which rows one is of while both are counted: 1 for those that the log gives now, -1 for those that are there."""
