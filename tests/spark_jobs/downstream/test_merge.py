import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.downstream.merge import _LEAVES_ROWS, _stored
from spark_jobs.downstream.merge_job import ADDED, MergeJob
from spark_jobs.downstream.multi_source import PartTable
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.silver import table as silver

TARGET = Table("lake/downstream/s/t", plain=False)
TYPES = "id INT, _position STRUCT<row: INT>, _committed_at TIMESTAMP, _raw MAP<STRING, STRING>, _gone BOOLEAN"


@pytest.mark.spark
@pytest.mark.parametrize("target, marks", [(TARGET, []), (PartTable(TARGET, ("eu", "shop", "t")), ["eu", "shop", "t"])])
def test_an_empty_table_gets_the_rows_that_are_there_with_their_marks(
    spark: SparkSession, target: Table, marks: list[str]
) -> None:
    rows = spark.createDataFrame([(1, (1,), None, None, False), (2, (2,), None, None, True)], TYPES)
    columns = silver.Columns({"id": "INT"}, ("id",))
    job = MergeJob("eu", TableName("shop", "t"), columns, TARGET, Head(1, 1, None), target)
    stored = _stored(rows, job)
    assert stored.columns[:4] == ["id", *ADDED]
    assert [(row["id"], *row[4:]) for row in stored.collect()] == [(1, *marks)]


@pytest.mark.parametrize(
    "step, leaves", [("ADD COLUMN (`v` INT)", True), ("UPDATE SET `v` = 1", False), ("DROP COLUMN `v`", False)]
)
def test_steps_that_change_rows_replace_a_part(step: str, leaves: bool) -> None:
    assert step.startswith(_LEAVES_ROWS) is leaves
