"""Checks of routes against the tables that servers have, for ``stratalog check --connect``.

Put here: which tables meet downstream, and whether their columns and keys go together. Not here: what is wrong with
routes by themselves (config/routes.py), or what a run does (engine/merge/downstream_job.py,
downstream/multi_source.py).
"""

from collections.abc import Collection, Iterator, Mapping

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination
from spark_jobs.downstream.modes import require_supported
from spark_jobs.downstream.multi_source import PROVENANCE, Part, union
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver import masking

_NOWHERE = Position("bin.000001", 4)
_Sharing = list[tuple[str, TableDefinition]]


def problems_of_tables(pipeline: Pipeline, tables: Mapping[str, Collection[TableDefinition]]) -> dict[str, str]:
    """Problems by downstream table. tables: those that servers have now, by source."""
    # The source tables of each target.
    meeting: dict[Destination, _Sharing] = {}
    for source, definitions in tables.items():
        for definition in sorted(definitions, key=lambda definition: definition.name):
            if pipeline.scope.holds(definition.name.schema, definition.name.table):
                for into in pipeline.routing.of(source, definition.name.schema, definition.name.table):
                    meeting.setdefault(into, []).append((source, definition))
    problems = {}
    for into, sharing in meeting.items():
        problem_list = list(
            _merged_table_problems(pipeline, sharing, into)
            if into.is_merged
            else _single_table_problems(pipeline, sharing, into)
        )
        if problem_list:
            problems[f"routes to {into}"] = "; ".join(problem_list)
    return problems


def _single_table_problems(pipeline: Pipeline, sharing: _Sharing, into: Destination) -> Iterator[str]:
    if len(sharing) > 1:
        yield (
            f"{_tables_text(sharing)} have this target, and by routes: it is of one table; use {{source}} "
            'in to, or set sources: ["*"] of one route for all of them'
        )
    for source, definition in sharing:
        rule = pipeline.filters.of(definition.name.schema, definition.name.table).columns
        try:
            require_supported(masking.columns_seen(definition, rule), into.mode)
        except TableStopped as error:
            yield f"{definition.name} of {source}: {error}"


def _merged_table_problems(pipeline: Pipeline, sharing: _Sharing, into: Destination) -> Iterator[str]:
    """Problems that keep source tables from being one downstream table: reserved names, types, keys."""
    keys: dict[tuple[str, ...], _Sharing] = {}
    types: dict[str, str] = {}
    parts: list[Part] = []
    for source, definition in sharing:
        # The columns as rules leave them, joined with those of the tables before it.
        try:
            columns = masking.columns_seen(
                definition, pipeline.filters.of(definition.name.schema, definition.name.table).columns
            )
            reserved = [name for name in columns.types if name.lower() in PROVENANCE]
            if reserved:
                table = f"{definition.name} of {source}"
                yield f"{table} has a column {reserved[0]}, which is added to tables of several; rename it"
                continue
            union(types, columns.types, parts, f"{definition.name} of {source}")
        except TableStopped as error:
            yield str(error)
            continue
        types |= {name: kind for name, kind in columns.types.items() if name not in types}
        parts.append(Part((source, definition.name.schema, definition.name.table), _NOWHERE, 0, True, columns.types))
        keys.setdefault(tuple(name.casefold() for name in columns.key), []).append((source, definition))
    # Keys are compared when all tables are read, so that one message names all of them.
    if into.is_shared and () in keys:
        yield f"{_tables_text(keys[()])} have no key that they could share (keys: shared)"
    if len(keys) > 1:
        key_list = (
            f"{', '.join(key) or 'no key'} in {_tables_text(sharing_tables)}" for key, sharing_tables in keys.items()
        )
        yield f"its tables are not identified by the same key: {', '.join(key_list)}"


def _tables_text(sharing: _Sharing) -> str:
    names = [f"{definition.name} of {source}" for source, definition in sharing]
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


_SHOWN = 5
