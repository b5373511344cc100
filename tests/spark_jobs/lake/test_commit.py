import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.log.position import Position


@given(
    st.builds(Position, st.sampled_from(["mysql-bin.000001", "ü.1000000"]), st.integers(0, 1 << 40), st.integers(1, 3)),
    st.text(max_size=9),
    st.sampled_from(["live", "backfill"]),
    st.dictionaries(
        st.sampled_from(["start", "begin", "key", "ü"]), st.one_of(st.text(), st.lists(st.text()), st.none())
    ),
)
def test_a_checkpoint_is_read_back_as_it_was_written(
    position: Position, batch: str, kind: str, members: dict[str, Any]
) -> None:
    checkpoint = Checkpoint(position, batch, kind, unnamed_members=members)
    assert Checkpoint.from_json(checkpoint.to_json()) == checkpoint


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "by hand",
        '{"other": {"position": "x"}}',
        '{"stratalog": null}',
        "{x",
        "[1]",
    ],
)
def test_commits_of_others_have_no_checkpoint(text: str | None) -> None:
    assert Checkpoint.from_json(text) is None


def test_a_checkpoint_is_one_json_object_under_our_name() -> None:
    checkpoint = Checkpoint(Position("b.000001", 4), "x", unnamed_members={"start": "b.000001:4"})
    assert json.loads(checkpoint.to_json()) == {
        "stratalog": {"position": "b.000001:4", "batch": "x", "kind": "live", "start": "b.000001:4"}
    }


@pytest.mark.parametrize(
    "before, members, after",
    [
        ({"oldest": "b.000002:4", "start": "x"}, {"start": "y"}, {"oldest": "b.000002:4", "start": "y"}),
        ({"oldest": "b.000002:4"}, {"oldest": "b.000003:4"}, {"oldest": "b.000003:4"}),
        ({"uuid": "a"}, {"uuid": None}, {"uuid": "a"}),
        ({"uuid": "a"}, {"uuid": "b"}, {"uuid": "b"}),
        ({}, {"start": "y"}, {"start": "y"}),
    ],
)
def test_some_members_stand_until_a_commit_says_otherwise(
    before: dict[str, Any], members: dict[str, Any], after: dict[str, Any]
) -> None:
    position = Position("b.000009", 4)
    head = Head(1, 1, Checkpoint(position, "old", "gc", unnamed_members=before))
    assert Checkpoint(position, "new", unnamed_members=members).upon(head) == Checkpoint(
        position, "new", unnamed_members=after
    )
    assert Checkpoint(position, "new", unnamed_members=members).upon(Head(0, 0, None)).unnamed_members == members


@pytest.mark.parametrize(
    "members",
    [
        {"batch": "b"},
        {"position": "bin.000001:4"},
        {"position": 4, "batch": "b"},
        {"position": "bin.000001", "batch": "b"},
    ],
    ids=str,
)
def test_a_commit_of_ours_that_lacks_a_member_is_damaged(members: dict[str, Any]) -> None:
    with pytest.raises(LakeError, match=r"what a commit says of itself cannot be read: .*; restore the"):
        Checkpoint.from_json(json.dumps({"stratalog": members}))
