"""The code location as a function of the configuration."""

import json
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.build import build_defs
from dagster_project.resources import GivenSparkSessions
from spark_jobs.config import known_tables
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Spark
from spark_jobs.errors import ConfigError
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster


OF_A_SOURCE = {"source/shop", "bronze/shop", "published/shop", "backfill/shop", "table_at/shop"}


def list_tables(code_location: CodeLocation, *tables: str) -> None:
    listed = [{"source": "shop", "schema": "shop", "table": table} for table in tables]
    code_location.pipeline.tables_file.write_text(json.dumps({"tables": listed}))


def keys(defs: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


def test_it_loads_without_a_lake_and_without_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of nobody")
    with location(tmp_path, lake="s3a://nowhere/lake") as code_location:
        list_tables(code_location, "orders")
        defs = build_defs(code_location.pipeline.path)
    dg.Definitions.validate_loadable(defs)
    tables = {"silver/shop/shop/orders", "downstream/shop/orders"}
    assert keys(defs) == tables | OF_A_SOURCE


def loadable(tmp_path: Path, sources: Sequence[str], deliveries: Sequence[str] = ()) -> None:
    """Loads the code location of servers of these names, each with a table, as Dagster's server does."""
    servers = {name: {"mysql": {"user": "repl"}} for name in sources}
    targets = {name: {"mysql": {"user": "writer"}} for name in deliveries}
    content = {"lake": "./lake", "verify": True, "sources": servers, "deliveries": targets}
    pipeline = from_keys(content, tmp_path / "pipeline.yaml", {})
    tables = [(name, f"of_{name}", "orders") for name in sources]
    dg.Definitions.validate_loadable(build_defs(pipeline, tables=tables))


def test_deliveries_are_loaded_beside_their_jobs(tmp_path: Path) -> None:
    loadable(tmp_path, ["shop"], ["replica", "shop"])


@pytest.mark.parametrize(
    "sources", [("shop", "shop_range"), ("range",), ("shop", "shop_tables"), ("x_tables", "of_x", "x"), ("daily", "of")]
)
def test_it_loads_whatever_sources_are_called(tmp_path: Path, sources: tuple[str, ...]) -> None:
    loadable(tmp_path, sources, sources)


def test_tables_come_from_the_list_and_the_configuration(tmp_path: Path) -> None:
    with location(tmp_path, tables=["shop.*", "!shop.audit"]) as code_location:
        assert keys(code_location.defs()) == OF_A_SOURCE
        list_tables(code_location, "orders", "audit", "odd/näme")
        asset_keys = keys(code_location.defs())
        dg.Definitions.validate_loadable(code_location.defs())
    assert asset_keys >= {"silver/shop/shop/orders", "silver/shop/shop/odd%2Fnäme"}
    assert not any("audit" in key for key in asset_keys)


def test_kinds_are_those_of_the_servers_that_runs_have_read(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        kinds = code_location.defs().resolve_asset_graph().get(dg.AssetKey(["source", "shop"])).kinds
        known_tables.add(code_location.pipeline.tables_file, {("shop", "shop", "orders")}, {"shop": "mariadb"})
        graph = code_location.defs().resolve_asset_graph()
    assert kinds == {"source", "mysql"}
    assert graph.get(dg.AssetKey(["source", "shop"])).kinds == {"source", "mariadb"}
    assert graph.get(dg.AssetKey(["downstream", "shop", "orders"])).kinds == {"mariadb", "spark", "deltalake"}


def test_a_sensor_and_a_job_a_source_and_a_job_over_all(tmp_path: Path) -> None:
    sources = {"shop": {"files": "."}, "archive": {"files": "."}}
    with location(tmp_path, sources=sources) as code_location:
        defs = code_location.defs()
    assert {sensor.name for sensor in defs.sensors or []} == {
        *("lake_sensor", "binlog_sensor_shop", "binlog_sensor_archive"),
    }
    assert {schedule.name for schedule in defs.schedules or []} == {
        *("sync_every_5_minutes", "sync_daily", "maintenance_daily", "audit_hourly"),
    }
    assert {job.name for job in defs.jobs or []} == {
        *("sync", "sync_shop", "sync_archive", "maintenance", "backfill_range", "table_at", "audit"),
    }


def test_tests_bring_their_own_resources(tmp_path: Path) -> None:
    session = object()
    with location(tmp_path) as code_location:
        assert (build_defs(code_location.pipeline, {"spark": session}).resources or {})["spark"] is session


def test_a_pipeline_made_in_python_needs_no_file_and_shows_no_settings(tmp_path: Path) -> None:
    spark = Spark(master="spark://there", conf={"key": "secret"})
    pipeline = from_keys({"lake": "./lake", "sources": {"shop": {"files": "."}}, "spark": spark}, tmp_path / "any.yaml")
    defs = build_defs(pipeline)
    dg.Definitions.validate_loadable(defs)
    assert keys(defs) == {"source/shop", "bronze/shop", "published/shop", "backfill/shop", "table_at/shop"}
    session = (defs.resources or {})["spark"]
    assert isinstance(session, GivenSparkSessions)
    assert not isinstance(session, dg.ConfigurableResource)


def test_the_executor_can_be_that_of_other_definitions(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        other_definitions = dg.Definitions(executor=dg.multiprocess_executor)
        defs = build_defs(code_location.pipeline)
        merged = dg.Definitions.merge(defs, other_definitions)
        assert merged.executor is dg.multiprocess_executor
        assert defs.resolve_job_def("sync").executor_def == dg.in_process_executor, "a run has one Spark session"
        multiprocess = build_defs(code_location.pipeline, executor=dg.multiprocess_executor)
        assert multiprocess.executor is dg.multiprocess_executor
        assert multiprocess.resolve_job_def("sync").executor_def == dg.multiprocess_executor


def test_a_list_of_tables_that_is_broken_says_what_to_do(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        code_location.pipeline.tables_file.write_text("{")
        with pytest.raises(ConfigError, match="delete it"):
            code_location.defs()


def test_two_hundred_tables_load_in_seconds(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        list_tables(code_location, *(f"table_{number}" for number in range(200)))
        assert len(keys(code_location.defs())) == 405


def owner_of_common_names() -> dg.Definitions:
    """A project that has an executor, and what else Stratalog's names would collide with."""

    @dg.asset(key=["bronze", "shop"])
    def bronze() -> None: ...

    @dg.job
    def maintenance() -> None: ...

    return dg.Definitions(
        assets=[bronze],
        jobs=[maintenance, dg.define_asset_job("sync", selection=[bronze.key])],
        resources={"spark": dg.ResourceDefinition.hardcoded_resource("a session")},
        executor=dg.multiprocess_executor,
    )


def test_two_pipelines_are_guests_of_a_project_that_has_their_names(tmp_path: Path) -> None:
    with location(tmp_path) as code_location:
        list_tables(code_location, "orders")
        pipeline = code_location.pipeline
        merged = dg.Definitions.merge(
            owner_of_common_names(),
            build_defs(pipeline, key_prefix="erp", job_prefix="erp_", on_alert=print),
            build_defs(pipeline, key_prefix=["crm", "eu"], job_prefix="crm_", group="crm", automation="daily"),
        )
    dg.Definitions.validate_loadable(merged)
    assert {"bronze/shop", "erp/downstream/shop/orders", "crm/eu/downstream/shop/orders"} <= keys(merged)
    assert {"sync", "erp_sync_shop", "crm_backfill_range"} <= {job.name for job in merged.resolve_all_job_defs()}
    assert {"spark", "erp_spark", "crm_spark"} <= (merged.resources or {}).keys()
    assert {spec.group_name for spec in merged.resolve_all_asset_specs() if spec.key.path[0] == "crm"} == {"crm"}
    daily = {schedule.name: schedule.default_status for schedule in merged.schedules or []}
    assert daily["crm_sync_daily"] == dg.DefaultScheduleStatus.RUNNING
    assert daily["erp_sync_daily"] == dg.DefaultScheduleStatus.STOPPED


def test_without_prefixes_the_same_project_collides(tmp_path: Path) -> None:
    with location(tmp_path) as code_location, pytest.raises(dg.DagsterError):
        dg.Definitions.validate_loadable(
            dg.Definitions.merge(owner_of_common_names(), build_defs(code_location.pipeline))
        )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"keyprefix": "a"}, "build_defs has no option keyprefix; it has key_prefix, "),
        ({"automation": "hourly"}, "automation: must be off, sensor, every_5_minutes or daily, and is 'hourly'"),
    ],
)
def test_an_option_that_is_none_is_refused(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with location(tmp_path) as code_location, pytest.raises(ConfigError, match=message):
        build_defs(code_location.pipeline, **options)  # type: ignore[arg-type]
