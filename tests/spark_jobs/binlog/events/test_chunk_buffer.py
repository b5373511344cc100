"""Buffering: any chunks give the same events, and no byte is looked at again."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.events.chunk_buffer import Feed
from spark_jobs.errors import DecodeError
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, LONGTEXT

FILE = "mysql-bin.000001"
SPEC = SegmentSpec(
    tables=[Table("shop.orders", id=INT, note=LONGTEXT)],
    changes=[change for k in range(9) for change in (Insert("shop.orders", (k, "x" * 100 * k)), Commit())],
)
CONTENT = SPEC.to_bytes()


@given(cuts=st.lists(st.integers(0, len(CONTENT)), max_size=30), minimum=st.integers(1, 5000))
def test_any_chunks(cuts: list[int], minimum: int) -> None:
    feed = Feed(FILE, 0, None, minimum=minimum)
    offsets: list[int] = []
    bounds = [0, *sorted(cuts), len(CONTENT)]
    chunks = [CONTENT[start:stop] for start, stop in pairwise(bounds)]
    for chunk in chunks:
        offsets += _scanned(feed, chunk)
    for scan in feed.scan():
        offsets += (scan.base + scan.offset).tolist()
        assert scan.end == len(feed.buffer)
    assert offsets == SPEC.offsets()[:-1]
    assert feed.fed_to == len(CONTENT)


def _scanned(feed: Feed, chunk: bytes) -> list[int]:
    """File offsets of what a chunk completes, of which nothing is kept. The chunk's memory is reused afterwards."""
    memory = bytearray(chunk)
    out: list[int] = []
    for scan in feed.add(memory):
        out += (scan.base + scan.offset).tolist()
        feed.keep(scan.end)
    memory[:] = bytes(len(memory))
    return out


def test_a_long_event_is_joined_once() -> None:
    """Chunks wait until the event that was begun is whole, however little is asked for at least."""
    spec = SegmentSpec(tables=SPEC.tables, changes=[Insert("shop.orders", (1, "x" * 100_000)), Commit()])
    content = spec.to_bytes()
    feed = Feed(FILE, 0, None, minimum=1)
    scans = [len(scan) for start in range(0, len(content), 1000) for scan in feed.add(content[start : start + 1000])]
    assert sum(scans) == len(spec.events())
    assert len(scans) <= 4


def test_no_binlog() -> None:
    with pytest.raises(DecodeError, match=f"{FILE}: not a binlog"):
        list(Feed(FILE, 0, None, minimum=1).add(b"PAR1 and so on"))


def test_bytes_are_copied_before_the_flag_is_cleared() -> None:
    chunk = np.frombuffer(SegmentSpec(in_use=True).to_bytes(), np.uint8)
    list(Feed(FILE, 0, None, minimum=1).add(chunk))
    assert chunk[4 + 17] == 1
