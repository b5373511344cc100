"""Rows that no change in the log says, and when they came."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.config.modes import Mode
from spark_jobs.engine.jobs.spark_job import Capacity
from tests.spark_jobs.engine.changed_lakes import ChangedLake, in_small_parts
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.logs_of_rows import NAMES

CUTS = (3, 4, 8)


@pytest.mark.parametrize("in_buckets", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("first", [0, 2, 4])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_rows_that_were_loaded_stand_where_the_load_began(
    mode: Mode, first: int, *, in_buckets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is merged, after some of it and after all."""
    if in_buckets:
        in_small_parts(monkeypatch)
    lake = ChangedLake(tmp_path, mode, CUTS, seed=first, count=20)
    if first:
        lake.merge(first, Capacity(2))
    for name in NAMES:
        lake.load(name, 3, [(key, 100 + key) for key in range(0, 40, 2)])
    lake.merge(5, Capacity(2))
    for name in NAMES:
        assert lake.rows(name) == lake.expected(name, 4)
    # They are of the time of the last transaction before, of whichever table.
    rows = [row for name in NAMES for row in rows_of(newest(lake.target(name).path))]
    loaded = [row for row in rows if row["_op"] == "load"]
    before = [row for row in rows if row["_op"] != "load" and row["_position"]["offset"] < lake.log.starts[3]]
    assert len(loaded) == 40
    assert {row["_committed_at"] for row in loaded} == {max(row["_committed_at"] for row in before)}


@pytest.mark.parametrize("merges_between", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_a_statement_right_behind_a_load_ends_its_rows(mode: Mode, *, merges_between: bool, tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, mode, CUTS, seed=2, count=20)
    for name in NAMES:
        lake.load(name, len(lake.log.ends), [(1, 11), (2, 22)])
    if merges_between:
        lake.merge(5, Capacity(2))
    for name in NAMES:
        lake.truncate(name)
    lake.merge(6, Capacity(2))
    for name in NAMES:
        rows = sorted(rows_of(newest(lake.target(name).path)), key=lambda row: tuple(row["_position"].values()))
        assert [row["_op"] for row in rows[-3:]] == ["load", "load", "truncate"]
        assert not any(row.get("_is_current") for row in rows)


@pytest.mark.parametrize("in_buckets", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("first", [0, 4])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_rows_that_came_with_a_name_are_of_the_time_of_its_statement(
    mode: Mode, first: int, *, in_buckets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come behind the row that says that the name's own rows went, in whichever file that is."""
    if in_buckets:
        in_small_parts(monkeypatch)
    lake = ChangedLake(tmp_path, mode, CUTS, seed=3, count=20)
    if first:
        lake.merge(first, Capacity(2))
    for name in NAMES:
        lake.rename(name, [(1, 11), (2, 22)])
    lake.merge(5, Capacity(2))
    for name in NAMES:
        expected = [(op, cells, *(False for _ in rest)) for op, cells, *rest in lake.expected(name, 4)]
        is_current = (True,) if mode is Mode.HISTORY else ()
        ended = (False,) if mode is Mode.HISTORY else ()
        behind = [("truncate", (None, None), *ended), *(("rename", row, *is_current) for row in [(1, 11), (2, 22)])]
        assert lake.rows(name) == [*expected, *behind]
        rows = rows_of(newest(lake.target(name).path))
        times = {row["_committed_at"] for row in rows if row["_op"] in ("truncate", "rename")}
        assert times == {datetime.fromtimestamp(9, UTC)}
