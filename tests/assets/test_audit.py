"""The checks that look at the lake alone."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets import audit
from spark_jobs.pipeline import lake_of
from spark_jobs.status import SourceStatus
from tests.code_location import CodeLocation, location
from tests.segment_spec import Commit, Insert

pytestmark = pytest.mark.dagster

Found = dict[tuple[str, str], tuple[bool, str | None]]


def checked(made: CodeLocation) -> Found:
    result = made.defs().resolve_job_def("audit").execute_in_process(instance=made.instance, raise_on_error=False)
    found = result.get_asset_check_evaluations()
    return {(one.asset_key.to_user_string(), one.check_name): (one.passed, one.description) for one in found}


@pytest.mark.spark
def test_a_key_that_stands_twice_fails_its_table_alone(tmp_path: Path, spark: SparkSession) -> None:
    with location(tmp_path, spark) as made:
        made.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, 2)), Commit())
        assert made.run().success
        lines, orders = (lake_of(made.pipeline).downstream("shop", name) for name in ("lines", "orders"))
        spark.sql(f"INSERT INTO {orders.sql} SELECT * FROM {orders.sql}")
        spark.sql(f"DELETE FROM {lines.sql}")
        assert checked(made) == {
            ("bronze/shop", "positions_touch"): (True, None),
            ("bronze/shop", "lag"): (True, "max_lag is not set"),
            ("bronze/shop", "retention_margin"): (True, None),
            ("downstream/shop/lines", "keys_unique"): (True, None),
            ("downstream/shop/orders", "keys_unique"): (
                False,
                "1 keys stand in several rows: somebody else wrote to the table",
            ),
        }


STATUS = SourceStatus("shop", "a.000001:9", "a.000001:4", 5, 61.0, 2**40, 3.5, 0, None, None, [])


@pytest.mark.parametrize(
    "changed, limit, expected",
    [
        ({}, None, {"lag": (True, "max_lag is not set"), "retention_margin": (True, None)}),
        ({}, 120, {"lag": (True, None)}),
        ({}, 60, {"lag": (False, "bronze was at the source's end 61 s ago, and max_lag is 60 s")}),
        ({"lag_seconds": None}, 60, {"lag": (True, None)}),
        ({"warning": "only 1 hour left"}, None, {"retention_margin": (False, "only 1 hour left")}),
        ({"error": "no route"}, 60, {"lag": (False, "no route"), "retention_margin": (False, "no route")}),
    ],
)
def test_lag_and_margin_are_held_against_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], limit: int | None, expected: Any
) -> None:
    with location(tmp_path) as made:
        pipeline = made.pipeline.model_copy(update={"max_lag": timedelta(seconds=limit) if limit else None})
        monkeypatch.setattr(type(made), "pipeline", pipeline)
        monkeypatch.setattr(audit, "_status", lambda *_: replace(STATUS, **changed))
        found = checked(made)
    assert found["bronze/shop", "positions_touch"] == (True, "bronze holds nothing yet")
    assert {name: found["bronze/shop", name] for name in expected} == expected


def test_checks_stand_in_their_own_job_and_in_no_run_of_a_source(tmp_path: Path) -> None:
    with location(tmp_path) as made:
        defs = made.defs()
        assert not defs.resolve_job_def("sync_shop").asset_layer.asset_graph.asset_check_keys
        keys = defs.resolve_job_def("audit").asset_layer.asset_graph.asset_check_keys
    assert keys == {dg.AssetCheckKey(dg.AssetKey(["bronze", "shop"]), name) for name in audit._SAID}
