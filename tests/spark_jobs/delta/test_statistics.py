import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.delta import statistics
from spark_jobs.delta.schema import from_spark_types
from spark_jobs.delta.statistics import Bounds

TIME = datetime.fromisoformat("2020-01-02T03:04:05.123456")
CASES = [
    ("INT", [3, None, -1], -1, 3, 1),
    ("BIGINT", [1 << 62], 1 << 62, 1 << 62, 0),
    ("BOOLEAN", [True, False], None, None, 0),
    ("DOUBLE", [1.5, -0.5], -0.5, 1.5, 0),
    ("DOUBLE", [1.5, float("nan")], 1.5, "NaN", 0),
    ("DOUBLE", [float("nan"), None], "NaN", "NaN", 1),
    ("FLOAT", [float("inf"), float("-inf")], "-Infinity", "Infinity", 0),
    (
        "DECIMAL(38,10)",
        [Decimal("1234567890.0123456789"), Decimal(-1)],
        Decimal("-1.0000000000"),
        Decimal("1234567890.0123456789"),
        0,
    ),
    ("STRING", ["b", "é", "a"], "a", "é", 0),
    ("STRING", ["a" * 32, "b" * 32], "a" * 32, "b" * 32, 0),
    ("STRING", ["a" * 33], "a" * 32, "a" * 32 + "\x7f", 0),
    ("STRING", ["a" * 32 + "ü"], "a" * 32, "a" * 32 + "\U0010ffff", 0),
    ("STRING", ["a" * 32 + "\x7f"], "a" * 32, "a" * 32 + "\U0010ffff", 0),
    ("STRING", ["😀" * 40], "😀" * 32, "😀" * 32 + "\U0010ffff", 0),
    ("STRING", ["\U0010ffff" * 40], "\U0010ffff" * 32, None, 0),
    ("STRING", [None], None, None, 1),
    ("BINARY", [b"a"], None, None, 0),
    ("DATE", [date(1, 1, 2), date(9999, 12, 31)], "0001-01-02", "9999-12-31", 0),
    ("TIMESTAMP", [TIME.replace(tzinfo=UTC)], "2020-01-02T03:04:05.123Z", "2020-01-02T03:04:05.123Z", 0),
    ("TIMESTAMP", [datetime(1, 1, 1, 0, 0, 0, 999999, UTC)], "0001-01-01T00:00:00.999Z", "0001-01-01T00:00:00.999Z", 0),
    ("TIMESTAMP_NTZ", [TIME, None], "2020-01-02T03:04:05.123", "2020-01-02T03:04:05.123", 1),
    ("MAP<STRING, STRING>", [[("a", "b")], None], None, None, 1),
    ("ARRAY<FLOAT>", [[1.0]], None, None, 0),
]


@pytest.mark.parametrize("ddl, values, minimum, maximum, nulls", CASES)
def test_statistics_of_a_column(ddl: str, values: list[Any], minimum: Any, maximum: Any, nulls: int) -> None:
    schema = from_spark_types({"c": ddl}, False)
    rows = pa.table({"c": pa.array(values, schema.arrow(True).field(0).type)})
    text = statistics.collect(rows, schema, tight_bounds=False)
    parsed = json.loads(text, parse_float=Decimal if "DECIMAL" in ddl else float)
    assert parsed["numRecords"] == len(values)
    assert parsed["minValues"].get("c") == minimum
    assert parsed["maxValues"].get("c") == maximum
    assert parsed["nullCount"] == {"c": nulls}
    assert "tightBounds" not in parsed


@pytest.mark.parametrize("ddl, values", [(ddl, values) for ddl, values, *_ in CASES if "<" not in ddl])
def test_bounds_include_all_values(ddl: str, values: list[Any]) -> None:
    schema = from_spark_types({"c": ddl}, True)
    column = schema.column("c")
    rows = pa.table({column.physical_name: pa.array(values, column.arrow(True).type)})
    bounds = statistics.bounds(statistics.parse(statistics.collect(rows, schema, tight_bounds=True)), column)
    present = [value for value in values if value is not None and value == value]  # noqa: PLR0124 -- NaN is not
    assert bounds.nulls == values.count(None)
    assert bounds.minimum is None or all(bounds.minimum <= value for value in present)
    assert bounds.maximum is None or all(bounds.maximum >= value for value in present)


def test_days_outside_of_the_calendar_have_no_bounds() -> None:
    schema = from_spark_types({"d": "DATE", "t": "TIMESTAMP"}, False)
    rows = pa.table(
        {"d": pa.array([-800_000], pa.int32()).cast(pa.date32()), "t": pa.array([1 << 61], pa.timestamp("us", "UTC"))}
    )
    parsed = statistics.parse(statistics.collect(rows, schema, tight_bounds=False))
    assert (parsed["minValues"], parsed["maxValues"], parsed["nullCount"]) == ({}, {}, {"d": 0, "t": 0})


def test_fields_of_structs_are_nested() -> None:
    schema = from_spark_types({"s": "STRUCT<a: INT, b: BINARY>"}, False)
    rows = pa.table(
        {"s": pa.array([{"a": 1, "b": b""}, None, {"a": None, "b": b""}], schema.arrow(True).field(0).type)}
    )
    parsed = json.loads(statistics.collect(rows, schema, tight_bounds=True))
    assert parsed == {
        "numRecords": 3,
        "minValues": {"s": {"a": 1}},
        "maxValues": {"s": {"a": 1}},
        "nullCount": {"s": {"a": 2, "b": 1}},
        "tightBounds": True,
    }


@pytest.mark.parametrize(
    "configuration, names",
    [
        ({}, 32),
        ({"delta.dataSkippingNumIndexedCols": "4"}, 4),
        ({"delta.dataSkippingNumIndexedCols": "0"}, 0),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, 40),
        ({"delta.dataSkippingStatsColumns": "c1, `c3`"}, ["c1", "c3"]),
    ],
)
def test_columns_that_statistics_are_kept_of(configuration: dict[str, str], names: int | list[str]) -> None:
    schema = from_spark_types({f"c{at}": "INT" for at in range(40)}, False)
    indexed = statistics.indexed_columns(schema, configuration).names
    assert indexed == (names if isinstance(names, list) else schema.names[:names])


def test_leaves_of_structs_count() -> None:
    schema = from_spark_types({"a": "INT", "s": "STRUCT<x: INT, y: STRUCT<p: INT, q: INT>>", "b": "INT"}, True)
    indexed = statistics.indexed_columns(schema, {"delta.dataSkippingNumIndexedCols": "3"})
    assert [column.name for column in indexed.all_columns()] == ["a", "s", "x", "y", "p"]
    assert indexed.column("s").physical_name == schema.column("s").physical_name


def test_a_file_with_a_deletion_vector_has_loose_bounds_with_all_digits() -> None:
    text = '{"numRecords":1,"minValues":{"d":1234567890.0123456789},"tightBounds":true}'
    assert statistics.loosened(text) == text.replace("true", "false")
    assert statistics.loosened(None) is None


@pytest.mark.parametrize(
    "ddl, value, expected",
    [
        ("BIGINT", 3, 3),
        ("DOUBLE", 3, 3.0),
        ("DECIMAL(20,2)", 3, Decimal(3)),
        ("TIMESTAMP_NTZ", "2020-01-02", datetime.fromisoformat("2020-01-02")),
        ("BIGINT", "3", None),
        ("DATE", "0000-00-00", None),
        ("STRING", 3, None),
    ],
)
def test_bounds_that_were_written_before_a_column_was_widened(ddl: str, value: Any, expected: Any) -> None:
    column = from_spark_types({"c": ddl}, False).column("c")
    assert statistics.bounds({"minValues": {"c": value}}, column) == Bounds(expected, None, None)
