"""Weights of rows and of whole columns; lookups by them: test_mirror_rows.py and test_child_index.py."""

from dataclasses import replace

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.cascades.key_columns import RAW, KeyColumns, row_of
from spark_jobs.errors import TableStopped
from tests.spark_jobs.cascades.test_mirror_rows import DEFINITION

DOUBLE = 5


def test_a_row_and_its_columns_have_the_same_weights() -> None:
    columns = KeyColumns.of(DEFINITION, ["PID", "x"])
    pids, texts = pa.chunked_array([[5, None, 6]], pa.int32()), pa.chunked_array([["Á", "b", None]])
    weighed = [array.to_pylist() for array in columns.weighed([pids, texts])]
    assert weighed == [[5, None, 6], ["a", "b", None]]
    rows = [row_of(["Pid", "x"], {"Pid": pid, "x": text}, None) for pid, text in zip(*(pids, texts), strict=True)]
    rows = [row | {"pid": row["pid"].as_py(), "x": row["x"].as_py()} for row in rows]
    assert [columns.weights(row) for row in rows] == [(5, "a"), None, None]
    assert [array.to_pylist() for array in columns.columns_of([(5, "a")], [pa.int32(), pa.string()])] == [[5], ["a"]]


def test_a_column_of_nulls_has_no_weights() -> None:
    columns = KeyColumns.of(DEFINITION, ["x"])
    assert next(columns.weighed([pa.chunked_array([[None, None]], pa.string())])).null_count == 2


def test_zero_and_minus_zero_have_the_same_bytes() -> None:
    table = TableDefinition(TableName("shop", "c"), (Column("d", DOUBLE, 8),), (0,))
    columns = KeyColumns.of(table, ["d"])
    (weights,) = columns.weighed([pa.chunked_array([[0.0, -0.0]])])
    assert weights.buffers()[1].to_pybytes()[:16] == bytes(16)
    assert columns.columns_of([(-0.0,)], [pa.float64()])[0].buffers()[1].to_pybytes()[:8] == bytes(8)


def test_collations_that_compare_otherwise_differ() -> None:
    binary = replace(DEFINITION, columns=(*DEFINITION.columns[:2], replace(DEFINITION.columns[2], charset=46)))
    first, second = (KeyColumns.of(definition, ["x"]).comparisons for definition in (DEFINITION, binary))
    assert first != second
    assert KeyColumns.of(DEFINITION, ["pid"]).comparisons == ("",)


def test_a_value_that_no_typed_column_holds_stops_its_table() -> None:
    with pytest.raises(TableStopped, match="one that no typed column holds"):
        KeyColumns.of(DEFINITION, ["pid"]).weights({"pid": None, RAW: [("Pid", "0x00")]})
