"""Ranges that touch or overlap."""

import pytest

from spark_jobs.lake.ranges import joined
from spark_jobs.log.position import Position, Range


def position(nth: int) -> Position:
    """A log of files of 1,000 positions each, of two stretches."""
    return Position(f"b.{nth // 1000 % 10 + 1:06d}", nth % 1000 * 10, nth // 10_000 + 1)


def as_ranges(pairs: list[tuple[int, int]]) -> list[Range]:
    return [Range(position(start), position(stop)) for start, stop in pairs]


@pytest.mark.parametrize(
    "pairs, expected",
    [
        ([], []),
        ([(5, 5)], []),
        ([(3, 5), (1, 3)], [(1, 5)]),
        ([(1, 9), (2, 3), (20, 30)], [(1, 9), (20, 30)]),
        ([(9_990, 10_000), (10_000, 10_010)], [(9_990, 10_010)]),
    ],
)
def test_ranges_that_touch_are_one(pairs: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert joined(as_ranges(pairs)) == as_ranges(expected)
