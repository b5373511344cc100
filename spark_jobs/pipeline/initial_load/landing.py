"""Landing of a table that was read: one commit moves it to silver.

Put here: whether the log has passed the rows, what statements did to the table meanwhile, the commit. Not here: reading
(reading.py), or what follows downstream (engine/merge/downstream_job.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.scan import scan_effective
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.delta import features, schema_changes
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.engine.silver import load_job
from spark_jobs.engine.silver.load_job import KeylessLoad
from spark_jobs.errors import PartialImage, TableStopped, about, message_under
from spark_jobs.lake import driver_commit
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.retry import CONFLICT_WAIT, retry_on_conflict
from spark_jobs.lake.table import Table, is_local
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.cascades.landed_rows import note_underived
from spark_jobs.pipeline.cascades.unlogged_changes import SourceUnloggedChanges
from spark_jobs.pipeline.initial_load.anchor import Outrun, position_covering_load
from spark_jobs.pipeline.initial_load.commit import LOADED, LoadCommit
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.pipeline.initial_load.range_files import FileTarget, LandingTask, land_files
from spark_jobs.pipeline.initial_load.reading import ReadTable
from spark_jobs.pipeline.initial_load.row_rules import job_of
from spark_jobs.pipeline.initial_load.staging import StagedTable
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.runtime.spark_session import session_over, slots
from spark_jobs.runtime.tasks_here import TASKS_HERE
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import LoadedRows, SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.planning_context import PlanningContext
from spark_jobs.silver.rename_lineage import RenameLineage
from spark_jobs.silver.replayed_parts import ReplayedPart
from spark_jobs.silver.table_timeline import SchemaChange, TableContents, TableState, schema_changes_in
from spark_jobs.silver.timeline.build import build
from spark_jobs.silver.timeline.inputs import Beginning

_TASK_BYTES = 24 << 20
"""Bytes of files that a task writes again, at most, but for a larger one: a merge reads what they become in a task."""


@dataclass(frozen=True, slots=True)
class LandedTable:
    """A table whose rows are in silver, at this head."""

    name: TableName
    progress: LoadCommit
    head: Head


def land(load: LoadContext, read_table: ReadTable, after: Outcome, gaps: SourceUnloggedChanges) -> LandedTable:
    """Commit a table's loaded rows to silver, and remove them from ``loads/``.

    gaps: those of the source's log, up to where the tables were read.

    Raises TableStopped, LakeError, LostRace.
    """
    table = load.lake.load(load.source, read_table.name.schema, read_table.name.table)
    with about(f"{load.source}: {read_table.name}"):
        head = table.head()
        assert head is not None
        stage = StagedTable(read_table.name, table, head, read_table.progress)
        before = _covering_position(load, stage, after)
        landed = retry_on_conflict(lambda: _landed(load, stage, after, before), wait=CONFLICT_WAIT)
        note_underived(load.pipeline, gaps, read_table.name, stage.progress.read_from)
        stage.empty(replace(stage.progress, state=LOADED))
        load.on_progress(read_table.name, stage.progress)
        return LandedTable(read_table.name, stage.progress, landed)


def _covering_position(load: LoadContext, stage: StagedTable, after: Outcome) -> Position:
    """A position before which the log has all that the rows may show. Raises TableStopped where there is none yet."""
    if stage.name in after.stopped:
        reason = message_under(after.stopped[stage.name], load.source, stage.name)
        raise TableStopped(f"is read, and waits for its log, which stopped: {reason}")
    assert after.position is not None
    try:
        return position_covering_load(load.source, stage.progress, load.lake.bronze(load.source), after.position)
    except Outrun as error:
        raise stage.given_up(str(error)) from error


def _landed(load: LoadContext, stage: StagedTable, after: Outcome, before: Position) -> Head:
    """before: the position before which the log has all that the rows may show."""
    name, progress = stage.name, stage.progress
    # The head as it is now: another run may have committed since reading began.
    table = load.lake.silver(load.source, name.schema, name.table)
    head, snapshot = table.head(), BronzeSnapshot.of(load.lake, load.source)
    loaded = _loaded(progress)
    if head and any(SilverCommit.of(commit).loaded == loaded for _, commit in table.since(-1)):
        return head  # another run was first, or this load before it was killed
    assert after.position is not None
    newest = SilverCommit.of_head(head)
    is_bare = bool(newest and newest.has_unknown_columns)
    state = None if is_bare else newest
    # What statements did since then decides the columns of the rows that are landed.
    until = max([after.position, *([head.position] if head and head.position else [])])
    if progress.read_from < bronze.complete_from(snapshot.checkpoint):
        raise stage.given_up(
            f"was read from {progress.read_from} on, and gc has removed log up to {snapshot.oldest} since; "
            "load it again"
        )
    content = _content(load, stage, Range(progress.read_from, until), snapshot, before)
    changes = schema_changes_in(content.steps)
    is_emptied = any(change.empties for change in changes)
    # A job of silver like any other, under the rules about the table.
    work = job_of(load, snapshot, progress.definition, Range(progress.since, until), tuple(changes))
    work = replace(work, head=head, size=sum(stage.table.file_sizes()))
    work.require_same_shape()
    table_state = TableState.of(state) if state else _last(changes, progress.definition)
    if progress.is_snapshot and not is_emptied:
        return _landed_snapshot(load, stage, work, content, table_state)
    defined = replace(table_state, definition=table_state.definition or progress.definition)
    columns = silver.stored_columns(table, head) if head and state else work.columns_of(defined)
    if not is_bare:
        silver.require_same_columns(table, columns.stored, str(name))
    # The commit's rows are marked as loaded, and it makes the table complete.
    commit = replace(
        work.commit(work.window.extent, replace(table_state, is_complete=True), columns, progress.filtered),
        kind=CommitKind.LOAD,
        is_overwrite=is_bare,
        loaded=loaded,
    )
    waiting = stage.snapshot()
    target = _target(work, columns, waiting, is_replaced=is_bare)
    # What the table has since it was emptied, the log has; silver knows of that where it had rows of the table.
    later = [change for change in changes if change.range.start >= before]
    files = [] if is_emptied else _landed_files(load, stage.progress, work, (waiting, target), later)
    return target.land(files, commit)


@dataclass(frozen=True, slots=True)
class SilverTarget:
    """Silver of a table as loaded rows find it, and as their commit leaves it.

    head, before: none of the table's where it is created. design: with the columns after the commit. is_replaced:
    whether the rows take the place of all others.
    """

    table: Table
    head: Head
    before: Snapshot
    design: Snapshot
    is_replaced: bool

    def land(self, files: Sequence[DataFile], commit: SilverCommit) -> Head:
        """Commits files with the loaded rows. Raises LostRace."""
        changes = driver_commit.commit_of_files(files, self.before.files if self.is_replaced else None)
        if self.design is not self.before:
            changes |= {"metadata": self.design.metadata, "protocol": self.design.protocol}
        return self.table.land(self.before, self.head, commit, **changes)


def _target(work: CompactionJob, columns: silver.Columns, waiting: Snapshot, *, is_replaced: bool) -> SilverTarget:
    """The silver table that loaded rows are written to.

    waiting: the table where they wait, whose columns a new table has. Raises LakeError if another tool gave it a
    feature that is not written.
    """
    table, head = work.table, work.head
    properties = silver.properties(table)
    if head is None:
        new = new_table(table.path, columns.stored, properties)
        if (new.schema.spark_types, new.configuration) == (waiting.schema.spark_types, waiting.configuration):
            new = replace(new, metadata=new.metadata.with_schema(waiting.schema))
        return SilverTarget(table, table.unwritten_head(columns.stored, properties), new, new, is_replaced)
    before = snapshot_of(table.path, head.version)
    assert before is not None
    features.require_written(before, appends=not is_replaced)
    if not is_replaced:
        return SilverTarget(table, head, before, before, is_replaced)
    design = schema_changes.redesigned(before, columns.stored)
    return SilverTarget(table, table.unwritten_head(columns.stored, properties, head), before, design, is_replaced)


def _landed_files(
    load: LoadContext,
    progress: LoadCommit,
    work: CompactionJob,
    tables: tuple[Snapshot, SilverTarget],
    later: Sequence[SchemaChange],
) -> list[DataFile]:
    """Files of silver with the rows as they were read.

    tables: where they wait, and silver. later: the statements that came after all that the rows may show.
    """
    waiting, target = tables
    source, into = FileTarget.of(waiting), FileTarget.of(target.design)
    # Files are silver's own but where a statement changed their rows, or silver was created or got other columns since
    # reading began, so that columns have other names in files.
    is_silvers = not later and (source.schema, source.configuration) == (into.schema, into.configuration)
    is_silvers = is_silvers and not any(file.deletion_vector for file in waiting.files)
    projection = None if is_silvers else _projection(work, progress.definition, later)
    session = TASKS_HERE if is_silvers and is_local(waiting.path) else load.spark  # a link costs less than a job
    groups = spark_job.packed(waiting.files, lambda file: file.size, _TASK_BYTES)
    tasks = [LandingTask(source, files, progress.since, into, projection) for files in groups]
    return spark_job.run(session, tasks, land_files)


def _projection(work: CompactionJob, definition: TableDefinition, later: Sequence[SchemaChange]) -> RowProjection:
    """Projection of the columns that rows were read with to those that later statements left. Raises TableStopped."""
    projection = RowProjection.of(ReplayedPart(work.window, TableState(definition), tuple(later)).projection(work))
    return projection.valued(fills.values_by_expression(projection.expressions()))


def _landed_snapshot(
    load: LoadContext, stage: StagedTable, work: CompactionJob, content: TableContents, state: TableState
) -> Head:
    """Replace what silver has of a table without a key by the rows of a snapshot, and the changes since.

    Windows that the snapshot's position lies in are decoded again from there on. Earlier ones count no more, and none
    of them can be replayed.
    """
    progress = stage.progress
    changes = schema_changes_in(content.steps)
    rekeyed = next((change for change in changes if not _keeps_rows(change)), None)
    if rekeyed:
        raise stage.given_up(
            f"was changed since it was read, by {_statement_of(rekeyed)}, and has no key; load it again"
        )
    # The same job with the log that the rows since then are in.
    extent = work.window.extent
    window = replace(work.window, xa=content.xa, cuts=frozenset({extent.start, extent.stop}))
    work = replace(work.with_partial_flag(), window=window, size=content.size)
    state = replace(
        state, definition=state.definition or progress.definition, emptied=None, is_complete=True, retired=()
    )
    keyless = KeylessLoad(work, content.steps, stage.snapshot(), TableState(progress.definition), progress.since)
    try:
        target, columns, files = _with_log(load, keyless, state)
    except PartialImage:
        # Silver has no row without all columns yet: it gets the column that says what rows lack.
        if work.has_partial:
            raise
        work = replace(work, has_partial=True)
        target, columns, files = _with_log(load, replace(keyless, work=work), state)
    commit = replace(
        work.commit(extent, state, columns, progress.filtered),
        kind=CommitKind.LOAD,
        is_overwrite=work.head is not None,
        folded_to=progress.since,
        loaded=_loaded(progress),
    )
    return target.land(files, commit)


def _with_log(
    load: LoadContext, keyless: KeylessLoad, state: TableState
) -> tuple[SilverTarget, silver.Columns, list[DataFile]]:
    """Target of the rows of a snapshot and the changes since, with which columns, and their files."""
    work = keyless.work
    columns = work.columns_of(state)
    target = _target(work, columns, keyless.waiting, is_replaced=work.head is not None)
    session, capacity = session_over(load.spark, 0), Capacity(slots(load.spark), load.pipeline.spark.task_bytes)
    return target, columns, load_job.write_loaded_rows(session, keyless, columns, target.design, capacity)


def _content(
    load: LoadContext, stage: StagedTable, log_range: Range, snapshot: BronzeSnapshot, before: Position
) -> TableContents:
    """Contents of the table in the log since its load began.

    Ends it where a statement changed it ``before`` a position.
    """
    # The log from where reading began: a statement in it that changed the table spoils what was read.
    context = PlanningContext.of(load.pipeline, load.lake, snapshot).for_load()
    cuts = {log_range.start} if stage.progress.is_snapshot else set()
    slices, scan = scan_effective(snapshot.table, snapshot.version, log_range, snapshot.oldest, cuts)
    ancestry = RenameLineage(context)
    inputs = replace(ancestry.inputs(slices), beginning=Beginning(ancestry.created_at, is_needed=True))
    definition = stage.progress.definition
    try:
        content = build(scan, stage.name, log_range, TableState(definition), inputs)
    except TableStopped as error:
        raise stage.given_up(f"was changed while it was loaded, or since: {error}; load it again") from error
    changes = schema_changes_in(content.steps)
    early = [change for change in changes if change.range.start < before and _changes_rows(change, definition)]
    emptying = [change for change in changes if change.empties and not change.state.is_complete]
    for change in [*early, *emptying][:1]:
        raise stage.given_up(f"was changed while it was loaded, by {_statement_of(change)}; load it again")
    return content


def _changes_rows(change: SchemaChange, definition: TableDefinition) -> bool:
    """True if rows read before a statement are not those after it.

    A TRUNCATE is told from them by its position, like any other change of rows, and an index changes none.
    """
    is_truncate = change.statement is not None and change.statement.statement.verb.startswith("TRUNCATE")
    return not is_truncate and change.state.definition != definition


def _keeps_rows(change: SchemaChange) -> bool:
    """True if a statement leaves a table without a key the copies that it had: it got no key, and no other's rows."""
    definition = change.state.definition
    is_other = change.inherited is not None or change.restart_reason is not None or change.state.retired
    return definition is not None and not definition.key and not is_other


def _statement_of(change: SchemaChange) -> str:
    return (
        f"{change.statement.statement.verb} at {change.statement.position}" if change.statement else str(change.range)
    )


def _loaded(progress: LoadCommit) -> LoadedRows:
    """Mark by which silver's commit tells this load from another."""
    return LoadedRows(progress.rows, progress.read_from, progress.read_to, progress.batch)


def _last(changes: Sequence[SchemaChange], definition: TableDefinition) -> TableState:
    """State of a table that silver has no row of."""
    return changes[-1].state if changes else TableState(definition)
