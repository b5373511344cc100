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
from tests.dev_server import Served, development_server, environment
from tests.waiting import wait_for

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.thorough]

LAUNCH = """mutation ($job: String!) { launchRun(executionParams: {
  selector: {repositoryName: "__repository__", repositoryLocationName: "stratalog", pipelineName: $job}, mode: "default"
}) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
TERMINATE = "mutation ($run: String!) { terminateRun(runId: $run) { __typename } }"
PATIENCE = 400
AT_ONCE = 30
"""Seconds from the click to the end of the run, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of the source's job, as the UI starts and terminates them."""

    served: Served
    instance: dg.DagsterInstance

    def launch(self) -> str:
        launched = self.served.ask(LAUNCH, job=f"sync_{SOURCE}")["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def amid(self, layer: str) -> str:
        """A run that is in a layer's step, begun and not ended."""
        run = self.launch()
        wait_for(f"the run is in {layer}", partial(self._is_in, layer, run), PATIENCE, pause=0.1)
        return run

    def _is_in(self, layer: str, run: str) -> bool:
        assert not is_finished(self.instance, run), self.said(run)
        starts = self.instance.all_logs(run, of_type=dg.DagsterEventType.STEP_START)
        return any(layer in (entry.step_key or "") for entry in starts)

    def process(self, run: str) -> int:
        return int(re.findall(r"Started process for run \(pid: (\d+)\)", self.said(run))[0])

    def said(self, run: str) -> str:
        return "\n".join(entry.message for entry in self.instance.all_logs(run))

    def end(self, run: str, seconds: float) -> str:
        """Its status in the end."""
        wait_for("the run has ended", partial(is_finished, self.instance, run), seconds, pause=0.1)
        ended = self.instance.get_run_by_id(run)
        assert ended
        return ended.status.value


def test_a_terminated_run_ends_at_once_and_the_next_one_goes_on(
    tmp_path: Path, spark: SparkSession, summary: list[str]
) -> None:
    with source(tmp_path) as (folder, pipeline, instance):
        with development_server(environment(folder.config, folder.dagster), tmp_path / "dev.log") as served:
            runs = Runs(served, instance)
            for number, layer in enumerate(["extract", "compact", "merge"]):
                arrive(folder, number)
                run = runs.amid(layer)
                processes, began = family(runs.process(run)), time.monotonic()
                served.ask(TERMINATE, run=run)
                assert runs.end(run, AT_ONCE) == "CANCELED", runs.said(run)
                summary.append(f"Dagster: terminated in {layer}, canceled after {time.monotonic() - began:.1f} s")
                wait_for("its processes have ended", partial(have_ended, processes), AT_ONCE)
            run = runs.amid("compact")
            processes, began = family(runs.process(run)), time.monotonic()
            os.kill(runs.process(run), signal.SIGTERM)
            assert runs.end(run, AT_ONCE) == "FAILURE", "nobody asked for it"
            summary.append(f"Dagster: SIGTERM in compact, failed after {time.monotonic() - began:.1f} s")
            wait_for("its processes have ended", partial(have_ended, processes), AT_ONCE)
            last = runs.launch()
            assert runs.end(last, PATIENCE) == "SUCCESS", runs.said(last)
        require_recorded_rows(spark, pipeline)


def family(process: int) -> set[int]:
    """A run's process, Spark's JVM, and what either has started."""
    parents = {
        int(stat.parent.name): parent for stat in Path("/proc").glob("[0-9]*/stat") if (parent := parent_of(stat))
    }
    members = {process}
    while more := {child for child, parent in parents.items() if parent in members} - members:
        members |= more
    return members


def parent_of(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def have_ended(processes: set[int]) -> bool:
    return not any((Path("/proc") / str(process)).exists() for process in processes)
