"""Schema history of a source (the lake's table ``schema/<source>``): definitions of its tables at any position.

Put here: its rows, reading bronze and servers for it, and definitions out of it. Not here: what follows from what was
told (tracker.py), or what silver's rows are (their own commits say that, since they move together).

It is written behind every extraction, from where it is to bronze's end, in one commit upon the one before: a run that
dies leaves it as it was, and the next one writes the same. The statements and TABLE_MAPs in it are in bronze, so what
it says does not depend on when runs were; what servers told stays in it alone. A schema dump is of a position that may
lie anywhere in it: where one is new, the history is rebuilt.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import pyarrow as pa

from spark_jobs.binlog import TableDefinition, TableName, read_session, read_session_variables
from spark_jobs.bronze.commit import stretches
from spark_jobs.bronze.index import read_index
from spark_jobs.bronze.scan import definitions_in
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.model import SchemaDump
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.definitions import HistoryAnswer, with_server_definition
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.errors import DecodeError, LakeError
from spark_jobs.lake.commit import Checkpoint, Head, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.schema import dump as dumped
from spark_jobs.schema.commit import HistoryCommit
from spark_jobs.schema.facts import Fact, LoggedTable, ServerAnswer, StatementFact, TableVersion
from spark_jobs.schema.history_rows import ARROW, COLUMNS, row_of, version_of
from spark_jobs.schema.reverse_replay import replay_backwards
from spark_jobs.schema.tracker import Tracker, as_of, lacks_names
from spark_jobs.source.files import Files
from spark_jobs.source.information_schema import DefaultOf, ask, logs_all
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server
from spark_jobs.source.server_facts import ask_facts, logs_cascades

log = logging.getLogger(__name__)

_AHEAD = "the server was asked after the part of its log that was extracted"


@dataclass(frozen=True, slots=True)
class History:
    """Versions of a source's tables between two positions; ``versions`` by table and position."""

    source: str
    begin: Position
    end: Position
    versions: tuple[TableVersion, ...]

    def at(self, position: Position | None = None) -> dict[TableName, TableVersion]:
        """Version of each table at a position, at the end where none is given; dropped ones among them.

        Raises LakeError for a position before the history begins, or behind its end.
        """
        if position and not self.begin <= position <= self.end:
            raise LakeError(f"{self.source}: {position} is not in the schema history, from {self.begin} to {self.end}")
        return as_of(self.versions, position)

    def of(self, name: TableName) -> list[TableVersion]:
        """All versions of a table, in order."""
        return [version for version in self.versions if version.name == name]


def read(lake: Lake, source: str) -> History:
    """The history of a source, read without a JVM. Raises LakeError if there is none yet."""
    table = lake.schema(source)
    head = table.head()
    commit = HistoryCommit.of_head(head)
    if commit is None:
        raise LakeError(f"{source}: there is no schema history yet; stratalog extract writes it")
    versions = sorted(map(version_of, table.rows()), key=lambda version: (version.name, *version.order))
    return History(source, commit.begin, commit.position, tuple(versions))


@dataclass(frozen=True, slots=True)
class ServerReading:
    """Answer of a server, or a schema dump. completes: its log leaves out what only the server tells, such as names.

    dump: which one it is of; None of a server.
    """

    answer: ServerAnswer
    completes: bool
    dump: str | None = None


def reading_of(
    lake: Lake, source: Source, schema_dump: SchemaDump | None, default_of: DefaultOf = lambda column, *_: column
) -> ServerReading | None:
    """Reading besides the log: of a live server as ``ask_server``, of files their schema dump.

    None of a dump that the history has already. Raises SourceError.
    """
    if schema_dump is None or not isinstance(source, Files):
        return ask_server(lake, source, default_of)
    raw = dumped.dump_bytes(source.name, schema_dump)
    mark = dumped.mark(schema_dump, raw)
    commit = HistoryCommit.of_head(lake.schema(source.name).head())
    if commit and commit.dump == mark:
        return None
    return ServerReading(dumped.answer_of(source, schema_dump, raw), completes=False, dump=mark)


def ask_server(lake: Lake, source: Source, default_of: DefaultOf = lambda column, *_: column) -> ServerReading | None:
    """Answer of a live server about its tables now: once, and whenever its log does not tell all; None of files.

    Asked before the end of the log is, so that it is never of later than what is extracted. Raises SourceError.
    """
    if not isinstance(source, Server):
        return None
    with source.asking() as connection:
        variables = source.variables(connection)
        is_complete = logs_all(variables)
        commit = HistoryCommit.of_head(lake.schema(source.name).head()) if is_complete else None
        if commit and commit.asked_at:
            return None
        at = source.end(connection)
        return ServerReading(
            ServerAnswer(at, ask(source, connection, variables, default_of), variables), not is_complete
        )


def new_facts(lake: Lake, source: Source) -> ServerFacts | None:
    """Declarations of a live server that its log may not tell; None where the history has them, and of files.

    Tables out of scope are among them, since others may be in scope later. It is asked for once, and when the server
    logs cascades otherwise than before: from there on statements tell the rest. Raises SourceError.
    """
    if not isinstance(source, Server):
        return None
    facts = declared_facts(lake, source.name)
    with source.asking() as connection:
        variables = source.variables(connection)
        if facts and facts.logs_cascades == logs_cascades(variables):
            return None
        return ask_facts(source, connection, variables, lambda *_: True)


def declared_facts(lake: Lake, source: str) -> ServerFacts | None:
    """Declarations of a server that its log may not tell; None where none was asked."""
    commit = HistoryCommit.of_head(lake.schema(source).head())
    return commit.facts if commit else None


@dataclass(frozen=True, slots=True)
class _Update:
    """Start of an update of the history."""

    table: Table
    head: Head | None
    before: HistoryCommit | None
    """Newest commit of the history."""
    oldest: Position
    end: Position
    """End of bronze."""
    start: Position
    """Position from which on facts are followed."""
    is_rebuilt: bool
    """Everything is followed from ``oldest`` on: bronze begins earlier than the history, or the dump is new."""
    dump: ServerAnswer | None
    """A schema dump, at its position in the log."""

    @classmethod
    def of(cls, table: Table, snapshot: BronzeSnapshot, reading: ServerReading | None) -> Self:
        """Start of the history's update. reading: what a server or a schema dump told beside the log."""
        head = table.head()
        before = HistoryCommit.of_head(head)
        oldest, end = snapshot.oldest, snapshot.end
        dump = (
            _at_positions(reading.answer, snapshot.checkpoint, Range(oldest, end)) if reading and reading.dump else None
        )
        is_rebuilt = oldest < (before.begin if before else oldest) or bool(before and dump and not dump.note)
        start = oldest if is_rebuilt or head is None or head.position is None else max(head.position, oldest)
        return cls(table, head, before, oldest, end, start, is_rebuilt, dump)

    @property
    def charsets(self) -> Mapping[str, str | None]:
        """The character sets of schemas before the followed statements."""
        return (self.before.charsets if self.before else None) or {}

    def has_news(self, reading: ServerReading | None, declared: ServerFacts | None) -> bool:
        """True if there is anything to follow, or something outside of the log was asked for the first time."""
        is_first_answer = reading is not None and not (self.before and self.before.asked_at)
        return self.start < self.end or not self.before or self.is_rebuilt or declared is not None or is_first_answer

    def commit(self, declared: ServerFacts | None) -> HistoryCommit:
        """The commit of the history: its position, and the servers and dumps that were asked before."""
        before = self.before
        return HistoryCommit(
            self.end,
            new_batch(),
            begin=min(before.begin if before else self.oldest, self.oldest),
            asked_at=before.asked_at if before else None,
            completes_log=before.completes_log if before else None,
            dump=before.dump if before else None,
            charsets=before.charsets if before else None,
            facts=_declared_facts(declared, self.dump, self.end) or (before.facts if before else None),
        )

    def answers(self, reading: ServerReading | None, commit: HistoryCommit) -> tuple[list[Fact], HistoryCommit]:
        """Answers besides the log that count from here on, and the commit that names them."""
        if reading and self.dump:
            return [self.dump], commit if self.dump.note else replace(commit, dump=reading.dump)
        answer = _in_stretch(reading.answer, self.end) if reading else None
        if reading is None or answer is None or answer.at < self.start:
            return [], commit
        # A server's answer from after bronze's end is known, but does not hold yet.
        fact = answer if answer.at <= self.end else replace(answer, at=self.end, is_whole=False, note=_AHEAD)
        return [fact], replace(commit, asked_at=answer.at, completes_log=reading.completes)


def follow(
    lake: Lake,
    source: str,
    reading: ServerReading | None = None,
    declared: ServerFacts | None = None,
) -> list[TableVersion]:
    """Extend the history to bronze's end, and return the new versions. Raises LostRace, LakeError.

    Args:
        lake: where bronze and the history are.
        source: its name.
        reading: what a server or a schema dump told beside the log.
        declared: what a server declared that its log may not tell.

    Where bronze begins earlier than it did, as behind ``extract --archive``, it is rebuilt from there.
    """
    # Nothing is read where neither bronze nor the answers have anything new.
    snapshot = BronzeSnapshot.find(lake, source)
    if snapshot is None:
        return []
    update = _Update.of(lake.schema(source), snapshot, reading)
    if not update.has_news(reading, declared):
        return []
    # Facts in the order of the log, then answers from outside of it at the positions that they hold for.
    table, head, start, is_rebuilt = update.table, update.head, update.start, update.is_rebuilt
    facts = list(_facts(snapshot, Range(start, max(start, update.end))))
    stored = _stored_versions(table, head) if facts or is_rebuilt or reading else []
    answers, commit = update.answers(reading, update.commit(declared))
    # A table that turns out to have existed before needs the log from its beginning: everything is followed again.
    versions, lacking, charsets = (
        ([], [], {}) if is_rebuilt else _followed(stored, [*facts, *answers], start, update.charsets)
    )
    if lacking and start > update.oldest:
        log.info("%s: the schema history is rebuilt: %s was not known before", source, ", ".join(lacking))
        is_rebuilt, start = True, update.oldest
        facts = list(_facts(snapshot, Range(start, update.end)))
    if is_rebuilt:
        answers += _asked_before(stored, start, is_other=bool(reading and reading.dump))
        _warn(source, stored, reading)
        stored = [version for version in stored if version.at < start]
        versions, _, charsets = _followed(stored, [*facts, *answers], start, {})
    if not versions and update.dump and not is_rebuilt and start >= update.end and update.before and declared is None:
        return []
    # Where versions are rebuilt from the start on, those before it are written again beside them.
    upon, commit = head or table.unwritten_head(COLUMNS, {}), replace(commit, charsets=charsets or None)
    if is_rebuilt:
        table.replace_rows(_history_rows([*stored, *versions]), {}, upon, commit)
    else:
        table.append_rows(_history_rows(versions), upon, commit)
    return versions


def _stored_versions(table: Table, head: Head | None) -> list[TableVersion]:
    """Versions upon which a commit is planned."""
    return [version_of(row) for row in table.rows(version=head.version)] if head else []


def _history_rows(versions: Sequence[TableVersion]) -> pa.Table:
    return pa.Table.from_pylist([row_of(version) for version in versions], schema=ARROW)


def _declared_facts(declared: ServerFacts | None, dump: ServerAnswer | None, end: Position) -> ServerFacts | None:
    """Declarations of a server or a dump, at its position in the log; None where neither is new."""
    if declared is None and dump and dump.declared and not dump.note:
        return replace(dump.declared, at=dump.at)
    return replace(declared, at=replace(declared.at, stretch=end.stretch)) if declared else None


def _followed(
    stored: Sequence[TableVersion], facts: Sequence[Fact], start: Position, charsets: Mapping[str, str | None]
) -> tuple[list[TableVersion], list[str], dict[str, str | None]]:
    """The versions that facts add, forward and backwards; the tables of which more would be known further back.

    The third are the character sets of schemas after the facts. charsets: those before them.
    """
    tracker = Tracker(stored, charsets)
    versions = tracker.follow(facts)
    before = as_of(stored, start)
    reversed_history = replay_backwards(facts, versions, start, before.values())
    lacking = [
        version
        for name in reversed_history.reached
        if (version := before.get(name)) and not version.is_dropped and lacks_names(version.definition)
    ]
    if reversed_history.facts:
        versions = Tracker(stored, charsets).follow([*facts, *reversed_history.facts])
    return versions, sorted(str(version.name) for version in lacking), tracker.charsets


_ServerAnswer = tuple[Position | None, dict[tuple[str, str], list[dict[str, Any]]]]
"""Position where a server was asked, and rows of the history by schema and table."""


@dataclass(frozen=True)
class ServerDefinitions:
    """The definitions of all tables that a source's server told last; the history is read once, when one is needed."""

    lake: Lake
    source: str
    _answers: list[_ServerAnswer] = field(default_factory=list, compare=False)
    """The last one, once it was read. No lock is held meanwhile, as that of a cached property would be."""

    def complete(self, logged: TableDefinition, last_change: Position | None) -> TableDefinition:
        """The definition with what the log lacks; as ``with_server_definition``."""
        if not self._answers:
            self._answers.append(self._read())
        asked_at, rows_by_name = self._answers[0]
        rows = rows_by_name.get((logged.name.schema, logged.name.table), ())
        last = max(map(version_of, rows), key=lambda version: version.order, default=None)
        last_answer = (asked_at, last.definition) if asked_at and last and last.definition else None
        return with_server_definition(self.source, logged, last_answer, last_change)

    def _read(self) -> _ServerAnswer:
        """Position of the server's answer, and rows of the history by schema and table; empty where the log has all."""
        table, rows_by_name = self.lake.schema(self.source), defaultdict[tuple[str, str], list[dict[str, Any]]](list)
        commit = HistoryCommit.of_head(table.head())
        if commit is None or not commit.completes_log:
            return None, {}
        for row in table.rows([("origin", "=", "server")]):
            rows_by_name[row["schema"], row["table"]].append(row)
        return commit.asked_at, rows_by_name


def _in_stretch(answer: ServerAnswer, end: Position) -> ServerAnswer:
    """A server counts no stretches; what it said is of the one that bronze ends in now."""
    return replace(answer, at=replace(answer.at, stretch=end.stretch))


def _at_positions(answer: ServerAnswer, checkpoint: Checkpoint, within: Range) -> ServerAnswer:
    """Answer of a dump, in the stretch that has its position; at bronze's edge, with why, where it lies outside."""
    positions = [replace(answer.at, stretch=stretch.number) for stretch in stretches(checkpoint)]
    at = next((position for position in reversed(positions) if within.start <= position <= within.stop), positions[-1])
    at = answer.at if answer.at.stretch > 1 else at
    if within.start <= at <= within.stop:
        return replace(answer, at=at)
    side = f"before {within.start}, where the log that is here begins" if at < within.start else "after the log's end"
    note = f"it was taken at {at}, {side}: which statements stand between is not known; bring the files with them"
    return replace(answer, at=within.stop, note=note)


def _warn(source: str, stored: Iterable[TableVersion], reading: ServerReading | None) -> None:
    """Warn of tables that an earlier dump told otherwise than this one."""
    if reading is None or reading.dump is None:
        return
    # Rows that are in the lake already keep the names that the old dump gave them.
    now = {definition.name: definition for definition in reading.answer.definitions}
    was = {
        version.name: version
        for version in stored
        if version.origin == "dump" and version.definition and version.note is None
    }
    lost_names = [
        name
        for name, version in was.items()
        if version.definition and (name not in now or version.definition.column_names() != now[name].column_names())
    ]
    for name in sorted(lost_names):
        log.warning(
            "%s: the schema dump has changed, and tells otherwise of %s: rows in the lake have the names of the one "
            "before; rebuild it where these were wrong (stratalog reset --source %s --table %s)",
            *(source, name, source, name),
        )


def by_history(lake: Lake, source: str) -> Callable[[TableName, Position], HistoryAnswer | None]:
    """Answer of the schema history about a table at a position: there, or where it was known first after that.

    The history is read when it is first asked.
    """
    versions = cache(lambda: by_table(lake, source))
    return lambda name, start: answer_at(versions().get(name, []), start)


def by_table(lake: Lake, source: str) -> dict[TableName, list[TableVersion]]:
    """The versions in order, by table; none where there is no history yet. Without a JVM. Raises LakeError."""
    table = lake.schema(source)
    by_name: dict[TableName, list[TableVersion]] = {}
    if table.head() is None:
        return by_name
    for entry in sorted(map(version_of, table.rows()), key=lambda entry: entry.order):
        by_name.setdefault(entry.name, []).append(entry)
    return by_name


def answer_at(versions: Sequence[TableVersion], start: Position) -> HistoryAnswer | None:
    """The definition of one table at a position by its versions, in order; None where they have none.

    What a server told counts where a statement was inverted: elsewhere it is asked for as ``ServerDefinitions``.
    """
    # A dump taken later whose definition does not hold says why nothing is known.
    dump = next((version for version in reversed(versions) if version.origin == "dump"), None)
    if dump and dump.at >= start and not dump.holds:
        return HistoryAnswer(dump.at, dump.definition, _reason(dump))
    named_versions = [
        version for version in versions if version.holds and version.definition and version.definition.has_names()
    ]
    # Names that hold at the position itself come first, then those of an inverted statement or a dump after it.
    now = next(iter(as_of(versions, start).values()), None)
    if now and now.definition and now.definition.has_names():
        by = "the schema dump" if now.origin == "dump" else "the schema history"
        return (
            HistoryAnswer(start, now.definition, by=by)
            if dump or any(version.origin != "server" for version in named_versions)
            else None
        )
    first = next(
        (version for version in named_versions if version.origin in ("dump", "inverted") and version.at >= start), None
    )
    if first:
        by = "the schema dump" if first.origin == "dump" else "the schema history"
        return HistoryAnswer(first.at, first.definition, by=by, not_before=first.note)
    if dump is None:
        return None
    return HistoryAnswer(dump.at, dump.definition, _reason(dump) or f"what followed from it up to {start} is not known")


def _reason(version: TableVersion) -> str | None:
    """Reason why what a dump told does not hold."""
    if version.holds:
        return None
    return version.note or f"{'; '.join(version.differs)}, and the dump, at {version.at}, says {version.definition}"


def _facts(snapshot: BronzeSnapshot, within: Range) -> Iterator[Fact]:
    """Facts about tables in a part of bronze. A TABLE_MAP that cannot be read is left to whoever decodes its rows."""
    if not within:
        return
    # Slices that hold a table map or a statement, in the order of the log.
    slices = read_index(snapshot.table, snapshot.version, within).within(within)
    for row in slices.statements_and_table_maps(with_xa=True):
        at = Position(row["file"], row["start"], row["stretch"])
        if row["maps"]:
            try:
                definitions = definitions_in(row["context"], row["maps"], at)
            except DecodeError as error:
                log.warning("%s: the schema history ignores %s: %s", snapshot.source, at, error)
                definitions = []
            yield from (LoggedTable(at, definition, row["committed_at"]) for definition in definitions)
        if row["kind"] == "statement" and row["statement"] is not None:
            database, session = row["database"] or "", read_session(row["begin"])
            yield StatementFact(
                at,
                classify(row["statement"], database, session),
                database,
                session,
                read_session_variables(row["begin"]),
                row["gtid"],
                row["committed_at"],
                replace(at, offset=row["stop"]),
            )


def _asked_before(stored: Iterable[TableVersion], start: Position, *, is_other: bool) -> list[ServerAnswer]:
    """Answers of servers after a position, of tables that it was news of, and a dump; not that, where there is another.

    A dump that was taken outside of the log is read again.
    """
    # One answer a position and origin, as it was asked.
    groups: dict[tuple[Position, str], list[TableVersion]] = {}
    for version in stored:
        is_dump = version.origin == "dump" and not is_other and not (version.note and version.definition)
        if (version.origin == "server" or is_dump) and version.at >= start:
            groups.setdefault((version.at, version.origin), []).append(version)
    return [
        ServerAnswer(
            at,
            tuple(version.definition for version in versions if version.definition),
            versions[0].variables,
            is_whole=False,
            origin="dump" if origin == "dump" else "server",
            unread=tuple(
                (version.name, str(version.note)) for version in versions if origin == "dump" and not version.definition
            ),
        )
        for (at, origin), versions in groups.items()
        if origin == "dump" or any(version.definition for version in versions)
    ]
