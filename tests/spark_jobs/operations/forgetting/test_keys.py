"""Which rows have a key that is forgotten."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.operations.forgetting.keys import ForgottenKeys
from tests.spark_jobs.delta.tables import append, begin

ROWS = pa.table({"a": [1, 1, 2, None], "b": ["x", "y", "x", "x"], "_source": ["eu", "us", "eu", "eu"]})
KEYS = ForgottenKeys(("a", "b"), ((1, "x"), (2, "x")))


def test_a_row_has_a_key_by_all_of_its_columns() -> None:
    assert KEYS.has(ROWS).to_pylist() == [True, False, True, False]
    assert KEYS.without(ROWS).column("b").to_pylist() == ["y", "x"]
    assert KEYS.marked({"_source": "us"}).has(ROWS).to_pylist() == [False] * 4
    assert KEYS.marked({"_source": "eu"}).names == ["a", "b", "_source"]


@pytest.mark.parametrize(
    "cells, value",
    [
        (pa.array([1, 2], pa.int64()), 2),
        (pa.array([Decimal(1), Decimal(2)], pa.decimal128(20, 0)), 2),
        (pa.array([b"a", b"b"]), b"b"),
    ],
)
def test_values_are_compared_in_the_type_of_the_file(cells: pa.Array, value: object) -> None:
    assert ForgottenKeys(("k",), ((value,),)).has(pa.table({"k": cells})).to_pylist() == [False, True]


def test_a_type_that_does_not_hold_a_value_has_no_such_row() -> None:
    keys = ForgottenKeys(("k",), ((300,), ("x",)))
    assert keys.has(pa.table({"k": pa.array([1, 44], pa.int8())})).to_pylist() == [False, False]


def test_statistics_leave_files_out(tmp_path: Path) -> None:
    snapshot = append(append(begin(str(tmp_path / "t")), range(10)), range(100, 110))
    keys = ForgottenKeys(("key",), ((105,),))
    assert [keys.may_be_in(file, snapshot.schema) for file in snapshot.files] == [False, True]
    assert all(ForgottenKeys(("key",), (("text",),)).may_be_in(file, snapshot.schema) for file in snapshot.files)
