"""Job of a replay: windows of a silver table decoded again, compared with silver, and replaced in it.

Put here: the unit of a table's windows, the two jobs, and what a commit replaces. Not here: which windows these are
(pipeline/replay_plan.py), what tasks compare (replay_task.py), or what the commit says (pipeline/backfill/replay.py).

The first job decodes windows by the definitions of their time and writes them with the present columns; no commit
names its files yet. The second one compares the rows of these files with those that silver has of the windows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from spark_jobs.bronze.index import in_order_of_effect
from spark_jobs.bronze.xa import read_effective
from spark_jobs.delta import deletion_vectors, features, schema_changes, vacuum
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows import earlier_log
from spark_jobs.engine.rows.restatement import files_overlapping
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.engine.silver import replay_task, silver_job, silver_task
from spark_jobs.engine.silver.inherited_plan import InheritancePlan
from spark_jobs.engine.silver.replay_task import (
    ComparedRows,
    FailedReplay,
    KeptRows,
    ReplacedRows,
    ReplayedFiles,
    ReplayedRange,
)
from spark_jobs.engine.silver.silver_plan import PreparedCompaction, with_lacking_columns
from spark_jobs.engine.silver.silver_task import SilverUnit, SilverWindow, WindowResult
from spark_jobs.errors import PartialWindow
from spark_jobs.lake.ranges import joined
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.projection import projection_of
from spark_jobs.silver.replayed_parts import ReplayedPart, parts_of
from spark_jobs.silver.row_values import ColumnLeftOut
from spark_jobs.silver.statement_commits import definition_after
from spark_jobs.silver.table_timeline import SchemaChange, schema_changes_in


@dataclass(frozen=True, slots=True)
class ReplayedWindows:
    """Present content of some windows by the log, as data files that no commit names yet.

    snapshot: silver at the head that the replay is planned on. design: with the columns that the files have.
    """

    work: CompactionJob
    snapshot: Snapshot
    design: Snapshot
    results: Sequence[WindowResult]
    windows: tuple[ReplayedRange, ...]

    @property
    def files(self) -> list[DataFile]:
        return [result.file for result in self.results if result.file]

    @property
    def rows(self) -> int:
        return sum(file.num_records or 0 for file in self.files)

    @property
    def changes_design(self) -> bool:
        return self.design is not self.snapshot

    def discard(self) -> None:
        """Remove the files, which no commit will name."""
        vacuum.remove(self.snapshot.path, (file.location(self.snapshot.path) for file in self.files))


@dataclass(frozen=True, slots=True)
class ComparedWindows:
    """Rows of both sides that differ, and the rows of silver that are in the windows."""

    rows: int = 0
    new: int = 0
    removed: int = 0
    replaced: tuple[ReplacedRows, ...] = field(default=())


def decode_windows(
    spark: SparkSession, work: CompactionJob, columns: silver.Columns, capacity: Capacity, *, is_renewed: bool = False
) -> ReplayedWindows:
    """Decode the windows of a job.

    columns: those that silver is to have. is_renewed: whether all rows and columns are replaced by what is decoded.
    Raises what stops the table; PartialImage where silver does not have the column that rows without some need.
    """
    assert work.head is not None
    snapshot = snapshot_of(work.table.path, work.head.version)
    assert snapshot is not None
    features.require_written(snapshot)
    design = _design(snapshot, columns, is_renewed=is_renewed)
    unit = _unit(work, columns, design)
    (valued,) = silver_job.with_values([unit])
    all_results = silver_job.run(spark, work.window.table.path, [valued], capacity)[0]
    if any(isinstance(result.error, PartialWindow) for result in all_results):
        # Changes lack columns that slices of other tasks may have.
        valued = replace(valued, unit=replace(valued.unit, is_undivided=True))
        all_results = silver_job.run(spark, work.window.table.path, [valued], capacity)[0]
    if any(isinstance(result.error, ColumnLeftOut) for result in all_results):
        # Rules ask for columns that changes before and between the windows may have.
        (valued,) = silver_job.with_values([_with_earlier_log(unit)])
        all_results = silver_job.run(spark, work.window.table.path, [valued], capacity)[0]
    silver_task.require_written(all_results)
    # Parts of what a statement brought are in the results of that.
    results = [result for result in all_results if valued.unit.windows[result.window].into is None]
    inherited = [change.range for change in _renames(work)]
    windows = [ReplayedRange(log_range) for log_range in work.window.ranges]
    windows += [ReplayedRange(log_range, is_inherited=True) for log_range in inherited]
    return ReplayedWindows(work, snapshot, design, results, tuple(windows))


def _design(snapshot: Snapshot, columns: silver.Columns, *, is_renewed: bool) -> Snapshot:
    if is_renewed:
        return schema_changes.redesigned(snapshot, columns.stored)
    return with_lacking_columns(snapshot) if columns.has_partial else snapshot


def _renames(work: CompactionJob) -> list[SchemaChange]:
    """The statement by which the table has its name, where the rows that came with it are to be replayed."""
    return [
        step for step in work.steps if isinstance(step, SchemaChange) and step.inherited and step.range == work.replay
    ]


def window_of(work: CompactionJob, part: ReplayedPart, columns: silver.Columns, design: Snapshot) -> SilverWindow:
    """Windows that are decoded by the definition of their time, into the columns of a design. Raises TableStopped."""
    definition = part.state.definition
    assert definition is not None
    return SilverWindow(
        definition,
        work.columns_of(part.state),
        part.window.ranges,
        design.schema,
        design.configuration,
        masks=masks_of(definition, work.filters.columns) or None,
        filters=work.change_filters(definition) or None,
        projection=RowProjection.of(part.projection(work)),
        skips=work.filters.skips,
        present=columns,
    )


def _unit(work: CompactionJob, columns: silver.Columns, design: Snapshot) -> PreparedCompaction:
    """The windows of a job, by the definitions of their time. Raises TableStopped, LakeError, DecodeError."""
    windows, slices = list[SilverWindow](), []
    ranges, oldest = work.window.ranges, work.window.oldest
    index = None
    if ranges:
        within = work.window.extent
        cuts = work.window.cuts
        index = read_effective(work.window.table, work.window.version, within, oldest or within.start, cuts)
    # Each part with the definition of its rows, and the way from there to the present columns.
    for part in parts_of(work, columns):
        assert index is not None
        windows.append(window_of(work, part, columns, design))
        slices.append(index.slices_of_table(work.name, part.window.ranges, work.filters.skips))
    # Rows that came with the name are one more window, whose parts lie behind it.
    plan = InheritancePlan(work, windows, slices)
    for change in _renames(work):
        plan.add(change, plan.add_window(_inherited_window(work, change, columns, design)))
    unit = SilverUnit(0, str(work), work.table.path, tuple(plan.windows))
    return PreparedCompaction(work, unit, design, (), tuple(plan.slices), None, tuple(plan.files))


def _with_earlier_log(unit: PreparedCompaction) -> PreparedCompaction:
    """The windows in one task, with the log before each definition's. Raises LakeError, DecodeError."""
    windows, slices = [*unit.unit.windows], [*unit.slices]
    for at, window in enumerate(windows):
        has_rules = window.into is None and window.inherited is None and (window.filters or window.masks)
        if not has_rules:
            continue
        before, earlier = earlier_log.slices_before(unit.work, window.definition, window.ranges)
        windows[at] = replace(window, earlier=before.ranges, loads=earlier_log.loaded_files(unit.work.table, before))
        numbered = earlier_log.numbered_from(earlier, len(window.ranges))
        slices[at] = in_order_of_effect(pa.concat_tables([numbered, slices[at]]))
    return replace(unit, unit=replace(unit.unit, windows=tuple(windows), is_undivided=True), slices=tuple(slices))


def _inherited_window(
    work: CompactionJob, change: SchemaChange, columns: silver.Columns, design: Snapshot
) -> SilverWindow:
    definition = definition_after(change)
    later = schema_changes_in(work.steps[work.steps.index(change) + 1 :])
    return SilverWindow(
        definition,
        silver.columns(definition, has_partial=work.has_partial),
        (change.range,),
        design.schema,
        design.configuration,
        projection=RowProjection.of(projection_of(change.state.columns.types, later)),
        present=columns,
    )


def compare_with_silver(spark: SparkSession, replayed: ReplayedWindows, capacity: Capacity) -> ComparedWindows:
    """The rows of the windows beside those that silver holds. Raises LakeError."""
    tasks = list(_tasks(replayed, capacity))
    results = spark_job.run(spark, tasks, replay_task.work, replay_task.finish, max(1, _buckets(replayed, capacity)))
    require_done(results)
    counts = [result for result in results if isinstance(result, ComparedRows)]
    replaced = tuple(result for result in results if isinstance(result, ReplacedRows))
    return ComparedWindows(
        sum(count.rows for count in counts),
        sum(count.new for count in counts),
        sum(count.removed for count in counts),
        replaced,
    )


def require_done(results: Iterable[Any]) -> None:
    """Raise the error of a task that could not read or write its rows, if there is one."""
    for result in results:
        if isinstance(result, FailedReplay):
            raise result.error


def _present_files(replayed: ReplayedWindows) -> list[DataFile]:
    """Silver's files that may have rows of the windows."""
    snapshot = replayed.snapshot
    return files_overlapping(snapshot.files, snapshot.schema, [window.range for window in replayed.windows])


def _buckets(replayed: ReplayedWindows, capacity: Capacity) -> int:
    size = silver_job.UNPACKED * sum(file.size for file in (*replayed.files, *_present_files(replayed)))
    return min(-(-size // capacity.task_bytes), 1 << 12)


def _tasks(replayed: ReplayedWindows, capacity: Capacity) -> Iterator[ReplayedFiles]:
    path, buckets = replayed.snapshot.path, max(1, _buckets(replayed, capacity))
    target = capacity.task_bytes / silver_job.UNPACKED
    windows = tuple(
        ReplayedRange(log_range, is_inherited=is_inherited)
        for is_inherited in (False, True)
        for log_range in joined([window.range for window in replayed.windows if window.is_inherited == is_inherited])
    )
    sides = ((replayed.files, True), (_present_files(replayed), False))
    # Both sides are read by the columns that the new files have: what silver lacks is NULL there.
    for files, is_new in sides:
        for group in spark_job.packed(files, lambda file: file.size, target):
            yield ReplayedFiles(path, group, replayed.design.schema, buckets, windows, is_new)


def arguments_to_replace_windows(
    spark: SparkSession, replayed: ReplayedWindows, comparison: ComparedWindows
) -> dict[str, Any]:
    """The arguments of the commit that puts the new rows in the place of silver's. Raises LakeError."""
    changes = arguments_to_remove_rows(spark, replayed.snapshot, replayed.design.schema, comparison.replaced)
    added = [*replayed.files, *changes["adds"]]
    return _arguments(replayed, added, changes["removes"]) | {"dv_updates": changes["dv_updates"]}


def arguments_to_remove_rows(
    spark: SparkSession, snapshot: Snapshot, schema: TableSchema, all_rows: Sequence[ReplacedRows]
) -> dict[str, Any]:
    """The arguments of a commit by which rows go: files, and deletion vectors of others or these written again.

    schema: the table's after the commit. Raises LakeError.
    """
    removed = [rows.file for rows in all_rows if rows.is_whole]
    partial = [rows for rows in all_rows if not rows.is_whole]
    if not partial or snapshot.has_deletion_vectors:
        return {"adds": [], "removes": removed, "dv_updates": _files_with_vectors(snapshot, partial)}
    configuration = dict(snapshot.configuration)
    tasks = [KeptRows(snapshot.path, rows, schema, configuration) for rows in partial]
    results = spark_job.run(spark, tasks, replay_task.file_without_replaced)
    require_done(results)
    return {"adds": results, "removes": [*removed, *(rows.file for rows in partial)], "dv_updates": []}


def _files_with_vectors(
    snapshot: Snapshot, partial: Sequence[ReplacedRows]
) -> list[tuple[DataFile, deletion_vectors.Descriptor]]:
    """Files with deletion vectors of the rows that go, and of those that went before."""
    vectors = []
    for rows in partial:
        vector = BitMap64.deserialize(rows.rows)
        if rows.file.deletion_vector is not None:
            vector |= deletion_vectors.read(snapshot.path, rows.file.deletion_vector)
        vectors.append(vector)
    descriptors = deletion_vectors.write(snapshot.path, vectors, snapshot.configuration)
    return [(rows.file, descriptor) for rows, descriptor in zip(partial, descriptors, strict=True)]


def arguments_to_replace_all(replayed: ReplayedWindows) -> dict[str, Any]:
    """The arguments of the commit that puts the new rows in the place of all that silver has."""
    return _arguments(replayed, replayed.files, replayed.snapshot.files)


def _arguments(replayed: ReplayedWindows, added: Sequence[DataFile], removed: Sequence[DataFile]) -> dict[str, Any]:
    metadata = {"metadata": replayed.design.metadata, "protocol": replayed.design.protocol}
    metrics = {"numFiles": len(added), "numOutputRows": replayed.rows, "numRemovedFiles": len(removed)}
    changes = metadata if replayed.changes_design else {}
    return {"adds": list(added), "removes": list(removed), "metrics": metrics} | changes
