"""The wheel is all that the demo needs, no clone and no file of the repository; and pip installs it beside Dagster."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    return wheel


@pytest.fixture
def unpacked(wheel: Path, tmp_path: Path) -> Path:
    """A wheel as an installation has it, beside the packages that it needs."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    return tmp_path / "site"


def stratalog(unpacked: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder = unpacked.parent / "elsewhere"
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", "import spark_jobs.cli as c; print(c.__file__, flush=True); c.main()", *arguments]
    environment = os.environ | {"PYTHONPATH": str(unpacked)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.long
def test_init_and_the_demo_run_by_the_wheel_alone(unpacked: Path) -> None:
    started = stratalog(unpacked, "init", "--files", "./binlogs")
    assert (started.returncode, started.stdout.splitlines()[0]) == (0, f"{unpacked}/spark_jobs/cli/__init__.py")
    ran = stratalog(unpacked, "demo", "--files")
    assert ran.returncode == 0, ran.stderr
    assert "equal: 1,809 rows in 5 tables" in ran.stdout
    assert (unpacked.parent / "elsewhere" / "demo" / "lake" / "downstream").is_dir()


TOOLS = ("create-dagster", "dagster-dg-cli")
"""Dagster's tools as its own documentation installs them; each release of them has one version of Dagster."""
ORDERS = {
    "the wheel first": (["WHEEL"], [*TOOLS]),
    "the wheel last": ([*TOOLS], ["WHEEL"]),
    "both at once": (["WHEEL", *TOOLS, "dagster-webserver"],),
    "the extra": (["WHEEL[ui]"],),
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
def test_pip_installs_it_and_dagsters_tools_in_any_order(wheel: Path, tmp_path: Path, order: str) -> None:
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # The telemetry of Dagster's tools writes there, and create-dagster wants to make the project's folder itself.
    environment |= {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "DAGSTER_HOME": str(tmp_path)}

    def run(*command: str, cwd: Path = tmp_path) -> str:
        ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{' '.join(command)}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    for step in ORDERS[order]:
        run("pip", "install", "-q", *(name.replace("WHEEL", str(wheel)) for name in step))
    assert "No broken requirements found." in run("pip", "check")
    # A smoke test of each: the command line, and a project of Dagster's with the component.
    assert run("stratalog", "--version").startswith("stratalog, version ")
    assert "Replicate MySQL and MariaDB binary logs" in run("stratalog", "--help")
    run("create-dagster", "project", "acme", "--no-uv-sync")
    project, binlogs = tmp_path / "acme", str(ROOT / "docs" / "examples" / "tutorial")
    environment["DAGSTER_HOME"] = str(project / "dagster")
    run("pip", "install", "-q", "--no-deps", "-e", ".", cwd=project)
    run("dg", "scaffold", "defs", "stratalog.StratalogComponent", "shop", "--files", binlogs, cwd=project)
    run("dg", "check", "defs", cwd=project)
    run("dagster", "definitions", "validate", "-m", "acme.definitions", cwd=project)
    if any("webserver" in name or "ui" in name for step in ORDERS[order] for name in step):
        run("dagster-webserver", "--version")
