import pytest
from pyspark.sql import SparkSession

from spark_jobs.downstream.silver_reader import _after, among, identities_of, identity_names, newest, with_gone
from spark_jobs.silver import table as silver
from tests.timelines import at

COLUMNS = silver.Columns({"id": "INT", "v": "STRING"}, ("id",))
TYPES = "id INT, v STRING, _op STRING, _position STRUCT<row: INT>, _committed_at TIMESTAMP, _raw MAP<STRING, STRING>"


def test_loaded_rows_are_in_no_window() -> None:
    assert _after(None) == "TRUE"
    assert _after(at(500)).endswith(f"AND _op <> '{silver.Op.LOAD}'")


@pytest.mark.spark
def test_the_newest_row_of_each_key_is_merged(spark: SparkSession) -> None:
    changes = [(1, "a", "insert", 1), (1, "b", "update", 3), (2, "a", "insert", 2), (2, "a", "delete", 4)]
    rows = spark.createDataFrame([(*cells, (row,), None, None) for *cells, row in changes], TYPES)
    newest_rows = newest(with_gone(rows, COLUMNS), COLUMNS)
    assert {(row["id"], row["v"], row["_gone"]) for row in newest_rows.collect()} == {(1, "b", False), (2, "a", True)}
    touched = identities_of(rows.where("id = 2"), COLUMNS).distinct()
    assert touched.columns == identity_names(COLUMNS)
    assert {row["id"] for row in among(newest_rows, touched).collect()} == {2}
