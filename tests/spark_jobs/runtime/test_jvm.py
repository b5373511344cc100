"""The JVM ends with the process that started it, whenever that is interrupted; real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.runtime import jvm

ROOT = Path(__file__).parents[3]
SECONDS = 20
"""How long the processes of an interrupted one have to end; an orphan stays for ever."""


def session_of(leader: int) -> dict[int, str]:
    """The command lines of processes of a session, by pid."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # ended since
            continue
        if int(session) == leader and state != "Z":
            found[int(folder.name)] = command
    return found


def wait_for(leader: int, program: str) -> None:
    """Waits until a process of a session runs a program."""
    until = time.monotonic() + 120
    while not any(program in command for command in session_of(leader).values()):
        assert time.monotonic() < until, f"{program} does not start"
        time.sleep(0.01)


@pytest.mark.spark
@pytest.mark.parametrize("whole_group", [True, False], ids=["terminal", "process"])
@pytest.mark.parametrize(
    "program, delay",
    [
        ("bin/spark-submit", 0.0),
        ("org.apache.spark.deploy.SparkSubmit", 0.0),
        ("org.apache.spark.deploy.SparkSubmit", 0.7),
        ("org.apache.spark.deploy.SparkSubmit", 3.0),
    ],
)
def test_no_jvm_is_left_of_a_verb_that_is_interrupted(
    pipeline_file: Path, program: str, delay: float, whole_group: bool
) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", "pipeline.yaml"]
    with subprocess.Popen(
        command, cwd=pipeline_file.parent, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        wait_for(process.pid, program)
        time.sleep(delay)
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=120)
    until = time.monotonic() + SECONDS
    while session_of(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert session_of(process.pid) == {}
    assert (process.returncode, said) == (130, "interrupted\n")


@pytest.mark.spark
def test_the_process_of_the_session_is_known(spark: SparkSession) -> None:
    process = jvm.process()
    assert process
    assert process.poll() is None
    assert b"SparkSubmit" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert not {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"} & set(os.environ)
