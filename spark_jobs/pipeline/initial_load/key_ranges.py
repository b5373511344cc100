"""Ranges of a table's key that each hold about so many rows, and the condition of a range.

    key = key_of(connection, "shop", "orders")
    for part in ranges(connection, key, rows=50_000):
        condition, parameters = part.condition(key)
        cursor.execute(f"SELECT … FROM {key.table} WHERE {condition}", parameters)

The ranges lie in the order of the key, touch each other, and the first and the last one are open: every row that the
table may ever have lies in exactly one, whoever writes meanwhile, because a row is compared with the very same literal
by the range below a boundary and by the one above it. A walk continues later from the last range's ``up_to``.

Put here: keys as a server compares them, ranges, their SQL. Not here: what is read of a range (load.py).

A boundary is text, so that it can be kept as JSON: a number or a time as the server prints it, strings and bytes as
hex. Strings are compared in the column's own character set and collation; ENUM and SET by number, as they are sorted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

import pymysql
from pymysql.cursors import Cursor

from spark_jobs.errors import AccessDenied, SourceError
from spark_jobs.source.connection import answer_of, is_denial
from spark_jobs.text.sql import identifier, is_table

Boundary = tuple[str, ...]
"""One text for each column of the key."""
Connection: TypeAlias = "pymysql.Connection[Any]"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a key: its name, its type as information_schema has it (DATA_TYPE), its character set if any."""

    name: str
    kind: str
    charset: str | None = None

    @property
    def quoted(self) -> str:
        return identifier(self.name)

    @property
    def expression(self) -> str:
        """SQL: the value as a boundary has it."""
        return _form(self).expression.format(self.quoted)

    @property
    def compared(self) -> str:
        """SQL: what is compared with a boundary."""
        return _form(self).compared.format(self.quoted)

    @property
    def literal(self) -> str:
        """SQL with one ``%s``: a boundary's value to compare with."""
        return _form(self).literal.format(charset=self.charset)

    def parameter(self, text: str) -> Any:
        """Placeholder for the ``%s`` of ``literal``."""
        return _form(self).parameter(text)


@dataclass(frozen=True, slots=True)
class Key:
    """The key that a table is walked by, in the key's own order of columns."""

    schema: str
    name: str
    columns: tuple[KeyColumn, ...]

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    @property
    def order(self) -> str:
        """Columns of ORDER BY: the index's own order."""
        return ", ".join(column.quoted for column in self.columns)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows whose key is beyond ``after`` and not beyond ``up_to``; None: no bound on that side."""

    after: Boundary | None
    up_to: Boundary | None

    def condition(self, key: Key) -> tuple[str, list[Any]]:
        """Condition of WHERE, with its parameters; ``TRUE`` for the range that is open on both sides."""
        sides = [(self.after, ">", ">"), (self.up_to, "<", "<=")]
        bounds = [_beyond(key, at, strict, last) for at, strict, last in sides if at is not None]
        if not bounds:
            return "TRUE", []
        return " AND ".join(text for text, _ in bounds), [value for _, values in bounds for value in values]


class RowCondition(Protocol):
    """Rows of a table to read."""

    def condition(self, key: Key) -> tuple[str, list[Any]]:
        """Condition of WHERE, with ``%s`` for its parameters."""
        ...


def ranges(connection: Connection, key: Key, *, rows: int, after: Boundary | None = None) -> Iterator[KeyRange]:
    """Ranges of ``rows`` rows each, as the table is when each one is asked for; beyond ``after``, where it is given.

    Each costs the server a walk over the index. Raises SourceError.
    """
    while True:
        up_to = _boundary(connection, key, rows, after)
        if up_to is not None and up_to == after:
            raise SourceError(f"{key.schema}.{key.name}: the server's order of its key does not advance")
        yield KeyRange(after, up_to)
        if up_to is None:
            return
        after = up_to


def key_of(connection: Connection, schema: str, name: str, columns: tuple[str, ...] | None = None) -> Key:
    """The table's primary key, or what these columns (names, in an index's order) make as its key.

    Raises SourceError where the server has no such table, column or key.
    """
    rows = _ask(connection, _ASK_COLUMNS.format(is_table(schema, name)), [])
    key_columns = {column: KeyColumn(column, kind.lower(), charset) for column, kind, charset in rows}
    if not key_columns:
        raise SourceError(f"the server has no table {schema}.{name}, or the user may not see it")
    names = columns or tuple(column for (column,) in _ask(connection, _ASK_KEY.format(is_table(schema, name)), []))
    if not names:
        raise SourceError(f"{schema}.{name} has no primary key by which its rows can be read in ranges")
    missing = [column for column in names if column not in key_columns]
    if missing:
        raise SourceError(f"{schema}.{name} has no column {missing[0]}")
    return Key(schema, name, tuple(key_columns[column] for column in names))


def in_text(statement: str) -> str:
    """SQL without parameters for a statement that has some: names may hold ``%``."""
    return statement.replace("%", "%%")


_ASK_COLUMNS = """
SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS WHERE {} ORDER BY ORDINAL_POSITION
"""
_ASK_KEY = """
SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE {} AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX
"""


@dataclass(frozen=True, slots=True)
class _KeyForm:
    """Forms in which values of a kind of type are told and compared. ``{}`` is the column, ``%s`` the parameter."""

    expression: str
    literal: str
    parameter: Callable[[str], Any]
    compared: str = "{}"


_AS_TEXT = "CAST({} AS CHAR)"
_WHOLE = _KeyForm(_AS_TEXT, "%s", int)
_EXACT = _KeyForm(_AS_TEXT, "%s", Decimal)
_FLOATING = _KeyForm("CAST({} * 1e0 AS CHAR)", "%s", float)
"""Times one: a FLOAT is printed with six digits otherwise, whatever it holds."""
_NUMBERED = _KeyForm("CAST(CAST({} AS UNSIGNED) AS CHAR)", "%s", int, "CAST({} AS UNSIGNED)")
"""A label would be compared as text, where the index is in the order of numbers."""
_BITS = _KeyForm("CAST({} + 0 AS CHAR)", "%s", int)
_PRINTED = _KeyForm(_AS_TEXT, "%s", str)
_BYTES = _KeyForm("HEX({})", "x%s", str)
_TEXT = _KeyForm("HEX({})", "_{charset} x%s", str)
"""An introducer's literal gives way to the column's collation."""
_FORMS = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year"), _WHOLE),
    "decimal": _EXACT,
    **dict.fromkeys(("float", "double"), _FLOATING),
    **dict.fromkeys(("enum", "set"), _NUMBERED),
    "bit": _BITS,
    **dict.fromkeys(("date", "datetime", "timestamp", "time", "uuid", "inet4", "inet6"), _PRINTED),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _BYTES),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _TEXT),
}


def _form(column: KeyColumn) -> _KeyForm:
    if column.kind not in _FORMS:
        raise SourceError(f"rows cannot be read in ranges of column {column.name} of type {column.kind}")
    return _FORMS[column.kind]


def _beyond(key: Key, at: Boundary, strict: str, last: str) -> tuple[str, list[Any]]:
    """SQL: the key compared with a boundary column by column, so that the server finds the position in its index.

    For two columns and ``>``: ``(a > 1 OR (a = 1 AND b > 2))``. strict: for all columns but the last, last: for that.
    """
    column, *columns = key.columns
    text, *texts = at
    compared, literal, value = in_text(column.compared), column.literal, column.parameter(text)
    if not columns:
        return f"{compared} {last} {literal}", [value]
    rest, values = _beyond(Key(key.schema, key.name, tuple(columns)), tuple(texts), strict, last)
    return f"({compared} {strict} {literal} OR ({compared} = {literal} AND {rest}))", [value, value, *values]


def _boundary(connection: Connection, key: Key, rows: int, after: Boundary | None) -> Boundary | None:
    """The key of the row that is so many rows on; None where fewer are left."""
    condition, parameters = KeyRange(after, None).condition(key)
    expressions = in_text(", ".join(column.expression for column in key.columns))
    statement = (
        f"SELECT {expressions} FROM {in_text(key.table)} WHERE {condition} ORDER BY {in_text(key.order)} "
        f"LIMIT 1 OFFSET {rows - 1:d}"
    )
    last_rows = _ask(connection, statement, parameters)
    return tuple(_literal(value) for value in last_rows[0]) if last_rows else None


def _literal(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _ask(connection: Connection, statement: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
    try:
        with connection.cursor(Cursor) as cursor:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())
    except pymysql.MySQLError as error:
        if is_denial(error):
            raise AccessDenied(f"the server answered: {answer_of(error)}") from error
        raise SourceError(f"the server answered: {answer_of(error)}") from error
