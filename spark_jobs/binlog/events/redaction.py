"""Redacted events: their content was blanked when the log was extracted, their length was kept.

A blanked event is an IGNORABLE event, which readers ignore: header with the flag LOG_EVENT_IGNORABLE_F, length and
position as they were; then 8 bytes (of a row event its table id and flags, zeros of a text), the type that it was,
the letters RD, zeros, and the CRC32 that fits where the file has them. No server writes events of that type, and this
one is known by all of its bytes. A compressed transaction is packed again around blanked events, in as many bytes.

Source: MySQL libs/mysql/binlog/event/binlog_event.h (LOG_EVENT_IGNORABLE_F, IGNORABLE_LOG_EVENT), codecs/binary.cpp
(unknown fields of a payload's header are ignored).

Put here: blanking events, telling blanked ones, and holding a log against one that was blanked. Not here: which tables
it is done to (spark_jobs/bronze/redaction.py), when (binlog/slices/slicer.py).
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import zstandard
from numpy.typing import NDArray

from spark_jobs.binlog.events.compression import inflated_pieces, inflated_record
from spark_jobs.binlog.events.format_description import HEADER, MAGIC
from spark_jobs.binlog.events.row_fragments import group_length, row_head
from spark_jobs.binlog.events.scanner import Scan, TableMaps
from spark_jobs.binlog.events.types import FRAGMENT, MEANINGS, type_name
from spark_jobs.binlog.kernels import event_cells, packed_events
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.errors import DecodeError, Unsupported

IGNORABLE = 28
TEXTS = (29, 160)
"""ROWS_QUERY and ANNOTATE_ROWS: the text of the statement behind row events."""
_FLAG = 0x80
_KEPT = 8
_MARK = b"RD"
_LEAST = _KEPT + 1 + len(_MARK)
"""Bytes of a blanked row event's body at least: no server writes shorter row events."""
SECOND_VERSION = {23: 30, 24: 31, 25: 32, 166: 169, 167: 170, 168: 171}
"""Row events without room for extra information, and those of the same rows that have it."""
PLAIN_ROWS = {166: 23, 167: 24, 168: 25, 169: 30, 170: 31, 171: 32}
"""MariaDB's compressed row events and the plain ones that they become."""
PARTIAL_UPDATE = 39
UPDATES = (24, 31, PARTIAL_UPDATE)
_TYPE = 4
_PAYLOAD = 40
_PAD_FIELD = 82
_LEVELS = (3, 9, 19)
"""Compression levels of zstd, tried in turn until what is left of a payload has room; servers use 3 by default."""
_LEVEL_OF_PARTS = 9
_BY_TEXT = (9, 17, 18)
"""Append_block, Begin_load_query, Execute_load_query: LOAD DATA in statement format, with the file's content."""


class Rule(Protocol):
    """Statements and values that are not to be kept of a log."""

    def holds(self, schema: str, table: str) -> bool:
        """True if rows of a table are redacted."""
        ...

    def refusal(self, text: str, database: str) -> str | None:
        """Reason why a statement can neither be kept nor redacted; None where it can be kept."""
        ...


def original(event: bytes, footer: int) -> int | None:
    """The type number that a blanked event had; None for any other event.

    footer: bytes of checksum after the event. A text too short to say is one of MySQL's.
    """
    if len(event) < HEADER + footer or event[4] != IGNORABLE or not event[17] & _FLAG:
        return None
    body = event[HEADER : len(event) - footer]
    if len(body) < _LEAST:
        return TEXTS[0] if body and not any(body) else None
    header, code = body[:_KEPT], body[_KEPT]
    if not _is_blanked(code) or (code in TEXTS and any(header)):
        return None
    return code if body == _filler(header, code, len(body)) else None


def _is_blanked(code: int) -> bool:
    """True if events of a type may be blanked."""
    return code in TEXTS or bool(MEANINGS[code] == event_cells.ROWS)


def _filler(header: bytes, code: int, size: int) -> bytes:
    return (header + bytes([code]) + _MARK).ljust(size, b"\0")[:size]


def blanked(event: bytes, footer: int) -> bytes:
    """A row event, or a statement's text, without its content. A blanked one stays as it is. Raises DecodeError.

    The message says what, and not where.
    """
    if original(event, footer) is not None:
        return event
    code, body = event[4], event[HEADER : len(event) - footer]
    is_rows = code not in TEXTS
    table = row_head(event) if code == FRAGMENT else body[:_KEPT]
    if is_rows and len(body) < _LEAST:
        raise DecodeError(f"{type_name(code)} event of {len(event)} bytes: too short for one, and cannot be redacted")
    # Fragments of a row event become one event of the length of all.
    filler = _filler(table if is_rows else bytes(_KEPT), code, len(body))
    length = len(event).to_bytes(4, "little")
    head = (
        event[:4]
        + bytes([IGNORABLE])
        + event[5:9]
        + length
        + event[13:17]
        + bytes([event[17] | _FLAG])
        + event[18:HEADER]
    )
    return head + filler + zlib.crc32(head + filler).to_bytes(4, "little")[:footer]


def blanked_text(header: bytes, size: int) -> bytes:
    """A blanked statement's text with a body of so many bytes, without a checksum. header: of the event it replaces."""
    head = header[:4] + bytes([IGNORABLE]) + header[5:17] + bytes([header[17] | _FLAG]) + header[18:HEADER]
    return head + _filler(bytes(_KEPT), TEXTS[0], size)


def refuse_blanked(scan: Scan, maps: TableMaps, name: tuple[str, str], location: Callable[[int], str]) -> None:
    """Check that no rows of a table (schema, name) were redacted.

    Raises Unsupported; location: of an event, as messages name it.
    """
    for event in np.flatnonzero((scan.code == IGNORABLE) & (scan.table >= 0)).tolist():
        if maps.names[int(scan.table[event])] == name:
            raise Unsupported(
                f"{location(event)}: {'.'.join(name)}: rows of it were redacted here when the log was extracted, by "
                "redact: of the source, and are not in bronze; exclude the table in tables:, or read the "
                "source under another name without redact:"
            )


class Redactor:
    """Blanks events in the scans of one file, by a rule."""

    def __init__(self, file: str, rule: Rule, maps: TableMaps) -> None:
        self.rule = rule
        self._file, self._maps = file, maps
        self._hidden: list[bool] = []
        """True if the table's rows are redacted; by ordinal of its table map."""

    def blank(self, scan: Scan, footer: int) -> NDArray[np.int64]:
        """Blanks a scan's events in its own buffer, and has the scan say so; returns which they are.

        Raises DecodeError, Unsupported, naming file:offset.
        """
        events = self._redacted_events(scan)
        for event in events.tolist():
            start, length = int(scan.offset[event]), int(scan.length[event])
            try:
                content = blanked(scan.buffer[start : start + length].tobytes(), footer)
            except DecodeError as error:
                raise DecodeError(f"{self._file}:{scan.base + start}: {error}") from None
            scan.buffer[start : start + length] = np.frombuffer(content, np.uint8)
        scan.code[events] = IGNORABLE
        scan.mark[events] &= ~np.uint8(event_cells.MARK_ROWS)
        scan.mark[events] |= np.uint8(event_cells.MARK_IGNORED)
        return events

    def _redacted_events(self, scan: Scan) -> NDArray[np.int64]:
        names = self._maps.names[len(self._hidden) :]
        self._hidden += [self.rule.holds(*name) for name in names]
        hidden = np.array([*self._hidden, False])  # the last one is that of events without a table, of number -1
        rows = (scan.mark & event_cells.MARK_ROWS != 0) & hidden[scan.table]
        return np.flatnonzero(rows | np.isin(scan.code, TEXTS))

    def refuse_texts(self, scan: Scan) -> None:
        """Check that the log has no LOAD DATA in statement format, whose events hold rows. Raises Unsupported."""
        texts = np.flatnonzero(np.isin(scan.code, _BY_TEXT))
        if len(texts):
            location = f"{self._file}:{scan.base + int(scan.offset[texts[0]])}"
            raise Unsupported(f"{location}: LOAD DATA in statement format: {NOT_JUDGED}")

    def refuse(self, offset: int, statement: tuple[str, str]) -> None:
        """Check that the rule can judge a statement (its default database, its text). Raises Unsupported."""
        reason = self.rule.refusal(statement[1], statement[0])
        if reason:
            raise Unsupported(f"{self._file}:{offset}: {reason}")

    def pack(self, scan: Scan, event: int, size: int, frames: Iterator[bytes], footer: int) -> None:
        """Replace a compressed transaction by its remaining events, in the first of several frames that fits.

        size: bytes that each frame inflates to. Raises Unsupported where none fits.
        """
        start, length = int(scan.offset[event]), int(scan.length[event])
        body = body_that_fits(frames, size, length - HEADER - footer)
        if body is None:
            raise Unsupported(
                f"{self._file}:{scan.base + start}: a compressed transaction holds rows of redacted tables, and the "
                "rest of it, compressed again, does not fit into the same bytes; set "
                "binlog_transaction_compression_level_zstd to less, or binlog_transaction_compression to OFF, for the "
                "sessions that write these tables, and start after this position under another source name"
            )
        logged_event = scan.buffer[start : start + HEADER].tobytes() + body
        logged_event += zlib.crc32(logged_event).to_bytes(4, "little")[:footer]
        scan.buffer[start : start + length] = np.frombuffer(logged_event, np.uint8)


def frames_of(content: bytes) -> Iterator[bytes]:
    """Frames of a small content, each packed closer than the one before."""
    return (zstandard.ZstdCompressor(level=level, write_content_size=False).compress(content) for level in _LEVELS)


def body_that_fits(frames: Iterable[bytes], size: int, room: int) -> bytes | None:
    """The body of a TRANSACTION_PAYLOAD event of ``room`` bytes with the first frame that fits; None where none does.

    size: bytes that each frame inflates to.
    """
    return next((body for frame in frames if (body := _payload(frame, size, room)) is not None), None)


class PiecewiseFrame:
    """The frame of a content that comes in pieces."""

    def __init__(self) -> None:
        self.size = 0
        self._stream = zstandard.ZstdCompressor(level=_LEVEL_OF_PARTS, write_content_size=False).compressobj()
        self._frame: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._frame.append(self._stream.compress(piece))

    def frames(self) -> Iterator[bytes]:
        yield b"".join([*self._frame, self._stream.flush()])


def _payload(frame: bytes, size: int, room: int) -> bytes | None:
    """The body of a TRANSACTION_PAYLOAD event of ``room`` bytes; None where the frame does not fit.

    What is left over is the content of a field that readers do not know, at least two bytes with its head.
    """
    fields = (
        (1, _length_encoded(len(frame))),
        (2, _length_encoded(packed_events.PAYLOAD_ZSTD)),
        (3, _length_encoded(size)),
    )
    head = b"".join(_length_encoded(field) + _length_encoded(len(value)) + value for field, value in fields)
    remaining = room - len(head) - 1 - len(frame)
    if remaining < 0 or remaining == 1:
        return None
    return head + (_padding(remaining) if remaining else b"") + b"\0" + frame


def _padding(size: int) -> bytes:
    """A field of so many bytes in all; a length may be written longer than it needs to be."""
    if size <= 252:
        return bytes([_PAD_FIELD, size - 2]).ljust(size, b"\0")
    prefix, width = (b"\xfc", 2) if size - 4 <= 0xFFFF else (b"\xfe", 8)
    return (bytes([_PAD_FIELD]) + prefix + (size - 2 - width).to_bytes(width, "little")).ljust(size, b"\0")


def _length_encoded(value: int) -> bytes:
    """A length-encoded integer."""
    if value < 251:
        return bytes([value])
    for prefix, width in ((b"\xfc", 2), (b"\xfd", 3), (b"\xfe", 8)):
        if value < 1 << (8 * width):
            return prefix + value.to_bytes(width, "little")
    raise AssertionError("no event is as long")


def same_but_redacted(first: bytes, second: bytes, footer: int) -> bool:
    """True if two runs of events from one offset of a log.

    Of one length, are the same but for what was blanked in them.

    They begin with an event, or with the magic bytes; the last event may be cut short. footer: bytes of checksum.
    """
    if len(first) != len(second):
        return False
    at = len(MAGIC) if first.startswith(MAGIC) else 0
    if first[:at] != second[:at]:
        return False
    while at < len(first):
        length = max(group_length(first, at), group_length(second, at))
        pair = first[at : at + length], second[at : at + length]
        if pair[0] != pair[1] and not (_same_event(*pair, length, footer) or _have_same_rows(*pair, footer)):
            return False
        at += length
    return True


def _same_event(first: bytes, second: bytes, length: int, footer: int) -> bool:
    """True if two events that differ are one, redacted or not. length: of the whole event, which may be cut short."""
    if first[9:13] != second[9:13] and FRAGMENT not in (first[4], second[4]):
        return False
    if len(first) < length:
        return _same_beginning(first, second)
    if {first[4], second[4]} == {_PAYLOAD}:
        return first[:HEADER] == second[:HEADER] and same_but_redacted(
            _payload_content(first, footer), _payload_content(second, footer), 0
        )
    if IGNORABLE not in (first[4], second[4]):
        return False
    plain = [event for event in (first, second) if event[4] != IGNORABLE]
    if len(plain) != 1 or not _is_blanked(plain[0][4]):
        return False
    return blanked(first, footer) == blanked(second, footer)


def _have_same_rows(first: bytes, second: bytes, footer: int) -> bool:
    """True if one of two is a row event, and the other what is left of it without some rows (rows/erasure.py)."""
    return _has_lost_rows(first, second, footer) or _has_lost_rows(second, first, footer)


def _has_lost_rows(full: bytes, rest: bytes, footer: int) -> bool:
    """True if ``rest`` is ``full`` without rows: a row event, a blank event, or both, as long as it.

    What its images are must be bytes of the other's, in their order; of events cut short the head alone counts.
    """
    # One is a row event, and the other begins as it does; behind what is left of it there may be a blank one.
    is_one = _is_rows(full[_TYPE]) and group_length(full, 0) >= len(full)
    if not is_one or full[:4] != rest[:4] or full[5:9] != rest[5:9]:
        return False
    size = group_length(rest, 0)
    if size < len(rest):
        is_cut_behind = group_length(rest, size) > len(rest) - size
        if not is_cut_behind and original(rest[size:], footer) not in TEXTS:
            return False
        rest = rest[:size]
    is_cut = group_length(full, 0) > len(full) or size > len(rest)
    if rest[_TYPE] == IGNORABLE:
        return is_cut or (size == len(rest) and original(rest, footer) in TEXTS)
    codes = [SECOND_VERSION.get(event[_TYPE], event[_TYPE]) for event in (full, rest) if len(event) > _TYPE]
    if is_cut or len(rest) != size:
        return is_cut and len({*codes}) == 1
    return len({*codes}) == 1 and _has_images_of(*(event[: len(event) - footer] for event in (full, rest)))


def _has_images_of(full: bytes, rest: bytes) -> bool:
    """True if a row event's images are bytes of another's, in their order, and its table and masks are the same."""
    try:
        (table, images), (rest_table, rest_images) = _images_of(full), _images_of(rest)
    except DecodeError:
        return False
    remaining = iter(images)
    return table == rest_table and all(byte in remaining for byte in rest_images)


def _is_rows(code: int) -> bool:
    return code != FRAGMENT and bool(MEANINGS[code] == event_cells.ROWS)


def _images_of(event: bytes) -> tuple[bytes, bytes]:
    """Table, column count and masks of a row event without a checksum, and its images."""
    code = event[_TYPE]
    plain_code = PLAIN_ROWS.get(code, code)
    at = HEADER + _KEPT
    at += int.from_bytes(event[at : at + 2], "little") if plain_code >= SECOND_VERSION[23] else 0
    is_short = event[at] < 251
    count = event[at] if is_short else int.from_bytes(event[at + 1 : at + 3], "little")
    stop = at + (1 if is_short else 3) + (count + 7) // 8 * (2 if plain_code in UPDATES else 1)
    table = event[HEADER : HEADER + 6]
    images = inflated_record(event[stop:]) if code in PLAIN_ROWS else event[stop:]
    return table + event[at:stop], images


def _same_beginning(first: bytes, second: bytes) -> bool:
    """True if two events cut short begin alike: what is there of a blanked one tells less than its header does."""
    codes = {first[4], second[4]} - {IGNORABLE} if len(first) > 4 else set()
    heads = [event[:4] + event[5:17] for event in (first, second)]
    return heads[0] == heads[1] and len(codes) == 1 and (codes == {_PAYLOAD} or _is_blanked(*codes))


def _payload_content(event: bytes, footer: int) -> bytes:
    """The events that a payload holds; the event itself where it cannot be read."""
    heads = np.zeros((1, packed_events.PH_COLUMNS), np.int64)
    wire = np.frombuffer(event, np.uint8)
    if not packed_events.payload_heads(np.array([address_of(wire)]), np.array([len(wire) - footer]), heads):
        return event
    offset, size, kind = (
        int(heads[0, cell]) for cell in (packed_events.PH_OFFSET, packed_events.PH_SIZE, packed_events.PH_TYPE)
    )
    frame = wire[offset : offset + size]
    try:
        return frame.tobytes() if kind == packed_events.PAYLOAD_NONE else b"".join(inflated_pieces(frame))
    except zstandard.ZstdError:
        return event


NOT_JUDGED = (
    "the source redacts tables (redact:), and whose rows a statement's text has cannot be told, so it is neither kept "
    "nor left out; have every session of the server log rows (binlog_format = ROW), and start after this position "
    "under another source name, or take redact: away"
)
