import pytest

from spark_jobs.lake.commit import Checkpoint, Head
from spark_jobs.log.position import Position
from spark_jobs.silver.commit import NOT_FOLDED, SilverCommit, TableCommit

AT, FLOOR = Position("b.000009", 4), Position("b.000004", 4)


@pytest.mark.parametrize(
    "commit, floor",
    [
        (SilverCommit(AT, "new"), FLOOR),
        (SilverCommit(AT, "new", folded_to=AT), AT),
        (SilverCommit(AT, "new", folded_to=NOT_FOLDED), None),
    ],
)
def test_what_was_folded_stays_so_until_the_table_is_rebuilt(commit: SilverCommit, floor: Position | None) -> None:
    head = Head(1, 1, SilverCommit(AT, "old", folded_to=FLOOR, resets=2))
    after = SilverCommit.of(Checkpoint.from_members(commit.upon(head).members()))
    assert (after.floor, after.resets) == (floor, 0)


def test_what_earlier_versions_ask_for_is_always_there() -> None:
    members = SilverCommit(AT, "b").members()
    assert {"definition": None, "dropped": False, "emptied": None}.items() <= members.items()
    assert members.keys() == {"position", "batch", "kind", "definition", "dropped", "emptied"}


def test_what_tables_of_two_layers_say_alike_is_read_without_knowing_which() -> None:
    commit = TableCommit.of(Checkpoint.from_members(SilverCommit(AT, "b", is_complete=True, key=("id",)).members()))
    assert commit.is_complete
    assert SilverCommit.of(commit).key == ("id",), "the rest is carried on"


def test_the_key_is_never_taken_for_none_where_a_commit_does_not_name_it() -> None:
    assert SilverCommit(AT, "b", key=()).key_columns == ()
    with pytest.raises(AssertionError):
        assert SilverCommit(AT, "b").key_columns
