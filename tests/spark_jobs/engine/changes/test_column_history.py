"""Windows by silver's commits and by the log, and the target's columns through statements."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.modes import Mode
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.engine.changes import column_history
from spark_jobs.engine.changes.change_units import ChangeUnit
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.errors import LakeError
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compaction_job import CompactionJob
from spark_jobs.silver.table import Columns
from tests.spark_jobs.engine.changed_lakes import ChangedLake
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.logs_of_rows import FILE, NAMES

T, _ = NAMES
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


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_rows_from_before_a_statement_have_the_columns_that_it_left(mode: Mode, first: int, tmp_path: Path) -> None:
    """Those that the target has, and those that come in the merge of the statement."""
    lake = ChangedLake(tmp_path, mode, CUTS, seed=3)
    if first:
        lake.merge(first, Capacity(1))
    lake.statement(T, STEPS, AFTER)
    expected = lake.expected(T, 4)
    lake.merge(5, Capacity(1), [T])
    table = newest(lake.target(T).path)
    assert {name: kind for name, kind in table.schema.spark_types.items() if not name.startswith("_")} == AFTER.types
    rows = sorted(rows_of(table), key=lambda row: (*row["_position"].values(), row["_op"] != "delete"))
    assert [(row["_op"], (row["id"], row["x"]), row["w"]) for row in rows] == [
        (op, cells, 7) for op, cells, *_ in expected
    ]


@pytest.mark.parametrize(
    "bronze",
    [{"oldest": Position(FILE, 300)}, {"begin": Position(FILE, 300), "oldest": Position(FILE, 0)}],
    ids=["less log", "older log"],
)
def test_a_new_table_is_planned_from_the_log_where_bronze_has_less_or_more_of_it(
    bronze: dict[str, Any], tmp_path: Path
) -> None:
    lake, ranges = ChangedLake(tmp_path, Mode.APPEND, CUTS), list[Range | None]()

    def replayed(work: MergeJob, log_range: Range | None) -> CompactionJob | None:
        ranges.append(log_range)
        return lake.replayed(work, log_range)

    snapshot = lake.changed_log.snapshot
    snapshot = replace(snapshot, checkpoint=replace(snapshot.checkpoint, **bronze))
    log = replace(lake.changed_log, snapshot=snapshot, replayed=replayed)
    unit = downstream_job.prepared(0, lake.work(T, 4), None, log)
    assert isinstance(unit, downstream_job.PreparedMerge)
    assert ranges == [None]
    assert isinstance(unit.unit, ChangeUnit)
    assert len(unit.unit.windows[0].ranges) == 4


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_windows_are_the_logs_where_silvers_commits_are_gone(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = ChangedLake(tmp_path, mode, CUTS, seed=8, count=20)
    lake.merge(2, Capacity(2))
    monkeypatch.setattr(column_history, "_commits", lambda *_: None)
    lake.merge(4, Capacity(2))
    for name in NAMES:
        assert lake.rows(name) == lake.expected(name, 4)


def test_folded_windows_are_left_to_the_plan_of_the_log_which_refuses_them(tmp_path: Path) -> None:
    lake, floor = ChangedLake(tmp_path, Mode.HISTORY, CUTS), Position(FILE, 200)

    def replayed(_work: MergeJob, log_range: Range | None) -> CompactionJob | None:
        raise LakeError(f"folded before {floor}: {log_range}")

    log = replace(lake.changed_log, replayed=replayed)
    work = lake.work(T, 4)
    assert work.pinned.checkpoint
    folded = replace(SilverCommit.of(work.pinned.checkpoint), folded_to=floor)
    work = replace(work, pinned=replace(work.pinned, checkpoint=folded))
    with pytest.raises(LakeError, match=r"folded before b\.000001:200: None"):
        downstream_job.prepared(0, work, None, log)
