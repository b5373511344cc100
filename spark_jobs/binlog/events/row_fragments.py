"""Row events in fragments, joined: MariaDB's PARTIAL_ROW_DATA (12.3, binlog_row_event_fragment_threshold).

A row event larger than the threshold is logged as several events, one after the other. The body of each is two numbers
(which fragment it is, how many there are), flags, in the first one the size of the whole, and then bytes of the row
event, whose own header comes first. Which of the two numbers is which the descriptions tell both ways; the first
fragment decides, since its number is 1. The scan notes all fragments of a row event as one event of their length.

Source: MariaDB sql/log_event.h (Partial_rows_log_event), its documentation's replication protocol. Made from those:
no server that writes these events has been read.

Put here: which events belong together, what is wrong with them, and the row event that they are. Not here: its rows
(binlog/rows/row_events.py).
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.binlog.events.format_description import HEADER
from spark_jobs.binlog.events.types import FRAGMENT, MEANINGS, type_name
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.errors import ChecksumMismatch, DecodeError, Unsupported

LONGEST = 1 << 30
"""Bytes of a row event that is read; bronze keeps it in one slice."""
_FIXED, _SIZE = 9, 8
_HAS_SIZE = 1
_FOOTER = 4
_TABLE_AND_FLAGS = 8
_NAME = "a row event in fragments (PARTIAL_ROW_DATA)"


@dataclass(frozen=True, slots=True)
class Fragment:
    """One fragment. begin, content, stop: where it begins, its bytes of the row event do, and these end; from 1 on."""

    number: int
    count: int
    begin: int
    content: int
    stop: int


@dataclass(frozen=True, slots=True)
class Group:
    """The fragments of one row event. length: of all their events."""

    fragments: list[Fragment]
    length: int

    @property
    def head(self) -> int:
        """Offset where the body of the row event begins, from the beginning of the group."""
        return self.fragments[0].content + HEADER - self.fragments[0].begin


def group_at(buffer: NDArray[np.uint8], offset: int, footer: int) -> Group | None:
    """The fragments that begin at ``offset``; None where not all of them are in the buffer.

    Raises ChecksumMismatch, DecodeError and Unsupported, whose messages say what, and not where.
    """
    reading = _Reading(buffer, offset, footer)
    while not reading.is_whole:
        if not reading.take_next():
            return None
    reading.check()
    return Group(reading.fragments, reading.at - offset)


class _Reading:
    """The fragments of a group as far as they were read."""

    def __init__(self, buffer: NDArray[np.uint8], offset: int, footer: int) -> None:
        self.at = offset
        self.fragments: list[Fragment] = []
        self._buffer, self._begin, self._footer = buffer, offset, footer
        self._size = self._count = self._sum = 0
        self._number_at = 0
        """Offset of the fragment's number in the body: before or after how many there are."""

    @property
    def is_whole(self) -> bool:
        return bool(self.fragments) and len(self.fragments) == self._count

    def _little_endian(self, offset: int, size: int = 4) -> int:
        return int.from_bytes(self._buffer[offset : offset + size].tobytes(), "little")

    def take_next(self) -> bool:
        """Read one more fragment; False where it is not there yet."""
        if self.at + HEADER > len(self._buffer):
            return False
        code, length = int(self._buffer[self.at + 4]), self._little_endian(self.at + 9)
        if code != FRAGMENT:
            self._verify_fragments()
            raise DecodeError(f"{self._missing}: a {type_name(code)} event is in its place")
        if not self._room < length <= event_cells.LONGEST_EVENT:
            raise DecodeError(f"{_NAME}: a fragment of {length} bytes, whose parts do not fit into that length")
        if self.at + length > len(self._buffer):
            return False
        try:
            self._take(length)
        except DecodeError:
            self._verify_fragments()  # what is damaged says nothing
            self._verify(self.at, length)
            raise
        self.at += length
        return True

    @property
    def _room(self) -> int:
        """Bytes of a fragment around what it has of the row event."""
        return HEADER + _FIXED + self._footer + (0 if self.fragments else _SIZE)

    @property
    def _missing(self) -> str:
        return f"{_NAME}: fragment {len(self.fragments) + 1} of {self._count} is missing"

    def _take(self, length: int) -> None:
        body = self.at + HEADER
        has_size = bool(self._buffer[body + 8] & _HAS_SIZE)
        if not self.fragments:
            self._open(body, has_size=has_size)
        number, count = self._little_endian(body + self._number_at), self._little_endian(body + 4 - self._number_at)
        if number != len(self.fragments) + 1 or count != self._count or has_size != (not self.fragments):
            raise DecodeError(f"{self._missing}: fragment {number} of {count} is in its place")
        content = body + _FIXED + (_SIZE if has_size else 0)
        stop = self.at + length - self._footer
        self.fragments.append(Fragment(number, count, self.at - self._begin, content - self._begin, stop - self._begin))
        self._sum += stop - content
        if self._sum > self._size:
            raise DecodeError(f"{_NAME}: {self._size} bytes announced, at least {self._sum} found")

    def _open(self, body: int, *, has_size: bool) -> None:
        """Read what the first fragment says of all."""
        numbers = self._little_endian(body), self._little_endian(body + 4)
        if not has_size or 1 not in numbers or 0 in numbers:
            raise DecodeError(f"{_NAME}: its first fragment is missing, this is one of {numbers[0]} and {numbers[1]}")
        self._number_at = 4 * numbers.index(1)
        self._count = self._little_endian(body + 4 - self._number_at)
        self._size = self._little_endian(body + _FIXED, _SIZE)
        if self._size > LONGEST:
            raise Unsupported(
                f"{_NAME} of {self._size} bytes: more than {LONGEST >> 30} GiB is not read; write fewer rows a "
                f"statement, or shorter ones (binlog_row_event_max_size does not split a single row)"
            )

    def check(self) -> None:
        """Check that needs all fragments."""
        self._verify_fragments()
        if self._sum != self._size:
            raise DecodeError(f"{_NAME}: {self._size} bytes announced, {self._sum} found")
        if self.at - self._begin > event_cells.LONGEST_EVENT:
            raise Unsupported(f"{_NAME} of {len(self.fragments)} fragments: more than 1 GiB with their heads")
        first = self.fragments[0]
        code = int(self._buffer[self._begin + first.content + 4])
        if (
            first.stop - first.content < HEADER + _TABLE_AND_FLAGS
            or code == FRAGMENT
            or MEANINGS[code] != event_cells.ROWS
        ):
            raise DecodeError(f"{_NAME}: its first fragment does not begin with a row event's head")

    def _verify_fragments(self) -> None:
        for fragment in self.fragments:
            begin = self._begin + fragment.begin
            self._verify(begin, self._little_endian(begin + 9))

    def _verify(self, begin: int, length: int) -> None:
        if not self._footer:
            return
        stop = begin + length - self._footer
        if zlib.crc32(self._buffer[begin:stop].data) != self._little_endian(stop):
            raise ChecksumMismatch(f"{_NAME}: the CRC32 of a fragment of {length} bytes does not fit its bytes")


def group_length(wire: bytes | bytearray, offset: int = 0) -> int:
    """Bytes of the event at ``offset``; of a group of fragments those of all of them, or as many as are there."""
    at = offset
    while at + HEADER <= len(wire) and (at == offset or _continues(wire, at)):
        at += max(int.from_bytes(wire[at + 9 : at + 13], "little"), HEADER)
        if wire[offset + 4] != FRAGMENT:
            break
    return at - offset


def _continues(wire: bytes | bytearray, at: int) -> bool:
    """True if a fragment is not the first of its row event."""
    return wire[at + 4] == FRAGMENT and not wire[min(at + HEADER + 8, len(wire) - 1)] & _HAS_SIZE


def row_head(wire: bytes) -> bytes:
    """Table id and flags of the row event that begins a group."""
    begin = HEADER + _FIXED + _SIZE + HEADER
    return wire[begin : begin + _TABLE_AND_FLAGS]


def joined(wire: bytes) -> bytes:
    """The row event of a group that was scanned, without a checksum; ``wire`` is without that of the last fragment."""
    # The bytes that the headers count beyond those that are here are the last checksum.
    footer = group_length(wire) - len(wire)
    event = bytearray(b"".join(_contents(wire, footer)))
    # It may bring a checksum of its own.
    if footer and len(event) > HEADER + _TABLE_AND_FLAGS + _FOOTER:
        has_checksum = zlib.crc32(event[:-_FOOTER]) == int.from_bytes(event[-_FOOTER:], "little")
        event = event[:-_FOOTER] if has_checksum else event
    event[9:13] = len(event).to_bytes(4, "little")
    return bytes(event)


def _contents(wire: bytes, footer: int) -> Iterator[memoryview]:
    view, at = memoryview(wire), 0
    while at < len(wire):
        length = int.from_bytes(wire[at + 9 : at + 13], "little")
        begin = at + HEADER + _FIXED + (_SIZE if at == 0 else 0)
        yield view[begin : at + length - footer]
        at += length
