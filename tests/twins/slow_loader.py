"""The initial load's slow twin: rows by the text protocol, encoded a value at a time in plain Python.

It shares the decoder with the fast way (spark_jobs/pipeline/initial_load/selecting.py), and nothing of how a value
becomes bytes of a row image.

Put here: how each column is asked for, and its bytes in a row image, as plainly as can be. Not here: speed.
"""

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pymysql
from pymysql.cursors import SSCursor

from spark_jobs.binlog import Changes, Column, Decoder, TableDefinition, written_head
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyRange, in_text
from spark_jobs.pipeline.initial_load.row_images import as_selected
from spark_jobs.pipeline.initial_load.selecting import SESSION, Selecting
from spark_jobs.source.connection import log_in
from spark_jobs.text.sql import identifier

Encode = Callable[[bytes], bytes]
"""From what the server sends for a value that is not NULL to its bytes in a row image."""

_ROWS = 8192
_BYTES = 16 << 20
"""Rows and bytes of images that are decoded at once."""
_JSON, _BLOB, _VARCHAR = 245, 252, 15


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


def read(selecting: Selecting, part: KeyRange) -> Iterator[Changes]:
    """The rows of a range by the text protocol."""
    statement, parameters = select(selecting.definition, selecting.key, part)
    options = {"conv": dict(pymysql.converters.encoders), "use_unicode": False, "cursorclass": SSCursor}
    with log_in(selecting.settings, **options, init_command=None, autocommit=True) as connection:
        for setting in SESSION:
            connection.query(setting)
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            yield from decoded(selecting.definition, iter(cursor.fetchone, None), "slow")


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
            yield from _decoded(decoder, label, images)
            images, size = [], 0
    if images:
        yield from _decoded(decoder, label, images)


def _decoded(decoder: Decoder, label: str, images: list[bytes]) -> Iterator[Changes]:
    event = b"".join([written_head(len(decoder.definition.columns)), *images])
    yield from decoder.decode_images(label, np.frombuffer(bytearray(event + bytes(64)), np.uint8), len(event))


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


def _number_encoder(column: Column) -> Encode:
    """ENUM and SET by number."""
    return lambda value: int(value).to_bytes(column.meta, "little")


def _floating(form: str) -> Callable[[Column], Encode]:
    packed = struct.Struct(form).pack
    return lambda _: lambda value: packed(float(value))


def _year(column: Column) -> Encode:
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


_STRINGS_AND_ZEROS = re.compile(rb'"(?:[^"\\]|\\.)*"?|-0(?![0-9.eE])', re.DOTALL)


def _document(column: Column) -> Encode:
    """Text; a line end is what servers before 8.0.24 left plain in base64, and -0 what MySQL 5.7 makes of -0.0."""
    counted = _counted(_blob_size)(column)

    def encode(value: bytes) -> bytes:
        value = _STRINGS_AND_ZEROS.sub(lambda match: b"-0.0" if match[0] == b"-0" else match[0], value)
        return counted(value.replace(b"\n", b"\\n"))

    return encode


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
    """Position where groups of digits begin and end, and their bytes: a short one, then whole ones."""
    first = [(start, start + short, _DIGIT_BYTES[short])] if short else []
    return first + [(start + short + 9 * k, start + short + 9 * (k + 1), 4) for k in range(groups)]


def _cuts_behind(start: int, scale: int) -> list[tuple[int, int, int]]:
    groups, short = divmod(scale, 9)
    last = [(start + 9 * groups, start + scale, _DIGIT_BYTES[short])] if short else []
    return _cuts(0, groups, start) + last


def _date(column: Column) -> Encode:
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
        year, month, date_number = map(int, day.split(b"-"))
        hour, minute, second = map(int, clock.split(b":"))
        packed = ((year * 13 + month) << 5 | date_number) << 17 | hour << 12 | minute << 6 | second
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
    247: _number_encoder,
    248: _number_encoder,
    _VARCHAR: _counted(_varchar_size),
    254: _binary,
    _BLOB: _counted(_blob_size),
    242: _counted(_blob_size),
    255: _counted(_blob_size),
}
"""By type code (MySQL include/field_types.h), as definitions of a server have them (ddl/definitions.py)."""
