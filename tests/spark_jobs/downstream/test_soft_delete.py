from dataclasses import replace

import pytest

from spark_jobs.config.modes import Mode
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.downstream.soft_delete import is_rebuilt
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns
from tests.spark_jobs.engine.lake_rows import at
from tests.timelines import NAME

TARGET = Table("none", plain=False)
NEWS = SilverDelta(windows=1, steps=[], redone=[], size=9)
MERGED = Head(3, 4, DownstreamCommit(at(400), "b", silver_version=2, mode="soft_delete"))


def work(emptied: Position | None = None, columns: Columns | None = None) -> MergeJob:
    pinned = Head(5, 6, SilverCommit(at(500), "b", emptied_at=emptied))
    columns = columns or Columns({"id": "INT"}, ("id",))
    return MergeJob("shop", NAME, columns, TARGET, pinned, TARGET, mode=Mode.SOFT_DELETE)


@pytest.mark.parametrize(
    "emptied, head, news, expected",
    [
        (None, MERGED, NEWS, False),
        (at(300), MERGED, NEWS, False),
        (at(400), MERGED, NEWS, True),
        (None, TARGET.new({}, {}), NEWS, True),
        (None, MERGED, replace(NEWS, is_renewed=True), True),
        (None, MERGED, replace(NEWS, redone=[Range(at(1), at(2))]), False),
        (None, MERGED, replace(NEWS, redone=[Range(at(1), at(2))], steps=["DROP COLUMN `v`"]), True),
    ],
)
def test_all_of_silver_is_folded_where_all_rows_may_change(
    emptied: Position | None, head: Head, news: SilverDelta, expected: bool
) -> None:
    assert is_rebuilt(work(emptied), head, news) == expected
