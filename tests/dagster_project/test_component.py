"""The component: what its attributes do, and a project of ``dg`` that uses it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config
from dagster.components.core.component_tree import ComponentTreeException
from dagster.components.testing.utils import create_defs_folder_sandbox

from dagster_project.component import StratalogComponent
from spark_jobs.config.loader import load
from spark_jobs.config.project_files import ignored
from spark_jobs.errors import ConfigError
from tests.fix_mysql import Database

pytestmark = [pytest.mark.dagster, pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning")]
ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "examples" / "tutorial"
PIPELINE = {"lake": "./lake", "sources": {"shop": {"files": "."}}}
SEEN = '{"tables": [{"source": "shop", "schema": "shop", "table": "orders"}]}'


def definitions(attributes: dict[str, Any], kind: type[StratalogComponent] = StratalogComponent) -> dg.Definitions:
    """What a component with these attributes makes; one table was seen."""
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=kind, defs_path="shop", defs_yaml_contents={"type": f"{kind.__module__}.{kind.__name__}"}
        )
        (path / "pipeline.yaml").write_text(yaml.safe_dump(PIPELINE))
        (path / "pipeline.tables.json").write_text(SEEN)
        content = {
            "type": f"{kind.__module__}.{kind.__name__}",
            "attributes": {"pipeline": "pipeline.yaml"} | attributes,
        }
        (path / "defs.yaml").write_text(yaml.safe_dump(content))
        with sandbox.load_component_and_build_defs(defs_path=path) as (_, defs):
            dg.Definitions.validate_loadable(defs)
            return defs


def keys(defs: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in defs.resolve_all_asset_keys()}


OF_TABLES = {"silver/shop/shop/orders", "downstream/shop/orders"}


@pytest.mark.parametrize("pipeline", ["pipeline.yaml", PIPELINE])
def test_a_pipeline_is_a_path_or_keys(pipeline: Any) -> None:
    assert keys(definitions({"pipeline": pipeline})) >= OF_TABLES | {"bronze/shop"}


def test_attributes_place_the_pipeline_among_others() -> None:
    translation = {"group_name": "{{ data.layer }}", "tags": {"team": "data"}, "owners": ["team:data"]}
    defs = definitions(
        {"key_prefix": "mysql", "job_prefix": "erp_", "translation": translation, "automation": "sensor"}
    )
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    orders = specs["mysql/downstream/shop/orders"]
    assert (orders.group_name, orders.tags["team"], list(orders.owners)) == ("downstream", "data", ["team:data"])
    assert {"erp_sync", "erp_maintenance"} <= {job.name for job in defs.resolve_all_job_defs()}
    assert defs.resolve_sensor_def("erp_binlog_sensor_shop").default_status == dg.DefaultSensorStatus.RUNNING
    assert "erp_spark" in (defs.resources or {})


def test_a_translation_may_change_keys_one_by_one() -> None:
    key = "{{ data.layer }}/{{ data.table or data.source }}"
    assert {"downstream/orders", "silver/orders", "bronze/shop"} <= keys(definitions({"translation": {"key": key}}))


def test_the_executor_is_the_project_s_or_shares_a_session() -> None:
    assert definitions({}).executor is None
    assert definitions({"executor": "in_process"}).executor is dg.in_process_executor


def test_alerts_go_to_a_webhook() -> None:
    assert "alert_sensor" not in {sensor.name for sensor in definitions({}).sensors or []}
    defs = definitions({"alert_webhook": "https://example.org"})
    assert "alert_sensor" in {sensor.name for sensor in defs.sensors or []}


class Prefixed(StratalogComponent):
    """A component with its own keys, its own steps and its own alerts."""

    def get_asset_spec(self, spec: dg.AssetSpec, asset: Any) -> dg.AssetSpec:
        return spec.replace_attributes(key=spec.key.with_prefix(f"own_{asset.layer}"))

    def execute(self, context: dg.OpExecutionContext, step: Any) -> Any:
        context.log.info("own %s of %s", step.name, step.source)
        yield from super().execute(context, step)

    def alert(self, alert: Any) -> None:
        """To a pager."""


def test_a_subclass_has_the_last_word() -> None:
    defs = definitions({}, Prefixed)
    assert "own_bronze/bronze/shop" in keys(defs)
    assert "alert_sensor" in {sensor.name for sensor in defs.sensors or []}


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"pipeline": "gone.yaml"}, r"pipeline: .*gone\.yaml is not there"),
        ({"pipeline": {"lake": "./lake"}}, "sources: missing"),
        ({"key_prefix": "a b"}, "key_prefix: 'a b' is not a name"),
    ],
)
def test_what_is_wrong_is_said_in_one_message(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ComponentTreeException) as error:
        definitions(attributes)
    assert isinstance(error.value.__cause__, ConfigError)
    assert re.search(message, str(error.value.__cause__))


@pytest.mark.mysql
def test_the_state_has_the_tables_that_the_server_has_and_those_that_runs_have_seen(
    database: Database, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE later (id INT PRIMARY KEY)")
    server = database.server
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    key_list = {"lake": "./lake", "sources": {"shop": {"mysql": login}}, "tables": [f"{database.name}.*"]}
    component = StratalogComponent(pipeline=key_list)
    component.folder = tmp_path
    component.write_state_to_path(tmp_path / "state")
    defs = component.build_defs_from_state(None, tmp_path / "state")  # type: ignore[arg-type] # of no use to it
    assert f"downstream/{database.name}/later" in keys(defs)


@pytest.mark.parametrize("name, source", [("shop", "shop"), ("2024_shop", "source_2024_shop"), ("my-shop", "my_shop")])
def test_a_scaffold_names_a_source_and_a_variable_that_can_be(name: str, source: str) -> None:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=StratalogComponent, defs_path=name) / "pipeline.yaml"
        pipeline = load(path, {f"{source.upper()}_PASSWORD": "p"})
    assert list(pipeline.sources) == [source]


class Project:
    """A project of ``dg``, by its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = folder / "src" / "acme"
        (source / "defs").mkdir(parents=True)
        for path in (source, source / "defs"):
            (path / "__init__.py").touch()
        (folder / "pyproject.toml").write_text(
            '[project]\nname = "acme"\nversion = "0.1.0"\n'
            '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "acme"\n'
        )
        (source / "definitions.py").write_text(
            "from pathlib import Path\nimport dagster as dg\n\n\n@dg.definitions\ndef defs() -> dg.Definitions:\n"
            "    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
        )
        (folder / "home").mkdir()
        (folder / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    def dg(self, *arguments: str) -> str:
        """Output of a command, which has to succeed."""
        home = {"DAGSTER_HOME": str(self.folder / "home"), "PYTHONPATH": str(self.folder / "src")}
        home["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        ran = subprocess.run(
            ["dg", *arguments],
            cwd=self.folder,
            env=os.environ | home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
def test_a_scaffold_for_a_server_loads_by_an_exported_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    project.dg("scaffold", "defs", "stratalog.StratalogComponent", "shop", "--host", "127.0.0.1", "--port", "1")
    folder = tmp_path / "src" / "acme" / "defs" / "shop"
    assert yaml.safe_load((folder / "defs.yaml").read_text()) == {
        "type": "stratalog.StratalogComponent",
        "attributes": {"pipeline": "pipeline.yaml", "executor": "in_process"},
    }
    login = {"host": "127.0.0.1", "port": 1, "user": "repl", "password": "${SHOP_PASSWORD}"}
    assert yaml.safe_load((folder / "pipeline.yaml").read_text())["sources"] == {"shop": {"mysql": login}}
    assert (folder / ".gitignore").read_text() == ignored(folder / "pipeline.yaml")
    assert "# SHOP_PASSWORD=" in (tmp_path / ".env").read_text().splitlines()
    monkeypatch.setenv("SHOP_PASSWORD", "p")
    assert dagster_instance_config(str(tmp_path / "dagster"))[0]["run_monitoring"]["enabled"] is True
    assert "All definitions loaded" in project.dg("check", "defs")
    assert "bronze/shop" in project.dg("list", "defs", "--json")


@pytest.mark.long
@pytest.mark.spark
def test_a_project_of_dg_runs_a_pipeline_and_shows_its_tables(tmp_path: Path) -> None:
    project = Project(tmp_path)
    copytree(TUTORIAL, tmp_path / "binlogs", ignore=lambda *_: ["shop.sql"])
    project.dg("scaffold", "defs", "stratalog.StratalogComponent", "shop", "--files", str(tmp_path / "binlogs"))
    assert "downstream/shop/orders" not in project.dg("list", "defs", "--json")
    project.dg("launch", "--job", "sync")
    assert "downstream/shop/orders" in project.dg("list", "defs", "--json")
