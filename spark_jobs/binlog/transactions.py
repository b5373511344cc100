"""Bytes to slices: runs of whole transactions, as bronze keeps them. No row is decoded.

Slices follow each other without a gap, so that their payloads, one after the other, are the file again; only the
FORMAT_DESCRIPTION's in-use flag is stored cleared. Each is of one kind:

- ``control``: the file head (magic, FORMAT_DESCRIPTION, PREVIOUS_GTIDS or GTID_LIST), ROTATE, STOP;
- ``rows``: whole transactions, or a part of one larger than the target;
- ``statement``: what has to be read as text: a DDL statement with its GTID, a statement inside a transaction by itself,
  and a transaction that XA or ROLLBACK ends, rows and all.

Put here: where slices begin and end, and the columns that describe them. Not here: the walk over events (framing.py) or
what a statement means.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog import kernels
from spark_jobs.binlog.feed import Feed
from spark_jobs.binlog.format_description import FormatDescription
from spark_jobs.binlog.framing import Scan, empty_scan
from spark_jobs.binlog.payload import Payloads
from spark_jobs.binlog.query import read_query

LARGE = 64 << 20
"""Bytes of one transaction that are held back until its end is seen; beyond, its slices are handed out before."""

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
        pa.field("tables", pa.list_(pa.struct([("schema", pa.string()), ("table", pa.string())]))),
        pa.field("database", pa.string()),
        pa.field("statement", pa.string()),
        pa.field("events", pa.int32(), nullable=False),
        pa.field("transactions", pa.int32(), nullable=False),
        pa.field("ignored", pa.int32(), nullable=False),
        pa.field("maps", pa.list_(pa.binary()), nullable=False),
        pa.field("context", pa.binary()),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
"""One row a slice. Offsets are the file's; ``committed_at`` is the last transaction's immediate commit timestamp, else
its first event's second; ``tables`` names those inside compressed transactions too; ``context`` is null at file offset
0 only."""

_KINDS = {kernels.SLICE_CONTROL: "control", kernels.SLICE_ROWS: "rows", kernels.SLICE_STATEMENT: "statement"}
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
    ) -> None:
        """offset: 0, magic bytes included, or with ``format`` a boundary of transactions.

        target: bytes of a usual slice.
        """
        self.file = file
        self.target = target
        self.complete = offset
        """Offset after the last complete transaction or control event, as of what was scanned; final after finish()."""
        self._feed = Feed(file, offset, format, least=target)
        self._index = _tail(empty_scan(np.empty(0, np.uint8), offset, 0, 0), 0)
        self._carried: list[bytes] = []
        self._news: list[tuple[int, bytes]] = []
        self._maps_noted = 0
        self._statement: tuple[int, str, str] = (-1, "", "")
        self._inside = np.zeros((0, 2), np.int64)
        """File offset of a payload event, ordinal of a table map inside it: rising, for what is not yet handed out."""
        self._stated: dict[int, tuple[str, str]] = {}
        """Database and text of the first statement inside a payload, by its file offset."""
        self._held: list[pa.RecordBatch] = []

    @property
    def format(self) -> FormatDescription:
        """The file's. Raises Truncated before it has been fed."""
        return self._feed.format

    @property
    def pending(self) -> int:
        """Bytes fed beyond ``complete``."""
        return self._feed.fed - self.complete

    def feed(self, chunk: bytes | memoryview) -> Iterator[pa.RecordBatch]:
        """Takes the next bytes, any number of them, and yields slices (SLICE_SCHEMA) when there are enough for one.

        Raises DecodeError and its kinds, naming file:offset, after the slices of what is whole before it. The chunk may
        be reused once the iterator is exhausted.
        """
        for found in self._feed.add(chunk):
            yield from self._advance(found, final=found.error is not None)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yields the slices that are complete and not yet handed out. What is beyond ``complete`` is not kept."""
        for found in self._feed.scan():
            yield from self._advance(found, final=True)

    def _advance(self, found: Scan, *, final: bool) -> Iterator[pa.RecordBatch]:
        inside = self._open_payloads(found)
        self._note_maps(found, inside)
        self._inside = np.concatenate([self._inside, inside])
        index = _joined(self._index, found)
        ends = np.flatnonzero(index.mark & (kernels.MARK_ENDS | kernels.MARK_CONTROL))
        if len(ends):
            self.complete = index.base + int(index.offset[ends[-1]] + index.length[ends[-1]])
        yield from self._release(self._cut(index, final=final))

    def _open_payloads(self, found: Scan) -> NDArray[np.int64]:
        """Reads what compressed transactions hold: int64[n, 2], payload's file offset and table map, in log order."""
        pairs = [np.zeros((0, 2), np.int64)]
        for opened in Payloads(self.file, self.format, self._feed.maps).open(found):
            inner = opened.inner
            places = found.base + found.offset[opened.outer]
            maps = inner.code == _MAP_CODE
            pairs.append(np.column_stack([places[maps], inner.table[maps]]))
            for event in np.flatnonzero(inner.mark & kernels.MARK_STATEMENT)[::-1].tolist():
                place = int(places[event])
                self._stated[place] = read_query(inner.bytes_of(event), 0, f"{self.file}:{place}")
        return np.concatenate(pairs)

    def _note_maps(self, found: Scan, inside: NDArray[np.int64]) -> None:
        """Remembers the TABLE_MAP events whose bodies were new in this scan, until their slice is handed out."""
        for ordinal in range(self._maps_noted, len(self._feed.maps)):
            places = np.concatenate(
                [found.base + found.offset[found.table == ordinal][:1], inside[inside[:, 1] == ordinal, 0][:1]]
            )
            self._news.append((int(places.min()), self._feed.maps.events[ordinal]))
        self._news.sort(key=lambda news: news[0])
        self._maps_noted = len(self._feed.maps)

    def _cut(self, index: Scan, *, final: bool) -> pa.RecordBatch:
        slices = np.empty((2 * len(index) + 2, 3), np.int64)
        count, left = kernels.cut(
            *(index.offset, index.length, index.transaction, index.mark, index.transactions, index.base),
            *(self.target, self._feed.undecided, final, slices),
        )
        rows = [self._describe(index, *(int(cell) for cell in slices[k])) for k in range(count)]
        batch = _batch(self.file, rows, index)
        self._carried = self._open_maps(index, left)
        self._index = _tail(index, left)
        self._feed.keep(self._index.base - index.base)
        self._inside = self._inside[np.searchsorted(self._inside[:, 0], self._index.base) :]
        return batch

    def _describe(self, index: Scan, first: int, after: int, kind: int) -> "_Slice":
        """The row of the slice of events [first, after)."""
        offset, last = _start(index, first), after - 1
        mark = index.mark[first:after]
        owner, final = int(index.transaction[first]), int(index.transaction[last])
        begun = int(index.transactions[owner, kernels.TX_START]) if owner >= 0 else index.base + offset
        second, _, server_id = struct.unpack("<IBI", index.head_of(last, 9))
        text = self._text(index, first, after, begun) if kind == kernels.SLICE_STATEMENT else (None, None)
        return _Slice(
            first=offset,
            after=int(index.offset[last] + index.length[last]),
            transaction_start=begun,
            server_id=server_id,
            gtid=index.gtid(final) if final >= 0 else None,
            committed_at=int(index.transactions[final, kernels.TX_COMMITTED]) if final >= 0 else second * 1_000_000,
            kind=_KINDS[kind],
            tables=self._tables(index, first, after),
            database=text[0],
            statement=text[1],
            events=after - first,
            transactions=int(np.count_nonzero(mark & kernels.MARK_ENDS)),
            ignored=int(np.count_nonzero(mark & kernels.MARK_IGNORED)),
            maps=self._new_maps(index.base + int(index.offset[last])),
            context=self._context(index, first) if index.base + offset else None,
        )

    def _tables(self, index: Scan, first: int, after: int) -> list[dict[str, str]]:
        begin, end = index.base + index.offset[first], index.base + index.offset[after - 1]
        inside = self._inside[slice(*np.searchsorted(self._inside[:, 0], [begin, end + 1])), 1]
        seen = np.flatnonzero(np.bincount(np.concatenate([index.table[first:after], inside]) + 1)[1:])
        names = sorted({self._feed.maps.names[ordinal] for ordinal in seen})
        return [{"schema": schema, "table": table} for schema, table in names]

    def _text(self, index: Scan, first: int, after: int, begun: int) -> tuple[str, str]:
        """Database and text of the first statement; a later part of one transaction carries those of its first.

        MariaDB begins an XA transaction by a flag of its GTID; one that holds no QUERY, or another one, says
        ``XA START``: by their text such slices are told from statements that stand alone.
        """
        found = np.flatnonzero(index.mark[first:after] & kernels.MARK_STATEMENT)
        if len(found):
            event = first + int(found[0])
            place = index.base + int(index.offset[event])
            inside = self._stated.pop(place, None)
            text = inside or read_query(index.bytes_of(event), self.format.footer, f"{self.file}:{place}")
            is_xa = index.transactions[index.transaction[event], kernels.TX_FLAGS] & kernels.TX_XA
            if is_xa and not text[1].upper().startswith("XA"):
                text = text[0], "XA START"
            self._statement = (begun, *text)
        return self._statement[1:] if self._statement[0] == begun else ("", "XA START")

    def _new_maps(self, through: int) -> list[bytes]:
        """TABLE_MAP events first seen up to the event at file offset ``through``, and not yet given out."""
        count = sum(offset <= through for offset, _ in self._news)
        given, self._news = self._news[:count], self._news[count:]
        return [event for _, event in given]

    def _context(self, index: Scan, first: int) -> bytes:
        return b"".join([self.format.event, *self._open_maps(index, first)])

    def _open_maps(self, index: Scan, first: int) -> list[bytes]:
        """TABLE_MAP events open before event ``first``: those since the last end of a statement."""
        closing = kernels.MARK_STATEMENT_ENDS | kernels.MARK_ENDS | kernels.MARK_CONTROL | kernels.MARK_BEGINS
        closed = np.flatnonzero(index.mark[:first] & closing)
        since = int(closed[-1]) if len(closed) else 0
        maps = [index.bytes_of(since + int(k)) for k in np.flatnonzero(index.code[since:first] == _MAP_CODE)]
        return maps if len(closed) else self._carried + maps

    def _release(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Hands out what is complete; holds back an open transaction's slices until there are LARGE bytes of them."""
        stops = batch.column("stop").to_numpy()
        ready = int(np.searchsorted(stops, self.complete, side="right"))
        if self._held and self._held[-1].column("stop")[-1].as_py() <= self.complete:
            yield from self._held
            self._held = []
        if ready:
            yield batch.slice(0, ready)
        if ready < len(stops):
            self._held.append(batch.slice(ready))
        if self._held and self._held[-1].column("stop")[-1].as_py() - self._held[0].column("start")[0].as_py() > LARGE:
            yield from self._held
            self._held = []


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


def _start(index: Scan, event: int) -> int:
    """Where the slice of this first event begins in the buffer: the magic bytes belong to the first one."""
    offset = int(index.offset[event])
    return 0 if index.base + offset == 4 else offset


def _batch(file: str, rows: list[_Slice], index: Scan) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {
        "file": pa.array([file] * len(rows), pa.string()),
        "start": pa.array([index.base + row.first for row in rows], pa.int64()),
        "stop": pa.array([index.base + row.after for row in rows], pa.int64()),
        "payload": _payload(rows, index.buffer),
    }
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


def _joined(before: Scan, found: Scan) -> Scan:
    """One index over ``found``'s buffer, which begins with ``before``'s bytes.

    An open transaction stands last in ``before`` and first in ``found``; the later row knows more of it.
    """
    shared = int(len(before.transactions) > 0 and not before.transactions[-1, kernels.TX_STOP])
    shift = len(before.transactions) - shared
    owners = np.where(found.transaction < 0, found.transaction, found.transaction + shift).astype(np.int32)
    return Scan(
        buffer=found.buffer,
        base=found.base,
        offset=np.concatenate([before.offset, found.offset]),
        length=np.concatenate([before.length, found.length]),
        code=np.concatenate([before.code, found.code]),
        table=np.concatenate([before.table, found.table]),
        transaction=np.concatenate([before.transaction, owners]),
        mark=np.concatenate([before.mark, found.mark]),
        transactions=np.concatenate([before.transactions[:shift], found.transactions]),
        end=found.end,
    )


def _tail(index: Scan, first: int) -> Scan:
    """What is left from event ``first`` on, over a buffer of its own bytes."""
    begin = _start(index, first) if first < len(index) else index.end
    owners = index.transaction[first:]
    used = owners[owners >= 0]
    lowest = int(used[0]) if len(used) else len(index.transactions)
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
