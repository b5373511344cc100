"""Checks of the tables in scope: those that servers have now, and those that the lake has.

Put here: what is asked of table definitions and of the patterns of ``tables:``. Not here: what rules and routes are
checked for (filters.py, routes.py), which are asked from here.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from spark_jobs.binlog import TableDefinition
from spark_jobs.checks import Check, ok, problem, run_checks, warning
from spark_jobs.checks.filters import problems_of_rules
from spark_jobs.checks.routes import problems_of_tables
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Name
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import TableStopped
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.silver.table import refused_names
from spark_jobs.text.suggestions import did_you_mean

_SHOWN = 5


@dataclass
class TablesView:
    """The tables of all sources."""

    pipeline: Pipeline
    definitions: Mapping[str, list[TableDefinition]]
    """Tables by source that its server declares now, in scope or not; sources that are files are not in it."""
    in_lake: Mapping[str, Collection[Name]]
    """Tables by source that the lake knows of its log, in scope or not."""
    is_complete: bool
    """True if every source is a server that was asked for its tables."""

    @cached_property
    def names(self) -> set[Name]:
        declared = {
            (definition.name.schema, definition.name.table)
            for definitions in self.definitions.values()
            for definition in definitions
        }
        return declared.union(*self.in_lake.values())

    @cached_property
    def in_scope(self) -> list[tuple[str, TableDefinition]]:
        """Source and definition of every table of a server that is in scope."""
        scope = self.pipeline.scope
        return [
            (source, entry)
            for source, definitions in self.definitions.items()
            for entry in sorted(definitions, key=lambda definition: definition.name)
            if scope.holds(entry.name.schema, entry.name.table)
        ]


def check_tables(view: TablesView) -> Iterator[Check]:
    """The results about all tables."""
    return run_checks(view, CHECKS)


def patterns(view: TablesView) -> Iterator[Check]:
    """Number of tables that each pattern of ``tables:`` matches; one that matches none is a mistake in its name."""
    for text in view.pipeline.tables:
        pattern = Pattern.parse(text.removeprefix("!"))
        name, count = f"tables: {text}", sum(pattern.matches(*table) for table in view.names)
        if count:
            yield ok(name, _count_text(count))
        elif text.startswith("!"):
            yield warning(name, "excludes no table", "correct the pattern, or take it out")
        elif view.is_complete:
            yield problem(name, "matches no table", _remedy(pattern, view.names))
        else:
            remedy = "binlog files show their tables in a run only; check the name of the pattern"
            yield warning(name, "matches no table yet", remedy + _like(pattern, view.names))


def in_scope(view: TablesView) -> Iterator[Check]:
    count = sum(view.pipeline.scope.holds(*table) for table in view.names)
    value = f"{_count_text(count)} of {len(view.names)}"
    if count or not view.is_complete:
        yield ok("tables in scope", value)
    else:
        yield problem(
            "tables in scope", value, "name tables of the server in tables:, and let the user see them (GRANT SELECT)"
        )


def primary_keys(view: TablesView) -> Iterator[Check]:
    """Tables without any key are merged as keyless tables of rows, which is slower; that is no mistake."""
    without = [f"{source}: {definition.name}" for source, definition in view.in_scope if not definition.key]
    if view.in_scope:
        yield ok(
            "primary keys",
            f"missing in {_count_text(len(without))}: {_shortened(without)}" if without else "in all tables",
        )


def names(view: TablesView) -> Iterator[Check]:
    """Names that the lake has no place for: of schemas and tables as folders, of columns in Spark and Delta."""
    lake = lake_of(view.pipeline)
    refused = [
        (f"{source}: {definition.name}", refusal)
        for source, definition in view.in_scope
        for refusal in _refusals(lake, source, definition)
    ]
    for table, reason in refused[:_MOST]:
        yield problem(f"names of {table}", reason, _LEAVE_OUT)
    if refused[_MOST:]:
        yield problem("names", f"{len(refused) - _MOST} more are refused", _LEAVE_OUT)
    if view.in_scope and not refused:
        yield ok("names", "the lake has a place for every table and column")


def _refusals(lake: Lake, source: str, definition: TableDefinition) -> Iterator[str]:
    try:
        lake.silver(source, definition.name.schema, definition.name.table)
    except TableStopped as error:
        yield str(error)
    yield from refused_names(definition)


_MOST = 20
"""Tables whose names are refused, of which each is listed."""
_LEAVE_OUT = "or leave the table out, by a pattern of tables: that begins with !; a run stops it"


def rules(view: TablesView) -> Iterator[Check]:
    """Rules about columns and values that tables do not have."""
    pipeline = view.pipeline
    if not (pipeline.event_rules or pipeline.row_rules or pipeline.column_rules):
        return
    definitions = [definition for known_definitions in view.definitions.values() for definition in known_definitions]
    problems = problems_of_rules(pipeline, definitions, is_all=view.is_complete)
    yield from (problem(key, text, f"correct {key} in {pipeline.path.name}") for key, text in problems.items())
    if not problems:
        yield ok("filters and columns", "fit the tables")


def routes(view: TablesView) -> Iterator[Check]:
    """Tables that meet in one downstream table and do not fit together."""
    problems = problems_of_tables(view.pipeline, view.definitions)
    yield from (problem(key, text, "correct routes: (stratalog docs routes)") for key, text in problems.items())
    if view.pipeline.routes and not problems:
        yield ok("routes", "fit the tables")


CHECKS: tuple[Callable[[TablesView], Iterator[Check]], ...] = (patterns, in_scope, names, primary_keys, rules, routes)


def why_nothing_in_scope(pipeline: Pipeline, names: Iterable[Name]) -> str | None:
    """Reason why a run has no table to work on, though its log has tables; None where it has some.

    names: the tables that the log has rows of, and those that the lake knew before.
    """
    name_list = set(names)
    if not name_list or any(pipeline.scope.holds(*table) for table in name_list):
        return None
    patterns = [Pattern.parse(text) for text in pipeline.tables if not text.startswith("!")]
    remedy = _remedy(patterns[0], name_list) if patterns else "check what tables: excludes"
    return (
        f"none of the {_count_text(len(name_list))} of the log is in scope (tables: {', '.join(pipeline.tables)}); "
        f"{remedy}"
    )


def _like(pattern: Pattern, names: Collection[Name]) -> str:
    """The table that a pattern may mean, of those that the lake knows."""
    return did_you_mean(f"{pattern.schema}.{pattern.table}", [f"{schema}.{table}" for schema, table in names])


def _remedy(pattern: Pattern, names: Collection[Name]) -> str:
    """Remedy for a pattern that matches no table: the names that are most like it."""
    schemas = sorted({schema for schema, _ in names})
    if pattern.schema in schemas:
        tables = sorted(table for schema, table in names if schema == pattern.schema)
        near = difflib.get_close_matches(pattern.table, tables, 3)
        listed = [f"{pattern.schema}.{table}" for table in near or tables[:_SHOWN]]
    else:
        listed = [f"{schema}.*" for schema in difflib.get_close_matches(pattern.schema, schemas, 3) or schemas[:_SHOWN]]
    if not listed:
        return "the user sees no table at all: GRANT SELECT, or create the tables first"
    return f"correct the pattern, or let the user see the tables (GRANT SELECT); there are {', '.join(listed)}"


def _count_text(count: int) -> str:
    return "1 table" if count == 1 else f"{count} tables"


def _shortened(names: list[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    return ", ".join(names[:_SHOWN]) + rest
