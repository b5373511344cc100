"""Which windows a target gets, what their columns become, how slices are divided, and what is left to Spark SQL."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.filters import RowFilter, TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.config.table_patterns import Scope
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.engine import change_job, downstream_job
from spark_jobs.engine.change_task import ChangeUnit
from spark_jobs.engine.spark_job import Capacity
from spark_jobs.log.position import Position
from spark_jobs.silver.table import Columns
from tests.spark_jobs.engine.changed_lakes import ChangedLake
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.logs_of_rows import FILE, NAMES

T, U = NAMES
CUTS = (3, 4, 8)
STEPS = [
    "RENAME COLUMN `v` TO `x`",
    "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "ALTER COLUMN `x` TYPE BIGINT",
    "ADD COLUMN (`w` INT AFTER `id`)",
    "UPDATE SET `w` = CAST(7 AS INT)",
    "UPDATE SET _raw = transform_keys(_raw, (k, v) -> CASE k WHEN 'v' THEN 'x' ELSE k END) WHERE _raw IS NOT NULL",
]
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
    assert unit.after == lake.log.range(0, 4).stop
    head = lake.target(T).head()
    assert head
    commit = DownstreamCommit.of_head(head)
    assert commit
    assert (commit.mode, commit.silver_version, commit.position) == ("append", 1, unit.after)


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_rows_from_before_a_statement_have_the_columns_that_it_left(mode: Mode, first: int, tmp_path: Path) -> None:
    """Those that the target has, and those that come in the merge of the statement."""
    lake = ChangedLake(tmp_path, mode, CUTS, seed=3)
    if first:
        lake.merge(first, Capacity(1))
    lake.statement(T, STEPS, AFTER)
    expected = lake.expected(T, 4)
    works = [lake.work(T, 5)]
    unit = downstream_job.prepared(0, works[0], None, lake.changed_log)
    assert isinstance(unit, downstream_job.PreparedMerge), unit
    unit = lake.valued(unit)
    assert isinstance(unit.unit, ChangeUnit)
    tasks = change_job.tasks_of([(T, unit.unit)], lake.changed_log, Capacity(1))
    results = [result for task in tasks for result in downstream_job.work(task)]
    assert [result.error for result in results] == [None]
    downstream_job.commit(unit, results)
    table = newest(lake.target(T).path)
    assert {name: kind for name, kind in table.schema.spark_types.items() if not name.startswith("_")} == AFTER.types
    rows = sorted(rows_of(table), key=lambda row: (*row["_position"].values(), row["_op"] != "delete"))
    assert [(row["_op"], (row["id"], row["x"]), row["w"]) for row in rows] == [
        (op, cells, 7) for op, cells, *_ in expected
    ]


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


def test_what_is_left_to_spark_sql(tmp_path: Path) -> None:
    def reason(folder: str, mode: Mode = Mode.APPEND, **changes: Any) -> object:
        lake = ChangedLake(tmp_path / folder, mode, CUTS)
        if "says" in changes:
            lake.statement(T, (), lake.columns[T], **changes["says"])
        if "bronze" in changes:
            snapshot = lake.changed_log.snapshot
            lake.changed_log = replace(
                lake.changed_log,
                snapshot=replace(snapshot, checkpoint=replace(snapshot.checkpoint, **changes["bronze"])),
            )
        if "rules" in changes:
            lake.rules = changes["rules"]
        work = lake.work(T, 5 if "says" in changes else 4)
        unit = downstream_job.prepared(0, replace(work, **changes.get("work", {})), None, lake.changed_log)
        return unit if isinstance(unit, str) else None

    assert reason("none") is None
    assert reason("history", Mode.HISTORY) is None
    assert reason("named", says={"inherited_from": "shop.u"}) == "rows came with its name"
    rules = TableFilters(rows=(RowFilter("r", Scope.parse(("shop.*",))),))
    assert reason("rows", rules=rules) is None
    assert reason("types", work={"columns": AFTER}) == "its columns are others than silver's"
    assert reason("gone", bronze={"oldest": Position(FILE, 300)}) == "bronze has less or more of its log than silver"
    earlier = reason("earlier", bronze={"position": Position(FILE, 300)})
    assert earlier == "bronze has less or more of its log than silver"
    older = {"begin": Position(FILE, 300), "oldest": Position(FILE, 0)}
    assert reason("older", bronze=older) == "bronze has less or more of its log than silver"


def test_commits_of_silver_that_are_gone_are_missed(tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, Mode.APPEND, CUTS)
    (Path(lake.silver[T].path) / "_delta_log" / f"{0:020}.json").rename(tmp_path / "gone")
    work = replace(lake.work(U, 4), name=T)
    entries = lake.silver[U].since(-1)
    origin = lake.silver[U]
    assert entries
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(origin), "since", lambda *_: entries[:-1])
        reason = downstream_job.prepared(0, work, None, lake.changed_log)
    assert reason == "the log of silver does not have all commits any more that the target has not got"


def test_versions_of_more_log_than_a_task_takes_go_by_spark_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_job, "_VERSIONS_BYTES", 10)
    lake = ChangedLake(tmp_path, Mode.HISTORY, CUTS)
    assert downstream_job.prepared(0, lake.work(T, 4), None, lake.changed_log) == "more was changed than a task takes"
