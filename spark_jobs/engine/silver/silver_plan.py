"""Plan of one table in a silver job: its commits in order, and the windows that tasks write.

Put here: stages and units from what a run has planned, up to where the table stops. Not here: the job and the commits
(silver_job.py), what tasks do (silver_task.py).

A stage is one commit: a window's rows, or a statement. Where a stage cannot be planned, or a task cannot take a
transaction, the table stops there and keeps the stages before it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.delta import features, schema_changes
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.engine.rows import earlier_log, fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange, change_of
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.rows.inherited_rows import InheritedFiles
from spark_jobs.engine.silver import silver_task
from spark_jobs.engine.silver.inherited_plan import InheritancePlan
from spark_jobs.engine.silver.silver_task import SilverUnit, SilverWindow, WindowResult
from spark_jobs.errors import DecodeError, PartialImage, PartialWindow, StratalogError, TableStopped, about
from spark_jobs.lake.commit import CommitKind
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.row_values import ColumnLeftOut
from spark_jobs.silver.statement_commits import reshaping
from spark_jobs.silver.table_timeline import DataRange, Ended, SchemaChange, TimelineStep

_EARLIER_BYTES = 4 << 20
"""Bytes of a table's log before its window that are read first, where a rule asks for them."""
_EARLIER_GROWTH = 16


@dataclass(frozen=True, slots=True)
class Stage:
    """One commit of a unit: a window's files, or a statement, with what the table is after it.

    window: its number in the unit; None for a statement that brings no rows.
    """

    step: TimelineStep
    columns: silver.Columns
    design: Snapshot
    """Snapshot with the metadata and protocol that the table has after the commit; its version counts for nothing."""
    changes_design: bool = False
    window: int | None = None
    steps: tuple[str, ...] = ()
    """Effects of a statement on the columns."""
    fills: tuple[ColumnFill, ...] = ()
    """Columns that it adds, with what rows before it have there."""
    exact: tuple[ExactTextChange, ...] = ()
    """Effects on exact texts (``_raw``) of rows before it."""
    overwrites: bool = False
    """True if it replaces all rows and the columns, of a table that is rebuilt."""
    kind: CommitKind = CommitKind.LIVE


@dataclass(frozen=True, slots=True)
class PreparedCompaction:
    """A table's work as a unit of a job, upon a snapshot of its silver table."""

    work: CompactionJob
    unit: SilverUnit
    snapshot: Snapshot
    stages: tuple[Stage, ...]
    slices: tuple[pa.Table, ...]
    """Slices by window: where they lie (bronze/index.py)."""
    ended: Ended | None = None
    """Stop of the table after the stages, as far as the planner of the run has not seen it."""
    files: tuple[InheritedFiles, ...] = ()
    """Files of silver whose rows statements bring."""

    @property
    def bytes(self) -> int:
        return sum(pc.sum(table.column("bytes")).as_py() or 0 for table in self.slices)

    @property
    def has_inherited(self) -> bool:
        """True if rows come with statements: they go to buckets, since parts of one key may be anywhere."""
        return any(window.inherited for window in self.unit.windows)

    @property
    def depths(self) -> list[int]:
        """The number of jobs before the one that writes it, for each window."""
        depths = [0] * len(self.unit.windows)
        # Files that are read by the one that others read come before those.
        for files in self.files:
            if files.result_of is not None:
                depths[files.window] = max(depths[files.window], depths[files.result_of] + 1)
        return [
            depths[at] if window.projection is None or window.into is None else depths[window.into]
            for at, window in enumerate(self.unit.windows)
        ]

    def expressions(self) -> Iterator[str]:
        """SQL of the values that rows get in columns that statements add."""
        yield from (fill.sql for stage in self.stages for fill in stage.fills)
        yield from (sql for window in self.unit.windows for sql in window.expressions())
        yield from (sql for part in self.files for sql in part.projection.expressions())

    def valued(self, values: Mapping[str, pa.Scalar]) -> "PreparedCompaction":
        """Compaction with these values, as ``fills.values_by_expression`` gives them."""
        stages = tuple(replace(stage, fills=fills.fills_with_values(stage.fills, values)) for stage in self.stages)
        windows = tuple(window.valued(values) for window in self.unit.windows)
        files = tuple(replace(part, projection=part.projection.valued(values)) for part in self.files)
        return replace(self, stages=stages, unit=replace(self.unit, windows=windows), files=files)

    def stage_of(self, window: int) -> Stage:
        """The stage that a window, or a part of one, is of."""
        into = self.unit.windows[window].into if 0 <= window < len(self.unit.windows) else None
        if into is not None:
            return self.stage_of(into)
        return next((stage for stage in self.stages if stage.window == window), self.stages[0])

    def at_depth(self, depth: int, results: Iterable[WindowResult]) -> "PreparedCompaction":
        """The work of one job. results: those of the jobs before it."""
        depths, files_by_window = self.depths, defaultdict[int, list[DataFile]](list)
        for result in results:
            if result.file:
                files_by_window[result.window].append(result.file)
        files = tuple(
            files if files.result_of is None else replace(files, files=tuple(files_by_window[files.result_of]))
            for files in self.files
            if depths[files.window] == depth
        )
        slices = tuple(table if depths[at] == depth else table.slice(0, 0) for at, table in enumerate(self.slices))
        return replace(self, files=files, slices=slices)

    @property
    def is_ordered(self) -> bool:
        """True if one task has to take all slices: rows of an XA transaction are numbered one after the other."""
        return self.unit.is_undivided or any(
            table.column("effect_start").null_count < len(table) for table in self.slices
        )


@dataclass(frozen=True, slots=True)
class Preparation:
    """Part of the work of several tables that a job can do."""

    units: list[PreparedCompaction] = field(default_factory=list)
    errors: dict[TableName, StratalogError] = field(default_factory=dict)
    """Stops of tables before their first stage."""


def prepared(works: Iterable[CompactionJob], index: SliceIndex) -> Preparation:
    """The units of tables; of those without one why they have none."""
    preparation = Preparation()
    for work in works:
        try:
            with about(str(work)):
                preparation.units.append(_prepared(len(preparation.units), work, index))
        except StratalogError as error:
            preparation.errors[work.name] = error
    return preparation


def _prepared(number: int, work: CompactionJob, index: SliceIndex) -> PreparedCompaction:
    """The unit of a compaction, checked and cut into windows. Raises TableStopped with a position, LakeError."""
    start = work.steps[0].range.start if work.steps else work.window.extent.start
    try:
        work.require_same_shape()
        return _unit(number, work, index)
    except TableStopped as error:
        raise TableStopped(str(error), error.at or start) from error


def _unit(number: int, work: CompactionJob, index: SliceIndex) -> PreparedCompaction:
    stored = snapshot_of(work.table.path, work.head.version) if work.head else None
    work = replace(work, has_partial=work.has_partial or (stored is not None and silver.ABSENT in stored.schema.names))
    snapshot = _rebuilt(work, stored) if work.reset and stored else stored or _new(work)
    features.require_written(snapshot, appends=True)
    # Stages up to the first one that cannot be planned: the table stops there, after those before it.
    stages: list[Stage] = []
    ended: Ended | None = None
    try:
        remaining = _stages(work, snapshot)
        while stage := next(remaining, None):
            stages.append(stage)
    except TableStopped as error:
        if not stages:
            raise
        ended = Ended(work.steps[len(stages)].range.start, error)
    # Files that are there already concern those statements alone that change or test their rows.
    if any(stage.fills or stage.exact for stage in stages):
        features.require_written(snapshot)
    windows = _windows(work, stages)
    slices = [index.slices_of_table(work.name, window.ranges, window.skips) for window in windows]
    if windows and isinstance(stages[0].step, DataRange) and work.has_partial and work.head and not work.reset:
        windows[0], slices[0] = _with_earlier_log(work, windows[0], slices[0])
    # Rows that statements bring are parts of their own, after the windows of the stages.
    plan = InheritancePlan(work, windows, slices)
    for stage in stages:
        if isinstance(stage.step, SchemaChange) and stage.window is not None:
            plan.add(stage.step, stage.window)
    unit = SilverUnit(number, str(work), work.table.path, tuple(plan.windows), is_undivided=work.is_undivided)
    return PreparedCompaction(work, unit, snapshot, tuple(stages), tuple(plan.slices), ended, tuple(plan.files))


def _windows(work: CompactionJob, stages: Sequence[Stage]) -> list[SilverWindow]:
    """Windows that tasks write.

    Rows get the fills of all later statements: silver's files are not written a second time.
    """
    return [
        SilverWindow(
            definition=_definition(stage),
            columns=stage.columns,
            ranges=(stage.step.range,),
            schema=stage.design.schema,
            configuration=stage.design.configuration,
            fills=tuple(fill for later in stages[at:] for fill in later.fills),
            masks=masks_of(_definition(stage), work.filters.columns) or None,
            filters=work.change_filters(_definition(stage)) or None,
            skips=work.filters.skips,
        )
        for at, stage in enumerate(stages)
        if stage.window is not None
    ]


def _with_earlier_log(work: CompactionJob, window: SilverWindow, slices: pa.Table) -> tuple[SilverWindow, pa.Table]:
    """The first window of a table and its slices with log before them, where rules may ask for it."""
    if not silver_task.rules_of(window, is_alone=True).rows:
        return window, slices
    if not work.earlier_bytes:
        return replace(window, is_older_unread=True), slices
    before, earlier = earlier_log.slices_before(work, window.definition, window.ranges)
    newest = earlier_log.newest_slices(earlier, work.earlier_bytes)
    is_older_unread = len(newest) < len(earlier)
    # What a loaded row has counts where no change behind it says another thing.
    loads = () if is_older_unread else earlier_log.loaded_files(work.table, before)
    window = replace(window, earlier=before.ranges, loads=loads, is_older_unread=is_older_unread)
    return window, pa.concat_tables([earlier_log.numbered_from(newest, len(window.ranges)), slices])


def stopped_before_failures(
    unit: PreparedCompaction, results: Iterable[WindowResult], index: SliceIndex
) -> PreparedCompaction:
    """The unit up to the first transaction that its tasks could not take; the unit itself where they took all.

    A unit is prepared again where its table's first row image without all columns is met. index: the log's slices; the
    one that holds the transaction is cut there. Raises what stops the table where no stage comes before it, and errors
    that are not about rows of the log.
    """
    failed_results = [result for result in results if result.error]
    if not failed_results:
        return unit
    # The table's first row image without all columns: the unit is repeated, with a column that says what rows lack.
    if not unit.work.has_partial and any(isinstance(result.error, PartialImage) for result in failed_results):
        partial_unit = _prepared(unit.unit.number, replace(unit.work, has_partial=True), index)
        return replace(partial_unit, ended=partial_unit.ended or unit.ended)
    # The first changes that others of the window complete: it is repeated in one task.
    if not unit.work.is_undivided and any(isinstance(result.error, PartialWindow) for result in failed_results):
        undivided = _prepared(unit.unit.number, replace(unit.work, has_partial=True, is_undivided=True), index)
        return replace(undivided, ended=undivided.ended or unit.ended)
    # A rule asks for a column that a change before the window has: it is repeated with more of the log before.
    is_asking = [result for result in failed_results if isinstance(result.error, ColumnLeftOut)]
    if any(unit.unit.windows[result.window].is_older_unread for result in is_asking):
        size = max(_EARLIER_BYTES, unit.work.earlier_bytes * _EARLIER_GROWTH)
        longer = _prepared(unit.unit.number, replace(unit.work, has_partial=True, earlier_bytes=size), index)
        return replace(longer, ended=longer.ended or unit.ended)
    for result in failed_results:
        if result.error and not isinstance(result.error, TableStopped | DecodeError):
            raise result.error
    first = min(failed_results, key=lambda result: _failure_order(unit, result))
    assert isinstance(first.error, TableStopped | DecodeError)
    at, error = _failure(unit, first), first.error
    steps = tuple(_steps_before([stage.step for stage in unit.stages], at))
    if not steps:
        with about(str(unit.work)):
            raise TableStopped(str(error), at) from error
    # The steps that are left are planned again, with the last window cut at the stop; statements cut no slice.
    is_cut = not any(isinstance(stage.step, SchemaChange) and stage.step.range.start == at for stage in unit.stages)
    cut = replace(unit.work.window, cuts=unit.work.window.cuts | ({at} if is_cut else set()))
    shortened = _prepared(
        unit.unit.number, replace(unit.work, steps=steps, window=cut), index.cut({at}) if is_cut else index
    )
    return replace(shortened, ended=Ended(at, error))


def _failure(unit: PreparedCompaction, result: WindowResult) -> Position:
    """Stop of a table by a failed task: at a transaction, or where no single one is at fault at its window.

    Rows that a statement brings stop it at the statement, wherever in the log they are.
    """
    stage = unit.stage_of(result.window)
    is_of_window = result.failing is not None and isinstance(stage.step, DataRange)
    return result.failing if is_of_window and result.failing else stage.step.range.start


def _failure_order(unit: PreparedCompaction, result: WindowResult) -> tuple[tuple[int, ...], ...]:
    return _failure(unit, result).order, result.failing.order if result.failing else ()


def _steps_before(steps: Sequence[TimelineStep], at: Position) -> Iterator[TimelineStep]:
    for step in steps:
        if step.range.stop <= at:
            yield step
        elif isinstance(step, DataRange) and step.range.start < at:
            yield replace(step, range=Range(step.range.start, at))


def _definition(stage: Stage) -> TableDefinition:
    assert stage.step.state.definition
    return stage.step.state.definition


def _new(work: CompactionJob) -> Snapshot:
    """The table that the first commit makes."""
    first = work.columns_of(work.steps[0].state)
    return new_table(work.table.path, first.stored, silver.properties(work.table))


def _rebuilt(work: CompactionJob, stored: Snapshot) -> Snapshot:
    """The table with the columns that its rebuilt rows have; its old columns where nothing tells them."""
    state = work.steps[0].state if work.steps else work.state
    if state is None or state.definition is None:
        return stored
    return schema_changes.redesigned(stored, work.columns_of(state).stored)


def _stages(work: CompactionJob, snapshot: Snapshot) -> Iterator[Stage]:
    """The commits of a table's steps. Raises TableStopped."""
    if work.reset and not work.steps:
        yield _emptied(work, snapshot)
        return
    # Each step upon the columns that the one before it left.
    design, windows = snapshot, 0
    if work.has_partial:
        design = with_lacking_columns(snapshot)
    key = work.before.key_columns if work.before else work.columns_of(work.steps[0].state).key
    for at, step in enumerate(work.steps):
        overwrites = bool(work.reset) and at == 0
        is_new = overwrites or (at == 0 and design is not snapshot)
        if isinstance(step, DataRange):
            columns = work.columns_of(step.state)
            silver.require_equal_columns(work.table.path, design.schema.spark_types, columns.stored, str(work.name))
            work.change_filters(step.definition)  # a rule that is not about such a table stops it here
            yield Stage(step, columns, design, changes_design=is_new, window=windows, overwrites=overwrites)
            windows += 1
        else:
            stage = _statement_stage(work, step, design, key)
            window = windows if step.inherited else None
            windows += step.inherited is not None
            changes_design = stage.changes_design or is_new
            yield replace(stage, overwrites=overwrites, changes_design=changes_design, window=window)
            design, columns = stage.design, stage.columns
        key = columns.key


def with_lacking_columns(snapshot: Snapshot) -> Snapshot:
    """A silver table with the columns that say what rows lack; itself where it has them."""
    lacking = {name: kind for name, kind in silver.LACKING.items() if name not in snapshot.schema.names}
    steps = [f"ADD COLUMN ({name} {kind})" for name, kind in lacking.items()]
    return schema_changes.apply(snapshot, steps) if steps else snapshot


def _emptied(work: CompactionJob, snapshot: Snapshot) -> Stage:
    """The commit that leaves a rebuilt table without rows, because its log has none."""
    assert work.state
    assert work.head
    is_known = work.state.definition is not None
    columns = work.columns_of(work.state) if is_known else silver.stored_columns(work.table, work.head)
    step = DataRange(work.window.extent, work.state)
    return Stage(step, columns, snapshot, changes_design=is_known, overwrites=True, kind=CommitKind.RESET)


def _statement_stage(work: CompactionJob, step: SchemaChange, design: Snapshot, key: tuple[str, ...]) -> Stage:
    """The commit of a statement. Raises TableStopped."""
    # What the statement does to the columns, from those that silver has.
    types = design.schema.spark_types
    added = silver.Columns(types, key, has_partial=work.has_partial).added
    own_types = {name: kind for name, kind in types.items() if name not in added}
    before = silver.Columns(own_types, key, has_partial=work.has_partial)
    reshaped = reshaping(work, before, step)
    # Rows are changed beside the columns: values of new ones, and exact texts.
    exact = {statement: change for statement in reshaped.remaining if (change := change_of(statement))}
    rest, filled = fills.split(statement for statement in reshaped.remaining if statement not in exact)
    after = schema_changes.apply(design, rest) if rest else design
    return Stage(
        step,
        reshaped.after,
        after,
        changes_design=bool(rest),
        steps=tuple(reshaped.steps),
        fills=fills.fills_of(after, filled),
        exact=tuple(exact.values()),
        kind=CommitKind.CHANGE,
    )
