"""Events inside TRANSACTION_PAYLOAD events: compressed transactions, decompressed.

Source: MySQL libs/mysql/binlog/event/control_events.h (Transaction_payload_event), codecs/binary.cpp, compression/.

A payload holds a transaction from its BEGIN to its end, its events without checksums. So the contents of many payloads,
one after the other, are scanned as one file without checksums is; each has to be one whole transaction.

Put here: from payload events to a scan of what they hold. Not here: frames (compression.py), rows
(binlog/rows/decoder.py).
"""

import dataclasses
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from spark_jobs.binlog.events.compression import AT_ONCE, PADDING, inflated_frames, inflated_pieces
from spark_jobs.binlog.events.scanner import EventScanner, FormatDescription, Scan, TableMaps
from spark_jobs.binlog.kernels import event_cells, packed_events
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.errors import DecodeError, Unsupported

_NAME = "Transaction_payload event"
_UNDECIDED = event_cells.TX_XA | event_cells.TX_ROLLED_BACK


@dataclass(frozen=True, slots=True)
class PayloadContents:
    """Contents of some payloads of a scan.

    inner: their events; offsets are in a buffer of inflated bytes, with PADDING readable bytes behind. outer: for each
    its payload's event in the outer scan. is_whole: False for a part of one large payload, the first of which
    ``begins``.
    """

    inner: Scan
    outer: NDArray[np.int64]
    is_whole: bool = True
    begins: bool = True


class _PayloadScanner(EventScanner):
    """Scans contents of payloads; names offsets by their payload, and keeps table maps as the file has them."""

    def __init__(self, file: str, description: FormatDescription, maps: TableMaps) -> None:
        super().__init__(file, dataclasses.replace(description, checksum=False), maps)
        self._checksum = description.checksum
        self.offsets: NDArray[np.int64] = np.zeros(0, np.int64)
        """File offset of each payload event that is scanned."""
        self.starts: NDArray[np.int64] = np.zeros(0, np.int64)
        """Offsets where their contents begin, as ``Scan.base`` counts."""

    def _location_of(self, scan: Scan) -> str:
        offset = scan.base + scan.end
        payload = max(int(np.searchsorted(self.starts, offset, "right")) - 1, 0)
        return f"{self.file}:{self.offsets[payload]}: {_NAME}: byte {offset - self.starts[payload]} of its content"

    def _add_map(self, event: bytes, location: str) -> None:
        footer = 4 if self._checksum else 0
        event = event[:9] + (len(event) + footer).to_bytes(4, "little") + event[13:]
        event += zlib.crc32(event).to_bytes(4, "little")[:footer]
        self.maps.add(event, footer, location)


class Payloads:
    """Opens the payload events of one file's scans."""

    def __init__(self, file: str, description: FormatDescription, maps: TableMaps) -> None:
        """maps: where table maps inside are registered, as whole events of the file, with a checksum if it has them."""
        self.file = file
        self._format = description
        self._maps = maps

    def open(self, scan: Scan) -> Iterator[PayloadContents]:
        """Contents of the payload events of a scan, at most AT_ONCE bytes at a time unless one event is longer.

        Completes ``scan``: its transactions learn of XA and ROLLBACK inside, and a payload that holds a statement is
        marked as one. Raises DecodeError and its kinds, naming file:offset of the payload event.
        """
        events = np.flatnonzero(scan.mark & event_cells.MARK_ANY_TABLE)
        if not len(events):
            return
        heads = self._heads(scan, events)
        for first, after in _groups(heads[:, packed_events.PH_CLAIMED]):
            part = heads[first:after]
            if after - first == 1 and _is_large(part[0]):
                yield from self._in_parts(scan, int(events[first]), part[0])
            else:
                yield self._together(scan, events[first:after], part)

    def _heads(self, scan: Scan, events: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n, PH_COLUMNS] of the events, PH_OFFSET counted in the buffer."""
        heads = np.empty((len(events), packed_events.PH_COLUMNS), np.int64)
        offsets = scan.offset[events]
        good = int(
            packed_events.payload_heads(scan.address + offsets, scan.length[events] - self._format.footer, heads)
        )
        if good < len(events):
            raise DecodeError(f"{self._location(scan, events[good])}: its header does not make sense")
        # Zstandard and none are all that servers write; an event without compression does not claim a size.
        kinds = heads[:, packed_events.PH_TYPE]
        strange = np.flatnonzero((kinds != packed_events.PAYLOAD_ZSTD) & (kinds != packed_events.PAYLOAD_NONE))
        if len(strange):
            raise Unsupported(
                f"{self._location(scan, events[strange[0]])}: compression type {kinds[strange[0]]} is not known"
            )
        plain = kinds == packed_events.PAYLOAD_NONE
        heads[plain, packed_events.PH_CLAIMED] = heads[plain, packed_events.PH_SIZE]
        heads[:, packed_events.PH_OFFSET] += offsets
        return heads

    def _location(self, scan: Scan, event: int) -> str:
        return f"{self.file}:{scan.base + int(scan.offset[event])}: {_NAME}"

    def _together(self, scan: Scan, events: NDArray[np.int64], heads: NDArray[np.int64]) -> PayloadContents:
        """Several payloads: inflated side by side into one buffer and scanned in one go."""
        contents = self._contents(scan, events, heads)
        buffer = _padded(b"".join([*contents, bytes(PADDING)]))
        stops = np.cumsum(heads[:, packed_events.PH_CLAIMED])
        scanner = self._scanner(scan, events, np.concatenate([[0], stops[:-1]]))
        inner = scanner.scan_all(buffer[: stops[-1]], 0)
        outer = events[np.searchsorted(scanner.starts, inner.offset, "right") - 1]
        self._check(scan, events, _edges(inner, event_cells.MARK_BEGINS), scanner.starts)
        self._check(scan, events, _edges(inner, event_cells.MARK_ENDS), stops)
        scan.transactions[scan.transaction[events], event_cells.TX_FLAGS] |= inner.transactions[:, event_cells.TX_FLAGS]
        self._mark_statement_payloads(scan, inner, outer, in_parts=False)
        return PayloadContents(inner, outer)

    def _scanner(self, scan: Scan, events: NDArray[np.int64], starts: NDArray[np.int64]) -> _PayloadScanner:
        scanner = _PayloadScanner(self.file, self._format, self._maps)
        scanner.offsets, scanner.starts = scan.base + scan.offset[events], starts
        return scanner

    def _contents(self, scan: Scan, events: NDArray[np.int64], heads: NDArray[np.int64]) -> list[Any]:
        packed = np.flatnonzero(heads[:, packed_events.PH_TYPE] == packed_events.PAYLOAD_ZSTD)
        inflated = self._inflated(scan, events[packed], heads[packed])
        if len(packed) == len(heads):
            return inflated
        contents = {int(k): content for k, content in zip(packed, inflated, strict=True)}
        for k in np.flatnonzero(heads[:, packed_events.PH_TYPE] == packed_events.PAYLOAD_NONE).tolist():
            offset, size = heads[k, packed_events.PH_OFFSET], heads[k, packed_events.PH_SIZE]
            contents[k] = scan.buffer[offset : offset + size].tobytes()
        return [contents[k] for k in range(len(heads))]

    def _inflated(self, scan: Scan, events: NDArray[np.int64], heads: NDArray[np.int64]) -> list[Any]:
        if not len(events):
            return []
        frames, claimed = (
            heads[:, packed_events.PH_OFFSET : packed_events.PH_SIZE + 1],
            heads[:, packed_events.PH_CLAIMED],
        )
        try:
            return inflated_frames(scan.buffer, frames, claimed)
        except zstandard.ZstdError as error:
            for k, event in enumerate(events.tolist()):
                try:
                    inflated_frames(scan.buffer, frames[k : k + 1], claimed[k : k + 1])
                except zstandard.ZstdError as zstd_error:
                    raise DecodeError(f"{self._location(scan, event)}: {zstd_error}") from None
            raise AssertionError("frames inflate one by one, but not together") from error

    def _in_parts(self, scan: Scan, event: int, head: NDArray[np.int64]) -> Iterator[PayloadContents]:
        """One payload that is large, or does not say how large: inflated and scanned piece by piece."""
        # An event may lie across two pieces: what is left of one is scanned with the next.
        events = np.array([event])
        scanner = self._scanner(scan, events, np.zeros(1, np.int64))
        rest, base = b"", 0
        begins, stop = [], []
        for piece in self._payload_pieces(scan, event, head):
            content = rest + piece
            buffer = _padded(content + bytes(PADDING))
            inner = scanner.scan(buffer[: len(content)], base)
            if inner.error:
                raise inner.error
            begins += _edges(inner, event_cells.MARK_BEGINS).tolist()
            stop += _edges(inner, event_cells.MARK_ENDS).tolist()
            # Flags of the transactions inside count for the one around them.
            outer = np.full(len(inner), event)
            scan.transactions[scan.transaction[event], event_cells.TX_FLAGS] |= np.bitwise_or.reduce(
                inner.transactions[:, event_cells.TX_FLAGS], initial=0
            )
            self._mark_statement_payloads(scan, inner, outer, in_parts=True)
            yield PayloadContents(inner, outer, is_whole=False, begins=base == 0)
            rest, base = content[inner.end :], base + inner.end
        # Once all is read, the transaction inside must be complete.
        self._check(scan, events, np.array(begins), np.zeros(1, np.int64))
        self._check(scan, events, np.array(stop), np.array([base + len(rest)]))

    def _payload_pieces(self, scan: Scan, event: int, head: NDArray[np.int64]) -> Iterator[bytes]:
        """The content of a payload, piece by piece. Raises DecodeError where it is not as long as its head says."""
        offset, size, kind, claimed = head.tolist()
        frame = scan.buffer[offset : offset + size]
        if kind == packed_events.PAYLOAD_NONE:
            yield from (frame[at : at + AT_ONCE].tobytes() for at in range(0, size, AT_ONCE))
            return
        # More than announced is refused before it fills the memory.
        count = 0
        try:
            for piece in inflated_pieces(frame):
                count += len(piece)
                if 0 <= claimed < count:
                    break
                yield piece
        except zstandard.ZstdError as error:
            raise DecodeError(f"{self._location(scan, event)}: {error}") from None
        if claimed not in {-1, count}:
            raise DecodeError(
                f"{self._location(scan, event)}: {claimed} bytes of content announced, another number found"
            )

    def _check(
        self, scan: Scan, events: NDArray[np.int64], edges: NDArray[np.int64], expected: NDArray[np.int64]
    ) -> None:
        """Check whether transactions begin or end where their payloads do."""
        common = min(len(edges), len(expected))
        wrong = np.flatnonzero(edges[:common] != expected[:common])
        if len(wrong) or len(edges) != len(expected):
            event = events[min(int(wrong[0]) if len(wrong) else common, len(events) - 1)]
            raise DecodeError(f"{self._location(scan, event)}: its content is not one whole transaction")

    def _mark_statement_payloads(self, scan: Scan, inner: Scan, outer: NDArray[np.int64], *, in_parts: bool) -> None:
        """Marks payloads that hold statements. Beside rows, only those of XA and ROLLBACK can be told from outside."""
        if (inner.mark & event_cells.MARK_ANY_TABLE).any():
            event = outer[int(np.argmax(inner.mark & event_cells.MARK_ANY_TABLE != 0))]
            raise DecodeError(f"{self._location(scan, event)}: it holds another one")
        statements = np.unique(outer[(inner.mark & event_cells.MARK_STATEMENT) != 0])
        if not len(statements):
            return
        changes = np.bincount(outer[(inner.mark & (event_cells.MARK_ROWS | event_cells.MARK_STATEMENT)) != 0])
        decided = (scan.transactions[scan.transaction[statements], event_cells.TX_FLAGS] & _UNDECIDED) == 0
        mixed = statements[decided & ((changes[statements] > 1) | in_parts)]
        if len(mixed):
            raise Unsupported(f"{self._location(scan, mixed[0])}: it holds a statement among other changes")
        scan.mark[statements] |= event_cells.MARK_STATEMENT


def payload_note(event: bytes, footer: int, _location: str) -> str:
    """Note of SHOW BINLOG EVENTS about a payload event; empty where its header does not make sense."""
    heads = np.zeros((1, packed_events.PH_COLUMNS), np.int64)
    wire = np.frombuffer(event, np.uint8)
    if not packed_events.payload_heads(np.array([address_of(wire)]), np.array([len(wire) - footer]), heads):
        return ""
    kind, claimed = int(heads[0, packed_events.PH_TYPE]), int(heads[0, packed_events.PH_CLAIMED])
    names = {packed_events.PAYLOAD_ZSTD: "ZSTD", packed_events.PAYLOAD_NONE: "NONE"}
    size = claimed if claimed >= 0 else int(heads[0, packed_events.PH_SIZE])
    return f"compression='{names.get(kind, kind)}', decompressed_size={size} bytes"


def _padded(content: bytes) -> NDArray[np.uint8]:
    """The array whose parts are scanned; the row kernel may read the padding behind them too."""
    buffer = np.frombuffer(content, np.uint8)
    address_of(buffer)
    return buffer


def _edges(inner: Scan, mark: int) -> NDArray[np.int64]:
    """Offsets where events with a mark begin; where they end, for MARK_ENDS."""
    marked = (inner.mark & mark) != 0
    edges: NDArray[np.int64] = inner.base + inner.offset[marked]
    return edges + inner.length[marked] if mark == event_cells.MARK_ENDS else edges


def _is_large(head: NDArray[np.int64]) -> bool:
    return not 0 < head[packed_events.PH_CLAIMED] <= AT_ONCE


def _groups(claimed: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Runs [first, after) of payloads that claim AT_ONCE bytes together; a large or unknown one stands alone."""
    large = (claimed <= 0) | (claimed > AT_ONCE)
    sizes = np.where(large, AT_ONCE, claimed)
    first = 0
    while first < len(sizes):
        after = first + max(int(np.searchsorted(np.cumsum(sizes[first:]), AT_ONCE, "right")), 1)
        yield first, after
        first = after
