"""Rules on loaded rows: each is judged as an INSERT of the row that the server has.

Put here: filters, masks and computed columns of rows that a load reads, before they are written anywhere. Not here: the
rules (config/filters.py), what they do to rows of the log (silver/decode_task.py).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from spark_jobs.binlog import Changes, TableDefinition
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import INSERT, TableFilters
from spark_jobs.log.position import Range
from spark_jobs.pipeline.initial_load.context import LoadContext
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import RAW, ColumnMasks, masks_of
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.planning_context import filters_of
from spark_jobs.silver.quarantine import with_skips
from spark_jobs.silver.row_filters import ChangeFilters, ChangeJudge
from spark_jobs.silver.table_timeline import DataRange, SchemaChange, TableState, TimelineStep


def job_of(
    load: LoadContext,
    snapshot: BronzeSnapshot,
    definition: TableDefinition,
    log_range: Range,
    changes: tuple[SchemaChange, ...] = (),
) -> CompactionJob:
    """A loaded table as silver takes it: a window of its log, under its rules. Raises TableStopped.

    log_range: what the rows stand for. changes: statements since they were read.
    """
    name = definition.name
    table = load.lake.silver(load.source, name.schema, name.table)
    filters = filters_of(with_skips(load.pipeline.filters, load.lake, load.source), load.source, name)
    window = Window(snapshot.table, snapshot.version, (log_range,), snapshot.oldest)
    steps: tuple[TimelineStep, ...] = (DataRange(log_range, TableState(definition)), *changes)
    return CompactionJob(load.source, name, window, steps, table, table.head(), 0, filters)


@dataclass(frozen=True, slots=True)
class RowRules:
    """The rules about one table as they are about loaded rows."""

    definition: TableDefinition
    filters: TableFilters
    columns: silver.Columns
    """The columns that silver has."""
    masks: ColumnMasks
    changes: ChangeFilters

    @classmethod
    def of(cls, job: CompactionJob, definition: TableDefinition) -> Self:
        """The rules of a job for rows of a definition. Raises TableStopped if a rule cannot be applied to the table."""
        return cls(
            definition,
            job.filters,
            job.columns_seen(definition),
            masks_of(definition, job.filters.columns),
            job.change_filters(definition),
        )

    @property
    def digests(self) -> dict[str, str] | None:
        """Digests that tell these rules from others; None without rules."""
        return self.filters.prints() or None

    @property
    def staged(self) -> dict[str, str]:
        """Names and types of the columns that rows wait with."""
        return self.columns.types | {RAW: silver.ADDED[RAW]}

    @property
    def filters_all(self) -> str | None:
        """The rule that filters every INSERT, and so every loaded row."""
        return self.filters.left_out(INSERT)

    @property
    def hides_key(self) -> bool:
        """True if no commit may name a key: a column of it is masked, or the row may be one that a rule filters."""
        return bool(self.changes.judges_inserts or self.masks.masks.keys() & {*silver.columns(self.definition).key})

    def judge(self) -> "LoadingRules":
        """Function that applies the rules to the rows that a task reads."""
        return LoadingRules(self, ChangeJudge(self.changes))


@dataclass(frozen=True, slots=True)
class LoadingRules:
    """Applies the rules to rows that a task reads, and counts by rule what they have filtered."""

    rules: RowRules
    judge: ChangeJudge

    @property
    def filtered(self) -> Iterator["FilteredRows"]:
        """Filtered rows, where there are some."""
        if self.judge.counts:
            yield FilteredRows(dict(self.judge.counts))

    def remaining(self, rows: Changes) -> Changes:
        """The rows that no rule filters; each is an INSERT. Raises TableStopped."""
        numbers = self.judge.remaining(rows, None) if self.rules.changes.judges_inserts else None
        return rows if numbers is None else rows.take(numbers)

    def masked(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the source's columns and ``_raw`` as silver has them. Raises TableStopped."""
        if not self.rules.masks:
            return rows
        masked = self.rules.masks.apply(pa.Table.from_batches([rows])).select([*self.rules.staged])
        return pa.RecordBatch.from_arrays([column.combine_chunks() for column in masked.columns], schema=masked.schema)


@dataclass(frozen=True, slots=True)
class FilteredRows:
    """Number of rows that a task filtered, by rule."""

    counts: Mapping[str, int]


def summed(filtered: Mapping[str, int] | None, counts: Mapping[str, int]) -> dict[str, int] | None:
    """Counts by rule, together; None where there are none."""
    return dict(Counter(filtered or {}) + Counter(counts)) or None
