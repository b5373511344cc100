"""Interface of a format of row changes.

Put here: the interface, and what formats share. Not here: one format.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

import pyarrow as pa

from spark_jobs.binlog import Changes, Column, Mark, Presence, SliceMarks, TableDefinition
from spark_jobs.changes.formats.java_text import quoted_by_jackson as quoted

INSERT, UPDATE, DELETE = 1, 2, 3
"""Numbers of operations in ``Changes.op``."""
BEHIND = 1 << 32
"""A row's number that is after those of every event."""
FIRST_OF_TWO, COMPLETE = 0, 1
"""Parts of a row: the first of the two lines that it is, and the line with which it is complete."""
Kind = Literal["change", "statement", "begin", "end"]


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One JSON line in pieces, its newline the end of the last one, and where its entry stands.

    It is one piece unless values are so long that they are better not held as text.
    """

    offset: int
    row: int
    pieces: Iterable[str]
    kind: Kind = "change"
    mark: Mark | None = None
    """Mark of the line of a begin or an end; None for changes and statements."""
    rows: int = 1
    """Rows of the event that are in it, the first of which is ``row``."""
    part: int = COMPLETE
    """Part of its last row that the line is: FIRST_OF_TWO or COMPLETE."""

    @property
    def text(self) -> str:
        """The line as a whole, with its newline; to be read once."""
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class SliceContext:
    """Context that lines of one slice share. committed: when, where another transaction committed its rows.

    marks: of formats that ask for them. either_sign: ordinals of the table's integer columns of which nothing tells
    whether they are UNSIGNED; their values are read as signed. is_derived: the changes are not in the log, and follow
    from foreign keys.
    """

    source: str | None
    file: str
    marks: SliceMarks | None
    committed: datetime | None
    either_sign: tuple[int, ...] = ()
    is_derived: bool = False


@dataclass(frozen=True, slots=True)
class StatementEntry:
    """A DDL statement: its text, the session's database, the table that it names first, and where it stands."""

    text: str
    database: str
    schema: str | None
    table: str | None
    verb: str
    offset: int
    gtid: str | None
    committed_at: datetime


class Format(ABC):
    """Writes changes as lines. One of a feed, whose slices it is given in order."""

    needs_marks: ClassVar[bool] = True
    """True if it writes what events say beside rows."""
    has_statements: ClassVar[bool] = False
    """True if DDL statements are written where nobody says so."""
    allows_statements: ClassVar[bool] = False
    """True if it has a form for DDL statements."""
    allows_transactions: ClassVar[bool] = False
    """True if it has a form for begins and ends of transactions."""
    allows_derived: ClassVar[bool] = False
    """True if it has a mark for changes that are not in the log."""

    @abstractmethod
    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """The changes of one table in one slice, in order. Raises DecodeError."""

    def statement(self, context: SliceContext, entry: StatementEntry) -> str:
        """The line of a statement; of formats that allow them."""
        raise NotImplementedError

    def edge(self, context: SliceContext, mark: Mark) -> str:
        """The line of a transaction's begin or end; of formats that allow them."""
        raise NotImplementedError

    def arranged(self, lines: Iterator[ChangeLine]) -> Iterator[ChangeLine]:
        """The lines of a slice as they are written; a format may hold some back until a transaction ends."""
        yield from lines

    def rest(self) -> Iterator[ChangeLine]:
        """Rest of the lines, at the end of a feed, or of a transaction that no event ends."""
        yield from ()


@dataclass(frozen=True, slots=True)
class ColumnTexts:
    """Texts of a column's values. text: of a value; exact: of the text of what its typed column cannot hold."""

    name: str
    column: Column
    kind: str
    """The first word of its declaration: ``int``, ``varchar``, ``blob``."""
    text: Callable[[Any], str]
    exact: Callable[[str], str]

    def texts(self, values: pa.Array) -> list[str | None]:
        """One text a value, None for NULL."""
        return [None if value is None else self.text(value) for value in values.to_pylist()]


Texts = dict[str, str | None]
"""A row: its columns' texts by name, None for NULL; absent columns have no key."""


def texts_of(
    columns: Sequence[ColumnTexts], image: pa.RecordBatch, raw: pa.Array | None, presence: Presence | None
) -> list[Texts]:
    """One row's texts after the other."""
    by_column = [column.texts(values) for column, values in zip(columns, image.columns, strict=True)]
    names = [column.name for column in columns]
    for row, exact in enumerate(raw.to_pylist() if raw is not None else ()):
        for name, text in exact or ():
            at = names.index(name)
            by_column[at][row] = columns[at].exact(text)
    rows = zip(*by_column, strict=True)
    if presence is None:
        return [dict(zip(names, row, strict=True)) for row in rows]
    present: list[list[bool]] = presence.sets[presence.index].tolist()
    return [
        {name: text for name, text, is_present in zip(names, row, flags, strict=True) if is_present}
        for row, flags in zip(rows, present, strict=True)
    ]


def json_object(row: Texts) -> str:
    """An object whose values are JSON texts already."""
    cells = (f"{quoted(name)}:{'null' if text is None else text}" for name, text in row.items())
    return f"{{{','.join(cells)}}}"


def kind_of(column: Column) -> str:
    """The first word of a column's declaration: ``int``, ``varchar``, ``blob``."""
    text = column.sql_type
    at = next((at for at, letter in enumerate(text) if not letter.isalnum()), len(text))
    return text[:at]


def padded_off(value: bytes, kind: str) -> bytes:
    """A BINARY as the log has it: without the zero bytes at its end."""
    return value.rstrip(b"\0") if kind == "binary" else value


def geometry_bytes(value: dict[str, Any]) -> bytes:
    """A geometry as the server stores it: SRID, then WKB."""
    return int(value["srid"]).to_bytes(4, "little") + bytes(value["wkb"])


def gtids_of(changes: Changes) -> list[str | None]:
    """One GTID a row."""
    if changes.gtid is None:
        return [None] * len(changes)
    texts = changes.gtid.dictionary.to_pylist()
    return [texts[at] for at in changes.gtid.indices.to_pylist()]


_PORTION = 4 << 20
"""Bytes of values that become text at once."""


def portions(batches: Iterable[Changes]) -> Iterator[Changes]:
    """The changes in so many parts that the values of each are few bytes, or one row."""
    for changes in batches:
        step = max(1, len(changes) * _PORTION // max(changes.nbytes, 1))
        for first in range(0, len(changes), step):
            yield changes if step >= len(changes) else changes.slice(first, min(step, len(changes) - first))


BINARY_KINDS = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
