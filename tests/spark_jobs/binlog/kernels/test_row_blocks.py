"""What blocks have beside values: validity, room for text, text that is taken back."""

import numpy as np
import pytest

from spark_jobs.binlog.kernels import row_blocks, row_cells
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.kernel_bytes import Block


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 64, 77])
@pytest.mark.parametrize("words", [1, 2])
def test_validity_bitmaps(rows: int, words: int) -> None:
    nulls = np.random.default_rng(rows).integers(0, 1 << 63, (rows + 8, words)).astype(np.uint64)
    columns = np.array([0, 5, 62, *([64, 70] if words > 1 else [])])
    size = rows // 8 + 8
    bitmaps, counts = np.zeros((len(columns), size), np.uint8), np.zeros(len(columns), np.int64)
    row_blocks.validities(nulls, rows, columns, address_of(bitmaps), size, counts)
    for k, column in enumerate(columns.tolist()):
        null = (nulls[:rows, column >> 6] >> np.uint64(column & 63)) & np.uint64(1) != 0
        valid = np.unpackbits(bitmaps[k], bitorder="little")[:rows].astype(bool)
        assert (valid != null).all()
        assert counts[k] == null.sum()


def test_the_room_is_the_least_of_any_text() -> None:
    block = Block()
    variable = np.array([1, 3])
    block.cells[row_cells.B_VARIABLE] = address_of(variable)
    block.cells[row_cells.B_VARIABLES] = 2
    block.steps[1, 1, row_cells.STEP_USED] = 150
    assert row_blocks.text_room(block.address) == 50


def test_text_of_a_row_that_failed_is_taken_back() -> None:
    block = Block()
    block.ends[0, 2] = 17
    block.steps[0, 1, row_cells.STEP_USED] = 40
    row_blocks.take_back(block.address, 2, 0, 1)
    assert block.steps[0, 1, row_cells.STEP_USED] == 40
    row_blocks.take_back(block.address, 2, 0, 2)
    assert block.steps[0, 1, row_cells.STEP_USED] == 17


@pytest.mark.parametrize("first, after", [(1, 2), (1, 4)])
def test_rows_have_their_events_cells(first: int, after: int) -> None:
    block = Block()
    row_blocks.put_row_cells(block.address, first, after, np.uint8(3), 400, 77, 0, 9)
    inside = [first <= row < after for row in range(Block.ROWS)]
    assert block.ops.tolist() == [3 * here for here in inside]
    assert block.offsets.tolist() == [400 * here for here in inside]
    assert block.committed.tolist() == [77 * here for here in inside]
    assert block.ordinals.tolist() == [(9 + row - first) * here for row, here in enumerate(inside)]
