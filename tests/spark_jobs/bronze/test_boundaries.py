"""Slices of a recorded log, cut where transactions end."""

import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import Slicer
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.boundaries import _holds_any_inside, cut, parts_of, split
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position

RECORDED = Path(__file__).parents[2] / "recorded"


@pytest.fixture(scope="module")
def slices() -> list[pa.RecordBatch]:
    """Those of several transactions, as bronze has them."""
    rows = []
    for log in sorted(RECORDED.glob("*.000001")):
        slicer = Slicer(log.name, 0, None)
        batches = [*slicer.feed(log.read_bytes()), *slicer.finish()]
        rows += [batch.slice(at, 1) for batch in batches for at in range(batch.num_rows)]
    return [
        row for row in rows if row.column("kind")[0].as_py() == "rows" and row.column("transactions")[0].as_py() > 2
    ]


def test_a_slice_cut_at_each_of_its_boundaries_is_the_same_bytes_in_twoparts_of(slices: list[pa.RecordBatch]) -> None:
    assert slices
    for cells in slices:
        (fields,) = cells.to_pylist()
        starts = sorted({piece.column("transaction_start")[0].as_py() for piece in split(cells)})
        for place in starts[1:]:
            before, after = parts_of(cells, [place])
            assert (before["start"], before["stop"], after["start"], after["stop"]) == (
                fields["start"],
                place,
                place,
                fields["stop"],
            )
            assert before["payload"] + after["payload"] == fields["payload"]
            assert before["transactions"] + after["transactions"] == fields["transactions"]
            table_names = {(table["schema"], table["table"]) for part in (before, after) for table in part["tables"]}
            assert table_names == {(table["schema"], table["table"]) for table in fields["tables"]}


def test_a_position_between_no_two_transactions_leaves_a_slice_whole(slices: list[pa.RecordBatch]) -> None:
    cells = slices[0]
    (fields,) = cells.to_pylist()
    (part,) = parts_of(cells, [fields["stop"]])
    assert part["payload"] == fields["payload"]


_SECONDS = 60
"""For a query; chains of conditions took minutes, or ended in an error of the JVM."""


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("number", [1, 16, 17, 300, 3_000])
def test_slices_that_hold_positions_are_found_however_many_they_are(spark: SparkSession, number: int) -> None:
    """Files of 100 slices of 10 bytes each, in two stretches."""
    chance = Random(number)
    places = {(chance.randrange(1, 3), chance.randrange(1, 101), chance.randrange(0, 1_001)) for _ in range(number)}
    positions = [Position(f"b.{file:06d}", offset, stretch) for stretch, file, offset in sorted(places)]
    slices = spark.range(20_000).selectExpr(
        "CAST(id DIV 10000 + 1 AS INT) AS stretch", "id DIV 100 % 100 + 1 AS number", "id % 100 * 10 AS start"
    )
    slices = slices.selectExpr("*", "start + 10 AS stop")
    began = time.monotonic()
    rows = slices.where(_holds_any_inside(positions)).collect()
    rest = slices.where(~_holds_any_inside(positions)).count()
    assert time.monotonic() - began < _SECONDS
    expected = {(stretch, file, offset // 10 * 10) for stretch, file, offset in places if offset % 10}
    assert {(row["stretch"], row["number"], row["start"]) for row in rows} == expected
    assert len(rows) + rest == 20_000


@pytest.mark.spark
def test_slices_are_cut_at_some_of_many_positions(
    spark: SparkSession, lake: Path, slices: list[pa.RecordBatch]
) -> None:
    """Positions beside the log, between slices and inside one: the bytes stay, in pieces where it was inside."""
    cells = max(slices, key=lambda slice_: slice_.column("transactions")[0].as_py())
    (fields,) = cells.to_pylist()
    file, inside = fields["file"], sorted({piece.column("transaction_start")[0].as_py() for piece in split(cells)})[1:]
    rows = [fields | {"stretch": 1, "number": 1, "server_uuid": None}]
    bronze_rows_ = pa.Table.from_pylist(rows, schema=bronze.ARROW)
    table = Table(str(lake), plain=False)
    head = table.new(bronze.COLUMNS, {})
    at = Checkpoint(Position(file, fields["stop"]), new_batch())
    table.append(spark.createDataFrame(bronze_rows_, bronze.DDL), head, at)
    beside = [Position(f"other.{number:06d}", 4) for number in range(2, 3_000)]
    ends = [Position(file, fields["start"]), Position(file, fields["stop"])]
    cut_rows = cut(table.read(spark), [*beside, *ends, *(Position(file, offset) for offset in inside)])
    pieces = sorted(cut_rows.collect(), key=lambda row: row["start"])
    assert [row["start"] for row in pieces] == [fields["start"], *inside]
    assert b"".join(bytes(row["payload"]) for row in pieces) == fields["payload"]


def test_a_slice_is_cut_at_many_positions(slices: list[pa.RecordBatch]) -> None:
    cells = max(slices, key=lambda slice_: slice_.column("transactions")[0].as_py())
    starts = sorted({piece.column("transaction_start")[0].as_py() for piece in split(cells)})
    assert [part["start"] for part in parts_of(cells, [0, *starts, 1 << 40])] == starts
