"""What the rules about a table make of its loaded rows: each is judged as an INSERT of the row that the server has.

Put here: filters, masks and computed columns of rows that a load reads, before they are written anywhere. Not here: the
rules (config/filters.py), what they do to rows of the log (silver/decode_task.py, silver/window_rows.py).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from spark_jobs.binlog import TableDefinition
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import INSERT, TableFilters
from spark_jobs.log.position import Range
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.silver import masking, row_filters
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import RAW, ColumnMasks, masks_of
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.quarantine import with_skips
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableState, TimelineStep
from spark_jobs.text.sql import identifier

_ROWS = "rows"


def job_of(
    load: LoadContext,
    snapshot: BronzeSnapshot,
    definition: TableDefinition,
    range_: Range,
    turns: tuple[SchemaChange, ...] = (),
) -> CompactionJob:
    """A loaded table as silver takes it: a window of its log, under its rules. Raises TableStopped.

    range_: what the rows stand for. turns: statements since they were read.
    """
    name = definition.name
    table = load.lake.silver(load.source, name.schema, name.table)
    filters = filters_of(with_skips(load.pipeline.filters, load.lake, load.source), load.source, name)
    window = Window(snapshot.table, snapshot.version, (range_,), snapshot.oldest)
    steps: tuple[TimelineStep, ...] = (DataRange(range_, TableState(definition)), *turns)
    return CompactionJob(load.source, name, window, steps, table, table.head(), 0, filters)


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules about one table as they are about loaded rows."""

    definition: TableDefinition
    filters: TableFilters
    shape: masking.Shape
    """The columns that silver has, and SQL for them."""
    masks: ColumnMasks
    verdict: str | None = None
    """SQL: the rule that filters a row by its values; None where none is about inserted rows."""

    @classmethod
    def of(cls, job: CompactionJob, definition: TableDefinition) -> Self:
        """Raises TableStopped where a rule cannot be applied to the table."""
        verdict = row_filters.inserted_left_out_by(job.filters, definition, job.known_columns)
        return cls(definition, job.filters, job.shape(definition), masks_of(definition, job.filters.columns), verdict)

    @property
    def digests(self) -> dict[str, str] | None:
        """What tells these rules from others; None without rules."""
        return self.filters.prints() or None

    @property
    def staged(self) -> dict[str, str]:
        """Names and types of the columns that rows wait with."""
        return self.shape.columns.types | {RAW: silver.ADDED[RAW]}

    @property
    def filters_all(self) -> str | None:
        """The rule that filters every INSERT, and so every loaded row."""
        return self.filters.left_out(INSERT)

    @property
    def is_in_sql(self) -> bool:
        """Whether a rule asks for values or computes some, which Spark SQL does."""
        columns = self.filters.columns
        return bool(self.verdict or (columns and columns.computed))

    @property
    def hides_key(self) -> bool:
        """Whether no commit may name a key: a column of it is masked, or the row may be one that a rule filters."""
        return bool(self.verdict or self.masks.masks.keys() & {*silver.columns(self.definition).key})

    def masked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the source's columns, in a task, as silver has them; where nothing is in SQL."""
        if not self.masks:
            return rows
        (batch,) = self.masks.apply(pa.Table.from_batches([rows])).combine_chunks().to_batches()
        return batch

    def by_sql(self, rows: DataFrame) -> tuple[DataFrame, "Counts"]:
        """The same of a DataFrame, with the salt beside the columns where the shape has one; what is counted by it."""
        salts = [masking.SALT] if self.shape.salt else []
        counts = Counts(Observation(), tuple(f"row_filters.{rule.name}" for rule in self.filters.rows))
        if self.verdict is None:
            rows = rows.observe(counts.observation, F.count(F.lit(1)).alias(_ROWS))
        else:
            # Conditions call columns by their place, so that no name of the table's is one of ours.
            names = [identifier(str(column.name)) for column in self.definition.columns]
            rows = rows.selectExpr(*(f"{name} AS _a{at}" for at, name in enumerate(names)), RAW, *salts)
            rows = rows.withColumn(row_filters.LEFT_OUT_BY, F.expr(self.verdict))
            rows = rows.observe(counts.observation, F.count(F.lit(1)).alias(_ROWS), *counts.columns())
            rows = rows.where(f"{row_filters.LEFT_OUT_BY} IS NULL")
            rows = rows.selectExpr(*(f"_a{at} AS {name}" for at, name in enumerate(names)), RAW, *salts)
        return rows.selectExpr(*(f"{self.shape.cells[name]} AS {identifier(name)}" for name in self.staged)), counts


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows a DataFrame had, and how many of them each rule filtered; known once it was written."""

    observation: Observation
    rules: tuple[str, ...]

    def columns(self) -> list[Column]:
        return [
            F.count_if(F.col(row_filters.LEFT_OUT_BY) == rule).alias(f"rule{at}") for at, rule in enumerate(self.rules)
        ]

    @property
    def filtered(self) -> dict[str, int]:
        counts = self.observation.get
        by_rule = ((rule, counts.get(f"rule{at}", 0)) for at, rule in enumerate(self.rules))
        return {rule: count for rule, count in by_rule if count}

    @property
    def rows(self) -> int:
        """Those that are left."""
        return int(self.observation.get[_ROWS]) - sum(self.filtered.values())


def summed(filtered: Mapping[str, int] | None, counts: Mapping[str, int]) -> dict[str, int] | None:
    """Counts by rule, together; None where there are none."""
    return dict(Counter(filtered or {}) + Counter(counts)) or None
