import pytest

from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.replay_windows import _gaps_between, position_of_stored, ranges_of_gaps
from spark_jobs.silver.table_timeline import DataRange, TableState
from tests.binlogs.timelines import OLD, at

LIKE = Range(Position("mysql-bin.000007", 4), Position("mysql-bin.000008", 4))


@pytest.mark.parametrize(
    "log_position, position",
    [
        ((1, 42, 1337), "mysql-bin.000042:1337"),
        ((1, 1_000_000, 4), "mysql-bin.1000000:4"),
        ((2, 1, 4), "2/mysql-bin.000001:4"),
    ],
)
def test_a_stored_place_is_a_position_of_the_same_log(log_position: tuple[int, int, int], position: str) -> None:
    assert str(position_of_stored(log_position, LIKE)) == position


def part(start: int, stop: int) -> Range:
    return Range(at(start), at(stop))


@pytest.mark.parametrize(
    "windows, gaps",
    [
        ([], [(10, 90)]),
        ([(10, 90)], []),
        ([(20, 30), (30, 40)], [(10, 20), (40, 90)]),
        ([(0, 20), (80, 100)], [(20, 80)]),
    ],
)
def test_gaps_are_what_lies_between_windows(windows: list[tuple[int, int]], gaps: list[tuple[int, int]]) -> None:
    assert _gaps_between([part(*window) for window in windows], part(10, 90)) == [part(*gap) for gap in gaps]


def test_a_gap_is_cut_where_the_definition_changes() -> None:
    steps = [DataRange(part(0, 40), TableState(OLD)), DataRange(part(50, 90), TableState(OLD))]
    gaps = [part(10, 60), part(95, 99)]
    assert list(ranges_of_gaps(gaps, steps)) == [part(10, 40), part(50, 60)]
