"""What is known of a table at a position, and from where: statements, table maps, servers, dumps.

Put here: facts and table versions as values. Not here: what follows from facts in order (tracker.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from spark_jobs.binlog import Session, TableDefinition, TableName
from spark_jobs.ddl.classify import Statement
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.log.position import Position

Origin = Literal["ddl", "table_map", "server", "dump", "inverted"]


@dataclass(frozen=True, slots=True)
class StatementFact:
    """A statement of the log. variables: of its session, by name. stop: the position after it."""

    at: Position
    statement: Statement
    database: str = ""
    session: Session = field(default_factory=Session)
    variables: Mapping[str, str] = field(default_factory=dict)
    gtid: str | None = None
    committed_at: datetime | None = None
    stop: Position | None = None

    @property
    def behind(self) -> Position:
        """The first place that the statement is before."""
        return self.stop or replace(self.at, offset=self.at.offset + 1)


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """The first TABLE_MAP of a table that a part of the log has, or another one than before."""

    at: Position
    definition: TableDefinition
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server said of its tables, or a dump of them.

    at: where its log ended before it was asked; where the dump was taken, during which nothing changed. is_whole: of
    all that it has. note: why it does not count. unread: tables that the dump has, and why they cannot be read there.
    declared: of a dump, what the log may not tell of its tables.
    """

    at: Position
    definitions: tuple[TableDefinition, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    is_whole: bool = True
    note: str | None = None
    origin: Literal["server", "dump"] = "server"
    unread: tuple[tuple[TableName, str], ...] = ()
    declared: ServerFacts | None = None


@dataclass(frozen=True, slots=True)
class InvertedDefinition:
    """What a table was from a place on, by what was told of it later.

    note: why it is not known what it was before that place; None where it is, or there is nothing before.
    """

    at: Position
    definition: TableDefinition
    note: str | None = None


Fact = StatementFact | LoggedTable | ServerAnswer | InvertedDefinition


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What one origin told of a table at a position, and the definition that it has from there on.

    at: where the statement, or the slice of the TABLE_MAP's rows, begins; where a server's log ended when it was asked;
    where a dump was taken.
    definition: None where it is not known, or there is no table. is_dropped: there is none behind it.
    holds: whether the definition is the table's from here on; a server's that contradicts the log, or was read while
    the table changed, is not. differs: what this origin says otherwise than those before it. note: why the definition
    is not known, or is not certain. renamed_from, renamed_to: the name before, and behind the statement.
    """

    name: TableName
    at: Position
    origin: Origin
    definition: TableDefinition | None = None
    is_dropped: bool = False
    holds: bool = True
    differs: tuple[str, ...] = ()
    note: str | None = None
    renamed_from: TableName | None = None
    renamed_to: TableName | None = None
    statement: str | None = None
    database: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    gtid: str | None = None
    committed_at: datetime | None = None

    @property
    def order(self) -> tuple[tuple[int, int, int], int]:
        """What versions of one table are sorted by."""
        return self.at.order, _ORDER[self.origin]

    def is_before(self, position: Position) -> bool:
        """Whether what begins at a position has this version behind it; a statement is not behind itself."""
        return self.at < position or (self.at == position and self.origin != "ddl")


def in_order(facts: Iterable[Fact]) -> list[Fact]:
    """As they stand in the log."""
    return sorted(facts, key=lambda fact: (fact.at.order, _KIND[type(fact)]))


_ORDER: dict[Origin, int] = {"inverted": 0, "server": 1, "dump": 1, "table_map": 2, "ddl": 3}
"""Of what stands at one position: servers were asked and dumps taken before the statement, rows are elsewhere."""
_KIND: dict[type, int] = {InvertedDefinition: 0, ServerAnswer: 1, LoggedTable: 2, StatementFact: 3}
