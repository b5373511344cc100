"""Order times by what the tasks find in slices, against a running maximum over all transactions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs import clock
from spark_jobs.binlog import Slicer
from tests.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.segment_types import INT

T = Table("s.t", key=["id"], id=INT.NOT_NULL)
_HELD = ("file", "start", "stop", "context", "payload", "transactions", "committed_at", "kind")


def slices_of(number: int, times: Sequence[int], target: int) -> list[dict[str, Any]]:
    """A file of transactions that commit at these µs, every fifth of which is a statement, as bronze has it."""
    changes = [
        one
        for at in range(len(times))
        for one in ([Statement("s", "CREATE VIEW v AS SELECT 1")] if at % 5 == 4 else [Insert("s.t", (at,)), Commit()])
    ]
    content = SegmentSpec([T], changes, commit_micros=times, rotate_to=f"bin.{number + 1:06d}").to_bytes()
    slicer = Slicer(f"bin.{number:06d}", 0, None, target=target)
    batches = [*slicer.feed(content), *slicer.finish()]
    rows = [row for batch in batches for row in batch.select(_HELD).to_pylist()]
    return [row | {"stretch": 1, "number": number} for row in rows if row["kind"] != "control"]


def late_ones(slices: list[dict[str, Any]], before: int | None) -> tuple[dict[tuple[int, int], int], int]:
    """Late transactions by file and offset, and what is reached behind these slices, as clock.py finds them."""
    several = [one for one in slices if one["transactions"] > 1]
    spans = [row for one in several for part in clock._span_task(batches([one])) for row in part.to_pylist()]
    for one in slices:
        if one["transactions"] == 1:
            at = int(one["committed_at"].timestamp() * 1e6 + 0.5)
            place = {name: one[name] for name in ("stretch", "number", "start", "stop")}
            spans.append(place | {"least": at, "greatest": at, "rises": True})
    table = clock._in_order(pa.Table.from_pylist(spans, schema=clock._SPAN_SCHEMA))
    floor = clock.floors(table.column("greatest").to_numpy(), before)
    whole, mixed = clock.late_slices(table, floor)
    found: dict[tuple[int, int], int] = {}
    by_place = {(one["number"], one["start"]): one for one in slices}
    for at, row in enumerate(table.to_pylist()):
        one = by_place[row["number"], row["start"]]
        if whole[at]:
            starts = clock._transactions(as_read(one))[0]
            found |= {(row["number"], int(start)): int(floor[at]) for start in starts}
        elif mixed[at]:
            for part in clock._late_task(batches([one | {"_floor": int(floor[at])}])):
                found |= {(late["number"], late["start"]): late["order_at"] for late in part.to_pylist()}
    reached = max([int(one) for one in (*table.column("greatest").to_pylist(), *floor) if one > clock._NEVER])
    return found, reached


def batches(rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pylist(rows)])


TIMES = st.lists(st.integers(1_600_000_000_000_000, 1_600_000_000_000_006), min_size=1, max_size=14)


@given(st.lists(TIMES, min_size=1, max_size=3), st.sampled_from([1, 200, 700, 1 << 20]), st.data())
def test_late_transactions_are_those_below_the_running_maximum(
    files: list[list[int]], target: int, data: st.DataObject
) -> None:
    whole = [one for number, times in enumerate(files, 1) for one in slices_of(number, times, target)]
    expected: dict[tuple[int, int], int] = {}
    greatest = 0
    for number, times in enumerate(files, 1):
        starts = [int(start) for one in slices_of(number, times, 1) for start in clock._transactions(as_read(one))[0]]
        for start, at in zip(starts, times, strict=True):
            greatest = max(greatest, at)
            expected |= {(number, start): greatest} if greatest > at else {}
    # However the log is cut into runs, each of which goes on from what the one before has reached.
    cut = data.draw(st.integers(0, len(whole)))
    found: dict[tuple[int, int], int] = {}
    before: int | None = None
    for part in filter(None, (whole[:cut], whole[cut:])):
        late, before = late_ones(part, before)
        found |= late
    assert found == expected
    assert before == greatest


def as_read(one: dict[str, Any]) -> dict[str, Any]:
    return one | {"payload": pa.py_buffer(one["payload"])}


@pytest.mark.parametrize(
    "committed, floor, late",
    [
        ([1, 2, 2, 3], 0, {}),
        ([1, 2, 2, 3], 1, {}),
        ([1, 2, 2, 3], 2, {0: 2}),
        ([5, 2, 6, 1], 0, {1: 5, 3: 6}),
        ([5, 2, 6, 1], 9, {0: 9, 1: 9, 2: 9, 3: 9}),
    ],
)
def test_a_late_transaction_counts_as_what_was_reached(committed: list[int], floor: int, late: dict[int, int]) -> None:
    at, order = clock.late_transactions(np.array(committed), floor)
    assert dict(zip(at.tolist(), order.tolist(), strict=True)) == late
