"""Which windows a target gets, what their columns become, how units are divided, and what stops a table."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from spark_jobs.config.modes import Mode
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.engine.changes import change_job
from spark_jobs.engine.changes.change_units import ChangeUnit
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.errors import LostRace, TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver.table import Columns
from tests.spark_jobs.engine.changed_lakes import ChangedLake
from tests.spark_jobs.engine.lake_rows import newest
from tests.spark_jobs.engine.logs_of_rows import FILE, NAMES

T, U = NAMES
CUTS = (3, 4, 8)
AFTER = Columns({"id": "INT", "w": "INT", "x": "BIGINT"}, ("id",))


def unit_of(lake: ChangedLake, windows: int = 4) -> ChangeUnit:
    unit = lake.prepared(windows)[0].unit
    assert isinstance(unit, ChangeUnit)
    return unit


def test_windows_with_one_definition_are_one_and_those_that_the_target_has_are_left_out(tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, Mode.APPEND, CUTS)
    (window,) = unit_of(lake).windows
    bounds = [0, *CUTS, 12]
    assert window.ranges == tuple(lake.log.range(first, stop) for first, stop in pairwise(bounds))
    lake.merge(2, Capacity(1))
    unit = unit_of(lake)
    assert [window.ranges for window in unit.windows] == [(lake.log.range(4, 8), lake.log.range(8, 12))]
    assert unit.extent.ranges == (lake.log.range(4, 12),)
    head = lake.target(T).head()
    assert head
    commit = DownstreamCommit.of_head(head)
    assert commit
    assert (commit.mode, commit.silver_version, commit.position) == ("append", 1, lake.log.range(0, 4).stop)


def test_a_large_unit_with_mode_append_is_divided_and_others_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_job, "_LEAST_TASK_BYTES", 1)
    monkeypatch.setattr(change_job, "_UNIT_BYTES", 0)
    for mode, count in ((Mode.APPEND, 6), (Mode.HISTORY, 2)):
        lake = ChangedLake(tmp_path / mode, mode, CUTS, count=60)
        for name in NAMES:
            lake.truncate(name)
        _, tasks = lake.merge(5, Capacity(4, 600))
        assert (tasks >= count) if mode is Mode.APPEND else (tasks == count)
        for name in NAMES:
            changes = [change[:2] for change in lake.expected(name, 4)]
            assert [row[:2] for row in lake.rows(name)] == [*changes, ("truncate", (None, None))]
    monkeypatch.undo()
    packed = ChangedLake(tmp_path / "packed", Mode.APPEND, CUTS)
    assert packed.merge(4, Capacity(4, 1 << 20))[1] == 1


def test_what_stops_a_table_and_what_is_planned_again(tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, Mode.APPEND, CUTS)
    with pytest.raises(TableStopped, match="no statement of the log says why"):
        downstream_job.prepared(0, replace(lake.work(T, 4), columns=AFTER), None, lake.changed_log)
    snapshot = lake.changed_log.snapshot
    ended = replace(snapshot, checkpoint=replace(snapshot.checkpoint, position=Position(FILE, 300)))
    with pytest.raises(LostRace, match="another run has extracted more log"):
        downstream_job.prepared(0, lake.work(T, 4), None, replace(lake.changed_log, snapshot=ended))


@pytest.mark.parametrize("first", [0, 2])
def test_of_silver_those_files_are_read_that_may_have_rows_of_statements_or_loads(first: int, tmp_path: Path) -> None:
    """Not those of windows, of which operations alone would not tell: insert, load, truncate, update."""
    lake = ChangedLake(tmp_path, Mode.HISTORY, (6, 12, 18), count=24)
    if first:
        lake.merge(first, Capacity(1))
    windows = {file.path for file in newest(lake.silver[T].path).files}
    lake.load(T, 3, [(1, 1)])
    lake.truncate(T)
    (unit,) = (prepared.unit for prepared in lake.prepared(6, [T]))
    assert isinstance(unit, ChangeUnit)
    assert len(unit.statements) == 2
    assert not windows & {file.path for file in unit.statements}
