"""Scanner of a log's bytes: the offset, type, table and transaction of each event.

One kernel walks the headers, checks every CRC32 and answers in flat arrays; Python is entered only for a TABLE_MAP body
never seen before. File offsets are counted here: a header's own position wraps at 4 GiB and is 0 in MariaDB 11.4.

Put here: the walk and what it yields. Not here: the file head (format_description.py), the cut into slices
(binlog/slices/slicer.py), columns and rows (table_map.py, binlog/rows/decoder.py).
"""

import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.format_description import HEADER, MAGIC, FormatDescription, check_magic
from spark_jobs.binlog.events.row_fragments import group_at
from spark_jobs.binlog.events.types import MEANINGS, type_name
from spark_jobs.binlog.kernels import event_cells, event_scan, table_maps
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.kernels.memory import fresh
from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated, Unsupported

__all__ = [
    "HEADER",
    "MAGIC",
    "EventScanner",
    "FormatDescription",
    "Scan",
    "TableMaps",
    "check_magic",
    "gtid_text",
    "map_name",
    "open_slice",
]

Bytes = bytes | bytearray | memoryview | NDArray[np.uint8]


def view(payload: Bytes) -> NDArray[np.uint8]:
    """The bytes as uint8[n], without a copy. Takes anything with the buffer protocol, Arrow buffers too."""
    return payload if isinstance(payload, np.ndarray) else np.frombuffer(payload, np.uint8)


def map_name(body: bytes) -> tuple[str, str]:
    """(schema, table) of a TABLE_MAP's body: id 6, flags 2, then two strings with a length before and a zero after.

    Raises IndexError or UnicodeDecodeError on a body that is none.
    """
    after = 9 + body[8]
    if body[after] or body[after + 2 + body[after + 1]]:
        raise IndexError("a name without its closing zero")
    return body[9:after].decode("utf-8"), body[after + 2 : after + 2 + body[after + 1]].decode("utf-8")


class TableMaps:
    """Every TABLE_MAP body met, by ordinal in order of first sight; compared by its bytes without the table id."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        """Whole events as first seen, with header and checksum."""
        self.names: list[tuple[str, str]] = []
        self.by_name: dict[tuple[str, str], list[int]] = defaultdict(list)
        """The ordinals of each table."""
        self.slots: NDArray[np.int32] = np.full(256, -1, np.int32)
        self.bodies: NDArray[np.int64] = np.zeros((64, 2), np.int64)
        self._buffers: list[NDArray[np.uint8]] = []

    def __len__(self) -> int:
        return len(self.events)

    def add(self, event: bytes, footer: int, location: str) -> int:
        """Register a body not seen before; return its ordinal. Raises DecodeError."""
        body = event[HEADER : len(event) - footer]
        try:
            name = map_name(body)
        except (IndexError, UnicodeDecodeError) as error:
            raise DecodeError(f"{location}: TABLE_MAP: no schema and table name in it ({error})") from None
        # The event is kept: its address goes to the kernel, which compares bodies without Python.
        ordinal = len(self.events)
        self.events.append(event)
        self.names.append(name)
        self.by_name[name].append(ordinal)
        self._buffers.append(np.frombuffer(body[6:], np.uint8))
        if ordinal == len(self.bodies):
            self.bodies = np.concatenate([self.bodies, np.zeros_like(self.bodies)])
        self.bodies[ordinal] = address_of(self._buffers[-1]), len(body) - 6
        # The hash table is at most half full.
        if 2 * len(self) > len(self.slots):
            self._rehash()
        else:
            self._store_map(ordinal)
        return ordinal

    def _rehash(self) -> None:
        self.slots = np.full(2 * len(self.slots), -1, np.int32)
        for ordinal in range(len(self)):
            self._store_map(ordinal)

    def _store_map(self, ordinal: int) -> None:
        mask = len(self.slots) - 1
        slot = int(table_maps.body_hash(*self.bodies[ordinal])) & mask
        while self.slots[slot] >= 0:
            slot = (slot + 1) & mask
        self.slots[slot] = ordinal


@dataclass(slots=True)
class Scan:
    """The events of one buffer, a cell an event in each array; the transactions they belong to, a row each."""

    buffer: NDArray[np.uint8]
    base: int
    """File offset of the buffer's first byte."""
    offset: NDArray[np.int64]
    """Offsets of the events in the buffer."""
    length: NDArray[np.int64]
    """Bytes of the whole event, header and checksum included."""
    code: NDArray[np.uint8]
    """Type number: a key of EVENT_TYPES."""
    table: NDArray[np.int32]
    """Ordinal in ``TableMaps`` of the map in force for row events, of its own body for a TABLE_MAP; -1 otherwise."""
    transaction: NDArray[np.int32]
    """Row in ``transactions``; -1 for control events outside any."""
    mark: NDArray[np.uint8]
    """Bits event_cells.MARK_BEGINS …."""
    transactions: NDArray[np.int64]
    """[n, event_cells.TX_COLUMNS]. Row 0 is the transaction that was open when the buffer began, if one was."""
    end: int
    """Offset in the buffer after its last whole event, or where ``error`` is."""
    refused: tuple[type[DecodeError], str] | None = None
    """Reason why the event at ``end`` cannot be passed; those before it are here."""

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def error(self) -> DecodeError | None:
        """Error to raise of ``refused``, a new one each time.

        Kept here it would hold the frames that it came through, they this scan, and all their memory would wait for
        the garbage collector.
        """
        return self.refused[0](self.refused[1]) if self.refused else None

    @property
    def address(self) -> int:
        """The address of the buffer's first byte; valid while ``buffer`` lives."""
        return address_of(self.buffer)

    def gtid(self, transaction: int) -> str | None:
        """GTID of a row of ``transactions``; None where it has none, or where it lies in an earlier slice."""
        return gtid_text(self.transactions[transaction])

    def first(self, count: int) -> "Scan":
        """The same scan with its first events alone."""
        cells = {name: getattr(self, name)[:count] for name in _EVENT_CELLS}
        return replace(self, **cells)

    def bytes_of(self, event: int) -> bytes:
        start = int(self.offset[event])
        return self.buffer[start : start + int(self.length[event])].tobytes()

    def head_of(self, event: int, count: int = HEADER) -> bytes:
        """The event's first bytes."""
        start = int(self.offset[event])
        return self.buffer[start : start + min(count, int(self.length[event]))].tobytes()


_EVENT_CELLS = ("offset", "length", "code", "table", "transaction", "mark")
_EXPECTED, _MANY = 32, 1 << 18
"""Bytes of a small event, for a first guess at their number, and the most to make room for before they are there.

Room that is never written to costs nothing; room that has to be enlarged is copied.
"""


_NOTHING = np.empty(0, np.uint8)


def empty_scan(buffer: NDArray[np.uint8], base: int, start: int, capacity: int) -> Scan:
    """Arrays for ``capacity`` events, not filled, and for a quarter as many transactions and one more."""
    # One piece of memory for all columns, the widest first, so that each is aligned.
    owners = capacity // 4 + 1
    sizes = (8 * event_cells.TX_COLUMNS * owners, *(capacity * size for size in (8, 8, 4, 4, 1, 1)))
    stops = list(accumulate(sizes))
    memory = fresh(stops[-1])
    transactions, offset, length, table, owner, code, mark = (
        memory[stop - size : stop] for size, stop in zip(sizes, stops, strict=True)
    )
    return Scan(
        buffer=buffer,
        base=base,
        offset=offset.view(np.int64),
        length=length.view(np.int64),
        code=code,
        table=table.view(np.int32),
        transaction=owner.view(np.int32),
        mark=mark,
        transactions=transactions.view(np.int64).reshape(-1, event_cells.TX_COLUMNS),
        end=start,
    )


def _enlarge(scan: Scan) -> None:
    """Double the room for events. Their number cannot be told from the bytes: a buffer may hold one, or one in 19."""
    for name in (*_EVENT_CELLS, "transactions"):
        cells = getattr(scan, name)
        setattr(scan, name, np.concatenate([cells, np.empty_like(cells)]))


def gtid_text(transaction: NDArray[np.int64]) -> str | None:
    """A row of ``Scan.transactions`` as the server writes its GTID: ``uuid:17``, ``0-1-17``; None where it has none."""
    kind = transaction[event_cells.TX_GTID]
    if kind in (event_cells.GTID_MYSQL, event_cells.GTID_TAG):
        source = _uuid_text(transaction[event_cells.TX_HIGH : event_cells.TX_LOW + 1].tobytes())
        tag = transaction[event_cells.TX_TAG :].tobytes().rstrip(b"\0").decode("ascii", "backslashreplace")
        return ":".join([source, *([tag] if tag else []), str(transaction[event_cells.TX_NUMBER])])
    if kind == event_cells.GTID_DOMAIN:
        high, low, number = transaction[event_cells.TX_HIGH : event_cells.TX_NUMBER + 1].tolist()
        return f"{high}-{low}-{number & 0xFFFFFFFFFFFFFFFF}"
    return None


@lru_cache(maxsize=64)
def _uuid_text(content: bytes) -> str:
    """A log names few servers, and each in every transaction."""
    return str(uuid.UUID(bytes=content))


class EventScanner:
    """Scans the buffers of one file in order; what is open at the end of one continues in the next."""

    def __init__(
        self,
        file: str,
        description: FormatDescription,
        maps: TableMaps | None = None,
        *,
        transaction_start: int | None = None,
        committed_us: int = 0,
        reuse: bool = False,
    ) -> None:
        """transaction_start: file offset of the transaction that is open where the first buffer begins, if one is.

        reuse: each scan is written over the one before.
        """
        self.file, self.format = file, description
        self._reuse = reuse
        self._spare: Scan | None = None
        self.maps = TableMaps() if maps is None else maps
        self._state = np.zeros(event_cells.S_CELLS, np.int64)
        self._state[event_cells.S_FLAVOR] = description.flavor == "mariadb"
        self._open = np.zeros((16, 2), np.int64)
        self._transaction = np.zeros(event_cells.TX_COLUMNS, np.int64)
        if transaction_start is not None:
            self._state[event_cells.S_PHASE] = event_cells.INSIDE
            self._transaction[event_cells.TX_START] = transaction_start
            self._transaction[event_cells.TX_COMMITTED] = committed_us
            self._transaction[event_cells.TX_GTID] = event_cells.GTID_GIVEN
            self._transaction[event_cells.TX_FLAGS] = event_cells.TX_HAS_ROWS  # it is cut because it has many

    @property
    def open_maps(self) -> NDArray[np.int64]:
        """[n, 2] table id and ordinal of the maps that are open, and room for more."""
        return self._open

    @property
    def inside(self) -> bool:
        """True if a transaction is open after what was scanned."""
        return bool(self._state[event_cells.S_PHASE] != event_cells.OUTSIDE)

    @property
    def undecided(self) -> bool:
        """True if a transaction has begun and the QUERY that tells its kind has not come yet."""
        return bool(self._state[event_cells.S_PHASE] == event_cells.BEGUN)

    def scan(self, payload: Bytes, base: int, start: int = 0) -> Scan:
        """Scan whole events from ``start`` on; ``base`` is the file offset of the payload's first byte.

        A last event that is cut short is left: ``end`` tells where it begins. So is one that cannot be passed, and
        ``error`` is a DecodeError, ChecksumMismatch or Unsupported then, naming file:offset.
        """
        buffer = view(payload)
        scan = self._empty(buffer, base, start)
        self._state[event_cells.S_EVENTS] = 0
        self._state[event_cells.S_TRANSACTIONS] = self.inside
        scan.transactions[0] = self._transaction
        while self._run_kernel(scan):
            pass
        self._trim(scan)
        return scan

    def _empty(self, buffer: NDArray[np.uint8], base: int, start: int) -> Scan:
        capacity = min((len(buffer) - start) // _EXPECTED, _MANY) + 16
        if not self._reuse:
            return empty_scan(buffer, base, start, capacity)
        if self._spare is None or len(self._spare.offset) < capacity:
            self._spare = empty_scan(_NOTHING, 0, 0, 2 * capacity)
        return replace(self._spare, buffer=buffer, base=base, end=start)

    def restart(self) -> None:
        """Forget what is open: the next buffer begins at a boundary of transactions."""
        self._state[event_cells.S_PHASE] = event_cells.OUTSIDE
        self._state[event_cells.S_MAPS] = 0

    def _run_kernel(self, scan: Scan) -> bool:
        """Run the kernel from ``found.end``; False once every whole event is done."""
        # The kernel continues from its state each time it comes back.
        cells = tuple(getattr(scan, name) for name in _EVENT_CELLS)
        state = (scan.address, scan.end, len(scan.buffer), scan.base, self.format.footer, MEANINGS)
        tables = scan.transactions, self._open, self.maps.slots, self.maps.bodies
        code, scan.end = event_scan.scan(*state, self._state, cells, *tables)
        if code == event_cells.SCANNED:
            return False
        # Where it lacks a map or room it comes back for that; anything else ends the scan.
        if code == event_cells.NEW_MAP:
            self._add_map(_event_at(scan.buffer, scan.end), self._location_of(scan))
        elif code == event_cells.FRAGMENTS:
            return self._find_group(scan)
        elif code == event_cells.MAPS_FULL:
            self._open = np.concatenate([self._open, np.zeros_like(self._open)])
        elif code == event_cells.EVENTS_FULL:
            _enlarge(scan)
            if self._reuse:
                self._spare = replace(scan, buffer=_NOTHING)
        else:
            scan.refused = self._refused(int(code), scan)
            return False
        return True

    def _find_group(self, scan: Scan) -> bool:
        """Find out where the fragments of a row event end; False where that is not yet there, or they are damaged."""
        try:
            group = group_at(scan.buffer, scan.end, self.format.footer)
        except DecodeError as error:
            scan.refused = type(error), f"{self._location_of(scan)}: {error}"
            return False
        if group:
            self._state[[event_cells.S_GROUP, event_cells.S_GROUP_BODY]] = group.length, group.head
        return group is not None

    def _add_map(self, event: bytes, location: str) -> None:
        self.maps.add(event, self.format.footer, location)

    def _location_of(self, scan: Scan) -> str:
        """Location of ``found.end`` in messages."""
        return f"{self.file}:{scan.base + scan.end}"

    def _trim(self, scan: Scan) -> None:
        events, transactions = self._state[event_cells.S_EVENTS], self._state[event_cells.S_TRANSACTIONS]
        for name in _EVENT_CELLS:
            setattr(scan, name, getattr(scan, name)[:events])
        scan.transactions = scan.transactions[:transactions]
        if self.inside:
            self._transaction = scan.transactions[-1].copy()

    def scan_all(self, payload: Bytes, base: int, start: int = 0) -> Scan:
        """Scan as ``scan`` does; raises its error, and Truncated where the payload does not end with a whole event."""
        scan = self.scan(payload, base, start)
        if scan.error:
            raise scan.error
        if scan.end != len(scan.buffer):
            remaining = len(scan.buffer) - scan.end
            raise Truncated(f"{self._location_of(scan)}: an event reaches beyond the end: {remaining} bytes there")
        return scan

    def _refused(self, outcome: int, scan: Scan) -> tuple[type[DecodeError], str]:
        """The kind of the error and its message, with file and offset, for an outcome of the kernel."""
        location = self._location_of(scan)
        header = scan.buffer[scan.end : scan.end + HEADER].tobytes()
        code, length = header[4], int.from_bytes(header[9:13], "little")
        name = type_name(code)
        # What is damaged, what cannot be read, and what a log must not have.
        if outcome == event_cells.BAD_CHECKSUM:
            return ChecksumMismatch, f"{location}: {name} event of {length} bytes: its CRC32 does not fit its bytes"
        if outcome == event_cells.CANNOT_PASS:
            return Unsupported, f"{location}: {name} event (type {code}): {_CANNOT_PASS.get(code, _TOO_OLD)}"
        if outcome == event_cells.NOT_KNOWN:
            return Unsupported, f"{location}: event type {code} is not known and not marked as ignorable"
        start = scan.transactions[max(int(self._state[event_cells.S_TRANSACTIONS]) - 1, 0), event_cells.TX_START]
        texts = {
            event_cells.BAD_LENGTH: f"of {length} bytes: its parts do not fit into that length",
            event_cells.NO_MAP: "of a table id that no TABLE_MAP of this statement has",
            event_cells.NOT_ENDED: f"inside the transaction begun at {start}, which has not ended",
            event_cells.AGAIN_FORMAT: "in the middle of a file; is this a relay log? Only a server's own log is read",
        }
        return DecodeError, f"{location}: {name} event (type {code}) {texts[outcome]}"


_TOO_OLD = "logs this old are not read"
_CANNOT_PASS = {
    26: "the server says that changes are missing from its log; take a new snapshot after it",
    164: "a MariaDB log encrypted at rest; read it from the server instead",
}


def _event_at(buffer: NDArray[np.uint8], offset: int) -> bytes:
    length = int.from_bytes(buffer[offset + 9 : offset + 13].tobytes(), "little")
    return buffer[offset : offset + length].tobytes()


def first_event(buffer: NDArray[np.uint8], offset: int) -> bytes:
    """The bytes of the event at ``location``, as many as its length says or as there are."""
    return _event_at(buffer, offset) if len(buffer) >= offset + HEADER else buffer[offset:].tobytes()


def open_slice(  # noqa: PLR0913 - a slice's columns
    file: str,
    start: int,
    context: bytes | None,
    payload: Bytes,
    maps: TableMaps,
    *,
    transaction_start: int | None = None,
    committed_us: int = 0,
) -> tuple[EventScanner, Scan]:
    """Scan a slice: first the maps of its context, then its payload, whole. The buffer is the payload, not a copy.

    start: the payload's file offset (0: the payload begins with the magic bytes and a FORMAT_DESCRIPTION);
    transaction_start: as in the slice; a slice begins inside a transaction where it is less than ``start``.
    """
    buffer = view(payload)
    if start == 0:
        check_magic(buffer[:4].tobytes(), file)
        scanner = EventScanner(file, FormatDescription.parse(first_event(buffer, 4), f"{file}:4"), maps)
        return scanner, scanner.scan_all(buffer, 0, 4)
    if context is None:
        raise DecodeError(f"{file}:{start}: a slice that begins inside a file needs a context, and has none")
    head = first_event(view(context), 0)
    description = FormatDescription.parse(head, f"{file}:{start}: context")
    first_offset = transaction_start if transaction_start is not None and transaction_start < start else None
    scanner = EventScanner(file, description, maps, transaction_start=first_offset, committed_us=committed_us)
    if len(context) > len(head):
        scanner.scan_all(context, start, len(head))
    return scanner, scanner.scan_all(buffer, start)
