"""Routes beside the tables that servers have: what ``stratalog check --connect`` says of them.

Put here: which tables meet downstream, and whether their columns and keys go together. Not here: what is wrong with
routes by themselves (config/routes.py), or what a run does (downstream/merge.py, downstream/multi_source.py).
"""

from collections.abc import Collection, Iterator, Mapping

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination
from spark_jobs.downstream.multi_source import MARKS, Part, union
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver import masking

_NOWHERE = Position("bin.000001", 4)
_Found = list[tuple[str, TableDefinition]]


def problems_of_tables(pipeline: Pipeline, tables: Mapping[str, Collection[TableDefinition]]) -> dict[str, str]:
    """By downstream table. tables: those that servers have now, by source."""
    meeting: dict[Destination, _Found] = {}
    for source, definitions in tables.items():
        for one in sorted(definitions, key=lambda definition: definition.name):
            if pipeline.scope.holds(one.name.schema, one.name.table):
                for into in pipeline.routing.of(source, one.name.schema, one.name.table):
                    meeting.setdefault(into, []).append((source, one))
    found = {}
    for into, several in meeting.items():
        said = list(_of_several(pipeline, several, into) if into.is_merged else _of_one(several))
        if said:
            found[f"routes to {into}"] = "; ".join(said)
    return found


def _of_one(found: _Found) -> Iterator[str]:
    if len(found) > 1:
        yield (
            f"{_listed(found)} meet in it, and by routes: it is of one table; use {{source}} in to, or say "
            'sources: ["*"] of a route that leads all of them there'
        )


def _of_several(pipeline: Pipeline, found: _Found, into: Destination) -> Iterator[str]:
    keys: dict[tuple[str, ...], _Found] = {}
    there: dict[str, str] = {}
    parts: list[Part] = []
    for source, one in found:
        try:
            columns = masking.shape(one, pipeline.filters.of(one.name.schema, one.name.table).columns).columns
            taken = [name for name in columns.types if name.lower() in MARKS]
            if taken:
                yield f"{one.name} of {source} has a column {taken[0]}, which is added to tables of several; rename it"
                continue
            union(there, columns.types, parts, f"{one.name} of {source}")
        except TableStopped as error:
            yield str(error)
            continue
        there |= {name: kind for name, kind in columns.types.items() if name not in there}
        parts.append(Part((source, one.name.schema, one.name.table), _NOWHERE, 0, True, columns.types))
        keys.setdefault(tuple(name.casefold() for name in columns.key), []).append((source, one))
    if into.is_shared and () in keys:
        yield f"{_listed(keys[()])} have no key that they could share (keys: shared)"
    if len(keys) > 1:
        said = (f"{', '.join(key) or 'no key'} in {_listed(those)}" for key, those in keys.items())
        yield f"its tables are not told apart by the same key: {', '.join(said)}"


def _listed(found: _Found) -> str:
    names = [f"{one.name} of {source}" for source, one in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


_SHOWN = 5
