"""Which files are put back. That they are the log again is tested with gc, in test_retention.py."""

import pytest

from spark_jobs.archive import _older
from spark_jobs.lake import Checkpoint
from spark_jobs.position import Position
from spark_jobs.source import Log, LogFile, Part


def listed(*names: str) -> Log:
    return Log("shop", tuple(LogFile(name, 500) for name in names), Position(names[-1], 500))


def checkpoint(begin: str, oldest: str | None) -> Checkpoint:
    notes = {"begin": begin} | ({"oldest": oldest} if oldest else {})
    return Checkpoint(Position("b.000009", 400), "x", "live", notes)


@pytest.mark.parametrize(
    "begin, oldest, names, parts",
    [
        ("b.000001:4", None, ["b.000001"], []),
        ("b.000001:4", "b.000001:4", ["b.000001"], []),
        ("b.000001:4", "b.000004:4", ["b.000002", "b.000003"], [("b.000002", 0), ("b.000003", 0)]),
        ("b.000001:4", "b.000004:4", ["b.000001", "b.000003"], [("b.000003", 0)]),
        ("b.000001:4", "b.000004:4", ["b.000002"], []),
        ("b.000001:4", "b.000004:4", ["other.000003"], []),
        ("b.000003:77", "b.000004:4", ["b.000002", "b.000003"], [("b.000003", 77)]),
        ("b.000003:4", "2/b.000003:4", ["b.000002"], [("b.000002", 0)]),
    ],
)
def test_files_are_put_back_that_follow_each_other_up_to_the_oldest(
    begin: str, oldest: str | None, names: list[str], parts: list[tuple[str, int]]
) -> None:
    assert _older(listed(*names), checkpoint(begin, oldest)) == [Part(name, start, 500) for name, start in parts]


def test_what_a_stretch_never_had_is_not_put_back() -> None:
    index = [
        {"stretch": 1, "begin": "a.000001:4"},
        {"stretch": 2, "begin": "2/b.000002:77", "passed_over": [["b.000002", 90, 99], ["b.000003", 400, 500]]},
    ]
    given = checkpoint("a.000001:4", "2/b.000004:4")
    given.notes["stretches"] = index
    listed_ = listed("b.000001", "b.000002", "b.000003")
    wanted = [Part("b.000002", 77, 90), Part("b.000002", 99, 500), Part("b.000003", 0, 400)]
    assert _older(listed_, given) == wanted
