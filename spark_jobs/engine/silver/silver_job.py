"""Job of compacting bronze into many silver tables: its tasks, and a commit per table and window.

Put here: tasks from units, and the commits of what tasks wrote. Not here: units and their stages (silver_plan.py), what
tasks do (silver_task.py).
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.bronze.index import SliceIndex
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange
from spark_jobs.engine.rows.fills import ColumnFill, write
from spark_jobs.engine.rows.inherited_rows import InheritedFiles
from spark_jobs.engine.silver import silver_task
from spark_jobs.engine.silver.silver_plan import PreparedCompaction, Stage, stopped_before_failures
from spark_jobs.engine.silver.silver_task import Refill, SilverTask, SilverUnit, StoredRows, WindowResult
from spark_jobs.errors import StratalogError
from spark_jobs.lake.commit import CommitKind, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import NOT_FOLDED, SilverCommit
from spark_jobs.silver.compaction_job import Compacted, CompactionJob, by_rule, compacted_total
from spark_jobs.silver.positions import STATEMENT_ROW
from spark_jobs.silver.statement_commits import schema_change_commit
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TimelineStep

_REFILLED_BYTES = 32 << 20
"""Bytes of silver's files that one task writes again at most."""
_LEAST_TASK_BYTES = 2 << 20
"""Bytes of log below which a task of its own gains nothing."""
UNPACKED = 4
"""Bytes of rows that a byte of a data file holds, about."""
_UNIT_BYTES = 128 << 10
"""Cost of a unit besides its rows, as bytes of log: two files of Parquet take some milliseconds."""


def run_until_stopped(
    spark: SparkSession, index: SliceIndex, bronze: str, units: Sequence[PreparedCompaction], capacity: Capacity
) -> tuple[list[tuple[PreparedCompaction, list[WindowResult]]], list[tuple[PreparedCompaction, StratalogError]]]:
    """Units with what tasks wrote of them, and those that nothing can be committed of, with the reason.

    A unit whose tasks meet a transaction that they cannot take is repeated up to there. Each such round moves the
    stop of a unit towards its beginning. index: the log's slices, by which units are shortened.
    """
    completed: list[tuple[PreparedCompaction, list[WindowResult]]] = []
    refused: list[tuple[PreparedCompaction, StratalogError]] = []
    # A round a job: units that failed are shortened, and go into the next one.
    waiting = with_values(units)
    while waiting:
        results = run(spark, bronze, waiting, capacity)
        shortened = []
        for unit in waiting:
            try:
                remaining = stopped_before_failures(unit, results[unit.unit.number], index)
            except StratalogError as error:
                refused.append((unit, error))
                continue
            if remaining is unit:
                completed.append((unit, results[unit.unit.number]))
            else:
                shortened.append(remaining)
        waiting = with_values(shortened)
    return completed, refused


def run(
    spark: SparkSession, bronze: str, units: Sequence[PreparedCompaction], capacity: Capacity
) -> dict[int, list[WindowResult]]:
    """Results of tasks, by unit, of units with the values that statements fill in. bronze: the table's path.

    A second job, and further ones, have the units in which a statement brings rows that an earlier job has written.
    """
    by_unit: dict[int, list[WindowResult]] = defaultdict(list)
    refills = [refill for unit in units for refill in _refills(unit)]
    for depth in range(1 + max((max(unit.depths, default=0) for unit in units), default=0)):
        parts = [
            unit.at_depth(depth, by_unit[unit.unit.number])
            for unit in units
            if not depth or (depth in unit.depths and not any(result.error for result in by_unit[unit.unit.number]))
        ]
        tasks, buckets, assigned = tasks_of(bronze, parts, capacity)
        finish = silver_task.finish({unit.number: unit for unit in assigned}) if buckets else None
        for result in spark_job.run(spark, [*tasks, *refills], silver_task.work, finish, buckets):
            by_unit[result.unit].append(result)
        refills = []
    return by_unit


def with_values(units: Sequence[PreparedCompaction]) -> list[PreparedCompaction]:
    """The units with the values that statements fill in."""
    values = fills.values_by_expression(sql for unit in units for sql in unit.expressions())
    return [unit.valued(values) for unit in units]


def _refills(unit: PreparedCompaction) -> Iterator[Refill]:
    """The files that are there in tasks of so many bytes, where a statement fills columns of theirs."""
    all_fills = tuple(fill for stage in unit.stages for fill in stage.fills)
    snapshot, files, size = unit.snapshot, list[DataFile](), 0
    for file in snapshot.files if all_fills else ():
        files.append(file)
        size += file.size
        if size >= _REFILLED_BYTES or file is snapshot.files[-1]:
            yield Refill(
                unit.unit.number, snapshot.path, tuple(files), snapshot.schema, snapshot.configuration, all_fills
            )
            files, size = [], 0


def tasks_of(
    bronze: str, units: Sequence[PreparedCompaction], capacity: Capacity
) -> tuple[list[SilverTask | StoredRows], int, list[SilverUnit]]:
    """The tasks of a job, how many buckets its second step has, and the units that have a part in that.

    The log is divided where row groups of bronze end, so that a task reads each row group once for all of its units.
    """
    # Slices hold rows of several tables: what the units have together is less than the sum of what each reads.
    row_groups = _row_groups_of(units)
    sizes = _row_group_bytes(units, row_groups)
    log_bytes, unit_bytes = sum(sizes.values()), [unit.bytes for unit in units]
    shared = log_bytes / max(1, sum(unit_bytes))
    target = capacity.share(log_bytes + len(units) * _UNIT_BYTES, _LEAST_TASK_BYTES)
    chunks = _log_chunks([unit for unit in units if not unit.is_ordered], row_groups, sizes, target)
    for unit in units:
        if unit.is_ordered:
            chunks.append([WindowSlices(unit.unit.number, at, table) for at, table in enumerate(unit.slices)])
    homes: dict[int, set[int]] = defaultdict(set)
    for at, chunk in enumerate(chunks):
        for part in chunk:
            homes[part.unit].add(at)
    assigned, buckets = _with_inherited(
        [(unit.unit, size * shared + _file_bytes(unit)) for unit, size in zip(units, unit_bytes, strict=True)],
        {number for number, task_buckets in homes.items() if len(task_buckets) > 1}
        | {unit.unit.number for unit in units if unit.has_inherited},
        capacity,
    )
    tasks: list[SilverTask | StoredRows] = [
        task for chunk in chunks for task in _tasks(bronze, chunk, assigned, target)
    ]
    tasks += [task for unit in units for task in _stored_rows(assigned[unit.unit.number], unit.files, capacity)]
    return tasks, buckets, [unit for unit in assigned.values() if unit.buckets]


def _file_bytes(unit: PreparedCompaction) -> int:
    """Size of rows of silver's files, about, when they are not compressed any more."""
    return UNPACKED * sum(files.bytes for files in unit.files)


def _stored_rows(unit: SilverUnit, all_files: Iterable[InheritedFiles], capacity: Capacity) -> Iterator[StoredRows]:
    """Tasks that read the files whose rows statements bring."""
    for files in all_files:
        groups = spark_job.packed(files.files, lambda file: file.size, capacity.task_bytes / UNPACKED)
        yield from (StoredRows(unit, replace(files, files=group)) for group in groups)


def _with_inherited(
    shares: Sequence[tuple[SilverUnit, float]], shuffled: set[int], capacity: Capacity
) -> tuple[dict[int, SilverUnit], int]:
    """The units by number, those that several tasks decode with the buckets of their keys; and how many there are.

    shares: bytes of the log that are each unit's.
    """
    total = sum(share for unit, share in shares if unit.number in shuffled)
    buckets = max(capacity.slots, math.ceil(total / capacity.task_bytes)) if shuffled else 0
    assigned, begin = dict[int, SilverUnit](), 0
    for unit, share in shares:
        unit_buckets: tuple[int, ...] = ()
        if unit.number in shuffled:
            count = min(buckets, max(1, math.ceil(share * buckets / max(1, total))))
            unit_buckets, begin = tuple((begin + at) % buckets for at in range(count)), begin + count
        assigned[unit.number] = replace(unit, buckets=unit_buckets)
    return assigned, buckets


@dataclass(frozen=True, slots=True)
class WindowSlices:
    """Slices of one window of a unit, in the order in which they take effect: rows of ``bronze.index.OF_TABLE``."""

    unit: int
    window: int
    slices: pa.Table


RowGroup = tuple[int, int, str, int]
"""Stretch and number of the log's file, data file of bronze, row group in it: their order is the log's."""


def _row_groups(slices: pa.Table) -> list[RowGroup]:
    """Row group of each slice."""
    positions = [slices.column(name).to_pylist() for name in ("stretch", "number", "data_file", "row_group")]
    return list(zip(*positions, strict=True))


RowGroups = Mapping[tuple[int, int], list[RowGroup]]
"""Row group of each slice, by unit and window."""


def log_bytes(units: Sequence[PreparedCompaction]) -> int:
    """Bytes of log that the tasks of units read."""
    return sum(_row_group_bytes(units, _row_groups_of(units)).values())


def _row_groups_of(units: Sequence[PreparedCompaction]) -> RowGroups:
    return {
        (unit.unit.number, window): _row_groups(slices) for unit in units for window, slices in enumerate(unit.slices)
    }


def _row_group_bytes(units: Iterable[PreparedCompaction], row_groups: RowGroups) -> dict[RowGroup, int]:
    """Bytes of log that the units read of each row group, those that several read once."""
    sizes: dict[RowGroup, int] = defaultdict(int)
    for unit in units:
        for window, slices in enumerate(unit.slices):
            unit_sizes: dict[RowGroup, int] = defaultdict(int)
            slice_sizes = slices.column("bytes").to_pylist()
            for row_group, size in zip(row_groups[unit.unit.number, window], slice_sizes, strict=True):
                unit_sizes[row_group] += size
            for row_group, size in unit_sizes.items():
                sizes[row_group] = max(sizes[row_group], size)
    return sizes


def _log_chunks(
    units: Sequence[PreparedCompaction], row_groups: RowGroups, sizes: Mapping[RowGroup, int], target: int
) -> list[list[WindowSlices]]:
    """The log in parts of so many bytes, which end where row groups do: what each unit has in each."""
    number_of, chunk, filled = dict[RowGroup, int](), 0, 0
    for key in sorted(sizes):
        if filled and filled + sizes[key] > target:
            chunk, filled = chunk + 1, 0
        number_of[key] = chunk
        filled += sizes[key]
    chunks: list[list[WindowSlices]] = [[] for _ in range(chunk + 1)]
    for unit in units:
        for window, slices in enumerate(unit.slices):
            own_chunks = np.array([number_of[key] for key in row_groups[unit.unit.number, window]], np.int64)
            for at in np.unique(own_chunks):
                rows = slices.take(pa.array(np.flatnonzero(own_chunks == at)))
                chunks[at].append(WindowSlices(unit.unit.number, window, rows))
    return [chunk for chunk in chunks if chunk]


def _tasks(
    bronze: str, chunk: Sequence[WindowSlices], units: Mapping[int, SilverUnit], target: int
) -> Iterator[SilverTask]:
    """The tasks of a part of the log: several where it has so many units that these cost more than its bytes."""
    slices: dict[int, dict[tuple[int, int], pa.Table]] = defaultdict(dict)
    for part in chunk:
        slices[part.unit][part.unit, part.window] = part.slices
    limit = max(1, target // _UNIT_BYTES)
    numbers = list(slices)
    for start in range(0, len(numbers), limit):
        unit_numbers = numbers[start : start + limit]
        unit_slices = {at: table for unit in unit_numbers for at, table in slices[unit].items()}
        yield SilverTask(bronze, tuple(units[unit] for unit in unit_numbers), unit_slices)


def may_change(snapshot: Snapshot, file: DataFile, change: ExactTextChange) -> bool:
    """True if a change is about rows of a file of silver."""
    if change.absent and silver.ABSENT not in snapshot.schema.names:  # it gets the column with a later window
        return False
    if change.absent:
        return file.may_have_values(snapshot.schema, silver.ABSENT)
    return change.is_of_all_rows or file.may_have_values(snapshot.schema, "_raw")


Rewriting = Callable[[Sequence[Refill]], list[WindowResult]]
"""Writes files of a unit again, in tasks."""


def commit(unit: PreparedCompaction, results: Sequence[WindowResult], rewriting: Rewriting | None = None) -> Compacted:
    """Commit what tasks wrote of a unit, a window or statement after the other.

    rewriting: for statements that change exact texts of rows; in this process without it. Raises LostRace, LakeError.
    """
    began = time.monotonic()
    work, head = unit.work, unit.work.head
    compacted: list[Compacted] = []
    contents = _Contents(unit, results, rewriting or _in_this_process)
    # One commit a stage, in the order of the log, so that a failure leaves a prefix of it.
    for at, stage in enumerate(unit.stages):
        is_new = head is None or stage.overwrites
        before = (
            work.table.unwritten_head(stage.columns.stored, silver.properties(work.table), head) if is_new else head
        )
        assert before is not None
        stage_results = [result for result in results if result.window == stage.window]
        new_commit, left_out = _commit_of(work, stage, stage_results)
        changes = contents.changes_of(at)
        head = _committed(work.table, contents.snapshot, new_commit, head=before, stage=stage, changes=changes)
        contents.landed(head.version, changes)
        compacted.append(_summary(work, stage.step, head, stage_results if stage.window is not None else (), left_out))
    assert head is not None
    seconds = time.monotonic() - began + sum(result.seconds for result in results)
    result = compacted_total(work, head, compacted, seconds)
    if unit.ended is None:
        return result
    start = work.window.extent.start
    return replace(result, range=Range(start, max(start, unit.ended.at)), stopped=unit.ended)


def refill_results(spark: SparkSession, refills: Sequence[Refill]) -> list[WindowResult]:
    """Files written again by a job of their own."""
    return spark_job.run(spark, refills, silver_task.work)


def _in_this_process(refills: Sequence[Refill]) -> list[WindowResult]:
    outcomes = (outcome for refill in refills for outcome in silver_task.work(refill))
    return [outcome for outcome in outcomes if isinstance(outcome, WindowResult)]


class _Contents:
    """A silver table's files while the commits of a unit follow each other."""

    def __init__(self, unit: PreparedCompaction, results: Sequence[WindowResult], rewriting: Rewriting) -> None:
        self.snapshot = unit.snapshot
        self._unit = unit
        self._results = results
        self._rewriting = rewriting
        self._files = {file.key: file for file in unit.snapshot.files} if _changes_files(unit) else {}
        self._is_refilled = False

    def changes_of(self, at: int) -> dict[str, Any]:
        """The arguments of a stage's commit: files that come and go. Raises LakeError."""
        stage, before = self._unit.stages[at], self.snapshot
        later_fills = [fill for later in self._unit.stages[at:] for fill in later.fills]
        added = _markers(stage, later_fills)
        if stage.window is not None:
            added += [result.file for result in self._results if result.window == stage.window and result.file]
        # Counted before files are written again for a statement: rows of the window, not those that were there.
        metrics = {"numFiles": len(added), "numOutputRows": sum(file.num_records or 0 for file in added)}
        # Columns after the stage's statement. The first commit of a table has its own metadata.
        if self.snapshot.version >= 0:
            self.snapshot = replace(before, metadata=stage.design.metadata, protocol=stage.design.protocol)
        removed, refilled_files = list[DataFile](), list[DataFile]()
        if stage.overwrites:
            removed = [*self._unit.snapshot.files]
        # Rows that were there before the unit are filled once, by the first stage that fills a column, for all stages.
        # Files that an earlier statement has written again have the values already.
        if stage.fills and not self._is_refilled:
            self._is_refilled, removed = True, [file for file in self._unit.snapshot.files if file.key in self._files]
            paths = {file.path for file in removed}
            refilled = (result for result in self._results if result.window == silver_task.REFILLED)
            refilled_files = [result.file for result in refilled if result.file and result.replaced in paths]
            added += refilled_files
        # Exact texts change with each statement: a run that ends between two must not change them twice.
        if stage.exact:
            present = [*self._present_without(removed), *refilled_files]
            removed, added = self._with_exact_texts(stage, before, present, later_fills, (removed, added))
        return {"adds": added, "removes": removed, "metrics": metrics}

    def landed(self, version: int, changes: Mapping[str, Any]) -> None:
        """Store a commit's version and the files after it."""
        self.snapshot = replace(self.snapshot, version=version)
        for file in changes["removes"]:
            self._files.pop(file.key, None)
        self._files |= {file.key: file for file in changes["adds"]}
        self.snapshot = self.snapshot.with_files(self._files.values())

    def _present_without(self, removed: Sequence[DataFile]) -> list[DataFile]:
        keys = {file.key for file in removed}
        return [file for file in self._files.values() if file.key not in keys]

    def _with_exact_texts(
        self,
        stage: Stage,
        before: Snapshot,
        present: Sequence[DataFile],
        later_fills: Sequence[ColumnFill],
        changes: tuple[list[DataFile], list[DataFile]],
    ) -> tuple[list[DataFile], list[DataFile]]:
        """Files that go and come (changes), with rows written again whose exact texts a statement changes.

        present: the files of the table as the statement finds them, refilled ones among them.
        """
        removed, added = changes
        concerned = [file for file in present if any(may_change(before, file, change) for change in stage.exact)]
        if not concerned:
            return removed, added
        task = Refill(
            self._unit.unit.number,
            before.path,
            tuple(concerned),
            before.schema,
            before.configuration,
            tuple(later_fills),
            stage.exact,
        )
        rewritten_files = self._rewriting([task])
        for result in rewritten_files:
            if result.error:
                raise result.error
        # A file that the commit would have added is not added; one that is there is removed.
        keys = {file.key for file in concerned}
        other_files = [file for file in added if file.key not in keys]
        new = [result.file for result in rewritten_files if result.file]
        return [*removed, *(file for file in concerned if file.key in self._files)], [*other_files, *new]


def _changes_files(unit: PreparedCompaction) -> bool:
    """True if a stage writes files again that are there; those of the table are not listed else."""
    return any(stage.fills or stage.exact or stage.overwrites for stage in unit.stages)


def _commit_of(
    work: CompactionJob, stage: Stage, results: Iterable[WindowResult]
) -> tuple[SilverCommit, dict[str, int]]:
    """Commit of a stage, and what rules left out of it."""
    step = stage.step
    if isinstance(step, DataRange):
        filtered = sum((Counter(result.filtered) for result in results), Counter[str]())
        left_out = work.filters.skipped_in([step.range]) | filtered
        new_commit = work.commit(step.range, step.state, stage.columns, left_out)
        if stage.kind == CommitKind.RESET:
            is_unknown = step.state.definition is None
            new_commit = replace(new_commit, kind=stage.kind, has_unknown_columns=is_unknown, folded_to=NOT_FOLDED)
    else:
        new_commit, left_out = schema_change_commit(work, step, stage.columns, stage.steps), by_rule(step)
    return replace(new_commit, is_overwrite=stage.overwrites), left_out


def _markers(stage: Stage, fills: Sequence[ColumnFill]) -> list[DataFile]:
    """Files by ``marker_files``, of a stage. fills: of its statement and of later ones, which rows before these get."""
    step = stage.step
    return marker_files(stage.design, [step] if isinstance(step, SchemaChange) and step.empties else [], fills)


def marker_files(design: Snapshot, changes: Sequence[SchemaChange], fills: Sequence[ColumnFill] = ()) -> list[DataFile]:
    """The rows of statements that empty a table, as a data file; none where there are none.

    design: the table with the columns that the rows have.
    """
    if not changes:
        return []
    schema = design.schema
    cells = [_marker(change) for change in changes]
    rows = pa.Table.from_pylist(
        [{name: cell.get(name) for name in schema.names} for cell in cells], schema.arrow(physical=False)
    )
    return [write(design.path, rows, schema, design.configuration, fills)]


def _marker(change: SchemaChange) -> dict[str, Any]:
    """The row of a statement."""
    start, stop = change.range.start.order, change.range.stop.order
    position = ("stretch", "number", "offset")
    return {
        "_op": silver.Op.TRUNCATE,
        "_position": dict(zip(position, start, strict=True)) | {"row": STATEMENT_ROW},
        "_committed_at": change.statement.committed_at if change.statement else None,
        "_window_start": dict(zip(position, start, strict=True)),
        "_window_stop": dict(zip(position, stop, strict=True)),
    }


def _committed(
    table: Table,
    snapshot: Snapshot,
    new_commit: SilverCommit,
    *,
    head: Head,
    stage: Stage,
    changes: Mapping[str, Any],
) -> Head:
    """One commit. changes: of ``delta.commits.commit``. Raises LostRace where another writer was first."""
    return table.land(
        snapshot,
        head,
        new_commit,
        metadata=snapshot.metadata if stage.changes_design else None,
        protocol=snapshot.protocol if stage.changes_design else None,
        operation_parameters={"mode": "Overwrite" if stage.overwrites else "Append", "partitionBy": "[]"},
        **changes,
    )


def _summary(
    work: CompactionJob, step: TimelineStep, head: Head, results: Sequence[WindowResult], left_out: Mapping[str, int]
) -> Compacted:
    newest = max((result.newest_us for result in results if result.newest_us is not None), default=None)
    return Compacted(
        source=work.source,
        name=work.name,
        range=step.range,
        head=head,
        changes=sum(result.changes for result in results),
        inserts=sum(result.inserts for result in results),
        updates=sum(result.updates for result in results),
        deletes=sum(result.deletes for result in results),
        committed_at=None if newest is None else datetime.fromtimestamp(newest / 1e6, UTC),
        left_out=dict(left_out),
    )
