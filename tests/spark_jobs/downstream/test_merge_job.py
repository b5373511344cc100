from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta, head_of, merged_range
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Op
from tests.binlogs.timelines import at

NOTHING = SilverDelta(windows=0, steps=[], redone=[], size=0)


def job(folder: Path, commit: SilverCommit) -> MergeJob:
    columns = silver.Columns({"id": "INT"}, ("id",))
    origin, target = (Table(str(folder / layer), plain=False) for layer in ("silver", "downstream"))
    return MergeJob("shop", TableName("shop", "t"), columns, origin, Head(7, 3, commit), target)


@pytest.mark.parametrize(
    "merged, delta, expected",
    [
        (at(100), NOTHING, Range(at(100), at(500))),
        (at(500), NOTHING, None),
        (None, NOTHING, None),
        (at(500), SilverDelta(0, [], [Range(at(10), at(20))], 0), Range(at(500), at(500))),
        (at(500), SilverDelta(0, [], [], 0, from_server=(Op.LOAD,)), Range(at(500), at(500))),
        (at(500), SilverDelta(0, [], [], 0, is_renewed=True), Range(at(500), at(500))),
        (at(600), SilverDelta(0, [], [], 0, is_renewed=True), Range(at(600), at(600))),
        (at(100), SilverDelta(0, [], [], 0, is_renewed=True, waits=True), None),
    ],
)
def test_a_merge_takes_what_the_target_has_not(
    tmp_path: Path, merged: Position | None, delta: SilverDelta, expected: Range | None
) -> None:
    head = Head(2, 1, Checkpoint(merged, "batch") if merged else None)
    assert merged_range(job(tmp_path, SilverCommit(at(500), "batch")), head, delta) == expected


MERGED = Head(3, 4, DownstreamCommit(at(10), "b", silver_version=2))
NEW = Table("none", plain=False).unwritten_head({"id": "INT"}, {})


@pytest.mark.parametrize(
    "upon, delta, is_restated",
    [
        (MERGED, NOTHING, False),
        (MERGED, replace(NOTHING, redone=[Range(at(10), at(1000))]), True),
        (MERGED, replace(NOTHING, from_server=(Op.LOAD,)), True),
        (NEW, replace(NOTHING, from_server=(Op.LOAD,)), False),
    ],
)
def test_keys_are_merged_by_all_of_silver_where_it_got_more_than_windows(
    upon: Head, delta: SilverDelta, is_restated: bool
) -> None:
    assert delta.restates(upon) is is_restated


@pytest.mark.parametrize("source, table", [("shop", "t2"), ("mall", "t"), ("shop", "t")])
def test_a_target_is_merged_from_one_source_table(tmp_path: Path, source: str, table: str) -> None:
    work = job(tmp_path, SilverCommit(at(500), "batch"))
    merged = DownstreamCommit(at(10), "b", silver_version=2, source=source, table=f"shop.{table}")
    head = work.target.unwritten_head({"id": "INT"}, {})
    work.target.append_rows(pa.table({"id": pa.array([], pa.int32())}), head, merged)
    if (source, table) == ("shop", "t"):
        assert head_of(work).position == at(10)
        return
    with pytest.raises(TableStopped, match=f"is merged from shop.{table} of source {source}"):
        head_of(work)
