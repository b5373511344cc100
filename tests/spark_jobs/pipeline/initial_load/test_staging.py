from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.errors import LostRace
from spark_jobs.lake.layout import Lake
from spark_jobs.pipeline.initial_load.commit import READING, STOPPED, LoadCommit
from spark_jobs.pipeline.initial_load.staging import StagedTable, columns_of
from spark_jobs.text import sql
from tests.timelines import NAME, OLD, at


def test_rows_wait_with_their_exact_texts_beside_the_columns() -> None:
    assert columns_of(OLD) == {"id": "INT", "v": "INT", "_raw": "MAP<STRING, STRING>"}


@pytest.mark.spark
def test_a_load_that_is_given_up_leaves_no_row_and_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).load("shop", NAME.schema, NAME.table)
    progress = LoadCommit(at(4), "batch", state=READING, read_from=at(4), definition=OLD, chunk_rows=10)
    head = table.new(columns_of(OLD), {})
    stage, late = (StagedTable(spark, NAME, table, head, progress, columns_of(OLD)) for _ in range(2))
    stage.overwrite()
    rows = spark.createDataFrame([(1, 10, None)], sql.columns(columns_of(OLD)))
    stage.append(rows, replace(progress, chunks=1))
    assert [row["v"] for row in table.read(spark, stage.head.version).collect()] == [10]
    with pytest.raises(LostRace):
        late.append(rows, progress)
    assert str(stage.given_up("was changed")) == "was changed"
    assert table.read(spark, stage.head.version).collect() == []
    newest = LoadCommit.of_head(table.head())
    assert newest
    assert (newest.state, newest.reason) == (STOPPED, "was changed")
