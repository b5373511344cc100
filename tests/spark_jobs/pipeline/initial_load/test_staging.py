from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import Snapshot, new_table, snapshot_of
from spark_jobs.errors import LakeError, LostRace
from spark_jobs.lake.layout import Lake
from spark_jobs.pipeline.initial_load.commit import READING, STOPPED, LoadCommit
from spark_jobs.pipeline.initial_load.staging import StagedTable, design_of
from spark_jobs.silver import table as silver
from tests.binlogs.timelines import ID, NAME, OLD, V, at

COLUMNS, NAMES = silver.columns(OLD), (NAME.schema, NAME.table)
TYPES = {"id": "INT", "v": "INT"}


def test_rows_wait_with_the_columns_that_silver_is_to_have(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    table, origin = lake.load("shop", *NAMES), lake.silver("shop", *NAMES)
    assert design_of(table, origin, COLUMNS).schema.spark_types == COLUMNS.stored
    counted = silver.columns(TableDefinition(NAME, (ID, V), ()))
    assert design_of(table, origin, counted).schema.spark_types == {
        "id": "INT",
        "v": "INT",
        "_raw": "MAP<STRING, STRING>",
    }


def test_rows_wait_in_the_design_of_silver_where_it_has_their_columns(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    table, origin = lake.load("shop", *NAMES), lake.silver("shop", *NAMES)
    made = new_table(origin.path, COLUMNS.stored | {"retired": "STRING"}, silver.PROPERTIES)
    commits.commit(made)
    design = design_of(table, origin, COLUMNS)
    assert (design.schema, design.configuration) == (made.schema, made.configuration)
    stage = begun(lake, design)
    assert (stage.snapshot().schema, stage.snapshot().configuration) == (made.schema, made.configuration)
    assert stage.snapshot().metadata.id != made.metadata.id
    wider = silver.columns(TableDefinition(NAME, (ID, V, Column("w", 3)), (0,)))
    assert design_of(table, origin, wider).schema.spark_types == wider.stored


def begun(lake: Lake, design: Snapshot) -> StagedTable:
    table = lake.load("shop", *NAMES)
    progress = LoadCommit(at(4), "batch", state=READING, read_from=at(4), definition=OLD, chunk_rows=10)
    head = table.head() or table.unwritten_head(design.schema.spark_types, {})
    stage = StagedTable(NAME, table, head, progress)
    stage.begin(design)
    return stage


def test_a_load_that_is_given_up_leaves_no_row_and_its_reason(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    table = lake.load("shop", *NAMES)
    head, design = table.unwritten_head(TYPES, {}), new_table(table.path, TYPES, {})
    stage = begun(lake, design)
    with pytest.raises(LostRace):
        StagedTable(NAME, table, head, stage.progress).begin(design)
    append(stage)
    assert [row["v"] for row in table.rows()] == [10]
    assert str(stage.given_up("was changed")) == "was changed"
    assert table.rows() == []
    newest = LoadCommit.of_head(table.head())
    assert newest
    assert (newest.state, newest.reason) == (STOPPED, "was changed")


def append(stage: StagedTable) -> None:
    """One row of so many columns as the table has, in a file."""
    upon = stage.snapshot(appends=True)
    rows = pa.Table.from_pylist([{"id": 1, "v": 10}], upon.schema.arrow(physical=False))
    file = data_files.write(upon.path, rows, upon.schema, upon.configuration)
    stage.append(upon, [file], replace(stage.progress, chunks=1))


def test_a_load_begins_with_the_columns_of_now_and_no_row_of_an_earlier_one(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    table = lake.load("shop", *NAMES)
    first = begun(lake, new_table(table.path, TYPES, silver.PROPERTIES))
    append(first)
    design = new_table(table.path, {"id": "BIGINT", "w": "TIMESTAMP_NTZ"}, silver.PROPERTIES)
    second = begun(lake, design)
    assert table.rows() == []
    assert second.snapshot().schema == design.schema
    assert second.snapshot().metadata.id == table_id(first)
    assert "timestampNtz" in (second.snapshot().protocol.writer_features or ())
    assert first.head.version + 1 == second.head.version


def table_id(stage: StagedTable) -> str:
    snapshot = snapshot_of(stage.table.path, stage.head.version)
    assert snapshot
    return snapshot.metadata.id


def test_a_table_that_another_tool_changed_is_refused(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    table = lake.load("shop", *NAMES)
    stage = begun(lake, new_table(table.path, TYPES, {"delta.constraints.c": "v > 1"}))
    with pytest.raises(LakeError, match="Stratalog does not write such a table"):
        stage.note(stage.progress)
    origin = lake.silver("shop", *NAMES)
    commits.commit(new_table(origin.path, COLUMNS.stored, {"delta.constraints.c": "v > 1"}))
    with pytest.raises(LakeError, match=r"silver/.*Stratalog does not write such a table"):
        design_of(table, origin, COLUMNS)
