"""The JVM ends with the process that started it, whenever that is interrupted; real processes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.runtime import jvm
from tests.command_result import without_codes

ROOT = Path(__file__).parents[3]
KILL = """
import os, signal
from spark_jobs.runtime import jvm
def kill_jvm():
    os.kill(jvm.process().pid, signal.SIGKILL)
"""
SOURCES = f"""{KILL}
import sys
from pathlib import Path
from spark_jobs.cli.app import (each_source)
from spark_jobs.cli.group import cli
from spark_jobs.cli.verbs import run_verb

@cli.command()
def fatal():
    def do(spark, pipeline, name):
        print(name, flush=True)
        kill_jvm()
        spark.range(3).count()
    each_source(Path("pipeline.yaml"), None, do)

sys.argv[1:] = ["fatal"]
run_verb()
"""
STEPS = f"""{KILL}
import dagster as dg
from assets.failures import failing, retried
from dagster_project.resources import SparkSessions

@dg.op(required_resource_keys={{"spark"}})
@retried
def first(context):
    with failing():
        spark = context.resources.spark.session()
        kill_jvm()
        spark.range(3).count()

@dg.op(required_resource_keys={{"spark"}})
@retried
def second(context):
    with failing():
        context.resources.spark.session()

@dg.job(resource_defs={{"spark": SparkSessions(configuration="pipeline.yaml")}}, executor_def=dg.in_process_executor)
def both():
    first()
    second()

with dg.DagsterInstance.ephemeral() as instance:
    run = both.execute_in_process(instance=instance, raise_on_error=False)
    for event in run.all_events:
        if event.is_step_failure or event.is_step_restarted:
            print(event.step_key, event.event_type_value, event.step_failure_data.user_failure_data.description)
"""
ENDED = (
    "Spark's JVM ended in the middle of its work: killed, or out of memory (spark: conf: spark.driver.memory); its "
    "output above has the reason. Every table is at its last commit; run it again"
)
JVM = "org.apache.spark.deploy.SparkSubmit"
SECONDS = 20
"""Time that the processes of an interrupted one have to end; an orphan stays for ever."""


def session_of(leader: int) -> dict[int, str]:
    """The command lines of processes of a session, by pid."""
    commands = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # ended since
            continue
        if int(session) == leader and state != "Z":
            commands[int(folder.name)] = command
    return commands


def without_progress(output: str) -> str:
    """What a verb says beside its progress, whose lines begin with the time."""
    return "".join(line for line in output.splitlines(keepends=True) if not re.match(r"\d\d:\d\d:\d\d ", line))


def wait_for(leader: int, program: str) -> None:
    """Waits until a process of a session runs a program, or the JVM that comes of it: a shell may be gone too soon."""
    until = time.monotonic() + 120
    while not any(program in command or JVM in command for command in session_of(leader).values()):
        assert time.monotonic() < until, f"{program} does not start"
        time.sleep(0.01)


SUBMIT = "bin/spark-submit"
MOMENTS = [(SUBMIT, 0.0), (JVM, 0.0), (JVM, 0.7), (JVM, 3.0)]
"""Programs that start, and seconds after that."""
IN_CI = [(SUBMIT, 0.0, True), (JVM, 0.0, False), (JVM, 0.7, True), (JVM, 3.0, False)]
"""Each moment, and both ways of an interrupt; the others at night."""


@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.parametrize(
    "program, delay, whole_group",
    [
        pytest.param(
            *moment,
            whole_group,
            id=f"{'-'.join(map(str, moment))}-{'terminal' if whole_group else 'process'}",
            marks=pytest.mark.thorough if (*moment, whole_group) in IN_CI else pytest.mark.long,
        )
        for moment in MOMENTS
        for whole_group in (True, False)
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
        _, errors = process.communicate(timeout=120)
    until = time.monotonic() + SECONDS
    while session_of(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert session_of(process.pid) == {}
    assert (process.returncode, without_progress(errors)) == (130, "interrupted\n")


@pytest.mark.spark
def test_the_process_of_the_session_is_known(spark: SparkSession) -> None:
    process = jvm.process()
    assert process
    assert process.poll() is None
    arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert b"SparkSubmit" in arguments
    assert b"spark.sql.extensions" not in arguments, "arguments are for all to see, and settings can be secret"
    assert not {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"} & set(os.environ)


def python(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.spark
def test_no_other_source_is_tried_once_the_jvm_is_gone(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text("lake: ./lake\nsources:\n  shop: {files: .}\n  crm: {files: .}\n")
    ran = python(SOURCES, tmp_path)
    assert (ran.returncode, ran.stdout, without_codes(without_progress(ran.stderr))) == (
        1,
        "shop\n",
        f"shop: {ENDED}\n",
    )


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.spark
@pytest.mark.dagster
def test_no_step_is_tried_again_once_the_jvm_is_gone(pipeline_file: Path) -> None:
    ran = python(STEPS, pipeline_file.parent)
    assert without_codes(ran.stdout).splitlines() == [f"{step} STEP_FAILURE {ENDED}" for step in ("first", "second")], (
        ran.stderr
    )


WORKERS = """
from spark_jobs.config.model import Spark
from spark_jobs.runtime.spark_session import spark_session
spark = spark_session(Spark(master="local[1]"))
print(spark.range(3).mapInArrow(lambda batches: batches, "id BIGINT").count())
"""


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.spark
def test_a_session_that_nobody_stopped_ends_without_a_word(tmp_path: Path) -> None:
    """Python workers leave a connection to a thread of this process, which shows a trace where the JVM goes first."""
    ran = python(WORKERS, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "3\n"), ran.stderr
    assert "Traceback" not in ran.stderr
