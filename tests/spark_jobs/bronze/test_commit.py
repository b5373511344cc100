import pytest

from spark_jobs.bronze.commit import BronzeCommit, stretches
from spark_jobs.bronze.log_index import Stretch
from spark_jobs.lake.commit import Checkpoint, CommitKind, Head
from spark_jobs.log.position import Position
from tests.binlogs.gtid_logs import gtids

AT = Position("b.000009", 4)
INDEX = (
    Stretch(1, Position("a.000007", 900)),
    Stretch(2, Position("b.000002", 77, 2), "db2:3306", gtids=gtids("a:1-5")),
)


def test_an_index_reads_back() -> None:
    commit = BronzeCommit(AT, "b", stretches=INDEX)
    assert BronzeCommit.from_json(commit.to_json()) == commit
    assert stretches(commit) == INDEX


def test_a_table_without_an_index_has_one_stretch() -> None:
    begin = Position("a.000001", 4)
    assert stretches(BronzeCommit(AT, "b", begin=begin, server_uuid="u")) == (Stretch(1, begin, uuid="u"),)
    assert stretches(Checkpoint(AT, "b")) == (Stretch(1, AT),)


@pytest.mark.parametrize(
    "new_commit, oldest, removed_to, uuid",
    [
        (BronzeCommit(AT, "new"), Position("b.000002", 4), Position("b.000001", 900), "a"),
        (
            BronzeCommit(AT, "new", oldest=Position("b.000003", 4)),
            Position("b.000003", 4),
            Position("b.000001", 900),
            "a",
        ),
        (BronzeCommit(AT, "new", server_uuid="b"), Position("b.000002", 4), Position("b.000001", 900), "b"),
    ],
)
def test_where_the_log_begins_and_whose_it_is_stands_until_a_commit_says_otherwise(
    new_commit: BronzeCommit, oldest: Position, removed_to: Position, uuid: str
) -> None:
    before = BronzeCommit(
        AT, "old", CommitKind.GC, oldest=Position("b.000002", 4), removed_to=Position("b.000001", 900),
        server_uuid="a", stretches=INDEX, log_bytes=7,
    )  # fmt: skip
    after = new_commit.upon(Head(1, 1, Checkpoint.from_members(before.members())))
    assert (after.oldest, after.removed_to, after.server_uuid, after.stretches) == (oldest, removed_to, uuid, INDEX)
    assert (after.log_bytes, after.batch, after.kind) == (None, "new", "live")
