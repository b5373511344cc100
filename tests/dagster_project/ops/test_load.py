"""The load job's step on a real server."""

import dagster as dg
import pytest

from dagster_project.build import build_defs
from dagster_project.ops.load import LoadConfig, progress_metadata
from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.commit import READING, LoadCommit
from tests.fix_pipeline import Shop, require_same
from tests.lakes.code_location import GivenSession

DEFINITION = TableDefinition(TableName("shop", "t"), (Column("id", 3),), (0,))


@pytest.mark.dagster
def test_progress_is_numbers_that_can_be_plotted() -> None:
    commit = LoadCommit(
        Position("b.000001", 4),
        "b",
        state=READING,
        read_from=Position("b.000001", 99),
        definition=DEFINITION,
        chunk_rows=50,
        estimate=2**40,
        chunks=3,
        rows=100,
    )
    assert progress_metadata(commit) == {
        "load/state": "reading",
        "load/rows": 100,
        "load/ranges": 3,
        "load/as_of": "b.000001:4",
        "load/estimated_rows": float(2**40),
    }


@pytest.mark.dagster
def test_the_launchpad_shows_every_key() -> None:
    field = LoadConfig.to_config_schema().as_field()
    assert field.default_value == {"tables": [], "chunk_rows": 50_000, "max_load": ""}


@pytest.mark.dagster
@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.long
def test_a_table_is_loaded_and_its_progress_observed(shop: Shop) -> None:
    shop.execute("CREATE TABLE old (id INT PRIMARY KEY)", "INSERT INTO old VALUES (1), (2), (3)", "FLUSH BINARY LOGS")
    pipeline = Shop(shop.spark, shop.database, shop.folder, shop.end()).pipeline(live=True)
    table = f"{shop.database.name}.old"
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_defs(pipeline, {"spark": GivenSession(shop.spark)}).resolve_job_def("load_shop_tables")
        config = {"tables": [table], "chunk_rows": 2}
        assert job.execute_in_process(run_config=config, instance=instance).success
        key = dg.AssetKey(["silver", "shop", shop.database.name, "old"])
        observations = [record.asset_observation for record in instance.fetch_observations(key, limit=9).records]
        states = [observation.metadata["load/state"].value for observation in observations if observation]
        assert states == ["loaded", "read", "reading", "reading"]
        event = instance.get_latest_materialization_event(dg.AssetKey(["downstream", shop.database.name, "old"]))
        assert event
        assert event.asset_materialization
        assert event.asset_materialization.metadata["table/complete"].value is True
        assert event.asset_materialization.metadata["rows/inserted"].value == 3
    require_same(shop, pipeline, "old")
