"""Sources of dbt by adapter and names. dbt itself reads them in tests/docs/test_dbt.py."""

from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment
from pyspark.sql import SparkSession

from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import ConfigError
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.dbt_sources import DbtAdapter, dbt_sources
from spark_jobs.pipeline.run import run_source
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

TABLES = [
    Table("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(20)),
    Table("audit.größe", key=["id"], id=INT.NOT_NULL),
]


def pipeline_of(folder: Path, **keys: object) -> Pipeline:
    return from_keys(
        {"lake": "./la{ke's", "sources": {"shop": {"files": "./binlogs"}}} | keys, folder / "pipeline.yaml"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A folder with a lake of both tables."""
    folder = tmp_path_factory.mktemp("dbt")
    (folder / "binlogs").mkdir()
    changes: list[Change] = [Insert("shop.orders", (1, "a")), Insert("audit.größe", (1,)), Commit()]
    (folder / "binlogs" / "bin.000001").write_bytes(SegmentSpec(tables=TABLES, changes=changes).to_bytes())
    run_source(spark, pipeline_of(folder), "shop")
    return folder


def sources(pipeline: Pipeline, adapter: DbtAdapter, **options: Any) -> dict[str, dict[str, Any]]:
    """Sources by name."""
    options = {"in_scope": lambda _: True} | options
    listed = dbt_sources(pipeline, lake_of(pipeline), adapter, **options)
    assert listed["version"] == 2
    return {source["name"]: source for source in listed["sources"]}


pytestmark = pytest.mark.spark


def test_duckdb_reads_a_table_by_its_path(folder: Path) -> None:
    listed = sources(pipeline_of(folder), DbtAdapter.DUCKDB, key_prefix=("mysql", "erp"))
    assert list(listed) == ["audit", "shop"]
    (table,) = listed["shop"]["tables"]
    assert table["name"] == "orders"
    assert table["columns"][:2] == [{"name": "id", "data_type": "INT"}, {"name": "note", "data_type": "STRING"}]
    meta = table["config"]["meta"]
    assert meta["dagster"] == {"asset_key": ["mysql", "erp", "downstream", "shop", "orders"]}
    rendered = Environment(autoescape=False).from_string(meta["external_location"]).render().format_map({})  # noqa: S701 - SQL
    assert rendered == f"delta_scan('{folder}/la{{ke''s/downstream/shop/orders')"


def test_spark_reads_a_table_by_its_path_or_by_its_name_in_the_catalog(folder: Path) -> None:
    shop = sources(pipeline_of(folder), DbtAdapter.SPARK)["shop"]
    assert (shop["schema"], shop["quoting"]) == ("delta", {"identifier": True})
    assert shop["tables"][0]["identifier"] == f"{folder}/la{{ke's/downstream/shop/orders"
    catalog = {"downstream": "lake_{schema}"}
    spark = {"conf": {"spark.sql.catalogImplementation": "hive"}}
    shop = sources(pipeline_of(folder, catalog=catalog, spark=spark), DbtAdapter.SPARK)["shop"]
    assert (shop["schema"], shop["quoting"]) == ("lake_shop", {"schema": True, "identifier": True})
    assert "identifier" not in shop["tables"][0]


def test_tables_that_are_named_are_listed_and_none_is_an_error(folder: Path) -> None:
    pipeline = pipeline_of(folder)
    assert list(sources(pipeline, DbtAdapter.DUCKDB, in_scope=lambda name: name.schema == "audit")) == ["audit"]
    with pytest.raises(ConfigError, match="no such downstream table is published"):
        sources(pipeline, DbtAdapter.DUCKDB, in_scope=lambda _: False)
