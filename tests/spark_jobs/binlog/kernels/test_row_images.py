"""Bitmaps of columns, and sizes of values on the wire."""

import numpy as np
import pytest

from spark_jobs.binlog.kernels import row_images
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.kernel_bytes import address


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 63, 64, 65, 130])
def test_a_bitmap_is_full_where_no_column_is_missing(columns: int) -> None:
    full = (1 << columns) - 1
    for missing in (None, *range(columns)):
        bits = full if missing is None else full & ~(1 << missing)
        offset, _owner = address(bits.to_bytes(24, "little"))
        assert row_images.is_full(offset, columns) == (missing is None)


@pytest.mark.parametrize("columns", [3, 8, 64, 70])
def test_a_column_that_the_mask_leaves_out_counts_as_null(columns: int) -> None:
    rng = np.random.default_rng(columns)
    present = rng.integers(0, 2, columns).astype(bool)
    nulls = rng.integers(0, 2, int(present.sum())).astype(bool)
    mask, _mask = address(np.packbits(present, bitorder="little").tobytes())
    wire = np.packbits(nulls, bitorder="little").tobytes()
    bits, _bits = address(wire)
    target = np.zeros(2, np.uint64)
    end = row_images.spread_masks(mask, bits, bits + len(wire), columns, address_of(target))
    expected = np.ones(columns, bool)
    expected[present] = nulls
    assert end == bits + len(wire)
    assert np.unpackbits(target.view(np.uint8), bitorder="little")[:columns].tolist() == expected.tolist()
    if wire:
        at = address_of(target)
        assert row_images.spread_masks(mask, bits, bits + len(wire) - 1, columns, at) > bits + len(wire) - 1


@pytest.mark.parametrize(
    "size, wire, size_read",
    [(4, "01020304", 4), (4, "010203", -1), (-1, "02aabb", 3), (-2, "0100aa", 3), (-2, "01", -1)],
)
def test_a_value_ends_after_its_bytes(size: int, wire: str, size_read: int) -> None:
    content = bytes.fromhex(wire)
    offset, _owner = address(content)
    after = row_images._past_field(offset, offset + len(content), size)
    assert after == (offset + size_read if size_read >= 0 else -1)
