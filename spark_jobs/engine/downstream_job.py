"""Silver -> downstream for many tables in one Spark job: what its tasks are, and a commit a table.

Put here: units and tasks from what silver has and the targets have not, and the commits of what tasks found. Not here:
what tasks do (downstream_task.py), which tables come this way (routing.py).
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from spark_jobs.config.modes import Mode
from spark_jobs.delta import deletion_vectors, schema_changes
from spark_jobs.delta.history import added_since
from spark_jobs.delta.snapshot import CHANGE_DATA_FEED, DataFile, Snapshot, snapshot_of
from spark_jobs.downstream import merge_job
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import Merged, MergeJob, SilverDelta
from spark_jobs.downstream.modes import require_supported
from spark_jobs.downstream.multi_source import PartTable
from spark_jobs.engine import change_job, change_task, downstream_task, fills, keyless_merge, routing, spark_job
from spark_jobs.engine.change_course import ChangedLog
from spark_jobs.engine.change_units import ChangeTask, ChangeUnit
from spark_jobs.engine.deleted_rows import require_unfolded
from spark_jobs.engine.downstream_task import DownstreamUnit, FileRewrite, MergedFiles
from spark_jobs.engine.exact_texts import ExactTextChange, change_of
from spark_jobs.engine.fills import ColumnFill
from spark_jobs.engine.part_merge import NewTables, files_of_part, head_of_part, new_snapshot, rebased, why_not_fitting
from spark_jobs.engine.partial_merge import SilverLookup
from spark_jobs.engine.restatement import Restatement, SilverSource, overlapping
from spark_jobs.engine.spark_job import Capacity, packed
from spark_jobs.engine.target_files import RowChanges
from spark_jobs.errors import StratalogError, about
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Range
from spark_jobs.silver import schema_evolution
from spark_jobs.silver import table as silver

_LEAST_TASK_BYTES = 1 << 20
_UNIT_BYTES = 64 << 10
"""What a unit costs beside its rows, as bytes of data files."""
_SEVERAL = 2
"""Windows, where their number is not known: keys may be in more than one."""


@dataclass(frozen=True, slots=True)
class PreparedMerge:
    """A table's merge as a unit of a job, upon a snapshot of its target."""

    work: MergeJob
    head: Head
    delta: SilverDelta
    range: Range
    unit: DownstreamUnit | ChangeUnit
    snapshot: Snapshot
    design: Snapshot
    """With the metadata and protocol that the target has after the merge."""


def prepared(
    number: int, work: MergeJob, new_tables: NewTables | None = None, log: ChangedLog | None = None
) -> PreparedMerge | str | None:
    """A table's merge as a unit; None where the target is up to date, and why Spark SQL takes it where it does.

    new_tables: what parts planned before have begun; gets the table of this one. log: of a table that is made of every
    change, what changes are decoded from.
    """
    with about(str(work)):
        reason = routing.why_not_merged(work)
        if reason:
            return reason
        require_supported(work.columns, work.mode)
        is_part = isinstance(work.target, PartTable)
        head = head_of_part(work) if is_part else merge_job.head_of(work)
        delta = merge_job.silver_delta(work, head)
        range_ = merge_job.range_of(work, head, delta)
        if range_ is None:
            return None
        reason = routing.why_downstream_by_sql(work, head, delta)
        if reason:
            return reason
        # A target that does not exist yet is a snapshot without files.
        if head.design:
            snapshot = new_snapshot(head, work.target.path, {} if new_tables is None else new_tables)
        else:
            stored = snapshot_of(work.target.path, head.version)
            assert stored is not None
            snapshot = stored
        if work.mode.has_every_change:
            assert log is not None, "every change is decoded from bronze"
            plan = change_job.planned(number, work, (head, snapshot), delta, log)
            is_replaced = plan.delta.is_renewed and plan.design is not plan.snapshot
            design = _with_feed(plan.design, work, is_replaced=is_replaced)
            has_feed = design.has_change_data and bool(plan.unit.files)
            unit = replace(plan.unit, configuration=design.configuration, has_feed=has_feed)
            return PreparedMerge(work, head, plan.delta, range_, unit, plan.snapshot, design)
        reason = why_not_fitting(work, delta, snapshot) if is_part else None
        return reason or _prepared(number, work, (head, snapshot), delta, range_)


def _prepared(
    number: int, work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, range_: Range
) -> PreparedMerge | str:
    """The unit of a table, or why Spark SQL merges it instead. upon: the target as the plan saw it."""
    head, snapshot = upon
    origin = snapshot_of(work.origin.path, work.pinned.version)
    assert origin is not None
    routing.require_written(snapshot)
    marks = tuple(work.target.marks.items())
    # The columns that the target has after silver's statements, and the files of silver that it lacks.
    lacking = _lacking(work, upon, delta, origin)
    if lacking is None:
        if marks:
            return "the log of silver does not have all commits any more that the target has not got"
        # What happened to silver cannot be told: all of it replaces the target.
        delta = replace(delta, is_renewed=True)
        lacking = _renewed(work, snapshot, origin)
    routing.require_written(origin if lacking.restatement else origin.with_files(lacking.files))
    if not marks:
        silver.require_equal_columns(work.target.path, lacking.design.schema.spark_types, work.stored, str(work.name))
    design = _with_feed(lacking.design, work, is_replaced=delta.is_renewed and lacking.design is not snapshot)
    unit = _unit(number, work, upon, delta, lacking._replace(design=design))
    return PreparedMerge(work, head, delta, range_, unit, snapshot, design)


def _unit(
    number: int, work: MergeJob, upon: tuple[Head, Snapshot], delta: SilverDelta, lacking: "LackingFiles"
) -> DownstreamUnit:
    """What tasks need to know. upon: the target as the plan saw it."""
    (head, snapshot), design, origin = upon, lacking.design, lacking.origin
    marks = tuple(work.target.marks.items())
    files = () if delta.is_renewed else tuple(files_of_part(snapshot, marks))
    after = None if delta.is_renewed else head.position
    # Only where the target has not passed a statement that emptied the table are rows to go; or to be marked.
    is_emptied = bool(work.floor and (after is None or lacking.restatement or after <= work.floor))
    keeps_deleted = work.mode is Mode.SOFT_DELETE
    silver_files = lacking.restatement.files if lacking.restatement else lacking.files
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
        schema=design.schema,
        configuration=design.configuration,
        files=files,
        marks=marks,
        keeps_deleted=keeps_deleted,
        has_feed=design.has_change_data and bool(files),
        rewrites=bool(files) and not snapshot.has_deletion_vectors,
        fills=lacking.fills,
        exact=lacking.exact,
        statements=silver_files if keeps_deleted and is_emptied else (),
        floor=None if keeps_deleted else work.floor,
        empties=bool(files and is_emptied and after and not keeps_deleted),
        restatement=lacking.restatement,
        lookup=_lookup(work, head, delta, origin) if work.columns.has_partial else None,
        lacks_older=work.lacks_older,
    )


def _lookup(work: MergeJob, head: Head, delta: SilverDelta, origin: Snapshot) -> SilverLookup:
    """How keys are completed whose rows lack columns. origin: the silver table."""
    source = SilverSource(origin.path, origin.schema, work.columns.key)
    last, after = DownstreamCommit.of_head(head), head.position
    if delta.is_renewed:
        return SilverLookup(source, tuple(origin.files), None, work.floor)
    is_emptied = work.floor is not None and after is not None and after <= work.floor
    never_whole = last.keys_never_whole if last and not is_emptied else 0
    return SilverLookup(source, tuple(origin.files), after, work.floor, never_whole)


class LackingFiles(NamedTuple):
    """What a target lacks of silver (origin): columns, what statements did to rows that it has, and files."""

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
    """What the target lacks; None where silver's log does not tell any more. Raises TableStopped, LakeError."""
    head, snapshot = upon
    if delta.is_renewed:
        return _renewed(work, snapshot, origin)
    # A run of an earlier version may have ended between the commits of one statement: the rest of it comes first.
    last = DownstreamCommit.of_head(head)
    steps = [] if head.design else [*((last.steps_left if last else None) or ()), *delta.steps]
    if head.position is None and work.mode is Mode.SOFT_DELETE:
        require_unfolded(work)
    design, filled, exact = _reshaped(work, snapshot, steps)
    new_files = _new_files(work, head, delta, origin)
    if new_files is None:
        return None
    files, restatement = new_files
    if restatement:
        restatement = replace(restatement, exact=exact)
    of_target = tuple(change for change in exact if not change.absent)
    return LackingFiles(origin, design, filled, of_target, files, restatement)


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
    is_restated = routing.is_restated(head, delta) or _needs_all_copies(work)
    before = snapshot_of(origin.path, last.silver_version) if is_restated else None
    if new is None or (is_restated and before is None):
        return None
    if before is None:
        return new, None
    # Windows were replayed or rows loaded: the old files show which keys are touched.
    present = {file.key for file in origin.files}
    restatement = Restatement(
        removed=tuple(file for file in before.files if file.key not in present),
        windows=tuple(delta.redone),
        is_loaded=delta.is_loaded and not head.design,
        files=tuple(origin.files),
        before=tuple(before.files) if work.columns.has_partial else (),
    )
    replayed = overlapping(origin.files, origin.schema, work.replays)
    return tuple({file.key: file for file in (*new, *replayed)}.values()), restatement


def _redesigned(snapshot: Snapshot, spark_types: Mapping[str, str]) -> Snapshot:
    """The target with the columns that silver has now; as it is where it has them."""
    if snapshot.schema.spark_types == spark_types:
        return snapshot
    return schema_changes.redesigned(snapshot, spark_types)


def _with_feed(design: Snapshot, work: MergeJob, *, is_replaced: bool) -> Snapshot:
    """The target with its change data feed on or off; off in a commit that gives all rows other columns.

    is_replaced: whether it does. Rows that go are read by the columns of the commit, and would have no values.
    """
    is_on = work.has_feed and not is_replaced
    if is_on == design.has_change_data:
        return design
    return schema_changes.apply(design, [f"SET TBLPROPERTIES ('{CHANGE_DATA_FEED}' = '{str(is_on).lower()}')"])


def _needs_all_copies(work: MergeJob) -> bool:
    """Whether windows say nothing by themselves, since copies that went may have been there before the log."""
    return work.columns.is_bag and work.lacks_older


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


def run(
    spark: SparkSession, units: Sequence[PreparedMerge], capacity: Capacity, log: ChangedLog | None = None
) -> dict[int, list[MergedFiles]]:
    """What tasks did, by unit. log: where units are made of every change, what these are decoded from."""
    values = fills.evaluated(spark, (fill.sql for unit in units for fill in unit.unit.column_fills))
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
    finish = change_task.finish(bucketed) if bucketed else None
    for merged_files in spark_job.run(spark, tasks, work, finish, buckets):
        by_unit[merged_files.unit].append(merged_files)
    # Files that are written again, where one task would have too many of them.
    final_units = [bucketed.get(unit.unit.number, unit.unit) for unit in units]
    rewrites = [rewrite for unit in final_units for rewrite in _rewrites(unit, by_unit[unit.number])]
    target = capacity.share(sum(rewrite.file.size for rewrite in rewrites), _LEAST_TASK_BYTES)
    rewrite_tasks = [*packed(rewrites, lambda rewrite: rewrite.file.size, target)]
    for merged_files in spark_job.run(spark, rewrite_tasks, downstream_task.rewritten_alone):
        earlier_results = [_without_dead(result, merged_files.removed) for result in by_unit[merged_files.unit]]
        by_unit[merged_files.unit] = [*earlier_results, merged_files]
    return by_unit


def _divided(unit: PreparedMerge, capacity: Capacity) -> PreparedMerge:
    """The unit, whose files are written again by tasks of their own where these are too much for one task."""
    part = unit.unit
    if not isinstance(part, DownstreamUnit) or not part.changes_files:
        return unit
    size = _bytes_of(part) + sum(file.size for file in part.files)
    return replace(unit, unit=replace(part, defers=size > capacity.task_bytes))


def _rewrites(unit: DownstreamUnit | ChangeUnit, results: Sequence[MergedFiles]) -> Iterator[FileRewrite]:
    """The files of a unit's target that tasks of their own write again."""
    if not unit.defers or any(r.error or r.stopped for r in results):
        return
    row_changes = RowChanges(unit.fills, unit.exact)
    # What a task that writes one file again needs of the unit; where deleted rows stay, any file may have some.
    may_delete = isinstance(unit, DownstreamUnit) and bool(unit.statements)
    alone: DownstreamUnit | ChangeUnit
    if isinstance(unit, DownstreamUnit):
        alone = replace(unit, pending=(), restatement=None, lookup=None, files=())
    else:
        alone = replace(unit, windows=(), files=(), statements=())
    for file in unit.files:
        dead = b"".join(result.dead.get(file.path, b"") for result in results)
        if may_delete or row_changes.may_change(file, unit.schema) or (unit.rewrites and dead):
            yield FileRewrite(alone, file, dead)


def _without_dead(result: MergedFiles, removed: Sequence[str]) -> MergedFiles:
    """A result without rows of files that are removed."""
    return replace(result, dead={path: rows for path, rows in result.dead.items() if path not in removed})


MergeTask = tuple[DownstreamUnit, ...] | ChangeTask


def work(task: MergeTask) -> Iterator[Any]:
    """Does a task of either kind: MergedFiles; of tables that are made of every change blocks of a shuffle too."""
    if isinstance(task, ChangeTask):
        return change_task.work(task)
    return downstream_task.work(task, _merged)


def _merged(unit: DownstreamUnit) -> MergedFiles:
    return keyless_merge.merged(unit) if unit.columns.is_bag else downstream_task.merged(unit)


def tasks_of(units: Sequence[PreparedMerge], capacity: Capacity) -> list[tuple[DownstreamUnit, ...]]:
    """Units that are merged from silver packed by the bytes of their new files; a large one a task a range of keys."""
    of_silver = [unit.unit for unit in units if isinstance(unit.unit, DownstreamUnit)]
    sizes = {unit.number: _bytes_of(unit) for unit in of_silver}
    target = capacity.share(sum(sizes.values()) + len(of_silver) * _UNIT_BYTES, _LEAST_TASK_BYTES)
    divided: list[tuple[DownstreamUnit, ...]] = []
    undivided: list[DownstreamUnit] = []
    for unit in of_silver:
        # Two tasks must not write one file again.
        parts = max(1, -(-sizes[unit.number] // min(2 * target, capacity.task_bytes)))
        if unit.changes_files and not unit.defers:
            parts = 1
        if parts > 1:
            divided += [(replace(unit, part=part, parts=parts),) for part in range(parts)]
        else:
            undivided.append(unit)
    return [*divided, *packed(undivided, lambda unit: sizes[unit.number] + _UNIT_BYTES, target)]


def _bytes_of(unit: DownstreamUnit) -> int:
    """Bytes of the files of silver whose rows or keys a unit is about."""
    removed = unit.restatement.removed if unit.restatement else ()
    return sum(file.size for file in (*removed, *unit.pending))


def commit(unit: PreparedMerge, results: Sequence[MergedFiles]) -> Merged:
    """Commits what tasks did for a unit. Raises LostRace, LakeError."""
    began = time.monotonic()
    work, snapshot, head = unit.work, unit.snapshot, unit.head
    if isinstance(work.target, PartTable):
        snapshot, head = rebased(work.target, (snapshot, head), {path for result in results for path in result.dead})
    # Tasks name files by path; the commit wants those of the snapshot that it is made upon.
    by_path = {file.path: file for file in snapshot.files}
    removed = [by_path[path] for result in results for path in result.removed]
    removed = [*snapshot.files] if unit.delta.is_renewed else removed
    marked = _marked(snapshot, by_path, results)
    # Keys that no row ever held whole: those of before, and what became of them.
    lookup = unit.unit.lookup if isinstance(unit.unit, DownstreamUnit) else None
    unseen = lookup.never_whole + sum(result.never_whole for result in results) if lookup else 0
    # Metadata and protocol are part of the commit only if a statement changed columns.
    changes_design = unit.design is not unit.snapshot
    landed = work.target.land(
        snapshot,
        head,
        merge_job.commit_of(work, unit.range, unseen),
        metadata=unit.design.metadata if changes_design else None,
        protocol=unit.design.protocol if changes_design else None,
        adds=[file for result in results for file in result.added],
        removes=removed,
        dv_updates=marked,
        changes=[file for result in results for file in result.changes],
        operation=_operation(unit),
        operation_parameters={"mode": "Overwrite", "partitionBy": "[]"} if unit.delta.is_renewed else {},
        metrics={
            "numTargetRowsInserted": sum(result.inserted for result in results),
            "numTargetRowsUpdated": sum(result.updated for result in results),
            "numTargetRowsDeleted": sum(result.deleted for result in results),
            **_write_metrics(work.mode, results),
        },
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
        way=routing.ENGINE,
        mode=work.mode,
    )


def _operation(unit: PreparedMerge) -> str:
    """What Delta's history calls the commit."""
    is_merge = unit.snapshot.files and unit.work.mode is not Mode.APPEND and not unit.delta.is_renewed
    return "MERGE" if is_merge else "WRITE"


def _write_metrics(mode: Mode, results: Sequence[MergedFiles]) -> dict[str, int]:
    """Delta's counts of what a merge wrote: rows as they were before, bytes of new files."""
    added = [file for result in results for file in result.added]
    new = sum(result.inserted + result.updated for result in results)
    marked = sum(result.deleted for result in results) if mode is Mode.SOFT_DELETE else 0
    copied = max(sum(file.num_records or 0 for file in added) - new - marked, 0)
    return {"numTargetRowsCopied": copied, "numTargetBytesAdded": sum(file.size for file in added)}


def _marked(
    snapshot: Snapshot, files: Mapping[str, DataFile], results: Iterable[MergedFiles]
) -> list[tuple[DataFile, deletion_vectors.Descriptor]]:
    """New deletion vectors of the files that have old images, written in one file."""
    numbers: dict[str, list[np.ndarray[Any, np.dtype[np.int64]]]] = defaultdict(list)
    for result in results:
        for path, rows in result.dead.items():
            numbers[path].append(np.frombuffer(rows, np.int64))
    if not numbers:
        return []
    vectors = []
    for path, parts in numbers.items():
        vector = BitMap64(np.concatenate(parts).astype(np.uint64))
        present = files[path].deletion_vector
        vectors.append(vector if present is None else vector | deletion_vectors.read(snapshot.path, present))
    descriptors = deletion_vectors.write(snapshot.path, vectors, snapshot.configuration)
    return [(files[path], vector) for path, vector in zip(numbers, descriptors, strict=True)]
