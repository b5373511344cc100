"""Memory for kernels. Put here: bytes and blocks that tests of several kernels need. Not here: cases."""

import numpy as np

from spark_jobs.binlog.kernels import row_cells
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.kernels.row_cells import COPY_4, TEXT_1


def address(content: bytes) -> tuple[int, np.ndarray]:
    """Position where a copy of the bytes lies, and what keeps it there. Bytes that must not be read stand around it."""
    array = np.frombuffer(b"\xaa" * 32 + content + b"\x55" * 64, np.uint8)
    return address_of(array) + 32, array


class Block:
    """A block of four rows, of an INT column and a VARCHAR, as blocks.py lays it out for the row kernel."""

    ROWS = 4

    def __init__(self) -> None:
        self.numbers = np.zeros((2, self.ROWS + 8), np.int32)
        self.ends = np.zeros((2, self.ROWS + 1), np.int32)
        self.text = np.zeros((2, 256), np.uint8)
        self.nulls = np.zeros((2, self.ROWS, 1), np.uint64)
        self.marked = np.zeros((2, 2), np.uint8)
        self.steps = np.zeros((2, 2, row_cells.STEP_CELLS), np.int64)
        for program in range(2):
            numbers, ends, text = (
                address_of(array) + program * array.strides[0] for array in (self.numbers, self.ends, self.text)
            )
            self.steps[program, 0, :3] = COPY_4, numbers, 4
            self.steps[program, 1, :6] = TEXT_1, ends, 4, text, 0, 200
        self.ops, self.offsets, self.committed, self.ordinals = (
            np.zeros(self.ROWS, kind) for kind in (np.uint8, np.int64, np.int64, np.int32)
        )
        self.cells = np.zeros(row_cells.B_CELLS, np.int64)
        self.cells[: row_cells.B_WORDS + 1] = 0, self.ROWS, 2, 1
        for cell, array in (
            (row_cells.B_STEPS, self.steps),
            (row_cells.B_NULLS, self.nulls),
            (row_cells.B_MARKED, self.marked),
            (row_cells.B_OPS, self.ops),
            (row_cells.B_OFFSETS, self.offsets),
            (row_cells.B_COMMITTED, self.committed),
            (row_cells.B_ORDINALS, self.ordinals),
        ):
            self.cells[cell] = address_of(array)
        self.address = address_of(self.cells)

    def rows(self, count: int) -> list[tuple[int | None, str | None]]:
        """The first rows of program 0; the last text ends where its step says."""
        ends = [*self.ends[0, :count].tolist(), int(self.steps[0, 1, row_cells.STEP_USED])]
        cells: list[tuple[int | None, str | None]] = []
        for row in range(count):
            null = int(self.nulls[0, row, 0])
            text = self.text[0, ends[row] : ends[row + 1]].tobytes().decode()
            cells.append((None if null & 1 else int(self.numbers[0, row]), None if null & 2 else text))
        return cells
