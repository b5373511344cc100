"""Which files of a target are written again, and the columns that its rows get values in."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from spark_jobs.config.modes import Mode
from spark_jobs.engine.changes.change_units import ChangeUnit
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows.exact_texts import ExactTextChange
from spark_jobs.engine.rows.fills import ColumnFill
from tests.spark_jobs.engine.changed_lakes import ChangedLake


def unit_of(folder: Path) -> ChangeUnit:
    """Of a target that has files."""
    lake = ChangedLake(folder, Mode.APPEND, (3, 4, 8))
    lake.merge(2, Capacity(1))
    unit = lake.prepared(4)[0].unit
    assert isinstance(unit, ChangeUnit)
    return unit


def test_files_are_written_again_where_statements_change_their_rows(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    assert unit.files
    assert unit.rewritten == ()
    fill = ColumnFill(unit.schema.column("v"), "7")
    assert replace(unit, fills=(fill,)).rewritten == unit.files
    # No row has an exact text: a change of names is about none, a text for all rows about each.
    assert replace(unit, exact=(ExactTextChange({"v": "w"}),)).rewritten == ()
    assert replace(unit, exact=(ExactTextChange(texts={"v": "x"}),)).rewritten == unit.files


def test_values_of_columns_are_those_of_files_and_windows(tmp_path: Path) -> None:
    unit = unit_of(tmp_path)
    of_target, of_window = ColumnFill(unit.schema.column("v"), "7"), ColumnFill(unit.schema.column("id"), "8")
    windows = tuple(replace(window, fills=(of_window,)) for window in unit.windows)
    unit = replace(unit, fills=(of_target,), windows=windows)
    assert [fill.sql for fill in unit.column_fills] == ["7", *("8" for _ in windows)]
    values = {sql: pa.scalar(int(sql), pa.int32()) for sql in ("7", "8")}
    assert [fill.value for fill in unit.valued(values).column_fills] == [values["7"], *(values["8"] for _ in windows)]
