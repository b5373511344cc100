"""The example of a project of one's own: its own test, and its assets run over the tutorial's log."""

from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from docs.examples.own_project.definitions import definitions, defs
from docs.examples.own_project.test_definitions import (  # noqa: F401 - run here as the project runs it
    test_revenue_is_what_was_paid_by_day_and_currency,
)
from spark_jobs.config.loader import from_keys

pytestmark = [pytest.mark.dagster, pytest.mark.spark]

TUTORIAL = Path(__file__).parents[2] / "docs" / "examples" / "tutorial"


def test_it_loads_before_any_table_was_seen() -> None:
    dg.Definitions.validate_loadable(defs)


def test_the_report_follows_the_table(tmp_path: Path, spark: SparkSession) -> None:
    copytree(TUTORIAL, tmp_path / "binlogs", ignore=lambda *_: ["shop.sql"])
    pipeline = from_keys({"lake": "./lake", "sources": {"shop": {"files": "./binlogs"}}}, tmp_path / "pipeline.yaml")
    resources = {"spark": SimpleNamespace(session=lambda: spark)}
    with dg.DagsterInstance.ephemeral() as instance:
        assert definitions(pipeline, resources).resolve_job_def("sync").execute_in_process(instance=instance).success
        second = definitions(pipeline, resources)  # as loaded anew, with the tables that were seen
        report, orders = dg.AssetKey(["reports", "revenue"]), dg.AssetKey(["downstream", "shop", "orders"])
        assert second.resolve_asset_graph().get(report).parent_keys == {orders}
        result = second.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance, asset_selection=[report]
        )
    (materialized,) = result.asset_materializations_for_node("reports__revenue")
    metadata: dict[str, Any] = {key: value.value for key, value in materialized.metadata.items()}
    assert metadata == {"binlog/end": "mysql-bin.000003:1248", "dagster/row_count": 3}
    rows = spark.read.format("delta").load(f"{pipeline.lake}/reports/revenue").orderBy("day", "currency").collect()
    assert [(str(row["day"]), row["currency"], str(row["revenue"]), row["orders"]) for row in rows] == [
        ("2026-11-02", "EUR", "61.90", 2),
        ("2026-11-04", "EUR", "120.00", 1),
        ("2026-11-05", "SEK", "80.00", 1),
    ]
