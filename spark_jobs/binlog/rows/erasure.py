"""Erasure of rows from slices of the log: other rows stay, and so does the offset of every event.

A row event loses the images of a row, and gets as many bytes of extra row information, of a kind that no reader knows:
readers pass over it by its length (MySQL libs/mysql/binlog/event/rows_event.cpp, ``Rows_event``; MariaDB
sql/log_event_server.cc). A larger gap becomes an event of its own, after the row event. An event that loses all of its
rows, and the text of a statement, are blanked as redacted texts are (binlog/events/redaction.py). A compressed
transaction is packed again into as many bytes.

Put here: events without rows. Not here: which rows (operations/forgetting/), or where slices are written.
"""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from spark_jobs.binlog.events.compression import inflated_record
from spark_jobs.binlog.events.format_description import HEADER
from spark_jobs.binlog.events.redaction import (
    IGNORABLE,
    PARTIAL_UPDATE,
    PLAIN_ROWS,
    SECOND_VERSION,
    TEXTS,
    UPDATES,
    blanked,
    blanked_text,
    body_that_fits,
    frames_of,
)
from spark_jobs.binlog.events.scanner import EventScanner, Scan, TableMaps
from spark_jobs.binlog.events.slice_bytes import SliceBytes
from spark_jobs.binlog.events.table_map import TableDefinition, parse_table_map
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.events.types import FRAGMENT
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.binlog.rows.row_events import JSON_CODE, sizes_of
from spark_jobs.binlog.types.base import Numbers
from spark_jobs.errors import DecodeError, Truncated, Unsupported

_PAYLOAD = 40
_TYPE = 4
_LAST_OF_STATEMENT = 1
"""Flag of a row event (STMT_END_F)."""
_FLAGS = HEADER + 6
_BODY = HEADER + 8
_UNKNOWN_INFORMATION = 0xFF
_MOST_INFORMATION = 0xFFFF
_LEVEL = 9


@dataclass(frozen=True, slots=True)
class ErasedSlice:
    """A slice without some rows.

    events, size: how many events are not the server's own any more, and their bytes. added: how many more events there
    are than before. tables: those of the rows, (schema, table).
    """

    payload: bytes
    events: int
    size: int
    added: int
    tables: frozenset[tuple[str, str]]


@dataclass(slots=True)
class SliceEraser:
    """A slice whose rows are to be erased."""

    file: str
    scanner: EventScanner
    scan: Scan
    maps: TableMaps

    @classmethod
    def of(cls, file: str, log_slice: SliceBytes) -> Self:
        """The eraser of a slice of a file. Raises DecodeError and its kinds."""
        maps = TableMaps()
        return cls(file, *log_slice.opened(file, maps), maps)

    def transactions_of(self, offsets: Collection[int]) -> set[int]:
        """Position where the transactions begin that events at these offsets of the file belong to."""
        scan = self.scan
        is_one = np.isin(scan.base + scan.offset, [*offsets]) & (scan.transaction >= 0)
        return {*map(int, scan.transactions[scan.transaction[is_one], event_cells.TX_START])}

    def erased(self, rows: Collection[tuple[int, int]], transactions: Collection[int]) -> ErasedSlice:
        """The slice without rows, and without the texts of statements in some transactions.

        Args:
            rows: the offset in the file of each row's event, and the row's number there, as ``Changes`` has them.
            transactions: where these begin.

        Raises DecodeError, and Unsupported where an event cannot be written without its rows in as many bytes.
        """
        scan, footer = self.scan, self.scanner.format.footer
        # The rows by their events, and the texts of their transactions.
        owners = np.append(scan.transactions[:, event_cells.TX_START], -1)[scan.transaction]  # -1 of events of none
        indexes = (scan.base + scan.offset).tolist()
        numbers_by_offset: dict[int, set[int]] = {}
        for offset, row in rows:
            numbers_by_offset.setdefault(offset, set()).add(row)
        at = {
            event: numbers_by_offset[byte_offset]
            for event, byte_offset in enumerate(indexes)
            if byte_offset in numbers_by_offset
        }
        texts = np.flatnonzero(np.isin(scan.code, TEXTS) & np.isin(owners, [*transactions])).tolist()
        erasing = _Erasing(self, scan, np.arange(len(scan)), footer)
        erasing.erase({event: at_position for event, at_position in at.items() if scan.code[event] != _PAYLOAD}, texts)
        packed = {event: numbers for event, numbers in at.items() if scan.code[event] == _PAYLOAD}
        if packed:
            self._erase_in_payloads(erasing, packed)
        tables = frozenset(self.maps.names[table] for table in erasing.tables)
        events = len(erasing.parts) + erasing.inside
        return ErasedSlice(erasing.content(), events, erasing.size, erasing.added, tables)

    def definition(self, scan: Scan, event: int, location: str) -> TableDefinition:
        """The table of a row event. location: the event's, for messages."""
        return parse_table_map(self.maps.events[int(scan.table[event])], self.scanner.format, location)

    def location(self, event: int) -> str:
        """The location of an event of the file, as messages name it."""
        return f"{self.file}:{self.scan.base + int(self.scan.offset[event])}"

    def _erase_in_payloads(self, outer: "_Erasing", packed: Mapping[int, set[int]]) -> None:
        """Erase rows by their number in a compressed transaction, among rows of all of its tables."""
        for opened in Payloads(self.file, self.scanner.format, self.maps).open(self.scan):
            for event in sorted(packed.keys() & {*opened.outer.tolist()}):
                if not opened.is_whole:
                    raise Unsupported(
                        f"{self.location(event)}: a compressed transaction that is too large to be written again "
                        "without some of its rows; wait for retention.bronze to remove it"
                    )
                events = np.flatnonzero(opened.outer == event)
                inner = _Erasing(self, opened.inner, events, 0, payload=event)
                inner.erase_numbers(packed[event])
                self._pack(outer, event, inner)

    def _pack(self, outer: "_Erasing", event: int, inner: "_Erasing") -> None:
        """Put the content of a payload into its place."""
        content = inner.content()
        room = int(self.scan.length[event]) - HEADER - outer.footer
        body = body_that_fits(frames_of(content), len(content), room)
        if body is None:
            raise Unsupported(
                f"{self.location(event)}: a compressed transaction that does not fit into its place without some of "
                "its rows; wait for retention.bronze to remove it"
            )
        outer.parts[event] = (outer.event(event)[:HEADER] + body,)
        outer.tables |= inner.tables
        outer.inside += len(inner.parts) - 1


@dataclass(slots=True)
class _Erasing:
    """Events of a scan on their way: those of the file, or those of one payload.

    footer: bytes of checksum after an event. payload: the event of the file that they are in, where they are in one.
    """

    slice_: SliceEraser
    scan: Scan
    events: Numbers
    footer: int
    payload: int | None = None
    parts: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """Events, without checksums, in the place of each changed event."""
    tables: set[int] = field(default_factory=set)
    inside: int = 0
    """Changed events in payloads beyond one a payload."""

    @property
    def size(self) -> int:
        """Bytes of the changed events."""
        return sum(int(self.scan.length[event]) for event in self.parts)

    @property
    def added(self) -> int:
        """Number of more events that there are than before."""
        return sum(len(parts) - 1 for parts in self.parts.values())

    def event(self, event: int) -> bytes:
        """An event as it was, with its checksum."""
        begin = int(self.scan.offset[event])
        return self.scan.buffer[begin : begin + int(self.scan.length[event])].tobytes()

    def erase_numbers(self, numbers: Collection[int]) -> None:
        """Erase rows by their number among those of all events, and all texts."""
        ahead, numbers_by_event = 0, dict[int, set[int]]()
        for event in self.events[(self.scan.mark[self.events] & event_cells.MARK_ROWS) != 0].tolist():
            count = len(self._taken_apart(event).rows)
            event_numbers = {number - ahead for number in numbers if ahead <= number < ahead + count}
            numbers_by_event |= {event: event_numbers} if event_numbers else {}
            ahead += count
        self.erase(numbers_by_event, [event for event in self.events.tolist() if self.scan.code[event] in TEXTS])

    def erase(self, numbers_by_event: Mapping[int, set[int]], texts: Sequence[int]) -> None:
        """Erase rows by event and number, and texts. What ends a statement still does."""
        for event in texts:
            new = blanked(self.event(event), self.footer)
            if new != self.event(event):
                self.parts[event] = (new[: len(new) - self.footer],)
        # The last row event of a statement says so: where it goes, the one before it does.
        last: int | None = None
        marks = self.scan.mark[self.events]
        for event in self.events[(marks & (event_cells.MARK_ROWS | event_cells.MARK_BEGINS)) != 0].tolist():
            if not self.scan.mark[event] & event_cells.MARK_ROWS:
                last = None
                continue
            is_last = bool(self.event(event)[_FLAGS] & _LAST_OF_STATEMENT)
            if event in numbers_by_event:
                self._erase_rows(event, numbers_by_event[event])
            if self.parts.get(event, (self.event(event),))[0][_TYPE] != IGNORABLE:
                last = event
            elif is_last and last is not None:
                self._end_statement(last)
            last = None if is_last else last

    def _erase_rows(self, event: int, numbers: Collection[int]) -> None:
        row_event = self._taken_apart(event)
        self.tables.add(int(self.scan.table[event]))
        if unknown := [number for number in numbers if number >= len(row_event.rows)]:
            raise DecodeError(f"{self._location(event)}: row {unknown[0]} is asked for of {len(row_event.rows)}")
        try:
            self.parts[event] = row_event.without(numbers, int(self.scan.length[event]) - self.footer, self.footer)
        except Unsupported as error:
            raise Unsupported(f"{self._location(event)}: {error}") from None

    def _taken_apart(self, event: int) -> "RowEvent":
        location = self._location(event)
        if self.scan.code[event] == FRAGMENT:
            raise Unsupported(
                f"{location}: a row event in fragments, which is not written again without some of its rows; wait for "
                "retention.bronze to remove it"
            )
        try:
            return RowEvent.of(self.event(event), self.footer, self.slice_.definition(self.scan, event, location))
        except DecodeError as error:
            raise type(error)(f"{location}: {error}") from None

    def _location(self, event: int) -> str:
        return self.slice_.location(event if self.payload is None else self.payload)

    def _end_statement(self, event: int) -> None:
        """Give a row event the flag of the last one of its statement."""
        event_bytes = self.event(event)
        rows, *behind = self.parts.get(event, (event_bytes[: len(event_bytes) - self.footer],))
        flagged = bytearray(rows)
        flagged[_FLAGS] |= _LAST_OF_STATEMENT
        self.parts[event] = (bytes(flagged), *behind)

    def content(self) -> bytes:
        """The bytes of all events, the changed ones with their sums and where they end."""
        last = int(self.events[-1])
        begin = 0 if self.payload is None else int(self.scan.offset[self.events[0]])
        content = bytearray(self.scan.buffer[begin : int(self.scan.offset[last] + self.scan.length[last])].tobytes())
        for event, parts in self.parts.items():
            at = int(self.scan.offset[event]) - begin
            end = int.from_bytes(self.event(event)[13:17], "little")
            events = b""
            for number, part in enumerate(parts):
                later = sum(len(log_part) + self.footer for log_part in parts[number + 1 :])
                size = (len(part) + self.footer).to_bytes(4, "little")
                plain = part[:9] + size + max(end - later, 0).to_bytes(4, "little") + part[17:]
                events += plain + zlib.crc32(plain).to_bytes(4, "little")[: self.footer]
            assert len(events) == int(self.scan.length[event]), "an event stays as long as it was"
            content[at : at + len(events)] = events
        return bytes(content)


@dataclass(frozen=True, slots=True)
class RowEvent:
    """A row event taken apart. Layout: FORMAT.md.

    head: header, table and flags. extra: information beside rows, with its length; empty where there is no room for it.
    bitmaps: how many columns, and which ones images have. rows: the images of each row. is_packed: whether they stand
    in one compressed record.
    """

    code: int
    head: bytes
    extra: bytes
    bitmaps: bytes
    rows: tuple[bytes, ...]
    is_packed: bool

    @classmethod
    def of(cls, event: bytes, footer: int, definition: TableDefinition) -> Self:
        """The row event that bytes without a checksum of ``footer`` bytes hold.

        Raises DecodeError, Truncated, Unsupported.
        """
        body, code = event[: len(event) - footer], event[4]
        plain_code = PLAIN_ROWS.get(code, code)
        at = _BODY + (int.from_bytes(body[_BODY : _BODY + 2], "little") if plain_code >= 30 else 0)
        extra = body[_BODY:at]
        count, begin = (
            (body[at], at + 1) if body[at] < 251 else (int.from_bytes(body[at + 1 : at + 3], "little"), at + 3)
        )
        if count != len(definition.columns):
            raise DecodeError(f"{definition.name}: a row event whose column count is not its TABLE_MAP's")
        size, is_update = (count + 7) // 8, plain_code in UPDATES
        stop = begin + size * (2 if is_update else 1)
        content = inflated_record(body[stop:]) if code in PLAIN_ROWS else body[stop:]
        masks = [body[begin : begin + size], body[begin + size : stop]] if is_update else [body[begin:stop]]
        walk = _Walk(content, definition, tuple(_set_bits(mask, count) for mask in masks), plain_code)
        return cls(code, body[:_BODY], extra, body[at:stop], tuple(walk.rows()), code in PLAIN_ROWS)

    def without(self, numbers: Collection[int], size: int, footer: int) -> tuple[bytes, ...]:
        """The event without some rows: events of so many bytes together, without checksums but with room for them.

        Raises Unsupported where that cannot be.
        """
        # What is left, and the bytes that are missing then.
        rows = [row for number, row in enumerate(self.rows) if number not in numbers]
        if not rows:
            return (blanked_text(self.head[:HEADER], size - HEADER),)
        content = b"".join(rows)
        rest = self.bitmaps + (_record(content, 0) if self.is_packed else content)
        gap = size - len(self.head) - len(self.extra) - len(rest)
        if gap == 1 and self.is_packed:
            rest, gap = self.bitmaps + _record(content, 1), 0
        if gap < 0:
            raise Unsupported(
                "a compressed row event that does not fit into its place without some of its rows; wait for "
                "retention.bronze to remove it"
            )
        if len(self.extra) + gap <= _MOST_INFORMATION:
            return (self._with_information(gap) + rest,)
        hole = blanked_text(self.head[:HEADER], gap - footer - HEADER)
        return self.head + self.extra + rest, hole

    def _with_information(self, size: int) -> bytes:
        """Head and extra information, which is so many bytes longer."""
        head, extra = self.head, self.extra
        if not extra and size:
            if size < 2:
                raise Unsupported(f"a row of {size} bytes is too short to be erased beside others of its event")
            head = head[:4] + bytes([SECOND_VERSION[self.code]]) + head[5:]
            extra, size = b"\2\0", size - 2
        if not extra:
            return head
        filler = bytes([_UNKNOWN_INFORMATION]).ljust(size, b"\0") if size else b""
        return head + (len(extra) + size).to_bytes(2, "little") + extra[2:] + filler


@dataclass(slots=True)
class _Walk:
    """The images of an event, one after the other. masks: which columns they have."""

    content: bytes
    definition: TableDefinition
    masks: tuple[tuple[bool, ...], ...]
    code: int

    def rows(self) -> list[bytes]:
        """The bytes of each row, of an update with both of its images. Raises Truncated."""
        sizes, documents = sizes_of(self.definition).tolist(), self._documents()
        rows, at = list[bytes](), 0
        while at < len(self.content):
            start = at
            at = self._past(at, self.masks[0], sizes)
            if self.code == PARTIAL_UPDATE:
                at = self._past_options(at, documents)
            if len(self.masks) > 1:
                at = self._past(at, self.masks[1], sizes)
            if at > len(self.content) or at == start:
                raise Truncated(f"{self.definition.name}: its rows do not end with their event")
            rows.append(self.content[start:at])
        return rows

    def _documents(self) -> int:
        return sum(column.type_code == JSON_CODE for column in self.definition.columns)

    def _past(self, at: int, mask: tuple[bool, ...], sizes: Sequence[int]) -> int:
        present = [size for size, is_present in zip(sizes, mask, strict=True) if is_present]
        nulls = self.content[at : at + (len(present) + 7) // 8]
        at += (len(present) + 7) // 8
        for offset, size in enumerate(present):
            if offset // 8 < len(nulls) and nulls[offset // 8] >> (offset % 8) & 1:
                continue
            at += size if size >= 0 else int.from_bytes(self.content[at : at - size], "little") - size
        return at

    def _past_options(self, at: int, documents: int) -> int:
        """Offset after the options and the bits, one a document, between the images of a partial update."""
        return at + 1 + ((documents + 7) // 8 if self.content[at : at + 1] == b"\1" else 0)


def _set_bits(mask: bytes, count: int) -> tuple[bool, ...]:
    return tuple(bool(mask[bit // 8] >> (bit % 8) & 1) for bit in range(count))


def _record(content: bytes, zeros: int) -> bytes:
    """A compressed record (events/compression.py), so many bytes longer than it has to be, by zeros in its length."""
    width = max(1, (len(content).bit_length() + 7) // 8) + zeros
    return bytes([0x80 | width]) + len(content).to_bytes(width, "big") + zlib.compress(content, _LEVEL)
