"""Checks of filters against the tables that servers have, for ``stratalog check --connect``.

Put here: asking of every rule whether it can be carried out on the tables that it is about. Not here: what is wrong
with a rule by itself (config/model.py), or whether a run can continue (silver/row_filters.py, silver/masking.py: they
raise the same).
"""

from collections.abc import Iterator, Sequence

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.filters import ColumnRule, EventFilter, RowFilter
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import StratalogError
from spark_jobs.expressions.computed import Computed
from spark_jobs.silver import masking
from spark_jobs.silver.row_values import problem_of


def problems_of_rules(pipeline: Pipeline, tables: Sequence[TableDefinition], *, is_all: bool) -> dict[str, str]:
    """Problems by the rule's key. is_all: the pipeline has no other tables, so a missing table is nowhere."""
    # Rules by their kind in the configuration, each with the tables that it is about.
    filters, scope = pipeline.filters, pipeline.scope
    tables = [table for table in tables if scope.holds(table.name.schema, table.name.table)]
    kinds: tuple[tuple[str, Sequence[EventFilter | RowFilter | ColumnRule]], ...] = (
        ("filters", filters.events),
        ("row_filters", filters.rows),
        ("columns", filters.columns),
    )
    problems: dict[str, str] = {}
    for kind, rules in kinds:
        for rule in rules:
            about = [table for table in tables if rule.scope.holds(table.name.schema, table.name.table)]
            # A rule without a table is a mistake only where all tables are known.
            if not about and is_all:
                problems[f"{kind}.{rule.name}.tables"] = "no server has such a table, or the user may not see it"
            for definition in about:
                problems |= dict(
                    _table_problems(f"{kind}.{rule.name}", rule, definition, _computed(filters.columns, definition))
                )
    return problems


def _computed(rules: Sequence[ColumnRule], definition: TableDefinition) -> tuple[Computed, ...]:
    """The computed columns of a table, which has at most one rule about columns."""
    about = (rule for rule in rules if rule.scope.holds(definition.name.schema, definition.name.table))
    return next((rule.computed for rule in about), ())


def _table_problems(
    key: str, rule: EventFilter | RowFilter | ColumnRule, definition: TableDefinition, computed: tuple[Computed, ...]
) -> Iterator[tuple[str, str]]:
    """Problems of a rule for one table, by its key. Rules over events name no columns."""
    if isinstance(rule, RowFilter):
        conditions = {
            "insert-value-expr": rule.insert,
            "update-old-value-expr": rule.update_old,
            "update-new-value-expr": rule.update_new,
            "delete-value-expr": rule.delete,
        }
        for name, condition in conditions.items():
            problem = condition and problem_of(condition, definition, computed)
            if problem:
                yield f"{key}.{name}", f"{definition.name}: {problem}"
    elif isinstance(rule, ColumnRule):
        names = frozenset(str(column.name).casefold() for column in definition.columns)
        missing = masking.unknown_column_problem(rule, names)
        try:
            masking.columns_seen(definition, rule)
        except StratalogError as error:
            missing = missing or str(error)
        if missing:
            yield key, f"{definition.name}: {missing}"
