"""What an interrupt of a verb leaves: one line, exit status 130, no process; real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IMPORTS = "import time:"
"""What every line begins with in which Python names a module that is imported (PYTHONPROFILEIMPORTTIME)."""


def wait_for_import(process: subprocess.Popen[str], module: str) -> None:
    """Reads what a process says, until it has imported a module."""
    assert process.stderr
    assert any(line.split("|")[-1].strip() == module for line in process.stderr), f"{module} is not imported"


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["click.globals", "rich.text", "pydantic.json_schema", "sqlglot.helper", "spark_jobs.cli.ingest"],
)
def test_an_interrupt_of_imports_is_one_line(pipeline_file: Path, module: str) -> None:
    command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", "pipeline.yaml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPROFILEIMPORTTIME": "1"}
    with subprocess.Popen(
        command, cwd=pipeline_file.parent, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for_import(process, module)
        process.send_signal(signal.SIGINT)
        assert process.stderr
        lines = [line for line in process.stderr if not line.startswith(IMPORTS)]
    assert (process.returncode, lines) == (130, ["interrupted\n"])
