"""A server's own SELECT of a table, in the types that the lake's columns have.

Put here: what is asked of the server for each column type, and the Arrow type its answer becomes. Not here: comparing.

The server is asked for text (``CAST``) where a driver would make an object of its own, and Arrow reads the text: no
value passes through Python's dates or floats. What a typed column cannot hold (a zero or partial date) is null, and
its text is in ``_raw``, as in the lake.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pymysql.cursors import SSCursor

from spark_jobs.errors import SourceError, Unsupported
from spark_jobs.source.connection import answer_of

RAW = "_raw"
"""The column beside the table's own: JSON of column -> text, with sorted keys; null where every value has its type."""

_CHUNK = 20_000
_NO_DATE = "^[0-9]{4}-(00-|[0-9]{2}-00)"
"""Dates without month or day; the server prints them, and no calendar has them."""

_INTEGERS = {
    "tinyint": (pa.int8(), pa.int16()),
    "smallint": (pa.int16(), pa.int32()),
    "mediumint": (pa.int32(), pa.int32()),
    "int": (pa.int32(), pa.int64()),
    "bigint": (pa.int64(), pa.decimal128(20, 0)),
}
"""Signed and unsigned."""
_FLOATS = {"float": pa.float32(), "double": pa.float64()}
_TIMES = {"date": pa.date32(), "datetime": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC")}
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")


@dataclass(frozen=True, slots=True)
class Selected:
    """One column: what stands for it in the SELECT list, and what the answers become."""

    name: str
    sql: str
    arrow: pa.DataType

    @property
    def is_date(self) -> bool:
        return self.arrow in _TIMES.values()


@dataclass(frozen=True, slots=True)
class RowSelection:
    """A table's columns in their order, and the names of its primary key's."""

    schema: str
    table: str
    columns: tuple[Selected, ...]
    key: tuple[str, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The columns' types, ``_raw`` last."""
        return pa.schema([(column.name, column.arrow) for column in self.columns] + [(RAW, pa.string())])

    @property
    def sql(self) -> str:
        listed = ", ".join(column.sql for column in self.columns)
        return f"SELECT {listed} FROM {_quoted_name(self.schema)}.{_quoted_name(self.table)}"


def tables(connection: Any, schema: str) -> list[str]:
    """The names of a schema's tables, without views."""
    question = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type = 'BASE TABLE'"
    return sorted(name for (name,) in _ask(connection, question, schema))


def selection(connection: Any, schema: str, table: str) -> RowSelection:
    """Selection of a table. Raises Unsupported for a type that is not compared, SourceError for no such table."""
    # Columns in their order and the primary key, by which rows are compared.
    columns = _ask(
        connection,
        "SELECT column_name, data_type, column_type, numeric_precision, numeric_scale FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        *(schema, table),
    )
    key = _ask(
        connection,
        "SELECT column_name FROM information_schema.statistics"
        " WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index",
        *(schema, table),
    )
    if not columns:
        raise SourceError(f"the server has no table {schema}.{table}, or shows its columns not to this user")
    try:
        return RowSelection(
            schema, table, tuple(_selected(*column) for column in columns), tuple(name for (name,) in key)
        )
    except Unsupported as error:
        raise Unsupported(f"{schema}.{table}.{error}") from None


def server_rows(connection: Any, query: RowSelection) -> pa.Table:
    """All rows of a table, in no order. ``connection`` is one of ``text_connection``'s options."""
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(query.sql)
        batches = [_batch(query, rows) for rows in _chunks(cursor)]
    return pa.Table.from_batches(batches, query.arrow)


TEXT_CONNECTION: dict[str, Any] = {
    "charset": "utf8mb4",
    "conv": {},  # the driver hands on the server's text
    "init_command": "SET time_zone = '+00:00', sql_mode = ''",
}
"""Arguments for a PyMySQL connection that ``server_rows`` and the other functions read through."""


def _ask(connection: Any, question: str, *parameters: str) -> list[tuple[Any, ...]]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(question, parameters)
            return list(cursor.fetchall())
    except pymysql.MySQLError as error:
        raise SourceError(f"the server was asked for its columns and answered: {answer_of(error)}") from error


def _chunks(cursor: SSCursor) -> Iterator[list[tuple[Any, ...]]]:
    rows = iter(cursor.fetchone, None)
    while chunk := list(islice(rows, _CHUNK)):
        yield chunk


def _selected(name: str, kind: str, declared: str, precision: str | None, scale: str | None) -> Selected:
    column = _quoted_name(name)
    if kind in _INTEGERS:
        return Selected(name, column, _INTEGERS[kind]["unsigned" in declared])
    if kind in _FLOATS:
        return Selected(name, f"{column} * 1e0", _FLOATS[kind])  # FLOAT prints six digits; a DOUBLE prints all it has
    if kind in _TIMES:
        return Selected(name, f"CAST({column} AS CHAR)", _TIMES[kind])
    if kind in _TEXTS:
        return Selected(name, column, pa.string())
    if kind in _BYTES:
        return Selected(name, column, pa.binary())
    return _selected_otherwise(name, kind, declared, int(precision or 0), int(scale or 0))


def _selected_otherwise(name: str, kind: str, declared: str, precision: int, scale: int) -> Selected:
    column = _quoted_name(name)
    match kind:
        case "decimal":
            exact = pa.decimal128(precision, scale) if precision <= 38 else pa.string()
            return Selected(name, column, exact)
        case "bit":
            wide = re.search(r"\((\d+)\)", declared)
            return Selected(name, f"{column} + 0", pa.decimal128(20, 0) if wide and wide[1] == "64" else pa.int64())
        case "year":
            return Selected(name, f"{column} + 0", pa.int16())
        case "time" | "json":
            return Selected(name, f"CAST({column} AS CHAR)", pa.string())
        case _:
            raise Unsupported(f"{name}: rows with a column of type {declared} are not compared")


def _batch(query: RowSelection, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    answers = list(zip(*rows, strict=True))
    columns = [_typed(column, answer) for column, answer in zip(query.columns, answers, strict=True)]
    return pa.RecordBatch.from_arrays([*columns, _raw(query, answers)], schema=query.arrow)


def _typed(column: Selected, answer: tuple[Any, ...]) -> pa.Array:
    if column.arrow == pa.binary():
        return pa.array(answer, pa.binary())
    texts = pa.array(answer, pa.string())
    if column.is_date:
        texts = pc.if_else(pc.match_substring_regex(texts, _NO_DATE), pa.scalar(None, pa.string()), texts)
    if pa.types.is_timestamp(column.arrow):
        plain = texts.cast(pa.timestamp("us"))
        return pc.assume_timezone(plain, "UTC") if column.arrow.tz else plain
    return texts.cast(column.arrow)


def _raw(query: RowSelection, answers: list[tuple[Any, ...]]) -> pa.Array:
    """JSON for the rows in which a date is none."""
    raw: dict[int, dict[str, str]] = {}
    for column, answer in zip(query.columns, answers, strict=True):
        if column.is_date:
            for at in pc.indices_nonzero(pc.match_substring_regex(pa.array(answer, pa.string()), _NO_DATE)).to_pylist():
                raw.setdefault(at, {})[column.name] = answer[at]
    texts: list[str | None] = [None] * len(answers[0])
    for at, values in raw.items():
        texts[at] = raw_text(values)
    return pa.array(texts, pa.string())


def raw_text(values: dict[str, str]) -> str:
    """``_raw`` as it is compared."""
    return json.dumps(values, sort_keys=True, ensure_ascii=False)


def _quoted_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
