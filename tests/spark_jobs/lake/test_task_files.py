"""Files that tasks of Spark write of the rows that they are given."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import DecodeError, LostRace
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.lake.task_files import write_in_tasks
from spark_jobs.log.position import Position

pytestmark = pytest.mark.spark

Batches = Iterator[pa.RecordBatch]
COLUMNS = {"id": "BIGINT", "half": "DOUBLE"}


def test_each_task_that_has_rows_writes_a_file_of_all_its_batches(spark: SparkSession, lake: Path) -> None:
    def halves(batches: Batches) -> Batches:
        for batch in batches:
            for at in range(batch.num_rows):
                ids = batch.column("id").slice(at, 1)
                cells = pa.RecordBatch.from_pydict({"half": pc.divide(ids.cast(pa.float64()), 2), "id": ids})
                yield cells if ids[0].as_py() >= 5 else cells.slice(0, 0)

    table = Table(str(lake / "t"), plain=True)
    head = table.unwritten_head(COLUMNS, {})
    files = write_in_tasks(spark.range(0, 12, 1, 4), halves, new_table(table.path, COLUMNS, {}))
    assert sorted(file.num_records or 0 for file in files) == [1, 3, 3], "the first task's rows are all left out"
    assert table.head() is None, "no commit names them yet"
    checkpoint = Checkpoint(Position("b.000001", 4), new_batch())
    table.append_files(new_table(table.path, COLUMNS, {}), files, head, checkpoint)
    rows = sorted((row["id"], row["half"]) for row in table.read(spark).collect())
    assert rows == [(number, number / 2) for number in range(5, 12)]
    with pytest.raises(LostRace):
        table.append_files(new_table(table.path, COLUMNS, {}), files, head, checkpoint)


def test_what_a_task_raises_is_raised_and_leaves_no_file(spark: SparkSession, lake: Path) -> None:
    def damaged(batches: Batches) -> Batches:
        for batch in batches:
            yield batch
            raise DecodeError("shop: bin.000001:4: damaged")

    with pytest.raises(DecodeError, match=r"^shop: bin\.000001:4: damaged$"):
        write_in_tasks(spark.range(0, 4, 1, 1), damaged, new_table(str(lake / "t"), {"id": "BIGINT"}, {}))
    assert [*lake.rglob("*.parquet")] == []
