"""Bronze -> silver for many tables in one Spark job: what its tasks are, and a commit a table and window.

Put here: units and tasks from what a run has planned, and the commits of what tasks wrote. Not here: what tasks do
(silver_task.py), which tables come this way (routing.py).
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.delta import data_files, schema_changes
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table, snapshot_of
from spark_jobs.engine import fills, routing, silver_task, spark_job
from spark_jobs.engine.fills import ColumnFill, schema_with, with_fills
from spark_jobs.engine.silver_task import Refill, SilverTask, SilverUnit, SilverWindow, WindowResult
from spark_jobs.engine.spark_job import Capacity
from spark_jobs.errors import StratalogError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.silver import schema_evolution
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import Compacted, CompactionJob, by_rule, total
from spark_jobs.silver.statement_commits import reshaping, turn_commit
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TimelineStep

_REFILLED_BYTES = 32 << 20
"""Bytes of silver's files that one task writes again at most."""
_LEAST_TASK_BYTES = 2 << 20
"""Bytes of log below which a task of its own gains nothing."""
_UNIT_BYTES = 128 << 10
"""What a unit costs beside its rows, as bytes of log: two files of Parquet take some milliseconds."""


class BySparkSql(Exception):
    """Spark SQL takes the table; why is the text."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One commit of a unit: a window's files, or a statement, with what the table is after it.

    window: its number in the unit; None for a statement.
    """

    step: TimelineStep
    columns: silver.Columns
    design: Snapshot
    """With the metadata and protocol that the table has after the commit; its version counts for nothing."""
    changes_design: bool = False
    window: int | None = None
    steps: tuple[str, ...] = ()
    """What a statement does to the columns."""
    fills: tuple[ColumnFill, ...] = ()
    """Columns that it adds, with what rows before it have there."""
    needs_no_exact: bool = False
    """Whether the stage is right only where no row before it has an exact text (``_raw``)."""


@dataclass(frozen=True, slots=True)
class PreparedCompaction:
    """A table's work as a unit of a job, upon a snapshot of its silver table."""

    work: CompactionJob
    unit: SilverUnit
    snapshot: Snapshot
    stages: tuple[Stage, ...]
    slices: tuple[pa.Table, ...]
    """By window: where its slices lie (bronze/index.py)."""

    @property
    def bytes(self) -> int:
        return sum(pc.sum(table.column("bytes")).as_py() or 0 for table in self.slices)

    @property
    def is_ordered(self) -> bool:
        """Whether one task has to take all slices: rows of an XA transaction are numbered one after the other."""
        return any(table.column("effect_start").null_count < len(table) for table in self.slices)


def prepared(
    works: Iterable[CompactionJob], index: SliceIndex
) -> tuple[list[PreparedCompaction], dict[TableName, str]]:
    """The units of those tables that the engine takes; of the others why not."""
    units: list[PreparedCompaction] = []
    by_sql: dict[TableName, str] = {}
    for work in works:
        unit_or_reason = _prepared(len(units), work, index)
        if isinstance(unit_or_reason, PreparedCompaction):
            units.append(unit_or_reason)
        else:
            by_sql[work.name] = unit_or_reason
    return units, by_sql


def _prepared(number: int, work: CompactionJob, index: SliceIndex) -> PreparedCompaction | str:
    """The unit, or why Spark SQL takes the table: it stops there in its place where it has to stop."""
    # Reasons are tested before any slice is read: what the engine does not take goes to Spark SQL whole.
    try:
        stored = snapshot_of(work.table.path, work.head.version) if work.head else None
        reason = routing.why_silver_by_sql(work, stored.schema.names if stored else ())
        if reason:
            return reason
        snapshot = stored or _new(work)
        reason = routing.why_not_written(snapshot, appends=True)
        if reason:
            return reason
        # Files that are there already concern those statements alone that change or test their rows.
        stages = tuple(_stages(work, snapshot))
        asks_rows = any(stage.fills or stage.needs_no_exact for stage in stages)
        reason = routing.why_not_written(snapshot) if asks_rows else None
        if reason:
            return reason
        _require_distinct_fills(snapshot, stages)
    except (StratalogError, BySparkSql) as error:
        return str(error)
    # A window's rows get the fills of all later statements here: silver's files are not written a second time.
    windows = tuple(
        SilverWindow(
            definition=_definition(stage),
            columns=stage.columns,
            ranges=(stage.step.range,),
            schema=stage.design.schema,
            configuration=stage.design.configuration,
            fills=tuple(fill for later in stages[at:] for fill in later.fills),
            masks=masks_of(_definition(stage), work.filters.columns) or None,
            ignored=work.filters.ignored_kinds(),
        )
        for at, stage in enumerate(stages)
        if stage.window is not None
    )
    unit = SilverUnit(number, str(work), work.table.path, windows, work.filters.skips)
    return PreparedCompaction(
        work, unit, snapshot, stages, tuple(index.of_table(work.name, window.ranges) for window in windows)
    )


def _require_distinct_fills(snapshot: Snapshot, stages: Sequence[Stage]) -> None:
    """Raises BySparkSql where a filled column has the name of another one that rows before it have."""
    before = {*snapshot.schema.names}
    for stage in stages:
        filled = {fill.column.name for fill in stage.fills}
        if filled & before:
            raise BySparkSql("a statement adds a column again, with a default, that another one dropped")
        before |= {*stage.design.schema.names}


def _definition(stage: Stage) -> TableDefinition:
    assert stage.step.standing.definition
    return stage.step.standing.definition


def _new(work: CompactionJob) -> Snapshot:
    """The table that the first commit makes."""
    first = work.columns_of(work.steps[0].standing)
    return new_table(work.table.path, first.stored, silver.properties(work.table))


def _stages(work: CompactionJob, snapshot: Snapshot) -> Iterator[Stage]:
    """The commits of a table's steps. Raises TableStopped, BySparkSql."""
    design, windows = snapshot, 0
    key = work.before.key_columns if work.before else work.columns_of(work.steps[0].standing).key
    for step in work.steps:
        if isinstance(step, DataRange):
            columns = work.columns_of(step.standing)
            if columns.stored != design.schema.spark_types:
                raise BySparkSql("its columns are others than the log says")  # where the table stops, with its message
            yield Stage(step, columns, design, window=windows)
            windows += 1
        else:
            names = [name for name in design.schema.names if name not in silver.ADDED]
            types = design.schema.spark_types
            reshaped = reshaping(work, silver.Columns({name: types[name] for name in names}, key), step)
            statements = [
                statement for statement in reshaped.remaining if not statement.endswith(schema_evolution.OF_EXACT)
            ]
            rest, filled = fills.split(statements)
            behind = schema_changes.apply(design, rest) if rest else design
            columns = reshaped.after
            yield Stage(
                step,
                columns,
                behind,
                changes_design=bool(rest),
                steps=tuple(reshaped.steps),
                fills=fills.fills_of(behind, filled),
                needs_no_exact=len(statements) < len(reshaped.remaining),
            )
            design = behind
        key = columns.key


def run(
    spark: SparkSession, bronze: str, units: Sequence[PreparedCompaction], capacity: Capacity
) -> dict[int, list[WindowResult]]:
    """What tasks wrote, by unit, of units with the values that statements fill in. bronze: the table's path."""
    tasks, buckets, placed = tasks_of(bronze, units, capacity)
    finish = silver_task.finish({unit.number: unit for unit in placed}) if buckets else None
    by_unit: dict[int, list[WindowResult]] = defaultdict(list)
    refills = [refill for unit in units for refill in _refills(unit)]
    all_tasks: list[SilverTask | Refill] = [*tasks, *refills]
    for result_file in spark_job.run(spark, all_tasks, silver_task.work, finish, buckets):
        by_unit[result_file.unit].append(result_file)
    return by_unit


def with_values(spark: SparkSession, units: Sequence[PreparedCompaction]) -> list[PreparedCompaction]:
    """The units with the values that statements fill in, which one query gives for all of them."""
    values = fills.evaluated(spark, (fill.sql for unit in units for stage in unit.stages for fill in stage.fills))
    valued_units = []
    for unit in units:
        stages = tuple(replace(stage, fills=fills.valued(stage.fills, values)) for stage in unit.stages)
        windows = tuple(replace(window, fills=fills.valued(window.fills, values)) for window in unit.unit.windows)
        valued_units.append(replace(unit, stages=stages, unit=replace(unit.unit, windows=windows)))
    return valued_units


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
) -> tuple[list[SilverTask], int, list[SilverUnit]]:
    """The tasks of a job, how many buckets its second step has, and the units that have a part in that.

    The log is divided where row groups of bronze end, so that a task reads each row group once for all of its units.
    """
    # Slices hold rows of several tables: what the units have together is less than the sum of what each reads.
    row_groups = {
        (unit.unit.number, window): _row_groups(slices) for unit in units for window, slices in enumerate(unit.slices)
    }
    sizes = _row_group_bytes(units, row_groups)
    log_bytes, unit_bytes = sum(sizes.values()), [unit.bytes for unit in units]
    shared = log_bytes / max(1, sum(unit_bytes))
    target = capacity.share(log_bytes + len(units) * _UNIT_BYTES, _LEAST_TASK_BYTES)
    chunks = _chunks([unit for unit in units if not unit.is_ordered], row_groups, sizes, target)
    for unit in units:
        if unit.is_ordered:
            chunks.append([WindowSlices(unit.unit.number, at, table) for at, table in enumerate(unit.slices)])
    homes: dict[int, set[int]] = defaultdict(set)
    for at, chunk in enumerate(chunks):
        for part in chunk:
            homes[part.unit].add(at)
    placed, buckets = _placed(
        [(unit.unit, size * shared) for unit, size in zip(units, unit_bytes, strict=True)],
        {number for number, task_buckets in homes.items() if len(task_buckets) > 1},
        capacity,
    )
    tasks = [task for chunk in chunks for task in _tasks(bronze, chunk, placed, target)]
    return tasks, buckets, [unit for unit in placed.values() if unit.buckets]


def _placed(
    shares: Sequence[tuple[SilverUnit, float]], shuffled: set[int], capacity: Capacity
) -> tuple[dict[int, SilverUnit], int]:
    """The units by number, those that several tasks decode with the buckets of their keys; and how many there are.

    shares: bytes of the log that are each unit's.
    """
    total = sum(share for unit, share in shares if unit.number in shuffled)
    buckets = max(capacity.slots, math.ceil(total / capacity.task_bytes)) if shuffled else 0
    placed, begin = dict[int, SilverUnit](), 0
    for unit, share in shares:
        unit_buckets: tuple[int, ...] = ()
        if unit.number in shuffled:
            count = min(buckets, max(1, math.ceil(share * buckets / max(1, total))))
            unit_buckets, begin = tuple((begin + at) % buckets for at in range(count)), begin + count
        placed[unit.number] = replace(unit, buckets=unit_buckets)
    return placed, buckets


@dataclass(frozen=True, slots=True)
class WindowSlices:
    """Slices of one window of a unit, in the order in which they take effect: rows of ``bronze.index.OF_TABLE``."""

    unit: int
    window: int
    slices: pa.Table


RowGroup = tuple[int, int, str, int]
"""Stretch and number of the log's file, data file of bronze, row group in it: their order is the log's."""


def _row_groups(slices: pa.Table) -> list[RowGroup]:
    """Of each slice."""
    places = [slices.column(name).to_pylist() for name in ("stretch", "number", "data_file", "row_group")]
    return list(zip(*places, strict=True))


RowGroups = Mapping[tuple[int, int], list[RowGroup]]
"""By unit and window: of each slice."""


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


def _chunks(
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


def why_again(unit: PreparedCompaction, results: Sequence[WindowResult]) -> str | None:
    """Why what tasks wrote of a unit cannot be committed, so that Spark SQL has to do it; None where it can."""
    errors = [result.error for result in results if result.error]
    if errors:
        return errors[0]
    last = max((at for at, stage in enumerate(unit.stages) if stage.needs_no_exact), default=None)
    if last is None:
        return None
    before = {stage.window for stage in unit.stages[:last]}
    files = [*unit.snapshot.files, *(result.file for result in results if result.file and result.window in before)]
    if any(has_exact_texts(unit.snapshot, file) for file in files):
        return "a statement changes columns that rows have exact texts of"
    return None


def has_exact_texts(snapshot: Snapshot, file: DataFile) -> bool:
    """Whether rows of a file of silver or downstream may have exact texts (``_raw``)."""
    nulls = file.stats.get("nullCount", {}).get(snapshot.schema.column("_raw").physical_name)
    return nulls is None or nulls != file.num_records


def commit(unit: PreparedCompaction, results: Sequence[WindowResult]) -> Compacted:
    """Commits what tasks wrote of a unit, a window or statement after the other. Raises LostRace, LakeError."""
    began = time.monotonic()
    work, snapshot, head = unit.work, unit.snapshot, unit.work.head
    compacted: list[Compacted] = []
    is_refilled = False
    # One commit a stage, in the order of the log, so that a failure leaves a prefix of it.
    for at, stage in enumerate(unit.stages):
        before = head or work.table.new(stage.columns.stored, silver.properties(work.table))
        stage_results = [result for result in results if result.window == stage.window]
        commit_, left_out = _commit_of(work, stage, stage_results)
        files = (
            [result.file for result in stage_results if result.file]
            if stage.window is not None
            else _markers(stage, work, [fill for later in unit.stages[at:] for fill in later.fills])
        )
        # Counted before files are rewritten for a statement: rows of the window, not those that were there.
        metrics = {"numFiles": len(files), "numOutputRows": sum(file.num_records or 0 for file in files)}
        # Columns after the stage's statement. The first commit of a table has its own metadata.
        snapshot = replace(
            snapshot,
            metadata=snapshot.metadata if snapshot.version < 0 else stage.design.metadata,
            protocol=snapshot.protocol if snapshot.version < 0 else stage.design.protocol,
        )
        # Old rows are rewritten once, by the first stage that fills a column, with the fills of all stages.
        removed: tuple[DataFile, ...] = ()
        if stage.fills and not is_refilled:
            is_refilled, removed = True, unit.snapshot.files
            files = [
                *files,
                *(result.file for result in results if result.window == silver_task.REFILLED and result.file),
            ]
        changes = {"adds": files, "removes": removed, "metrics": metrics}
        snapshot, head = _committed(work.table, snapshot, commit_, head=before, stage=stage, changes=changes)
        compacted.append(_summary(work, stage.step, head, stage_results if stage.window is not None else (), left_out))
    assert head is not None
    seconds = time.monotonic() - began + sum(result.seconds for result in results)
    return replace(total(work, head, compacted, seconds), way=routing.ENGINE)


def _commit_of(
    work: CompactionJob, stage: Stage, results: Iterable[WindowResult]
) -> tuple[SilverCommit, dict[str, int]]:
    """What a stage's commit says, and what rules left out of it."""
    step = stage.step
    if isinstance(step, DataRange):
        filtered = sum((Counter(result.filtered) for result in results), Counter[str]())
        left_out = work.filters.skipped_in([step.range]) | filtered
        return work.commit(step.range, step.standing, stage.columns, left_out), left_out
    return turn_commit(work, step, stage.columns, stage.steps), by_rule(step)


def _markers(stage: Stage, work: CompactionJob, fills: Sequence[ColumnFill]) -> list[DataFile]:
    """The row of a statement that empties the table, as a data file; none for others.

    fills: those of this and later statements, which the row gets as those before it do.
    """
    turn, schema = stage.step, stage.design.schema
    if not (isinstance(turn, SchemaChange) and turn.empties):
        return []
    start, stop = turn.range.start.order, turn.range.stop.order
    place = ("stretch", "number", "offset")
    cells: dict[str, Any] = {
        "_op": silver.Op.TRUNCATE,
        "_position": dict(zip(place, start, strict=True)) | {"row": -1},
        "_committed_at": turn.statement.committed_at if turn.statement else None,
        "_window_start": dict(zip(place, start, strict=True)),
        "_window_stop": dict(zip(place, stop, strict=True)),
    }
    rows = pa.Table.from_pylist([{name: cells.get(name) for name in schema.names}], schema.arrow(physical=False))
    stored = with_fills(rows, fills)
    return [data_files.write(work.table.path, stored, schema_with(schema, fills), stage.design.configuration)]


def _committed(
    table: Table,
    snapshot: Snapshot,
    commit_: SilverCommit,
    *,
    head: Head,
    stage: Stage,
    changes: Mapping[str, Any],
) -> tuple[Snapshot, Head]:
    """One commit. changes: of ``delta.commits.commit``. Raises LostRace where another writer was first."""
    landed = table.land(
        snapshot,
        head,
        commit_,
        metadata=snapshot.metadata if stage.changes_design else None,
        protocol=snapshot.protocol if stage.changes_design else None,
        operation_parameters={"mode": "Append", "partitionBy": "[]"},
        **changes,
    )
    return replace(snapshot, version=landed.version), landed


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
