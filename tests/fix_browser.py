"""Dagster's UI before a browser. Put here: the fixture of what is looked at. Not here: what is expected to be seen.

One lake, one `dagster dev` and one browser serve all tests of a run; the pictures of the documentation are theirs too,
taken where ``--pictures`` names a folder.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from spark_jobs.config import known_tables
from spark_jobs.demo.folder import SOURCE, DemoFolder
from spark_jobs.demo.recorded import EXPECTED, recorded_files
from spark_jobs.demo.shop import SCHEMA
from tests.browser.eyes import Eyes, browser, lacking
from tests.services.dev_server import ROOT, Served, development_server, environment

BRIEF = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
"""Spark for runs of a few seconds."""


@dataclass(frozen=True, slots=True)
class UserInterface:
    """The demo's source in Dagster, synced once: its folder, its webserver, and eyes on it."""

    folder: DemoFolder
    served: Served
    eyes: Eyes


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "folder that the browser's tests put the documentation's pictures into (make pictures)"
    parser.addoption("--pictures", metavar="DIR", help=help_text)


@pytest.fixture(scope="session")
def ui(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserInterface]:
    """For tests marked dagster, spark and thorough. Skips where there is no browser on the machine."""
    reason = lacking()
    if reason:
        pytest.skip(f"the browser's tests need Debian's chromium and chromium-driver, and {reason}")
    pictures = request.config.getoption("--pictures")
    base = tmp_path_factory.mktemp("ui")
    folder = DemoFolder(base / "shop")
    with folder.afresh():
        folder.read_from_files("")
    spark = yaml.safe_dump({"spark": {"conf": BRIEF}})
    folder.config.write_text(f"{folder.config.read_text()}\n{spark}")
    for file in recorded_files():
        shutil.copy(file, folder.binlogs)
    # As after the first run of all, so that the first definitions that are loaded show every table.
    known_tables.add(
        folder.path / "pipeline.tables.json", {(SOURCE, SCHEMA, file.stem) for file in EXPECTED.glob("*.parquet")}
    )
    variables = environment(folder.config, folder.dagster)
    with browser(base / "profile") as driver, development_server(variables, base / "dev.log") as served:
        sync = ["dagster", "job", "execute", "-m", "stratalog.definitions", "-j", "sync"]
        process = subprocess.run(
            sync, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=600
        )
        assert process.returncode == 0, process.stderr
        served.ask("mutation {setNuxSeen}")  # without the dialog that greets whoever comes first
        yield UserInterface(folder, served, Eyes(driver, served.url, Path(pictures) if pictures else None))
