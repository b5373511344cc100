"""Logs whose row events are in fragments, made from recorded ones as MariaDB 12.3's sources describe it.

No server that writes them could be had (Debian, Maven, PyPI and npm have none); these are bytes of our own making.

Put here: the fragmenter. Not here: what is expected of its logs.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spark_jobs.binlog import MAGIC

ROWS = {23, 24, 25, 30, 31, 32, 166, 167, 168}
FRAGMENT = 172
HEADER, FOOTER = 19, 4


@dataclass(frozen=True)
class Fragmenter:
    """threshold: bytes of a row event from which on it is fragmented, and of a fragment's content at most.

    number_first: which of the two numbers of a fragment comes first. own_checksum: whether the event inside has one.
    change: a last word on the fragments' bodies.
    """

    threshold: int = 100
    number_first: bool = False
    own_checksum: bool = False
    checksum: bool = True
    change: Callable[[list[bytes]], list[bytes]] = list

    def log(self, content: bytes) -> bytes:
        """A whole log file, its row events fragmented."""
        return MAGIC + b"".join(piece for event in events_of(content) for piece in self._pieces(event))

    def _pieces(self, event: bytes) -> Iterator[bytes]:
        if event[4] not in ROWS or len(event) <= self.threshold:
            yield event
            return
        row_event = event if self.own_checksum or not self.checksum else event[:-FOOTER]
        for body in self.change(self._bodies(row_event)):
            length = HEADER + len(body) + (FOOTER if self.checksum else 0)
            wire = event[:4] + bytes([FRAGMENT]) + event[5:9] + length.to_bytes(4, "little") + bytes(6) + body
            yield wire + (zlib.crc32(wire).to_bytes(4, "little") if self.checksum else b"")

    def _bodies(self, row_event: bytes) -> list[bytes]:
        contents = [row_event[at : at + self.threshold] for at in range(0, len(row_event), self.threshold)]
        return [
            self.numbers(number, len(contents))
            + (b"\1" + struct.pack("<Q", len(row_event)) if number == 1 else b"\0")
            + content
            for number, content in enumerate(contents, 1)
        ]

    def numbers(self, number: int, count: int) -> bytes:
        return struct.pack("<II", *((number, count) if self.number_first else (count, number)))


def events_of(content: bytes) -> Iterator[bytes]:
    """The events of a log file."""
    at = len(MAGIC)
    while at < len(content):
        length = int.from_bytes(content[at + 9 : at + 13], "little")
        yield content[at : at + length]
        at += length
