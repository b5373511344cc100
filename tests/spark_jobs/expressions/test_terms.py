from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.expressions.terms import Cells, Evaluate, choice, combined, conjunction, constant, united

FAULT = 7


def truths(*values: Any) -> Evaluate:
    """A condition of some rows; Ellipsis for a fault."""
    faults = np.array([FAULT if value is ... else 0 for value in values], np.int32)
    array = pa.array([None if value is ... else value for value in values], pa.bool_())
    return lambda _: Cells(array, faults if faults.any() else None)


@pytest.mark.parametrize(
    "is_and, left, right, value",
    [
        (True, False, ..., False),
        (True, ..., False, False),
        (True, True, ..., ...),
        (True, None, ..., ...),
        (False, True, ..., True),
        (False, ..., True, True),
        (False, False, ..., ...),
        (False, None, False, None),
    ],
)
def test_a_side_that_decides_does_so_whatever_the_other_is(
    is_and: bool, left: object, right: object, value: object
) -> None:
    cells = conjunction(truths(left), truths(right), is_and=is_and)({})
    assert cells.over(1).to_pylist() == [None if value is ... else value]
    assert bool(cells.faults is not None and cells.faults.any()) is (value is ...)


def test_faults_of_what_is_not_chosen_go() -> None:
    cells = choice(truths(True, False, None, ...), truths(True, ..., ..., True), truths(..., True, False, True))({})
    assert cells.over(4).to_pylist() == [True, True, False, True]
    assert cells.faults is not None
    assert cells.faults.tolist() == [0, 0, 0, FAULT]


def test_one_value_of_all_rows_is_a_scalar_until_it_is_asked_for() -> None:
    evaluate = combined((constant(1, pa.int64()), constant(2, pa.int64())), lambda left, right: left or right)
    assert evaluate({}).over(3).to_pylist() == [1, 1, 1]
    assert united([None, None]) is None
