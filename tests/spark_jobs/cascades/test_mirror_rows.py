"""Rows of a mirror, found by the columns of foreign keys."""

from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.cascades.key_columns import RAW, KeyColumns
from spark_jobs.cascades.mirror_rows import MirrorRows
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position

NAME = TableName("shop", "c")
INT, TEXT, DATE = 3, 15, 10
DEFINITION = TableDefinition(
    NAME,
    (
        Column("id", INT),
        Column("Pid", INT),
        Column("x", TEXT, 36, charset=255),
    ),
    (0,),
)
COLUMNS = {"id": "INT", "Pid": "INT", "x": "STRING", "_raw": "MAP<STRING, STRING>"}
_ARROW = pa.schema(
    [("id", pa.int32()), ("Pid", pa.int32()), ("x", pa.string()), ("_raw", pa.map_(pa.string(), pa.string()))]
)
ROWS: list[tuple[object, ...]] = [(1, 5, "a"), (2, 5, "Á"), (3, 6, "b"), (4, None, "a"), (5, 7, None)]


def mirror(folder: Path, rows: list[tuple[object, ...]], raw: object = None) -> MirrorRows:
    table = Table(str(folder / "c"), plain=True)
    cells = [dict(zip(COLUMNS, (*row, raw), strict=True)) for row in rows]
    head = table.append_rows(
        pa.Table.from_pylist(cells, _ARROW),
        table.unwritten_head(COLUMNS, {}),
        Checkpoint(Position("b.000001", 4), new_batch()),
    )
    return MirrorRows(snapshot_of(table.path, head.version))


def found(rows: MirrorRows, names: list[str], weights: tuple[object, ...]) -> list[object]:
    return [row["id"] for row in rows.located(KeyColumns.of(DEFINITION, names), weights)]


def test_rows_are_found_by_numbers_and_by_text_as_its_collation_compares_it(tmp_path: Path) -> None:
    rows = mirror(tmp_path, ROWS)
    assert found(rows, ["pid"], (5,)) == [1, 2]
    assert found(rows, ["PID"], (9,)) == []
    assert found(rows, ["x"], ("a",)) == [1, 2, 4]
    assert found(rows, ["pid", "x"], (5, "a")) == [1, 2]
    assert found(rows, ["x", "pid"], ("b", 5)) == []


def test_many_values_are_looked_up_at_once_and_each_a_single_time(tmp_path: Path) -> None:
    rows = mirror(tmp_path, ROWS)
    columns = KeyColumns.of(DEFINITION, ["pid"])
    assert [row["id"] for row in rows.find(columns, [(5,), (6,)])] == [1, 2, 3]
    assert rows.find(columns, [(5,), (6,)]) == []
    (row,) = rows.located(columns, (6,))
    assert row == {"id": 3, "pid": 6, "x": "b", RAW: None}


def test_rows_that_are_not_the_child_s_now_are_left_out(tmp_path: Path) -> None:
    rows = mirror(tmp_path, ROWS)
    rows.current = {"id": 2}
    assert found(rows, ["pid"], (5,)) == [2]


def test_a_mirror_that_is_not_there_has_no_rows() -> None:
    rows = MirrorRows(None)
    assert rows.is_empty
    assert found(rows, ["pid"], (5,)) == []


def test_values_that_cannot_be_compared_stop_their_table(tmp_path: Path) -> None:
    rows = mirror(tmp_path, [(1, 5, "a\u0301")])
    with pytest.raises(TableStopped, match="U\\+0301"):
        found(rows, ["x"], ("a",))
    untyped = mirror(tmp_path / "raw", [(1, None, "a")], [("Pid", "0x00")])
    with pytest.raises(TableStopped, match="no typed column holds"):
        found(untyped, ["pid"], (5,))
    assert found(untyped, ["x"], ("a",)) == [1]


def test_columns_that_cannot_be_compared_are_told_by_name() -> None:
    dated = TableDefinition(NAME, (Column("d", DATE),), (0,))
    with pytest.raises(TableStopped, match=r"shop\.c\.d: dates"):
        KeyColumns.of(dated, ["d"])
    with pytest.raises(TableStopped, match="no column y"):
        KeyColumns.of(DEFINITION, ["y"])
