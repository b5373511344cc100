"""Slices as tasks write them: row groups and totals."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.extract import LogParts, slicing_task
from spark_jobs.bronze.landing import Landed, Totals, _writing, row_groups
from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import DecodeError
from spark_jobs.source.files import FileReading
from spark_jobs.source.protocol import FilePart

RECORDED = Path(__file__).parents[2] / "recorded"
FILE = "mysql-8.0-transactions.000001"
SIZE = (RECORDED / FILE).stat().st_size
PARTS = LogParts("shop", 1, (FilePart(FILE, 0, SIZE),), FileReading(RECORDED), "u")


def ids() -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"id": [0]})])


def slices() -> list[pa.RecordBatch]:
    return list(slicing_task(PARTS, bronze.ARROW)(ids()))


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
    total = sum((Totals.of(log_slice) for log_slice in slices()), Totals())
    assert total == Totals.of(all_slices)
    assert total.slices == all_slices.num_rows
    assert total.last_gtid
    assert total.last_gtid[2] == [row["gtid"] for row in all_slices.to_pylist() if row["gtid"]][-1]


def test_a_task_writes_one_file_without_bounds_of_what_nobody_asks_for(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), bronze.COLUMNS, bronze.PROPERTIES)
    slicing = slicing_task(PARTS, bronze.ARROW)
    (one_row_cells,) = _writing(table.path, table.schema, dict(table.configuration), slicing)(ids())
    landed: Landed = pickle.loads(one_row_cells.column("value")[0].as_py())  # noqa: S301 - our own
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
