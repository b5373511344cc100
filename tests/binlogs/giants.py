"""Binlog files too large to keep, made as they are read: bytes in chunks, a few templates over and over.

    python -m tests.binlogs.giants transaction 300000000 > /dev/stdout     one transaction of that many bytes
    python -m tests.binlogs.giants row 100000000                           a row of that many bytes, then a small one
    python -m tests.binlogs.giants file 5000000000                         small transactions over and over

Put here: making them. Not here: what is expected of whoever reads them.
"""

import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace

from tests.binlogs.segment_spec import MAGIC, Change, Commit, Insert, Rows, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT, LONGTEXT, VARCHAR

T = Table("shop.t", key=["id"], id=INT.NOT_NULL, note=VARCHAR(200))
BODY = Table("shop.body", key=["id"], id=INT.NOT_NULL, body=LONGTEXT)
SPEC = SegmentSpec(tables=[T, BODY], rotate_to="")
PER_EVENT = 40
"""Rows of an event, which then has about 8 KiB, as servers write them (binlog_row_event_max_size)."""
_CHUNK = 4 << 20


def parts(spec: SegmentSpec) -> tuple[bytes, list[bytes]]:
    """The file's head, and the events behind it."""
    events = spec.events()
    return MAGIC + b"".join(events[:2]), events[2:]


def transaction(size: int) -> Iterator[bytes]:
    """One transaction of at least ``size`` bytes: row events of 8 KiB, each with its table map."""
    rows = [(number, f"ä {number} ".ljust(190, "x")) for number in range(PER_EVENT)]
    head, (gtid, begin, *statement, commit) = parts(replace(SPEC, changes=[Rows("shop.t", Insert, rows), Commit()]))
    block = b"".join(statement) * (_CHUNK // len(b"".join(statement)) + 1)
    yield head + gtid + begin
    for _ in range(size // len(block) + 1):
        yield block
    yield commit


def file(size: int) -> Iterator[bytes]:
    """A file of at least ``size`` bytes of transactions of two rows each."""
    changes: list[Change] = [Insert("shop.t", (1, "a")), Update("shop.t", (1, "a"), (2, "b")), Commit()]
    head, events = parts(replace(SPEC, changes=changes))
    block = b"".join(events) * (_CHUNK // len(b"".join(events)) + 1)
    yield head
    for _ in range(size // len(block) + 1):
        yield block


def row(size: int) -> Iterator[bytes]:
    """One row whose text has ``size`` bytes, some of them four to a character, and a small one behind it."""
    changes: list[Change] = [Insert("shop.body", (1, "")), Insert("shop.t", (2, "behind")), Commit()]
    head, (gtid, begin, table, insert, *rest) = parts(replace(SPEC, changes=changes))
    yield head + gtid + begin + table
    text = '😀 "quoted"\n'.encode() + b"x" * 85
    times, body = size // len(text), insert[19:-8]  # behind it: a length of 4 bytes, and the checksum
    length = 19 + len(body) + 4 + len(text) * times + 4
    start = insert[:9] + struct.pack("<I", length) + insert[13:19] + body + struct.pack("<I", len(text) * times)
    block = text * 10_000
    crc = zlib.crc32(start)
    yield start
    for done_rows in range(0, times, 10_000):
        piece = block[: len(text) * min(10_000, times - done_rows)]
        crc = zlib.crc32(piece, crc)
        yield piece
    yield struct.pack("<I", crc) + b"".join(rest)


GIANTS = {"transaction": transaction, "row": row, "file": file}


if __name__ == "__main__":
    for piece in GIANTS[sys.argv[1]](int(sys.argv[2])):
        sys.stdout.buffer.write(piece)
