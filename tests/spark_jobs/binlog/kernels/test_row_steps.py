"""Rows by their steps: values, nulls, and rows that are cut."""

import numpy as np
import pytest

from spark_jobs.binlog.kernels import row_cells, row_steps
from spark_jobs.binlog.kernels.row_cells import CALENDAR
from tests.binlogs.kernel_bytes import Block, address

FIRST = bytes([0]) + (7).to_bytes(4, "little") + b"\x02ab"
NULLS = bytes([3])
HALF = bytes([2]) + (9).to_bytes(4, "little")


@pytest.mark.parametrize(
    "wire, rows, reason, column",
    [
        (FIRST, [(7, "ab")], row_cells.DONE, -1),
        (FIRST + NULLS + HALF, [(7, "ab"), (None, None), (9, None)], row_cells.DONE, -1),
        (FIRST + FIRST[:3], [(7, "ab")], row_cells.CUT_SHORT, 0),
        (FIRST + FIRST[:-1], [(7, "ab")], row_cells.CUT_SHORT, 1),
        (FIRST + FIRST[:-2], [(7, "ab")], row_cells.CUT_SHORT, 1),
    ],
)
def test_rows(wire: bytes, rows: list[tuple[int | None, str | None]], reason: int, column: int) -> None:
    block, state = Block(), np.full(row_cells.R_CELLS, -1, np.int64)
    offset, _owner = address(wire)
    outcome, count, after = row_steps.decode_by_steps(
        block.address, 0, 4, offset, offset + len(wire), False, 0, 0, state, *CALENDAR
    )
    assert (outcome, state[row_cells.R_COLUMN]) == (reason, column)
    assert block.rows(count) == rows
    assert after - offset == (len(wire) if reason == row_cells.DONE else len(FIRST))


def test_no_more_rows_than_there_is_room_for() -> None:
    block, state = Block(), np.zeros(row_cells.R_CELLS, np.int64)
    offset, _owner = address(FIRST * 3)
    result = row_steps.decode_by_steps(
        block.address, 0, 2, offset, offset + 3 * len(FIRST), False, 0, 0, state, *CALENDAR
    )
    assert result == (row_cells.DONE, 2, offset + 2 * len(FIRST))
