"""Rows that come with a name, reduced from parts in any order. Put here: parts of a few rows and the plain model."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.rows.inherited_rows import InheritedFiles, InheritedRows, inherited, parts_from_files
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.errors import TableStopped
from spark_jobs.silver import table as silver
from spark_jobs.silver.projection import ProjectedColumn, Projection, projection_of
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, at, stored, table_of

KEYED = silver.Columns({"id": "INT", "v": "INT"}, ("id",))
KEYLESS = silver.Columns({"id": "INT", "v": "INT"}, ())


def rows_of(into: InheritedRows, cells: list[dict[str, Any]]) -> pa.Table:
    position = {"stretch": 1, "number": 1, "row": 0}
    assigned = [
        cell | {"_position": position | {"offset": cell["at"]}, "_gone": cell.get("_gone", False)} for cell in cells
    ]
    return pa.Table.from_pylist(
        [{name: cell.get(name) for name in into.schema.names} for cell in assigned], into.schema
    )


@pytest.mark.parametrize("seed", range(5))
def test_of_each_key_the_last_row_is_there_unless_it_is_gone(seed: int) -> None:
    chance = Random(seed)
    into, model = InheritedRows(KEYED, at(900)), dict[int, int | None]()
    cells = []
    for offset in range(60):
        key, value, is_gone = chance.randrange(9), chance.choice([None, offset]), chance.random() < 0.4
        cells.append({"id": key, "v": value, "at": offset, "_gone": is_gone})
        model.pop(key, None)
        model |= {} if is_gone else {key: value}
    chance.shuffle(cells)
    present = inherited(rows_of(into, cells), into, KEYED)
    assert [(row["id"], row["v"]) for row in present.to_pylist()] == sorted(model.items())


def test_rows_that_lack_columns_are_laid_over_each_other_or_stop_the_table() -> None:
    into = InheritedRows(replace(KEYED, has_partial=True), at(900))
    whole_row, partial = {"id": 1, "v": 5, "at": 10}, {"id": 1, "v": None, "at": 20, "_absent": ["v"]}
    delete = {"id": 1, "at": 30, "_gone": True}
    present = inherited(rows_of(into, [partial, whole_row]), into, KEYED)
    assert [(row["id"], row["v"]) for row in present.to_pylist()] == [(1, 5)]
    assert len(inherited(rows_of(into, [partial, delete]), into, KEYED)) == 0
    with pytest.raises(TableStopped, match="left columns out of rows that the log never held whole; load it first"):
        inherited(rows_of(into, [partial]), into, KEYED)


def test_copies_are_added_up_and_more_must_not_go_than_came() -> None:
    cells = [
        {"id": 1, "v": 1, "at": 10, "_copies": 2},
        {"id": 1, "v": 1, "at": 20, "_copies": -1},
        {"id": 2, "v": 2, "at": 30, "_copies": 1},
        {"id": 2, "v": 2, "at": 40, "_copies": -1},
    ]
    into = InheritedRows(KEYLESS, at(900))
    present = inherited(rows_of(into, cells), into, KEYLESS)
    assert [(row["id"], row["_copies"]) for row in present.to_pylist()] == [(1, 1)]
    more_gone = [*cells, {"id": 3, "v": 3, "at": 50, "_copies": -1}]
    with pytest.raises(TableStopped, match="more copies of a row were deleted than the lake has seen written"):
        inherited(rows_of(into, more_gone), into, KEYLESS)
    lacking = replace(into, lacks_older=True)
    assert len(inherited(rows_of(lacking, more_gone), lacking, KEYLESS)) == 1


def test_counted_rows_get_a_key_where_each_is_there_once() -> None:
    unchanged = RowProjection.of(projection_of(KEYLESS.types, []))
    into = InheritedRows(KEYLESS, at(900), unchanged)
    cells = [{"id": 2, "v": 1, "at": 10, "_copies": 1}, {"id": 1, "v": 1, "at": 20, "_copies": 1}]
    present = inherited(rows_of(into, cells), into, KEYED)
    assert ([row["id"] for row in present.to_pylist()], "_copies" in present.column_names) == ([1, 2], False)
    twice = [*cells, {"id": 1, "v": 1, "at": 30, "_copies": 1}]
    with pytest.raises(TableStopped, match=r"get a key at b\.000001:900, by which two would be one"):
        inherited(rows_of(into, twice), into, KEYED)


def test_a_new_key_tells_rows_apart_by_values() -> None:
    """A server that gives rows numbers by itself logs none: the lake has NULL there, or 0."""
    into = InheritedRows(KEYED, at(900), RowProjection.of(projection_of(KEYED.types, [])))
    by_v = replace(KEYED, key=("v",))
    cells: list[dict[str, Any]] = [
        {"id": 1, "v": 2, "at": 10},
        {"id": 2, "v": None, "at": 20, "_raw": [("v", "9" * 20)]},
    ]
    assert [row["id"] for row in inherited(rows_of(into, cells), into, by_v).to_pylist()] == [1, 2]
    with pytest.raises(TableStopped, match=r"gets a key at b\.000001:900, and rows have NULL in column v of it"):
        inherited(rows_of(into, [*cells, {"id": 3, "v": None, "at": 30, "_raw": [("id", "1")]}]), into, by_v)
    with pytest.raises(TableStopped, match=r"gets a key at b\.000001:900, by which two rows would be one"):
        inherited(rows_of(into, [*cells, {"id": 3, "v": 2, "at": 30}]), into, by_v)


def test_rows_that_lose_their_key_are_a_copy_each() -> None:
    into = InheritedRows(KEYED, at(900), RowProjection.of(projection_of(KEYED.types, [])))
    present = inherited(rows_of(into, [{"id": 1, "v": 1, "at": 10}]), into, KEYLESS)
    assert [row["_copies"] for row in present.to_pylist()] == [1]


def test_of_files_only_rows_count_that_are_there_and_behind_the_last_emptying(tmp_path: Path) -> None:
    new = new_table(str(tmp_path / "t"), KEYED.stored, MAPPED)
    rows = [
        Row((1,), 1, 10),
        Row((2,), 2, 50, op="truncate"),
        Row((3,), 3, 50),
        Row((4,), 4, 60, op="delete"),
        Row((5,), 5, 70),
    ]
    snapshot = stored(new, [table_of(rows, KEYED.key, new.schema)], {0: [4]})
    columns = {"id": ProjectedColumn("INT", "id"), "w": ProjectedColumn("BIGINT", "v")}
    projection = RowProjection.of(Projection(KEYED.types, columns, {"id": "id", "v": "w"}, {}))
    into = InheritedRows(silver.Columns({"id": "INT", "w": "BIGINT"}, ("id",)), at(900))
    source = InheritedFiles(0, snapshot.path, snapshot.schema, projection, snapshot.files, at(50))
    parts = [row for part in parts_from_files(source, into) for row in part.to_pylist()]
    assert [(row["id"], row["w"], row["_gone"]) for row in parts] == [(3, 3, False), (4, 4, True)]
    all_files = replace(source, emptied=None)
    assert [row["id"] for part in parts_from_files(all_files, into) for row in part.to_pylist()] == [1, 3, 4]
