from datetime import date

import pyarrow as pa
import pytest

from spark_jobs.delta.schema import from_spark_types
from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.as_of.table_rows import RowQuery, wanted_keys

SCHEMA = from_spark_types({"a": "INT", "b": "STRING", "c": "DATE", "d": "BINARY"}, column_mapping=False)


@pytest.mark.parametrize(
    "key, values, expected",
    [
        (["a"], [("7",)], [7]),
        (["a"], [(7,)], [7]),
        (["b"], [("7",)], ["7"]),
        (["c"], [("2026-01-02",)], [date(2026, 1, 2)]),
        (["d"], [("0x41ff",)], [b"A\xff"]),
        (["b"], ["a, b"], ["a, b"]),
    ],
)
def test_values_of_a_key_are_of_its_type(key: list[str], values: list[tuple[object]], expected: list[object]) -> None:
    (column, *_) = wanted_keys(values, SCHEMA, key, "t").values
    assert column.to_pylist() == expected


def test_a_key_of_two_columns_is_looked_for_once() -> None:
    keys = wanted_keys(["1, x", (1, "x"), (2, "x")], SCHEMA, ["a", "b"], "t")
    rows = pa.table({"a": pa.array([1, 2, 1], pa.int32()), "b": ["x", "y", "z"]})
    rows = rows.append_column("_raw", pa.nulls(3, pa.map_(pa.string(), pa.string())))
    numbers, ordinals = keys.ordinals_of(rows)
    assert (numbers.tolist(), ordinals.tolist()) == ([0], [0])


@pytest.mark.parametrize(
    "key, values, problem",
    [
        ([], [(1,)], "t has no key"),
        (["a"], [("x",)], "what is given for a of t is no INT"),
        (["a"], [(2**40,)], "what is given for a of t is no INT"),
        (["a", "b"], [(1,)], r"the key of t is \(a, b\): give 2 values, not 1"),
    ],
)
def test_what_is_no_key(key: list[str], values: list[tuple[object]], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        wanted_keys(values, SCHEMA, key, "t")


def test_what_is_no_condition() -> None:
    with pytest.raises(ConfigError, match="names no column"):
        RowQuery.of((), "1 = 1")
