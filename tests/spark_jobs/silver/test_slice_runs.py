import pytest

from spark_jobs.binlog import SliceBytes
from spark_jobs.errors import DecodeError
from spark_jobs.log.position import Position
from spark_jobs.silver import slice_runs
from spark_jobs.silver.net_changes import SliceOrigin
from spark_jobs.silver.slice_runs import SliceRun, gathered
from tests.binlogs.segment_spec import Commit, Insert, SegmentSpec
from tests.binlogs.slicing import FILE, ORDERS

FIRST, SECOND = SliceOrigin(FILE, 1, 1, 0), SliceOrigin(FILE, 1, 1, 1)
COMMITTED = Position(FILE, 900)


def run_of(origin: SliceOrigin, start: int, effect: Position | None = None, size: int = 10) -> SliceRun:
    return SliceRun(origin, (SliceBytes(start, b"", bytes(size)),), effect)


@pytest.mark.parametrize(
    "runs, starts",
    [
        ([], []),
        ([run_of(FIRST, 1)], [[1]]),
        ([run_of(FIRST, 1), run_of(FIRST, 2), run_of(FIRST, 3)], [[1, 2, 3]]),
        ([run_of(FIRST, 1), run_of(SECOND, 2), run_of(SECOND, 3), run_of(FIRST, 4)], [[1], [2, 3], [4]]),
        (
            [run_of(FIRST, 1), run_of(FIRST, 2, COMMITTED), run_of(FIRST, 3, COMMITTED), run_of(FIRST, 4)],
            [[1], [2], [3], [4]],
        ),
        ([run_of(FIRST, 1, size=60), run_of(FIRST, 2, size=60), run_of(FIRST, 3), run_of(FIRST, 4)], [[1, 2], [3, 4]]),
    ],
    ids=["none", "one", "one window", "windows", "XA transactions by themselves", "so many bytes"],
)
def test_slices_that_follow_each_other_are_joined(
    runs: list[SliceRun], starts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_runs, "_RUN_BYTES", 100)
    assert [[log_slice.start for log_slice in run.slices] for run in gathered(runs)] == starts


def test_quarantined_events_are_taken_out_of_each_slice() -> None:
    spec = SegmentSpec(tables=[ORDERS], changes=[Insert(ORDERS.name, (1, "a")), Commit()])
    content = spec.to_bytes()
    run = SliceRun(FIRST, (SliceBytes(0, None, content),))
    with pytest.raises(DecodeError, match="none begins here"):
        list(gathered([run], frozenset({Position(FILE, 5)})))
    (run_after,) = gathered([run], frozenset({Position(FILE, len(content) + 5)}))
    assert run_after.slices[0].payload == content
