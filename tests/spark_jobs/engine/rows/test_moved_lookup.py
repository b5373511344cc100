"""Rows of silver whose keys changed while images lacked columns, over windows; random ones: test_partial_merge."""

from pathlib import Path

import pytest

from spark_jobs.config.modes import Mode
from tests.binlogs.partial_changes import NAMES, SHAPE
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.silver.test_fold_task import folded
from tests.spark_jobs.engine.target.test_partial_merge import COLUMNS, Lake, minimal
from tests.twins.plain_layers import RowChange, current_rows


def moved_row(old: int, new: int, **parts: int) -> RowChange:
    return RowChange({"id": old}, {"id": new} | parts)


def whole_row(key: int, number: int) -> RowChange:
    return RowChange(None, {"id": key, "a": number, "b": number})


def rows(lake: Lake) -> list[tuple[int, ...]]:
    return sorted(tuple(row[name] for name in NAMES) for row in rows_of(newest(lake.target.path)))


@pytest.mark.parametrize("merges_between", [False, True])
def test_a_row_is_followed_over_keys_and_windows(*, merges_between: bool, tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    windows = [
        [whole_row(1, 1), whole_row(2, 2)],
        [moved_row(1, 9), minimal(9, a=5), moved_row(2, 1), moved_row(9, 2)],
        [moved_row(2, 3, b=6), whole_row(2, 4)],
        [moved_row(1, 7), RowChange({"id": 7}, None), whole_row(1, 8)],
    ]
    for changes in windows:
        lake.window(changes)
        if merges_between:
            lake.merge()
            lake.require_same()
    if not merges_between:
        lake.merge()
        lake.require_same()
    assert rows(lake) == [(1, 8, 8), (2, 4, 4), (3, 5, 6)]


def test_a_window_done_again_changes_the_rows_that_came_from_its_keys(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([whole_row(1, 1)])
    lake.window([moved_row(1, 2, a=5)])
    lake.window([moved_row(2, 3)])
    lake.merge()
    lake.redo(1000, [whole_row(1, 7)])
    assert lake.merge().redone == 1
    lake.require_same()
    assert rows(lake) == [(3, 5, 7)]


def test_a_row_that_was_read_under_its_new_key_is_known_by_that(tmp_path: Path) -> None:
    """Of an old key that nothing tells of; not where the log says of another row of the new key in between."""
    lake = Lake(tmp_path)
    lake.load([{"id": 2, "a": 1, "b": 1}, {"id": 4, "a": 1, "b": 1}])
    lake.window([moved_row(1, 2, a=5)])
    lake.window([RowChange({"id": 4}, None), moved_row(3, 4, a=5)])
    assert lake.merge().unseen == 1
    lake.require_same()
    assert rows(lake) == [(2, 5, 1)]


def test_changes_behind_a_load_in_the_middle_of_their_window_are_newer(tmp_path: Path) -> None:
    """A later change of the key asks for the row as the window left it; of changes before the load, as it was read."""
    lake = Lake(tmp_path)
    lake.window([minimal(1, a=5), minimal(2, a=6), moved_row(3, 9), moved_row(4, 3), moved_row(9, 4)])
    loaded = [
        {"id": 1, "a": 7, "b": 1},
        {"id": 2, "a": 2, "b": 2},
        {"id": 3, "a": 3, "b": 3},
        {"id": 4, "a": 4, "b": 4},
    ]
    lake.load(loaded, offset=1001)
    lake.window([moved_row(1, 11), moved_row(2, 12), moved_row(3, 13)])
    lake.merge()
    assert rows(lake) == [(4, 3, 3), (11, 7, 1), (12, 6, 2), (13, 4, 4)]


def test_the_last_values_of_a_deleted_row_are_those_of_its_old_key(tmp_path: Path) -> None:
    lake = Lake(tmp_path, mode=Mode.SOFT_DELETE)
    lake.window([whole_row(1, 1), whole_row(2, 2), RowChange({"id": 2}, None)])
    lake.merge()
    lake.window([moved_row(1, 2, a=5), RowChange({"id": 2}, None)])
    lake.merge()
    lake.require_same()
    assert rows(lake) == [(1, 1, 1), (2, 5, 1)]


def test_a_fold_has_the_columns_of_old_keys(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.window([whole_row(1, 1), whole_row(2, 2)])
    lake.window([moved_row(1, 9), minimal(9, a=5), moved_row(2, 1), moved_row(9, 2)])
    lake.window([moved_row(2, 3, b=6), whole_row(2, 4), moved_row(8, 7)])
    windows = [*lake.windows.values()]
    assert sum(row.origin is not None for window in windows for row in window.values()) == 5
    expected, never_whole = current_rows(windows, SHAPE)
    folded_rows = folded(newest(lake.silver.path), COLUMNS, lake.stop, None)
    lacking = {(row["id"],) for row in folded_rows if row["_absent"]}
    cells = {(row["id"],): {name: row[name] for name in NAMES} for row in folded_rows}
    assert {key: row for key, row in cells.items() if key not in lacking} == expected
    assert lacking == never_whole == {(7,)}
