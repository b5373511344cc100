"""Order times by what tasks find in slices, against a running maximum over all transactions."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_jobs.binlog import Slicer, read_commits
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.delta import commits
from spark_jobs.delta.snapshot import new_table
from spark_jobs.downstream import commit_clock
from spark_jobs.downstream.commit import ClockCommit
from spark_jobs.downstream.commit_clock import LateTransactions
from spark_jobs.lake.commit import APPLICATION, new_batch
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import bronze_rows

T = Table("s.t", key=["id"], id=INT.NOT_NULL)
_HELD = ("file", "start", "stop", "transaction_start", "context", "payload", "transactions", "committed_at", "kind")


def file_of(number: int, times: Sequence[int]) -> bytes:
    """A file of transactions that commit at these µs, every fifth of which is a statement."""
    changes: list[Insert | Commit | Statement] = []
    for at in range(len(times)):
        changes += [Statement("s", "CREATE VIEW v AS SELECT 1")] if at % 5 == 4 else [Insert("s.t", (at,)), Commit()]
    return SegmentSpec([T], changes, commit_micros=times, rotate_to=f"bin.{number + 1:06d}").to_bytes()


def slices_of(number: int, times: Sequence[int], target: int) -> list[dict[str, Any]]:
    """The file as bronze has it."""
    content = file_of(number, times)
    slicer = Slicer(f"bin.{number:06d}", 0, None, target=target)
    batches = [*slicer.feed(content), *slicer.finish()]
    rows = [row for batch in batches for row in batch.select(_HELD).to_pylist()]
    return [row | {"stretch": 1, "number": number} for row in rows if row["kind"] != "control"]


Late = tuple[int, int, int, int]
"""File number, offsets [start, stop) there, and the order time of what lies there."""


def late_ones(slices: list[dict[str, Any]], before: int | None) -> tuple[list[Late], int]:
    """What is late, and what is reached behind these slices, as downstream/commit_clock.py finds them."""
    grouped = [log_slice for log_slice in slices if log_slice["transactions"] > 1]
    spans = [
        row
        for log_slice in grouped
        for part in commit_clock._span_task(batches([log_slice]))
        for row in part.to_pylist()
    ]
    for log_slice in slices:
        if log_slice["transactions"] <= 1:
            at = round(log_slice["committed_at"].timestamp() * 1e6)
            position = {name: log_slice[name] for name in ("stretch", "number", "start", "stop")}
            spans.append(position | {"least": at, "greatest": at, "rises": True})
    table = commit_clock._in_order(pa.Table.from_pylist(spans, schema=commit_clock._SPAN_SCHEMA))
    floor = commit_clock.floors(table.column("greatest").to_numpy(), before)
    is_all_late, mixed = commit_clock.late_slices(table, floor)
    late_rows: list[Late] = []
    by_position = {(log_slice["number"], log_slice["start"]): log_slice for log_slice in slices}
    for at, row in enumerate(table.to_pylist()):
        if is_all_late[at]:
            late_rows.append((row["number"], row["start"], row["stop"], int(floor[at])))
        elif mixed[at]:
            log_slice = by_position[row["number"], row["start"]]
            for part in commit_clock._late_task(batches([log_slice | {"_floor": int(floor[at])}])):
                late_rows += late_of(part)
    reached = max(
        int(order_time)
        for order_time in (*table.column("greatest").to_pylist(), *floor)
        if order_time > commit_clock._NEVER
    )
    return late_rows, reached


def late_of(rows: pa.RecordBatch | pa.Table) -> list[Late]:
    """Rows of a clock."""
    columns = rows.select(["number", "start", "stop", "order_at"]).to_pylist()
    return [
        (*(row[name] for name in ("number", "start", "stop")), commit_clock._micros(row["order_at"])) for row in columns
    ]


def batches(rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pylist(rows)])


TIMES = st.lists(st.integers(1_600_000_000_000_000, 1_600_000_000_000_006), min_size=1, max_size=14)


@given(st.lists(TIMES, min_size=1, max_size=3), st.sampled_from([1, 200, 700, 1 << 20]), st.data())
def test_late_transactions_are_those_below_the_running_maximum(
    files: list[list[int]], target: int, data: st.DataObject
) -> None:
    all_slices = [log_slice for number, times in enumerate(files, 1) for log_slice in slices_of(number, times, target)]
    # However the log is cut into runs, each of which goes on from what the one before has reached.
    cut = data.draw(
        st.sampled_from(
            [at for at, log_slice in enumerate(all_slices) if log_slice["transaction_start"] == log_slice["start"]]
        )
    )
    late: list[Late] = []
    before: int | None = None
    for part in filter(None, (all_slices[:cut], all_slices[cut:])):
        late_rows, before = late_ones(part, before)
        late += late_rows
    greatest = 0
    for number, times in enumerate(files, 1):
        commits = list(read_commits([file_of(number, times)], f"bin.{number:06d}"))
        positions = [(int(a), int(b)) for commit in commits for a, b in zip(commit.start, commit.stop, strict=True)]
        for (start, stop), at in zip(positions, times, strict=True):
            greatest = max(greatest, at)
            for offset in (start, stop - 1):
                orders = [
                    order
                    for file_number, first, after, order in late
                    if file_number == number and first <= offset < after
                ]
                assert len(orders) <= 1, "a row would come twice"
                assert max([at, *orders]) == greatest
    assert before == greatest


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
    at, order = commit_clock.late_transactions(np.array(committed), floor)
    assert dict(zip(at.tolist(), order.tolist(), strict=True)) == late


def test_late_slices_and_an_idle_source_are_committed_without_a_jvm(tmp_path: Path) -> None:
    no_spark: Any = None
    lake = Lake(str(tmp_path))
    path = lake.bronze("shop").path
    end = Position("bin.000001", 90)
    bronze_commit = BronzeCommit(end, new_batch(), start=Position("bin.000001", 4), begin=Position("bin.000001", 4))
    commits.commit(
        new_table(path, bronze.COLUMNS, bronze.PROPERTIES),
        transaction=(APPLICATION, 1),
        user_metadata=bronze_commit.to_json(),
    )
    # Slices that are late as a whole, found by tasks before.
    cells = {"stretch": 1, "number": 1, "start": 4, "stop": 90, "order_at": 1_600_000_000_000_000}
    late = LateTransactions(pa.Table.from_pylist([cells], commit_clock._LATE_SCHEMA))
    assert late.are_any
    table = lake.clock("shop")
    commit = ClockCommit(end, new_batch(), begin=Position("bin.000001", 4), has_late=True)
    late.appended(table, table.unwritten_head(commit_clock.COLUMNS, {}), commit)
    (row,) = table.rows()
    assert row == cells | {"order_at": datetime.fromtimestamp(1_600_000_000, UTC)}
    # An idle source moves on by its own clock.
    now = datetime(2026, 11, 28, tzinfo=UTC)
    clock = commit_clock.advance(no_spark, lake, "shop", now)
    assert clock
    assert (clock.reached, clock.position, clock.has_late, clock.version) == (now, end, True, 1)
    second = commit_clock.advance(no_spark, lake, "shop", now)
    assert second
    assert second.version == 1, "not more than once in a while"


@pytest.mark.spark
def test_transactions_of_mixed_slices_are_written_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    base = 1_600_000_000_000_000
    files = [[base + at for at in times] for times in ([5, 3, 6, 2, 9, 9], [1, 2, 3], [7, 10, 8, 11])]
    lake = Lake(str(tmp_path))
    head = lake.bronze("shop").unwritten_head(bronze.COLUMNS, bronze.PROPERTIES)
    late: list[Late] = []
    before: int | None = None
    # A run a file; those of the second are late as a whole, of the others some.
    for number, times in enumerate(files, 1):
        rows = bronze_rows(f"bin.{number:06d}", file_of(number, times), target=1 << 20)
        end = Position(f"bin.{number:06d}", rows["stop"][-1].as_py())
        begin = Position("bin.000001", 4)
        head = lake.bronze("shop").append_rows(rows, head, BronzeCommit(end, new_batch(), start=begin, begin=begin))
        late_rows, before = late_ones(slices_of(number, times, 1 << 20), before)
        late += late_rows
        clock = commit_clock.advance(spark, lake, "shop")
        assert clock
        assert clock.reached
        assert (clock.position, commit_clock._micros(clock.reached)) == (end, before)
    all_rows = lake.clock("shop").rows()
    assert sorted(late_of(pa.Table.from_pylist(all_rows))) == sorted(late)
    assert [number for number, *_ in sorted(late)] == [1, 1, 2, 3, 3]
    assert {row["stretch"] for row in all_rows} == {1}
