"""Slices of a recorded log, cut where transactions end."""

from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Slicer
from spark_jobs.bronze.boundaries import parts_of, split_transactions

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
        starts = sorted({piece.column("transaction_start")[0].as_py() for piece in split_transactions(cells)})
        for position in starts[1:]:
            before, after = parts_of(cells, [position])
            assert (before["start"], before["stop"], after["start"], after["stop"]) == (
                fields["start"],
                position,
                position,
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


def test_a_slice_is_cut_at_many_positions(slices: list[pa.RecordBatch]) -> None:
    cells = max(slices, key=lambda log_slice: log_slice.column("transactions")[0].as_py())
    starts = sorted({piece.column("transaction_start")[0].as_py() for piece in split_transactions(cells)})
    assert [part["start"] for part in parts_of(cells, [0, *starts, 1 << 40])] == starts
