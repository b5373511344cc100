"""The calendar, and cells by address."""

from datetime import date, timedelta

import numpy as np
import pytest

from spark_jobs.binlog.kernels import intrinsics, row_cells
from spark_jobs.binlog.kernels.addresses import address_of


@pytest.mark.parametrize("year, month", [(1, 1), (1899, 12), (1970, 1), (2000, 2), (2024, 2), (2023, 2), (9999, 11)])
def test_months_begin_and_end_as_in_python(year: int, month: int) -> None:
    at = year * 13 + month
    first = date(year, month, 1)
    after = (first + timedelta(days=31)).replace(day=1)
    assert row_cells.MONTH_START[at] + 1 == (first - date(1970, 1, 1)).days
    assert row_cells.MONTH_LENGTH[at] == (after - first).days


@pytest.mark.parametrize("year, month", [(0, 1), (2024, 0), (0, 0)])
def test_a_zero_in_a_month_is_in_no_calendar(year: int, month: int) -> None:
    assert row_cells.MONTH_LENGTH[year * 13 + month] == 0


def test_cells_are_words() -> None:
    words = np.array([5, -(1 << 63), -1])
    assert [intrinsics.cell(address_of(words), k) for k in range(3)] == words.tolist()
