"""Slices end with transactions, around statements, and where they are large enough."""

import numpy as np
import pytest

from spark_jobs.binlog.kernels import event_cells, slice_cut

BEGINS, ENDS = event_cells.MARK_BEGINS, event_cells.MARK_ENDS
CONTROL, STATEMENT = event_cells.MARK_CONTROL, event_cells.MARK_STATEMENT
PLAIN = [BEGINS, 0, ENDS]
ROWS = event_cells.SLICE_ROWS


def cut(marks: list[int], target: int, final: int) -> tuple[list[tuple[int, ...]], int]:
    """Slices of events of 100 bytes each."""
    n = len(marks)
    owners = np.cumsum([mark & BEGINS for mark in marks]).astype(np.int32) - 1
    owners[[mark & CONTROL != 0 for mark in marks]] = -1
    transactions = np.zeros((n, event_cells.TX_COLUMNS), np.int64)
    transactions[: owners.max() + 1, event_cells.TX_START] = [100 * k for k in range(n) if marks[k] & BEGINS]
    slices = np.zeros((3 * n + 3, 3), np.int64)
    offsets, lengths = np.arange(n, dtype=np.int64) * 100, np.full(n, 100, np.int64)
    bits = np.array(marks, np.uint8)
    count, rest = slice_cut.cut(offsets, lengths, owners, bits, transactions, 0, target, 0, final, slices)
    return [tuple(row) for row in slices[:count].tolist()], int(rest)


@pytest.mark.parametrize(
    "marks, target, final, slices, rest",
    [
        (PLAIN * 3, 10_000, 1, [(0, 9, ROWS)], 9),
        (PLAIN * 3, 10_000, 0, [], 0),
        (PLAIN * 3, 300, 0, [(0, 3, ROWS), (3, 6, ROWS), (6, 9, ROWS)], 9),
        (PLAIN * 3, 500, 1, [(0, 6, ROWS), (6, 9, ROWS)], 9),
        ([*PLAIN, BEGINS, 0], 10_000, 1, [(0, 3, ROWS)], 3),
        ([*PLAIN, BEGINS, STATEMENT | ENDS], 10_000, 1, [(0, 3, ROWS), (3, 5, event_cells.SLICE_STATEMENT)], 5),
        ([CONTROL, *PLAIN], 10_000, 1, [(0, 1, event_cells.SLICE_CONTROL), (1, 4, ROWS)], 4),
    ],
)
def test_cut(marks: list[int], target: int, final: int, slices: list[tuple[int, ...]], rest: int) -> None:
    assert cut(marks, target, final) == (slices, rest)
