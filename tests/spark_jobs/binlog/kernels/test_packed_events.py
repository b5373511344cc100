"""Length-encoded integers, the events that are complete, bodies put together."""

import numpy as np
import pytest

from spark_jobs.binlog.kernels import event_cells, packed_events
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.kernel_bytes import address


@pytest.mark.parametrize(
    "wire, value, size",
    [
        ("00", 0, 1),
        ("fa", 250, 1),
        ("fc0102", 0x0201, 3),
        ("fd010203", 0x030201, 4),
        ("fe01020304050607ff", None, -1),  # no length is that large
        ("fe0102030000000000", 0x030201, 9),
        ("fb", None, -1),
        ("ff", None, -1),
        ("fc01", None, -1),
        ("", None, -1),
    ],
)
def test_lenenc(wire: str, value: int | None, size: int) -> None:
    content = bytes.fromhex(wire)
    offset, _owner = address(content)
    expected = (0, -1) if value is None else (value, offset + size)
    assert packed_events.lenenc(offset, offset + len(content)) == expected


@pytest.mark.parametrize(
    "marks, count",
    [
        ([], 0),
        ([event_cells.MARK_BEGINS, 0], 0),
        ([event_cells.MARK_BEGINS, event_cells.MARK_ENDS], 2),
        ([event_cells.MARK_CONTROL, event_cells.MARK_BEGINS], 1),
    ],
)
def test_complete_events(marks: list[int], count: int) -> None:
    assert packed_events.complete_events(np.array(marks, np.uint8)) == count


def test_interleave() -> None:
    heads, _heads = address(b"abcdef")
    contents, _contents = address(b"12345")
    out = np.zeros(16, np.uint8)
    starts, lengths, sizes = np.array([4, 0]), np.array([2, 3]), np.array([1, 4])
    packed_events.interleave(heads, starts, lengths, contents, sizes, address_of(out))
    assert out.tobytes().rstrip(b"\0") == b"ef1abc2345"
