"""What tests read of a table without a JVM is what Spark reads of it: values of all types, marked rows, versions."""

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.lake.table import Table
from spark_jobs.text import sql
from tests.lakes.lake_tables import rows_by_deltalake, rows_by_spark
from tests.spark_jobs.delta.tables import BRONZE, MAPPED, append, begin


def by_key(rows: list[Row]) -> list[str]:
    """Rows as text, which tells types and signs of zero apart."""
    return [repr(row) for row in sorted(rows, key=lambda row: row["key"])]


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("properties", [MAPPED, BRONZE])
def test_rows_are_those_that_spark_reads(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    table = Table(str(tmp_path), plain=True)
    append(append(begin(table.path, properties), range(70)), range(70, 100))
    assert by_key(rows_by_deltalake(table.path)) == by_key(rows_by_spark(table))
    if properties is MAPPED:  # where it marks rows, and rewrites no file
        spark.sql(f"DELETE FROM {sql.delta(table.path)} WHERE key % 3 = 1")
    spark.sql(f"ALTER TABLE {sql.delta(table.path)} ADD COLUMN more INT")
    newest = by_key(rows_by_deltalake(table.path))
    assert len(newest) == (67 if properties is MAPPED else 100)
    assert newest == by_key(rows_by_spark(table))
    assert by_key(rows_by_deltalake(table.path, 1)) == by_key(rows_by_spark(table, 1))
