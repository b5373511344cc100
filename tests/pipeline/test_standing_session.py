"""Runs that share a standing session, as processes and in Dagster. Put here: what only Spark's own server shows.

Not here: locks, keepers and races, which need no Spark (spark_jobs/runtime/standing).
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import Deployment
from tests.command_result import CommandResult
from tests.fix_keeper import stop_process, wait_until
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.thorough, pytest.mark.spark, pytest.mark.slow, pytest.mark.processes]

SPARK: dict[str, Any] = {
    "master": "local[2]",
    "keep": "5m",
    "conf": {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    },
}
STEPS = """
import dagster as dg
from stratalog import build_defs, load
from pathlib import Path
defs = build_defs(load(Path("pipeline.yaml")))
ended = defs.resolve_job_def("sync").execute_in_process(raise_on_error=False)
print(ended.success)
"""


def command(*words: object, folder: Path, **variables: str) -> CommandResult:
    environment = os.environ | {"TMPDIR": str(folder), "SALT": "salt"} | variables
    ended = subprocess.run(
        [sys.executable, "-m", "stratalog", *map(str, words)],
        capture_output=True, text=True, check=False, env=environment, cwd=folder, timeout=240,
    )  # fmt: skip
    return CommandResult(ended.returncode, ended.stdout, ended.stderr)


def sessions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in command("session", "--json", folder=folder).out.splitlines()]


@pytest.fixture(scope="module")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of temporary files, and so of sessions."""
    folder = tmp_path_factory.mktemp("standing")
    yield folder
    command("session", "stop", "--force", folder=folder)


@pytest.fixture
def run(session_folder: Path, tmp_path: Path) -> Callable[..., CommandResult]:
    """A run over the recorded demo into a new lake."""
    deployment = Deployment(tmp_path / "way", SPARK, is_demo=True)

    def run(**variables: str) -> CommandResult:
        shutil.rmtree(tmp_path / "way" / "lake", ignore_errors=True)
        return command("run", "-c", deployment.config, folder=session_folder, **variables)

    return run


def test_runs_attach_to_the_server_of_the_first(run: Callable[..., CommandResult], session_folder: Path) -> None:
    first = run()
    assert first.status == 0, first.err
    (server,) = sessions(session_folder)
    assert (server["runs"], server["keep"]) == ([], 300)
    second = run()
    assert second.status == 0, second.err
    assert re.sub(r"\d+\.\d+", "", second.out) == re.sub(r"\d+\.\d+", "", first.out)
    assert [item["pid"] for item in sessions(session_folder)] == [server["pid"]]
    daemons = subprocess.run(["ps", "--ppid", str(server["pid"]), "-o", "args="], capture_output=True, check=True)
    assert daemons.stdout.count(b"spark_jobs.runtime.python_daemon") == 1, daemons.stdout


@pytest.mark.long
def test_what_does_not_answer_costs_a_new_start(run: Callable[..., CommandResult], session_folder: Path) -> None:
    run()
    (server,) = sessions(session_folder)
    stop_process(server["pid"])
    ended = run()
    assert ended.status == 0, ended.err
    assert "cannot be reached" in ended.err
    assert [item["pid"] for item in sessions(session_folder)] != [server["pid"]]
    assert "Traceback" not in ended.err


def test_a_server_that_is_killed_in_a_run_fails_it_and_the_next_one_starts_another(
    run: Callable[..., CommandResult], session_folder: Path, tmp_path: Path
) -> None:
    assert run().status == 0
    (server,) = sessions(session_folder)
    full_path = tmp_path / "way"
    shutil.rmtree(full_path / "lake")
    environment = os.environ | {"TMPDIR": str(session_folder), "SALT": "salt"}
    words = [sys.executable, "-m", "stratalog", "run", "-c", str(full_path / "pipeline.yaml")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment) as process:
        wait_until(lambda: bool(sessions(session_folder)[0]["runs"]), 60)
        # The run stands still while its server is killed, or it might end before that.
        wait_for("a file of bronze", lambda: any(full_path.rglob("*.parquet")), 60, pause=0.002)
        process.send_signal(signal.SIGSTOP)
        os.kill(server["pid"], signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "the Spark server that stays between runs" in errors
    assert "Traceback" not in errors
    ended = command("run", "-c", full_path / "pipeline.yaml", folder=session_folder)
    assert ended.status == 0, ended.err


@pytest.mark.long
def test_a_run_with_other_credentials_has_a_server_of_its_own(
    run: Callable[..., CommandResult], session_folder: Path
) -> None:
    assert run().status == 0
    before = {item["pid"] for item in sessions(session_folder)}
    assert run(AWS_ACCESS_KEY_ID="another").status == 0
    assert len(sessions(session_folder)) == len(before) + 1


@pytest.mark.long
def test_a_folder_that_is_refused_costs_a_session_of_the_runs_own(
    run: Callable[..., CommandResult], session_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    (folder / f"stratalog-{os.getuid()}").mkdir(mode=0o755)
    ended = run(TMPDIR=str(folder))
    assert ended.status == 0, ended.err
    assert "so that other users reach it; remove it; this run starts Spark for itself" in ended.err


@pytest.mark.dagster
def test_dagster_attaches_too(run: Callable[..., CommandResult], session_folder: Path, tmp_path: Path) -> None:
    assert run().status == 0
    before = sessions(session_folder)
    full_path = tmp_path / "way"
    shutil.rmtree(full_path / "lake")
    environment = os.environ | {"TMPDIR": str(session_folder), "SALT": "salt", "DAGSTER_HOME": ""}
    ended = subprocess.run(
        [sys.executable, "-c", STEPS],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=full_path,
        timeout=240,
    )
    assert ended.stdout.splitlines()[-1:] == ["True"], ended.stderr[-3000:]
    assert [item["pid"] for item in sessions(session_folder)] == [item["pid"] for item in before]
    assert any(full_path.glob("lake/downstream/**/*.parquet"))
