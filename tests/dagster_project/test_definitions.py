"""What Dagster's own commands make of the project: that they load it, that they agree, and how they say no."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.dagster, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "validate": ["dagster", "definitions", "validate", "-w", "workspace.yaml"],
    "check": ["dg", "check", "defs"],
}
_PATIENCE = 180
"""Seconds for `dagster dev` to answer on a busy machine."""


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


def environment(folder: Path, **more: str) -> dict[str, str]:
    own = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "STRATALOG_CONFIG": str(folder / "pipeline.yaml"),
        "DAGSTER_HOME": str(folder / "home"),
        "SHOP_PASSWORD": "secret",
    }
    return os.environ | own | more


def run(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=environment(folder, **more), capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_project_is_valid(folder: Path, name: str) -> None:
    done = run(COMMANDS[name], folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_wrong_with_the_configuration_is_said_first(folder: Path, name: str) -> None:
    (folder / "pipeline.yaml").write_text("lake: ./lake\nsources: {shop: {}}\ntabels: []\n")
    done = run(COMMANDS[name], folder)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "sources.shop: needs exactly one of mysql and files" in said
    assert "tabels: no such key" in said
    assert "STRATALOG_CONFIG names the configuration" in said
    assert "pydantic" not in said


def test_all_three_commands_show_the_same(folder: Path) -> None:
    listed = json.loads(run(["dg", "list", "defs", "--json"], folder).stdout)
    assets = sorted(_names(listed["assets"], "asset_key"))
    tables = ["downstream/shop/orders", "published/shop", "silver/shop/shop/orders", "source/shop"]
    assert assets == ["backfill/shop", "bronze/shop", *tables]
    with development_server(folder) as ask:
        (location,) = ask("{workspaceOrError {... on Workspace {locationEntries {name}}}}")["workspaceOrError"][
            "locationEntries"
        ]
        assert location["name"] == "stratalog"
        (repository,) = ask(_REPOSITORIES)["repositoriesOrError"]["nodes"]
    assert sorted("/".join(node["assetKey"]["path"]) for node in repository["assetNodes"]) == assets
    shown = {kind: _names(repository[kind], "name") for kind in ("jobs", "sensors", "schedules")}
    shown["jobs"].discard("__ASSET_JOB")
    assert shown == {kind: _names(listed[kind], "name") for kind in shown}
    states = [one["sensorState"]["status"] for one in repository["sensors"]]
    assert {*states, *(one["scheduleState"]["status"] for one in repository["schedules"])} == {"STOPPED"}


_REPOSITORIES = """{repositoriesOrError {... on RepositoryConnection {nodes {
  assetNodes {assetKey {path}} jobs {name}
  sensors {name sensorState {status}} schedules {name scheduleState {status}}}}}}"""


def _names(listed: list[dict[str, Any]], key: str) -> set[str]:
    return {one[key] for one in listed}


@contextmanager
def development_server(folder: Path) -> Iterator[Any]:
    """`dagster dev -w workspace.yaml` on a free port, as a function from GraphQL queries to their answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
    with (folder / "dev.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=ROOT, env=environment(folder), stdout=log, stderr=log, start_new_session=True
        )

    def ask(query: str) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/graphql",
            json.dumps({"query": query}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own server
            return json.load(answer)["data"]

    try:
        _await(ask, server, folder / "dev.log")
        yield ask
    finally:
        _stop(server)


def _stop(server: "subprocess.Popen[bytes]") -> None:
    """By Ctrl-C, as a user stops it; all of it by force where the shell that started the tests made it deaf to that."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _await(ask: Any, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            ask("{version}")
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.5)
        else:
            return
