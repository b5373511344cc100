"""The schema history as ``stratalog schema`` prints it: definitions at a position, what statements changed, JSON.

Put here: choosing versions of tables and putting them into words. Not here: where they come from (schema/history.py),
or the command's options (spark_jobs/cli).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.schema import history as schema_history
from spark_jobs.schema import history_rows
from spark_jobs.schema.facts import TableVersion
from spark_jobs.schema.tracker import as_of, changes, key_of

_TOLD_BY = {
    "ddl": "",
    "table_map": "its rows",
    "server": "the server",
    "dump": "the schema dump",
    "inverted": "the log read backwards",
}


@dataclass(frozen=True, slots=True)
class Lines:
    """What is printed of one table: a title, and the cells of rows."""

    title: str
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class Shown:
    """Versions of tables up to the position that is asked for, and by table the one that it has there.

    places: the positions, by table.
    """

    versions: list[TableVersion]
    current: dict[TableName, TableVersion]
    places: dict[TableName, Position]

    def definitions(self, *, dropped: bool) -> Iterator[Lines]:
        """A table after the other; those that are not there (any more) where ``dropped``."""
        for name, one in sorted(self.current.items()):
            if one.is_dropped and not dropped:
                continue
            yield Lines(f"{name} at {self.places[name]}: {_state(one)}", _columns(one.definition))

    def histories(self) -> Iterator[Lines]:
        """By table all that was told of it, and what that changed."""
        for name in sorted({version.name for version in self.versions}):
            before: TableDefinition | None = None
            rows = []
            for one in (each for each in self.versions if each.name == name):
                committed = one.committed_at.isoformat(timespec="seconds") if one.committed_at else ""
                told = _TOLD_BY[one.origin] or " ".join((one.statement or "").split())
                rows.append([str(one.at), told, committed, "; ".join(_said(one, before))])
                before = one.definition if one.holds else before
            yield Lines(str(name), rows)

    def as_json(self, *, history: bool) -> Iterator[dict[str, Any]]:
        """An object a table, or a version."""
        if history:
            yield from (_object(version) for version in self.versions)
            return
        for name, one in sorted(self.current.items()):
            yield {"at": str(self.places[name])} | _object(one)


def shown(
    pipeline: Pipeline, source: str, wanted: Callable[[TableName], bool], place: Callable[[], Position | None]
) -> Shown:
    """The tables that are wanted, at a place; where it is None, each where silver is, or at the history's end.

    Raises LakeError, SourceError, ConfigError.
    """
    lake = lake_of(pipeline)
    history = schema_history.read(lake, source)
    position = place()
    history.at(position)
    silver = {TableName(*one.name): one.checkpoint for one in publication.read(lake, source)}
    versions = [version for version in history.versions if wanted(version.name)]
    names = {version.name for version in versions}
    places = {name: position or silver.get(name) or history.end for name in names}
    seen = [version for version in versions if version.is_before(places[version.name])]
    current = {name: found for name in names for found in [_at(seen, name, places[name])] if found}
    return Shown(seen, current, places)


def _at(versions: list[TableVersion], name: TableName, position: Position) -> TableVersion | None:
    return as_of((version for version in versions if version.name == name), position).get(name)


def _state(one: TableVersion) -> str:
    """Since when a table is as it is, and what is to be known of it."""
    if one.is_dropped:
        renamed = f", to {one.renamed_to}" if one.renamed_to else ""
        return f"{'renamed' if renamed else 'dropped'}{renamed} at {one.at}"
    by = f"as {_TOLD_BY[one.origin]} told" if _TOLD_BY[one.origin] else "as stated"
    if one.definition is None:
        return f"not known since {one.at}: {one.note}"
    note = f" ({one.note})" if one.note else ""
    return f"key {key_of(one.definition)}, {by} at {one.at}{note}"


def _columns(definition: TableDefinition | None) -> list[list[str]]:
    found = []
    for column in history_rows.cells(definition) if definition else ():
        extra = ["generated" if column["generated"] else "", "invisible" if column["invisible"] else ""]
        nullable = "" if column["nullable"] else "not null"
        cells = [column["name"], column["type"], nullable, column["charset"] or "", column["default"] or ""]
        found.append([f"  {cells[0]}", *cells[1:], " ".join(filter(None, extra))])
    return found


def _said(one: TableVersion, before: TableDefinition | None) -> list[str]:
    """What a version changed, what it contradicts, and what is not known."""
    names = [f"renamed from {one.renamed_from}"] if one.renamed_from else []
    names += [f"renamed to {one.renamed_to}"] if one.is_dropped and one.renamed_to else []
    names += ["dropped"] if one.is_dropped and not one.renamed_to else []
    changed = changes(before, one.definition) if one.holds else []
    differs = [f"contradicts: {said}" for said in one.differs]
    return [*names, *changed, *differs, *([one.note] if one.note else [])]


def _object(one: TableVersion) -> dict[str, Any]:
    row = history_rows.row_of(one)
    place = {"position": str(one.at), "committed_at": one.committed_at and one.committed_at.isoformat()}
    own = {"session": dict(one.variables) or None}
    left = ("stretch", "number", "file", "offset")
    return {name: cell for name, cell in (row | place | own).items() if name not in left}
