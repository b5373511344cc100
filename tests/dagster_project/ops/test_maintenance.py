"""The maintenance job's steps, on real tables."""

from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from tests.binlogs.segment_spec import Insert, Update
from tests.lakes.code_location import CodeLocation, location


def observed(shop: CodeLocation, asset: str) -> list[dict[str, object]]:
    records = shop.instance.fetch_observations(dg.AssetKey.from_user_string(asset), limit=9).records
    observations = [record.asset_observation for record in records]
    return [
        {key: value.value for key, value in observation.metadata.items()} for observation in observations if observation
    ]


@pytest.mark.dagster
@pytest.mark.spark
@pytest.mark.long
def test_bronze_is_collected_and_every_table_maintained(tmp_path: Path, spark: SparkSession) -> None:
    with location(tmp_path, spark, retention={"bronze": "1d"}) as shop:
        assert shop.run("maintenance").success, "there is nothing yet"
        for number in (1, 2, 3):
            changed = [Update("shop.orders", (1, "a"), (1, "a"))] if number > 1 else [Insert("shop.orders", (1, "a"))]
            shop.write(number, *changed)
            shop.run()
        assert shop.run("maintenance").success
        bronze_kept, collected = observed(shop, "bronze/shop")
        assert (collected["gc/files"], collected["gc/oldest"]) == (2, "mysql-bin.000003:4")
        assert bronze_kept["maintenance/kept_hours"] == 168
        for asset in ("silver/shop/shop/orders", "downstream/shop/orders"):
            (observation,) = observed(shop, asset)
            assert observation["maintenance/files_after"] == 1
        ran = shop.run()
        assert (ran.success, ran.materialized) == (True, {}), "no row of any table has changed"


@pytest.mark.long
@pytest.mark.dagster
@pytest.mark.spark
def test_a_table_that_was_not_maintained_fails_the_step(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.operations.retention.maintenance import Upkeep

    monkeypatch.setattr("assets.failures.RETRY", dg.RetryPolicy(max_retries=0))
    monkeypatch.setattr(
        "spark_jobs.operations.retention.maintenance.maintain_source", lambda *_: Upkeep(stopped={"a": "a: busy"})
    )
    with location(tmp_path, spark) as shop:
        shop.write(1, Insert("shop.orders", (1, "a")))
        shop.run()
        failures = shop.run("maintenance").failures
    assert failures == {"maintain_shop": "not maintained: 1 table:\na: busy"}
