"""A range of bronze is snapped outward to transactions."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import Slicer
from spark_jobs.bronze.extract import _bronze_rows
from spark_jobs.bronze.table import ARROW
from spark_jobs.changes import bronze_feed
from spark_jobs.changes.bronze_feed import _cut_transactions, changes_of_bronze
from spark_jobs.changes.lines import JsonChanges
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention.gc import Collected, gc_source
from spark_jobs.row_history import trace
from tests.lakes.consumers import SOURCE, Shop, order
from tests.lakes.row_logs import traced
from tests.spark_jobs.changes.feeds import ANY, RECORDED


def _bronze_like(path: Path, target: int) -> list[pa.RecordBatch]:
    slicer = Slicer(path.name, 0, None, target=target)
    batches = [_bronze_rows(batch, 1, None, ARROW) for batch in [*slicer.feed(path.read_bytes()), *slicer.finish()]]
    return [batch.slice(at, 1) for batch in batches for at in range(batch.num_rows)]


@pytest.mark.parametrize("target", [200, pytest.param(1 << 20, marks=pytest.mark.thorough)])
def test_a_range_is_snapped_outward_to_transactions(target: int) -> None:
    path = RECORDED / "mysql-8.0-types.000001"
    slices = [cells for cells in _bronze_like(path, target) if cells.column("kind")[0].as_py() == "rows"]
    expected = [json.loads("".join(line.pieces)) for cells in slices for line in JsonChanges(None, ANY).lines(cells)]
    assert expected
    size = path.stat().st_size
    for low, high in ((at, at + length) for at in range(4, size - 400, 293) for length in (1, 400)):
        begin, end = Position(path.name, low), Position(path.name, high)
        touched = {change["gtid"] for change in expected if low <= change["offset"] < high}
        lines = [
            json.loads("".join(line.pieces))
            for cells in slices
            if cells.column("stop")[0].as_py() > low and cells.column("transaction_start")[0].as_py() < high
            for part in _cut_transactions(cells, Range(begin, end))
            for line in JsonChanges(None, ANY).lines(part)
        ]
        assert touched <= {change["gtid"] for change in lines}
        if target > size:
            transactions = [change for change in expected if change["gtid"] in {change["gtid"] for change in lines}]
            assert lines == transactions, (low, high)
            assert len({change["gtid"] for change in lines} - touched) <= 2, (
                "no more than the transactions at both ends"
            )


@pytest.mark.parametrize("reader", ["changes", "trace"])
def test_gc_between_the_range_and_its_reading_takes_no_log_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    shop = Shop(tmp_path, keys="retention: {bronze: 1d}\n")
    for number in (1, 2, 3):
        shop.log(order(number))
    removed = list[Collected]()

    def range_in(*arguments: Any) -> Any:
        within = original(*arguments)
        spark: SparkSession = object()  # type: ignore[assignment] # no job is run
        removed.append(gc_source(spark, shop.pipeline, SOURCE, ignored=["silver"]))
        return within

    module: Any = {"changes": bronze_feed, "trace": trace}[reader]
    original = module.range_in
    monkeypatch.setattr(module, "range_in", range_in)
    if reader == "changes":
        lines = "".join(changes_of_bronze(shop.lake, SOURCE, "b.000001:4", None, is_wanted=ANY)).splitlines()
        changes = [json.loads(line) for line in lines]
    else:
        changes = traced(shop, start="b.000001:4")
    assert [change["after"]["id"] for change in changes] == [1, 2, 3]
    assert removed[0].files
