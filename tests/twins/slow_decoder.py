"""The decoder's slow twin: plain Python, one value at a time, written from the format's description.

It shares nothing with the fast one but the definition of the table. Values come as Arrow's ``to_pylist`` gives them;
what a typed column cannot hold is None, with its exact text in ``raw``. A column that the image leaves out is ``...``.

Put here: how bytes become values, as plainly as can be. Not here: speed, or checks beyond what a value needs.
"""

import datetime as dt
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import zstandard

from spark_jobs.binlog.events.table_map import Column, TableDefinition
from tests.binlogs.binary_json import text as json_text

ROW_EVENTS = {30: 1, 31: 2, 32: 3, 23: 1, 24: 2, 25: 3, 39: 2}
COMPRESSED = {166: 23, 167: 24, 168: 25, 169: 30, 170: 31, 171: 32}
DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass
class Row:
    op: int
    offset: int
    row: int
    committed_us: int
    gtid: str | None
    after: list[Any]
    before: list[Any] | None = None
    raw: dict[str, str] = field(default_factory=dict)
    before_raw: dict[str, str] = field(default_factory=dict)


class Cursor:
    def __init__(self, wire: bytes) -> None:
        self.wire = wire
        self.offset = 0

    def take(self, count: int) -> bytes:
        assert self.offset + count <= len(self.wire), "cut short"
        self.offset += count
        return self.wire[self.offset - count : self.offset]

    def little(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")

    def big(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")


class Exact(Exception):
    """The typed column cannot hold the value; the exact text of it."""


def integer(size: int) -> Callable[[Cursor, Column], Any]:
    def read_integer(wire: Cursor, column: Column) -> Any:
        value = int.from_bytes(wire.take(size), "little", signed=not column.unsigned)
        return Decimal(value) if size == 8 and column.unsigned else value

    return read_integer


def bit(wire: Cursor, column: Column) -> Any:
    value = wire.big((column.meta + 7) // 8)
    return Decimal(value) if column.meta == 64 else value


def decimal(wire: Cursor, column: Column) -> Any:
    precision, scale = column.meta >> 8, column.meta & 255
    integer_digits = precision - scale
    groups = (
        [integer_digits % 9] * (integer_digits % 9 > 0)
        + [9] * (integer_digits // 9)
        + [9] * (scale // 9)
        + [scale % 9] * (scale % 9 > 0)
    )
    stored = bytearray(wire.take(sum(DIGIT_BYTES[digits] for digits in groups)))
    negative = not stored[0] & 0x80
    stored[0] ^= 0x80
    if negative:
        stored = bytearray(byte ^ 0xFF for byte in stored)
    digits, parts = "", Cursor(bytes(stored))
    for count in groups:
        digits += str(parts.big(DIGIT_BYTES[count])).zfill(count)
    text = (digits[:integer_digits].lstrip("0") or "0") + ("." + digits[integer_digits:] if scale else "")
    text = "-" + text if negative and digits.strip("0") else text
    return text if precision > 38 else Decimal(text)


def date(wire: Cursor, _: Column) -> Any:
    packed = wire.little(3)
    return calendar_date(packed >> 9, packed >> 5 & 15, packed & 31)


def calendar_date(year: int, month: int, day: int) -> dt.date:
    try:
        return dt.date(year, month, day)
    except ValueError:
        raise Exact(f"{year:04}-{month:02}-{day:02}") from None


def fraction(wire: Cursor, column: Column) -> tuple[int, str]:
    """Microseconds, and the text behind the seconds."""
    size = (column.meta + 1) // 2
    microseconds = wire.big(size) * 100 ** (3 - size) if size else 0
    return microseconds, f".{microseconds:06}"[: column.meta + 1] if column.meta else ""


def datetime(wire: Cursor, column: Column) -> Any:
    packed = wire.big(5) - (1 << 39)
    year, month = divmod(packed >> 22, 13)
    day, hour, minute, second = packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63, packed & 63
    microseconds, text = fraction(wire, column)
    try:
        return dt.datetime(year, month, day, hour, minute, second, microseconds)  # noqa: DTZ001 - DATETIME has no zone
    except ValueError:
        raise Exact(f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{text}") from None


def timestamp(wire: Cursor, column: Column) -> Any:
    seconds = wire.big(4)
    microseconds, text = fraction(wire, column)
    if seconds == 0:
        raise Exact(f"0000-00-00 00:00:00{text}")
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds, microseconds=microseconds)


def time(wire: Cursor, column: Column) -> Any:
    size = (column.meta + 1) // 2
    number = wire.big(3 + size) - (0x800000 << 8 * size)
    clock, rest = divmod(abs(number), 1 << 8 * size)
    text = f".{rest * 100 ** (3 - size):06}"[: column.meta + 1] if column.meta else ""
    return f"{'-' if number < 0 else ''}{clock >> 12:02}:{clock >> 6 & 63:02}:{clock & 63:02}{text}"


def year(wire: Cursor, _: Column) -> Any:
    value = wire.little(1)
    return 1900 + value if value else 0


def text(stored: bytes, column: Column) -> Any:
    if column.charset == 63:
        return stored
    if column.charset == 8:
        return "".join(bytes([byte]).decode("cp1252") if byte not in HOLES else chr(byte) for byte in stored)
    try:
        return stored.decode("ascii" if column.charset == 11 else "utf-8")
    except UnicodeDecodeError:
        raise Exact(stored.hex()) from None


HOLES = b"\x81\x8d\x8f\x90\x9d"


def varchar(wire: Cursor, column: Column) -> Any:
    return text(wire.take(wire.little(1 if column.meta < 256 else 2)), column)


def char(wire: Cursor, column: Column) -> Any:
    value = varchar(wire, column)
    return value.ljust(column.meta, b"\0") if column.charset == 63 else value


def blob(wire: Cursor, column: Column) -> Any:
    return text(wire.take(wire.little(column.meta)), column)


def enum(wire: Cursor, column: Column) -> Any:
    number = wire.little(column.meta)
    return ("", *(column.labels or ()))[number]


def members(wire: Cursor, column: Column) -> Any:
    mask = wire.little(column.meta)
    return ",".join(label for offset, label in enumerate(column.labels or ()) if mask >> offset & 1)


def json(wire: Cursor, column: Column) -> Any:
    return json_text(wire.take(wire.little(column.meta)))


def geometry(wire: Cursor, column: Column) -> Any:
    stored = wire.take(wire.little(column.meta))
    if len(stored) < 4 or stored[3] > 127:
        raise Exact(stored.hex())
    return {"srid": int.from_bytes(stored[:4], "little"), "wkb": stored[4:]}


def vector(wire: Cursor, column: Column) -> Any:
    return [value for (value,) in struct.iter_unpack("<f", wire.take(wire.little(column.meta)))]


def old_timestamp(wire: Cursor, _: Column) -> Any:
    seconds = wire.little(4)
    if seconds == 0:
        raise Exact("0000-00-00 00:00:00")
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)


def old_time(wire: Cursor, _: Column) -> Any:
    number = int.from_bytes(wire.take(3), "little", signed=True)
    hour, rest = divmod(abs(number), 10000)
    return f"{'-' if number < 0 else ''}{hour:02}:{rest // 100:02}:{rest % 100:02}"


def old_datetime(wire: Cursor, _: Column) -> Any:
    digits = str(wire.little(8)).zfill(14)
    text = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:]}"
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise Exact(text) from None


READERS: dict[int, Callable[[Cursor, Column], Any]] = {
    1: integer(1),
    2: integer(2),
    3: integer(4),
    4: lambda wire, _: struct.unpack("<f", wire.take(4))[0],
    5: lambda wire, _: struct.unpack("<d", wire.take(8))[0],
    7: old_timestamp,
    8: integer(8),
    9: integer(3),
    10: date,
    11: old_time,
    12: old_datetime,
    13: year,
    15: varchar,
    16: bit,
    17: timestamp,
    18: datetime,
    19: time,
    242: vector,
    245: json,
    246: decimal,
    247: enum,
    248: members,
    252: blob,
    254: char,
    255: geometry,
}


def image(wire: Cursor, definition: TableDefinition, present: int) -> tuple[list[Any], dict[str, str]]:
    nulls = wire.little((present.bit_count() + 7) // 8)
    values: list[Any] = []
    raw: dict[str, str] = {}
    for offset, column in enumerate(definition.columns):
        if not present >> offset & 1:
            values.append(...)
            continue
        null, nulls = nulls & 1, nulls >> 1
        if null:
            values.append(None)
            continue
        try:
            values.append(READERS[column.type_code](wire, column))
        except Exact as exact:
            values.append(None)
            raw[definition.column_names()[offset]] = str(exact)
    return values, raw


def events(content: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Offset, header's second, type and body of each event of a whole file; those in payloads have its offset."""
    offset, footer = 4, 0
    while offset < len(content):
        second, code, _, length = struct.unpack("<IBII", content[offset : offset + 13])
        event = content[offset : offset + length]
        if code == 15:
            footer = 4 if event[-5] == 1 else 0
            yield offset, second, code, event[19:-4]
        elif code == 40:
            yield offset, second, code, b""
            yield from inner_events(offset, payload(event[19 : length - footer]))
        else:
            yield offset, second, code, event[19 : length - footer]
        offset += length


def inner_events(outer: int, content: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    offset = 0
    while offset < len(content):
        second, code, _, length = struct.unpack("<IBII", content[offset : offset + 13])
        yield outer, second, code, content[offset + 19 : offset + length]
        offset += length


def payload(body: bytes) -> bytes:
    wire, fields = Cursor(body), {}
    while number := packed(wire):
        packed(wire)
        fields[number] = packed(wire)
    stored = wire.take(fields[1])
    return stored if fields[2] == 255 else zstandard.ZstdDecompressor().decompressobj().decompress(stored)


def packed(wire: Cursor) -> int:
    """A length-encoded integer."""
    first = wire.little(1)
    return first if first < 251 else wire.little({252: 2, 253: 3, 254: 8}[first])


def decode(content: bytes, definition: TableDefinition, other_tables: Sequence[TableDefinition] = ()) -> Iterator[Row]:
    """All changes of one table in a file, in log order; ``other_tables``: the tables that share payloads with it."""
    definitions = {str(table.name): table for table in (*other_tables, definition)}
    ids: dict[int, str] = {}
    committed, gtid, last, ordinal = 0, None, -1, 0
    for offset, second, code, body in events(content):
        ordinal = ordinal if offset == last else 0
        last = offset
        if code in {33, 34}:
            committed = (
                int.from_bytes(body[42:49], "little") & ((1 << 55) - 1) if len(body) > 48 else second * 1_000_000
            )
            number = int.from_bytes(body[17:25], "little")
            gtid = f"{uuid.UUID(bytes=body[1:17])}:{number}" if code == 33 else None
        elif code == 19:
            names = Cursor(body[8:])
            ids[int.from_bytes(body[:6], "little")] = ".".join(
                names.take(names.little(1) + 1)[:-1].decode() for _ in range(2)
            )
        elif code in ROW_EVENTS or code in COMPRESSED:
            name = ids[int.from_bytes(body[:6], "little")]
            if name not in definitions:
                continue
            for row in rows_of(Cursor(body[8:]), code, definitions[name], offset, committed, gtid):
                row.row = ordinal
                ordinal += 1
                if name == str(definition.name):
                    yield row


def rows_of(
    wire: Cursor, code: int, definition: TableDefinition, offset: int, committed: int, gtid: str | None
) -> Iterator[Row]:
    is_compressed, code = code in COMPRESSED, COMPRESSED.get(code, code)
    op = ROW_EVENTS[code]
    if code >= 30:
        wire.take(wire.little(2) - 2)
    width = packed(wire)
    assert width == len(definition.columns)
    masks = [wire.little((width + 7) // 8) & ((1 << width) - 1) for _ in range(2 if op == 2 else 1)]
    if is_compressed:
        length = wire.big(wire.little(1) & 7)
        wire = Cursor(zlib.decompress(wire.take(len(wire.wire) - wire.offset)))
        assert len(wire.wire) == length
    first = True
    while wire.offset < len(wire.wire) or (first and not any(masks)):
        first = False
        row = Row(op, offset, 0, committed, gtid, [])
        if op == 2:
            row.before, row.before_raw = image(wire, definition, masks[0])
        if code == 39 and packed(wire):
            assert not any(column.type_code == 245 for column in definition.columns), "JSON diffs are not for here"
        row.after, row.raw = image(wire, definition, masks[-1])
        yield row
