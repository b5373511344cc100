import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position, Range, file_number

BASES = st.sampled_from(["mysql-bin", "binlog", "db.example.com-bin", "a b", "журнал", "bin.000001"])
FILES = st.builds(lambda base, number: f"{base}.{number:06d}", BASES, st.integers(1, 10_000_000))
POSITIONS = st.builds(Position, FILES, st.integers(0, 1 << 45), st.integers(1, 12))


@given(POSITIONS)
def test_text_and_position_are_inverse(position: Position) -> None:
    assert Position.parse(str(position)) == position
    assert str(Position.parse(f"  {position}\n")) == str(position)
    assert pickle.loads(pickle.dumps(position)) == position  # noqa: S301 - our own bytes


@given(st.lists(POSITIONS, max_size=8))
def test_order_is_that_of_stretch_number_and_offset(positions: list[Position]) -> None:
    assert [position.order for position in sorted(positions)] == sorted(position.order for position in positions)


@pytest.mark.parametrize(
    "text, file, offset, stretch",
    [
        ("mysql-bin.000042:1337", "mysql-bin.000042", 1337, 1),
        ("2/mysql-bin.000042:1337", "mysql-bin.000042", 1337, 2),
        ("1/mysql-bin.000042:0", "mysql-bin.000042", 0, 1),
        ("host.example-bin.1000000:4", "host.example-bin.1000000", 4, 1),
    ],
)
def test_what_is_written_is_read(text: str, file: str, offset: int, stretch: int) -> None:
    assert Position.parse(text) == Position(file, offset, stretch)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mysql-bin.000042",
        "mysql-bin:4",
        "mysql-bin.000042:",
        "mysql-bin.000042:-4",
        "mysql-bin.000042:4.5",
        "0/mysql-bin.000042:4",
        "02/mysql-bin.000042:4",
        "x/mysql-bin.000042:4",
        "a/b/mysql-bin.000042:4",
        "mysql-bin.000042:4:5",
        "/var/lib/mysql/mysql-bin.000042:4",
        ".000042:4",
        "9999999999/mysql-bin.000042:4",
        "mysql-bin.9999999999999999999:4",
        "mysql-bin.000042:9999999999999999999",
    ],
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Position.parse(text)
    assert str(refused.value) == f"{text!r} is not a position; write it like mysql-bin.000042:1337"


@pytest.mark.parametrize(
    "earlier, later",
    [
        ("mysql-bin.000009:900", "mysql-bin.000010:4"),
        ("mysql-bin.999999:900", "mysql-bin.1000000:4"),
        ("mysql-bin.000001:999", "mysql-bin.000001:1000"),
        ("mysql-bin.999999:900", "2/mysql-bin.000001:4"),
        ("9/mysql-bin.000001:4", "10/mysql-bin.000001:4"),
    ],
)
def test_numbers_order_positions_not_their_text(earlier: str, later: str) -> None:
    left, right = Position.parse(earlier), Position.parse(later)
    assert left < right
    assert right > left
    assert left <= right
    assert max(right, left) is right


def test_a_position_is_not_compared_with_something_else() -> None:
    with pytest.raises(TypeError):
        _ = Position("a.000001", 4) < ("a.000001", 5)


def test_the_number_of_a_file_is_what_stands_behind_its_last_dot() -> None:
    assert file_number("db.example-bin.000042") == 42
    assert Position("mysql-bin.1000000", 4).number == 1_000_000


@given(POSITIONS, POSITIONS)
def test_a_range_is_half_open_and_never_backwards(left: Position, right: Position) -> None:
    start, stop = sorted([left, right])
    log_range = Range(start, stop)
    assert bool(log_range) == (start < stop)
    assert str(log_range) == f"[{start}, {stop})"
    if start < stop:
        with pytest.raises(ConfigError) as refused:
            Range(stop, start)
        assert str(refused.value) == f"the range ends at {start}, before its start at {stop}"


@given(st.lists(st.integers(0, 12), min_size=4, max_size=4))
def test_ranges_overlap_where_they_share_a_byte(offsets: list[int]) -> None:
    positions = [Position("b.000001", offset) for offset in (*sorted(offsets[:2]), *sorted(offsets[2:]))]
    left, right = Range(*positions[:2]), Range(*positions[2:])
    bytes_of = [set(range(part.start.offset, part.stop.offset)) for part in (left, right)]
    if left and right:
        assert left.overlaps(right) == right.overlaps(left) == bool(bytes_of[0] & bytes_of[1])
