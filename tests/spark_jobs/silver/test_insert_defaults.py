"""Values of defaults against Spark's own reading of the same literals, and rows that get them."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.silver.insert_defaults import default_scalar, with_defaults
from spark_jobs.text.sql import literal

TEXT = "it's \\ \n ${x} \u0024 ünï"
DEFAULTS = [
    ("NULL", pa.string(), "STRING"),
    ("5", pa.int32(), "INT"),
    ("-128", pa.int8(), "TINYINT"),
    ("18446744073709551615", pa.decimal128(20, 0), "DECIMAL(20,0)"),
    ("'-1.50'", pa.decimal128(6, 2), "DECIMAL(6,2)"),
    ("'0.1'", pa.float32(), "FLOAT"),
    ("'1E+5'", pa.float64(), "DOUBLE"),
    ("'3.4028235e+38'", pa.float32(), "FLOAT"),
    ("2155", pa.int16(), "SMALLINT"),
    ("'2024-02-29'", pa.date32(), "DATE"),
    ("'2024-02-29 12:34:56.123456'", pa.timestamp("us"), "TIMESTAMP_NTZ"),
    ("'2024-02-29 00:00:00'", pa.timestamp("us"), "TIMESTAMP_NTZ"),
    ("X'00ff27'", pa.binary(), "BINARY"),
    ("X''", pa.binary(), "BINARY"),
    (literal(TEXT), pa.string(), "STRING"),
    ("''", pa.string(), "STRING"),
    ("'-00:00:01.5'", pa.string(), "STRING"),
]


@pytest.mark.spark
def test_a_default_is_what_spark_reads(spark: SparkSession) -> None:
    casts = [f"CAST({sql} AS {kind}) AS c{at}" for at, (sql, _, kind) in enumerate(DEFAULTS)]
    row = spark.range(1).selectExpr(*casts).toArrow()
    expected = [row.column(at)[0].as_py() for at in range(len(DEFAULTS))]
    assert [default_scalar(sql, kind).as_py() for sql, kind, _ in DEFAULTS] == expected


def test_a_text_is_read_as_it_was_written() -> None:
    assert default_scalar(literal(TEXT), pa.string()).as_py() == TEXT


def test_rows_get_defaults_where_they_lack_columns() -> None:
    columns = (
        Column("id", 3),
        Column("a", 3, default="7"),
        Column("b", 3, default=None),
        Column("c", 3, default="NULL"),
    )
    rows = pa.RecordBatch.from_pydict({name: pa.array([1, None], pa.int32()) for name in ("id", "a", "b", "c")})
    lacking = np.array([[False, True, False, False], [False, True, True, True]])
    filled = with_defaults(rows, TableDefinition(TableName("shop", "t"), columns, (0,)), lacking)
    assert filled.to_pylist() == [{"id": 1, "a": 7, "b": 1, "c": 1}, {"id": None, "a": 7, "b": None, "c": None}]
    assert filled.schema == rows.schema
