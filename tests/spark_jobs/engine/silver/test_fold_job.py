"""Silver tables folded without Spark: what they say is there stays the same.

Not here: servers (pipeline/test_fold.py).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.silver import fold_job
from spark_jobs.lake.commit import CommitKind, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from tests.faults import runs
from tests.faults.renames import NAMES
from tests.spark_jobs.engine.silver.test_replay_job import Lake, at

_CAPACITY = Capacity(2, 2_500)


@pytest.fixture(autouse=True)
def in_this_process() -> Iterator[None]:
    with runs.without_spark():
        yield


def fold(table: Table, until: Position) -> tuple[int, int] | None:
    """Folds the windows that end at a position at the latest; the rows of these before and after."""
    head, snapshot = table.head(), snapshot_of(table.path)
    if head is None or head.checkpoint is None or snapshot is None:
        return None
    commit = SilverCommit.of(head.checkpoint)
    windows = fold_job.old_windows(runs.SPARK, snapshot, until, None, _CAPACITY)
    if windows.window is None:
        return None
    floor = at(windows.window[1][2])
    emptied = [at(windows.emptied[2])] if windows.emptied else []
    columns = silver.stored_columns(table, head)
    folded = fold_job.fold(
        runs.SPARK, snapshot, columns, windows, _CAPACITY, floor=floor, emptied=emptied[0] if emptied else None
    )
    folding = replace(commit, batch=new_batch(), kind=CommitKind.MAINTENANCE, folded_to=floor)
    table.land(snapshot, head, folding, **fold_job.arguments_of_fold(runs.SPARK, snapshot, folded))
    return windows.rows, folded.rows


def require_one_window(snapshot: Snapshot, until: Position) -> None:
    """Below a position there is one window at most."""
    windows = fold_job.old_windows(runs.SPARK, snapshot, until, None, _CAPACITY)
    assert windows.count <= 1


@pytest.mark.parametrize(
    "seed", [4, pytest.param(9, marks=pytest.mark.thorough), pytest.param(15, marks=pytest.mark.thorough)]
)
def test_a_folded_table_says_what_it_said(seed: int, tmp_path: Path) -> None:
    lake, counts = Lake(tmp_path, seed, steps=4), list[tuple[int, int]]()
    end = lake.log_range.stop
    for until in (at(end.offset // 2), end):
        for name in NAMES:
            with runs.scheduled(seed):
                rows = fold(lake.silver(name), until)
                counts += [rows] if rows else []
                snapshot = snapshot_of(lake.silver(name).path)
                if snapshot is not None:
                    require_one_window(snapshot, until)
        lake.checks.require_silver(lake.pipeline)
    assert sum(after for _, after in counts) < sum(before for before, _ in counts)
