"""Clients of catalogs, before there is a server; with servers: tests/spark_jobs/pipeline/test_iceberg_catalog.py."""

from pathlib import Path

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.iceberg.catalogs import connect, hive_columns


def test_columns_have_hive_s_types() -> None:
    schema = {
        "schema-id": 3,
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": "decimal(10, 2)"},
            {"name": "tags", "type": {"type": "map", "key": "string", "value": "string"}},
            {"name": "points", "type": {"type": "list", "element": "float"}},
            {"name": "at", "type": {"type": "struct", "fields": [{"name": "x", "type": "timestamptz"}]}},
        ],
    }
    assert hive_columns({"current-schema-id": 3, "schemas": [{"schema-id": 1, "fields": []}, schema]}) == (
        ("id", "bigint"),
        ("price", "decimal(10,2)"),
        ("tags", "map<string,string>"),
        ("points", "array<float>"),
        ("at", "struct<x:timestamp>"),
    )


@pytest.mark.parametrize(
    "properties, message",
    [
        ({}, "catalog lake has no type: set properties.type .rest, glue or hive., or PYICEBERG_CATALOG__LAKE__URI"),
        ({"type": "rest"}, "catalog lake needs the property uri"),
        ({"type": "hive"}, "catalog lake needs the property uri"),
    ],
)
def test_a_catalog_that_is_not_described_is_refused(
    properties: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=message):
        connect("lake", properties)
