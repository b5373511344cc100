"""A table that was read, moved to silver in one commit.

Put here: whether the log has passed the rows, what statements did to the table meanwhile, the commit. Not here: reading
(reading.py), or what follows downstream (engine/downstream_job.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.engine import spark_job
from spark_jobs.errors import TableStopped, about, under
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.ranges import union
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load.anchor import Outrun, settled_position
from spark_jobs.pipeline.initial_load.commit import LOADED, LoadCommit
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.range_files import FileTarget, LandingTask, land_files
from spark_jobs.pipeline.initial_load.reading import ReadTable
from spark_jobs.pipeline.initial_load.row_rules import job_of
from spark_jobs.pipeline.initial_load.staging import StagedTable
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import LoadedRows, SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.planning_context import PlanningContext
from spark_jobs.silver.rename_lineage import RenameLineage
from spark_jobs.silver.replayed_parts import ReplayedPart
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableContents, TableState
from spark_jobs.silver.timeline.build import build
from spark_jobs.silver.timeline.inputs import Beginning
from spark_jobs.silver.window_rows import counted_images, window_rows
from spark_jobs.text.sql import identifier, literal

_TASK_BYTES = 32 << 20
"""Bytes of files that a task writes again, at most, but for a larger one."""


@dataclass(frozen=True, slots=True)
class LandedTable:
    """A table whose rows are in silver, at this head."""

    name: TableName
    progress: LoadCommit
    head: Head


def land(load: LoadContext, read_table: ReadTable, after: Outcome) -> LandedTable:
    """Puts a table's rows into silver in one commit, and removes them from where they waited.

    Raises TableStopped, LakeError, LostRace.
    """
    table = load.lake.load(load.source, read_table.name.schema, read_table.name.table)
    with about(f"{load.source}: {read_table.name}"):
        head = table.head()
        assert head is not None
        stage = StagedTable(
            session_over(load.spark, 0), read_table.name, table, head, read_table.progress, read_table.types
        )
        before = _settled_position(load, stage, after)
        landed = retry_on_conflict(lambda: _landed(load, stage, after, before), wait=CONFLICT_WAIT)
        stage.empty(replace(stage.progress, state=LOADED))
        load.on_progress(read_table.name, stage.progress)
        return LandedTable(read_table.name, stage.progress, landed)


def _settled_position(load: LoadContext, stage: StagedTable, after: Outcome) -> Position:
    """A place before which the log has all that the rows may show. Raises TableStopped where there is none yet."""
    if stage.name in after.stopped:
        reason = under(after.stopped[stage.name], load.source, stage.name)
        raise TableStopped(f"is read, and waits for its log, which stopped: {reason}")
    assert after.position is not None
    try:
        return settled_position(load.source, stage.progress, load.lake.bronze(load.source), after.position)
    except Outrun as error:
        raise stage.given_up(str(error)) from error


def _landed(load: LoadContext, stage: StagedTable, after: Outcome, before: Position) -> Head:
    """before: the place before which the log has all that the rows may show."""
    name, progress = stage.name, stage.progress
    # The head as it is now: another run may have committed since reading began.
    table = load.lake.silver(load.source, name.schema, name.table)
    head, snapshot = table.head(), BronzeSnapshot.of(load.lake, load.source)
    assert after.position is not None
    if head and head.checkpoint and head.checkpoint.kind == CommitKind.ALTERING:
        raise TableStopped(f"{table.path} is between two sets of columns, where a run ended; run again first")
    newest = SilverCommit.of_head(head)
    is_bare = bool(newest and newest.has_unknown_columns)
    state = None if is_bare else newest
    # What statements did since then decides the columns of the rows that are landed.
    until = max([after.position, *([head.position] if head and head.position else [])])
    bronze.require_held(load.source, snapshot.checkpoint, progress.read_from)
    content = _content(load, stage, Range(progress.read_from, until), snapshot, before)
    turns = [step for step in content.steps if isinstance(step, SchemaChange)]
    is_emptied = any(turn.empties for turn in turns)
    # A job of silver like any other, under the rules about the table.
    work = job_of(load, snapshot, progress.definition, Range(progress.since, until), tuple(turns))
    work = replace(work, head=head, size=sum(stage.table.files()))
    work.require_same_shape()
    standing = TableState.of(state) if state else _last(turns, progress.definition)
    if progress.is_snapshot and not is_emptied:
        return _landed_snapshot(load, stage, work, content, standing)
    defined = replace(standing, definition=standing.definition or progress.definition)
    columns = silver.stored_columns(table, head) if head and state else work.columns_of(defined)
    stored = columns.stored
    if not is_bare:
        silver.require_same_columns(table, stored, str(name))
    # The commit's rows are marked as loaded, and it makes the table complete.
    commit = replace(
        work.commit(work.window.extent, replace(standing, is_complete=True), columns, progress.filtered),
        kind=CommitKind.LOAD,
        is_overwrite=is_bare,
        loaded=LoadedRows(progress.rows, progress.read_from, progress.read_to),
    )
    if head is None or is_bare:
        head = table.new(stored, silver.properties(table), head)
    upon = None if turns else driver_commit.snapshot_upon(table.path, head, appends=True)
    tasks = None if upon is None else _tasks(stage, upon)
    if upon is None or tasks is None:
        rows = _rows_for_silver(load, stage, work, columns, [turn for turn in turns if turn.range.start >= before])
        # What the table has since it was emptied, the log has; silver knows of that where it had rows of the table.
        return table.append(rows.where("FALSE") if is_emptied else rows, head, commit)
    return table.append_files(upon, spark_job.run(load.spark, tasks, land_files), head, commit)


def _tasks(stage: StagedTable, upon: Snapshot) -> list[LandingTask] | None:
    """What writes the rows, as they were read, into silver; None where Spark has to read them."""
    waiting = driver_commit.snapshot_upon(stage.table.path, stage.head)
    if waiting is None or any(file.deletion_vector for file in waiting.files):
        return None
    source, target = FileTarget.of(waiting), FileTarget.of(upon)
    groups = spark_job.packed(waiting.files, lambda file: file.size, _TASK_BYTES)
    return [LandingTask(source, files, stage.progress.since, target) for files in groups]


def _landed_snapshot(
    load: LoadContext, stage: StagedTable, work: CompactionJob, content: TableContents, standing: TableState
) -> Head:
    """Replaces what silver has of a table without a key by the rows of a snapshot, and the changes since.

    Windows that the snapshot's position lies in are decoded again from there on. Earlier ones count no more, and none
    of them can be replayed.
    """
    progress, table, head = stage.progress, work.table, work.head
    turns = (step for step in content.steps if isinstance(step, SchemaChange))
    changed = next((turn for turn in turns if _changes(turn, progress.definition)), None)
    if changed:
        reason = f"{changed.statement.statement.verb} at {changed.range.start}" if changed.statement else changed.range
        raise stage.given_up(f"was changed since it was read, by {reason}, and has no key; load it again")
    # The same job with the log that the rows since then are in.
    extent = work.window.extent
    window = replace(work.window, xa=content.xa, cuts=frozenset({extent.start, extent.stop}))
    work = replace(work.with_partial_flag(), window=window, size=content.size)
    standing = replace(
        standing, definition=standing.definition or progress.definition, emptied=None, is_complete=True, retired=()
    )
    columns = work.columns_of(standing)
    commit = replace(
        work.commit(extent, standing, columns, progress.filtered),
        kind=CommitKind.LOAD,
        is_overwrite=head is not None,
        folded_to=progress.since,
        loaded=LoadedRows(progress.rows, progress.read_from, progress.read_to),
    )
    session = session_over(load.spark, sum(stage.table.files()) + content.size)
    parts = [snapshot_rows(stage.table.read(session, stage.head.version), columns, progress.since)]
    parts += [
        window_rows(session, work, work.part(step.range), step.standing).rows
        for step in content.steps
        if isinstance(step, DataRange)
    ]
    rows = union([part.select(*map(identifier, columns.stored)) for part in parts])
    return table.append(rows, table.new(columns.stored, silver.properties(table), head), commit)


def snapshot_rows(rows: DataFrame, columns: silver.Columns, place: Position) -> DataFrame:
    """Rows of a table without a key as silver has them: an image and its copies, older than what the log has there."""
    of_window = {
        "_window": F.lit(0),
        "_position": F.expr(silver.before_sql(place)).cast(silver.CHANGE_PLACE),
        "_committed_at": F.lit(None).cast("TIMESTAMP"),
        silver.COPIES: F.lit(1).cast("BIGINT"),
    }
    images = counted_images(rows.withColumns(of_window), columns)
    cells = {name: identifier(name) for name in images.columns} | {
        "_op": literal(silver.Op.LOAD),
        "_window_start": silver.place_sql(place),
        "_window_stop": silver.place_sql(place),
    }
    return images.selectExpr(*silver.cells_sql(columns.stored, cells))


def _content(
    load: LoadContext, stage: StagedTable, range_: Range, snapshot: BronzeSnapshot, before: Position
) -> TableContents:
    """What the log has of the table since its load began. Ends it where a statement changed it ``before`` a place."""
    # The log from where reading began: a statement in it that changed the table spoils what was read.
    context = PlanningContext.of(load.pipeline, load.lake, snapshot).of_load()
    cuts = {range_.start} if stage.progress.is_snapshot else set()
    slices, scan = scan_effective(snapshot.table, snapshot.version, range_, snapshot.oldest, cuts)
    ancestry = RenameLineage(context)
    inputs = replace(ancestry.inputs(slices), beginning=Beginning(ancestry.created_at, is_needed=True))
    definition = stage.progress.definition
    try:
        content = build(scan, stage.name, range_, TableState(definition), inputs)
    except TableStopped as error:
        raise stage.given_up(f"was changed while it was loaded, or since: {error}; load it again") from error
    turns = [step for step in content.steps if isinstance(step, SchemaChange)]
    early = [turn for turn in turns if turn.range.start < before and _changes(turn, definition)]
    emptying = [turn for turn in turns if turn.empties and not turn.standing.is_complete]
    for turn in [*early, *emptying][:1]:
        reason = f"{turn.statement.statement.verb} at {turn.statement.position}" if turn.statement else str(turn.range)
        raise stage.given_up(f"was changed while it was loaded, by {reason}; load it again")
    return content


def _rows_for_silver(
    load: LoadContext, stage: StagedTable, work: CompactionJob, columns: silver.Columns, later: Sequence[SchemaChange]
) -> DataFrame:
    """The rows with the columns that silver has now, as older than all that the log says from their place on.

    later: the statements that came after all that the rows may show.
    """
    since, standing = stage.progress.since, TableState(stage.progress.definition)
    expressions = ReplayedPart(work.window, standing, tuple(later)).projection(work).sql() | {
        "_op": literal(silver.Op.LOAD),
        "_position": silver.before_sql(since),
        "_window_start": silver.place_sql(since),
        "_window_stop": silver.place_sql(since),
        silver.ABSENT: "NULL",
    }
    session = session_over(load.spark, sum(stage.table.files()))
    rows: DataFrame = stage.table.read(session, stage.head.version)
    return rows.selectExpr(*silver.cells_sql(columns.stored, expressions))


def _changes(turn: SchemaChange, definition: TableDefinition) -> bool:
    """Whether rows read before a statement are not those after it.

    A TRUNCATE is told from them by its position, like any other change of rows, and an index changes none.
    """
    is_truncate = turn.statement is not None and turn.statement.statement.verb.startswith("TRUNCATE")
    return not is_truncate and turn.standing.definition != definition


def _last(turns: Sequence[SchemaChange], definition: TableDefinition) -> TableState:
    """How a table stands that silver has no row of."""
    return turns[-1].standing if turns else TableState(definition)
