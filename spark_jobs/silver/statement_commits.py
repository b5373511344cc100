"""Commits of a statement to a silver table: its columns, the steps to them, and the commit.

Put here: those as values. Not here: the rows that say that the table was emptied (engine/silver/silver_job.py), what a
statement does to the source's table (timeline/), or Delta's statements (schema_evolution.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableDefinition
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import CommitKind
from spark_jobs.silver import masking, schema_evolution
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob, by_rule
from spark_jobs.silver.projection import column_origins
from spark_jobs.silver.table_timeline import (
    SchemaChange,
)
from spark_jobs.text.sql import identifier


@dataclass(frozen=True, slots=True)
class Reshaping:
    """Changes of a statement to a silver table: its columns after it, and the steps that lead there.

    steps: what is done downstream too. remaining: all that silver needs.
    """

    after: silver.Columns
    steps: Sequence[str]
    remaining: Sequence[str]


def reshaping(work: CompactionJob, before: silver.Columns, change: SchemaChange) -> Reshaping:
    """Reshaping from the columns that silver has to those that a statement left. Raises TableStopped."""
    after = work.columns_of(change.state) if change.state.definition else before
    require_key_kept(before, after, change)
    rule = work.filters.columns
    origins = masking.origins_seen(rule, column_origins(change, before.types, after.types), before, after)
    fills = masking.fills_seen(rule, change.fills, after)
    steps = schema_evolution.steps(before.types, after.types, origins, fills)
    return Reshaping(after, steps, [*steps, *_silver_only_steps(before, after, origins)])


def require_key_kept(before: silver.Columns, after: silver.Columns, change: SchemaChange) -> None:
    if change.keeps and before.key != after.key:
        raise TableStopped(
            f"was created again at {change.range.start} with another key, and a rule keeps the rows that it had"
        )


def schema_change_commit(
    work: CompactionJob, change: SchemaChange, after: silver.Columns, steps: Sequence[str]
) -> SilverCommit:
    """The commit that moves a table over a statement."""
    return replace(
        work.commit(change.range, change.state, after, by_rule(change)),
        kind=CommitKind.CHANGE,
        log_bytes=change.inherited.size if change.inherited else 0,
        steps=tuple(steps),
        inherited_from=str(change.inherited.name) if change.inherited else None,
    )


def definition_after(change: SchemaChange) -> TableDefinition:
    assert change.state.definition
    return change.state.definition


def _silver_only_steps(before: silver.Columns, after: silver.Columns, origins: Mapping[str, str | None]) -> list[str]:
    """Steps that downstream has no need of.

    Where a table that was a keyless table has a key from now on, or the other way round, and where columns that rows
    lack have other names. origins: by new name the old one.
    """
    actions = []
    if before.is_keyless != after.is_keyless:
        name = identifier(silver.COPIES)
        actions.append(
            f"ADD COLUMN ({name} {after.added[silver.COPIES]})" if after.is_keyless else f"DROP COLUMN {name}"
        )
    new_names = {origin: name for name, origin in origins.items() if origin is not None}
    if before.has_partial and new_names != {name: name for name in before.types}:
        names = {name: new_names.get(name) for name in before.types}
        absent = silver.absent_sql(names)
        actions.append(f"{schema_evolution.OF_ABSENT}{absent} WHERE {silver.ABSENT} IS NOT NULL")
    return actions
