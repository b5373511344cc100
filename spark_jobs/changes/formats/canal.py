"""canal's flat message, as its producers write it to a message queue: one for each row event.

Source: canal 1.1.8, connector.core (MQMessageUtils), parse (LogEventConvert), dbsync (RowsLogBuffer, JsonConversion).

Put here: the message and its values. Not here: numbers as Java writes them (java_text.py).
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from spark_jobs.binlog import Changes, Column, TableDefinition
from spark_jobs.changes.formats.base import (
    BINARY_KINDS,
    DELETE,
    INSERT,
    UPDATE,
    ChangeLine,
    ColumnTexts,
    Format,
    SliceContext,
    StatementEntry,
    Texts,
    geometry_bytes,
    kind_of,
    padded_off,
    portions,
    texts_of,
)
from spark_jobs.changes.formats.java_text import document, double_text, float_text, quoted
from spark_jobs.changes.json_encoding import local

_TYPES = {INSERT: "INSERT", UPDATE: "UPDATE", DELETE: "DELETE"}
_BLOB, _CLOB, _VARCHAR, _OTHER, _BIGINT, _DECIMAL, _INTEGER, _SMALLINT = 2004, 2005, 12, 1111, -5, 3, 4, 5
_SQL_TYPES = {
    "tinyint": -6, "smallint": _SMALLINT, "mediumint": _INTEGER, "int": _INTEGER, "bigint": _BIGINT, "float": 7,
    "double": 8, "decimal": _DECIMAL, "bit": -7, "set": -7, "enum": _INTEGER, "year": _VARCHAR, "date": 91, "time": 92,
    "datetime": 93, "timestamp": 93, "char": 1, "varchar": _VARCHAR, "json": _VARCHAR,
    "tinytext": _CLOB, "text": _CLOB, "mediumtext": _CLOB, "longtext": _CLOB,
}  # fmt: skip
"""Numbers of java.sql.Types by declared type; what is missing is a BLOB."""
_SQL_TYPES_OF_NULL = {"set": _BLOB, "json": _OTHER}
"""SQL types of a NULL, where canal has another than of a value."""
_UNSIGNED = {
    "tinyint": (8, _SMALLINT),
    "smallint": (16, _INTEGER),
    "mediumint": (24, _INTEGER),
    "int": (32, _BIGINT),
    "bigint": (64, _DECIMAL),
}
"""Bits of an integer, and its type where its highest bit is set and it is UNSIGNED."""
Text = Callable[[Any], str]


def _sql_type(column: ColumnTexts, value: str | None) -> int:
    """The number of java.sql.Types that canal gives a value."""
    plain = _SQL_TYPES.get(column.kind, _BLOB)
    if value is None:
        return _SQL_TYPES_OF_NULL.get(column.kind, plain)
    if column.column.unsigned and column.kind in _UNSIGNED:
        bits, wider = _UNSIGNED[column.kind]
        return wider if int(value) >> (bits - 1) else plain
    return plain


@dataclass(slots=True)
class _Message:
    """The rows of one event, as far as they were met."""

    op: int
    offset: int
    first_row: int
    columns: list[ColumnTexts]
    rows: list[Texts] = field(default_factory=list)
    old: list[Texts] = field(default_factory=list)
    sql_types: dict[str, int] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)
    """Columns that any row so far has changed: canal keeps one set for all rows of an event."""

    def continues(self, op: int, offset: int, row: int) -> bool:
        """True if a change is the next row of the event."""
        return (op, offset, row) == (self.op, self.offset, self.first_row + len(self.rows))

    def add(self, before: Texts, after: Texts) -> None:
        """Add the next row; ``after`` is the row before of a delete."""
        for column in self.columns:
            if column.name in after:
                self.sql_types[column.name] = _sql_type(column, after[column.name])
        self.rows.append(after)
        if self.op == UPDATE:
            self.updated |= {name for name, value in after.items() if name not in before or before[name] != value}
            self.old.append({name: value for name, value in before.items() if name in self.updated})


class CanalFormat(Format):
    """Writes ``data, database, es, gtid, id, isDdl, mysqlType, old, pkNames, sql, sqlType, table, ts, type``."""

    has_statements: ClassVar[bool] = True
    allows_statements: ClassVar[bool] = True

    def __init__(self) -> None:
        self.batch = 1
        """The id of the batch that lines are in."""

    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """One line an event: consecutive rows of one operation. Raises DecodeError."""
        columns = [
            ColumnTexts(name, column, kind_of(column), _text_of(column), _exact(column))
            for name, column in zip(definition.column_names(), definition.columns, strict=True)
        ]
        message: _Message | None = None
        for part in portions(changes):
            after = texts_of(columns, part.after, part.raw, part.present)
            before = texts_of(columns, part.before, part.before_raw, part.before_present)
            positions = zip(part.op.to_pylist(), part.offset.to_pylist(), part.row.to_pylist(), strict=True)
            # An event's rows may lie in two portions: its message is open until another row comes.
            for at, position in enumerate(positions):
                if message and not message.continues(*position):
                    yield self._line(context, definition, message)
                    message = None
                message = message or _Message(*position, columns)
                message.add(before[at], after[at])
        if message:
            yield self._line(context, definition, message)

    def _line(self, context: SliceContext, definition: TableDefinition, message: _Message) -> ChangeLine:
        assert context.marks
        seconds, _ = context.marks.stamp(message.offset)
        present = [column for column in message.columns if column.name in message.sql_types]
        # Keys of the object are in alphabetical order; all of them are there in every message.
        keys = [definition.column_names()[ordinal] for ordinal in sorted(definition.key or ())]
        fields = {
            "data": f"[{','.join(map(_object, message.rows))}]",
            "database": quoted(definition.name.schema),
            "es": str(seconds * 1000),
            "gtid": '""',
            "id": "",
            "isDdl": "false",
            "mysqlType": _object({column.name: column.column.sql_type for column in present}),
            "old": f"[{','.join(map(_object, message.old))}]" if message.old else "null",
            "pkNames": f"[{','.join(map(quoted, keys))}]" if keys else "null",
            "sql": '""',
            "sqlType": "{" + ",".join(f"{quoted(name)}:{code}" for name, code in message.sql_types.items()) + "}",
            "table": quoted(definition.name.table),
        }
        pieces = self._rendered(fields, _TYPES[message.op])
        return ChangeLine(message.offset, message.first_row, pieces, rows=len(message.rows))

    def statement(self, context: SliceContext, entry: StatementEntry) -> str:
        """The message of a DDL statement."""
        assert context.marks
        seconds, _ = context.marks.stamp(entry.offset)
        # What only rows have is null.
        fields = {
            "data": "null",
            "database": quoted(entry.schema or entry.database or ""),
            "es": str(seconds * 1000),
            "gtid": '""',
            "id": "",
            "isDdl": "true",
            "mysqlType": "null",
            "old": "null",
            "pkNames": "null",
            "sql": quoted(entry.text),
            "sqlType": "null",
            "table": quoted(entry.table or ""),
        }
        return "".join(self._rendered(fields, _statement_type(entry.text)))

    def _rendered(self, fields: dict[str, str], kind: str) -> Iterator[str]:
        """The line, once it is written: lines are made ahead of the batch that they are in."""
        fields |= {"id": str(self.batch), "ts": str(time.time_ns() // 1_000_000), "type": f'"{kind}"'}
        yield "{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}\n"


_STATEMENTS = (
    ("ALTER", r"ALTER\s+TABLE"),
    ("CREATE", r"CREATE\s+(?:TEMPORARY\s+)?TABLE"),
    ("ERASE", r"DROP\s+(?:TEMPORARY\s+)?TABLE"),
    ("TRUNCATE", r"TRUNCATE"),
    ("RENAME", r"RENAME"),
    ("CINDEX", r"CREATE\s+(?:\w+\s+)?INDEX"),
    ("DINDEX", r"DROP\s+INDEX"),
)
_COMMENT = re.compile(r"\s*/\*.*?\*/|\s*--[^\n]*\n|\s*#[^\n]*\n", re.DOTALL)


def _statement_type(text: str) -> str:
    """The event type that canal gives a statement; QUERY for what is about no table."""
    while match := _COMMENT.match(text):
        text = text[match.end() :]
    return next((kind for kind, form in _STATEMENTS if re.match(rf"\s*{form}\b", text, re.IGNORECASE)), "QUERY")


def _object(row: Texts) -> str:
    cells = (f"{quoted(name)}:{'null' if value is None else quoted(value)}" for name, value in row.items())
    return "{" + ",".join(cells) + "}"


def _exact(column: Column) -> Text:
    """Values that a typed column cannot hold: bytes that are no text as their Latin-1 letters, dates as they are."""
    if column.type.is_character:
        return lambda text: bytes.fromhex(text).decode("latin-1")
    return lambda text: text.partition(" or ")[0]


def _label_number(kind: str, labels: tuple[str, ...]) -> Text:
    """The number of an ENUM's label, or of a SET's labels together."""
    numbers = {label: number for number, label in enumerate(labels)}
    if kind == "enum":
        return lambda value: str(numbers[value] + 1 if value in numbers else 0)
    return lambda value: str(sum(1 << numbers[label] for label in value.split(",") if label in numbers))


def _decimal_text(text: str) -> str:
    """canal leaves out the digits after the last nine of a fraction where they are zeros."""
    digits, point, fraction = text.partition(".")
    rest = len(fraction) % _GROUP
    if not rest or fraction[-rest:].strip("0"):
        return text
    return f"{digits}{point}{fraction[:-rest] or '0'}"


_GROUP = 9
"""Digits that the log holds together."""


def _latin(kind: str) -> Text:
    return lambda value: padded_off(value, kind).decode("latin-1")


_TEXTS: dict[str, Text] = {
    "float": float_text,
    "double": double_text,
    "decimal": lambda value: _decimal_text(value if isinstance(value, str) else f"{value:f}"),
    "year": lambda value: f"{value:04d}",
    "date": lambda value: str(value.isoformat()),
    "json": document,
    "geometry": lambda value: geometry_bytes(value).decode("latin-1"),
    "vector": lambda value: f"[{','.join(map(float_text, value))}]",
    **{kind: _latin(kind) for kind in BINARY_KINDS},
}
"""Writers by the first word of a declaration; all else is its text."""


def _text_of(column: Column) -> Text:
    kind = kind_of(column)
    if kind in ("datetime", "timestamp"):
        digits = column.type.digits(column)
        return lambda value: _utc(value, digits)
    if column.type.has_labels and column.labels is not None:
        return _label_number(kind, column.labels)
    return _TEXTS.get(kind, str)


def _utc(value: datetime, digits: int) -> str:
    return local(value if value.tzinfo is None else value.astimezone(UTC), digits)
