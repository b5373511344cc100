"""Quarantined events of a slice, and the event at an offset.

Source: MySQL libs/mysql/binlog/event/binlog_event.h (LOG_EVENT_IGNORABLE_F, IGNORABLE_LOG_EVENT): readers pass over an
event of that type.

Put here: turning one event of a slice into such a one, and naming the event at an offset. Not here: why
(silver/quarantine.py).
"""

import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spark_jobs.binlog.events.format_description import MAGIC
from spark_jobs.binlog.events.row_fragments import group_length
from spark_jobs.binlog.events.scanner import HEADER, Bytes, TableMaps, open_slice, view
from spark_jobs.binlog.events.table_map import TableName
from spark_jobs.binlog.events.types import MEANINGS, type_name
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.errors import DecodeError

_IGNORABLE = 28
_TYPE, _LENGTH, _FOOTER = 4, 9, 4


@dataclass(frozen=True, slots=True)
class EventAt:
    """An event and its offset in the file. table: whose rows it has; None for other kinds and compressed transactions.

    may_stop: whether a table may stop at it: a row event, or a transaction that is one event, compressed.
    """

    offset: int
    type: str
    may_stop: bool
    table: TableName | None = None


def events_of(file: str, start: int, context: bytes | None, payload: Bytes) -> list[EventAt]:
    """The events of a slice that begins at ``start`` (bytes), in order. Raises DecodeError."""
    maps = TableMaps()
    _, scan = open_slice(file, start, context, payload, maps, transaction_start=None, committed_us=0)
    cells = zip(scan.offset.tolist(), scan.code.tolist(), scan.table.tolist(), strict=True)
    return [_event(start + offset, code, maps, table) for offset, code, table in cells]


def _event(offset: int, code: int, maps: TableMaps, table: int) -> EventAt:
    has_rows = MEANINGS[code] == event_cells.ROWS
    name = TableName(*maps.names[table]) if has_rows and table >= 0 else None
    return EventAt(offset, type_name(code), bool(has_rows or MEANINGS[code] == event_cells.PAYLOAD), name)


def passed_over(file: str, start: int, payload: Bytes, offsets: Collection[int]) -> bytes:
    """A slice's bytes with the events at these offsets of the file marked as ignorable.

    Lengths stay, so every other event keeps its offset. A compressed transaction is ignored with the GTID event
    that begins it. An event that ends with its CRC32 gets the one that fits. Raises DecodeError where no event is.
    """
    buffer = bytearray(view(payload).tobytes())
    byte_offsets = list(_event_offsets(buffer, 0 if start else len(MAGIC)))
    for offset in offsets:
        if offset - start not in byte_offsets:
            raise DecodeError(f"{file}:{offset}: an event is quarantined here, and none begins here")
        at = byte_offsets.index(offset - start)
        for byte_offset in byte_offsets[_first_ignored(buffer, byte_offsets, at) : at + 1]:
            _pass_over(buffer, byte_offset)
    return bytes(buffer)


def _event_offsets(buffer: bytearray, offset: int) -> Iterator[int]:
    while offset + HEADER <= len(buffer):
        yield offset
        offset += _length(buffer, offset)


def _length(buffer: bytearray, offset: int) -> int:
    return group_length(buffer, offset)


def _first_ignored(buffer: bytearray, offsets: list[int], at: int) -> int:
    """The first event that is ignored together with an event: itself, or a compressed transaction's GTID event."""
    if MEANINGS[buffer[offsets[at] + _TYPE]] != event_cells.PAYLOAD:
        return at
    gtids = (event_cells.GTID, event_cells.GTID_ANONYMOUS, event_cells.GTID_TAGGED)
    return next((index for index in range(at, -1, -1) if MEANINGS[buffer[offsets[index] + _TYPE]] in gtids), at)


def _pass_over(buffer: bytearray, offset: int) -> None:
    stop = offset + _length(buffer, offset)
    body, footer = slice(offset, stop - _FOOTER), slice(stop - _FOOTER, stop)
    first = slice(offset, offset + int.from_bytes(buffer[offset + _LENGTH : offset + _LENGTH + 4], "little") - _FOOTER)
    checksum = buffer[first.stop : first.stop + _FOOTER]
    is_checked = zlib.crc32(buffer[first]).to_bytes(_FOOTER, "little") == checksum
    buffer[offset + _TYPE] = _IGNORABLE
    buffer[offset + _LENGTH : offset + _LENGTH + 4] = (stop - offset).to_bytes(
        4, "little"
    )  # fragments become one event
    if is_checked:
        buffer[footer] = zlib.crc32(buffer[body]).to_bytes(_FOOTER, "little")
