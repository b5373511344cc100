"""Unlogged changes: those of a table's rows that the log lacks although it has other rows of the table.

There are two kinds, each a gap of the log. What a server does to child rows by a foreign key (ON DELETE CASCADE and the
like) is done inside the storage engine, and is not logged. MariaDB logs the historical rows of a system-versioned table
among the current ones, and does not mark them. Both follow from what statements and servers declare.

Source: MySQL manual, "InnoDB and MySQL Replication", "FOREIGN KEY Constraints"; MariaDB Knowledge Base,
"System-Versioned Tables".

Put here: from where to where in the log a table has such a gap. Not here: reading clauses (foreign_keys.py), asking
servers (server_facts.py), what a run does about it (spark_jobs/pipeline/cascades/unlogged_changes.py).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import Session, TableName
from spark_jobs.ddl.classify import classify
from spark_jobs.ddl.columns import Word, words_of
from spark_jobs.ddl.effects import (
    AlterTable,
    CreateTable,
    DropSchema,
    DropTable,
    Rename,
    TableEffect,
    Unread,
    effects,
    name_changes,
)
from spark_jobs.ddl.foreign_keys import ForeignKey, declared_keys, dropped_keys
from spark_jobs.ddl.operations import Change
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.errors import DecodeError
from spark_jobs.log.position import Position, Range

_TELLING = re.compile(r"\bREFERENCES\b|\bVERSIONING\b|\bROW\s+START\b", re.IGNORECASE)
"""Words without which no statement begins a gap."""


@dataclass(frozen=True, slots=True)
class DdlStatement:
    """A statement about tables, where it is in the log, and its session's default schema."""

    at: Position
    text: str
    database: str = ""


@dataclass(frozen=True, slots=True)
class UnloggedChanges:
    """A part of the log in which it does not tell a table's rows.

    Attributes:
        table: whose rows they are.
        key: the foreign key by which the server changes them; None of a system-versioned table.
        since: the statement that it begins with; None where it is older than the log, or only the server tells it.
        until: the statement that ends it; None where it lasts to the log's end.
    """

    table: TableName
    key: ForeignKey | None
    since: Position | None = None
    until: Position | None = None

    def __str__(self) -> str:
        """Description of the table, for messages; the position is the reader's."""
        if self.key is None:
            return (
                "is a system-versioned table: the log has its historical rows among the current ones and does not "
                "mark them"
            )
        phrase = f"the foreign key {self.key.name}" if self.key.name else "a foreign key"
        return (
            f"is changed by {phrase} -> {self.key.parent} {self.key.rules}, and the server does not log what that does "
            "to its rows"
        )

    def is_in(self, start: Position, stop: Position) -> bool:
        """True if a range of the log has a part of it."""
        begins_before = self.since is None or self.since < stop
        return begins_before and (self.until is None or self.until > start)

    def part_of(self, within: Range) -> Range | None:
        """The part of a range of the log that it takes; None where it takes none."""
        if not self.is_in(within.start, within.stop):
            return None
        return Range(max(self.since or within.start, within.start), min(self.until or within.stop, within.stop))


@dataclass(frozen=True, slots=True)
class Renamed:
    """A statement that gives a table another name. was: its name before."""

    at: Position
    was: TableName
    table: TableName


def renames(statements: Iterable[DdlStatement]) -> list[Renamed]:
    """The names that statements give to tables, in order; without those of statements that cannot be read."""
    found = list[Renamed]()
    for ddl in sorted(statements, key=lambda statement: statement.at):
        with suppress(DecodeError, IndexError, StopIteration):  # whoever follows the table's columns stops it
            changes = name_changes(classify(ddl.text, ddl.database), ddl.database, _NO_MODE)
            found += [Renamed(ddl.at, change.was, change.table) for change in changes if isinstance(change, Rename)]
    return found


@dataclass(slots=True)
class _TableKeys:
    keys: list[tuple[ForeignKey, Position | None]] = field(default_factory=list)
    versioned: list[Position | None] = field(default_factory=list)
    """Position since which the table is system-versioned; empty where it is not."""


def unlogged_changes(statements: Iterable[DdlStatement], facts: ServerFacts | None = None) -> list[UnloggedChanges]:
    """The unlogged changes of all tables.

    Args:
        statements: those about tables, in any order.
        facts: what the server declared when it was asked; None where nobody was.
    """
    ordered = sorted(statements, key=lambda statement: statement.at)
    if not any(_TELLING.search(ddl.text) for ddl in ordered) and not (
        facts and (facts.foreign_keys or facts.versioned)
    ):
        return []
    follower = _Follower()
    waiting = facts
    for ddl in ordered:
        if waiting and waiting.at <= ddl.at:
            follower.take_in(waiting)
            waiting = None
        follower.follow(ddl)
    if waiting:
        follower.take_in(waiting)
    return [gap for gap in follower.gaps() if _counts(gap, facts)]


def _counts(gap: UnloggedChanges, facts: ServerFacts | None) -> bool:
    return gap.key is None or facts is None or facts.has_inline_keys or not gap.key.is_inline


def is_versioned(words: Iterable[Word]) -> bool:
    """True if a CREATE or ALTER TABLE makes its table, or a column of it, system-versioned."""
    texts = " ".join(word.text.upper() for word in words if word.kind in ("word", "sign"))
    return re.search(r"\b(WITH|ADD) SYSTEM VERSIONING\b|\bAS ROW START\b", texts) is not None


class _Follower:
    """Follows tables from one statement to the next."""

    def __init__(self) -> None:
        self._tables: dict[TableName, _TableKeys] = {}
        self._ended: list[UnloggedChanges] = []

    def gaps(self) -> list[UnloggedChanges]:
        open_ = [gap for name, state in self._tables.items() for gap in _unlogged_changes_of(name, state)]
        return sorted([*self._ended, *open_], key=lambda gap: (gap.table, gap.since is not None, gap.since or _FIRST))

    def take_in(self, facts: ServerFacts) -> None:
        """Add what a server declares and no statement told."""
        for name, key in facts.foreign_keys:
            state = self._tables.setdefault(name, _TableKeys())
            names = {key.name.casefold() for key, _ in state.keys}
            if key.name.casefold() not in names:
                state.keys.append((key, None))
        for name in facts.versioned:
            state = self._tables.setdefault(name, _TableKeys())
            state.versioned = state.versioned or [None]

    def follow(self, ddl: DdlStatement) -> None:
        try:
            statement_effects = effects(classify(ddl.text, ddl.database), ddl.database, _NO_MODE)
            for effect in statement_effects:
                self._carry_out(ddl, effect)
            self._rename(ddl, [effect for effect in statement_effects if isinstance(effect, Rename)])
        except (DecodeError, IndexError, StopIteration):
            return  # whoever follows the table's columns stops it by this statement

    def _carry_out(self, ddl: DdlStatement, effect: TableEffect) -> None:
        match effect:
            case CreateTable():
                self._create(ddl, effect)
            case AlterTable():
                self._alter(ddl, effect)
            case DropTable(table):
                self._end_definition(table, ddl.at)
            case DropSchema(schema):
                for name in [table for table in self._tables if table.schema == schema]:
                    self._end_definition(name, ddl.at)
            case _:
                pass

    def _create(self, ddl: DdlStatement, effect: CreateTable) -> None:
        name, like = effect.table, effect.like
        if effect.if_missing and name in self._tables:
            return
        self._end_definition(name, ddl.at)
        model = self._tables.get(like) if like else None
        state = self._tables[name] = _TableKeys()
        if is_versioned(words_of(ddl.text)) or (model and model.versioned):
            state.versioned = [ddl.at]
        if like is None:
            self._add_keys(name, ddl)

    def _alter(self, ddl: DdlStatement, effect: AlterTable) -> None:
        name, words = effect.table, words_of(ddl.text)
        state = self._tables.setdefault(name, _TableKeys())
        dropped = {full_name.casefold() for full_name in dropped_keys(ddl.text)}
        for key, since in [
            entry for entry in state.keys if {entry[0].name.casefold(), entry[0].index.casefold()} & dropped
        ]:
            state.keys.remove((key, since))
            self._note(UnloggedChanges(name, key, since, ddl.at))
        self._rename_columns(name, ddl, effect)
        self._add_keys(name, ddl)
        if is_versioned(words) and not state.versioned:
            state.versioned = [ddl.at]
        if "DROP SYSTEM VERSIONING" in " ".join(word.text.upper() for word in words if word.kind == "word"):
            self._ended += [UnloggedChanges(name, None, since, ddl.at) for since in state.versioned]
            state.versioned = []

    def _rename(self, ddl: DdlStatement, renames: Sequence[Rename]) -> None:
        """Give tables and the keys that refer to them their new names."""
        moved = {rename.was: self._tables.pop(rename.was) for rename in renames if rename.was in self._tables}
        for entry in renames:
            if entry.was in moved:
                self._ended += _unlogged_changes_of(entry.was, moved[entry.was], ddl.at)
                self._tables[entry.table] = _renamed(moved[entry.was], entry.was, entry.table, ddl.at)
        names = {rename.was: rename.table for rename in renames}
        if names:
            self._restate(ddl.at, lambda _, key: replace(key, parent=names.get(key.parent, key.parent)))

    def _rename_columns(self, name: TableName, ddl: DdlStatement, effect: AlterTable) -> None:
        """Give columns of keys, and those that keys refer to, the names that a statement gives them."""
        if isinstance(effect.clauses, Unread):
            return  # whoever follows the table's columns stops it by this statement
        changes = [operation for operation in effect.clauses if isinstance(operation, Change)]
        names = {change.old.casefold(): change.new for change in changes if change.old != change.new}
        if not names:
            return

        def renamed(columns: Sequence[str], of: TableName) -> tuple[str, ...]:
            return tuple(names.get(column.casefold(), column) if of == name else column for column in columns)

        self._restate(
            ddl.at,
            lambda child, key: replace(
                key, columns=renamed(key.columns, child), parent_columns=renamed(key.parent_columns, key.parent)
            ),
        )

    def _restate(self, at: Position, restated: Callable[[TableName, ForeignKey], ForeignKey]) -> None:
        """Keys as of a statement: those that differ end there, and their successors begin."""
        for name, state in self._tables.items():
            for number, (key, since) in enumerate(state.keys):
                new = restated(name, key)
                if new != key:
                    if since != at:
                        self._note(UnloggedChanges(name, key, since, at))
                    state.keys[number] = (new, at)

    def _add_keys(self, name: TableName, ddl: DdlStatement) -> None:
        state = self._tables[name]
        for key in declared_keys(ddl.text, ddl.database):
            with_name = key if key.name else replace(key, name=_next_name(name, [key.name for key, _ in state.keys]))
            if with_name.name.casefold() not in {key.name.casefold() for key, _ in state.keys}:
                state.keys.append((with_name, ddl.at))

    def _end_definition(self, name: TableName, at: Position) -> None:
        self._ended += _unlogged_changes_of(name, self._tables.pop(name, _TableKeys()), at)

    def _note(self, gap: UnloggedChanges) -> None:
        self._ended += [gap] if gap.key is None or gap.key.is_cascading else []


_FIRST = Position("", 0)
_NO_MODE = Session()


def _unlogged_changes_of(name: TableName, state: _TableKeys, until: Position | None = None) -> list[UnloggedChanges]:
    keys = [UnloggedChanges(name, key, since, until) for key, since in state.keys if key.is_cascading]
    return [*(UnloggedChanges(name, None, since, until) for since in state.versioned), *keys]


def _renamed(state: _TableKeys, old: TableName, new: TableName, at: Position) -> _TableKeys:
    """The state under a new name: names that the server made up of the table's follow it."""
    prefix = f"{old.table}_ibfk_"
    keys = list[tuple[ForeignKey, Position | None]]()
    for key, _ in state.keys:
        follows = key.name.startswith(prefix)
        keys.append((replace(key, name=f"{new.table}_ibfk_{key.name[len(prefix) :]}") if follows else key, at))
    return _TableKeys(keys, [at] if state.versioned else [])


def _next_name(name: TableName, names: Iterable[str]) -> str:
    """The name that a server gives a constraint without one."""
    prefix = f"{name.table}_ibfk_".casefold()
    numbers = [full_name[len(prefix) :] for full_name in names if full_name.casefold().startswith(prefix)]
    return f"{name.table}_ibfk_{max((int(number) for number in numbers if number.isdigit()), default=0) + 1}"
