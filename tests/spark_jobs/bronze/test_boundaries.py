"""Slices of a recorded log, cut where transactions end."""

from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Slicer
from spark_jobs.bronze.boundaries import _parts, split

RECORDED = Path(__file__).parents[2] / "recorded"


@pytest.fixture(scope="module")
def slices() -> list[pa.RecordBatch]:
    """Those of several transactions, as bronze has them."""
    rows = []
    for log in sorted(RECORDED.glob("*.000001")):
        slicer = Slicer(log.name, 0, None)
        found = [*slicer.feed(log.read_bytes()), *slicer.finish()]
        rows += [batch.slice(at, 1) for batch in found for at in range(batch.num_rows)]
    return [
        one for one in rows if one.column("kind")[0].as_py() == "rows" and one.column("transactions")[0].as_py() > 2
    ]


def test_a_slice_cut_at_each_of_its_boundaries_is_the_same_bytes_in_two_parts(slices: list[pa.RecordBatch]) -> None:
    assert slices
    for cells in slices:
        (whole,) = cells.to_pylist()
        starts = sorted({one.column("transaction_start")[0].as_py() for one in split(cells)})
        for place in starts[1:]:
            before, after = _parts(cells, [place])
            assert (before["start"], before["stop"], after["start"], after["stop"]) == (
                whole["start"],
                place,
                place,
                whole["stop"],
            )
            assert before["payload"] + after["payload"] == whole["payload"]
            assert before["transactions"] + after["transactions"] == whole["transactions"]
            both = {(one["schema"], one["table"]) for part in (before, after) for one in part["tables"]}
            assert both == {(one["schema"], one["table"]) for one in whole["tables"]}


def test_a_position_between_no_two_transactions_leaves_a_slice_whole(slices: list[pa.RecordBatch]) -> None:
    cells = slices[0]
    (whole,) = cells.to_pylist()
    (part,) = _parts(cells, [whole["stop"]])
    assert part["payload"] == whole["payload"]
