from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.delta import data_files
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.layout import Lake
from spark_jobs.pipeline.initial_load.commit import READING, STOPPED, LoadCommit
from spark_jobs.pipeline.initial_load.staging import StagedTable, columns_of
from tests.timelines import NAME, OLD, at


def test_rows_wait_with_their_exact_texts_beside_the_columns() -> None:
    assert columns_of(OLD) == {"id": "INT", "v": "INT", "_raw": "MAP<STRING, STRING>"}


def test_a_load_that_is_given_up_leaves_no_row_and_its_reason(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).load("shop", NAME.schema, NAME.table)
    progress = LoadCommit(at(4), "batch", state=READING, read_from=at(4), definition=OLD, chunk_rows=10)
    head = table.unwritten_head(columns_of(OLD), {})
    stage, late = (StagedTable(NAME, table, head, progress, columns_of(OLD)) for _ in range(2))
    stage.begin()
    with pytest.raises(LostRace):
        late.begin()
    append(stage, progress)
    assert [row["v"] for row in table.rows()] == [10]
    assert str(stage.given_up("was changed")) == "was changed"
    assert table.rows() == []
    newest = LoadCommit.of_head(table.head())
    assert newest
    assert (newest.state, newest.reason) == (STOPPED, "was changed")


def append(stage: StagedTable, progress: LoadCommit) -> None:
    """One row of so many columns as the table has, in a file."""
    upon = stage.snapshot(appends=True)
    rows = pa.Table.from_pylist([{"id": 1, "v": 10}], upon.schema.arrow(physical=False))
    file = data_files.write(upon.path, rows, upon.schema, upon.configuration)
    stage.append(upon, [file], replace(progress, chunks=1))


def test_a_load_begins_with_the_columns_that_the_table_has_now(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).load("shop", NAME.schema, NAME.table)
    progress = LoadCommit(at(4), "batch", state=READING, read_from=at(4), definition=OLD, chunk_rows=10)
    first = StagedTable(NAME, table, table.unwritten_head(columns_of(OLD), {}), progress, columns_of(OLD))
    first.begin()
    append(first, progress)
    second = StagedTable(NAME, table, first.head, progress, {"id": "BIGINT", "w": "STRING"})
    second.begin()
    assert table.rows() == []
    assert [column.name for column in second.snapshot().schema.columns] == ["id", "w"]
    assert first.head.version + 1 == second.head.version


def test_a_table_that_another_tool_changed_is_refused(tmp_path: Path) -> None:
    table = Lake(str(tmp_path)).load("shop", NAME.schema, NAME.table)
    progress = LoadCommit(at(4), "batch", state=READING, read_from=at(4), definition=OLD, chunk_rows=10)
    stage = StagedTable(
        NAME, table, table.unwritten_head(columns_of(OLD), {"delta.constraints.c": "v > 1"}), progress, {}
    )
    stage.begin()
    with pytest.raises(LakeError, match="Stratalog does not write such a table"):
        stage.note(progress)
