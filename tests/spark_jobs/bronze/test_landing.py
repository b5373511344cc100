"""Slices as tasks write them: row groups, totals, and the same table as Spark's way makes."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.extract import extract, slicing_task
from spark_jobs.bronze.landing import Landed, Totals, _writing, row_groups
from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import DecodeError
from spark_jobs.lake.layout import Lake
from spark_jobs.source.files import FileReading, Files
from spark_jobs.source.protocol import FilePart

RECORDED = Path(__file__).parents[2] / "recorded"
FILE = "mysql-8.0-transactions.000001"
SIZE = (RECORDED / FILE).stat().st_size


def ids() -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"id": [0]})])


def slices() -> list[pa.RecordBatch]:
    return list(slicing_task("shop", 1, (FilePart(FILE, 0, SIZE),), "u", FileReading(RECORDED))(ids()))


@pytest.mark.parametrize(
    "sizes, groups",
    [([], []), ([1], [1]), ([10, 22, 1], [32, 1]), ([80], [32, 32, 16]), ([30, 3], [30, 3])],
)
def test_row_groups_have_32_slices_at_most(sizes: list[int], groups: list[int]) -> None:
    batches = (pa.RecordBatch.from_pydict({"at": list(range(size))}) for size in sizes)
    assert [table.num_rows for table in row_groups(batches)] == groups


def test_large_slices_end_a_row_group_earlier() -> None:
    batches = (pa.RecordBatch.from_pydict({"payload": [bytes(20 << 20)]}) for _ in range(4))
    assert [table.num_rows for table in row_groups(batches)] == [2, 2]


def test_totals_add_up() -> None:
    all_slices = pa.Table.from_batches(slices()).combine_chunks().to_batches()[0]
    total = sum((Totals.of(slice_) for slice_ in slices()), Totals())
    assert total == Totals.of(all_slices)
    assert total.slices == all_slices.num_rows
    assert total.last_gtid
    assert total.last_gtid[2] == [row["gtid"] for row in all_slices.to_pylist() if row["gtid"]][-1]


def test_a_task_writes_one_file_without_bounds_of_what_nobody_asks_for(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), bronze.COLUMNS, bronze.PROPERTIES)
    slicing = slicing_task("shop", 1, (FilePart(FILE, 0, SIZE),), "u", FileReading(RECORDED))
    (row_,) = _writing(table.path, table.schema, dict(table.configuration), slicing)(ids())
    landed: Landed = pickle.loads(row_.column("value")[0].as_py())  # noqa: S301 - our own
    (file,) = landed.files
    parquet = pq.ParquetFile(tmp_path / file.path)
    assert parquet.metadata.num_rows == landed.totals.slices == file.num_records
    group = parquet.metadata.row_group(0)
    bounded = {group.column(at).path_in_schema: group.column(at).is_stats_set for at in range(group.num_columns)}
    assert (bounded["start"], bounded["payload"], bounded["context"]) == (True, False, False)
    assert set(file.stats["minValues"]) == {"stretch", "number", "start", "stop"}


def test_a_log_that_is_damaged_in_its_middle_leaves_no_file(tmp_path: Path) -> None:
    def slicing(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in slices():
            yield from [batch] * 40
        raise DecodeError("damaged")

    table = new_table(str(tmp_path), bronze.COLUMNS, bronze.PROPERTIES)
    with pytest.raises(DecodeError):
        list(_writing(table.path, table.schema, dict(table.configuration), slicing)(ids()))
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.spark
def test_the_driver_s_commit_is_as_spark_s(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "b.000001").write_bytes((RECORDED / FILE).read_bytes())
    source = Files("shop", tmp_path / "log")
    lakes = Lake(str(tmp_path / "driver")), Lake(str(tmp_path / "spark"))
    driver_result = extract(spark, lakes[0], source, "earliest")
    monkeypatch.setattr("spark_jobs.lake.driver_commit.snapshot_upon", lambda *_, **__: None)
    spark_result = extract(spark, lakes[1], source, "earliest")
    counts = ("range", "files", "bytes", "slices", "transactions", "events", "ignored", "committed_at", "gtid")
    assert [getattr(driver_result, name) for name in counts] == [getattr(spark_result, name) for name in counts]
    frames = [lake.bronze("shop").read(spark).sort("number", "start") for lake in lakes]
    assert frames[0].schema == frames[1].schema
    assert frames[0].collect() == frames[1].collect()
    monkeypatch.undo()
    (tmp_path / "log" / "b.000002").write_bytes((RECORDED / FILE).read_bytes())
    next_results = [extract(spark, lake, source, "earliest") for lake in lakes]
    assert [result.slices for result in next_results] == [driver_result.slices] * 2, "upon a table of Spark's too"
    assert frames[0].collect() != []
