from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.catalog import Catalog
from spark_jobs.config.loader import from_keys
from spark_jobs.errors import ConfigError

HIVE = {"spark.sql.catalogImplementation": "hive"}


def load(folder: Path, catalog: Any, spark: Any = None) -> Catalog | None:
    keys = {"lake": "l", "sources": {"shop": {"files": "."}}, "catalog": catalog}
    return from_keys(keys | ({"spark": spark} if spark else {}), folder / "pipeline.yaml").catalog


@pytest.mark.parametrize(
    "catalog, spark",
    [
        ({}, {"conf": HIVE}),
        ({"silver": "{source}_{schema}_silver", "downstream": "lake_{schema}"}, {"conf": HIVE}),
        ({"name": "unity"}, {"conf": {"spark.sql.catalog.unity": "io.unitycatalog.spark.UCSingleCatalog"}}),
        ({}, {"conf": {"spark.sql.catalog.spark_catalog": "io.unitycatalog.spark.UCSingleCatalog"}}),
        ({"name": "main"}, {"remote": "sc://h:15002"}),
    ],
)
def test_a_catalog_that_lasts_is_taken(catalog: Any, spark: Any, tmp_path: Path) -> None:
    assert load(tmp_path, catalog, spark) == Catalog(**catalog)


@pytest.mark.parametrize(
    "catalog, spark, problem",
    [
        ({}, None, "catalog.name: Spark's own catalog forgets its tables when a run ends"),
        (
            {"name": "unity"},
            {"conf": HIVE},
            "catalog.name: spark.conf defines no such catalog: it has no spark.sql.cat",
        ),
        (
            {"downstream": "{table}"},
            {"conf": HIVE},
            "catalog.downstream: {table} stands for nothing; there is {schema}",
        ),
        ({"downstream": " "}, {"conf": HIVE}, "catalog.downstream: must not be empty"),
        ({"silver": "silver"}, {"conf": HIVE}, "catalog.silver: needs {source} and {schema}"),
        ({"silver": "{source}{schema}{"}, {"conf": HIVE}, "catalog.silver: { stands for nothing"),
    ],
)
def test_what_is_wrong_is_named(catalog: Any, spark: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, catalog, spark)
    assert problem in str(raised.value)


def test_databases_are_by_source_and_schema() -> None:
    catalog = Catalog(downstream="lake_{schema}", silver="{source}_{schema}_s")
    assert catalog.downstream_database("a{source}") == "lake_a{source}"
    assert catalog.silver_database("shop", "{source}") == "shop_{source}_s"
    assert Catalog().silver_database("shop", "a") is None
