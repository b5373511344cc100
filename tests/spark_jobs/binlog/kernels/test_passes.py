"""Passes end where nothing more can be read, with everything as it was."""

import os
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.binlog.events.types import MEANINGS
from spark_jobs.binlog.kernels import address_of, event_cells, passes, row_cells


def test_words_are_copied() -> None:
    source, target = np.arange(9), np.zeros(9, np.int64)
    passes._copy_words(source, target, 5)
    assert target.tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0]


@pytest.mark.parametrize("base, outcome", [(4, passes.PASSES_OVER), (1000, passes.PASSES_FULL)])
def test_a_file_that_is_at_its_end(base: int, outcome: int, tmp_path: Path) -> None:
    tmp_path.joinpath("log").touch()
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)
    state = np.zeros(event_cells.S_CELLS, np.int64)
    state[event_cells.S_PHASE] = event_cells.INSIDE
    scanner = (
        state,
        np.zeros((4, 2), np.int64),
        np.zeros((1, event_cells.TX_COLUMNS), np.int64),
        np.full(16, -1, np.int32),
        np.zeros((4, 2), np.int64),
    )
    backup = np.zeros((4, 2), np.int64), np.zeros((1, event_cells.TX_COLUMNS), np.int64)
    rows = np.full(4, -1, np.int32), np.zeros((8, event_cells.E_CELLS), np.int64)
    memory = np.zeros(4096, np.uint8)
    cells = np.zeros(passes.P_CELLS, np.int64)
    cells[[passes.P_BASE, passes.P_EVENTS]] = base, -1
    try:
        result = passes.take_passes(
            descriptor, address_of(memory), 1024, 512, 1 << 20, 1000, 4, MEANINGS, scanner, backup, rows,
            np.zeros(1, np.int64), np.zeros(row_cells.R_CELLS, np.int64), cells, 0, 0,
        )  # fmt: skip
    finally:
        os.close(descriptor)
    assert result == (outcome, row_cells.DONE)
    assert (state[event_cells.S_PHASE], cells[passes.P_BASE]) == (event_cells.INSIDE, base)
