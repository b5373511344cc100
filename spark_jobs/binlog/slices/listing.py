"""Events of files as SHOW BINLOG EVENTS would show them: every event with its type, transaction, table and a note.

And the account of a file: its events and bytes by type, which add up to its size.

Put here: the listing and the account. Not here: the registry of types (binlog/events/types.py) or slices (slicer.py).
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, Protocol

import numpy as np

from spark_jobs.binlog.events.chunk_buffer import Feed
from spark_jobs.binlog.events.format_description import HEADER, MAGIC
from spark_jobs.binlog.events.query_event import Session, read_query, read_session
from spark_jobs.binlog.events.redaction import IGNORABLE, original
from spark_jobs.binlog.events.row_fragments import Group, group_at, row_head
from spark_jobs.binlog.events.scanner import Scan, map_name
from spark_jobs.binlog.events.table_map import TableDefinition, parse_table_map
from spark_jobs.binlog.events.transaction_payload import Payloads, payload_note
from spark_jobs.binlog.events.types import EVENT_TYPES, FRAGMENT, EventType, type_name
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.errors import DecodeError, Truncated
from spark_jobs.log.gtid import MysqlGtids, NoGtids

__all__ = ["EVENT_TYPES", "Event", "EventType", "Summary", "TypeCount", "list_events", "summarize", "type_name"]

_LEAST = 1 << 20
_REDACTED = "Redacted"
"""The type of an event whose content was left out; its note says which it had."""
_LONGEST_NOTE = 1 << 20
"""Bytes of an event that a note is made of; a statement may be longer than memory is to hold several times."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. offset and stop: where it begins and ends in its file, in bytes, counted."""

    offset: int
    type: str
    """The event's type as SHOW BINLOG EVENTS spells it."""
    server_id: int
    stop: int
    transaction: str | None
    """GTID of the transaction it belongs to."""
    table: str | None
    """``schema.table`` of a TABLE_MAP or row event."""
    note: str


class TableNotes(Protocol):
    """Notes on tables that a caller has, and follows by the statements of the log."""

    def read(self, text: str, database: str, session: Session) -> None:
        """Take the next statement."""

    def columns(self, logged: TableDefinition) -> str:
        """A table's columns, for the note of its TABLE_MAP."""


def list_events(chunks: Iterator[bytes], file: str, tables: TableNotes | None = None) -> Iterator[Event]:
    """Yield the events of one file, given in chunks from its first byte on; hold a chunk and an event at a time.

    tables: has the columns that notes of TABLE_MAP events name; they name none without it.

    Every checksum is verified. Raises DecodeError where the bytes stop making sense, Truncated where they end inside
    an event.
    """
    feed = Feed(file, 0, None, minimum=_LEAST)
    transaction: int | None = None
    for scan in chain(chain.from_iterable(map(feed.add, chunks)), _last(feed)):
        yield from _events(scan, feed, tables)
        transaction = _transaction_at_end(scan) if len(scan) else transaction
        feed.keep(scan.end)
    if (len(feed.buffer) or not feed.is_open) and (cut := feed.cut(transaction)):
        raise Truncated(cut)


@dataclass(frozen=True, slots=True)
class TypeCount:
    """Events of one type, and their bytes with headers and checksums.

    treatment: ``decoded`` events are rows, or describe them; ``counted`` ones are known to be irrelevant to rows; the
    content of ``redacted`` ones was left out when the log was extracted.
    """

    type: str
    treatment: Literal["decoded", "counted", "redacted"]
    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The account of one file: ``magic`` + the bytes of ``types`` + ``rest`` = ``size``.

    magic: the file's first 4 bytes. rest: bytes from the event on that could not be passed or was cut short, which
    ``error`` tells of; 0 where there is none.
    """

    size: int
    magic: int
    types: tuple[TypeCount, ...]
    rest: int
    error: str | None


def summarize(chunks: Iterator[bytes], file: str) -> Summary:
    """Count every byte of one file, given in chunks from its first byte on. Every checksum is verified.

    A file that is damaged has its account too, with the error in it.
    """
    events, sizes = np.zeros(256, np.int64), np.zeros(256, np.int64)
    redacted = np.zeros(2, np.int64)
    size, error, transaction = 0, None, None
    feed = Feed(file, 0, None, minimum=_LEAST)

    # Counts a code at a time, over all events of a scan; blanked events are known by their content.
    def count(scans: Iterator[Scan]) -> None:
        nonlocal transaction
        for scan in scans:
            transaction = _transaction_at_end(scan) if len(scan) else transaction
            np.add.at(events, scan.code, 1)
            np.add.at(sizes, scan.code, scan.length)
            for event in np.flatnonzero(scan.code == FRAGMENT).tolist():
                events[FRAGMENT] += len(_group(scan, event, feed.format.footer).fragments) - 1
            for event in np.flatnonzero(scan.code == IGNORABLE).tolist():
                if original(scan.bytes_of(event), feed.format.footer) is not None:
                    redacted[:] += 1, scan.length[event]
            feed.keep(scan.end)

    # After an error the rest is only counted.
    for chunk in chunks:
        size += len(chunk)
        if error is None:
            error = _failure(count, feed.add(chunk))
    error = error or _failure(count, feed.scan())
    if error is None and (len(feed.buffer) or not feed.is_open) and (cut := feed.cut(transaction)):
        error = cut
    # Whatever was not scanned is the rest, so that the numbers add up to the file's size.
    magic = min(feed.base, len(MAGIC))
    rest = size - magic - int(sizes.sum())
    events[IGNORABLE], sizes[IGNORABLE] = events[IGNORABLE] - redacted[0], sizes[IGNORABLE] - redacted[1]
    types = tuple(
        TypeCount(type_name(code), _treatment(code), int(events[code]), int(sizes[code]))
        for code in np.flatnonzero(events).tolist()
    )
    blanked = (TypeCount(_REDACTED, "redacted", *redacted.tolist()),) if redacted[0] else ()
    return Summary(size, magic, types + blanked, rest, error)


def _failure(count: Callable[[Iterator[Scan]], None], scans: Iterator[Scan]) -> str | None:
    try:
        count(scans)
    except DecodeError as error:
        return str(error)
    return None


def _treatment(code: int) -> Literal["decoded", "counted"]:
    event = EVENT_TYPES.get(code)
    # Of the types that stop, one may be passed: START_ENCRYPTION of a file that its server has decrypted.
    if event is None or event.meaning in (
        event_cells.CONTROL,
        event_cells.IGNORED,
        event_cells.INNER,
        event_cells.STOPS,
    ):
        return "counted"
    return "decoded"


def _transaction_at_end(scan: Scan) -> int | None:
    """Offset where the transaction begins that is open after the last event of a scan."""
    if not len(scan) or scan.mark[-1] & (event_cells.MARK_ENDS | event_cells.MARK_CONTROL) or scan.transaction[-1] < 0:
        return None
    return int(scan.transactions[scan.transaction[-1], event_cells.TX_START])


def _last(feed: Feed) -> Iterator[Scan]:
    """Last slices, which are complete when the file has ended."""
    yield from feed.scan()


def _events(scan: Scan, feed: Feed, tables: TableNotes | None) -> Iterator[Event]:
    """The scan's events, each payload followed by those inside it, which have its offset and stop."""

    def event(scan: Scan, number: int, gtid: str | None, *, inside: bool = False) -> Event:
        plain = _event(scan, number, feed, gtid, inside=inside)
        columns = _column_list(scan, number, feed, tables, inside=inside) if tables else ""
        return replace(plain, note=plain.note + columns) if columns else plain

    def in_fragments(plain: Event, number: int) -> Iterator[Event]:
        return _fragments(plain, scan, number, feed.format.footer) if scan.code[number] == FRAGMENT else iter([plain])

    # Inner events have the offset of their payload.
    gtids = [scan.gtid(row) for row in range(len(scan.transactions))]
    owners = scan.transaction
    listed = 0
    for opened in Payloads(feed.file, feed.format, feed.maps).open(scan):
        for number, outer in enumerate(opened.outer.tolist()):
            while listed <= outer:
                gtid = gtids[owners[listed]] if owners[listed] >= 0 else None
                yield from in_fragments(event(scan, listed, gtid), listed)
                listed += 1
            inner = event(opened.inner, number, gtids[owners[outer]], inside=True)
            offset = scan.base + int(scan.offset[outer])
            yield replace(inner, offset=offset, stop=offset + int(scan.length[outer]))
    for number in range(listed, len(scan)):
        yield from in_fragments(event(scan, number, gtids[owners[number]] if owners[number] >= 0 else None), number)


def _fragments(group: Event, scan: Scan, number: int, footer: int) -> Iterator[Event]:
    """The events that a row event was logged as."""
    begin = group.offset
    for fragment in _group(scan, number, footer).fragments:
        stop = group.offset + fragment.stop + footer
        note = f"fragment {fragment.number} of {fragment.count}"
        yield replace(group, offset=begin, stop=stop, note=f"{group.note}, {note}" if fragment.number == 1 else note)
        begin = stop


def _group(scan: Scan, number: int, footer: int) -> Group:
    group = group_at(scan.buffer, int(scan.offset[number]), footer)
    assert group  # it was scanned
    return group


def _column_list(scan: Scan, number: int, feed: Feed, tables: TableNotes, *, inside: bool) -> str:
    """Columns as a TABLE_MAP's note has them; a statement is followed, and has nothing."""
    event, location = scan.head_of(number, _LONGEST_NOTE), f"{feed.file}:{scan.base + int(scan.offset[number])}"
    meaning = EVENT_TYPES[event[4]].meaning if event[4] in EVENT_TYPES else event_cells.UNKNOWN
    if meaning == event_cells.TABLE_MAP:
        definition = parse_table_map(feed.maps.events[int(scan.table[number])], feed.format, location)
        return f" ({tables.columns(definition)})"
    if meaning in (event_cells.QUERY, event_cells.QUERY_COMPRESSED) and len(event) == int(scan.length[number]):
        database, text = read_query(event, 0 if inside else feed.format.footer, location)
        tables.read(text, database, read_session(event))
    return ""


def _event(scan: Scan, number: int, feed: Feed, gtid: str | None, *, inside: bool = False) -> Event:
    event, length = scan.head_of(number, _LONGEST_NOTE), int(scan.length[number])
    offset = scan.base + int(scan.offset[number])
    table = int(scan.table[number])
    footer = 0 if inside else feed.format.footer
    is_blanked = event[4] == IGNORABLE and original(scan.bytes_of(number), footer) is not None
    return Event(
        offset=offset,
        type=_REDACTED if is_blanked else type_name(event[4]),
        server_id=int.from_bytes(event[5:9], "little"),
        stop=offset + length,
        transaction=gtid,
        table=".".join(feed.maps.names[table]) if table >= 0 else None,
        note=_redacted(event, footer) if is_blanked else _event_note(event, footer, f"{feed.file}:{offset}", length),
    )


def _event_note(event: bytes, footer: int, location: str, length: int) -> str:
    """event: as much of it as a note is made of; length: of the whole event."""
    meaning = EVENT_TYPES[event[4]].meaning if event[4] in EVENT_TYPES else event_cells.UNKNOWN
    note = _NOTES.get(event[4]) or _NOTES_BY_MEANING.get(meaning)
    if length == len(event) or meaning == event_cells.ROWS:
        return note(event, footer, location) if note else ""
    size = f"({length} bytes)"
    if note is None or note in _OF_ALL or meaning == event_cells.QUERY_COMPRESSED:
        return size
    return f"{note(event, 0, location)} … {size}"


def _redacted(event: bytes, footer: int) -> str:
    code = original(event, footer)
    return type_name(event[HEADER + 8] if code is None else code)


def _body(event: bytes, footer: int) -> bytes:
    return event[HEADER : len(event) - footer]


def _format(event: bytes, _footer: int, _location: str) -> str:
    version = event[HEADER + 2 : HEADER + 52].split(b"\0")[0].decode("ascii", "replace")
    return f"Server ver: {version}, Binlog ver: {int.from_bytes(event[HEADER : HEADER + 2], 'little')}"


def _query(event: bytes, footer: int, location: str) -> str:
    database, text = read_query(event, footer, location)
    return f"use `{database}`; {text}" if database and text not in ("BEGIN", "COMMIT", "ROLLBACK") else text


def _rotate(event: bytes, footer: int, _location: str) -> str:
    body = _body(event, footer)
    return f"{body[8:].decode('utf-8', 'replace')};pos={int.from_bytes(body[:8], 'little')}"


def _xid(event: bytes, footer: int, _location: str) -> str:
    return f"COMMIT /* xid={int.from_bytes(_body(event, footer)[:8], 'little')} */"


def _table_id(event: bytes) -> int:
    return int.from_bytes(event[HEADER : HEADER + 6], "little")


def _large_transaction(event: bytes, footer: int, _location: str) -> str:
    body = _body(event, footer)
    return f"terminating event offset {int.from_bytes(body[1:9], 'little')}" if len(body) >= 10 else ""


def _table_map(event: bytes, footer: int, _location: str) -> str:
    return f"table_id: {_table_id(event)} ({'.'.join(map_name(_body(event, footer)))})"


def _rows_text(event: bytes, _footer: int, _location: str) -> str:
    head = row_head(event) if event[4] == FRAGMENT else event[HEADER : HEADER + 8]
    ends = int.from_bytes(head[6:], "little") & 1
    return f"table_id: {int.from_bytes(head[:6], 'little')}{' flags: STMT_END_F' if ends else ''}"


def _rows_query(event: bytes, footer: int, _location: str) -> str:
    return "# " + _body(event, footer)[1:].decode("utf-8", "backslashreplace")


def _annotation(event: bytes, footer: int, _location: str) -> str:
    return _body(event, footer).decode("utf-8", "backslashreplace")


def _previous_gtids(event: bytes, footer: int, location: str) -> str:
    body = _body(event, footer)
    try:
        return str(MysqlGtids.decode(body))
    except NoGtids as error:
        raise DecodeError(f"{location}: PREVIOUS_GTIDS: {error}") from None


def _gtid_list(event: bytes, footer: int, location: str) -> str:
    """MariaDB: a count in 28 bits, then domain 4, server 4, number 8 for each."""
    body = _body(event, footer)
    count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
    if len(body) < 4 + 16 * count:
        raise DecodeError(f"{location}: GTID_LIST: {len(body)} bytes are not the {count} GTIDs that it announces")
    entries = [struct.unpack_from("<IIQ", body, 4 + 16 * k) for k in range(count)]
    return ",".join("-".join(map(str, entry)) for entry in entries)


_Note = Callable[[bytes, int, str], str]

_NOTES: dict[int, _Note] = {
    4: _rotate,
    29: _rows_query,
    35: _previous_gtids,
    43: _large_transaction,
    160: _annotation,
    163: _gtid_list,
}
_OF_ALL = (_previous_gtids, _gtid_list)
"""Notes that cannot be made of an event's beginning."""
_NOTES_BY_MEANING: dict[int, _Note] = {
    event_cells.FORMAT: _format,
    event_cells.QUERY: _query,
    event_cells.LOAD_QUERY: _query,
    event_cells.QUERY_COMPRESSED: _query,
    event_cells.TABLE_MAP: _table_map,
    event_cells.ROWS: _rows_text,
    event_cells.XID: _xid,
    event_cells.PAYLOAD: payload_note,
}
