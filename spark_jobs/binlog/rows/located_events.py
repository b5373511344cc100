"""Row events with their offsets in the log, out of slices and of transaction payloads.

Put here: which events hold rows and whose they are. Not here: their rows (decoder.py), layouts (row_events.py).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.compression import PADDING
from spark_jobs.binlog.events.scanner import HEADER, Scan
from spark_jobs.binlog.events.transaction_payload import PayloadContents
from spark_jobs.binlog.kernels import event_cells, packed_events
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.rows.row_events import RowEvents
from spark_jobs.binlog.types.base import Numbers

WRITE_ROWS = 30


class LocatedEvents(Protocol):
    """Row events of which it is known how long each is, without a checksum, whose its rows are, and where it stands."""

    @property
    def file(self) -> str: ...
    @property
    def lengths(self) -> Numbers: ...
    @property
    def groups(self) -> Numbers: ...
    def location(self, event: int) -> str:
        """Location of an event in messages."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """Origin of rows, while that is still in memory; of a block that is lasting only the last of them."""

    events: RowEvents
    scan: Scan
    gtid: str | None


def outer_events(file: str, scan: Scan, events: Numbers, footer: int, groups: Numbers | None = None) -> RowEvents:
    """Row events that stand in the scanned bytes themselves; events: their indices, in log order."""
    count = len(events)
    gathered, codes, transactions = np.empty((5, count), np.int64), np.empty(count, np.uint8), np.empty(count, np.int32)
    scanned = scan.offset, scan.length, scan.code, scan.transaction, scan.transactions, scan.base, footer
    readable = len(scan.buffer) - PADDING
    late = packed_events.gather_rows(events, *scanned, scan.address, readable, gathered, codes, transactions)
    addresses, lengths, offsets, commits, zeros = gathered
    buffers: list[object] = [scan.buffer]
    if late < count:
        first = int(offsets[late]) - scan.base
        tail = np.concatenate([scan.buffer[first:], np.zeros(PADDING, np.uint8)])
        addresses[late:] += address_of(tail) - scan.address - first
        buffers.append(tail)
    groups = zeros if groups is None else groups
    return RowEvents(file, addresses, lengths, codes, offsets, commits, transactions, zeros, groups, buffers)


def written_head(columns: int) -> bytes:
    """Head of a WRITE_ROWS event of full images; images follow, and PADDING bytes that may be touched.

    Behind its header: table id 6 bytes, flags 2, the length of extra data 2, the number of columns, a bit for each.
    """
    packed = columns.to_bytes(1, "little") if columns < 251 else b"\xfc" + columns.to_bytes(2, "little")
    bits = ((1 << columns) - 1).to_bytes((columns + 7) // 8, "little")
    head = bytes(4) + bytes([WRITE_ROWS]) + bytes(HEADER - 5)
    return b"".join([head, bytes(8), b"\2\0", packed, bits])


def written_rows(location: str, event: NDArray[np.uint8], length: int) -> RowEvents:
    """An event of ``written_head`` and images, as row events; ``length`` without what is behind it."""
    event[9:13] = np.frombuffer(length.to_bytes(4, "little"), np.uint8)
    zero = np.zeros(1, np.int64)
    codes = np.array([WRITE_ROWS], np.uint8)
    address = np.array([address_of(event)], np.int64)
    return RowEvents(location, address, zero + length, codes, zero, zero, zero.astype(np.int32), zero, zero, [event])


def _owners(scan: Scan, events: Numbers) -> tuple[Numbers, Numbers]:
    """Commit time, and row in the scan's array, of the events' transactions."""
    transactions = scan.transaction[events]
    return scan.transactions[transactions, event_cells.TX_COMMITTED], transactions


def inner_events(file: str, scan: Scan, opened: PayloadContents, events: Numbers) -> RowEvents:
    """Row events inside payloads; their offset, time and GTID are those of the payload event."""
    inner, outer = opened.inner, opened.outer[events]
    commits, transactions = _owners(scan, outer)
    return RowEvents(
        file,
        inner.address + inner.offset[events],
        inner.length[events],
        inner.code[events],
        scan.base + scan.offset[outer],
        commits,
        transactions,
        np.zeros(len(events), np.int64),
        np.zeros(len(events), np.int64),
        [inner.buffer],
    )


def leads(counts: Numbers, outer: Numbers, own_rows: Numbers) -> tuple[Numbers, int]:
    """Other tables' rows between each own event and the own one before it in its payload; and those after the last.

    counts, outer: of all row events, 0 for own ones; own_rows: offsets of these.
    """
    total = np.cumsum(counts)
    if not len(own_rows):
        return np.zeros(0, np.int64), int(total[-1])
    first = np.searchsorted(outer, outer[own_rows])
    follows = np.concatenate([[False], outer[own_rows][1:] == outer[own_rows][:-1]])
    since = np.where(follows, np.roll(total[own_rows], 1), total[first] - counts[first])
    return total[own_rows] - since, int(total[-1] - total[own_rows[-1]])


def locate(file: str, scan: Scan, event: int) -> str:
    return f"{file}:{scan.base + scan.offset[event]}"
