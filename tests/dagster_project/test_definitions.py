"""What Dagster's own commands make of the project: that they load it, that they agree, and how they say no."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.services.dev_server import ROOT, development_server, environment

pytestmark = [pytest.mark.dagster, pytest.mark.slow]

COMMANDS = {
    "validate": ["dagster", "definitions", "validate", "-w", "workspace.yaml"],
    "check": ["dg", "check", "defs"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pipeline of one source with one table, and the home of an instance as the documentation shows it."""
    (tmp_path / "pipeline.yaml").write_text(
        "lake: ./lake\nsources: {shop: {mysql: {user: repl, password: '${SHOP_PASSWORD}'}}}\n"
    )
    tables = {"tables": [{"source": "shop", "schema": "shop", "table": "orders"}]}
    (tmp_path / "pipeline.tables.json").write_text(json.dumps(tables))
    (tmp_path / "home").mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "dagster.yaml", tmp_path / "home")
    return tmp_path


def variables(folder: Path) -> dict[str, str]:
    return environment(folder / "pipeline.yaml", folder / "home", SHOP_PASSWORD="secret")


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=variables(folder), capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize(
    "name", ["validate", pytest.param("check", marks=[pytest.mark.thorough, pytest.mark.processes])]
)
def test_the_project_is_valid(folder: Path, name: str) -> None:
    process = run(COMMANDS[name], folder)
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("validate", marks=[pytest.mark.thorough, pytest.mark.processes]),
        pytest.param("check", marks=pytest.mark.long),
    ],
)
def test_what_is_wrong_with_the_configuration_is_said_first(folder: Path, name: str) -> None:
    (folder / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {}}\ntabels: []\n")
    process = run(COMMANDS[name], folder)
    output = process.stdout + process.stderr
    assert process.returncode != 0
    assert "sources.shop: needs exactly one of mysql and files" in output
    assert "tabels: no such key" in output
    assert "STRATALOG_CONFIG names the configuration" in output
    assert "pydantic" not in output


@pytest.mark.thorough
@pytest.mark.processes
def test_all_three_commands_show_the_same(folder: Path) -> None:
    listed = json.loads(run(["dg", "list", "defs", "--json"], folder).stdout)
    assets = sorted(_listed_names(listed["assets"], "asset_key"))
    tables = ["downstream/shop/orders", "published/shop", "silver/shop/shop/orders", "source/shop"]
    assert assets == ["backfill/shop", "bronze/shop", *tables, "table_at/shop"]
    with development_server(variables(folder), folder / "dev.log") as served:
        (location,) = served.ask("{workspaceOrError {... on Workspace {locationEntries {name}}}}")["workspaceOrError"][
            "locationEntries"
        ]
        assert location["name"] == "stratalog"
        (repository,) = served.ask(_REPOSITORIES)["repositoriesOrError"]["nodes"]
    assert sorted("/".join(node["assetKey"]["path"]) for node in repository["assetNodes"]) == assets
    names_by_kind = {kind: _listed_names(repository[kind], "name") for kind in ("jobs", "sensors", "schedules")}
    names_by_kind["jobs"].discard("__ASSET_JOB")
    assert names_by_kind == {kind: _listed_names(listed[kind], "name") for kind in names_by_kind}
    states = {sensor["name"]: sensor["sensorState"]["status"] for sensor in repository["sensors"]}
    assert states.pop("lake_sensor") == "RUNNING", "it starts no run"
    states |= {schedule["name"]: schedule["scheduleState"]["status"] for schedule in repository["schedules"]}
    assert set(states.values()) == {"STOPPED"}


_REPOSITORIES = """{repositoriesOrError {... on RepositoryConnection {nodes {
  assetNodes {assetKey {path}} jobs {name}
  sensors {name sensorState {status}} schedules {name scheduleState {status}}}}}}"""


def _listed_names(listed: list[dict[str, Any]], key: str) -> set[str]:
    return {entry[key] for entry in listed}
