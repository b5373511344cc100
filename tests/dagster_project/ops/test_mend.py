"""The mend job's step on a real server."""

import dagster as dg
import pytest

from dagster_project.build import build_defs
from dagster_project.ops.mend import MendConfig
from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.server_rows import ServerSession
from tests.fix_pipeline import Shop, require_same
from tests.lakes.code_location import GivenSession


@pytest.mark.dagster
def test_the_launchpad_shows_every_key() -> None:
    assert MendConfig.to_config_schema().as_field().default_value == {"tables": [], "keys": [], "apply": False}


@pytest.mark.dagster
@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.parametrize("table, message", [("u", "has a table like"), ("t", "GRANT LOCK TABLES ON")])
def test_names_and_privileges_are_looked_at_before_spark_is_started(
    shop: Shop, table: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by ``stratalog mend``; the server is asked for its tables once."""
    asked = list[ServerSession]()

    def counted(session: ServerSession) -> list[TableName]:
        asked.append(session)
        return tables(session)

    tables = ServerSession.tables
    monkeypatch.setattr(ServerSession, "tables", counted)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    pipeline = shop.pipeline(live=True)
    shop.run(pipeline)
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_defs(pipeline, {"spark": GivenSession(None)}).resolve_job_def("mend_shop_tables")
        config = {"tables": [f"{shop.database.name}.{table}"], "apply": True}
        result = job.execute_in_process(run_config=config, instance=instance, raise_on_error=False)
    [failure] = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    assert failure.user_failure_data
    assert message in (failure.user_failure_data.description or "")
    assert len(asked) == 1
    assert not [event for event in result.all_events if event.is_step_up_for_retry]


@pytest.mark.dagster
@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.long
def test_a_table_is_mended_where_that_is_asked_for(shop: Shop) -> None:
    shop.execute(f"GRANT LOCK TABLES ON {shop.database.name}.* TO repl")
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    pipeline = shop.pipeline(live=True)
    shop.run(pipeline)
    shop.execute("SET sql_log_bin = 0", "DELETE FROM t WHERE id = 2", "SET sql_log_bin = 1")
    key = dg.AssetKey(["silver", "shop", shop.database.name, "t"])
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_defs(pipeline, {"spark": GivenSession(shop.spark)}).resolve_job_def("mend_shop_tables")
        assert job.execute_in_process(instance=instance).success
        assert len(shop.merged(pipeline, "t")) == 2
        config = {"tables": [f"{shop.database.name}.t"], "apply": True}
        assert job.execute_in_process(run_config=config, instance=instance).success
        records = instance.fetch_observations(key, limit=9).records
        metadata = [record.asset_observation.metadata for record in records if record.asset_observation]
        mends = [(of["mend/applied"].value, of["mend/state"].value, of["mend/deleted"].value) for of in metadata]
        assert mends == [(True, "mended", 1), (False, "mended", 1)]
        assert metadata[0]["mend/keys"].value == f"{shop.database.name}.t extra id=2"
        event = instance.get_latest_materialization_event(dg.AssetKey(["downstream", shop.database.name, "t"]))
        assert event
        assert event.asset_materialization
        assert event.asset_materialization.metadata["rows/deleted"].value == 1
    assert require_same(shop, pipeline, "t") == 1
