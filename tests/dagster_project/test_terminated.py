"""Runs that somebody terminates, in the UI or by SIGTERM to their process: they end, and the next run goes on."""

import os
import re
import signal
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.demo.folder import SOURCE
from tests.dagster_project.test_daemon_killed import arrive, is_finished, require_recorded_rows, source
from tests.services.dev_server import Served, development_server, environment
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.long]

LAUNCH = """mutation ($job: String!) { launchRun(executionParams: {
  selector: {repositoryName: "__repository__", repositoryLocationName: "stratalog", pipelineName: $job}, mode: "default"
}) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
TERMINATE = "mutation ($run: String!) { terminateRun(runId: $run) { __typename } }"
PATIENCE = 400
AT_ONCE = 30
"""Seconds from the click to the end of the run, on a busy machine."""
STEP = 'Started execution of step "source_shop.{}"'
MOMENTS = (
    # how many files there are then, what the run has said last, and seconds since
    (1, STEP.format("extract"), 0),
    (1, "starting Spark", 1),
    (1, "Spark is up", 0.3),
    (2, "compacting 5 tables", 0.1),
    (3, STEP.format("merge"), 0),
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of the source's job, as the UI starts and terminates them."""

    served: Served
    instance: dg.DagsterInstance

    def launch(self) -> str:
        launched = self.served.ask(LAUNCH, job=f"sync_{SOURCE}")["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def run_at(self, message: str, seconds: float = 0) -> str:
        """A run that has said a message, so many seconds ago."""
        run = self.launch()
        wait_for(f"the run says: {message}", partial(self._has_logged, message, run), PATIENCE, pause=0.1)
        time.sleep(seconds)
        return run

    def _has_logged(self, message: str, run: str) -> bool:
        messages = self.messages(run)
        assert message in messages or not is_finished(self.instance, run), messages
        return message in messages

    def process(self, run: str) -> int:
        return int(re.findall(r"Started process for run \(pid: (\d+)\)", self.messages(run))[0])

    def messages(self, run: str) -> str:
        return "\n".join(f"{entry.timestamp:.1f} {entry.message}" for entry in self.instance.all_logs(run))

    def end(self, run: str, seconds: float) -> str:
        """Its status in the end; in time, or what it said and where its threads stand are the failure's message."""
        try:
            wait_for("the run has ended", partial(is_finished, self.instance, run), seconds, pause=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.messages(run)}\n{self._threads(run)}") from None
        ended = self.instance.get_run_by_id(run)
        assert ended
        return ended.status.value

    def _threads(self, run: str) -> str:
        """By faulthandler, which ends the process."""
        os.kill(self.process(run), signal.SIGABRT)
        time.sleep(3)
        files = Path(self.instance.root_directory).glob(f"storage/{run}/**/*.err")
        return "\n".join(file.read_text(errors="replace") for file in files)


def test_a_terminated_run_ends_at_once_and_the_next_one_goes_on(
    tmp_path: Path, spark: SparkSession, summary: list[str]
) -> None:
    waits = []
    with source(tmp_path) as (folder, pipeline, instance):
        variables = environment(folder.config, folder.dagster, PYTHONFAULTHANDLER="1")
        with development_server(variables, tmp_path / "dev.log") as served:
            runs, arrived = Runs(served, instance), 0
            for files, message, seconds in MOMENTS:
                for number in range(arrived, files):
                    arrive(folder, number)
                arrived = files
                run = runs.run_at(message, seconds)
                processes, began = family(runs.process(run)), time.monotonic()
                served.ask(TERMINATE, run=run)
                assert runs.end(run, AT_ONCE) == "CANCELED", runs.messages(run)
                wait_for("its processes have ended", partial(have_ended, processes), AT_ONCE)
                waits.append(time.monotonic() - began)
            run = runs.run_at(STEP.format("merge"))
            processes, began = family(runs.process(run)), time.monotonic()
            os.kill(runs.process(run), signal.SIGTERM)
            assert runs.end(run, AT_ONCE) == "FAILURE", "nobody asked for it"
            wait_for("its processes have ended", partial(have_ended, processes), AT_ONCE)
            waits.append(time.monotonic() - began)
            last = runs.launch()
            assert runs.end(last, PATIENCE) == "SUCCESS", runs.messages(last)
        rows = sum(comparison.rows for comparison in require_recorded_rows(spark, pipeline).values())
    listed = ", ".join(f"{wait:.1f}" for wait in waits)
    summary.append(f"Dagster: runs terminated, all their processes gone after {listed} s; {rows:,} rows compared")


def family(process: int) -> set[int]:
    """A run's process, Spark's JVM, and what either has started."""
    parents = {
        int(stat.parent.name): parent for stat in Path("/proc").glob("[0-9]*/stat") if (parent := parent_of(stat))
    }
    members = {process}
    while children := {child for child, parent in parents.items() if parent in members} - members:
        members |= children
    return members


def parent_of(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def have_ended(processes: set[int]) -> bool:
    return not any((Path("/proc") / str(process)).exists() for process in processes)
