"""The silver rows of a window by Spark SQL: one row a key, the last; of a keyless table one an image, with its copies.

Put here: the plan of Spark over a window's slices. Not here: what its tasks do (decode_task.py), or the commit
(compact.py).

Positions decide which change is first and last, not arrival. A small window is one task's, and nothing is shuffled.
Columns are left out and masked after the reduction in the task, before anything is shuffled or written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from spark_jobs.binlog import TableDefinition
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import cut
from spark_jobs.bronze.xa import EFFECT, NO_XA, by_bytes, effective
from spark_jobs.lake.commit import Head
from spark_jobs.lake.ranges import array
from spark_jobs.log.position import Range
from spark_jobs.runtime.executors import checked
from spark_jobs.silver import partial_rows
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.compaction_job import Compacted, CompactionJob, Window
from spark_jobs.silver.decode_task import (
    COUNTED,
    counting_task,
    decoded_types,
    decoding_task,
    masked_task,
)
from spark_jobs.silver.partial_rows import ABSENT_TYPE
from spark_jobs.silver.retired_columns import types_of
from spark_jobs.silver.row_filters import ChangeJudge
from spark_jobs.silver.slice_runs import Batches, Runs, over_slices
from spark_jobs.silver.table_timeline import (
    TableState,
)
from spark_jobs.text import sql
from spark_jobs.text.sql import identifier, literal

_OF_CHANGES = (silver.Op.INSERT, silver.Op.UPDATE, silver.Op.DELETE)


_ONE_TASK = 64 << 20
"""Bytes of a table's slices up to which one task decodes and reduces all of them.

Its rows fit into memory, and decoding them takes less time than a shuffle does; beyond, Spark sorts them, on disk if
need be."""


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Silver rows that are yet to be computed, and what is counted while they are."""

    rows: DataFrame
    counted: Observation
    decoded: Observation
    left_out: dict[str, int]

    def summary(self, work: CompactionJob, head: Head) -> Compacted:
        """What was done, once the rows were written."""
        counts, micros = self.counted.get, self.decoded.get["micros"]
        return Compacted(
            source=work.source,
            name=work.name,
            range=work.window.extent,
            head=head,
            changes=self.decoded.get["changes"] or 0,
            inserts=counts[silver.Op.INSERT],
            updates=counts[silver.Op.UPDATE],
            deletes=counts[silver.Op.DELETE],
            committed_at=None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC),
            left_out=self.left_out,
        )


def window_rows(spark: SparkSession, work: CompactionJob, window: Window, standing: TableState) -> WindowRows:
    """Silver rows of the window's ranges: one row a key and range.

    Where rules judge changes of rows, the range is decoded twice: their commit says how many each has left out.
    """
    # Counts of the commit, observed while the rows are written. Few bytes are one task, which needs no shuffle.
    counted, decoded = Observation(), Observation()
    alone = work.size <= _ONE_TASK
    definition = standing.definition
    assert definition
    all_columns, columns = silver.columns(definition, has_partial=work.has_partial), work.columns_of(standing)
    slices = slices_of_window(spark, window, work)
    slices = slices.coalesce(1) if alone else slices
    # The row as the log has it, with the columns that a condition names.
    rules, unseen = work.change_filters(definition), _unseen(work, definition, columns)
    left_out = work.filters.skipped_in(window.ranges)
    left_out |= _counts(slices, work, counting_task(definition, all_columns, rules, unseen)) if rules else {}
    # One row a change, or a key of the slice, behind its masks; then the last change of each key over all slices.
    masks = masks_of(definition, work.filters.columns)
    logged = silver.Columns(_without_retired(columns, standing), all_columns.key, all_columns.has_partial)
    types = decoded_types(logged)

    def task(runs: Runs) -> Batches:
        judge = ChangeJudge(rules) if rules else None
        rows_task = decoding_task(definition, all_columns, alone=alone, judge=judge, unseen=unseen)
        return masked_task(rows_task, masks, [*types])(runs)

    changes = slices.mapInArrow(checked(over_slices(task, work.filters.skips)), sql.columns(types))
    changes = changes.observe(decoded, F.sum("_changes").alias("changes"), F.max("_micros").alias("micros"))
    changes = _with_retired(changes, columns, logged)
    settled = counted_images(changes, columns) if columns.is_bag else changes
    if not (columns.is_bag or alone):
        settled = (
            _overlaid_per_key(changes, columns, str(work))
            if all_columns.has_partial
            else _last_per_key(changes, columns)
        )
    rows = _silver_rows(settled, columns, window.ranges)
    by_operation = (F.count_if(F.col("_op") == op).alias(op) for op in _OF_CHANGES)
    return WindowRows(rows.observe(counted, *by_operation), counted, decoded, left_out)


def _unseen(work: CompactionJob, definition: TableDefinition, columns: silver.Columns) -> frozenset[str]:
    """Columns that nobody asks for."""
    conditions, names = work.filters.condition_columns, {str(column.name) for column in definition.columns}
    return frozenset(name for name in names - columns.types.keys() if name.casefold() not in conditions)


def _counts(slices: DataFrame, work: CompactionJob, task: Callable[[Runs], Batches]) -> dict[str, int]:
    """How many changes each rule filters: the commit says it, so it is known before the rows are written."""
    counts = slices.mapInArrow(checked(over_slices(task, work.filters.skips)), sql.columns(COUNTED))
    rows = work.table.collect(counts.groupBy("rule").agg(F.sum("count").alias("count")))
    return {row["rule"]: row["count"] for row in rows}


def _without_retired(columns: silver.Columns, standing: TableState) -> dict[str, str]:
    """The columns that decoded rows have."""
    retired = types_of(standing.retired)
    return {name: kind for name, kind in columns.types.items() if name not in retired}


def _with_retired(changes: DataFrame, columns: silver.Columns, logged: silver.Columns) -> DataFrame:
    """The changes with the columns that are kept of earlier times, of which they have NULL."""
    retired = {name: kind for name, kind in columns.types.items() if name not in logged.types}
    return changes.withColumns({name: F.lit(None).cast(kind) for name, kind in retired.items()}) if retired else changes


def _overlaid_per_key(changes: DataFrame, columns: silver.Columns, name: str) -> DataFrame:
    """One row a key and window, as ``_last_per_key``, of rows that may lack columns; what all lack stays absent."""
    existed = F.min_by("_existed", "_position").alias("_existed")
    overlaid_rows = overlaid(changes.withColumn("_gone", F.expr("NOT _exists")), columns, existed)
    reason = (
        f"spark_jobs.errors.TableStopped: {name}: a row image leaves columns out of a row that was deleted before "
        "it, and whose INSERT is quarantined\n\n"
    )
    exists = f"IF({partial_rows.ENDED}, CAST(raise_error({literal(reason)}) AS BOOLEAN), NOT _gone)"
    return overlaid_rows.withColumn("_exists", F.expr(exists)).drop("_gone", partial_rows.ENDED)


def overlaid(rows: DataFrame, columns: silver.Columns, *more_columns: Column) -> DataFrame:
    """Of what is one key in a window, its rows laid over each other."""
    identity = {f"{silver.IDENTITY}{at}": F.expr(cell) for at, cell in enumerate(columns.identity())}
    merged = partial_rows.folded(rows.withColumns(identity), ["_window", *identity], columns.types, *more_columns)
    return merged.drop(*identity)


def slices_of_window(spark: SparkSession, window: Window, work: CompactionJob) -> DataFrame:
    """Those with rows of the table, by where their bytes stand; of XA transactions with EFFECT besides."""
    name = work.name
    xa = window.xa.of(name, work.filters.skips)
    slices = cut(bronze.read_all(spark, window.table, window.version), window.cuts)
    slices = effective(slices, window.extent, xa if len(xa.rows) else NO_XA)
    slices = slices.where((F.col("kind") == "rows") & bronze.holding(name.schema, name.table))
    slices = bronze.in_ranges(slices, window.ranges).withColumnRenamed("part", "window")
    names = ("stretch", "number", "start", "file", "transaction_start", "committed_at", "context", "payload", "window")
    effects = (EFFECT,) if len(xa.rows) else ()
    slices = by_bytes(slices) if effects else slices
    return slices.select(*names, *effects)


def _last_per_key(changes: DataFrame, columns: silver.Columns) -> DataFrame:
    """One row a key and window: the last image, and whether the key existed before the first."""
    names = [*columns.types, "_exists", "_position", "_committed_at", "_raw"]
    return last_of_each(changes, columns, names, F.min_by("_existed", "_position").alias("_existed"))


def counted_images(changes: DataFrame, columns: silver.Columns) -> DataFrame:
    """Of a bag one row an image and window, with the copies that came less those that went."""
    names = [*columns.types, "_position", "_committed_at", "_raw"]
    last_rows = last_of_each(changes, columns, names, F.sum(silver.COPIES).alias(silver.COPIES))
    # How many there were before, no window knows.
    last_rows = last_rows.withColumn("_existed", F.lit(None).cast("boolean"))
    return last_rows.withColumn(silver.ABSENT, F.lit(None).cast(ABSENT_TYPE)) if columns.has_partial else last_rows


def last_of_each(changes: DataFrame, columns: silver.Columns, names: Sequence[str], aggregate: Column) -> DataFrame:
    """Of what is one key or one image in a window, the last row's columns of these names, and an aggregate of all."""
    identity = [F.expr(cell).alias(f"{silver.IDENTITY}{at}") for at, cell in enumerate(columns.identity())]
    rest = F.struct(*(F.col(identifier(name)) for name in names))
    grouped = changes.groupBy("_window", *identity).agg(F.max_by(rest, "_position").alias("last"), aggregate)
    group_columns = [name for name in grouped.columns if name != "last" and not name.startswith(silver.IDENTITY)]
    return grouped.select(*group_columns, "last.*")


def _silver_rows(settled: DataFrame, columns: silver.Columns, ranges: Sequence[Range]) -> DataFrame:
    """One row a key or image and window, with the columns of a silver table."""
    starts, stops = (F.expr(array([getattr(range_, end) for range_ in ranges])) for end in ("start", "stop"))
    if columns.is_bag:
        is_removed, stayed = F.col(silver.COPIES) < 0, F.col(silver.COPIES) == 0
    else:
        is_removed, stayed = ~F.col("_exists"), F.col("_existed")
    op = F.when(is_removed, silver.Op.DELETE).when(stayed, silver.Op.UPDATE).otherwise(silver.Op.INSERT)
    computed = {"_op": op, "_window_start": F.get(starts, "_window"), "_window_stop": F.get(stops, "_window")}
    return settled.select(*(computed.get(name, F.col(identifier(name))).alias(name) for name in columns.stored))
