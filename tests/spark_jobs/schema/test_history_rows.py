from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.lake.layout import Lake
from spark_jobs.schema.facts import TableVersion
from spark_jobs.schema.history import read
from tests.spark_jobs.schema.test_history import KNOWN, NAME, STATED, UNNAMED, at, store


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
    (stored,) = read(lake, "shop").versions
    assert stored == version
    for first, two in [(stored.definition, version.definition)]:
        columns = [
            [(c.default, c.computed, c.invisible) for c in definition.columns]
            for definition in (first, two)
            if definition
        ]
        assert columns[:1] == columns[1:]
