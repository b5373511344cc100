import os
from pathlib import Path

import pytest
import yaml

from spark_jobs.config.loader import load
from spark_jobs.demo.folder import PASSWORD, SOURCE, DemoFolder
from spark_jobs.errors import ConfigError


def test_afresh(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "demo")
    with folder.afresh():
        folder.read_from_files("")
        (folder.lake / "bronze").mkdir(parents=True)
        (folder.dagster / "storage").mkdir()
    with folder.afresh():
        assert not folder.lake.exists()
        assert [entry.name for entry in folder.dagster.iterdir()] == ["dagster.yaml"]


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("notes.txt", "", "holds notes.txt, which no demo has made"),
        ("pipeline.yaml", "lake: ./lake\n", "its pipeline.yaml is not a demo's"),
        ("lake", "", "its pipeline.yaml is not a demo's"),
    ],
)
def test_a_folder_with_something_else_in_it(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message), DemoFolder(tmp_path).afresh():
        raise AssertionError
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == text


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"), DemoFolder(tmp_path / "demo").afresh():
        raise AssertionError


def test_two_demos_at_once(tmp_path: Path) -> None:
    with (
        DemoFolder(tmp_path).afresh(),
        pytest.raises(ConfigError, match="another demo is at work"),
        DemoFolder(tmp_path).afresh(),
    ):
        raise AssertionError


def test_a_demo_that_was_ended_before_its_first_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("")
    with DemoFolder(tmp_path).afresh():
        assert (tmp_path / "pipeline.yaml").exists()


def test_the_configuration_of_a_server(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    with folder.afresh():
        folder.read_from_server("127.0.0.1", 4321, "repl")
    source = load(folder.config, os.environ | {PASSWORD: "hidden"}).sources[SOURCE]
    assert source.mysql is not None
    assert (source.mysql.port, source.mysql.password.get_secret_value()) == (4321, "hidden")
    assert "hidden" not in folder.config.read_text()


def test_the_configuration_of_files(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    with folder.afresh():
        folder.read_from_files(": a recording")
    pipeline = load(folder.config)
    assert pipeline.sources[SOURCE].files == folder.binlogs
    assert pipeline.lake == str(folder.lake)
    assert pipeline.scope.holds("shop", "orders")
    assert not pipeline.scope.holds("shop", "audit_log")


def test_dagsters_home_is_the_documented_example() -> None:
    root = Path(__file__).parents[3]
    example, copy = root / "docs" / "examples" / "dagster.yaml", root / "spark_jobs" / "demo" / "dagster.yaml"
    assert yaml.safe_load(copy.read_text()) == yaml.safe_load(example.read_text())
