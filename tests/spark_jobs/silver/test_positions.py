"""Positions in columns and statistics."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.delta.snapshot import new_table
from spark_jobs.lake.ranges import joined
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import positions
from spark_jobs.silver.positions import FIELDS, at_or_after, bounds_of, may_overlap, newest_by_key, within
from spark_jobs.silver.table import Columns
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, key_of, stored, table_of

DAYS = ["!0000-00-00", "!2026-00-01", "!2026-02-00"]
"""Keys that only exact texts hold."""
COLUMNS = Columns({"day": "DATE", "v": "INT"}, ("day",))


def test_the_newest_of_each_key_by_position(tmp_path: Path) -> None:
    schema = new_table(str(tmp_path), Columns({"day": "DATE", "v": "INT"}, ("day",)).stored, {}).schema
    rows = [Row((day,), offset, offset * 7 % 10) for offset, day in enumerate([*DAYS, *DAYS[1:], *DAYS[2:]])]
    last: dict[Any, int] = {}
    for row in sorted(rows, key=lambda row: row.position):
        last[row.key] = row.position
    all_rows = newest_by_key(table_of(rows, ("day",), schema), ("day",)).to_pylist()
    assert {key_of(row, ("day",)): row["_position"]["offset"] for row in all_rows} == last


def test_no_rows_have_no_newest(tmp_path: Path) -> None:
    schema = new_table(str(tmp_path), COLUMNS.stored, {}).schema
    assert len(newest_by_key(table_of([], ("day",), schema), ("day",))) == 0


@pytest.mark.parametrize(
    "begin, after", [(4, [False, True, True]), (5, [False, True, True]), (6, [False, False, True])]
)
def test_positions_are_compared_with_one(begin: int, after: list[bool], tmp_path: Path) -> None:
    schema = new_table(str(tmp_path), COLUMNS.stored, {}).schema
    rows = table_of([Row(("!a",), 1, offset) for offset in (3, 5, 7)], ("day",), schema)
    assert at_or_after(rows.column("_position"), at(begin)).to_pylist() == after


POSITIONS = st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(0, 40))


@given(st.lists(st.one_of(st.none(), POSITIONS)), st.lists(st.tuples(POSITIONS, POSITIONS), max_size=8))
def test_positions_lie_in_ranges_as_one_by_one(
    found: list[tuple[int, int, int] | None], bounds: list[tuple[tuple[int, int, int], ...]]
) -> None:
    ranges = joined(
        [
            Range(*(Position(f"b.{number:06}", offset, stretch) for stretch, number, offset in sorted(pair)))
            for pair in bounds
        ]
    )
    cells = [position and dict(zip(FIELDS, position, strict=False)) for position in found]
    kind = pa.struct([("stretch", pa.int32()), ("number", pa.int64()), ("offset", pa.int64())])
    expected = [
        position is not None and any(part.start.order <= position < part.stop.order for part in ranges)
        for position in found
    ]
    assert within(pa.chunked_array([pa.array(cells, kind)]), ranges).to_pylist() == expected


def test_a_position_is_compared_with_the_ranges_beside_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower's table may have thousands of windows replayed, and a file of a few rows for each."""
    ranges = [Range(at(offset), at(offset + 5)) for offset in range(0, 50_000, 10)]
    counted, spans = list[int](), positions._spans_in_file

    def counting(*arguments: Any) -> Any:
        counted.append(len(spans(*arguments)))
        return spans(*arguments)

    monkeypatch.setattr(positions, "_spans_in_file", counting)
    found = [{"stretch": 1, "number": 1, "offset": offset} for offset in (40_002, 40_007, 40_013)]
    assert within(pa.chunked_array([found]), ranges).to_pylist() == [True, False, True]
    assert counted == [2]


@pytest.mark.parametrize(
    "ranges, expected",
    [
        ([], False),
        ([(10, 29)], False),
        ([(10, 29), (70, 80)], False),
        ([(10, 30)], True),
        ([(10, 20), (69, 70)], True),
        ([(10, 20), (40, 50), (80, 90)], True),
    ],
)
def test_ranges_that_a_file_may_have_rows_of(ranges: list[tuple[int, int]], expected: bool, tmp_path: Path) -> None:
    table = new_table(str(tmp_path / "t"), COLUMNS.stored, MAPPED)
    rows = table_of([Row(("!a",), 1, offset, window=offset - 1) for offset in (30, 70)], ("day",), table.schema)
    (file,) = stored(table, [rows]).files
    meant = [Range(at(start), at(stop)) for start, stop in ranges]
    assert may_overlap(file, table.schema, "_window_start", meant) == expected


def test_bounds_are_those_of_the_statistics(tmp_path: Path) -> None:
    table = new_table(str(tmp_path / "t"), COLUMNS.stored, MAPPED)
    rows = table_of([Row(("!a",), 1, offset, window=offset - 1) for offset in (30, 70)], ("day",), table.schema)
    table = stored(table, [rows])
    (file,) = table.files
    assert bounds_of(file, table.schema, "_position") == ((1, 1, 30), (1, 1, 70))
    assert bounds_of(file, table.schema, "_window_start") == ((1, 1, 29), (1, 1, 69))
