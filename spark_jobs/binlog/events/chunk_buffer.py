"""The bytes of one file as they come, joined into buffers that the scanner can read.

Chunks may end anywhere; an event that is cut short waits for its rest, and what a caller still needs is kept.

Put here: buffering between whoever reads a file and the scan. Not here: what is done with the events found.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.format_description import HEADER, IN_USE, FormatDescription, check_magic
from spark_jobs.binlog.events.scanner import Bytes, EventScanner, Scan, TableMaps, first_event, view
from spark_jobs.binlog.kernels.memory import fresh
from spark_jobs.errors import Truncated

_TRUSTED = 128 << 20
"""Bytes of memory that an event's length is believed for; a damaged one may claim 4 GiB."""
_PIECE = 256 << 20
"""Bytes taken up at once; a payload's Arrow offsets are 32 bits wide."""


class Feed:
    """Takes chunks of a file from ``offset`` on and scans them, each byte once.

    At offset 0 the magic bytes and the FORMAT_DESCRIPTION are read first and its in-use flag is cleared in the buffer.
    """

    def __init__(
        self,
        file: str,
        offset: int,
        description: FormatDescription | None,
        *,
        minimum: int,
        reuse: bool = False,
    ) -> None:
        """minimum: bytes to gather before a scan is worth it.

        reuse: each scan, and the bytes that it is of, are written over the one before.
        """
        if offset and description is None:
            raise ValueError(f"{file}:{offset}: a start inside a file needs the file's FORMAT_DESCRIPTION")
        self.file = file
        self.maps = TableMaps()
        self.fed_to = offset
        self.base = offset
        """File offset of the buffer's first byte."""
        self.buffer: NDArray[np.uint8] = np.empty(0, np.uint8)
        """Bytes that were gathered and not forgotten, as of the last scan."""
        self._scanned = 0
        self._minimum = minimum
        self._missing_bytes = minimum
        self._room = self._memory = self.buffer
        """Memory that begins with ``buffer``; what has come since the last scan follows it there. All of it."""
        self._filled = 0
        self._format = description
        self._reuse = reuse
        self._scanner = EventScanner(file, description, self.maps, reuse=reuse) if description and offset else None

    @property
    def is_open(self) -> bool:
        """True if the file's head has been read."""
        return self._scanner is not None

    @property
    def waiting(self) -> int:
        """Bytes that were fed and not forgotten."""
        return self._filled

    @property
    def format(self) -> FormatDescription:
        """The file's. Raises Truncated before it has been fed."""
        if self._format is None:
            raise Truncated(f"{self.file}: it ends inside its FORMAT_DESCRIPTION event, at byte {self.fed_to}")
        return self._format

    @property
    def scanned_to(self) -> int:
        """Offset after the last event that was scanned: where one begins that is not complete."""
        return self.base + self._scanned

    def cut(self, transaction: int | None) -> str | None:
        """Reason why the file ends too early.

        It is empty, or ends inside its head, an event or a transaction; else None.

        transaction: where the transaction begins that is open at the end of what was scanned.
        """
        # Nothing, a part of the head, then a part of an event or a transaction.
        if not self.fed_to:
            return f"{self.file}: the file is empty; copy it again"
        if self._scanner is None:
            return (
                f"{self.file}: the file ends inside its FORMAT_DESCRIPTION event, at byte {self.fed_to}; copy it again"
            )
        event = self.scanned_to
        rest = self.fed_to - event
        if rest:
            of = "" if transaction is None else f", of the transaction that begins at {transaction}"
            text = f"{event}: the file ends inside the event that begins there, {rest} bytes after its start{of}"
        elif transaction is not None:
            text = f"{transaction}: the file ends inside the transaction that begins there"
        else:
            return None
        return f"{self.file}:{text}; copy the file again"

    @property
    def undecided(self) -> bool:
        """True if what was scanned ends behind a GTID, before what tells which kind of transaction it begins."""
        return self._scanner is not None and self._scanner.undecided

    def add(self, chunk: Bytes) -> Iterator[Scan]:
        """Take the next bytes and yield what they complete, over a buffer that holds all that was kept.

        The chunk may be reused by the caller once the iterator is exhausted. Raises DecodeError.
        """
        array = view(chunk)
        for start in range(0, len(array), _PIECE):
            piece = array[start : start + _PIECE]
            self.fed_to += len(piece)
            self._gather(piece)
            self._missing_bytes -= len(piece)
            if self._missing_bytes <= 0:
                yield from self.scan()

    def want(self, minimum: int) -> None:
        """Gather so many bytes before each scan from the next one on."""
        self._missing_bytes += minimum - self._minimum
        self._minimum = minimum

    def fill(self, readinto: Callable[[memoryview], int | None]) -> bool:
        """Read what the next scan wants, straight into the buffer; whether there was so much. Raises as reading does.

        readinto: as of an unbuffered file: fills some of the memory it is given and says how much; 0 at the end.
        """
        while self._missing_bytes > 0:
            count = readinto(self._free(min(self._missing_bytes, self._minimum), self._missing_bytes).data)
            if not count:
                return False
            self.fed_to += count
            self._filled += count
            self._missing_bytes -= count
        return True

    def _gather(self, piece: NDArray[np.uint8]) -> None:
        """Put a piece after the bytes that wait."""
        self._free(len(piece), max(self._missing_bytes, len(piece)))[: len(piece)] = piece
        self._filled += len(piece)

    def _free(self, minimum: int, maximum: int) -> NDArray[np.uint8]:
        """Memory for the next bytes, behind those that wait, which move where there is no room for ``minimum``.

        Without ``reuse`` bytes that were handed out are never written to again, only those behind them.
        """
        after = self._filled + maximum
        if self._filled + minimum > len(self._room):
            is_fit = after <= len(self._memory) <= max(_TRUSTED, 4 * after)  # one event may have been a thousand
            if not (self._reuse and is_fit):
                self._memory = fresh(min(after, max(2 * self._filled, self._filled + minimum, _TRUSTED)))
            self._memory[: self._filled] = self._room[: self._filled]
            self._room = self._memory
        return self._room[self._filled : after]

    def scan(self) -> Iterator[Scan]:
        """Scan what has been gathered; yield once, or not at all before the file's head is complete.

        Raises DecodeError after what stands before the damage has been taken.
        """
        self.buffer = self._room[: self._filled]
        if self._scanner is None:
            self._open()
        if self._scanner is None:
            self._missing_bytes = max(_missing(self.buffer[4:]), 1)
            return
        scan = self._scanner.scan(self.buffer, self.base, self._scanned)
        self._scanned = scan.end
        self._missing_bytes = max(self._minimum, _missing(self.buffer[scan.end :]))
        yield scan
        if scan.error:
            raise scan.error

    def keep(self, begin: int) -> None:
        """Forget the bytes before ``begin``, an offset in the buffer that is not behind what was scanned."""
        self.buffer = self.buffer[begin:]
        self._room = self._room[begin:]
        self._filled -= begin
        self.base += begin
        self._scanned -= begin

    def rewind(self, begin: int) -> None:
        """Forget the bytes before ``begin``, where a transaction begins, and scan the rest again.

        That waits for at least as many bytes more.
        """
        assert self._scanner
        self.keep(begin)
        self._missing_bytes = max(self._missing_bytes, self._scanned)
        self._scanned = 0
        self._scanner.restart()

    def _open(self) -> None:
        """Read the file head once it is there."""
        if len(self.buffer) >= 4:
            check_magic(self.buffer[:4].tobytes(), self.file)
        head = first_event(self.buffer, 4)
        if len(head) < HEADER or len(head) < int.from_bytes(head[9:13], "little"):
            return
        self._format = FormatDescription.parse(head, f"{self.file}:4")
        self.buffer[4 + 17] &= ~IN_USE & 0xFF
        self._scanner = EventScanner(self.file, self._format, self.maps, reuse=self._reuse)
        self._scanned = 4


def _missing(rest: NDArray[np.uint8]) -> int:
    """Bytes that the event at the beginning of ``rest`` still needs; 0 where its length is not there yet."""
    return int.from_bytes(rest[9:13].tobytes(), "little") - len(rest) if len(rest) >= HEADER else 0
