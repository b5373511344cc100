"""Cells and bits that must not be the same."""

import re

import numpy as np
import pytest

from spark_jobs.binlog.kernels import event_cells


def constants(pattern: str) -> dict[str, int]:
    return {name: int(value) for name, value in vars(event_cells).items() if re.fullmatch(pattern, name)}


@pytest.mark.parametrize("pattern", ["MARK_[A-Z_]+", "TX_HAS_ROWS|TX_XA|TX_ROLLED_BACK", "CHOSEN_[A-Z_]+"])
def test_bits_are_apart(pattern: str) -> None:
    bits = constants(pattern)
    assert len(bits) > 2
    assert all(bit.bit_count() == 1 for bit in bits.values())
    assert np.bitwise_or.reduce([*bits.values()]) == sum(bits.values())


@pytest.mark.parametrize(
    "pattern, cells",
    [
        ("TX_(START|STOP|GTID|HIGH|LOW|NUMBER|COMMITTED|FLAGS|TAG)", event_cells.TX_COLUMNS - 3),
        ("S_(?!CELLS)[A-Z_]+", event_cells.S_CELLS - event_cells.RECENT + 1),
        ("E_(?!CELLS|BYTES)[A-Z]+", event_cells.E_CELLS),
    ],
)
def test_cells_fill_their_arrays(pattern: str, cells: int) -> None:
    assert sorted(constants(pattern).values()) == [*range(cells)]
