"""Bounds of the transactions of a slice, and facts in the headers of its events.

Source: MySQL libs/mysql/binlog/event/statement_events.h (thread of a QUERY), control_events.h (Xid_event).

Put here: what writers of other tools' formats need of a log beside rows. Not here: rows (binlog/rows), statements' text
(binlog/events/query_event.py).
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.binlog.events.scanner import HEADER, Bytes, Scan, TableMaps, open_slice, view
from spark_jobs.binlog.events.slice_bytes import Scans, SliceBytes
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.kernels import event_cells

_QUERY, _XID = 2, 16
_STAMP = struct.Struct("<IBI")
"""Fields of an event's header: seconds since 1970, type, server id."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A transaction's begin or end, or a statement of its own, and the offset of its event.

    gtid: of the transaction; None where it has none. xid: of an end, as its XID event has it; None where a COMMIT
    statement ends the transaction.
    """

    kind: Literal["begin", "end", "statement"]
    offset: int
    gtid: str | None
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class SliceMarks:
    """The marks of one slice, by offset."""

    payload: Bytes
    start: int
    marks: tuple[Mark, ...]
    starts: tuple[int, ...]
    """Offsets where transactions begin whose threads are ``threads``."""
    threads: tuple[int | None, ...]

    def stamp(self, offset: int) -> tuple[int, int]:
        """Seconds since 1970 UTC and server id, as the header of the event at a file offset has them."""
        seconds, _, server_id = _STAMP.unpack(view(self.payload)[offset - self.start :][: _STAMP.size].tobytes())
        return seconds, server_id

    def thread(self, offset: int) -> int | None:
        """The connection that wrote the transaction at a file offset; None where the log does not say."""
        at = bisect_right(self.starts, offset) - 1
        return self.threads[at] if at >= 0 else None


def transaction_starts(file: str, log_slice: SliceBytes, scans: Scans) -> NDArray[np.int64]:
    """The offsets in the file where the transactions of a slice begin, without one that began before it.

    Raises DecodeError.
    """
    _, scan = scans.of(file, log_slice)
    begins: NDArray[np.int64] = scan.base + scan.offset[(scan.mark & event_cells.MARK_BEGINS) != 0]
    return begins


@dataclass(slots=True)
class Marks:
    """Reads the slices of one file in order: a transaction may begin in an earlier one."""

    _maps: TableMaps = field(default_factory=TableMaps)
    _thread: int | None = None
    """Thread of the transaction that is open after the last slice."""

    def of_slice(self, batch: pa.RecordBatch, at: int, payload: Bytes) -> SliceMarks:
        """The marks of a row of SLICE_SCHEMA. Raises DecodeError."""
        names = ("file", "start", "context", "transaction_start")
        file, start, context, transaction_start = (batch.column(name)[at].as_py() for name in names)
        scanner, scan = open_slice(file, start, context, payload, self._maps, transaction_start=transaction_start)
        threads: dict[int, int] = {}
        xids: dict[int, int] = {}
        self._note(scan, scan.transaction, threads, xids)
        for opened in Payloads(file, scanner.format, self._maps).open(scan):
            self._note(opened.inner, scan.transaction[opened.outer], threads, xids)
        begins = (scan.mark & event_cells.MARK_BEGINS) != 0
        starts = (scan.base + scan.offset[begins]).tolist()
        owners = scan.transaction[begins].tolist()
        connections = [threads.get(owner) for owner in owners]
        if transaction_start < start:
            starts, connections = [transaction_start, *starts], [self._thread, *connections]
        self._thread = connections[-1] if connections else None
        gtid = batch.column("gtid")[at].as_py()  # of a transaction that began before the slice
        return SliceMarks(payload, start, tuple(_slice_marks(scan, gtid, xids)), tuple(starts), tuple(connections))

    def _note(self, scan: Scan, owners: np.ndarray, threads: dict[int, int], xids: dict[int, int]) -> None:
        """Add the threads and XIDs of transactions, by their row in the outer scan."""
        for event in np.flatnonzero((scan.code == _QUERY) | (scan.code == _XID)).tolist():
            owner = int(owners[event])
            body = scan.head_of(event, HEADER + 8)[HEADER:]
            if scan.code[event] == _XID:
                xids[owner] = int.from_bytes(body[:8], "little")
            else:
                threads.setdefault(owner, int.from_bytes(body[:4], "little"))


def _slice_marks(scan: Scan, gtid: str | None, xids: dict[int, int]) -> Iterator[Mark]:
    """The marks of a scan, in order; a statement of its own is that alone."""
    edges = event_cells.MARK_BEGINS | event_cells.MARK_ENDS | event_cells.MARK_STATEMENT
    statements = {*scan.transaction[(scan.mark & event_cells.MARK_STATEMENT) != 0].tolist()}
    for event in np.flatnonzero(scan.mark & edges).tolist():
        owner, mark = int(scan.transaction[event]), int(scan.mark[event])
        is_given = scan.transactions[owner, event_cells.TX_GTID] == event_cells.GTID_GIVEN
        position = (scan.base + int(scan.offset[event]), gtid if is_given else scan.gtid(owner))
        if owner in statements:
            if mark & event_cells.MARK_STATEMENT:
                yield Mark("statement", *position)
            continue
        if mark & event_cells.MARK_BEGINS:
            yield Mark("begin", *position)
        if mark & event_cells.MARK_ENDS:
            yield Mark("end", *position, xids.get(owner))
