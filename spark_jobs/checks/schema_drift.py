"""Comparison of the columns by the log with those that the server declares: all tables of a source at once.

Put here: when the two are of one position of the log, and which tables are compared. Not here: what differs between two
definitions (ddl/diff.py), or who asks (spark_jobs/cli, assets/checks/integrity.py, assets/published.py).

A server's definitions are read while others write. They are those of bronze's end for each table that no statement
names from there up to where the log ends after the reading: DDL is in the log before anybody sees what it did
(MySQL sql/sql_table.cc, MariaDB sql/sql_table.cc: the statement is logged before its metadata lock is given back).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain

from spark_jobs.binlog import Slicer, TableDefinition, TableName
from spark_jobs.bronze.resume import current_log_in_stretch
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.classify import Effect, Statement, classify
from spark_jobs.ddl.diff import differences, unknown_types
from spark_jobs.ddl.sequences import is_sequence
from spark_jobs.downstream import publication
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import DecodeError, SourceError, about
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.log.position import Position
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import TableState
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.protocol import FilePart, PartReader, Source
from spark_jobs.source.server import Server
from spark_jobs.text.progress import doing

MOST_AHEAD = 64 << 20
"""Bytes of log behind bronze's end that are looked through for statements; with more, nothing is compared."""
_AT_ONCE = 8
"""Silver tables whose heads are read side by side."""


@dataclass(frozen=True, slots=True)
class SchemaAudit:
    """Result of a schema check. ``position``: that of bronze's end.

    differing: by table what differs, a sentence each; waiting: tables that could not be compared, and why. unknown:
    tables in scope whose columns the lake does not know yet, since the log has had no row of them. why_not: why no
    table was compared.
    """

    source: str
    position: Position | None
    compared: int = 0
    differing: dict[TableName, list[str]] = field(default_factory=dict)
    waiting: dict[TableName, str] = field(default_factory=dict)
    unknown: int = 0
    why_not: str | None = None

    def lines(self) -> list[str]:
        """The differences, each with its table."""
        return [
            f"{name}: {difference}"
            for name, differences in sorted(self.differing.items())
            for difference in differences
        ]

    def __str__(self) -> str:
        if self.why_not:
            return f"columns are not compared with the server's: {self.why_not}"
        counts = {
            "different": len(self.differing),
            "pending": len(self.waiting),
            "without rows": self.unknown,
        }
        parts = [f"{self.compared - len(self.differing)} as the server declares"]
        parts += [f"{count} {state}" for state, count in counts.items() if count]
        return f"columns and keys of tables: {', '.join(parts)}"


def audit_schema(pipeline: Pipeline, name: str) -> SchemaAudit | None:
    """Compare every table in scope; None for a source that is no server. No JVM. Raises SourceError, LakeError."""
    if not pipeline.sources[name].servers:
        return None
    lake = lake_of(pipeline)
    head = lake.bronze(name).head()
    if head is None or head.position is None:
        return SchemaAudit(name, None, why_not="bronze holds nothing yet")
    with about(name):
        return endpoints_of(pipeline, name).first(lambda source: _audit(pipeline, lake, source, head), proves=False)


def audit_after_run(pipeline: Pipeline, name: str) -> SchemaAudit | None:
    """The same; what has kept it from being done is in ``why_not``: the run has done its work without it."""
    try:
        with doing(f"{name}: comparing columns with the server"):
            return audit_schema(pipeline, name)
    except (SourceError, DecodeError) as error:
        return SchemaAudit(name, None, why_not=str(error).removeprefix(f"{name}: "))


def _audit(pipeline: Pipeline, lake: Lake, source: Source, head: Head) -> SchemaAudit:
    """Compare the followed definitions with the server's; where that cannot be done, why not."""
    assert isinstance(source, Server)
    assert head.position is not None
    # The server's definition holds at the end of its log: up to there statements are read, rows are not.
    position = head.position
    before = current_log_in_stretch(source, head).end
    if before.stretch != position.stretch:
        return SchemaAudit(
            source.name, position, why_not="another log continues after bronze's end, which a run has to read first"
        )
    if before < position:
        return SchemaAudit(source.name, position, why_not=f"{source.endpoint} is behind bronze")
    declared = on_server(source)
    parts = current_log_in_stretch(source, head).parts_from(position)
    ahead = sum(part.stop - part.start for part in parts)
    if ahead > MOST_AHEAD:
        return SchemaAudit(source.name, position, why_not=f"bronze is {ahead:,} bytes behind the log; run again")
    # Statements after bronze's end, which the followed definitions do not have yet.
    since = [statement for part in parts for statement in _statements_of(source.reading(), part)]
    listed = (entry for entry in publication.read(lake, source.name) if pipeline.scope.holds(*entry.name))
    entries = [entry for entry in listed if entry.state != "ignored"]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        followed = pool.map(lambda entry: _table_state(lake, source.name, entry), entries)
        comparison = _Compared(source.name, position, declared, since)
        for entry, state in zip(entries, followed, strict=True):
            comparison.add(entry, state)
    # Tables of the server that no run has seen.
    names = {TableName(*entry.name) for entry in entries}
    unseen_names = (name for name, definition in declared.items() if name not in names and not is_sequence(definition))
    unseen = sum(pipeline.scope.holds(name.schema, name.table) for name in unseen_names)
    return comparison.result(unseen)


def _table_state(lake: Lake, source: str, entry: Entry) -> TableState | None:
    """State of a table at silver's position; None where silver has no row of it."""
    head = lake.silver(source, *entry.name).head() if entry.silver_version is not None else None
    commit = SilverCommit.of_head(head)
    return TableState.of(commit) if commit else None


def _statements_of(reading: PartReader, part: FilePart) -> Iterator[Statement]:
    """Statements of a part of the log that may be about tables. Raises SourceError, DecodeError."""
    format_, chunks = reading(part)
    slicer = Slicer(part.file, part.start, format_)
    for cut in chain(chain.from_iterable(map(slicer.feed, chunks)), slicer.finish()):
        cells = zip(*(cut.column(column).to_pylist() for column in ("kind", "statement", "database")), strict=True)
        yield from (classify(text, database or "") for kind, text, database in cells if kind == "statement" and text)


class _Compared:
    """Tables compared one after the other."""

    def __init__(
        self, source: str, position: Position, declared: dict[TableName, TableDefinition], since: Sequence[Statement]
    ) -> None:
        self._source, self._position, self._declared = source, position, declared
        self._since = [statement for statement in since if statement.effect is not Effect.NONE]
        self._compared = self._unknown = 0
        self._differing: dict[TableName, list[str]] = {}
        self._waiting: dict[TableName, str] = {}

    def add(self, entry: Entry, state: TableState | None) -> None:
        name = TableName(*entry.name)
        if state is None or (state.definition is None and not state.is_dropped):
            self._unknown += 1
        elif reason := self._why_waiting(entry, name):
            self._waiting[name] = reason
        elif state.is_numbered:
            self._waiting[name] = "its columns have no names (on_unnamed: number)"
        else:
            self._compared += 1
            differences = self._differences_between(state.definition, self._declared.get(name))
            if differences:
                self._differing[name] = differences

    def _why_waiting(self, entry: Entry, name: TableName) -> str | None:
        if entry.state == "stopped":
            return "has stopped"
        if entry.is_reset:
            return "is reset"
        if entry.checkpoint != self._position:
            return f"silver is at {entry.position}, and bronze at {self._position}"
        statement = next((statement for statement in self._since if statement.names(name.schema, name.table)), None)
        if statement:
            return f"a statement after bronze's end changes it: {statement.short}"
        declared = self._declared.get(name)
        strange = unknown_types(declared) if declared else []
        return f"the type of its column {strange[0]} is not known" if strange else None

    @staticmethod
    def _differences_between(followed: TableDefinition | None, declared: TableDefinition | None) -> list[str]:
        """followed: None for a table that the log has dropped."""
        if followed is None:
            return ["the log has dropped it, and the server has it"] if declared else []
        return differences(followed, declared) if declared else ["the server does not have it"]

    def result(self, unseen: int) -> SchemaAudit:
        return SchemaAudit(
            self._source, self._position, self._compared, self._differing, self._waiting, self._unknown + unseen
        )
