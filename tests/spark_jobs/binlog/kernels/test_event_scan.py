"""The walk stops at what it cannot pass, says why, and leaves what is not whole."""

from collections.abc import Callable

import numpy as np
import pytest

from spark_jobs.binlog.events.types import MEANINGS
from spark_jobs.binlog.kernels import event_cells, event_scan
from tests.binlogs.kernel_bytes import address
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT

SPEC = SegmentSpec([Table("shop.orders", key=["id"], id=INT)], [Insert("shop.orders", (1,)), Commit()])
OFFSETS = SPEC.offsets()
MAP = next(offset for offset, event in zip(OFFSETS, SPEC.events(), strict=True) if event[4] == 19)


def flipped(content: bytes, offset: int) -> bytes:
    return content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :]


def scanned(content: bytes, capacity: int = 16) -> tuple[int, int, list[int]]:
    """(why, offset, offsets of events noted)."""
    offset, _owner = address(content)
    cells = tuple(np.zeros(capacity, kind) for kind in (np.int64, np.int64, np.uint8, np.int32, np.int32, np.uint8))
    state = np.zeros(event_cells.S_CELLS, np.int64)
    transactions = np.zeros((capacity, event_cells.TX_COLUMNS), np.int64)
    maps = np.zeros((4, 2), np.int64), np.full(16, -1, np.int32), np.zeros((4, 2), np.int64)
    outcome, end = event_scan.scan(offset, 4, len(content), 0, 4, MEANINGS, state, cells, transactions, *maps)
    return outcome, end, cells[0][: state[event_cells.S_EVENTS]].tolist()


@pytest.mark.parametrize(
    "change, outcome, stop",
    [
        (lambda content: content, event_cells.NEW_MAP, MAP),
        (lambda content: content[: MAP + 18], event_cells.SCANNED, MAP),
        (lambda content: content[: MAP - 1], event_cells.SCANNED, OFFSETS[OFFSETS.index(MAP) - 1]),
        (lambda content: flipped(content, 30), event_cells.BAD_CHECKSUM, 4),
        (lambda content: content[:13] + bytes(4) + content[17:], event_cells.BAD_LENGTH, 4),
    ],
)
def test_where_a_walk_stops(change: Callable[[bytes], bytes], outcome: int, stop: int) -> None:
    before = [offset for offset in OFFSETS if offset < stop]
    assert scanned(change(SPEC.to_bytes())) == (outcome, stop, before)


def test_arrays_that_are_full_stop_the_walk() -> None:
    assert scanned(SPEC.to_bytes(), 1) == (event_cells.EVENTS_FULL, OFFSETS[1], [4])
