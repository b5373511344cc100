"""Rows that a query gives, as the log would have had them: SELECT, written down as row images, read by the decoder.

Put here: how each column is asked for, and its bytes in a row image. Not here: which rows (key_ranges.py), what bytes
mean (binlog/).

A value that is loaded has to be the value that the log would have given, zero dates, exact texts and all. So nothing is
converted twice: what the server sends is put into the bytes of a WRITE_ROWS event (MySQL sql/field.cc, ``pack`` of each
type), and the decoder that reads logs reads those. Four kinds of types have no bytes that a query tells, and come as
the text that they are in the lake anyway: JSON, MariaDB's UUID and INET, its compressed columns without compression.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from spark_jobs.binlog import Changes, Column, Decoder, TableDefinition
from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError, TableStopped
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyRange, in_text
from spark_jobs.source.connection import log_in, refusal
from spark_jobs.text.sql import identifier

Encode = Callable[[bytes], bytes]
"""From what the server sends for a value that is not NULL to its bytes in a row image."""

SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', character_set_results = NULL",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
"""No server mode changes what is sent, and text comes in the bytes that are stored."""
_ROWS = 8192
_BYTES = 16 << 20
"""Rows and bytes of images that are decoded at once."""
_UTF8 = 46  # utf8mb4_bin
_JSON, _BLOB, _VARCHAR = 245, 252, 15
_PLAIN = {140: _BLOB, 141: _VARCHAR}
_ADDRESSES = ("uuid", "inet")


def as_selected(definition: TableDefinition) -> TableDefinition:
    """The definition by which rows of a query are written down and read: of the same columns in the lake.

    Raises TableStopped for a type that is not known.
    """
    return replace(definition, columns=tuple(_as_selected(definition, column) for column in definition.columns))


def _as_selected(definition: TableDefinition, column: Column) -> Column:
    if column.type_code in _PLAIN:
        return replace(column, type_code=_PLAIN[column.type_code])
    if column.type_code == _JSON or (column.declared or "").startswith(_ADDRESSES):
        return replace(column, type_code=_BLOB, meta=4, charset=_UTF8, declared=None)
    if column.type_code not in _ENCODERS:
        raise TableStopped(f"{definition.name}: the type of its column {column.name} is not known; leave the table out")
    return column


def select(definition: TableDefinition, key: Key, part: KeyRange) -> tuple[str, list[Any]]:
    """The statement that gives a range's rows, and its parameters. definition: as the server declares the table."""
    expressions = ", ".join(_expression(column) for column in definition.columns)
    condition, parameters = part.condition(key)
    return f"SELECT {in_text(expressions)} FROM {in_text(key.table)} WHERE {condition}", parameters


def _expression(column: Column) -> str:
    name = identifier(str(column.name))
    if column.type_code in (4, 5):
        return f"{name} * 1e0"  # with all its digits; a sum would lose the sign of -0
    if column.type_code in (247, 248):
        return f"CAST({name} AS UNSIGNED)"  # not a sum, which is a DOUBLE
    return name


@dataclass(frozen=True, slots=True)
class Selecting:
    """What a task needs to read ranges of a table. Raises SourceError, and what the decoder raises."""

    source: str
    settings: MySQL
    definition: TableDefinition
    key: Key
    server: tuple[str, str] | None = None
    """A variable, and the value that the server has to have: an address may lead to another one meanwhile."""

    def read(self, part: KeyRange) -> Iterator[Changes]:
        """The rows of a range, as one statement sees them, in pieces."""
        statement, parameters = select(self.definition, self.key, part)
        label = f"{self.source}: rows of the server"
        with self._errors(), self._connected() as connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            yield from decoded(self.definition, iter(cursor.fetchone, None), label)

    def _connected(self) -> "pymysql.Connection[SSCursor]":
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

    def _errors(self) -> "_Refusals":
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
            raise SourceError(refusal(self.label, self.settings, error)) from error


def decoded(definition: TableDefinition, rows: Iterable[Sequence[bytes | None]], label: str) -> Iterator[Changes]:
    """Rows as a query gives them (``select``), as inserts of the log. ``label`` opens the message of a bad value."""
    selected = as_selected(definition)
    encode = Images(definition)
    decoder = Decoder(selected, rows=_ROWS)
    images: list[bytes] = []
    size = 0
    for row in rows:
        images.append(encode(row))
        size += len(images[-1])
        if len(images) == _ROWS or size > _BYTES:
            yield from decoder.decode_images(label, images)
            images, size = [], 0
    if images:
        yield from decoder.decode_images(label, images)


class Images:
    """Writes rows of one table down as a WRITE_ROWS event has them: a bit for each NULL, then the values.

    By ``as_selected`` of the definition that is given.
    """

    def __init__(self, definition: TableDefinition) -> None:
        pairs = zip(definition.columns, as_selected(definition).columns, strict=True)
        self._encode = [_encoder(declared, column) for declared, column in pairs]
        self._bitmap = (len(definition.columns) + 7) // 8

    def __call__(self, row: Sequence[bytes | None]) -> bytes:
        nulls = 0
        parts = [b""]
        for ordinal, (encode, value) in enumerate(zip(self._encode, row, strict=True)):
            if value is None:
                nulls |= 1 << ordinal
            else:
                parts.append(encode(value))
        parts[0] = nulls.to_bytes(self._bitmap, "little")
        return b"".join(parts)


def _encoder(declared: Column, column: Column) -> Encode:
    return _document(column) if declared.type_code == _JSON else _ENCODERS[column.type_code](column)


def _integer(size: int) -> Callable[[Column], Encode]:
    mask = (1 << 8 * size) - 1
    return lambda _: lambda value: (int(value) & mask).to_bytes(size, "little")


def _number(column: Column) -> Encode:
    """ENUM and SET by number."""
    return lambda value: int(value).to_bytes(column.meta, "little")


def _floating(form: str) -> Callable[[Column], Encode]:
    packed = struct.Struct(form).pack
    return lambda _: lambda value: packed(float(value))


def _year(column: Column) -> Encode:  # noqa: ARG001 - every type is asked alike
    return lambda value: bytes([int(value) - 1900 if int(value) else 0])


def _counted(size: Callable[[Column], int]) -> Callable[[Column], Encode]:
    def encoder(column: Column) -> Encode:
        count = size(column)
        return lambda value: len(value).to_bytes(count, "little") + value

    return encoder


def _blob_size(column: Column) -> int:
    return column.meta


def _varchar_size(column: Column) -> int:
    return 1 if column.meta < 256 else 2


def _document(column: Column) -> Encode:
    """Text; a line end in a document is what servers before 8.0.24 left plain in base64."""
    counted = _counted(_blob_size)(column)
    return lambda value: counted(value.replace(b"\n", b"\\n"))


def _binary(column: Column) -> Encode:
    """CHAR and BINARY; the latter without its zero bytes, which the decoder puts back."""
    counted = _counted(_varchar_size)(column)
    return (lambda value: counted(value.rstrip(b"\0"))) if column.charset == 63 else counted


def _bits(column: Column) -> Encode:
    size = (column.meta + 7) // 8
    return lambda value: value.rjust(size, b"\0")


_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def _decimal(column: Column) -> Encode:
    """Nine digits in four bytes, the first group before the point and the last after it less (strings/decimal.cc)."""
    precision, scale = column.meta >> 8, column.meta & 255
    integral = precision - scale
    cuts = _cuts(integral % 9, integral // 9, 0) + _cuts_behind(integral, scale)

    def encode(value: bytes) -> bytes:
        is_negative = value.startswith(b"-")
        before, _, behind = value.lstrip(b"-").partition(b".")
        digits = before.lstrip(b"0").rjust(integral, b"0") + behind.ljust(scale, b"0")
        packed = bytearray().join(int(digits[a:b]).to_bytes(size, "big") for a, b, size in cuts)
        packed[0] ^= 0x80
        return bytes(byte ^ 0xFF for byte in packed) if is_negative else bytes(packed)

    return encode


def _cuts(short: int, groups: int, start: int) -> list[tuple[int, int, int]]:
    """Where groups of digits begin and end, and their bytes: a short one, then whole ones."""
    first = [(start, start + short, _DIGIT_BYTES[short])] if short else []
    return first + [(start + short + 9 * k, start + short + 9 * (k + 1), 4) for k in range(groups)]


def _cuts_behind(start: int, scale: int) -> list[tuple[int, int, int]]:
    groups, short = divmod(scale, 9)
    last = [(start + 9 * groups, start + scale, _DIGIT_BYTES[short])] if short else []
    return _cuts(0, groups, start) + last


def _date(column: Column) -> Encode:  # noqa: ARG001 - every type is asked alike
    def encode(value: bytes) -> bytes:
        year, month, day = map(int, value.split(b"-"))
        return (year << 9 | month << 5 | day).to_bytes(3, "little")

    return encode


def _fraction(text: bytes, digits: int) -> bytes:
    """The digits after the point, in pairs of a byte."""
    size = (digits + 1) // 2
    return int(text[:digits].ljust(2 * size, b"0")).to_bytes(size, "big") if size else b""


def _datetime(column: Column) -> Encode:
    def encode(value: bytes) -> bytes:
        seconds, _, fraction = value.partition(b".")
        day, _, clock = seconds.partition(b" ")
        year, month, date_ = map(int, day.split(b"-"))
        hour, minute, second = map(int, clock.split(b":"))
        packed = ((year * 13 + month) << 5 | date_) << 17 | hour << 12 | minute << 6 | second
        return (packed + (1 << 39)).to_bytes(5, "big") + _fraction(fraction, column.meta)

    return encode


def _timestamp(column: Column) -> Encode:
    """The session speaks UTC; a zero timestamp is no second at all."""

    def encode(value: bytes) -> bytes:
        text, _, fraction = value.partition(b".")
        zero = text.startswith(b"0000")
        seconds = 0 if zero else int(datetime.fromisoformat(text.decode()).replace(tzinfo=UTC).timestamp())
        return seconds.to_bytes(4, "big") + _fraction(fraction, column.meta)

    return encode


def _time(column: Column) -> Encode:
    """The number with its fraction, negated as a whole (sql-common/my_time.cc, ``my_time_packed_to_binary``)."""
    size = (column.meta + 1) // 2

    def encode(value: bytes) -> bytes:
        seconds, _, fraction = value.lstrip(b"-").partition(b".")
        hour, minute, second = map(int, seconds.split(b":"))
        packed = (hour << 12 | minute << 6 | second) << 8 * size
        packed |= int.from_bytes(_fraction(fraction, column.meta), "big")
        packed = -packed if value.startswith(b"-") else packed
        return (packed + (0x800000 << 8 * size)).to_bytes(3 + size, "big")

    return encode


_ENCODERS: dict[int, Callable[[Column], Encode]] = {
    1: _integer(1),
    2: _integer(2),
    9: _integer(3),
    3: _integer(4),
    8: _integer(8),
    4: _floating("<f"),
    5: _floating("<d"),
    10: _date,
    13: _year,
    16: _bits,
    17: _timestamp,
    18: _datetime,
    19: _time,
    246: _decimal,
    247: _number,
    248: _number,
    _VARCHAR: _counted(_varchar_size),
    254: _binary,
    _BLOB: _counted(_blob_size),
    242: _counted(_blob_size),
    255: _counted(_blob_size),
}
"""By type code (MySQL include/field_types.h), as definitions of a server have them (ddl/definitions.py)."""
