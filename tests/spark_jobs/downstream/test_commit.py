import pytest

from spark_jobs.downstream.commit import ClockCommit, DownstreamCommit, PartEntry
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.log.position import Position

AT = Position("b.000009", 4)


def test_a_part_says_no_more_than_it_has() -> None:
    part = PartEntry("eu", "shop", "orders", AT, 7, True, 0)
    (stored,) = DownstreamCommit(AT, "b", silver_version=7, parts=(part,)).members()["parts"]
    assert stored.keys() == {"source", "schema", "table", "position", "silver_version", "complete", "shape"}


def test_a_commit_that_merged_nothing_from_silver_is_none_of_a_downstream_table() -> None:
    with pytest.raises(LakeError, match="silver_version"):
        DownstreamCommit.of(Checkpoint(AT, "b"))


def test_order_times_that_nothing_was_committed_at_are_null() -> None:
    assert ClockCommit(AT, "b", begin=AT).members().items() >= {"reached": None, "late": False}.items()
