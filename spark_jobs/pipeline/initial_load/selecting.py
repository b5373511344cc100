"""Query of the rows of a range, executed in the binary protocol, decoded like a log.

Put here: the query, its session, and that the right server answers. Not here: which rows (key_ranges.py), packets
(source/result_stream.py), what a column becomes (row_images.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from spark_jobs.binlog import Changes, Column, Decoder, TableDefinition, written_head
from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyRange, RowCondition, in_text
from spark_jobs.pipeline.initial_load.row_images import as_selected, fields_of, in_utf8, is_converted
from spark_jobs.source.connection import log_in, refused_by
from spark_jobs.source.result_stream import ResultStream
from spark_jobs.text.sql import identifier

SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', character_set_results = NULL",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
"""Settings by which no server mode changes what is sent, and text comes in the bytes that are stored."""
_LABELLED = (247, 248)


def select(
    definition: TableDefinition, key: Key, part: RowCondition, *, converts_text: bool = False
) -> tuple[str, list[Any]]:
    """The statement that gives the rows of a part, and its parameters. definition: as the server declares the table."""
    expressions = ", ".join(_expression(column, converts_text=converts_text) for column in definition.columns)
    condition, parameters = part.condition(key)
    return f"SELECT {in_text(expressions)} FROM {in_text(key.table)} WHERE {condition}", parameters


def _expression(column: Column, *, converts_text: bool) -> str:
    name = identifier(str(column.name))
    if converts_text and is_converted(column):
        return f"CONVERT({name} USING utf8mb4)"
    # Labels are sent as text; a cast, not a sum, which is a DOUBLE.
    return f"CAST({name} AS UNSIGNED)" if column.type_code in _LABELLED else name


@dataclass(frozen=True, slots=True)
class Selecting:
    """Inputs of a task that reads ranges of a table. Raises SourceError, and what the decoder raises."""

    source: str
    settings: MySQL
    definition: TableDefinition
    key: Key
    server: tuple[str, str] | None = None
    """A variable, and the value that the server has to have: an address may lead to another one meanwhile."""
    converts_text: bool = False
    """True: the server makes UTF-8 of text in other character sets, and ? of bytes that are none. Otherwise the decoder
    does, as it does with a log."""

    def read(self, part: KeyRange) -> Iterator[Changes]:
        """The rows of a range, as one statement sees them, in pieces."""
        with self.errors(), self.connected() as connection:
            yield from self.rows(connection, part)

    def rows(self, connection: "pymysql.Connection[SSCursor]", part: RowCondition) -> Iterator[Changes]:
        """The same on a connection that is ``connected``. Raises what PyMySQL raises too."""
        label = f"{self.source}: rows of the server"
        definition = in_utf8(self.definition) if self.converts_text else self.definition
        decoder = Decoder(as_selected(definition))
        head = written_head(len(definition.columns))
        with connection.cursor() as cursor:
            statement = cursor.mogrify(*select(self.definition, self.key, part, converts_text=self.converts_text))
        stream = ResultStream(connection, label)
        for event, length in stream.images(statement, head, lambda wires: fields_of(definition, wires)):
            yield from decoder.decode_images(label, event, length)

    def connected(self) -> "pymysql.Connection[SSCursor]":
        """A connection whose session is as rows are read in. Raises SourceError for another server."""
        plain = {"conv": _ESCAPES, "use_unicode": False, "cursorclass": SSCursor, "autocommit": True}
        connection = log_in(self.settings, **plain, init_command=None)
        if self.server:
            self._require_server(connection, *self.server)
        for statement in SESSION:
            connection.query(statement)
        return connection

    def _require_server(self, connection: "pymysql.Connection[SSCursor]", variable: str, value: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT @@GLOBAL.{variable}")
            ((setting,),) = cursor.fetchall()
        if bytes(setting).decode() != value:
            raise SourceError(
                f"{self.source}: another server answers at {self.settings.host}:{self.settings.port} than when the "
                f"load began ({variable} is {bytes(setting).decode()}, and was {value}); load again"
            )

    def errors(self) -> "_Refusals":
        """A context in which what PyMySQL raises is a SourceError."""
        return _Refusals(f"{self.source}: {self.definition.name}", self.settings)


_ESCAPES: dict[Any, Any] = dict(pymysql.converters.encoders)
"""Parameters are written as ever; what the server sends is not converted."""


@dataclass(frozen=True, slots=True)
class _Refusals:
    """Makes a server's refusal an error that says where."""

    label: str
    settings: MySQL

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pymysql.MySQLError | OSError | RuntimeError):
            raise refused_by(self.label, self.settings, error) from error
