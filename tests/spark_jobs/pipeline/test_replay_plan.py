from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.replay_plan import _inherited_since, _require_unfolded, floor_above, plan_table
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table_timeline import TableContents, TableState
from tests.binlogs.slicing import FILE
from tests.binlogs.timelines import OLD, at
from tests.faults import runs
from tests.faults.changes import SCHEMA, SOURCE, Changes, bronze_tables

T = TableName("shop", "t")
FOLDED = Head(3, 2, SilverCommit(at(900), "batch", folded_to=at(500)))


@pytest.mark.parametrize(
    "head, start, floor",
    [
        (None, 10, None),
        (Head(3, 2, SilverCommit(at(900), "batch")), 10, None),
        (FOLDED, 10, at(500)),
        (FOLDED, 500, None),
    ],
)
def test_a_range_that_begins_in_folded_windows_fails(head: Head | None, start: int, floor: Position | None) -> None:
    log_range = Range(at(start), at(800))
    assert floor_above(head, log_range) == floor
    if floor is None:
        _require_unfolded("shop", T, head, log_range)
        return
    with pytest.raises(LakeError, match=r"^shop: shop\.t: its windows before b\.000001:500 are folded into one"):
        _require_unfolded("shop", T, head, log_range)


def test_the_log_has_inherited_rows_from_where_their_own_table_begins() -> None:
    contents = TableContents(TableName("shop", "old"), None, (), TableState(OLD), at(300))
    assert _inherited_since(T, contents, Range(at(10), at(800))) == at(300)


def test_a_replay_is_not_planned_upon_less_log_than_silver_has(tmp_path: Path) -> None:
    """Another run has extracted and compacted more since the snapshot was read: its statements would be missing."""
    steps = bronze_tables(Changes(1, 15, statements=False).content, tmp_path, 2)
    pipeline, name = runs.pipeline_in(tmp_path), TableName(SCHEMA, "orders")
    lake, link = lake_of(pipeline), tmp_path / "lake" / "bronze" / SOURCE
    link.parent.mkdir(parents=True)
    link.symlink_to(steps[0][0])
    older = BronzeSnapshot.of(lake, SOURCE)
    link.unlink()
    link.symlink_to(steps[1][0])
    with runs.without_spark():
        runs.run_until_current(pipeline, 1)
    head = lake.silver(SOURCE, SCHEMA, name.table).head()
    log_range = Range(Position(FILE, 0), Position(FILE, steps[0][1]))
    with pytest.raises(LostRace, match="another run has extracted more log"):
        plan_table(pipeline, older, name, head, log_range=log_range)
    assert plan_table(pipeline, BronzeSnapshot.of(lake, SOURCE), name, head, log_range=log_range)
