"""Windows of a merge of every change, and the target's columns through them.

Put here: windows by silver's commits, and by the timeline of the log where commits do not tell them; what statements
between them did to the columns. Not here: which part of the log a merge takes (change_extent.py), or its tasks
(change_job.py).

Silver's commits say what is new: each is a window with the definition of its rows, or a statement with what it did to
the columns. Windows that are decoded again, and those of commits that are gone, are planned from the log as a replay of
silver is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.bronze.xa import read_effective
from spark_jobs.config.filters import TableFilters
from spark_jobs.delta import schema_changes
from spark_jobs.delta.schema import PHYSICAL_NAME, TableSchema
from spark_jobs.delta.snapshot import Snapshot, new_table
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import ADDED, MergeJob, SilverDelta
from spark_jobs.downstream.modes import MODE_COLUMNS
from spark_jobs.engine.changes.change_extent import Extent
from spark_jobs.engine.changes.change_units import ChangeWindow
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange, change_of
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.log.position import Range
from spark_jobs.silver import masking
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.replayed_parts import parts_of
from spark_jobs.silver.retired_columns import types_of
from spark_jobs.silver.row_filters import ChangeFilters
from spark_jobs.silver.statement_commits import reshaping
from spark_jobs.silver.table_timeline import SchemaChange

Replayed = Callable[[MergeJob, Range | None], CompactionJob | None]
"""The windows of a part of a table's log, or of all of it, by the log itself; None where it has no row there.

Raises TableStopped where bronze lacks log of it.
"""


@dataclass(frozen=True, slots=True)
class ChangedLog:
    """Inputs of decoding changes: bronze at one version, and the rules about tables."""

    snapshot: BronzeSnapshot
    filters: Callable[[TableName], TableFilters]
    """Raises TableStopped."""
    replayed: Replayed

    def index(self, windows: Sequence[Range]) -> SliceIndex:
        """The slices that take effect in windows, or between them. Raises LakeError, DecodeError."""
        extent = Range(min(window.start for window in windows), max(window.stop for window in windows))
        cuts = {position for window in windows for position in (window.start, window.stop)}
        snapshot = self.snapshot
        return read_effective(snapshot.table, snapshot.version, extent, snapshot.oldest, cuts)


@dataclass(slots=True)
class ColumnHistory:
    """A target's columns through windows and statements: where it begins, what each window has, how it is after."""

    begin: Snapshot
    design: Snapshot
    windows: tuple[ChangeWindow, ...] = ()
    fills: tuple[ColumnFill, ...] = ()
    exact: tuple[ExactTextChange, ...] = ()
    _before: list[tuple[Snapshot, int, int]] = field(default_factory=list)
    """Design of each window, and how many fills and changes of exact texts come before it."""

    def add_window(
        self, definition: TableDefinition, log_range: Range, rules: TableFilters, known_columns: Iterable[str]
    ) -> None:
        """Rows of a definition. known_columns: names, in small letters, of the columns that the table had so far."""
        state, last = (self.design, len(self.fills), len(self.exact)), self.windows[-1] if self.windows else None
        if last and last.definition == definition and self._before[-1] == state:
            self.windows = (*self.windows[:-1], replace(last, ranges=(*last.ranges, log_range)))
            return
        window = ChangeWindow(
            definition=definition,
            ranges=(log_range,),
            schema=self.design.schema,
            masks=masks_of(definition, rules.columns) or None,
            filters=ChangeFilters.of(rules, definition, frozenset(known_columns)) or None,
        )
        self.windows = (*self.windows, window)
        self._before.append(state)

    def add_step(self, step: str) -> None:
        """One change of the columns. Raises LakeError."""
        change = change_of(step)
        if change:
            # What a decoded row lacks follows its columns' physical names.
            self.exact = self.exact if change.absent else (*self.exact, change)
            return
        plain, filled = fills.split([step])
        self.design = schema_changes.apply(self.design, plain) if plain else self.design
        self.fills += fills.fills_of(self.design, filled)

    def add_later_changes(self) -> "ColumnHistory":
        """History with what later statements do to each window's rows, by the names that columns have at the end."""
        names = {column.physical_name: column for column in self.design.schema.columns}
        now = [names.get(fill.column.physical_name) for fill in self.fills]
        all_fills = [
            replace(fill, column=column) if column else None for fill, column in zip(self.fills, now, strict=True)
        ]
        self.windows = tuple(
            replace(window, fills=tuple(filter(None, all_fills[first_fill:])), exact=self.exact[first_exact:])
            for window, (_, first_fill, first_exact) in zip(self.windows, self._before, strict=True)
        )
        self.fills = tuple(filter(None, all_fills))
        return self


def column_history_of(
    work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, extent: Extent, log: ChangedLog
) -> ColumnHistory:
    """The windows of an extent, and the target's columns. Raises TableStopped, LakeError, LostRace."""
    head, snapshot = upon
    # Windows that were folded into one are refused where the log is planned: nothing tells them apart any more.
    is_untold = delta.is_renewed or (extent.is_all and silver.fold_floor(work.pinned) is not None)
    history = None if is_untold else _by_commits(work, upon, log.filters(work.name))
    is_new = not delta.redone and not extent.begins_before(head.position)
    if history and is_new and not _is_older_needed(history, head, log.snapshot):
        silver.require_equal_columns(work.target.path, history.design.schema.spark_types, work.stored, str(work.name))
        return history
    # What the target's own rows become is as before; the windows are the log's.
    if history is None:
        design = _design(work, upon, delta)
        history = ColumnHistory(design if head.design else snapshot, design)
    silver.require_equal_columns(work.target.path, history.design.schema.spark_types, work.stored, str(work.name))
    job = log.replayed(work, extent.hull) if extent.is_all or extent.ranges else None
    history.windows = _by_log(work, job, extent, history.design.schema) if job else ()
    return history


def _design(work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta) -> Snapshot:
    """The target after a merge of which silver's commits do not tell what statements did to the columns."""
    head, snapshot = upon
    if head.design:
        return new_table(work.target.path, work.stored, head.design.properties)
    if delta.is_renewed and snapshot.schema.spark_types != work.stored:
        return schema_changes.redesigned(snapshot, work.stored)
    return snapshot


def _is_older_needed(history: ColumnHistory, head: Head, bronze: BronzeSnapshot) -> bool:
    """True if the windows of commits are not all that bronze has, or had, of the table. Raises LostRace."""
    if not history.windows:
        return False
    start, stop = history.windows[0].ranges[0].start, history.windows[-1].ranges[-1].stop
    bronze.require_log(stop)
    has_older = head.design is not None and bronze.oldest < bronze.begin
    return start < bronze.complete_from or has_older


def _by_commits(work: MergeJob, upon: tuple[Head, Snapshot], rules: TableFilters) -> ColumnHistory | None:
    """Rows that the target lacks by silver's commits; None where they do not tell it. Raises LakeError."""
    head, snapshot = upon
    commits = _commits(work, head)
    if commits is None or any(commit.kind == CommitKind.LIVE and not commit.definition for commit in commits):
        return None
    if head.design and commits:
        first = next((commit for commit in commits if commit.kind in (CommitKind.LIVE, CommitKind.CHANGE)), None)
        if first is None or first.kind != CommitKind.LIVE:
            snapshot = new_table(work.target.path, work.stored, head.design.properties)
            return ColumnHistory(snapshot, snapshot) if first is None else None
        snapshot = _first_snapshot(work, head, first, rules)
    # Each commit is a window, or a statement that leaves other columns to the windows after it.
    history, known_columns = (
        ColumnHistory(snapshot, snapshot),
        {*(commits[-1].known_columns or ())} if commits else set(),
    )
    for commit in commits:
        if commit.kind == CommitKind.LIVE:
            assert commit.definition
            assert commit.start
            known_columns |= {str(column.name).casefold() for column in commit.definition.columns}
            history.add_window(commit.definition, Range(commit.start, commit.position), rules, known_columns)
        for step in commit.steps or () if commit.kind == CommitKind.CHANGE else ():
            history.add_step(step)
    return history.add_later_changes()


def _commits(work: MergeJob, head: Head) -> list[SilverCommit] | None:
    """Silver's commits that the target has not got, oldest first; None where its log has not all of them any more."""
    last = DownstreamCommit.of_head(head)
    merged = last.silver_version if last else -1
    listed = work.origin.since(max(-1, merged - 1))
    # A new target needs all of silver's commits; of others the commit that was merged shows that none is missing.
    if not listed or listed[-1][0] != max(0, merged):
        return None
    commits = [
        SilverCommit.of(checkpoint)
        for version, checkpoint in reversed(listed)
        if merged < version <= work.pinned.version and checkpoint.kind != CommitKind.MAINTENANCE
    ]
    return None if any(commit.is_overwrite for commit in commits) else commits


def _first_snapshot(work: MergeJob, head: Head, first: SilverCommit, rules: TableFilters) -> Snapshot:
    """The target that silver's first window makes, with the columns that it has. Raises TableStopped."""
    assert first.definition
    assert head.design
    columns = masking.columns_seen(first.definition, rules.columns)
    columns = masking.with_retired(columns, types_of(first.retired_columns))
    types = {**columns.types, **ADDED, **MODE_COLUMNS[work.mode]}
    return new_table(work.target.path, types, head.design.properties)


def _by_log(work: MergeJob, job: CompactionJob, extent: Extent, target: TableSchema) -> tuple[ChangeWindow, ...]:
    """The windows of a job that an extent touches. Raises TableStopped, LakeError.

    Statements are applied to a design of their own, whose last columns are the target's by their names.
    """
    # Each part of the log has the columns that the statements before it left.
    changes = [step for step in job.steps if isinstance(step, SchemaChange) and step.state.definition]
    history: ColumnHistory | None = None
    columns, applied = work.columns, 0
    for part in parts_of(job, work.columns):
        at = len(changes) - sum(change.state.definition is not None for change in part.later)
        if history is None:
            columns = job.columns_of(part.state)
            types = {**columns.types, **ADDED, **MODE_COLUMNS[work.mode]}
            design = new_table(work.target.path, types, silver.PROPERTIES)
            history, applied = ColumnHistory(design, design), at
        columns = _carried_out(history, job, columns, changes[applied:at])
        applied = at
        for log_range in filter(extent.overlaps, part.window.ranges):
            assert part.state.definition
            history.add_window(part.state.definition, log_range, job.filters, job.known_columns)
    if history is None:
        return ()
    _carried_out(history, job, columns, changes[applied:])
    history.add_later_changes()
    physical = {
        column.physical_name: target.column(column.name).physical_name
        for column in history.design.schema.columns
        if column.name in target.names
    }
    return tuple(replace(window, schema=_renamed(window.schema, physical)) for window in history.windows)


def _carried_out(
    history: ColumnHistory, job: CompactionJob, columns: silver.Columns, changes: Sequence[SchemaChange]
) -> silver.Columns:
    """The columns after statements, each of which is a part of the history. Raises TableStopped, LakeError."""
    for change in changes:
        reshaped = reshaping(job, columns, change)
        for step in reshaped.steps:
            history.add_step(step)
        columns = reshaped.after
    return columns


def _renamed(schema: TableSchema, physical: dict[str, str]) -> TableSchema:
    """A schema with the physical names of another table's columns; columns that it does not have keep theirs."""
    names = (physical.get(column.physical_name, column.physical_name) for column in schema.columns)
    return TableSchema(
        tuple(
            replace(column, metadata={**column.metadata, PHYSICAL_NAME: name})
            for column, name in zip(schema.columns, names, strict=True)
        )
    )
