import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from dagster._core.instance.config import dagster_instance_config
from dagster._core.secrets.env_file import get_env_var_dict

from spark_jobs.config.loader import from_keys
from spark_jobs.config.project_files import add_variable, start_command, write_instance, write_project
from spark_jobs.config.run_files import RunFile
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
    assert variables_of(tmp_path) == {}
    monkeypatch.setenv("SHOP_PASSWORD", "exported-1")
    assert dagster_instance_config(str(tmp_path / "dagster"))[0]["run_monitoring"]["enabled"] is True
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    environment = os.environ | {"DAGSTER_HOME": str(tmp_path / "dagster"), "PYTHONPATH": str(ROOT)}
    loaded = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    loads = re.sub(r"\x1b\[\d*m", "", loaded.stdout + loaded.stderr)
    assert "code location stratalog" in loads, loads


def variables_of(folder: Path) -> dict[str, str]:
    """What Dagster reads of a folder's .env, which counts instead of exported variables."""
    return get_env_var_dict(str(folder))


def test_an_exported_password_counts_until_one_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "exported-1")
    add_variable(tmp_path / ".env", "SHOP_PASSWORD")
    text = (tmp_path / ".env").read_text()
    assert variables_of(tmp_path) == {}
    assert "exported-1" not in text
    assert text.splitlines()[1:] == ["# SHOP_PASSWORD="]
    (tmp_path / ".env").write_text(text.replace("# SHOP_PASSWORD=", "SHOP_PASSWORD=written-1"))
    assert variables_of(tmp_path) == {"SHOP_PASSWORD": "written-1"}


def test_a_file_for_passwords_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    before = os.umask(0o022)
    try:
        add_variable(path, "SHOP_PASSWORD")
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)  # what a user decided stays
        add_variable(path, "ERP_PASSWORD")
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


@pytest.mark.parametrize("line", ["SHOP_PASSWORD=p", "export SHOP_PASSWORD=p", "# SHOP_PASSWORD=", "#SHOP_PASSWORD=p"])
def test_a_variable_that_is_there_is_left_alone(line: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(line)
    assert not add_variable(tmp_path / ".env", "SHOP_PASSWORD")
    assert (tmp_path / ".env").read_text() == line


def test_git_ignores_each_file_that_is_written_beside_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    pipeline = from_keys({"lake": "./lake", "sources": {"shop": {"files": "."}}}, path)
    written = {file.path_for(path) for file in RunFile}
    assert {pipeline.tables_file, pipeline.endpoints_file} < written
    write_project(tmp_path / "pipeline.yaml", [])
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    names = [*(file.name for file in written), "lake/x", "reports/x", ".env", "dagster/x"]
    command = ["git", "-C", str(tmp_path), "check-ignore", *names]
    ignored = subprocess.run(command, capture_output=True, text=True, check=False)
    assert sorted(ignored.stdout.split()) == sorted(names)
    for name in ("pipeline.yaml", "workspace.yaml", "dagster/dagster.yaml", "package.json"):
        assert subprocess.run(["git", "-C", tmp_path, "check-ignore", name], check=False).returncode == 1, name


def test_files_that_are_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "workspace.yaml").write_text("mine")
    (tmp_path / ".env").write_text("OTHER=1")
    files = write_project(tmp_path / "pipeline.yaml", ["SHOP_PASSWORD"])
    assert [path.name for path in files] == ["dagster.yaml", ".gitignore", ".env"]
    assert (tmp_path / "workspace.yaml").read_text() == "mine"
    text = (tmp_path / ".env").read_text()
    assert text.startswith("OTHER=1\n# ")
    assert variables_of(tmp_path) == {"OTHER": "1"}
    assert write_project(tmp_path / "pipeline.yaml", ["SHOP_PASSWORD"]) == []
    assert (tmp_path / ".env").read_text() == text


def test_an_instance_that_is_there_is_left_alone(tmp_path: Path) -> None:
    write_instance(tmp_path / "dagster")
    assert dagster_instance_config(str(tmp_path / "dagster"))[0]["run_monitoring"]["enabled"] is True
    assert "!/dagster.yaml" in (tmp_path / "dagster" / ".gitignore").read_text()
    (tmp_path / "dagster" / "dagster.yaml").write_text("mine")
    write_instance(tmp_path / "dagster")
    assert (tmp_path / "dagster" / "dagster.yaml").read_text() == "mine"


def test_a_source_of_files_has_no_password(tmp_path: Path) -> None:
    assert ".env" not in [path.name for path in write_project(tmp_path / "pipeline.yaml", [])]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "dagster").touch()
    with pytest.raises(ConfigError, match=f"{tmp_path}/dagster.*: cannot be written: "):
        write_project(tmp_path / "pipeline.yaml", [])


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
