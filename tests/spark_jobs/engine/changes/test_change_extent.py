"""Which part of the log a merge takes, and which rows of the target and of silver are of it."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_jobs.config.modes import Mode
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.engine.changes.change_extent import Extent
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import MENDED, Columns, Op
from tests.binlogs.timelines import NAME
from tests.spark_jobs.engine.lake_rows import at

TARGET = Table("none", plain=False)
WORK = MergeJob(
    "shop",
    NAME,
    Columns({"id": "INT"}, ("id",)),
    TARGET,
    Head(5, 6, SilverCommit(at(500), "b")),
    TARGET,
    mode=Mode.APPEND,
)
MERGED = Head(3, 4, DownstreamCommit(at(400), "b", silver_version=2, mode="append"))
NEWS = SilverDelta(windows=1, steps=[], redone=[], size=9)
ROWS = [
    ("load", 300), ("insert", 50), ("update", 70), ("truncate", 150), ("insert", 150), ("insert", 450), ("mend", 180),
    ("mend_delete", 180),
]  # fmt: skip


def taken_from(extent: Extent) -> tuple[list[int], list[int]]:
    """Of ROWS that are taken, as rows of the target and as rows of silver."""
    indexes = [{"stretch": 1, "number": 1, "offset": offset, "row": 0} for _, offset in ROWS]
    rows: Any = pa.table({"_op": [op for op, _ in ROWS], "_position": indexes, "_window_start": indexes})
    masks = extent.target_mask(rows).to_pylist(), extent.silver_mask(rows).to_pylist()
    return tuple([nth for nth, is_taken in enumerate(mask) if is_taken] for mask in masks)  # type: ignore[return-value]


def test_a_merge_takes_what_is_new_what_was_replayed_or_all() -> None:
    live = Extent.of(WORK, MERGED, NEWS)
    assert (live.ranges, live.is_restated) == ((Range(at(400), at(500)),), False)
    assert taken_from(live) == ([5], [])
    # Between ranges that were replayed rows of statements are taken, and no changes.
    redone = [Range(at(170), at(200)), Range(at(50), at(60))]
    replayed = Extent.of(WORK, MERGED, replace(NEWS, redone=redone))
    assert replayed.ranges == (redone[1], redone[0], Range(at(400), at(500)))
    assert (replayed.hull, replayed.is_restated) == (Range(at(50), at(500)), True)
    assert taken_from(replayed) == ([1, 3, 5], [3])
    assert replayed.with_ranges([Range(at(55), at(80))]).ranges[0] == Range(at(50), at(80))
    merged_before = replace(MERGED, checkpoint=DownstreamCommit(at(500), "b", silver_version=2))
    loaded = Extent.of(WORK, merged_before, replace(NEWS, from_server=(Op.LOAD,)))
    assert (loaded.ranges, loaded.hull) == ((), None)
    assert taken_from(loaded) == ([0], [0])
    mended = Extent.of(WORK, merged_before, replace(NEWS, from_server=MENDED))
    assert (mended.is_restated, taken_from(mended)) == (True, ([6, 7], [6, 7]))
    for head, news in ((TARGET.unwritten_head({}, {}), NEWS), (MERGED, replace(NEWS, is_renewed=True))):
        complete = Extent.of(WORK, head, news)
        assert (complete.ranges, complete.is_all) == ((), True)
        assert taken_from(complete)[1] == [0, 3, 6, 7]
