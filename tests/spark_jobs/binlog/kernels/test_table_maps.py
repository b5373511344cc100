"""Bodies of TABLE_MAP events are looked up by hash, and compared byte by byte."""

import numpy as np
import pytest

from spark_jobs.binlog.events.scanner import TableMaps
from spark_jobs.binlog.kernels import table_maps
from tests.binlogs.kernel_bytes import address
from tests.binlogs.segment_spec import Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR


def test_body_hash_tells_lengths_apart() -> None:
    offset, _owner = address(bytes(64))
    assert len({table_maps.body_hash(offset, count) for count in range(64)}) == 64


@pytest.mark.parametrize("size", [1, 7, 8, 9, 24, 31])
def test_bytes_are_the_same_but_for_any_that_differs(size: int) -> None:
    content = bytes(range(size))
    left, _owner = address(content)
    right, copy = address(content)
    assert table_maps._equal(left, right, size)
    writable = np.array(copy)
    for k in range(size):
        writable[32 + k] ^= 1
        duplicate, _duplicate_owner = address(writable[32 : 32 + size].tobytes())
        assert not table_maps._equal(left, duplicate, size)
        writable[32 + k] ^= 1


def test_known_bodies_have_their_ordinals_and_others_none() -> None:
    tables = [Table(f"shop.t{k}", id=INT, note=VARCHAR(40)) for k in range(9)]
    events = SegmentSpec(tables, [Insert(f"shop.t{k}", (1, "a")) for k in range(9)]).events()
    mapped = [event for event in events if event[4] == 19]
    maps = TableMaps()
    for event in mapped[:8]:
        maps.add(event, 4, "here")
    for ordinal, event in enumerate(mapped):
        offset, _owner = address(event[25:-4])
        expected = ordinal if ordinal < 8 else -1
        assert table_maps.find_map(offset, len(event) - 29, maps.slots, maps.bodies) == expected
