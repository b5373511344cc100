"""Job of merging silver into many downstream tables: its tasks, and a commit per table.

Put here: units and tasks from what silver has and the targets have not, and the commits of what tasks found. Not here:
what tasks do (downstream_task.py).
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from spark_jobs.config.modes import Mode
from spark_jobs.delta import features, schema_changes
from spark_jobs.delta.history import added_since
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.downstream import merge_job
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import Merged, MergeJob, SilverDelta
from spark_jobs.downstream.modes import require_supported
from spark_jobs.downstream.multi_source import PartTable, SharedPart
from spark_jobs.downstream.shared_keys import SharedSources, require_one_key
from spark_jobs.engine.changes import change_job, change_task
from spark_jobs.engine.changes.change_extent import may_have_statements
from spark_jobs.engine.changes.change_units import ChangeTask, ChangeUnit
from spark_jobs.engine.changes.column_history import ChangedLog
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity, packed
from spark_jobs.engine.merge import downstream_task, keyless_merge, shared_merge
from spark_jobs.engine.merge.downstream_task import DownstreamUnit, FileRewrite
from spark_jobs.engine.merge.merge_results import (
    marked_files,
    operation_name,
    redesign_actions,
    row_metrics,
    without_dead,
    write_metrics,
)
from spark_jobs.engine.merge.part_merge import (
    PlannedTables,
    committed_design,
    delta_of_part,
    files_of_part,
    head_of_part,
    newest_unchanged_target,
    part_schema,
    planned_design,
)
from spark_jobs.engine.merge.shared_plan import SharedPlan, SharedUnit, planned
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange, change_of
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.rows.restatement import Restatement, SilverSource, files_overlapping
from spark_jobs.engine.target import feed
from spark_jobs.engine.target.deleted_rows import require_unfolded
from spark_jobs.engine.target.partial_merge import SilverLookup
from spark_jobs.engine.target.target_files import RowChanges
from spark_jobs.engine.target.target_unit import MergedFiles
from spark_jobs.errors import StratalogError, about
from spark_jobs.lake.commit import Head
from spark_jobs.lake.ranges import joined
from spark_jobs.log.position import Range
from spark_jobs.silver import schema_evolution
from spark_jobs.silver import table as silver

_LEAST_TASK_BYTES = 1 << 20
_UNIT_BYTES = 64 << 10
"""Cost of a unit besides its rows, as bytes of data files."""
_SEARCHED = 64
"""Bytes of a target in which keys are searched that cost as much as one byte that is merged into it."""
_LARGE = 1 << 40
"""Size of what is not known, and may be large."""
_SEVERAL = 2
"""Windows, where their number is not known: keys may be in more than one."""


@dataclass(frozen=True, slots=True)
class PreparedMerge:
    """A table's merge as a unit of a job, upon a snapshot of its target."""

    work: MergeJob
    head: Head
    delta: SilverDelta
    range: Range
    unit: DownstreamUnit | SharedUnit | ChangeUnit
    snapshot: Snapshot
    design: Snapshot
    """Snapshot with the metadata and protocol that the target has after the merge."""


def prepared(
    number: int,
    work: MergeJob,
    planned_tables: PlannedTables | None = None,
    log: ChangedLog | None = None,
    sources: SharedSources | None = None,
) -> PreparedMerge | None:
    """A table's merge as a unit; None where there is nothing to do now.

    Args:
        number: the unit's.
        work: what is merged.
        planned_tables: what parts planned before are to make of their tables; gets that of this one. Of those that
            share keys one alone is planned: what it leaves decides about the next.
        log: of a table that is made of every change, what changes are decoded from.
        sources: of a part that shares keys with others.

    Raises TableStopped, LakeError.
    """
    with about(str(work)):
        require_supported(work.columns, work.mode)
        if isinstance(work.target, PartTable):
            return _prepared_part(number, work, {} if planned_tables is None else planned_tables, sources)
        head = merge_job.head_of(work)
        delta = merge_job.silver_delta(work, head)
        log_range = merge_job.merged_range(work, head, delta)
        if log_range is None:
            return None
        # A target that does not exist yet is a snapshot without files.
        if head.design:
            snapshot = new_table(work.target.path, head.design.columns, head.design.properties)
        else:
            stored = snapshot_of(work.target.path, head.version)
            assert stored is not None
            snapshot = stored
        if work.mode.has_every_change:
            assert log is not None, "every change is decoded from bronze"
            plan = change_job.planned(number, work, (head, snapshot), delta, log)
            is_replaced = plan.delta.is_renewed and plan.design is not plan.snapshot
            design = feed.design_with_feed(plan.design, work, is_replaced=is_replaced)
            has_feed = design.has_change_data and bool(plan.unit.files)
            unit = replace(plan.unit, configuration=design.configuration, has_feed=has_feed)
            return PreparedMerge(work, head, plan.delta, log_range, unit, plan.snapshot, design)
        return _prepared(number, work, (head, snapshot), delta, log_range)


def _prepared(
    number: int, work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, log_range: Range
) -> PreparedMerge:
    """The unit of a table. upon: the target as the plan saw it. Raises TableStopped, LakeError."""
    head, snapshot = upon
    origin = snapshot_of(work.origin.path, work.pinned.version)
    assert origin is not None
    features.require_written(snapshot)
    # The columns that the target has after silver's statements, and the files of silver that it lacks.
    lacking = _lacking(work, upon, delta, origin)
    if lacking is None:
        # What happened to silver cannot be told, or would touch most rows: all of it replaces the target.
        delta = replace(delta, is_renewed=True)
        lacking = _renewed(work, snapshot, origin)
    features.require_written(origin if lacking.restatement else origin.with_files(lacking.files))
    silver.require_equal_columns(work.target.path, lacking.design.schema.spark_types, work.stored, str(work.name))
    design = feed.design_with_feed(
        lacking.design, work, is_replaced=delta.is_renewed and lacking.design is not snapshot
    )
    unit = _unit(number, work, upon, delta, lacking._replace(design=design))
    return PreparedMerge(work, head, delta, log_range, unit, snapshot, design)


def _prepared_part(
    number: int, work: MergeJob, planned_tables: PlannedTables, sources: SharedSources | None
) -> PreparedMerge | None:
    """The unit of a part; None where it is up to date, or waits for another one. Raises TableStopped, LakeError."""
    head = head_of_part(work)
    if isinstance(work.target, SharedPart):
        require_one_key(work, work.target.other_parts(head))
    delta = delta_of_part(head, merge_job.silver_delta(work, head))
    log_range = merge_job.merged_range(work, head, delta)
    if log_range is None or (isinstance(work.target, SharedPart) and work.target.path in planned_tables):
        return None
    # Parts of a table that does not exist yet begin it together: data files have the names of its columns.
    path = work.target.path
    if head.design:
        snapshot = planned_tables.setdefault(path, new_table(path, head.design.columns, head.design.properties))
    else:
        stored = snapshot_of(path, head.version)
        assert stored is not None
        snapshot = stored
    origin = snapshot_of(work.origin.path, work.pinned.version)
    assert origin is not None
    features.require_written(snapshot)
    features.require_written(origin)
    design, upon = planned_design(work, (head, snapshot), planned_tables), (head, snapshot)
    # What cannot be told of its commits any more is all of silver.
    new_files = None if delta.is_renewed else _new_files(work, head, delta, origin)
    if isinstance(work.target, SharedPart):
        assert sources
        shared = planned(number, work, upon, SharedPlan(delta, design, origin, new_files), sources)
        return PreparedMerge(work, head, delta, log_range, shared, snapshot, design)
    delta = replace(delta, is_renewed=new_files is None)
    lacking = LackingFiles(origin, design, (), (), *(new_files or (origin.files, None)))
    return PreparedMerge(work, head, delta, log_range, _unit(number, work, upon, delta, lacking), snapshot, design)


def _unit(
    number: int, work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, lacking: "LackingFiles"
) -> DownstreamUnit:
    """Unit as tasks need it. upon: the target as the plan saw it."""
    (head, snapshot), design, origin = upon, lacking.design, lacking.origin
    provenance = tuple(work.target.provenance.items())
    # A renewed table loses all its files, a renewed part its rows.
    files = tuple(files_of_part(snapshot, provenance)) if provenance or not delta.is_renewed else ()
    after = None if delta.is_renewed else head.position
    # Only where the target has not passed a statement that emptied the table are rows to go; or to be marked.
    is_emptied = bool(work.floor and (after is None or lacking.restatement or after <= work.floor))
    keeps_deleted = work.mode is Mode.SOFT_DELETE
    # The unit holds values alone, since it is pickled for a task.
    return DownstreamUnit(
        number=number,
        name=str(work),
        columns=work.columns,
        origin=work.origin.path,
        origin_schema=origin.schema,
        pending=lacking.files,
        after=after,
        windows=_SEVERAL if delta.is_renewed else delta.windows,
        target=work.target.path,
        schema=part_schema(design.schema, work.columns.types) if provenance else design.schema,
        configuration=design.configuration,
        files=files,
        provenance=provenance,
        replaces=bool(provenance) and delta.is_renewed,
        keeps_deleted=keeps_deleted,
        has_feed=design.has_change_data and bool(files),
        rewrites=bool(files) and not snapshot.has_deletion_vectors,
        fills=lacking.fills,
        exact=lacking.exact,
        statements=_statements(work, lacking) if keeps_deleted and is_emptied else (),
        floor=None if keeps_deleted else work.floor,
        empties=bool(files and is_emptied and after and not keeps_deleted),
        restatement=lacking.restatement,
        lookup=_lookup(work, head, delta, origin) if work.columns.has_partial else None,
        lacks_older=work.lacks_older,
    )


def _statements(work: MergeJob, lacking: "LackingFiles") -> tuple[DataFile, ...]:
    """Silver's files that may say that a statement emptied the table, as far as its rows are merged."""
    origin = lacking.origin
    # Rows that lack columns are completed by older ones, which earlier statements have ended.
    if work.columns.has_partial:
        return tuple(file for file in origin.files if may_have_statements(file, origin.schema, silver.Op.TRUNCATE))
    return lacking.restatement.files if lacking.restatement else lacking.files


def _lookup(work: MergeJob, head: Head, delta: SilverDelta, origin: Snapshot) -> SilverLookup:
    """Lookup that completes keys whose rows lack columns. origin: the silver table."""
    source = SilverSource(origin.path, origin.schema, work.columns.key)
    last, after = DownstreamCommit.of_head(head), head.position
    if delta.is_renewed:
        return SilverLookup(source, tuple(origin.files), None, work.floor)
    is_emptied = work.floor is not None and after is not None and after <= work.floor
    never_whole = last.keys_never_whole if last and not is_emptied else 0
    # Where the merge marks rows as deleted by a statement, they have the values that they had before it.
    floor = None if is_emptied and work.mode is Mode.SOFT_DELETE else work.floor
    return SilverLookup(source, tuple(origin.files), after, floor, never_whole)


class LackingFiles(NamedTuple):
    """Difference of a target from silver (origin): columns, effects of statements on its rows, and files."""

    origin: Snapshot
    design: Snapshot
    fills: tuple[ColumnFill, ...]
    exact: tuple[ExactTextChange, ...]
    files: tuple[DataFile, ...]
    restatement: Restatement | None


def _renewed(work: MergeJob, snapshot: Snapshot, origin: Snapshot) -> LackingFiles:
    """All of silver in the place of all that the target has. Raises TableStopped, LakeError."""
    if work.mode is Mode.SOFT_DELETE:
        require_unfolded(work)
    return LackingFiles(origin, _redesigned(snapshot, work.stored), (), (), origin.files, None)


def _lacking(work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, origin: Snapshot) -> LackingFiles | None:
    """Difference of target and silver; None where all of silver is to replace it. Raises TableStopped, LakeError."""
    head, snapshot = upon
    if delta.is_renewed:
        return _renewed(work, snapshot, origin)
    # A new table has silver's columns; of an existing one statements change them.
    steps = [] if head.design else delta.steps
    if head.position is None and work.mode is Mode.SOFT_DELETE:
        require_unfolded(work)
    if work.columns.is_keyless and work.mode is Mode.SOFT_DELETE and _unites_rows(work, head, steps):
        return None
    design, filled, exact = _reshaped(work, snapshot, steps)
    new_files = _new_files(work, head, delta, origin)
    if new_files is None:
        return None
    files, restatement = new_files
    if restatement:
        restatement = replace(restatement, exact=exact)
    of_target = tuple(change for change in exact if not change.absent)
    return LackingFiles(origin, design, filled, of_target, files, restatement)


def _unites_rows(work: MergeJob, head: Head, steps: Sequence[str]) -> bool:
    """True if statements may make rows one of which the target has several, living and deleted ones."""
    is_emptied = work.floor is not None and head.position is not None and head.position <= work.floor
    return not head.design and (is_emptied or any(step.startswith("DROP COLUMN") for step in steps))


def _new_files(
    work: MergeJob, head: Head, delta: SilverDelta, origin: Snapshot
) -> tuple[tuple[DataFile, ...], Restatement | None] | None:
    """Silver's data files that the target has not got, and what changed other than by windows appended.

    None where silver's log does not have all commits any more that tell it.
    """
    # Without a commit of ours in the target, everything in silver is new.
    last = DownstreamCommit.of_head(head)
    if last is None or last.silver_version < 0:
        return origin.files, None
    new = added_since(work.origin.path, last.silver_version, work.pinned.version)
    # Windows without a key say nothing by themselves where copies that went may have been there before the log.
    is_restated = delta.restates(head) or (work.columns.is_keyless and work.lacks_older)
    before = snapshot_of(origin.path, last.silver_version) if is_restated else None
    if new is None or (is_restated and before is None):
        return None
    if before is None:
        return new, None
    # Windows were replayed, or rows read from the server: the old files show which keys are touched.
    present = {file.key for file in origin.files}
    restatement = Restatement(
        removed=tuple(file for file in before.files if file.key not in present),
        windows=tuple(joined(delta.redone)),
        is_from_server=bool(delta.from_server) and not head.design,
        files=tuple(origin.files),
        before=tuple(before.files) if work.columns.has_partial else (),
    )
    replayed = files_overlapping(origin.files, origin.schema, work.replays)
    return tuple({file.key: file for file in (*new, *replayed)}.values()), restatement


def _redesigned(snapshot: Snapshot, spark_types: Mapping[str, str]) -> Snapshot:
    """The target with the columns that silver has now; as it is where it has them."""
    if snapshot.schema.spark_types == spark_types:
        return snapshot
    return schema_changes.redesigned(snapshot, spark_types)


def _reshaped(
    work: MergeJob, snapshot: Snapshot, steps: Sequence[str]
) -> tuple[Snapshot, tuple[ColumnFill, ...], tuple[ExactTextChange, ...]]:
    """The target with the columns that statements left, and what its rows get. Raises TableStopped, LakeError."""
    if work.target.plain:
        schema_evolution.require_plain(work.target.path, steps)
    # Statements in their order, each applied to the columns that the one before it left.
    design, column_fills, exact = snapshot, list[ColumnFill](), list[ExactTextChange]()
    for step in steps:
        change = change_of(step)
        if change:
            exact.append(change)
            continue
        plain, filled = fills.split([step])
        design = schema_changes.apply(design, plain) if plain else design
        column_fills += fills.fills_of(design, filled)
    # A later step may have dropped or renamed a filled column: its physical name tells.
    behind = {column.physical_name: column for column in design.schema.columns}
    remaining_fills = [
        replace(fill, column=behind[name]) for fill in column_fills if (name := fill.column.physical_name) in behind
    ]
    return design, tuple(remaining_fills), tuple(exact)


def size_of(units: Sequence[PreparedMerge]) -> int:
    """Size of a job by what its tasks read and write, in bytes of silver's files."""
    return sum(map(_size_of, units))


def _size_of(prepared_merge: PreparedMerge) -> int:
    unit = prepared_merge.unit
    target_bytes = sum(file.size for file in unit.files)
    if isinstance(unit, ChangeUnit):
        # Changes are decoded from the log, in which the place of a target and of silver tell how much there is.
        start, stop = prepared_merge.range.start, prepared_merge.range.stop
        is_one_file = (start.stretch, start.file) == (stop.stretch, stop.file) and not prepared_merge.delta.is_renewed
        return target_bytes // _SEARCHED + (stop.offset - start.offset if is_one_file else _LARGE)
    return unit.size + (target_bytes if unit.changes_files else target_bytes // _SEARCHED)


def run(
    spark: SparkSession, units: Sequence[PreparedMerge], capacity: Capacity, log: ChangedLog | None = None
) -> dict[int, list[MergedFiles]]:
    """Results of tasks, by unit. log: where units are made of every change, what these are decoded from."""
    # Tasks of all units; those made of every change read slices of the log, which tables share.
    values = fills.values_by_expression(fill.sql for unit in units for fill in unit.unit.column_fills)
    units = [_divided(replace(unit, unit=unit.unit.valued(values)), capacity) for unit in units]
    by_unit: dict[int, list[MergedFiles]] = defaultdict(list)
    tasks: list[MergeTask] = [*tasks_of(units, capacity)]
    changes = [(unit.work.name, unit.unit) for unit in units if isinstance(unit.unit, ChangeUnit)]
    bucketed: dict[int, ChangeUnit] = {}
    buckets = 0
    if changes:
        assert log
        try:
            change_tasks, buckets, bucketed = change_job.tasks_of(changes, log, capacity)
            tasks += change_tasks
        except StratalogError as error:
            if not units[1:]:
                raise
            # One table's log may be at fault: each is tried by itself.
            by_unit |= {unit.number: [MergedFiles(unit.number, {}, error=str(error))] for _, unit in changes}
    # One job for all of them; what a unit of several tasks or buckets gave is collected by unit.
    finish = change_task.finish(bucketed) if bucketed else None
    for merged_files in spark_job.run(spark, tasks, work, finish, buckets):
        by_unit[merged_files.unit].append(merged_files)
    # Tables whose rows turned out to depend on rows of other keys are merged once more, a task each.
    dependent = [unit for unit in changes if any(result.needs_one_task for result in by_unit[unit[1].number])]
    if dependent and log:
        repeated_tasks = change_job.tasks_of(dependent, log, capacity, is_divided=False).tasks
        by_unit |= {unit.number: [] for _, unit in dependent}
        bucketed = {at: unit for at, unit in bucketed.items() if all(part.number != at for _, part in dependent)}
        for merged_files in spark_job.run(spark, repeated_tasks, work):
            by_unit[merged_files.unit].append(merged_files)
    # Files that are written again, where one task would have too many of them.
    final_units = [bucketed.get(unit.unit.number, unit.unit) for unit in units]
    rewrites = [rewrite for unit in final_units for rewrite in _rewrites(unit, by_unit[unit.number])]
    target = capacity.share(sum(rewrite.file.size for rewrite in rewrites), _LEAST_TASK_BYTES)
    rewrite_tasks = [*packed(rewrites, lambda rewrite: rewrite.file.size, target)]
    for merged_files in spark_job.run(spark, rewrite_tasks, downstream_task.rewritten_alone):
        earlier_results = [without_dead(result, merged_files.removed) for result in by_unit[merged_files.unit]]
        by_unit[merged_files.unit] = [*earlier_results, merged_files]
    return by_unit


def _divided(unit: PreparedMerge, capacity: Capacity) -> PreparedMerge:
    """The unit, whose files are written again by tasks of their own where these are too much for one task."""
    part = unit.unit
    if not isinstance(part, DownstreamUnit) or not part.changes_files:
        return unit
    size = part.size + sum(file.size for file in part.files)
    return replace(unit, unit=replace(part, defers=size > capacity.task_bytes))


def _rewrites(unit: DownstreamUnit | SharedUnit | ChangeUnit, results: Sequence[MergedFiles]) -> Iterator[FileRewrite]:
    """The files of a unit's target that tasks of their own write again."""
    if isinstance(unit, SharedUnit) or not unit.defers or any(r.error or r.stopped for r in results):
        return
    row_changes = RowChanges(unit.fills, unit.exact)
    # What a task that writes one file again needs of the unit; where deleted rows stay, any file may have some.
    may_delete = isinstance(unit, DownstreamUnit) and unit.deletes_rows_in_files
    alone: DownstreamUnit | ChangeUnit
    if isinstance(unit, DownstreamUnit):
        alone = replace(unit, pending=(), restatement=None, lookup=None, files=())
    else:
        alone = replace(unit, windows=(), files=(), statements=(), earlier=None)
    for file in unit.files:
        dead = b"".join(result.dead.get(file.path, b"") for result in results)
        if may_delete or row_changes.may_change(file, unit.schema) or (unit.rewrites and dead):
            yield FileRewrite(alone, file, dead)


FromSilver = DownstreamUnit | SharedUnit
"""Changes of silver to merge."""
MergeTask = tuple[FromSilver, ...] | ChangeTask


def work(task: MergeTask) -> Iterator[Any]:
    """Execute a task of either kind: yields MergedFiles, and blocks of a shuffle for tables of every change."""
    if isinstance(task, ChangeTask):
        return change_task.work(task)
    return downstream_task.work(task, _merged)


def _merged(unit: FromSilver) -> MergedFiles:
    if isinstance(unit, SharedUnit):
        return shared_merge.merged(unit)
    return keyless_merge.merged(unit) if unit.columns.is_keyless else downstream_task.merged(unit)


def tasks_of(units: Sequence[PreparedMerge], capacity: Capacity) -> list[tuple[FromSilver, ...]]:
    """Units that are merged from silver packed by the bytes of their new files.

    A large one is divided by ranges of keys: by its files where each has a range of its own.
    """
    of_silver = [unit.unit for unit in units if not isinstance(unit.unit, ChangeUnit)]
    sizes = {unit.number: unit.size for unit in of_silver}
    target = capacity.share(sum(sizes.values()) + len(of_silver) * _UNIT_BYTES, _LEAST_TASK_BYTES)
    divided: list[tuple[FromSilver, ...]] = []
    undivided: list[FromSilver] = []
    for unit in of_silver:
        # Two tasks must not write one file again.
        task_limit = min(2 * target, capacity.task_bytes)
        parts = max(1, -(-sizes[unit.number] // task_limit))
        if unit.changes_files and not unit.defers:
            parts = 1
        files = _files_in_order(unit) if parts > 1 else ()
        if files and max(file.size for file in files) <= task_limit:
            groups = packed(files, lambda file: file.size, task_limit)
            divided += [(replace(unit, pending=group),) for group in groups]
        elif parts > 1:
            divided += [(replace(unit, part=part, parts=parts),) for part in range(parts)]
        else:
            undivided.append(unit)
    return [*divided, *packed(undivided, lambda unit: sizes[unit.number] + _UNIT_BYTES, target)]


def _files_in_order(unit: FromSilver) -> tuple[DataFile, ...]:
    """A unit's new files in the order of their keys, where they are all that its rows are made of and have ranges.

    Empty where rows of several files may be of one key, files have keys of the same range, or old rows are looked for.
    """
    if not isinstance(unit, DownstreamUnit) or unit.columns.is_keyless or unit.columns.has_partial or unit.files:
        return ()
    if unit.windows > 1 or unit.restatement or unit.statements:
        return ()
    bounds = [(file.bounds(unit.origin_schema, unit.columns.key[0]), file) for file in unit.pending]
    if any(of_file.minimum is None or of_file.maximum is None for of_file, _ in bounds):
        return ()
    bounds.sort(key=lambda pair: pair[0].minimum)
    is_apart = all(left.maximum < right.minimum for (left, _), (right, _) in pairwise(bounds))
    return tuple(file for _, file in bounds) if is_apart else ()


def commit(unit: PreparedMerge, results: Sequence[MergedFiles]) -> Merged:
    """Commit what tasks did for a unit. Raises LostRace, LakeError."""
    # The target of a part has other writers: it is committed upon the newest version with the same files of this unit.
    began = time.monotonic()
    work, snapshot, head, design = unit.work, unit.snapshot, unit.head, unit.design
    is_part = isinstance(work.target, PartTable)
    if isinstance(work.target, PartTable):
        touched = {path for result in results for path in (*result.dead, *result.removed)}
        snapshot, head = newest_unchanged_target(work.target, (snapshot, head), touched)
        design = committed_design(work, head, snapshot, unit.design)
    # Tasks name files by path; the commit wants those of the snapshot that it is made upon.
    by_path = {file.path: file for file in snapshot.files}
    removed = [by_path[path] for result in results for path in result.removed]
    is_overwrite = unit.unit.is_total if isinstance(unit.unit, SharedUnit) else unit.delta.is_renewed and not is_part
    removed = [*snapshot.files] if is_overwrite else removed
    marked = marked_files(snapshot, by_path, results)
    # Keys that no row ever held whole: those of before, and what became of them.
    lookup = None if isinstance(unit.unit, SharedUnit) else unit.unit.lookup
    unseen = lookup.never_whole + sum(result.never_whole for result in results) if lookup else 0
    landed = work.target.land(
        snapshot,
        head,
        merge_job.commit_of(work, unit.range, unseen),
        adds=[file for result in results for file in result.added],
        removes=removed,
        dv_updates=marked,
        changes=[file for result in results for file in result.changes],
        operation=operation_name(unit.snapshot, work.mode, is_overwrite=is_overwrite),
        metrics=row_metrics(results) | write_metrics(work.mode, results),
        **redesign_actions(snapshot, design, is_overwrite=is_overwrite),
    )
    return Merged(
        source=work.source,
        name=work.name,
        target=work.target.path,
        head=landed,
        range=unit.range,
        inserted=sum(result.inserted for result in results),
        updated=sum(result.updated for result in results),
        deleted=sum(result.deleted for result in results),
        redone=len(unit.delta.redone),
        seconds=time.monotonic() - began + sum(result.seconds for result in results),
        unseen=unseen,
        mode=work.mode,
    )
