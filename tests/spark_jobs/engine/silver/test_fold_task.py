"""What old rows of silver fold to, beside a plain twin.

Not here: when that is done (operations/retention/test_fold_windows.py).
"""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.delta import data_files
from spark_jobs.delta.schema import from_spark_types
from spark_jobs.delta.snapshot import DataFile, Snapshot, new_table
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.engine.silver import fold_task
from spark_jobs.engine.silver.fold_task import FoldedFiles, FoldTarget, OldFiles, OldRows
from spark_jobs.engine.silver.replay_task import ReplacedRows
from spark_jobs.silver import table as silver
from tests.binlogs.timelines import NAME
from tests.spark_jobs.engine.lake_rows import MAPPED, at, stored

KEYED = silver.Columns({"k": "INT", "a": "STRING", "b": "INT"}, ("k",))
PARTIAL = replace(KEYED, has_partial=True)
KEYLESS = silver.Columns({"a": "STRING", "b": "INT"}, ())
Row = dict[str, Any]
_OLD = 4
"""Windows that are folded, of six."""


def random_rows(columns: silver.Columns, seed: int) -> list[Row]:
    """Rows of silver as compaction gives them: a window has a key once."""
    chance = Random(seed)
    all_rows: list[Row] = []
    for window in range(6):
        start, stop = (1, 1, 100 * window), (1, 1, 100 * window + 100)
        for key in range(120):
            if chance.random() < 0.5:
                continue
            op = chance.choice(["insert", "update", "delete", "load" if window == 0 else "rename"])
            row: Row = {"k": key, "a": chance.choice("xyz"), "b": chance.randrange(3), "_op": op}
            row |= {"_existed": {"insert": False, "update": True, "delete": True}.get(op), "_committed_at": None}
            row |= {"_position": (1, 1, 100 * window + key % 90, key), "_window_start": start, "_window_stop": stop}
            row |= {"_raw": {"a": "0x00"} if chance.random() < 0.1 else None, silver.ABSENT: None}
            if columns.is_keyless:
                row |= {"a": str(key % 20), silver.COPIES: chance.randrange(-2, 4), "_existed": None, "_raw": None}
            if columns.has_partial and op == "update":
                row[silver.ABSENT] = chance.sample(["a", "b"], chance.randrange(3)) or None
                row |= dict.fromkeys(row[silver.ABSENT] or (), None)
            all_rows.append(row)
        marker = dict.fromkeys(all_rows[0], None) | {"_op": "truncate", "_position": (1, 1, 100 * window, -1)}
        if window == 1 and seed % 2:
            all_rows.append(marker | {"_window_start": start, "_window_stop": start})
    return all_rows


def state(columns: silver.Columns, rows: list[Row]) -> dict[Any, Any]:
    """The plain twin: what rows make of each key, oldest first."""
    emptied: Any = max((row["_position"] for row in rows if row["_op"] == "truncate"), default=(0,))
    alive = [row for row in rows if row["_op"] != "truncate" and row["_position"] > emptied]
    by_image: dict[Any, Any] = defaultdict(dict)
    for row in sorted(alive, key=lambda one_row_cells: one_row_cells["_position"]):
        if columns.is_keyless:
            image = tuple(row[name] for name in columns.types)
            by_image[image] = (by_image[image] or 0) + row[silver.COPIES]
        elif row["_op"] == "delete":
            by_image[row["k"]] = {}
        else:
            values = {name: row[name] for name in columns.types if name not in (row[silver.ABSENT] or ())}
            raw = (row["_raw"] or {}).get("a")
            texts = {"raw": raw if "a" in values else by_image[row["k"]].get("raw")}
            by_image[row["k"]] = by_image[row["k"]] | values | texts | {"at": row["_position"]}
    return {key: row_image for key, row_image in by_image.items() if row_image}


_FIELDS = ("stretch", "number", "offset", "row")


def stored_rows(columns: silver.Columns, rows: list[Row], folder: Path) -> Snapshot:
    """Rows as a silver table of two files."""
    new = new_table(str(folder), columns.stored, MAPPED)
    schema = new.schema.arrow(physical=False)
    cells = [{name: _cell(row.get(name)) for name in columns.stored} for row in rows]
    half = len(cells) // 2
    return stored(new, [pa.Table.from_pylist(part, schema) for part in (cells[:half], cells[half:])])


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(zip(_FIELDS, value, strict=False))
    return [*value.items()] if isinstance(value, dict) else value


def _silver_row(cells: dict[str, Any]) -> Row:
    row = {name: tuple(cell.values()) if isinstance(cell, dict) else cell for name, cell in cells.items()}
    return row | {"_raw": row["_raw"] and dict(row["_raw"]), silver.ABSENT: row.get(silver.ABSENT)}


def folded(snapshot: Snapshot, columns: silver.Columns, stop: int, emptied: int | None) -> list[Row]:
    """The rows that a fold up to an offset leaves, by tasks and three buckets."""
    window = ((1, 1, 0), (1, 1, stop))
    target = FoldTarget(snapshot.path, snapshot.schema, snapshot.configuration, columns, window)
    position = None if emptied is None else at(emptied)
    old_files = tuple(snapshot.files)
    task = FoldedFiles(snapshot.path, old_files, snapshot.schema, columns, at(stop), position, 3, old_files)
    results = list(fold_task.work(task))
    blocks = [result for result in results if isinstance(result, ShuffleBlock)]
    files = [
        file
        for bucket in range(3)
        for file in fold_task.finish(target)(block for block in blocks if block.bucket == bucket)
    ]
    replaced = [result for result in results if isinstance(result, ReplacedRows)]
    assert len(replaced) == len(snapshot.files)
    rows = []
    for file in files:
        assert isinstance(file, DataFile)
        table = data_files.read_columns(snapshot.path, file, snapshot.schema.names, snapshot.schema)
        rows += [_silver_row(row) for row in table.to_pylist()]
    return rows


@pytest.mark.parametrize("columns", [KEYED, PARTIAL, KEYLESS], ids=["keyed", "partial", "bag"])
@pytest.mark.parametrize("seed", range(1, 7))
def test_a_fold_and_what_follows_it_make_of_every_key_what_all_windows_do(
    columns: silver.Columns, seed: int, tmp_path: Path
) -> None:
    names = (*columns.stored, silver.ABSENT)
    rows: list[Row] = [{name: row.get(name) for name in names} for row in random_rows(columns, seed)]
    snapshot = stored_rows(columns, rows, tmp_path)
    own_rows = folded(snapshot, columns, 100 * _OLD, 100 if seed % 2 else None)
    old = [row for row in rows if row["_window_stop"] <= (1, 1, 100 * _OLD)]
    rest = [row for row in rows if row["_window_stop"] > (1, 1, 100 * _OLD)]
    assert state(columns, own_rows + rest) == state(columns, rows)
    assert {(row["_window_start"], row["_window_stop"]) for row in own_rows} == {((1, 1, 0), (1, 1, 100 * _OLD))}
    assert len({tuple(row[name] for name in columns.key or columns.types) for row in own_rows}) == len(own_rows)
    if not columns.is_keyless:
        assert {(row["_op"], row["_existed"]) for row in own_rows} <= {("insert", False), ("update", True)}
    assert 0 < len(own_rows) < len(old)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_there_is_to_fold_is_counted(seed: int, tmp_path: Path) -> None:
    rows = random_rows(KEYED, seed)
    snapshot = stored_rows(KEYED, rows, tmp_path)
    parts = list(
        fold_task.measured_windows(OldFiles(snapshot.path, snapshot.files, snapshot.schema, at(100 * _OLD), at(200)))
    )
    old_rows = [part for part in parts if isinstance(part, OldRows)]
    old = [row for row in rows if row["_window_stop"] <= (1, 1, 100 * _OLD)]
    assert sum(part.rows for part in old_rows) == len(old)
    assert sum(part.folded_rows for part in old_rows) == sum(row["_window_stop"] <= (1, 1, 200) for row in old)
    windows = {window for part in old_rows for window in part.windows}
    assert windows == {(row["_window_start"], row["_window_stop"]) for row in old}
    assert max((part.emptied for part in old_rows if part.emptied), default=None) == ((1, 1, 100) if seed % 2 else None)


NAMES = ["start", "STOP", "Left", "_first", "_CELL0", "_last", "_End", "last", "ends", "name", "pair"]
"""As the fold calls, or called, columns and variables of its own."""


@pytest.mark.parametrize("kind", ["keyed", "partial", "bag"])
def test_columns_may_have_any_name_that_a_silver_table_may_have(kind: str) -> None:
    types = {"k": "INT"} | dict.fromkeys(NAMES, "STRING")
    columns = silver.Columns(types, () if kind == "bag" else ("k",), has_partial=kind == "partial")
    definition = TableDefinition(NAME, tuple(Column(name, 3) for name in types), key=(0,))
    assert silver.refused_names(definition) == []
    rows = []
    for window, key, op, copies in (
        (0, 1, "insert", 1),
        (0, 2, "insert", 1),
        (1, 1, "update", 1),
        (1, 2, "delete", -1),
    ):
        values = "new" if kind == "bag" or not window else "newer"
        row: Row = {"k": key} | dict.fromkeys(NAMES, values) | {"_op": op, "_existed": window > 0}
        row |= {"_position": (1, 1, 100 * window + key, 0), silver.COPIES: copies}
        row |= {"_window_start": (1, 1, 100 * window), "_window_stop": (1, 1, 100 * window + 100)}
        row |= {silver.ABSENT: ["Left"], "Left": None} if kind == "partial" and op == "update" else {}
        rows.append({name: _cell(row.get(name)) for name in columns.stored})
    schema = from_spark_types(columns.stored, column_mapping=False).arrow(physical=False)
    folded_rows = fold_task.rows_of_one_window(pa.Table.from_pylist(rows, schema), columns, ((1, 1, 0), (1, 1, 200)))
    (one_row_cells,) = (_silver_row(row) for row in folded_rows.to_pylist())
    last = dict.fromkeys(NAMES, "new" if kind == "bag" else "newer") | ({"Left": "new"} if kind == "partial" else {})
    assert {name: one_row_cells[name] for name in types} == {"k": 1} | last
    assert (one_row_cells["_op"], one_row_cells["_window_start"], one_row_cells["_window_stop"]) == (
        "insert",
        (1, 1, 0),
        (1, 1, 200),
    )
    assert kind != "bag" or one_row_cells[silver.COPIES] == 2
