import tomllib
from pathlib import Path

from spark_jobs.telemetry.product import version


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert version() == project["version"]
