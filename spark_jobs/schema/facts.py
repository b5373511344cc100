"""Definition of a table at a position, and its origin: statements, table maps, servers, dumps.

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

VersionOrigin = Literal["ddl", "table_map", "server", "dump", "inverted"]


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
        """The first position that the statement is before."""
        return self.stop or replace(self.at, offset=self.at.offset + 1)


@dataclass(frozen=True, slots=True)
class LoggedTable:
    """The first TABLE_MAP of a table that a part of the log has, or another one than before."""

    at: Position
    definition: TableDefinition
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """Answer of a server about its tables, or of a dump of them."""

    at: Position
    """End of its log before it was asked; where the dump was taken, during which nothing changed."""
    definitions: tuple[TableDefinition, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    is_whole: bool = True
    """True if it has all tables that there are, so that one that it lacks is gone."""
    note: str | None = None
    """Reason why it does not count."""
    origin: Literal["server", "dump"] = "server"
    unread: tuple[tuple[TableName, str], ...] = ()
    """Tables that the dump has, and why they cannot be read there."""
    declared: ServerFacts | None = None
    """Declarations of a dump that the log may not tell; None of a server."""


@dataclass(frozen=True, slots=True)
class InvertedDefinition:
    """Definition of a table from a position on, inferred from later definitions.

    note: why it is not known what it was before that position; None where it is, or there is nothing before.
    """

    at: Position
    definition: TableDefinition
    note: str | None = None


Fact = StatementFact | LoggedTable | ServerAnswer | InvertedDefinition


@dataclass(frozen=True, slots=True)
class TableVersion:
    """Version of a table by one origin, at a position, with the definition that it has from there on."""

    name: TableName
    at: Position
    """Begin of the statement, or of the slice of the TABLE_MAP's rows; where a server's log ended when it was asked;
    where a dump was taken."""
    origin: VersionOrigin
    definition: TableDefinition | None = None
    """None where it is not known, or there is no table."""
    is_dropped: bool = False
    """True if there is no table after it."""
    holds: bool = True
    """True if the definition is the table's from here on; a server's that contradicts the log, or was read while the
    table changed, is not."""
    differs: tuple[str, ...] = ()
    """Difference of this origin from those before it."""
    note: str | None = None
    """Reason why the definition is not known, or is not certain."""
    renamed_from: TableName | None = None
    renamed_to: TableName | None = None
    """``renamed_from`` and ``renamed_to``: the name before, and after the statement."""
    statement: str | None = None
    database: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    gtid: str | None = None
    committed_at: datetime | None = None

    @property
    def order(self) -> tuple[tuple[int, int, int], int]:
        """Order of versions of one table."""
        return self.at.order, _ORDER[self.origin]

    def is_before(self, position: Position) -> bool:
        """True if what begins at a position has this version after it; a statement is not after itself."""
        return self.at < position or (self.at == position and self.origin != "ddl")


def in_order(facts: Iterable[Fact]) -> list[Fact]:
    """The facts in the order of the log."""
    return sorted(facts, key=lambda fact: (fact.at.order, _KIND[type(fact)]))


_ORDER: dict[VersionOrigin, int] = {"inverted": 0, "server": 1, "dump": 1, "table_map": 2, "ddl": 3}
"""Order of what stands at one position: servers were asked and dumps taken before the statement, rows are elsewhere."""
_KIND: dict[type, int] = {InvertedDefinition: 0, ServerAnswer: 1, LoggedTable: 2, StatementFact: 3}
