import pytest
from pyspark.sql import SparkSession

from spark_jobs.silver import table as silver
from spark_jobs.silver.inherited_rows import _settled

pytestmark = pytest.mark.spark

ADDED = "_op STRING, _position STRUCT<row: INT>, _committed_at TIMESTAMP, _raw MAP<STRING, STRING>"


def test_of_several_windows_the_last_row_of_each_key_is_inherited(spark: SparkSession) -> None:
    ops = [
        (1, "a", "insert", 1),
        (1, "b", "update", 3),
        (2, "a", "insert", 2),
        (2, "a", "delete", 4),
        (3, "c", "load", 5),
    ]
    rows = spark.createDataFrame(
        [(*cells, op, (row,), None, None) for *cells, op, row in ops], f"id INT, v STRING, {ADDED}"
    )
    columns = silver.Columns({"id": "INT", "v": "STRING"}, ("id",))
    settled = _settled(rows, columns, "shop: shop.t", lacks_older=False)
    assert {(row["id"], row["v"]) for row in settled.collect()} == {(1, "b"), (3, "c")}


@pytest.mark.parametrize("lacks_older", [True, False])
def test_of_a_keyless_table_the_copies_that_are_left_are_inherited(spark: SparkSession, lacks_older: bool) -> None:
    copies = [("a", 2), ("a", -1), ("b", 1), ("b", -1), *([("c", -1)] if lacks_older else [])]
    rows = spark.createDataFrame(
        [(v, count, "insert", (nth,), None, None) for nth, (v, count) in enumerate(copies)],
        f"v STRING, {silver.COPIES} BIGINT, {ADDED}",
    )
    settled = _settled(rows, silver.Columns({"v": "STRING"}, ()), "shop: shop.t", lacks_older=lacks_older)
    assert {(row["v"], row[silver.COPIES]) for row in settled.collect()} == {("a", 1)}
