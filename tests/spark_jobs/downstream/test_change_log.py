from dataclasses import replace

from spark_jobs.config.modes import Mode
from spark_jobs.downstream.change_log import Extent
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.merge_job import MergeJob, SilverDelta
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.table import Columns
from tests.spark_jobs.engine.lake_rows import at
from tests.timelines import NAME

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


def test_a_merge_takes_what_is_new_what_was_replayed_or_all() -> None:
    live = Extent.of(WORK, MERGED, NEWS)
    assert (live.range, live.is_restated, live.of_target) == (
        Range(at(400), at(500)),
        False,
        live.of_target,
    )
    replayed = Extent.of(WORK, MERGED, replace(NEWS, redone=[Range(at(100), at(200)), Range(at(50), at(60))]))
    assert (replayed.range, replayed.is_restated, replayed.has_loads) == (Range(at(50), at(500)), True, False)
    merged_before = replace(MERGED, checkpoint=DownstreamCommit(at(500), "b", silver_version=2))
    loaded = Extent.of(WORK, merged_before, replace(NEWS, is_loaded=True))
    assert (loaded.range, loaded.of_target) == (None, "_op = 'load'")
    for head, news in ((TARGET.new({}, {}), NEWS), (MERGED, replace(NEWS, is_renewed=True))):
        complete = Extent.of(WORK, head, news)
        assert (complete.range, complete.is_all, complete.is_restated) == (None, True, True)
