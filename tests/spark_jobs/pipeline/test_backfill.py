import pytest

from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill import _position, _within

LIKE = Range(Position("mysql-bin.000007", 4), Position("mysql-bin.000008", 4))


@pytest.mark.parametrize(
    "place, position",
    [
        ((1, 42, 1337), "mysql-bin.000042:1337"),
        ((1, 1_000_000, 4), "mysql-bin.1000000:4"),
        ((2, 1, 4), "2/mysql-bin.000001:4"),
    ],
)
def test_a_stored_place_is_a_position_of_the_same_log(place: tuple[int, int, int], position: str) -> None:
    assert str(_position(place, LIKE)) == position


def test_several_windows_are_one_condition() -> None:
    text = _within([LIKE, Range(Position("mysql-bin.000009", 4), Position("mysql-bin.000009", 99))])
    assert text.count("_window_start >=") == text.count("_window_start <") == 2, "few are plain comparisons"
    assert ") OR (" in text
