from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, Session, TableDefinition, TableName
from spark_jobs.ddl.classify import judge
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.schema import history_rows
from spark_jobs.schema.facts import Stated, TableVersion
from spark_jobs.schema.history import read

NAME = TableName("shop", "t.`x")
UNNAMED = TableDefinition(NAME, (Column(None, 3), Column(None, 15, 40, charset=255)))
KNOWN = TableDefinition(
    NAME,
    (
        Column("id", 3, nullable=True, default="NULL", computed=False, invisible=True),
        Column("note", 15, 40, charset=255),
    ),
    (0,),
    "PRIMARY",
)


def at(offset: int) -> Position:
    return Position("mysql-bin.000003", offset, 2)


def store(lake: Lake, *versions: TableVersion, **notes: Any) -> None:
    """What ``follow`` writes, written without Spark."""
    rows = pa.Table.from_pylist([history_rows.row_of(one) for one in versions], schema=history_rows.ARROW)
    said = Checkpoint(at(900), "batch", notes={"begin": str(at(4))} | notes)
    metadata = deltalake.CommitProperties(custom_metadata={"userMetadata": said.to_json()})
    deltalake.write_deltalake(lake.schema("shop").path, rows, commit_properties=metadata)


STATED = TableVersion(
    NAME,
    at(100),
    "ddl",
    KNOWN,
    note="why",
    differs=("a", "b"),
    renamed_from=TableName("a`b", "c.d"),
    statement="CREATE",
    database="shop",
    variables={"sql_mode": "ANSI"},
    gtid="g:1",
    committed_at=datetime(2026, 11, 22, 8, 0, 0, 123456, UTC),
)


@pytest.mark.parametrize(
    "version",
    [
        STATED,
        TableVersion(NAME, at(100), "table_map", UNNAMED),
        TableVersion(NAME, at(100), "table_map", replace(UNNAMED, key=())),
        TableVersion(NAME, at(100), "ddl", is_dropped=True, renamed_to=NAME),
        TableVersion(NAME, at(100), "server", TableDefinition(NAME, (Column("e", 247, 1, labels=("it's", "ä")),), ())),
        TableVersion(NAME, at(100), "server", holds=False, definition=replace(KNOWN, key=None, index=None)),
    ],
)  # fmt: skip
def test_versions_are_read_as_they_were_written(tmp_path: Path, version: TableVersion) -> None:
    lake = Lake(str(tmp_path))
    store(lake, version)
    (found,) = read(lake, "shop").versions
    assert found == version
    for one, two in [(found.definition, version.definition)]:
        columns = [[(c.default, c.computed, c.invisible) for c in each.columns] for each in (one, two) if each]
        assert columns[:1] == columns[1:]


def said(offset: int, text: str) -> Stated:
    session = Session(1 << 22, 33, explicit_timestamps=True)
    return Stated(at(offset), judge(text, "shop"), "shop", session, stop=at(offset + 50))
