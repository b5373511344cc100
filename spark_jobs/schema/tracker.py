"""Tracker of a source's tables through its log: their columns by each origin, and whether the origins agree.

There are four: statements in the log, the TABLE_MAPs of its rows, a server that was asked at a position, and a schema
dump that was taken at one. What the last two say is reversed over statements that can be inverted (reverse_replay.py),
and is a fifth one there. Every table of the source is followed, in scope or not, and nothing stops here: what cannot be
known is said so, with the reason, until another origin tells it.

Put here: what follows from what was told, in order. Not here: reading it off bronze or a server, and keeping it
(history.py); which rows the lake has (silver/table_timeline.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.table_patterns import SYSTEM_SCHEMAS
from spark_jobs.ddl.alter import definition_after_clauses
from spark_jobs.ddl.classify import Effect, Statement
from spark_jobs.ddl.definitions import (
    as_logged,
    column_list,
    declared_as_logged,
    defaults,
    with_defaults,
    with_names,
    without_defaults,
)
from spark_jobs.ddl.diff import differences, unknown_types, with_timestamps_of
from spark_jobs.ddl.effects import (
    AlterTable,
    ChangeIndex,
    ChangeStorage,
    CreateTable,
    CreateTemporary,
    DropSchema,
    DropTable,
    FreeName,
    Rename,
    TableEffect,
    TruncateTable,
    UnknownChange,
    effects,
)
from spark_jobs.ddl.labels import with_labels
from spark_jobs.ddl.schema_charsets import schema_charset, with_charset
from spark_jobs.errors import DecodeError, Unsupported
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import (
    Fact,
    InvertedDefinition,
    LoggedTable,
    ServerAnswer,
    StatementFact,
    TableVersion,
    in_order,
)

ABOUT_TABLES = (Effect.CREATES, Effect.CHANGES, Effect.INDEXES)
"""Effects of the statements that the schema history follows."""


def lacks_names(definition: TableDefinition | None) -> bool:
    """True if rows cannot be read by what is known of a table: a name, or the character set of a text, is missing."""
    if definition is None or not definition.has_names():
        return True
    return any(column.charset is None and column.type.is_character for column in definition.columns)


def as_of(versions: Iterable[TableVersion], position: Position | None = None) -> dict[TableName, TableVersion]:
    """Version of each table at a position, at the end where none is given; dropped ones among them."""
    latest: dict[TableName, TableVersion] = {}
    for version in sorted(versions, key=lambda version: version.order):
        if version.holds and (position is None or version.is_before(position)):
            latest[version.name] = version
    return latest


class Tracker:
    """Follows tables from the versions that are known of them through what comes next."""

    def __init__(self, versions: Iterable[TableVersion] = (), charsets: Mapping[str, str | None] | None = None) -> None:
        """charsets: those that schemas have, or a collation of theirs, as ``charsets`` was before."""
        stored = list(versions)
        self._now = as_of(stored)
        self.charsets = dict(charsets or {})
        """Character sets of schemas whose statements were followed; None where they may have another one since."""
        self._by_origin = {
            origin: as_of(replace(version, holds=True) for version in stored if version.origin == origin)
            for origin in ("server", "dump")
        }

    def follow(self, facts: Iterable[Fact]) -> list[TableVersion]:
        """The versions that some facts add; those of one position in the order of the tables' names."""
        ordered = in_order(facts)
        versions: list[TableVersion] = []
        for at, fact in enumerate(ordered):
            match fact:
                case StatementFact():
                    added = self._by_statement(fact)
                case LoggedTable():
                    added = self._by_log(fact)
                case InvertedDefinition():
                    added = self._inverted(fact)
                case _:
                    # A server's answer holds for a table only where no statement after it names the table.
                    later = [statement.statement for statement in ordered[at:] if isinstance(statement, StatementFact)]
                    about = [statement for statement in later if statement.effect in ABOUT_TABLES]
                    added = self._by_server(fact, about if fact.origin == "server" else [])
            # What holds becomes the state that the next fact is compared with.
            for version in sorted(added, key=lambda version: version.name):
                if version.name.schema in SYSTEM_SCHEMAS:
                    continue
                versions.append(version)
                if version.holds:
                    self._now[version.name] = version
                if version.origin in self._by_origin:
                    self._by_origin[version.origin][version.name] = version
        return versions

    def definition(self, name: TableName) -> TableDefinition | None:
        """A table's definition after what was followed; None where it is not known, or the table is dropped."""
        now = self._now.get(name)
        return now.definition if now else None

    def _is_there(self, name: TableName) -> bool:
        now = self._now.get(name)
        return now is not None and not now.is_dropped

    def _by_statement(self, fact: StatementFact) -> list[TableVersion]:
        if fact.statement.effect not in ABOUT_TABLES:
            self._note_schema(fact)
            return []
        try:
            versions = list(self._changed_tables(fact))
        except (DecodeError, IndexError, StopIteration):
            about = (name for name in self._now if fact.statement.names(name.schema, name.table))
            versions = [_of(fact, name, note="the statement cannot be read") for name in about if self._is_there(name)]
        names = {version.name for version in versions}
        return [*versions, *self._alike(fact, names)]

    def _note_schema(self, fact: StatementFact) -> None:
        """Remember the character set of a schema, which its next tables take; one that may be another is forgotten."""
        change = schema_charset(fact.statement, fact.database)
        if change is None or (change.if_missing and change.schema in self.charsets):
            return
        self.charsets[change.schema] = None if change.if_missing else change.charset

    def _alike(self, fact: StatementFact, names: set[TableName]) -> Iterator[TableVersion]:
        """Tables that may be meant by other letters: some servers store small ones, and log what was typed."""
        typed = {str(name).casefold(): name for name in names if not str(name).islower()}
        for name in [
            full_name
            for full_name in self._now
            if self._is_there(full_name) and str(full_name) in typed and full_name not in names
        ]:
            yield _of(
                fact, name, note=f"the statement names {typed[str(name)]}; whether it is {name} is not in the log"
            )

    def _changed_tables(self, fact: StatementFact) -> Iterator[TableVersion]:
        """The tables after a statement. Raises Unsupported where it cannot be read."""
        versions: dict[TableName, TableVersion] = {}
        for effect in effects(fact.statement, fact.database, fact.session):
            # A new name that an ALTER gives comes after what its other clauses do to the table.
            versions |= {version.name: version for version in self._after(fact, effect, versions)}
        yield from versions.values()

    def _after(
        self, fact: StatementFact, effect: TableEffect, versions: Mapping[TableName, TableVersion]
    ) -> list[TableVersion]:
        """The tables after one effect of a statement. versions: those after the effects before it."""
        match effect:
            case DropSchema(schema):
                return list(self._schema_dropped(fact, schema))
            case CreateTable():
                return self._created(fact, effect)
            case AlterTable() | ChangeIndex() | ChangeStorage() | TruncateTable():
                return [self._altered_version(fact, effect)]
            case DropTable(name):
                is_there = self._is_there(name) or name not in self._now
                return [_of(fact, name, is_dropped=True)] if is_there else []
            case Rename(_, was):
                changed = versions.get(was) if fact.statement.verb.startswith("ALTER") else None
                return [self._renamed(fact, effect, changed)]
            case FreeName(name, new_name):
                return [_of(fact, name, is_dropped=True, renamed_to=new_name)]
            case UnknownChange() | CreateTemporary():
                raise Unsupported("it is not known what it does")

    def _schema_dropped(self, fact: StatementFact, schema: str) -> Iterator[TableVersion]:
        self.charsets.pop(schema, None)
        for name in filter(self._is_there, list(self._now)):
            if name.schema == schema:
                yield _of(fact, name, is_dropped=True)
            elif name.schema.casefold() == schema.casefold():
                yield _of(fact, name, note=f"whether its schema is {name.schema} is not in the log")

    def _created(self, fact: StatementFact, effect: CreateTable) -> list[TableVersion]:
        name, model = effect.table, effect.like
        if effect.if_missing and self._is_there(name):
            return []
        is_unsure = effect.if_missing and name not in self._now
        note = "made only if it was not there, which the log does not tell" if is_unsure else None
        if model:
            like = self.definition(model)
            note_text = note if like else f"the columns of {model} were not known"
            return [_of(fact, name, definition=like and replace(like, name=name), note=note_text)]
        try:
            definition = effect.definition
        except Unsupported as error:
            return [_of(fact, name, note=f"not read: {error}")]
        definition = definition and with_charset(definition, self.charsets.get(name.schema), fact.statement.plain)
        return [_of(fact, name, definition=definition, note=note if definition else "its columns come from a query")]

    def _renamed(self, fact: StatementFact, effect: Rename, changed: TableVersion | None) -> TableVersion:
        """A table under its new name. changed: the table after the other clauses of an ALTER."""
        name, was = effect.table, effect.was
        if changed:
            definition = changed.definition and replace(changed.definition, name=name)
            return replace(changed, name=name, definition=definition, renamed_from=was, renamed_to=effect.displaced)
        before = self.definition(was)
        note = None if before else f"the columns of {was} were not known"
        definition = before and replace(before, name=name)
        return _of(fact, name, definition=definition, note=note, renamed_from=was, renamed_to=effect.displaced)

    def _altered_version(
        self, fact: StatementFact, effect: AlterTable | ChangeIndex | ChangeStorage | TruncateTable
    ) -> TableVersion:
        before = self.definition(effect.table)
        if before is None:
            return _of(fact, effect.table, note="its columns were not known before it")
        try:
            return _of(fact, effect.table, definition=definition_after_clauses(before, effect.operations))
        except (DecodeError, IndexError, ValueError) as error:
            return _of(fact, effect.table, note=f"not followed: {error}")

    def _by_log(self, fact: LoggedTable) -> list[TableVersion]:
        try:
            return self._by_rows(fact)
        except DecodeError as error:  # a character set that is not known; whoever decodes the rows says so too
            name = fact.definition.name
            return [TableVersion(name, fact.at, "table_map", fact.definition, note=str(error))]

    def _by_rows(self, fact: LoggedTable) -> list[TableVersion]:
        """The version that rows show where it differs from the one that is followed; none where it is the same."""
        name = fact.definition.name
        stored = self.definition(name)
        logged = with_labels(fact.definition, stored)
        now = self._now.get(name)
        differs: list[str] = []
        definition = logged
        # Named columns are compared by name; without names the followed definition must fit the types.
        if now and now.is_dropped:
            differs = ["the log has rows of it after the statement that dropped it"]
        elif stored and logged.has_names() and stored.has_names():
            differs = differences(with_timestamps_of(stored, logged), logged, "the log of its rows")
            definition = _complete_rows(logged, stored, is_same=not differs)
        elif stored and (with_known := with_names(logged, stored)):
            definition = with_defaults(with_known, stored)
        elif stored:
            differs = [f"its rows have types ({column_list(logged)}), and it is followed as ({column_list(stored)})"]
        if not differs and stored and _is_same(definition, stored):
            return []
        return [
            TableVersion(name, fact.at, "table_map", definition, differs=tuple(differs), committed_at=fact.committed_at)
        ]

    def _inverted(self, fact: InvertedDefinition) -> list[TableVersion]:
        """Definitions inferred backwards: they count where forward ones lack something, and do not contradict them."""
        name, definition = fact.definition.name, fact.definition
        now, stored = self._now.get(name), self.definition(name)
        if (now and now.is_dropped) or not lacks_names(stored):
            return []
        if stored and stored.has_names():
            if differences(with_timestamps_of(stored, definition), definition):
                return []
            definition = _complete_server(definition, stored)
        return [TableVersion(name, fact.at, "inverted", definition, note=fact.note)]

    def _by_server(self, fact: ServerAnswer, later: Sequence[Statement]) -> list[TableVersion]:
        versions = [self._declared(fact, definition, later) for definition in fact.definitions]
        declared = {definition.name for definition in fact.definitions}
        is_whole = fact.is_whole and declared  # to a user without rights a server shows no table
        names = [name for name in self._now if self._is_there(name) and name not in declared] if is_whole else []
        versions += [_missing(fact, name) for name in names if not _changing(name, later)]
        versions += [TableVersion(name, fact.at, fact.origin, holds=False, note=reason) for name, reason in fact.unread]
        return [version for version in versions if not self._is_repeated(version)]

    def _is_repeated(self, version: TableVersion) -> bool:
        """True if the same origin said the same the last time, and it changes nothing."""
        last = self._by_origin[version.origin].get(version.name)
        is_news = version.holds and not _is_same(version.definition, self.definition(version.name))
        return (
            last is not None
            and not is_news
            and _is_same(last.definition, version.definition)
            and (last.holds, last.differs, last.note) == (version.holds, version.differs, version.note)
        )

    def _declared(self, fact: ServerAnswer, declared: TableDefinition, later: Sequence[Statement]) -> TableVersion:
        """The version by a server's or a dump's definition: whether it holds, and if not, why."""
        name, definition = declared.name, self.definition(declared.name)
        version = TableVersion(name, fact.at, fact.origin, declared, variables=fact.variables)
        strange = unknown_types(declared)
        unknown = f"the type of its column {strange[0]} is not known" if strange else None
        # What is unknown in it, or changed by a statement after it, does not hold.
        reason = fact.note or unknown or _changing(name, later)
        if reason:
            return replace(version, holds=False, note=reason)
        now = self._now.get(name)
        if now and now.is_dropped:
            return replace(version, holds=False, differs=("the log has dropped it",))
        if definition is None:
            return version
        # Beside a followed definition it completes names that the log lacks, or has to agree with the log's.
        declared = as_logged(definition, declared)
        if not definition.has_names():
            fits = declared if fact.origin == "server" else declared_as_logged(definition, declared)
            with_known = with_names(definition, fits) if fits else None
            with_known = with_known and with_defaults(with_known, declared)
            why_not = () if with_known else (f"its rows have types ({column_list(definition)})",)
            return replace(version, definition=with_known or declared, holds=with_known is not None, differs=why_not)
        by = "the server" if fact.origin == "server" else "the schema dump"
        differs = tuple(differences(with_timestamps_of(definition, declared), declared, by))
        if differs:
            return replace(version, holds=False, differs=differs)
        return replace(version, definition=_complete_server(declared, definition))


def _of(fact: StatementFact, name: TableName, **fields: object) -> TableVersion:
    version = TableVersion(
        name,
        fact.at,
        "ddl",
        statement=fact.statement.text,
        database=fact.database,
        variables=fact.variables,
        gtid=fact.gtid,
        committed_at=fact.committed_at,
    )
    return replace(version, **fields)  # type: ignore[arg-type]


def _missing(fact: ServerAnswer, name: TableName) -> TableVersion:
    return TableVersion(name, fact.at, "server", holds=False, differs=("the server does not have it",))


def _changing(name: TableName, later: Sequence[Statement]) -> str | None:
    """Statements after a position that name a table, for whoever asked a server there."""
    statement = next((statement for statement in later if statement.names(name.schema, name.table)), None)
    return f"the table was changed while the server was asked: {statement.short}" if statement else None


def _is_same(first: TableDefinition | None, second: TableDefinition | None) -> bool:
    if first is None or second is None:
        return first is second
    invisible = [[column.invisible for column in definition.columns] for definition in (first, second)]
    return first == second and defaults(first) == defaults(second) and invisible[0] == invisible[1]


def _complete_rows(logged: TableDefinition, stored: TableDefinition, *, is_same: bool) -> TableDefinition:
    """The definition of a TABLE_MAP, with known defaults, declared types and index that do not contradict it."""
    if not is_same:
        return logged
    pairs = zip(logged.columns, stored.columns, strict=True)
    columns = tuple(
        replace(new, declared=new.declared or old.declared, labels=new.labels or old.labels) for new, old in pairs
    )
    definition = with_defaults(without_defaults(replace(logged, columns=columns)), stored)
    has_index = logged.key is None or stored.key == logged.key
    return replace(
        definition, key=stored.key if logged.key is None else logged.key, index=stored.index if has_index else None
    )


def _complete_server(declared: TableDefinition, definition: TableDefinition) -> TableDefinition:
    """The definition of a server, completed with the labels and defaults that it lacks."""
    pairs = zip(declared.columns, definition.columns, strict=True)
    columns = tuple(
        replace(new, declared=new.declared or old.declared, labels=new.labels or old.labels) for new, old in pairs
    )
    return with_defaults(replace(declared, columns=columns), definition)


def definition_changes(before: TableDefinition | None, after: TableDefinition | None) -> list[str]:
    """Changes of a version to a table's columns and key, a few words each; columns are known by their names."""
    if after is None:
        return []
    # Columns by name: dropped, added, and those with another type.
    was = {} if before is None else _typed(before)
    now = _typed(after)
    if before is None:
        return [listed_with_key(after)]
    lines = [f"- {name} {kind}" for name, kind in was.items() if name not in now]
    lines += [f"+ {name} {kind}" for name, kind in now.items() if name not in was]
    lines += [f"{name}: {was[name]} -> {kind}" for name, kind in now.items() if was.get(name, kind) != kind]
    # Defaults that both versions name, the order of shared columns, and the key.
    values = [
        {name: column.default for name, column in zip(definition.column_names(), definition.columns, strict=True)}
        for definition in (before, after)
    ]
    shared = [name for name, value in values[1].items() if None not in (value, values[0].get(name))]
    lines += [
        f"{name}: {values[0][name]} -> {values[1][name]} if left out"
        for name in shared
        if values[0][name] != values[1][name]
    ]
    in_both = [[name for name in columns if name in was and name in now] for columns in (was, now)]
    lines += [f"order: {', '.join(now)}"] if in_both[0] != in_both[1] else []
    keys = [key_of(definition) for definition in (before, after)]
    return lines + ([f"key: {keys[0]} -> {keys[1]}"] if keys[0] != keys[1] else [])


def listed_with_key(definition: TableDefinition) -> str:
    """Columns and key on one line."""
    return f"({', '.join(f'{name} {kind}' for name, kind in _typed(definition).items())}), key: {key_of(definition)}"


def key_of(definition: TableDefinition) -> str:
    """The key's columns, for those who read."""
    if definition.key is None:
        return "unknown"
    names = definition.column_names()
    return ", ".join(names[at] for at in definition.key) or "none"


def type_of_column(column: Column) -> str:
    """The type as SHOW CREATE TABLE prints it; its number where this version does not know the type."""
    try:
        return column.sql_type
    except (DecodeError, KeyError):
        return f"type {column.type_code}"


def _typed(definition: TableDefinition) -> dict[str, str]:
    return {name: _kind(column) for name, column in zip(definition.column_names(), definition.columns, strict=True)}


def _kind(column: Column) -> str:
    words = [type_of_column(column), "" if column.nullable else "not null"]
    words += ["generated" if column.computed else "", "invisible" if column.invisible else ""]
    return " ".join(filter(None, words))
