"""Effects of a statement on tables: the one interpreter of DDL.

``effects`` reads a statement once and returns typed values, each about the tables that it names. Whoever follows tables
through a log (silver/table_timeline.py, silver/rename_lineage.py, schema/tracker.py, schema/reverse_replay.py,
bronze/scan.py) goes by these values, and never by the words of a text: words also stand in comments, in strings and in
quoted names.

Put here: the kinds of effects, and reading them off a statement. Not here: which statements are DDL at all
(classify.py), the grammar of clauses (parse_alter.py, renames.py), what follows for a table's definition (alter.py,
inverse.py) or for its rows (silver/).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from spark_jobs.binlog import Session, TableDefinition, TableName
from spark_jobs.ddl.classify import Effect, Statement
from spark_jobs.ddl.columns import Word, require_plain, words_of
from spark_jobs.ddl.operations import Operation, RenameTable
from spark_jobs.ddl.parse_alter import (
    created_definition,
    dropped_tables,
    index_changes,
    is_if_missing,
    operations,
    storage_action,
    target,
)
from spark_jobs.ddl.renames import earlier_names, like_table
from spark_jobs.ddl.scanner import TokenScanner
from spark_jobs.ddl.table_names import names_in
from spark_jobs.ddl.unreadable_types import readable
from spark_jobs.errors import DecodeError, Unsupported


@dataclass(frozen=True, slots=True)
class Unread:
    """Reason why a part of a statement cannot be read: its tables are known, and what it does to them is not."""

    reason: str


@dataclass(frozen=True, slots=True)
class _OfTable:
    """An effect on one table."""

    table: TableName

    @property
    def tables(self) -> tuple[TableName, ...]:
        """The tables that the effect is on, by their names in the statement."""
        return (self.table,)


@dataclass(frozen=True, slots=True)
class CreateTable(_OfTable):
    """CREATE TABLE, also LIKE another one or filled by a query.

    Attributes:
        table: the table that is there after the statement.
        if_missing: IF NOT EXISTS is in it: a table that is there stays as it is.
        replaces: OR REPLACE is in it.
        like: the table whose columns and keys it takes.
        is_filled: a query of the statement fills it, and no row event does.
        declared: its columns and key; None where another table or a query has them.
    """

    if_missing: bool = False
    replaces: bool = False
    like: TableName | None = None
    is_filled: bool = False
    declared: TableDefinition | Unread | None = None

    @property
    def definition(self) -> TableDefinition | None:
        """Definition that the statement declares. Raises Unsupported where it cannot be read."""
        if isinstance(self.declared, Unread):
            raise Unsupported(self.declared.reason)
        return self.declared


@dataclass(frozen=True, slots=True)
class CreateTemporary(_OfTable):
    """CREATE TEMPORARY TABLE: only sessions in statement format log it, and nobody else has the table."""


@dataclass(frozen=True, slots=True)
class AlterTable(_OfTable):
    """ALTER TABLE: what it does to columns, keys and indexes. The new name that it gives is a Rename after it.

    clauses: none of them where only options of the table change.
    """

    clauses: tuple[Operation, ...] | Unread = ()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Operations of the statement. Raises Unsupported where it cannot be read."""
        if isinstance(self.clauses, Unread):
            raise Unsupported(self.clauses.reason)
        return self.clauses


@dataclass(frozen=True, slots=True)
class ChangeStorage(_OfTable):
    """ALTER TABLE of a partition or a tablespace: rows go, or come, that the log does not name; columns stay.

    partner: the table that rows come from or go to. reason: what the log lacks, for messages.
    """

    action: str
    reason: str
    partner: TableName | None = None
    operations: ClassVar[tuple[Operation, ...]] = ()

    @property
    def adds_rows(self) -> bool:
        """True if a table may have rows after it that it had not before."""
        return self.action in _ADDING_ROWS

    @property
    def tables(self) -> tuple[TableName, ...]:
        return (self.table,) if self.partner is None else (self.table, self.partner)


_ADDING_ROWS = {
    *("EXCHANGE PARTITION", "IMPORT PARTITION", "IMPORT TABLESPACE", "CONVERT PARTITION", "CONVERT TABLE"),
}


@dataclass(frozen=True, slots=True)
class ChangeIndex(_OfTable):
    """CREATE INDEX, DROP INDEX. operations: none for an index that is not unique."""

    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class TruncateTable(_OfTable):
    """TRUNCATE TABLE: all rows go."""

    operations: ClassVar[tuple[Operation, ...]] = ()


@dataclass(frozen=True, slots=True)
class DropTable(_OfTable):
    """A table of a DROP TABLE."""


@dataclass(frozen=True, slots=True)
class DropSchema:
    """DROP DATABASE. schema: in the letters of the statement."""

    schema: str

    @property
    def tables(self) -> tuple[TableName, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Rename(_OfTable):
    """A table has another name after the statement, which may have been another table's before it (a swap).

    Attributes:
        table: its name after the statement.
        was: its name before the statement.
        displaced: what the table is called after the statement that had the name ``table`` before it.
    """

    was: TableName
    displaced: TableName | None = None


@dataclass(frozen=True, slots=True)
class FreeName(_OfTable):
    """Name that no table has after a statement that renames. new_name: of the table that had it before."""

    new_name: TableName | None = None


@dataclass(frozen=True, slots=True)
class UnknownChange:
    """A statement of which nobody knows what it does, by a server newer than this program."""

    verb: str

    @property
    def tables(self) -> tuple[TableName, ...]:
        return ()


TableEffect = (
    CreateTable
    | CreateTemporary
    | AlterTable
    | ChangeStorage
    | ChangeIndex
    | TruncateTable
    | DropTable
    | DropSchema
    | Rename
    | FreeName
    | UnknownChange
)

_CACHED = 1 << 14
"""Letters of the statements whose effects are kept: several layers ask for them, one after the other."""


@readable
def effects(statement: Statement, database: str, session: Session) -> tuple[TableEffect, ...]:
    """Effects of a statement on tables; none for what touches none, and for what changes rows alone.

    Args:
        statement: as ``classify`` returns it.
        database: the session's default schema, for names without one.
        session: decides what literals of columns mean.

    Raises:
        Unsupported: the tables that it is about cannot be read. Where only its clauses cannot, the effect says so.
    """
    interpret = _cached if len(statement.text) <= _CACHED else _effects
    return interpret(statement, database, session)


def name_changes(statement: Statement, database: str, session: Session) -> tuple[Rename | FreeName, ...]:
    """The names that a statement gives to tables and takes from them. Raises Unsupported."""
    if not may_rename(statement):
        return ()
    return tuple(effect for effect in effects(statement, database, session) if isinstance(effect, Rename | FreeName))


def may_rename(statement: Statement) -> bool:
    """True if a statement may give a table another name, also one that cannot be read."""
    return statement.verb.startswith(("RENAME", "ALTER")) and "RENAME" in statement.text.upper()


def _effects(statement: Statement, database: str, session: Session) -> tuple[TableEffect, ...]:
    match statement.effect:
        case Effect.NONE:
            return _temporary(statement, database)
        case Effect.ROWS | Effect.ROUTINE | Effect.TRANSACTION:
            return ()
    text = _body(statement.plain)
    words = words_of(text)
    if statement.schemas:
        return (DropSchema([word.text for word in words if not word.among(";")][-1]),)
    verb = words[0].text.upper() if words and words[0].kind == "word" else ""
    if verb not in _READERS:
        return (UnknownChange(verb),)
    return _READERS[verb](_Text(statement, text, words, database, session))


_cached = lru_cache(maxsize=1024)(_effects)


@dataclass(frozen=True, slots=True)
class _Text:
    """A statement to be read. text: what it carries out, without SET STATEMENT before it; words: its words."""

    statement: Statement
    text: str
    words: Sequence[Word]
    database: str
    session: Session

    @property
    def object(self) -> str:
        """Object of CREATE, ALTER or DROP: TABLE, INDEX, another word; empty where only modifiers stand there."""
        heads = (word.text.upper() for word in self.words[1:_HEADS] if word.kind == "word")
        return next((head for head in heads if head not in _MODIFIERS), "")


_HEADS = 8
_MODIFIERS = {
    *("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "EXTERNAL"),
    *("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"),
}
"""Words between a verb and the object that it is about."""
_TABLE = ("TABLE", "TABLES")


def _create_effects(text: _Text) -> tuple[TableEffect, ...]:
    if text.object == "INDEX":
        return _change_index(text)
    if text.object not in _TABLE:
        return ()
    table = target(text.text, text.database)
    effect = CreateTable(
        table,
        if_missing=is_if_missing(text.text),
        replaces=any(word.among("REPLACE") for word in text.words[:3]),
        like=like_table(text.text, text.database),
        is_filled=text.statement.writes_rows,
        declared=_declared(text, table),
    )
    return (effect,)


def _declared(text: _Text, table: TableName) -> TableDefinition | Unread | None:
    try:
        require_plain(text.statement.text, text.session)
        return created_definition(table, text.text)
    except DecodeError as error:
        return Unread(str(error))


def _alter(text: _Text) -> tuple[TableEffect, ...]:
    if text.object not in _TABLE:
        return ()
    table = target(text.text, text.database)
    storage = storage_action(text.text, text.database)
    if storage is not None:
        action, partner = storage
        return (ChangeStorage(table, action, _why_unknown(text.text, action), partner),)
    return AlterTable(table, _clauses(text)), *_renames(text)


def _why_unknown(text: str, action: str) -> str:
    try:
        operations(text)
    except DecodeError as error:
        return str(error)
    return f"{action} moves rows that the log does not name"


def _clauses(text: _Text) -> tuple[Operation, ...] | Unread:
    try:
        require_plain(text.statement.text, text.session)
        return tuple(operation for operation in operations(text.text) if not isinstance(operation, RenameTable))
    except DecodeError as error:
        return Unread(str(error))


def _drop(text: _Text) -> tuple[TableEffect, ...]:
    if text.object == "INDEX":
        return _change_index(text)
    if text.object not in _TABLE:
        return ()
    return tuple(DropTable(table) for table in dropped_tables(text.text, text.database))


def _truncate(text: _Text) -> tuple[TableEffect, ...]:
    return (TruncateTable(target(text.text, text.database)),)


def _change_index(text: _Text) -> tuple[TableEffect, ...]:
    table, changes = index_changes(text.text, text.database)
    return (ChangeIndex(table, changes),)


def _renames(text: _Text) -> tuple[TableEffect, ...]:
    """The names after a statement, each with the table that has it; those that nothing changes are left out."""
    if not any("RENAME" in word.text.upper() for word in text.words):
        return ()
    was = earlier_names(text.text, text.database)
    new_names = {old: new for new, old in was.items() if old is not None}
    return tuple(
        FreeName(name, new_names.get(name)) if old is None else Rename(name, old, new_names.get(name))
        for name, old in was.items()
        if old != name
    )


_READERS: dict[str, Callable[[_Text], tuple[TableEffect, ...]]] = {
    "CREATE": _create_effects,
    "ALTER": _alter,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "RENAME": _renames,
}


def _body(plain: str) -> str:
    """Statement that is carried out, without MariaDB's SET STATEMENT … FOR before it."""
    tokens = TokenScanner(plain, Session())
    if not (tokens.peek().among("SET") and tokens.peek(1).among("STATEMENT")):
        return plain
    while not tokens.peek().among("FOR"):
        if tokens.take().kind == "end":
            raise Unsupported("it cannot be parsed: FOR is missing")
    return _body(plain[tokens.take().stop :])


def _temporary(statement: Statement, database: str) -> tuple[TableEffect, ...]:
    """The table of a CREATE TEMPORARY TABLE; a view or a routine may be of any text, of which the head is read."""
    if not statement.verb.startswith("CREATE"):
        return ()
    tokens = TokenScanner(_body(statement.plain), Session())
    heads = [tokens.peek(at).text.upper() for at in range(5)]
    at = 3 if heads[1:3] == ["OR", "REPLACE"] else 1
    if heads[at : at + 2] != ["TEMPORARY", "TABLE"]:
        return ()
    ((schema, table),) = names_in("CREATE", tokens)
    return (CreateTemporary(TableName(database if schema is None else schema, table)),)
