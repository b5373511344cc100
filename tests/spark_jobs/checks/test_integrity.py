"""Gaps and overlaps in bronze, told by the positions of its slices."""

import pyarrow as pa
import pytest

from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.checks.integrity import _breaks

Row = tuple[int, int, int, int]
"""Stretch, number, start, stop."""
RIGHT: list[Row] = [(1, 7, 0, 500), (1, 7, 500, 900), (1, 8, 0, 300), (2, 1, 0, 50), (2, 2, 0, 77)]


def breaks(rows: list[Row], **bounds: str) -> list[str]:
    columns = [[row[at] for row in rows] for at in range(4)]
    kinds = (pa.int32(), pa.int64(), pa.int64(), pa.int64())
    names = ("stretch", "number", "start", "stop")
    cells = {name: pa.array(column, kind) for name, column, kind in zip(names, columns, kinds, strict=True)}
    cells["file"] = pa.array([f"{'ab'[row[0] - 1]}.{row[1]:06d}" for row in rows], pa.string())
    index = [
        {"stretch": 1, "begin": "a.000007:4"},
        {"stretch": 2, "begin": "2/b.000001:4", "passed_over": [["b.000002", 40, 60], ["b.000003", 0, 99]]},
    ]
    members = {"position": "2/b.000002:77", "batch": "batch", "begin": "a.000007:4", "stretches": index} | bounds
    return list(_breaks(pa.table(cells), BronzeCommit.from_members(members)))


def test_slices_that_touch_are_right() -> None:
    assert breaks(RIGHT) == []


@pytest.mark.parametrize(
    "without, extra, message",
    [
        (1, [(1, 7, 600, 900)], "a.000007: gap between 500 and 600"),
        (1, [(1, 7, 400, 900)], "a.000007: overlap between 500 and 400"),
        (None, [(1, 7, 500, 900)], "a.000007: overlap between 900 and 500"),
        (0, [], "a.000007 begins at 500, and bronze at a.000007:4"),
        (2, [(1, 8, 4, 300)], "a.000008 is held from 4 on only"),
        (2, [(1, 10, 0, 300)], "between a.000007 and a.000010 bronze lacks 2 files"),
        (4, [(2, 2, 0, 70)], "2/b.000002 is held up to 70, and the position is 2/b.000002:77"),
    ],
)
def test_what_does_not_touch_is_named(without: int | None, extra: list[Row], message: str) -> None:
    rows = [row for at, row in enumerate(RIGHT) if at != without]
    assert breaks(sorted([*rows, *extra])) == [message]


def test_what_a_stretch_passed_over_is_no_gap() -> None:
    assert breaks([*RIGHT[:4], (2, 2, 0, 40), (2, 2, 60, 77), (2, 4, 0, 9)]) == []


def test_a_table_that_lost_its_rows_is_no_right_one() -> None:
    assert breaks([]) == ["bronze holds no slice, and its position says [a.000007:4, 2/b.000002:77)"]
    assert breaks(RIGHT[2:], oldest="a.000008:4") == []
