"""Job of loading a keyless table: copies of the rows that were read, and the log since their snapshot.

Put here: the unit of such a load, and its job. Not here: when rows may land and what the commit says
(pipeline/initial_load/landing.py), or what tasks do with rows (silver_task.py, engine/rows/inherited_rows.py).

The rows that wait are one window, whose equal rows meet in buckets and become one with their number. Each range of the
log since then is another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_jobs.bronze.index import OF_TABLE
from spark_jobs.bronze.xa import read_effective
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows.inherited_rows import InheritedFiles, InheritedRows
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.engine.silver import silver_job, silver_task
from spark_jobs.engine.silver.replay_job import window_of
from spark_jobs.engine.silver.silver_plan import PreparedCompaction
from spark_jobs.engine.silver.silver_task import SilverUnit, SilverWindow
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.replayed_parts import ReplayedPart
from spark_jobs.silver.table_timeline import SchemaChange, TableState, TimelineStep, schema_changes_in


@dataclass(frozen=True, slots=True)
class KeylessLoad:
    """A table without a key that was read in one transaction.

    work: its window has the log since the snapshot. steps: what the log has of the table there. waiting: the rows
    that were read. state: of the table at the snapshot. since: the snapshot's position.
    """

    work: CompactionJob
    steps: Sequence[TimelineStep]
    waiting: Snapshot
    state: TableState
    since: Position


def write_loaded_rows(
    spark: SparkSession, load: KeylessLoad, columns: silver.Columns, design: Snapshot, capacity: Capacity
) -> list[DataFile]:
    """Files of silver with all rows of a table: those that were read, and the changes since.

    columns, design: those that silver is to have. Raises what stops the table; PartialImage where rows need a column
    that says what they lack.
    """
    unit = _load_unit(load, columns, design)
    (valued,) = silver_job.with_values([unit])
    results = silver_job.run(spark, load.work.window.table.path, [valued], capacity)[0]
    silver_task.require_written(results)
    return [result.file for result in results if result.file]


def _load_unit(load: KeylessLoad, columns: silver.Columns, design: Snapshot) -> PreparedCompaction:
    """The rows that were read as a window, and one for each range of the log. Raises TableStopped, LakeError."""
    work, steps, waiting = load.work, load.steps, load.waiting
    since, within = load.since, work.window.extent
    projection = ReplayedPart(work.window, load.state, tuple(schema_changes_in(steps))).projection(work)
    rows = InheritedRows(columns, since, is_loaded=True)
    # Of a table that nothing happened to since there are no steps.
    standings = [load.state, *(step.state for step in steps)]
    definition = next(state.definition for state in reversed(standings) if state.definition)
    windows = [
        SilverWindow(definition, columns, (Range(since, since),), design.schema, design.configuration, inherited=rows)
    ]
    files = InheritedFiles(0, waiting.path, waiting.schema, RowProjection.of(projection), waiting.files)
    # The log from there on, with the definitions of its time.
    slices = [OF_TABLE.empty_table()]
    oldest = work.window.oldest or within.start
    index = read_effective(work.window.table, work.window.version, within, oldest, work.window.cuts)
    for at, step in enumerate(steps):
        if isinstance(step, SchemaChange):
            continue
        part = ReplayedPart(work.part(step.range), step.state, tuple(schema_changes_in(steps[at:])))
        windows.append(window_of(work, part, columns, design))
        slices.append(index.slices_of_table(work.name, (step.range,), work.filters.skips))
    unit = SilverUnit(0, str(work), work.table.path, tuple(windows))
    return PreparedCompaction(work, unit, design, (), tuple(slices), None, (files,))
