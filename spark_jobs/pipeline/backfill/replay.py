"""Windows of one table decoded again, and replaced in silver where a row differs.

Put here: the rows of the windows by what the log says now, the comparison, the commit. Not here: which windows
(plan.py), or decoding them (silver/window_rows.py).

What decodes to the rows that are there already is not written again. Where rules about columns changed, or which
statements are left out, all of the table is replayed and its rows are replaced, columns and all, in one commit: what a
fresh run would have.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import TableDefinition
from spark_jobs.errors import LakeError, PartialImage, about
from spark_jobs.lake.commit import CommitKind, Design, Head
from spark_jobs.lake.ranges import union
from spark_jobs.log.position import Range
from spark_jobs.pipeline.backfill.request import Difference, ReplayedTable
from spark_jobs.silver import masking
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compact import taking_partial, told_of_partial
from spark_jobs.silver.compaction_job import Compacted, CompactionJob
from spark_jobs.silver.inherited_rows import inherited_rows
from spark_jobs.silver.projection import project_to_latest
from spark_jobs.silver.statement_commits import markers
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from spark_jobs.silver.window_rows import WindowRows, window_rows
from spark_jobs.silver.windows import windows_at
from spark_jobs.text.sql import identifier


def replay(spark: SparkSession, work: CompactionJob) -> ReplayedTable:
    """Decodes the window's ranges again and replaces them where a row differs. Raises LostRace."""
    work = told_of_partial(work)
    try:
        return _replay(spark, work)
    except PartialImage:
        return _replay(spark, taking_partial(spark, work)[0])


def _replay(spark: SparkSession, work: CompactionJob) -> ReplayedTable:
    began = time.monotonic()
    assert work.head is not None
    with about(str(work)):
        columns = silver.stored_columns(work.table, work.head)
        renames = _renames(work)
        ranges = tuple(
            sorted((*work.window.ranges, *(rename.range for rename in renames)), key=lambda range_: range_.start.order)
        )
        full_job = replace(work, window=replace(work.window, ranges=ranges))
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
) -> tuple[Difference, Head | None]:
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
    """How the table stands in the end, with what is known of its beginning since log before the first extraction is."""
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
    """The columns that silver is to have. Raises LakeError where rules changed them, and not all is done again."""
    if not work.is_reshaped:
        return columns
    if not work.is_whole:
        raise LakeError("the rules about its columns changed; do all of its log again, not a part")
    definition = next((step.standing for step in reversed(work.steps) if step.standing.definition), None)
    return work.columns_of(definition) if definition else columns


def _is_emptied_elsewhere(spark: SparkSession, work: CompactionJob) -> bool:
    """Whether other statements empty the table than those that silver has, as far as all of it is done again."""
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
    stored_rows = work.table.read(rows.sparkSession, work.head.version)
    if not stored_rows.where(f"_op = '{silver.Op.LOAD}'").isEmpty():
        raise LakeError(
            f"{work.table.path} has rows that were loaded, which no log tells again; under other rules it cannot be "
            "done again"
        )
    stored = columns.stored
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
    return work.table.renew(Design(stored, {}).of(rows_and_markers), work.head, commit)


def _counted(rows: DataFrame, work: CompactionJob, head: Head) -> Compacted:
    """What was done, by the rows that are kept: what Spark observes of such rows is not told in every plan of them.

    Changes are rows, net: of a bag, copies that came or went.
    """
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
    """The windows' rows, each decoded by the definition of its time and led on to the table's present columns."""
    remaining = set(work.window.ranges)
    starts = [range_.start for range_ in work.window.ranges]
    for at, step in enumerate(work.steps):
        first, last = (bisect_left(starts, end) for end in (step.range.start, step.range.stop))
        ranges = tuple(work.window.ranges[first:last])
        if isinstance(step, SchemaChange) or not ranges:
            continue
        remaining -= {*ranges}
        _require_keyed(work, columns, step.definition, ranges[-1])
        net = window_rows(spark, work, replace(work.window, ranges=ranges), step.standing)
        later = [step for step in work.steps[at:] if isinstance(step, SchemaChange)]
        now = _led_on(work, step.standing, later)
        expressions = {name: identifier(name) for name in net.rows.columns} | now
        yield net, net.rows.selectExpr(*silver.cells_sql(_shape(work, columns).stored, expressions))
    if remaining:
        unknown = min(remaining, key=lambda range_: range_.start.order)
        raise LakeError(f"the definition of rows in {unknown} is not known; begin the range earlier")


def _led_on(work: CompactionJob, standing: TableState, later: Sequence[SchemaChange]) -> dict[str, str]:
    """Rows of a table that stands so as silver has them behind all later statements. Raises TableStopped."""
    columns = work.columns_of(standing)
    projection = project_to_latest(columns.types, later, work.columns_of)
    for turn in later:
        if turn.standing.definition and turn.origins is not None:
            after = work.columns_of(turn.standing)
            masking.origins_seen(work.filters.columns, turn.origins, columns, after)
            masking.fills_seen(work.filters.columns, turn.fills, after)
    return projection


def _require_keyed(work: CompactionJob, columns: silver.Columns, logged: TableDefinition, window: Range) -> None:
    """Raises LakeError where silver has a key for a window's rows, and which is not known."""
    assert work.head is not None
    assert work.head.checkpoint is not None
    emptied = SilverCommit.of(work.head.checkpoint).emptied_at
    if not columns.is_bag and not logged.key and (emptied is None or emptied < window.stop):
        raise LakeError(f"the key of rows in {window} is not known; begin the range earlier")


def _renames(work: CompactionJob) -> list[SchemaChange]:
    """The statement by which the table has its name, where the rows that came with it are to be done again."""
    return [
        step for step in work.steps if isinstance(step, SchemaChange) and step.inherited and step.range == work.replay
    ]


def _inherited_rows(spark: SparkSession, work: CompactionJob, columns: silver.Columns, turn: SchemaChange) -> DataFrame:
    """The rows that came with the name, led on to the table's present columns."""
    assert turn.standing.definition
    later = [step for step in work.steps[work.steps.index(turn) + 1 :] if isinstance(step, SchemaChange)]
    now = project_to_latest(turn.standing.columns.types, later)
    names = columns.stored
    rows = inherited_rows(spark, work, turn)
    return rows.selectExpr(*(f"{now.get(name, identifier(name))} AS {identifier(name)}" for name in names))


def rows_of_windows(ranges: Sequence[Range], repeated: Range | None = None) -> str:
    """SQL: the rows of windows, and those that came with a name: not the row that says that it emptied the table."""
    windows = silver.within_any([range_ for range_ in ranges if range_ != repeated])
    if repeated is None or repeated not in ranges:
        return windows
    return f"({windows}) OR ({silver.within(repeated)} AND _op = '{silver.Op.RENAME}')"


def _all_rows(rows: DataFrame, work: CompactionJob) -> Difference:
    """These rows in the place of all that silver holds."""
    assert work.head is not None
    count = rows.count()
    return Difference(count, count, work.table.read(rows.sparkSession, work.head.version).count())


def _difference(rows: DataFrame, work: CompactionJob, head: Head, columns: silver.Columns) -> Difference:
    """These rows beside those that silver holds already. Maps do not compare; their entries do."""
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
    return Difference(**work.table.collect(counted)[0].asDict())


_SIDE = "_side"
"""Which rows one is of while both are counted: 1 for those that the log gives now, -1 for those that are there."""
