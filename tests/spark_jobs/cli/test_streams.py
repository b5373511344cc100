"""What becomes of a verb whose reader has closed the pipe, or whose output cannot be written; real processes."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.command_result import without_codes
from tests.lakes.lake_recording import RECORDING, SALT

ROOT = Path(__file__).parents[3]
LOG = ROOT / "tests" / "recorded" / "mysql-8.0-transactions.000001"
STRATALOG = f"{sys.executable} -m spark_jobs.cli"

PRINTING = [
    ("--help", 0),
    ("events --help", 0),
    (f"events {f'{LOG} ' * 50}", 0),
    (f"events --json {f'{LOG} ' * 50}", 0),
    (f"events --summary {LOG} {LOG}", 0),
    (f"events --summary --json {LOG} {LOG}", 0),
    (f"changes {f'{LOG} ' * 50}", 0),
    ("check -c pipeline.yaml", 0),
    ("check -c pipeline.yaml --connect", 0),
    ("check -c pipeline.yaml --connect --json", 0),
    ("status -c pipeline.yaml", 1),  # a table has stopped, read or not
    ("status -c pipeline.yaml --json", 1),
    ("schema -c pipeline.yaml", 0),
    ("schema -c pipeline.yaml --history", 0),
    ("schema -c pipeline.yaml --json", 0),
    ("report -c pipeline.yaml --to pages", 0),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that an earlier version wrote, with a stopped table, and its configuration."""
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(RECORDING) as recording:
        recording.extractall(folder, filter="data")
    (recorded,) = folder.rglob("pipeline.yaml")
    with recorded.open("a", encoding="utf-8") as text:
        text.write("spark: {conf: {spark.driver.memory: 1g}}\n")
    return recorded.parent


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command line in a folder; ``pipefail`` makes its status that of the verb."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SALT": SALT}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("verb, status", PRINTING, ids=lambda value: str(value)[:40])
def test_a_reader_that_leaves_at_once_is_no_failure(folder: Path, verb: str, status: int) -> None:
    ran = shell(f"{STRATALOG} {verb} | true", folder)
    assert [line for line in ran.stderr.splitlines() if not is_of_status(line)] == []
    assert (ran.returncode, ran.stdout) == (status, "")


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("verb, status", [PRINTING[at] for at in (2, 6, 8, 10, 13)], ids=lambda value: str(value)[:40])
def test_a_reader_that_leaves_after_a_line_is_no_failure(folder: Path, verb: str, status: int) -> None:
    ran = shell(f"{STRATALOG} {verb} | head -1", folder)
    assert [line for line in ran.stderr.splitlines() if not is_of_status(line)] == []
    assert (ran.returncode, len(ran.stdout.splitlines())) == (status, 1)


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("verb", ["events a.000001", "status -c pipeline.yaml", "schema -c pipeline.yaml"])
def test_a_reader_of_both_outputs_may_leave(folder: Path, verb: str) -> None:
    ran = shell(f"{STRATALOG} {verb} 2>&1 | true", folder)
    status = 1 if verb.startswith(("status", "events")) else 0
    assert (ran.returncode, ran.stdout, ran.stderr) == (status, "", "")


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "verb", [f"events {LOG}", f"changes {LOG}", "check -c pipeline.yaml", "schema -c pipeline.yaml"]
)
def test_an_output_on_a_full_disk_is_one_message(folder: Path, verb: str) -> None:
    ran = shell(f"{STRATALOG} {verb} > /dev/full", folder)
    message = "standard output cannot be written: No space left on device; remove the cause, then repeat the command\n"
    assert (ran.returncode, without_codes(ran.stderr)) == (1, message)


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.spark
@pytest.mark.parametrize("verb", ["changes -c pipeline.yaml --source shop", "gc -c pipeline.yaml --dry-run"])
def test_a_verb_with_spark_outlives_its_reader(folder: Path, verb: str) -> None:
    ran = shell(f"{STRATALOG} {verb} | true", folder)
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("retention.bronze is not set")]
    assert (ran.returncode, lines, ran.stdout) == (0, [], "")


def is_of_status(line: str) -> bool:
    """True if it is what ``status`` says on standard error of the recorded lake."""
    return line.startswith("exit status 1: shop: ") or " stopped: " in line
