"""Rows that a load read, found in silver by their keys."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.config.filters import Mask
from spark_jobs.delta import data_files
from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.rows.loaded_rows import LoadedFiles, rows_of_loads
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import ColumnMasks
from spark_jobs.silver.positions import LOADED_ROW
from tests.binlogs.partial_changes import TABLE

SINCE, UNTIL = Position("b.000001", 50), Position("b.000001", 90)
TYPES = {"id": "INT", "a": "INT", "b": "INT", **silver.ADDED}
RAW = pa.map_(pa.string(), pa.string())


def row(key: int, a: int | None, at: int = SINCE.offset, op: str = "load") -> dict[str, Any]:
    position = {"stretch": 1, "number": 1, "offset": at}
    cells = {"id": key, "a": a, "b": 10 * key, "_op": op, "_raw": None if a else [("a", "exact")]}
    last = {"row": LOADED_ROW if op == "load" else 0}
    return cells | {"_position": position | last, "_window_start": position, "_window_stop": position}


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedFiles:
    """Two files with loaded rows and others, and one that has none of the load."""
    snapshot = new_table(str(tmp_path), TYPES, {})
    fields = snapshot.schema.arrow(physical=False)
    contents = [
        [row(1, 5), row(3, None), row(3, 8, 60, "update")],
        [row(2, 6), row(4, 9, 50, "insert"), row(5, 7, 40)],
        [row(1, 4, 60, "update")],
    ]
    files = []
    for rows in contents:
        columns = [pa.array([cells.get(name) for cells in rows], fields.field(name).type) for name in TYPES]
        table = pa.table(columns, schema=pa.schema([fields.field(name) for name in TYPES]))
        files.append(data_files.write(snapshot.path, table, snapshot.schema, dict(snapshot.configuration)))
    return LoadedFiles(snapshot.path, snapshot.schema, tuple(files), SINCE, UNTIL)


def test_rows_of_the_load_are_found_by_their_keys(loaded: LoadedFiles) -> None:
    (rows,) = rows_of_loads([loaded], ("id",), None)
    assert (rows.since, rows.until, rows.names) == (SINCE, UNTIL, frozenset(("id", "a", "b")))
    # Keys as the decoder has them, in any order; 4 was inserted there, 5 came by an earlier load, 6 is not there.
    wanted = pa.table({"id": pa.array([3, 6, 5, 4, 2, 1], pa.int32()), "_raw": pa.nulls(6, RAW)})
    numbers, found = rows.read(wanted, ["a"])
    by_key = {wanted.column("id")[at].as_py(): cells for at, cells in zip(numbers, found.to_pylist(), strict=True)}
    assert by_key == {1: {"a": 5, "_raw": None}, 2: {"a": 6, "_raw": None}, 3: {"a": None, "_raw": [("a", "exact")]}}


def test_files_that_cannot_have_rows_of_the_load_are_not_read(loaded: LoadedFiles, tmp_path: Path) -> None:
    snapshot = new_table(str(tmp_path), TYPES, {}).with_files(loaded.files)
    assert LoadedFiles.of(snapshot, SINCE, UNTIL).files == loaded.files[:2]


def test_masked_columns_are_not_known_and_a_masked_key_finds_no_row(loaded: LoadedFiles) -> None:
    mask = Mask("constant", constant=0)
    (rows,) = rows_of_loads([loaded], ("id",), ColumnMasks(TABLE, {}, frozenset({"b"}), {"a": mask}))
    assert rows.names == {"id"}
    assert rows_of_loads([loaded], ("id",), ColumnMasks(TABLE, {}, frozenset(), {"id": mask})) == ()
