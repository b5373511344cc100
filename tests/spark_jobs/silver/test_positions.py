"""Positions in columns and statistics."""

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.delta.snapshot import new_table
from spark_jobs.silver.positions import at_or_after, bounds_of, newest_by_key
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


def test_bounds_are_those_of_the_statistics(tmp_path: Path) -> None:
    table = new_table(str(tmp_path / "t"), COLUMNS.stored, MAPPED)
    rows = table_of([Row(("!a",), 1, offset, window=offset - 1) for offset in (30, 70)], ("day",), table.schema)
    table = stored(table, [rows])
    (file,) = table.files
    assert bounds_of(file, table.schema, "_position") == ((1, 1, 30), (1, 1, 70))
    assert bounds_of(file, table.schema, "_window_start") == ((1, 1, 29), (1, 1, 69))
