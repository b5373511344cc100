"""Order times of rows, against a loop over all late transactions."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.downstream.commit_clock import COLUMNS
from spark_jobs.engine.merge.order_times import OrderTimes, positions_of
from tests.spark_jobs.engine.lake_rows import at, newest

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Span = dict[str, Any]
_POSITION_TYPE = pa.struct(
    [("stretch", pa.int32()), ("number", pa.int64()), ("offset", pa.int64()), ("row", pa.int32())]
)
SCHEMA = pa.schema([("_position", _POSITION_TYPE), ("_committed_at", pa.timestamp("us", "UTC"))])


def times_of(folder: Path, spans: list[Span], *, has_late: bool = True) -> OrderTimes:
    """Late transactions in two files, in no order."""
    table = new_table(str(folder), COLUMNS, {})
    fields = table.schema.arrow(physical=False)
    parts = [pa.Table.from_pylist(spans[begin::2], fields) for begin in (0, 1)]
    added = [data_files.write(table.path, part, table.schema, {}) for part in parts if len(part)]
    commits.commit(table, adds=added)
    return OrderTimes.at(newest(table.path), at(4), has_late=has_late)


def rows_at(positions: list[tuple[int, int, int]], micros: list[int]) -> pa.Table:
    cells = [
        {
            "_position": dict(zip(("stretch", "number", "offset", "row"), (*position, 0), strict=True)),
            "_committed_at": EPOCH + timedelta(microseconds=time),
        }
        for position, time in zip(positions, micros, strict=True)
    ]
    return pa.Table.from_pylist(cells, SCHEMA)


@pytest.mark.parametrize("seed", range(8))
def test_a_row_of_a_late_transaction_has_its_order_time(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    spans: list[Span] = [
        {"stretch": stretch, "number": number, "start": start, "stop": start + 40, "order_at": _instant(chance)}
        for stretch in (1, 2)
        for number in (1, 3)
        for start in range(100, 500, 100)
        if chance.random() < 0.5
    ]
    chance.shuffle(spans)
    positions = [(chance.choice([1, 2, 3]), chance.choice([1, 2, 3]), chance.randrange(90, 550, 5)) for _ in range(200)]
    micros = [chance.randrange(1000) for _ in positions]
    expected = list(micros)
    for index, (stretch, number, offset) in enumerate(positions):
        for span in spans:
            is_within = (span["stretch"], span["number"]) == (stretch, number) and span["start"] <= offset < span[
                "stop"
            ]
            if is_within:
                expected[index] = max(expected[index], (span["order_at"] - EPOCH) // timedelta(microseconds=1))
    rows = rows_at(positions, micros)
    assert times_of(tmp_path / "late", spans).of(rows).tolist() == expected
    assert expected != micros
    assert times_of(tmp_path / "none", spans, has_late=False).of(rows).tolist() == micros


def test_positions_are_their_fields_by_weight() -> None:
    assert positions_of(rows_at([(2, 7, 99)], [1])).tolist() == [[2], [7], [99], [0]]


def _instant(chance: random.Random) -> datetime:
    return EPOCH + timedelta(microseconds=chance.randrange(2000))
