"""Slicer: bytes of a log to slices, runs of whole transactions as bronze keeps them. No row is decoded.

Slices follow each other without a gap, so that their payloads, one after the other, are the file again; only the
FORMAT_DESCRIPTION's in-use flag is stored cleared. Each is of one kind:

- ``control``: the file head (magic, FORMAT_DESCRIPTION, PREVIOUS_GTIDS or GTID_LIST), ROTATE, STOP;
- ``rows``: whole transactions, or a part of one larger than the target;
- ``statement``: what has to be read as text: a DDL statement with its GTID, a statement inside a transaction by itself,
  and a transaction that XA or ROLLBACK ends, rows and all.

Put here: where slices begin and end, and the columns that describe them. Not here: the walk over events
(binlog/events/scanner.py) or what a statement means.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog.events.chunk_buffer import Feed
from spark_jobs.binlog.events.format_description import FormatDescription
from spark_jobs.binlog.events.query_event import read_query
from spark_jobs.binlog.events.redaction import IGNORABLE, PiecewiseFrame, Redactor, Rule, frames_of, original
from spark_jobs.binlog.events.scanner import Scan, empty_scan
from spark_jobs.binlog.events.transaction_payload import PayloadContents, Payloads
from spark_jobs.binlog.kernels import event_cells, slice_cut

LARGE = 64 << 20
"""Bytes of one transaction that are held back until its end is seen; beyond, its slices are handed out before."""

_TABLES = pa.list_(pa.struct([("schema", pa.string()), ("table", pa.string())]))
REDACTED: pa.StructType = pa.struct([("events", pa.int32()), ("bytes", pa.int64()), ("tables", _TABLES)])
"""Events whose content was left out when the log was extracted, the file's bytes that are not the server's for it, and
the tables of those that are row events."""

SLICE_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("transaction_start", pa.int64(), nullable=False),
        pa.field("server_id", pa.int64(), nullable=False),
        pa.field("gtid", pa.string()),
        pa.field("committed_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("tables", _TABLES),
        pa.field("database", pa.string()),
        pa.field("statement", pa.string()),
        pa.field("events", pa.int32(), nullable=False),
        pa.field("transactions", pa.int32(), nullable=False),
        pa.field("ignored", pa.int32(), nullable=False),
        pa.field("maps", pa.list_(pa.binary()), nullable=False),
        pa.field("context", pa.binary()),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("redacted", REDACTED),
    ]
)
"""One row a slice. Offsets are the file's; ``committed_at`` is the last transaction's immediate commit timestamp, else
its first event's second; ``tables`` names those inside compressed transactions too; ``context`` is null at file offset
0 only; ``redacted`` where nothing is."""

_KINDS = {
    event_cells.SLICE_CONTROL: "control",
    event_cells.SLICE_ROWS: "rows",
    event_cells.SLICE_STATEMENT: "statement",
}
_MAP_CODE = 19


class Slicer:
    """Cuts the bytes of one file, fed in order, into slices.

    A slice is handed out once the transactions in it are complete, except for those of a transaction larger than
    ``LARGE``: its first slices come before its end is known, and a caller that commits them must have seen ``complete``
    pass their ``stop``, or discard them.
    """

    def __init__(
        self,
        file: str,
        offset: int,
        format: FormatDescription | None,  # noqa: A002 - the name of what callers keep: slicer.format
        *,
        target: int = 1 << 20,
        redact: Rule | None = None,
    ) -> None:
        """offset: 0, magic bytes included, or with ``format`` a boundary of transactions.

        target: bytes of a usual slice. redact: what no slice is to have of the log; it is blanked before any is made.
        """
        self.file = file
        self.target = target
        self.complete = offset
        """Offset after the last complete transaction or control event, as of what was scanned; final after finish()."""
        self._feed = Feed(file, offset, format, minimum=target)
        self._index = _tail(empty_scan(np.empty(0, np.uint8), offset, 0, 0), 0)
        self._open_map_events: list[bytes] = []
        self._news: list[tuple[int, bytes]] = []
        self._maps_noted = 0
        self._statement: tuple[int, str, str] = (-1, "", "")
        self._inside = np.zeros((0, 2), np.int64)
        """File offset of a payload event, ordinal of a table map inside it: rising, for what is not yet handed out."""
        self._statements: dict[int, tuple[str, str]] = {}
        """Database and text of the first statement inside a payload, by its file offset."""
        self._waiting: list[pa.RecordBatch] = []
        self._redactor = Redactor(file, redact, self._feed.maps) if redact else None
        self._has_blanked = False
        """True if there may be blanked events.

        Most logs have none, and are not searched for them slice by slice.
        """
        self._packed: dict[int, list[int]] = {}
        """Ordinals of the table maps of blanked events inside a payload, -1 of texts; by its file offset."""

    @property
    def format(self) -> FormatDescription:
        """The file's. Raises Truncated before it has been fed."""
        return self._feed.format

    @property
    def pending(self) -> int:
        """Bytes fed beyond ``complete``."""
        return self._feed.fed_to - self.complete

    def cut(self) -> str | None:
        """Reason why the file ends too early, after finish(); None where all of it is complete."""
        event = self._feed.scanned_to
        return self._feed.cut(self.complete if self.complete < event else None)

    def feed(self, chunk: bytes | memoryview) -> Iterator[pa.RecordBatch]:
        """Take the next bytes, any number of them, and yield slices (SLICE_SCHEMA) when there are enough for one.

        Raises DecodeError and its kinds, naming file:offset, after the slices of what is whole before it. The chunk may
        be reused once the iterator is exhausted.
        """
        for scan in self._feed.add(chunk):
            yield from self._advance(scan, final=scan.error is not None)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the slices that are complete and not yet handed out. What is beyond ``complete`` is not kept."""
        for scan in self._feed.scan():
            yield from self._advance(scan, final=True)

    def _advance(self, scan: Scan, *, final: bool) -> Iterator[pa.RecordBatch]:
        inside = self._open_payloads(scan)
        self._note_maps(scan, inside)
        if self._redactor:
            self._redact(self._redactor, scan)
        self._has_blanked = self._has_blanked or bool(self._packed) or bool((scan.code == IGNORABLE).any())
        self._inside = np.concatenate([self._inside, inside])
        index = _joined_scans(self._index, scan)
        ends = np.flatnonzero(index.mark & (event_cells.MARK_ENDS | event_cells.MARK_CONTROL))
        if len(ends):
            self.complete = index.base + int(index.offset[ends[-1]] + index.length[ends[-1]])
        yield from self._release(self._cut_slices(index, final=final))

    def _open_payloads(self, scan: Scan) -> NDArray[np.int64]:
        """Read what compressed transactions hold: int64[n, 2], payload's file offset and table map, in log order."""
        # Table maps and statements inside of payloads count at the place of the payload.
        pairs = [np.zeros((0, 2), np.int64)]
        packing = _Packing(self._redactor, scan, self.format.footer) if self._redactor else None
        for opened in Payloads(self.file, self.format, self._feed.maps).open(scan):
            inner = opened.inner
            if packing:
                packing.add(opened)
            self._note_blanked(scan, opened)
            offsets = scan.base + scan.offset[opened.outer]
            maps = inner.code == _MAP_CODE
            pairs.append(np.column_stack([offsets[maps], inner.table[maps]]))
            # From the last to the first, so that the first statement of a payload is the one that stays.
            for event in np.flatnonzero(inner.mark & event_cells.MARK_STATEMENT)[::-1].tolist():
                offset = int(offsets[event])
                self._statements[offset] = read_query(inner.bytes_of(event), 0, f"{self.file}:{offset}")
                if self._redactor:
                    self._redactor.refuse(offset, self._statements[offset])
        if packing:
            packing.finish()
        return np.concatenate(pairs)

    def _note_blanked(self, scan: Scan, opened: PayloadContents) -> None:
        """Remember which events inside payloads are blanked, until their slice is handed out."""
        inner = opened.inner
        for event in np.flatnonzero(inner.code == IGNORABLE).tolist():
            table = int(inner.table[event])
            if table >= 0 or original(inner.bytes_of(event), 0) is not None:
                offset = scan.base + int(scan.offset[opened.outer[event]])
                self._packed.setdefault(offset, []).append(table)

    def _redact(self, redactor: Redactor, scan: Scan) -> None:
        """Blanks what a scan has outside of payloads. Raises Unsupported for statements that cannot be judged."""
        redactor.refuse_texts(scan)
        for event in np.flatnonzero(scan.mark & event_cells.MARK_STATEMENT).tolist():
            offset = scan.base + int(scan.offset[event])
            if offset not in self._statements:
                redactor.refuse(offset, read_query(scan.bytes_of(event), self.format.footer, f"{self.file}:{offset}"))
        redactor.blank(scan, self.format.footer)

    def _note_maps(self, scan: Scan, inside: NDArray[np.int64]) -> None:
        """Remember the TABLE_MAP events whose bodies were new in this scan, until their slice is handed out."""
        for ordinal in range(self._maps_noted, len(self._feed.maps)):
            offsets = np.concatenate(
                [scan.base + scan.offset[scan.table == ordinal][:1], inside[inside[:, 1] == ordinal, 0][:1]]
            )
            self._news.append((int(offsets.min()), self._feed.maps.events[ordinal]))
        self._news.sort(key=lambda news: news[0])
        self._maps_noted = len(self._feed.maps)

    def _cut_slices(self, index: Scan, *, final: bool) -> pa.RecordBatch:
        slices = np.empty((2 * len(index) + 2, 3), np.int64)
        count, rest = slice_cut.cut(
            *(index.offset, index.length, index.transaction, index.mark, index.transactions, index.base),
            *(self.target, self._feed.undecided, final, slices),
        )
        rows = [self._describe(index, *(int(cell) for cell in slices[k])) for k in range(count)]
        batch = _batch(self.file, rows, index)
        self._open_map_events = self._open_maps(index, rest)
        self._index = _tail(index, rest)
        self._feed.keep(self._index.base - index.base)
        self._inside = self._inside[np.searchsorted(self._inside[:, 0], self._index.base) :]
        return batch

    def _describe(self, index: Scan, first: int, after: int, kind: int) -> "_Slice":
        """The row of the slice of events [first, after)."""
        # The slice is that of its first event's transaction, and ends with its last one's.
        offset, last = _slice_start(index, first), after - 1
        mark = index.mark[first:after]
        owner, final = int(index.transaction[first]), int(index.transaction[last])
        start = int(index.transactions[owner, event_cells.TX_START]) if owner >= 0 else index.base + offset
        second, _, server_id = struct.unpack("<IBI", index.head_of(last, 9))
        text = self._statement_text(index, first, after, start) if kind == event_cells.SLICE_STATEMENT else (None, None)
        return _Slice(
            first=offset,
            after=int(index.offset[last] + index.length[last]),
            transaction_start=start,
            server_id=server_id,
            gtid=index.gtid(final) if final >= 0 else None,
            committed_at=int(index.transactions[final, event_cells.TX_COMMITTED]) if final >= 0 else second * 1_000_000,
            kind=_KINDS[kind],
            tables=self._slice_tables(index, first, after),
            database=text[0],
            statement=text[1],
            events=after - first,
            transactions=int(np.count_nonzero(mark & event_cells.MARK_ENDS)),
            ignored=int(np.count_nonzero(mark & event_cells.MARK_IGNORED)),
            maps=self._new_maps(index.base + int(index.offset[last])),
            context=self._context(index, first) if index.base + offset else None,
            redacted=self._redacted(index, first, after),
        )

    def _redacted(self, index: Scan, first: int, after: int) -> dict[str, object] | None:
        """Redactions in events [first, after), as REDACTED has them."""
        if not self._has_blanked:
            return None
        # Blanked events of their own, then those inside of payloads.
        blanked, size = [], 0
        for event in (first + np.flatnonzero(index.code[first:after] == IGNORABLE)).tolist():
            table = int(index.table[event])
            if table >= 0 or original(index.bytes_of(event), self.format.footer) is not None:
                blanked.append(table)
                size += int(index.length[event])
        for event in (first + np.flatnonzero(index.mark[first:after] & event_cells.MARK_ANY_TABLE)).tolist():
            inside = self._packed.pop(index.base + int(index.offset[event]), None)
            if inside:
                blanked += inside
                size += int(index.length[event])
        # Names of tables: a blanked statement has none.
        names = sorted({self._feed.maps.names[table] for table in blanked if table >= 0})
        tables = [{"schema": schema, "table": table} for schema, table in names]
        return {"events": len(blanked), "bytes": size, "tables": tables} if blanked else None

    def _slice_tables(self, index: Scan, first: int, after: int) -> list[dict[str, str]]:
        begin, end = index.base + index.offset[first], index.base + index.offset[after - 1]
        inside = self._inside[slice(*np.searchsorted(self._inside[:, 0], [begin, end + 1])), 1]
        ordinals = np.flatnonzero(np.bincount(np.concatenate([index.table[first:after], inside]) + 1)[1:])
        names = sorted({self._feed.maps.names[ordinal] for ordinal in ordinals})
        return [{"schema": schema, "table": table} for schema, table in names]

    def _statement_text(self, index: Scan, first: int, after: int, start: int) -> tuple[str, str]:
        """Database and text of the first statement; a later part of one transaction carries those of its first.

        MariaDB begins an XA transaction by a flag of its GTID; one that holds no QUERY, or another one, says
        ``XA START``: by their text such slices are told from statements that stand alone.
        """
        statements = np.flatnonzero(index.mark[first:after] & event_cells.MARK_STATEMENT)
        if len(statements):
            event = first + int(statements[0])
            offset = index.base + int(index.offset[event])
            inside = self._statements.pop(offset, None)
            text = inside or read_query(index.bytes_of(event), self.format.footer, f"{self.file}:{offset}")
            is_xa = index.transactions[index.transaction[event], event_cells.TX_FLAGS] & event_cells.TX_XA
            if is_xa and not text[1].upper().startswith("XA"):
                text = text[0], "XA START"
            self._statement = (start, *text)
        return self._statement[1:] if self._statement[0] == start else ("", "XA START")

    def _new_maps(self, through: int) -> list[bytes]:
        """TABLE_MAP events first seen up to the event at file offset ``through``, and not yet given out."""
        count = sum(offset <= through for offset, _ in self._news)
        maps, self._news = self._news[:count], self._news[count:]
        return [event for _, event in maps]

    def _context(self, index: Scan, first: int) -> bytes:
        return b"".join([self.format.event, *self._open_maps(index, first)])

    def _open_maps(self, index: Scan, first: int) -> list[bytes]:
        """TABLE_MAP events open before event ``first``: those since the last end of a statement."""
        closing = (
            event_cells.MARK_STATEMENT_ENDS | event_cells.MARK_ENDS | event_cells.MARK_CONTROL | event_cells.MARK_BEGINS
        )
        closed = np.flatnonzero(index.mark[:first] & closing)
        since = int(closed[-1]) if len(closed) else 0
        maps = [index.bytes_of(since + int(k)) for k in np.flatnonzero(index.code[since:first] == _MAP_CODE)]
        return maps if len(closed) else self._open_map_events + maps

    def _release(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Hand out what is complete; hold back an open transaction's slices until there are LARGE bytes of them."""
        stops = batch.column("stop").to_numpy()
        ready = int(np.searchsorted(stops, self.complete, side="right"))
        if self._waiting and self._waiting[-1].column("stop")[-1].as_py() <= self.complete:
            yield from self._waiting
            self._waiting = []
        if ready:
            yield batch.slice(0, ready)
        if ready < len(stops):
            self._waiting.append(batch.slice(ready))
        if (
            self._waiting
            and self._waiting[-1].column("stop")[-1].as_py() - self._waiting[0].column("start")[0].as_py() > LARGE
        ):
            yield from self._waiting
            self._waiting = []


class _Packing:
    """The payloads of a scan, as they are opened, packed again where events in them are blanked."""

    def __init__(self, redactor: Redactor, scan: Scan, footer: int) -> None:
        self._redactor, self._scan, self._footer = redactor, scan, footer
        self._event = -1
        """Ordinal of the large payload that comes in pieces."""
        self._frame, self._changed = PiecewiseFrame(), False

    def add(self, opened: PayloadContents) -> None:
        """Blanks events in what was opened."""
        inner, outer = opened.inner, opened.outer
        # The buffer belongs to the decompressor.
        inner.buffer = inner.buffer.copy()
        blanked = self._redactor.blank(inner, 0)
        # A whole payload is packed again at once, a piecewise one when its last piece is here.
        if opened.is_whole:
            for event in np.unique(outer[blanked]).tolist():
                first, last = np.flatnonzero(outer == event)[[0, -1]].tolist()
                begin, end = int(inner.offset[first]), int(inner.offset[last] + inner.length[last])
                content = inner.buffer[begin:end].tobytes()
                self._redactor.pack(self._scan, event, len(content), frames_of(content), self._footer)
            return
        if opened.begins:
            self.finish()
            self._frame, self._changed = PiecewiseFrame(), False
        self._event = int(outer[0]) if len(outer) else self._event
        self._changed |= len(blanked) > 0
        self._frame.add(inner.buffer[: inner.end].tobytes())

    def finish(self) -> None:
        """Pack the large payload whose last piece was added; nothing where there is none."""
        if self._changed:
            self._redactor.pack(self._scan, self._event, self._frame.size, self._frame.frames(), self._footer)
        self._changed = False


@dataclass(slots=True)
class _Slice:
    """A row of SLICE_SCHEMA, its payload as two offsets in the buffer."""

    first: int
    after: int
    transaction_start: int
    server_id: int
    gtid: str | None
    committed_at: int
    kind: str
    tables: list[dict[str, str]]
    database: str | None
    statement: str | None
    events: int
    transactions: int
    ignored: int
    maps: list[bytes]
    context: bytes | None
    redacted: dict[str, object] | None


def _slice_start(index: Scan, event: int) -> int:
    """Offset where the slice of this first event begins in the buffer: the magic bytes belong to the first one."""
    offset = int(index.offset[event])
    return 0 if index.base + offset == 4 else offset


def _batch(file: str, rows: list[_Slice], index: Scan) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {
        "file": pa.array([file] * len(rows), pa.string()),
        "start": pa.array([index.base + row.first for row in rows], pa.int64()),
        "stop": pa.array([index.base + row.after for row in rows], pa.int64()),
        "payload": _payload(rows, index.buffer),
    }
    if not any(row.redacted for row in rows):
        columns["redacted"] = pa.nulls(len(rows), REDACTED)
    arrays = [
        columns[field.name]
        if field.name in columns
        else pa.array([getattr(row, field.name) for row in rows], field.type)
        for field in SLICE_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SLICE_SCHEMA)


def _payload(rows: list[_Slice], buffer: NDArray[np.uint8]) -> pa.Array:
    """The slices' bytes over the buffer itself: they follow each other, so one offset more than slices tells all."""
    offsets = np.array([*(row.first for row in rows), rows[-1].after if rows else 0], np.int32)
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])


def _joined_scans(before: Scan, scan: Scan) -> Scan:
    """One index over ``scan``'s buffer, which begins with ``before``'s bytes.

    An open transaction stands last in ``before`` and first in ``scan``; the later row knows more of it.
    """
    shared = int(len(before.transactions) > 0 and not before.transactions[-1, event_cells.TX_STOP])
    shift = len(before.transactions) - shared
    owners = np.where(scan.transaction < 0, scan.transaction, scan.transaction + shift).astype(np.int32)
    return Scan(
        buffer=scan.buffer,
        base=scan.base,
        offset=np.concatenate([before.offset, scan.offset]),
        length=np.concatenate([before.length, scan.length]),
        code=np.concatenate([before.code, scan.code]),
        table=np.concatenate([before.table, scan.table]),
        transaction=np.concatenate([before.transaction, owners]),
        mark=np.concatenate([before.mark, scan.mark]),
        transactions=np.concatenate([before.transactions[:shift], scan.transactions]),
        end=scan.end,
    )


def _tail(index: Scan, first: int) -> Scan:
    """Scan of the events from ``first`` on, over a buffer of its own bytes."""
    # Offsets and ordinals count from the tail's own beginning.
    begin = _slice_start(index, first) if first < len(index) else index.end
    owners = index.transaction[first:]
    transactions = owners[owners >= 0]
    lowest = int(transactions[0]) if len(transactions) else len(index.transactions)
    return Scan(
        buffer=index.buffer[begin:],
        base=index.base + begin,
        offset=index.offset[first:] - begin,
        length=index.length[first:],
        code=index.code[first:],
        table=index.table[first:],
        transaction=np.where(owners < 0, owners, owners - lowest).astype(np.int32),
        mark=index.mark[first:],
        transactions=index.transactions[lowest:],
        end=index.end - begin,
    )
