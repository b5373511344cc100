"""The wheel is all that the demo needs: no clone, no file of the repository."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """A wheel as an installation has it, beside the packages that it needs."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
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
