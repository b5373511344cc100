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
from spark_jobs.schema.tracker import as_of, definition_changes, key_of

_ORIGINS = {
    "ddl": "",
    "table_map": "row metadata",
    "server": "the server",
    "dump": "the schema dump",
    "inverted": "later definitions, projected backwards",
}


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that are printed of one table: a title, and the cells of rows."""

    title: str
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class SchemaListing:
    """Versions of tables up to the position that is asked for, and by table the one that it has there.

    positions: the positions, by table.
    """

    versions: list[TableVersion]
    current: dict[TableName, TableVersion]
    positions: dict[TableName, Position]

    def definitions(self, *, dropped: bool) -> Iterator[Lines]:
        """A table after the other; those that are not there (any more) where ``dropped``."""
        for name, version in sorted(self.current.items()):
            if version.is_dropped and not dropped:
                continue
            yield Lines(f"{name} at {self.positions[name]}: {_state(version)}", _column_rows(version.definition))

    def histories(self) -> Iterator[Lines]:
        """Lines by table: all that was told of it, and what that changed."""
        for name in sorted({version.name for version in self.versions}):
            before: TableDefinition | None = None
            rows = []
            for entry in (version for version in self.versions if version.name == name):
                committed = entry.committed_at.isoformat(timespec="seconds") if entry.committed_at else ""
                source = _ORIGINS[entry.origin] or " ".join((entry.statement or "").split())
                rows.append([str(entry.at), source, committed, "; ".join(_notes(entry, before))])
                before = entry.definition if entry.holds else before
            yield Lines(str(name), rows)

    def as_json(self, *, history: bool) -> Iterator[dict[str, Any]]:
        """An object a table, or a version."""
        if history:
            yield from (_version_object(version) for version in self.versions)
            return
        for name, entry in sorted(self.current.items()):
            yield {"at": str(self.positions[name])} | _version_object(entry)


def listing_of(
    pipeline: Pipeline,
    source: str,
    in_scope: Callable[[TableName], bool],
    log_position: Callable[[], Position | None],
    *,
    history: bool = False,
) -> SchemaListing:
    """The tables that are wanted, at a location; where it is None, each where silver is, or at the history's end.

    history: at the history's end, so that a statement that stopped its table is in the list.

    Raises LakeError, SourceError, ConfigError.
    """
    lake = lake_of(pipeline)
    recorded = schema_history.read(lake, source)
    position = log_position()
    recorded.at(position)
    entries = () if history else publication.read(lake, source)
    silver = {TableName(*entry.name): entry.checkpoint for entry in entries}
    versions = [version for version in recorded.versions if in_scope(version.name)]
    names = {version.name for version in versions}
    positions = {name: position or silver.get(name) or recorded.end for name in names}
    earlier = [version for version in versions if version.is_before(positions[version.name])]
    current = {name: version for name in names for version in [_version_at(earlier, name, positions[name])] if version}
    return SchemaListing(earlier, current, positions)


def _version_at(versions: list[TableVersion], name: TableName, position: Position) -> TableVersion | None:
    return as_of((version for version in versions if version.name == name), position).get(name)


def _state(version: TableVersion) -> str:
    """State of a table in words: since when it is as it is, and what is to be known of it."""
    if version.is_dropped:
        renamed = f", to {version.renamed_to}" if version.renamed_to else ""
        return f"{'renamed' if renamed else 'dropped'}{renamed} at {version.at}"
    by = f"from {_ORIGINS[version.origin]}" if _ORIGINS[version.origin] else "from DDL"
    if version.definition is None:
        return f"not known since {version.at}: {version.note}"
    note = f" ({version.note})" if version.note else ""
    return f"key {key_of(version.definition)}, {by} at {version.at}{note}"


def _column_rows(definition: TableDefinition | None) -> list[list[str]]:
    rows = []
    for column in history_rows.cells(definition) if definition else ():
        extra = ["generated" if column["generated"] else "", "invisible" if column["invisible"] else ""]
        nullable = "" if column["nullable"] else "not null"
        cells = [column["name"], column["type"], nullable, column["charset"] or "", column["default"] or ""]
        rows.append([f"  {cells[0]}", *cells[1:], " ".join(filter(None, extra))])
    return rows


def _notes(version: TableVersion, before: TableDefinition | None) -> list[str]:
    """Notes on a version: what it changed, what it contradicts, and what is not known."""
    names = [f"renamed from {version.renamed_from}"] if version.renamed_from else []
    names += [f"renamed to {version.renamed_to}"] if version.is_dropped and version.renamed_to else []
    names += ["dropped"] if version.is_dropped and not version.renamed_to else []
    changed = definition_changes(before, version.definition) if version.holds else []
    differs = [f"contradicts: {contradiction}" for contradiction in version.differs]
    return [*names, *changed, *differs, *([version.note] if version.note else [])]


def _version_object(version: TableVersion) -> dict[str, Any]:
    row = history_rows.row_of(version)
    position = {"position": str(version.at), "committed_at": version.committed_at and version.committed_at.isoformat()}
    fields = {"session": dict(version.variables) or None}
    omitted = ("stretch", "number", "file", "offset")
    return {name: cell for name, cell in (row | position | fields).items() if name not in omitted}
