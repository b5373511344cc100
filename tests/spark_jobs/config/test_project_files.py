import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dagster._core.instance.config import dagster_instance_config

from spark_jobs.config.project_files import add_variable, start_command, write_instance, write_project
from spark_jobs.errors import ConfigError
from tests.fix_cli import Stratalog

ROOT = Path(__file__).parents[3]


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.dagster
def test_dagster_loads_what_init_wrote(tmp_path: Path, stratalog: Stratalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = stratalog("init", "--host", "127.0.0.1", "--dagster")
    assert (ran.status, ran.err) == (0, "")
    files = ["pipeline.yaml", "workspace.yaml", "dagster/dagster.yaml", ".gitignore", ".env"]
    assert ran.out.splitlines()[:5] == [f"wrote {name}" for name in files]
    assert ran.out.splitlines()[-1].endswith(start_command(Path("pipeline.yaml")))
    assert (tmp_path / ".env").read_text() == "SHOP_PASSWORD=fill-in\n"
    assert dagster_instance_config(str(tmp_path / "dagster"))[0]["run_monitoring"]["enabled"] is True
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    environment = os.environ | {"DAGSTER_HOME": str(tmp_path / "dagster"), "PYTHONPATH": str(ROOT)}
    loaded = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    loads = re.sub(r"\x1b\[\d*m", "", loaded.stdout + loaded.stderr)
    assert "code location stratalog" in loads, loads


def test_files_that_are_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "workspace.yaml").write_text("mine")
    (tmp_path / ".env").write_text("OTHER=1")
    files = write_project(tmp_path, "SHOP_PASSWORD")
    assert [path.name for path in files] == ["dagster.yaml", ".gitignore", ".env"]
    assert (tmp_path / "workspace.yaml").read_text() == "mine"
    assert (tmp_path / ".env").read_text() == "OTHER=1\nSHOP_PASSWORD=fill-in\n"
    add_variable(tmp_path / ".env", "SHOP_PASSWORD")
    assert (tmp_path / ".env").read_text() == "OTHER=1\nSHOP_PASSWORD=fill-in\n"


def test_an_instance_that_is_there_is_left_alone(tmp_path: Path) -> None:
    write_instance(tmp_path / "dagster")
    assert dagster_instance_config(str(tmp_path / "dagster"))[0]["run_monitoring"]["enabled"] is True
    assert "!/dagster.yaml" in (tmp_path / "dagster" / ".gitignore").read_text()
    (tmp_path / "dagster" / "dagster.yaml").write_text("mine")
    write_instance(tmp_path / "dagster")
    assert (tmp_path / "dagster" / "dagster.yaml").read_text() == "mine"


def test_a_source_of_files_has_no_password(tmp_path: Path) -> None:
    assert ".env" not in [path.name for path in write_project(tmp_path, None)]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "dagster").touch()
    with pytest.raises(ConfigError, match=f"{tmp_path}/dagster.*: cannot be written: "):
        write_project(tmp_path, None)


def test_another_file_is_named_to_dagster() -> None:
    assert start_command(Path("erp.yaml")).startswith("STRATALOG_CONFIG=erp.yaml DAGSTER_HOME=")


def test_a_command_of_dagsters_begins_with_its_installation_where_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert start_command(Path("pipeline.yaml")) == "DAGSTER_HOME=$PWD/dagster dagster dev -w workspace.yaml"
    monkeypatch.setattr("spark_jobs.config.project_files.find_spec", lambda _: None)
    assert start_command(Path("shop.yaml")) == (
        "pip install dagster-webserver && "
        "STRATALOG_CONFIG=shop.yaml DAGSTER_HOME=$PWD/dagster dagster dev -w workspace.yaml"
    )
