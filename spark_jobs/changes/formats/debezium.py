"""Debezium's payload envelope, as its MySQL connector writes it with its default settings and no schema.

Source: Debezium 3.6, debezium-connector-binlog (BinlogValueConverters, RowDeserializers, BinlogSourceInfo).

Put here: the envelope and its values. Not here: numbers as Java writes them (java_text.py).
"""

import base64
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from spark_jobs.binlog import Changes, Column, TableDefinition
from spark_jobs.changes.formats.base import (
    BINARY_KINDS,
    DELETE,
    FIRST_OF_TWO,
    INSERT,
    UPDATE,
    ChangeLine,
    ColumnTexts,
    Format,
    SliceContext,
    geometry_bytes,
    gtids_of,
    json_object,
    kind_of,
    portions,
    texts_of,
)
from spark_jobs.changes.formats.java_text import compact_document, double_text, float_text
from spark_jobs.changes.formats.java_text import quoted_by_jackson as quoted
from spark_jobs.changes.json_encoding import instant

VERSION = "3.6.1.Final"
"""Version of the connector whose output is written."""
_EPOCH, _FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICROSECOND = 1_000_000
_LETTERS = {INSERT: "c", UPDATE: "u", DELETE: "d"}
Write = Callable[[Any], str]


class DebeziumFormat(Format):
    """Writes ``before, after, source, transaction, op, ts_ms, ts_us, ts_ns``.

    An update that changes the key is a delete and an insert, as the connector has it.
    """

    def lines(
        self, context: SliceContext, definition: TableDefinition, changes: Iterable[Changes]
    ) -> Iterator[ChangeLine]:
        """One line a row, two where an update changes the key. Raises DecodeError."""
        columns = [_column_texts(*pair) for pair in zip(definition.column_names(), definition.columns, strict=True)]
        for part in portions(changes):
            after = [*map(json_object, texts_of(columns, part.after, part.raw, part.present))]
            before = [*map(json_object, texts_of(columns, part.before, part.before_raw, part.before_present))]
            moved = _moved_keys(definition, part)
            positions = zip(part.op.to_pylist(), part.offset.to_pylist(), part.row.to_pylist(), strict=True)
            commits = [*zip(gtids_of(part), part.committed_at.to_pylist(), strict=True)]
            for at, (op, offset, row) in enumerate(positions):
                source = _source(context, definition, offset, row, commits[at])
                if op == UPDATE and moved[at]:
                    yield ChangeLine(offset, row, (_envelope(before[at], "null", source, "d"),), part=FIRST_OF_TWO)
                    yield ChangeLine(offset, row, (_envelope("null", after[at], source, "c"),))
                    continue
                old = {INSERT: "null", UPDATE: before[at], DELETE: after[at]}[op]
                new = "null" if op == DELETE else after[at]
                yield ChangeLine(offset, row, (_envelope(old, new, source, _LETTERS[op]),))


def _envelope(before: str, after: str, source: str, op: str) -> str:
    now = time.time_ns()
    times = f'"ts_ms":{now // 1_000_000},"ts_us":{now // 1000},"ts_ns":{now}'
    return f'{{"before":{before},"after":{after},"source":{source},"transaction":null,"op":"{op}",{times}}}\n'


def _source(
    context: SliceContext, definition: TableDefinition, offset: int, row: int, of: tuple[str | None, datetime]
) -> str:
    """of: GTID, and when the transaction was committed."""
    assert context.marks
    gtid, committed = of
    seconds, server_id = context.marks.stamp(offset)
    micros = seconds * _MICROSECOND if gtid is None else (committed - _EPOCH) // _UNIT
    thread = context.marks.thread(offset)
    name = definition.name
    return (
        f'{{"version":"{VERSION}","connector":"mysql","name":{quoted(context.source or "")},"ts_ms":{micros // 1000},'
        f'"snapshot":"false","db":{quoted(name.schema)},"sequence":null,"ts_us":{micros},"ts_ns":{micros * 1000},'
        f'"table":{quoted(name.table)},"server_id":{server_id},"gtid":{"null" if gtid is None else quoted(gtid)},'
        f'"file":{quoted(context.file)},"pos":{offset},"row":{row},"thread":{"null" if thread is None else thread},'
        '"query":null}'
    )


_UNIT = datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC) - _EPOCH


def _moved_keys(definition: TableDefinition, part: Changes) -> list[bool]:
    """Mask of the updates that change the key."""
    is_moved = [False] * len(part)
    for ordinal in definition.key or ():
        pairs = zip(part.before.column(ordinal).to_pylist(), part.after.column(ordinal).to_pylist(), strict=True)
        is_moved = [moved or old != new for moved, (old, new) in zip(is_moved, pairs, strict=True)]
    return is_moved


def _column_texts(name: str, column: Column) -> ColumnTexts:
    kind = kind_of(column)
    return ColumnTexts(name, column, kind, _writer(kind, column), _exact_writer(kind, column))


def _exact_writer(kind: str, column: Column) -> Write:
    zero = {"date": "0", "datetime": "0", "timestamp": '"1970-01-01T00:00:00Z"'}
    if kind in zero:
        # What is no date is NULL to the connector, or where the column has none the epoch.
        absent = "null" if column.nullable else zero[kind]
        return lambda _: absent
    if column.type.is_character:
        return lambda text: quoted(bytes.fromhex(text).decode("utf-8", "replace"))
    return lambda text: text.partition(" ")[0]


def _long(value: int | Decimal) -> str:
    """64 bits as Java's long."""
    number = int(value)
    return str(number - (1 << 64) if number >= 1 << 63 else number)


def _unscaled(value: Decimal | str) -> str:
    """The digits without the point as a big-endian two's complement, in base64."""
    sign, digits, _ = Decimal(value).as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return _base64(number.to_bytes((bits + 7) // 8, "big", signed=True))


def _bit(bits: int) -> Write:
    if bits == 1:
        return lambda value: "true" if value else "false"
    size = (bits + 7) // 8
    return lambda value: _base64(int(value).to_bytes(size, "little"))


def _millis(value: datetime) -> str:
    return str((value.replace(tzinfo=UTC) - _EPOCH) // _UNIT // 1000)


def _micros(value: datetime) -> str:
    return str((value.replace(tzinfo=UTC) - _EPOCH) // _UNIT)


def _duration(value: str) -> str:
    """A TIME as microseconds."""
    hours, minutes, rest = value.lstrip("-").split(":")
    seconds, _, fraction = rest.partition(".")
    total = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    micros = total * _MICROSECOND + int(fraction.ljust(6, "0") or 0)
    return str(-micros if value.startswith("-") else micros)


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _geometry(value: dict[str, Any]) -> str:
    stored = geometry_bytes(value)
    srid = int.from_bytes(stored[:4], "little")
    return f'{{"wkb":{_base64(stored[4:])},"srid":{srid or "null"}}}'


_WRITERS: dict[str, Write] = {
    "bigint": _long,
    "float": float_text,
    "double": double_text,
    "decimal": _unscaled,
    "year": lambda value: str(value or 1900),
    "date": lambda value: str((value - _FIRST_DAY).days),
    "time": _duration,
    "json": lambda value: quoted(compact_document(value)),
    "geometry": _geometry,
    "vector": lambda value: f"[{','.join(map(float_text, value))}]",
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int"), str),
    **dict.fromkeys(BINARY_KINDS, _base64),
}
"""Writers by the first word of a declaration; all else is a string."""


def _writer(kind: str, column: Column) -> Write:
    if kind == "bit":
        return _bit(column.meta)
    if kind == "timestamp":
        digits = column.type.digits(column)
        return lambda value: f'"{instant(value, digits)}"'
    if kind == "datetime":
        return _millis if column.type.digits(column) <= _MILLIS else _micros
    return _WRITERS.get(kind, quoted)


_MILLIS = 3
"""Digits of a second up to which a DATETIME is in milliseconds."""
