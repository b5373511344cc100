"""The row kernel on an event: its rows, or why there are none."""

import numpy as np
import pytest

from spark_jobs.binlog.kernels import event_cells, row_cells, row_decode
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.kernels.row_cells import CALENDAR
from tests.binlogs.kernel_bytes import Block, address
from tests.binlogs.segment_spec import Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

SPEC = SegmentSpec([Table("shop.orders", id=INT, note=VARCHAR(40))], [Insert("shop.orders", (1, "a"))])
EVENT = next(event for event in SPEC.events() if event[4] == 30)[:-4] + b"\x02\x02\0\0\0"


def decoded(event: bytes, block: Block) -> tuple[int, np.ndarray]:
    offset, _owner = address(event)
    cells = np.zeros((1, event_cells.E_CELLS), np.int64)
    cells[0, [event_cells.E_ADDRESS, event_cells.E_LENGTH]] = offset, len(event)
    cells[0, [event_cells.E_OFFSET, event_cells.E_COMMIT]] = 400, 77
    state = np.zeros(row_cells.R_CELLS, np.int64)
    block.cells[row_cells.B_ROOM] = 200
    blocks = np.array([block.address])
    return row_decode.decode_rows(address_of(cells), 1, blocks, state, *CALENDAR), state


def test_rows_and_what_they_have_beside_their_columns() -> None:
    block = Block()
    reason, state = decoded(EVENT, block)
    assert (reason, state[row_cells.R_EVENT], block.cells[row_cells.B_ROWS]) == (row_cells.DONE, 1, 2)
    assert block.rows(2) == [(1, "a"), (2, None)]
    assert (block.ops[:2].tolist(), block.ordinals[:2].tolist()) == ([1, 1], [0, 1])
    assert (block.offsets[:2].tolist(), block.committed[:2].tolist()) == ([400, 400], [77, 77])


@pytest.mark.parametrize(
    "columns, capacity, length, reason",
    [
        (3, 4, len(EVENT), row_cells.OTHER_COLUMN_COUNT),
        (2, 0, len(EVENT), row_cells.BLOCK_FULL),
        (2, 1, len(EVENT), row_cells.BLOCK_FULL),
        (2, 4, 25, row_cells.CUT_SHORT),
        (2, 4, len(EVENT) - 1, row_cells.CUT_SHORT),
    ],
)
def test_why_it_came_back(columns: int, capacity: int, length: int, reason: int) -> None:
    block = Block()
    block.cells[[row_cells.B_COLUMNS, row_cells.B_CAPACITY]] = columns, capacity
    assert decoded(EVENT[:length], block)[0] == reason
