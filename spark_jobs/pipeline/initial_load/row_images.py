"""Columns of a query, mapped to columns of a row image: which type reads each, and what the kernel does.

A value that is loaded has to be the value that the log would have given, zero dates, exact texts and all. So nothing is
converted twice: what the server sends is put into the bytes of a WRITE_ROWS event (MySQL sql/field.cc, ``pack`` of each
type), and the decoder that reads logs reads those. Four kinds of types have no bytes that a query tells, and come as
the text that they are in the lake anyway: JSON, MariaDB's UUID and INET, its compressed columns without compression.

Put here: a line a type. Not here: packets (source/result_stream.py), the query (selecting.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.binlog.kernels import result_rows
from spark_jobs.binlog.types.charsets import UTF8, charset_of
from spark_jobs.errors import SourceError, TableStopped

_UTF8 = 46  # utf8mb4_bin
_BINARY = 63
_JSON, _BLOB, _VARCHAR, _CHAR = 245, 252, 15, 254
_PLAIN = {140: _BLOB, 141: _VARCHAR}
_TEXTS = (_VARCHAR, _BLOB, _CHAR, *_PLAIN)
_ADDRESSES = ("uuid", "inet")

Field = tuple[int, int, int, int, int]
"""The kernel's cells of a column: F_KIND to F_SCALE."""


def as_selected(definition: TableDefinition) -> TableDefinition:
    """The definition by which rows of a query are written down and read: of the same columns in the lake.

    Raises TableStopped for a type that is not known.
    """
    return replace(definition, columns=tuple(_as_selected(definition, column) for column in definition.columns))


def is_converted(column: Column) -> bool:
    """True if a column has text of a character set whose bytes are not UTF-8, of which a server can make UTF-8."""
    is_text = column.type_code in _TEXTS and column.declared is None and column.charset not in (None, _BINARY)
    return is_text and charset_of(int(column.charset or 0)) not in UTF8


def in_utf8(definition: TableDefinition) -> TableDefinition:
    """The definition of rows whose text the server has converted."""
    converted = (
        replace(column, type_code=_BLOB, meta=4, charset=_UTF8) if is_converted(column) else column
        for column in definition.columns
    )
    return replace(definition, columns=tuple(converted))


def _as_selected(definition: TableDefinition, column: Column) -> Column:
    if column.type_code in _PLAIN:
        return replace(column, type_code=_PLAIN[column.type_code])
    if column.type_code == _JSON or (column.declared or "").startswith(_ADDRESSES):
        return replace(column, type_code=_BLOB, meta=4, charset=_UTF8, declared=None)
    if column.type_code not in _FIELDS:
        raise TableStopped(f"{definition.name}: the type of its column {column.name} is not known; leave the table out")
    return column


def fields_of(definition: TableDefinition, wires: Sequence[int]) -> NDArray[np.int64]:
    """The kernel's cells of all columns. wires: the types that a result says that they have.

    Raises SourceError for a type on the wire that a column's values cannot have.
    """
    columns = zip(definition.columns, as_selected(definition).columns, wires, strict=True)
    return np.array([_field(definition, *column) for column in columns], np.int64).reshape(-1, result_rows.F_CELLS)


def _field(definition: TableDefinition, declared: Column, column: Column, wire: int) -> Field:
    field = _document(column) if declared.type_code == _JSON else _FIELDS[column.type_code](column)
    kind = field[0]
    fitting = _WIRES.get(kind, _COUNTED_WIRES)
    if wire not in fitting:
        raise SourceError(
            f"{definition.name}: the server sends column {column.name} as type {wire}, and {declared.sql_type} was "
            "expected; connect to the server itself, without a proxy"
        )
    return (kind, _FIXED_WIRES[wire], *field[2:]) if kind == result_rows.FIELD_FIXED else field


_FIXED_WIRES = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 4}
"""Bytes of the binary protocol's numbers: TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24."""
_COUNTED_WIRES = {0, 15, 16, 242, 245, 246, *range(247, 256)}
_WIRES = {
    result_rows.FIELD_FIXED: _FIXED_WIRES.keys(),
    result_rows.FIELD_YEAR: {13, 2},
    result_rows.FIELD_DATE: {10, 14},
    result_rows.FIELD_DATETIME: {12, 7, 17, 18},
    result_rows.FIELD_TIMESTAMP: {7, 12, 17, 18},
    result_rows.FIELD_TIME: {11, 19},
}
"""Types by which a server may send a kind of values; all others have their length before them."""


def _fixed(size: int) -> Callable[[Column], Field]:
    return lambda _: (result_rows.FIELD_FIXED, 0, size, 0, 0)


def _number_field(column: Column) -> Field:
    """ENUM and SET by number."""
    return (result_rows.FIELD_FIXED, 0, column.meta, 0, 0)


def _fractional(kind: int) -> Callable[[Column], Field]:
    return lambda column: (kind, 0, (column.meta + 1) // 2, 0, 0)


def _field_of_kind(kind: int) -> Callable[[Column], Field]:
    return lambda _: (kind, 0, 0, 0, 0)


def _varying(column: Column) -> Field:
    return (result_rows.FIELD_COUNTED, 0, 1 if column.meta < 256 else 2, 0, 0)


def _padded(column: Column) -> Field:
    """CHAR and BINARY; the latter without its zero bytes, which the decoder puts back."""
    kind = result_rows.FIELD_UNPADDED if column.charset == _BINARY else result_rows.FIELD_COUNTED
    return (kind, 0, 1 if column.meta < 256 else 2, 0, 0)


def _long(column: Column) -> Field:
    return (result_rows.FIELD_COUNTED, 0, column.meta, 0, 0)


def _document(column: Column) -> Field:
    """Text. Servers before 8.0.24 leave line ends plain in base64, and MySQL 5.7 makes -0 of -0.0."""
    return (result_rows.FIELD_DOCUMENT, 0, column.meta, 0, 0)


def _bits(column: Column) -> Field:
    return (result_rows.FIELD_BITS, 0, (column.meta + 7) // 8, 0, 0)


def _decimal_field(column: Column) -> Field:
    return (result_rows.FIELD_DECIMAL, 0, 0, column.meta >> 8, column.meta & 255)


_FIELDS: dict[int, Callable[[Column], Field]] = {
    1: _fixed(1),
    2: _fixed(2),
    9: _fixed(3),
    3: _fixed(4),
    8: _fixed(8),
    4: _fixed(4),
    5: _fixed(8),
    10: _field_of_kind(result_rows.FIELD_DATE),
    13: _field_of_kind(result_rows.FIELD_YEAR),
    16: _bits,
    17: _fractional(result_rows.FIELD_TIMESTAMP),
    18: _fractional(result_rows.FIELD_DATETIME),
    19: _fractional(result_rows.FIELD_TIME),
    246: _decimal_field,
    247: _number_field,
    248: _number_field,
    _VARCHAR: _varying,
    _CHAR: _padded,
    _BLOB: _long,
    242: _long,
    255: _long,
}
"""Fields by type code (MySQL include/field_types.h), as definitions of a server have them (ddl/definitions.py)."""
