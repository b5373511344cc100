"""A source's tables followed through its log: what each origin tells of a table's columns, and whether they agree.

There are four: statements in the log, the TABLE_MAPs of its rows, a server that was asked at a position, and a schema
dump that was taken at one. What the last two told is led back over statements that can be inverted (reverse_replay.py),
and is a fifth one there. Every table of the source is followed, in scope or not, and nothing stops here: what cannot be
known is said so, with the reason, until another origin tells it.

Put here: what follows from what was told, in order. Not here: reading it off bronze or a server, and keeping it
(history.py); which rows the lake has (silver/table_timeline.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.table_patterns import SYSTEM_SCHEMAS
from spark_jobs.ddl.alter import altered
from spark_jobs.ddl.classify import Effect, Statement
from spark_jobs.ddl.definitions import as_logged, defaults, fitted, listed, with_defaults, with_names, without_defaults
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
from spark_jobs.errors import DecodeError, Unsupported
from spark_jobs.log.position import Position
from spark_jobs.schema.facts import Asked, Fact, Inverted, Logged, Stated, TableVersion, in_order

_ABOUT_TABLES = (Effect.CREATES, Effect.CHANGES, Effect.INDEXES)


def lacks(known: TableDefinition | None) -> bool:
    """Whether rows cannot be read by what is known of a table: a name, or the character set of a text, is missing."""
    if known is None or not known.named():
        return True
    return any(column.charset is None and column.type.is_character for column in known.columns)


def as_of(versions: Iterable[TableVersion], position: Position | None = None) -> dict[TableName, TableVersion]:
    """By table the version that it has at a position, at the end where none is given; dropped ones among them."""
    found: dict[TableName, TableVersion] = {}
    for version in sorted(versions, key=lambda each: each.order):
        if version.holds and (position is None or version.is_before(position)):
            found[version.name] = version
    return found


class Tracker:
    """Follows tables from the versions that are known of them through what comes next."""

    def __init__(self, versions: Iterable[TableVersion] = ()) -> None:
        known = list(versions)
        self._now = as_of(known)
        self._told = {
            origin: as_of(replace(one, holds=True) for one in known if one.origin == origin)
            for origin in ("server", "dump")
        }

    def follow(self, facts: Iterable[Fact]) -> list[TableVersion]:
        """The versions that some facts add; those of one position in the order of the tables' names."""
        every = in_order(facts)
        found: list[TableVersion] = []
        for at, fact in enumerate(every):
            match fact:
                case Stated():
                    added = self._stated(fact)
                case Logged():
                    added = self._logged(fact)
                case Inverted():
                    added = self._inverted(fact)
                case _:
                    later = [one.statement for one in every[at:] if isinstance(one, Stated)]
                    about = [one for one in later if one.effect in _ABOUT_TABLES]
                    added = self._asked(fact, about if fact.origin == "server" else [])
            for one in sorted(added, key=lambda each: each.name):
                if one.name.schema in SYSTEM_SCHEMAS:
                    continue
                found.append(one)
                if one.holds:
                    self._now[one.name] = one
                if one.origin in self._told:
                    self._told[one.origin][one.name] = one
        return found

    def _known(self, name: TableName) -> TableDefinition | None:
        now = self._now.get(name)
        return now.definition if now else None

    def _is_there(self, name: TableName) -> bool:
        now = self._now.get(name)
        return now is not None and not now.is_dropped

    def _stated(self, said: Stated) -> list[TableVersion]:
        if said.statement.effect not in _ABOUT_TABLES:
            return []
        try:
            found = list(self._changed(said))
        except (DecodeError, IndexError, StopIteration):
            about = (name for name in self._now if said.statement.names(name.schema, name.table))
            found = [_of(said, name, note="the statement cannot be read") for name in about if self._is_there(name)]
        named = {one.name for one in found}
        return [*found, *self._alike(said, named)]

    def _alike(self, said: Stated, named: set[TableName]) -> Iterator[TableVersion]:
        """Tables that may be meant by other letters: some servers store small ones, and log what was typed."""
        typed = {str(name).casefold(): name for name in named if not str(name).islower()}
        for name in [one for one in self._now if self._is_there(one) and str(one) in typed and one not in named]:
            yield _of(
                said, name, note=f"the statement names {typed[str(name)]}; whether it is {name} is not in the log"
            )

    def _changed(self, said: Stated) -> Iterator[TableVersion]:
        """The tables after a statement. Raises Unsupported where it cannot be read."""
        versions: dict[TableName, TableVersion] = {}
        for effect in effects(said.statement, said.database, said.session):
            # A new name that an ALTER gives comes after what its other clauses do to the table.
            versions |= {version.name: version for version in self._after(said, effect, versions)}
        yield from versions.values()

    def _after(
        self, said: Stated, effect: TableEffect, versions: Mapping[TableName, TableVersion]
    ) -> list[TableVersion]:
        """The tables after one effect of a statement. versions: those after the effects before it."""
        match effect:
            case DropSchema(schema):
                return list(self._schema_dropped(said, schema))
            case CreateTable():
                return self._created(said, effect)
            case AlterTable() | ChangeIndex() | ChangeStorage() | TruncateTable():
                return [self._altered(said, effect)]
            case DropTable(name):
                is_there = self._is_there(name) or name not in self._now
                return [_of(said, name, is_dropped=True)] if is_there else []
            case Rename(_, was):
                changed = versions.get(was) if said.statement.verb.startswith("ALTER") else None
                return [self._renamed(said, effect, changed)]
            case FreeName(name, became):
                return [_of(said, name, is_dropped=True, renamed_to=became)]
            case UnknownChange() | CreateTemporary():
                raise Unsupported("it is not known what it does")

    def _schema_dropped(self, said: Stated, schema: str) -> Iterator[TableVersion]:
        for name in [one for one in self._now if self._is_there(one)]:
            if name.schema == schema:
                yield _of(said, name, is_dropped=True)
            elif name.schema.casefold() == schema.casefold():
                yield _of(said, name, note=f"whether its schema is {name.schema} is not in the log")

    def _created(self, said: Stated, effect: CreateTable) -> list[TableVersion]:
        name, other = effect.table, effect.like
        if effect.if_missing and self._is_there(name):
            return []
        is_unsure = effect.if_missing and name not in self._now
        note = "made only if it was not there, which the log does not tell" if is_unsure else None
        if other:
            known = self._known(other)
            why = note if known else f"the columns of {other} were not known"
            return [_of(said, name, definition=known and replace(known, name=name), note=why)]
        try:
            definition = effect.definition
        except Unsupported as error:
            return [_of(said, name, note=f"not read: {error}")]
        return [_of(said, name, definition=definition, note=note if definition else "its columns come from a query")]

    def _renamed(self, said: Stated, effect: Rename, changed: TableVersion | None) -> TableVersion:
        """A table under its new name. changed: the table after the other clauses of an ALTER."""
        name, was = effect.table, effect.was
        if changed:
            definition = changed.definition and replace(changed.definition, name=name)
            return replace(changed, name=name, definition=definition, renamed_from=was, renamed_to=effect.displaced)
        known = self._known(was)
        note = None if known else f"the columns of {was} were not known"
        definition = known and replace(known, name=name)
        return _of(said, name, definition=definition, note=note, renamed_from=was, renamed_to=effect.displaced)

    def _altered(self, said: Stated, effect: AlterTable | ChangeIndex | ChangeStorage | TruncateTable) -> TableVersion:
        before = self._known(effect.table)
        if before is None:
            return _of(said, effect.table, note="its columns were not known before it")
        try:
            return _of(said, effect.table, definition=altered(before, effect.operations))
        except (DecodeError, IndexError, ValueError) as error:
            return _of(said, effect.table, note=f"not followed: {error}")

    def _logged(self, fact: Logged) -> list[TableVersion]:
        try:
            return self._by_rows(fact)
        except DecodeError as error:  # a character set that is not known; whoever decodes the rows says so too
            name = fact.definition.name
            return [TableVersion(name, fact.at, "table_map", fact.definition, note=str(error))]

    def _by_rows(self, fact: Logged) -> list[TableVersion]:
        name = fact.definition.name
        known = self._known(name)
        logged = with_labels(fact.definition, known)
        now = self._now.get(name)
        differs: list[str] = []
        definition = logged
        if now and now.is_dropped:
            differs = ["the log has rows of it behind the statement that dropped it"]
        elif known and logged.named() and known.named():
            differs = differences(with_timestamps_of(known, logged), logged, "the log of its rows")
            definition = _told_by_rows(logged, known, is_same=not differs)
        elif known and (told := with_names(logged, known)):
            definition = with_defaults(told, known)
        elif known:
            differs = [f"its rows have types ({listed(logged)}), and it is followed as ({listed(known)})"]
        if not differs and known and _is_same(definition, known):
            return []
        return [
            TableVersion(name, fact.at, "table_map", definition, differs=tuple(differs), committed_at=fact.committed_at)
        ]

    def _inverted(self, fact: Inverted) -> list[TableVersion]:
        """What was found going back counts where something lacks going forward, and does not contradict that."""
        name, definition = fact.definition.name, fact.definition
        now, known = self._now.get(name), self._known(name)
        if (now and now.is_dropped) or not lacks(known):
            return []
        if known and known.named():
            if differences(with_timestamps_of(known, definition), definition):
                return []
            definition = _told_by_server(definition, known)
        return [TableVersion(name, fact.at, "inverted", definition, note=fact.note)]

    def _asked(self, fact: Asked, later: Sequence[Statement]) -> list[TableVersion]:
        found = [self._declared(fact, definition, later) for definition in fact.definitions]
        declared = {definition.name for definition in fact.definitions}
        is_whole = fact.is_whole and declared  # to a user without rights a server shows no table
        gone = [name for name in self._now if self._is_there(name) and name not in declared] if is_whole else []
        found += [_missing(fact, name) for name in gone if not _changing(name, later)]
        found += [TableVersion(name, fact.at, fact.origin, holds=False, note=why) for name, why in fact.unread]
        return [one for one in found if not self._is_said(one)]

    def _is_said(self, one: TableVersion) -> bool:
        """Whether the same origin said the same the last time, and it changes nothing."""
        last = self._told[one.origin].get(one.name)
        is_news = one.holds and not _is_same(one.definition, self._known(one.name))
        return (
            last is not None
            and not is_news
            and _is_same(last.definition, one.definition)
            and (last.holds, last.differs, last.note) == (one.holds, one.differs, one.note)
        )

    def _declared(self, fact: Asked, declared: TableDefinition, later: Sequence[Statement]) -> TableVersion:
        name, known = declared.name, self._known(declared.name)
        version = TableVersion(name, fact.at, fact.origin, declared, variables=fact.variables)
        strange = unknown_types(declared)
        unknown = f"the type of its column {strange[0]} is not known" if strange else None
        why = fact.note or unknown or _changing(name, later)
        if why:
            return replace(version, holds=False, note=why)
        now = self._now.get(name)
        if now and now.is_dropped:
            return replace(version, holds=False, differs=("the log has dropped it",))
        if known is None:
            return version
        declared = as_logged(known, declared)
        if not known.named():
            fits = declared if fact.origin == "server" else fitted(known, declared)
            told = with_names(known, fits) if fits else None
            told = told and with_defaults(told, declared)
            why_not = () if told else (f"its rows have types ({listed(known)})",)
            return replace(version, definition=told or declared, holds=told is not None, differs=why_not)
        by = "the server" if fact.origin == "server" else "the schema dump"
        differs = tuple(differences(with_timestamps_of(known, declared), declared, by))
        if differs:
            return replace(version, holds=False, differs=differs)
        return replace(version, definition=_told_by_server(declared, known))


def _of(said: Stated, name: TableName, **told: object) -> TableVersion:
    version = TableVersion(
        name,
        said.at,
        "ddl",
        statement=said.statement.text,
        database=said.database,
        variables=said.variables,
        gtid=said.gtid,
        committed_at=said.committed_at,
    )
    return replace(version, **told)  # type: ignore[arg-type]


def _missing(fact: Asked, name: TableName) -> TableVersion:
    return TableVersion(name, fact.at, "server", holds=False, differs=("the server does not have it",))


def _changing(name: TableName, later: Sequence[Statement]) -> str | None:
    """Which of the statements behind a place names a table, for whoever asked a server there."""
    found = next((one for one in later if one.names(name.schema, name.table)), None)
    return f"the table was changed while the server was asked: {found.short}" if found else None


def _is_same(one: TableDefinition | None, other: TableDefinition | None) -> bool:
    if one is None or other is None:
        return one is other
    seen = [[column.invisible for column in each.columns] for each in (one, other)]
    return one == other and defaults(one) == defaults(other) and seen[0] == seen[1]


def _told_by_rows(logged: TableDefinition, known: TableDefinition, *, is_same: bool) -> TableDefinition:
    """What a TABLE_MAP tells, with what it leaves out and nothing contradicts: defaults, declared types, an index."""
    if not is_same:
        return logged
    pairs = zip(logged.columns, known.columns, strict=True)
    columns = tuple(
        replace(one, declared=one.declared or two.declared, labels=one.labels or two.labels) for one, two in pairs
    )
    found = with_defaults(without_defaults(replace(logged, columns=columns)), known)
    has_index = logged.key is None or known.key == logged.key
    return replace(found, key=known.key if logged.key is None else logged.key, index=known.index if has_index else None)


def _told_by_server(declared: TableDefinition, known: TableDefinition) -> TableDefinition:
    """What a server tells, with labels and defaults that it leaves out."""
    pairs = zip(declared.columns, known.columns, strict=True)
    columns = tuple(
        replace(one, declared=one.declared or two.declared, labels=one.labels or two.labels) for one, two in pairs
    )
    return with_defaults(replace(declared, columns=columns), known)


def changes(before: TableDefinition | None, after: TableDefinition | None) -> list[str]:
    """What a version changed of a table's columns and key, a few words each; columns are told by their names."""
    if after is None:
        return []
    was = {} if before is None else _typed(before)
    now = _typed(after)
    if before is None:
        return [listed_with_key(after)]
    found = [f"- {name} {kind}" for name, kind in was.items() if name not in now]
    found += [f"+ {name} {kind}" for name, kind in now.items() if name not in was]
    found += [f"{name}: {was[name]} -> {kind}" for name, kind in now.items() if was.get(name, kind) != kind]
    values = [
        {name: column.default for name, column in zip(one.column_names(), one.columns, strict=True)}
        for one in (before, after)
    ]
    both = [name for name, value in values[1].items() if None not in (value, values[0].get(name))]
    found += [
        f"{name}: {values[0][name]} -> {values[1][name]} if left out"
        for name in both
        if values[0][name] != values[1][name]
    ]
    kept = [[name for name in one if name in was and name in now] for one in (was, now)]
    found += [f"order: {', '.join(now)}"] if kept[0] != kept[1] else []
    keys = [key_of(one) for one in (before, after)]
    return found + ([f"key: {keys[0]} -> {keys[1]}"] if keys[0] != keys[1] else [])


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
    """As SHOW CREATE TABLE prints it; its number where this version does not know the type."""
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
