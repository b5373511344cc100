"""The daemon and all that it started die by SIGKILL, runs are terminated or go side by side, Dagster's storage is lost.

The rows are those that the recorded server had, so none was missed; no part of the log lies in a layer twice.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.execution.backfill import PartitionBackfill
from pyspark.sql import SparkSession

from dagster_project.build import build_defs
from spark_jobs.binlog import TableName
from spark_jobs.checks.integrity import breaks
from spark_jobs.config import known_tables
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.compare import DemoComparison
from spark_jobs.demo.folder import SOURCE, DemoFolder
from spark_jobs.demo.recorded import EXPECTED, compare_with_recording, recorded_files
from spark_jobs.demo.shop import SCHEMA
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.backlog import published_position
from tests.fix_browser import BRIEF
from tests.services.dev_server import ROOT, environment
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.long]

SETTINGS = yaml.safe_load((ROOT / "docs" / "examples" / "dagster.yaml").read_text())
SETTINGS["run_monitoring"] |= {"poll_interval_seconds": 5, "free_slots_after_run_end_seconds": 5}
"""The example's, for those who cannot wait."""
ACTIVE_STATUSES = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
PATIENCE = 400
TABLES = sorted(file.stem for file in EXPECTED.glob("*.parquet"))


class Daemon:
    """`dagster-daemon run` over the demo's source, with its code server and the runs that it starts."""

    def __init__(self, folder: DemoFolder) -> None:
        self._folder = folder
        self.variables = environment(folder.config, folder.dagster)
        self._log = folder.path.parent / "daemon.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("a") as log:
            command = ["dagster-daemon", "run", "-m", "stratalog.definitions"]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self.variables, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        """All of it, as where the machine goes."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def arrive(folder: DemoFolder, number: int) -> Position:
    """One more recorded file comes to the source; where the log ends then."""
    file = recorded_files()[number]
    shutil.copy(file, folder.next)
    shutil.move(folder.next / file.name, folder.binlogs)  # whole, or not there
    return Position(file.name, file.stat().st_size)


@contextmanager
def source(path: Path) -> Iterator[tuple[DemoFolder, Pipeline, dg.DagsterInstance]]:
    """The demo's source without a file yet, and the instance that the daemon works in."""
    folder = DemoFolder(path / "shop")
    with folder.afresh():
        folder.read_from_files("")
    folder.next.mkdir()
    spark = yaml.safe_dump({"spark": {"conf": BRIEF}})
    folder.config.write_text(f"{folder.config.read_text()}\n{spark}")
    (folder.dagster / "dagster.yaml").write_text(yaml.safe_dump(SETTINGS))
    known_tables.add(folder.path / "pipeline.tables.json", {(SOURCE, SCHEMA, table) for table in TABLES})
    with dg.DagsterInstance.from_config(str(folder.dagster)) as instance:
        yield folder, load(folder.config), instance


def test_no_range_is_missed_and_none_is_done_twice(tmp_path: Path, spark: SparkSession) -> None:
    with ExitStack() as stack:
        folder, pipeline, instance = stack.enter_context(source(tmp_path))
        daemon = Daemon(folder)
        stack.callback(daemon.kill)
        switch_on(daemon)
        arrive(folder, 0)
        daemon.start()
        killed = [kill_amid(daemon, instance, f"sync_{SOURCE}", "compact")]
        end = arrive(folder, 1)
        daemon.start()
        wait_for("the first two files are published", lambda: is_published_up_to(instance, pipeline, end), PATIENCE)

        spoiled = spoil(spark, pipeline)
        backfill = ask_for_backfill(pipeline, instance)
        killed.append(kill_amid(daemon, instance, "__ASSET_JOB", f"replay_{SOURCE}"))
        end = arrive(folder, 2)
        daemon.start()
        wait_for("the backfill is done", lambda: status(instance, backfill) == "COMPLETED_SUCCESS", PATIENCE)
        wait_for("the third file is published", lambda: is_published_up_to(instance, pipeline, end), PATIENCE)
        daemon.kill()

        assert spoiled in require_recorded_rows(spark, pipeline)
        assert landed_again(instance) == []
        ended = [run for id_ in killed if (run := instance.get_run_by_id(id_))]
        assert {run.status for run in ended} == {dg.DagsterRunStatus.FAILURE}, "they died, and nobody ended them"


def test_terminated_runs_a_lost_history_and_two_runs_at_once(
    tmp_path: Path, spark: SparkSession, summary: list[str]
) -> None:
    with ExitStack() as stack:
        folder, pipeline, instance = stack.enter_context(source(tmp_path))
        daemon = Daemon(folder)
        stack.callback(daemon.kill)
        switch_on(daemon)
        daemon.start()
        # Runs that somebody terminates in the UI; what they left the sensor asks for again.
        ends: list[str] = []
        for number, layer in enumerate(["compact", "merge"]):
            end = arrive(folder, number)
            terminated = run_in_step(instance, f"sync_{SOURCE}", layer)
            assert instance.run_launcher.terminate(terminated)
            wait_for("the run has ended", partial(is_finished, instance, terminated), PATIENCE)
            ends += [run.status.value for run in instance.get_runs(dg.RunsFilter([terminated]))]
        assert set(ends) <= {"CANCELED", "SUCCESS"}, "one may have ended before it heard of it"
        wait_for("the first two files are published", lambda: is_published_up_to(instance, pipeline, end), PATIENCE)

        # All that Dagster remembers goes, while the lake stays.
        daemon.kill()
    for stored in [path for path in folder.dagster.iterdir() if path.is_dir()]:
        shutil.rmtree(stored)
    with ExitStack() as stack:
        instance = stack.enter_context(dg.DagsterInstance.from_config(str(folder.dagster)))
        switch_on(daemon)
        stack.callback(daemon.kill)
        end = arrive(folder, 2)
        # Beside what the sensor starts, two runs that somebody starts by hand.
        daemon.start()
        by_hand = [execute(daemon, f"sync_{SOURCE}") for _ in range(2)]
        for process in by_hand:
            output, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, output
        wait_for("the third file is published", lambda: is_published_up_to(instance, pipeline, end), PATIENCE)
        rows = sum(comparison.rows for comparison in require_recorded_rows(spark, pipeline).values())
        listed = ", ".join(ends).lower()
        summary.append(f"Dagster: runs terminated ({listed}), its storage lost, 3 runs at once: {rows:,} rows compared")


def execute(daemon: Daemon, job: str) -> "subprocess.Popen[str]":
    """A run in a process of its own, beside those of the daemon."""
    command = ["dagster", "job", "execute", "-m", "stratalog.definitions", "-j", job]
    return subprocess.Popen(
        command, cwd=ROOT, env=daemon.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def is_finished(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is not None and run.is_finished


def require_recorded_rows(spark: SparkSession, pipeline: Pipeline) -> dict[TableName, DemoComparison]:
    """Rows are the recorded server's, and no part of the log is in a layer twice."""
    compared = compare_with_recording(pipeline)
    assert {str(name): comparison.samples for name, comparison in compared.items() if not comparison.is_equal} == {}
    lake = lake_of(pipeline)
    head = lake.bronze(SOURCE).head()
    assert head
    assert breaks(lake.bronze(SOURCE), head) == []
    for table in TABLES:
        require_windows_apart(spark, lake.silver(SOURCE, SCHEMA, table).path)
    return compared


def switch_on(daemon: Daemon) -> None:
    command = ["dagster", "sensor", "start", f"binlog_sensor_{SOURCE}", "-m", "stratalog.definitions"]
    process = subprocess.run(command, cwd=ROOT, env=daemon.variables, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def kill_amid(daemon: Daemon, instance: dg.DagsterInstance, job: str, step: str) -> str:
    """Kills everything while a run of the job is in a step, begun and not ended; the run's id."""
    run_id = run_in_step(instance, job, step)
    daemon.kill()
    pass_hours(Path(instance.root_directory), run_id)
    return run_id


def run_in_step(instance: dg.DagsterInstance, job: str, step: str) -> str:
    """Waits until a run of the job is in a step, begun and not ended; the run's id."""

    def active_step() -> str | None:
        for run in instance.get_runs(dg.RunsFilter(job_name=job, statuses=ACTIVE_STATUSES)):
            starts = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_START)
            if any(step in (entry.step_key or "") for entry in starts):
                return run.run_id
        return None

    run_id = wait_for(f"a run of {job} is in {step}", active_step, PATIENCE)
    assert run_id
    return run_id


def pass_hours(home: Path, run: str) -> None:
    """Has a run begun so long ago that the monitor ends it, which is all that tells a dead run from one that works."""
    hours = SETTINGS["run_monitoring"]["max_runtime_seconds"]
    with closing(sqlite3.connect(home / "history" / "runs.db", timeout=30)) as runs, runs:
        changed = runs.execute("UPDATE runs SET start_time = start_time - ? WHERE run_id = ?", (hours, run))
        assert changed.rowcount == 1


def is_published_up_to(instance: dg.DagsterInstance, pipeline: Pipeline, end: Position) -> bool:
    """True if all up to there is published, and nothing is going on."""
    return published_position(pipeline, SOURCE) == end and not instance.get_runs(
        dg.RunsFilter(statuses=ACTIVE_STATUSES)
    )


def spoil(spark: SparkSession, pipeline: Pipeline) -> Any:
    """Has an order's total wrong in both layers, so that the backfill has something to write; the table's name."""
    lake = lake_of(pipeline)
    for table in (lake.silver(SOURCE, SCHEMA, "orders"), lake.downstream(SCHEMA, "orders")):
        spark.sql(f"UPDATE delta.`{table.path}` SET total = -1 WHERE id = 1")
    return next(iter(name for name in compare_with_recording(pipeline) if name.table == "orders"))


def ask_for_backfill(pipeline: Pipeline, instance: dg.DagsterInstance) -> str:
    """What the dialog asks the daemon for: the first two files."""
    files = [file.name for file in recorded_files()[:2]]
    assert list(instance.get_dynamic_partitions(f"binlog_files_{SOURCE}")) == files
    dagster_backfill = PartitionBackfill.from_asset_partitions(
        backfill_id="killed",
        asset_graph=build_defs(pipeline).resolve_asset_graph(),
        partition_names=files,
        asset_selection=[dg.AssetKey(["backfill", SOURCE])],
        backfill_timestamp=time.time(),
        tags={},
        dynamic_partitions_store=instance,
        all_partitions=False,
        title=None,
        description=None,
        run_config=None,
    )
    instance.add_backfill(dagster_backfill)
    return dagster_backfill.backfill_id


def status(instance: dg.DagsterInstance, backfill: str) -> str:
    dagster_backfill = instance.get_backfill(backfill)
    assert dagster_backfill
    return dagster_backfill.status.value


def require_windows_apart(spark: SparkSession, path: str) -> None:
    """No two windows of a silver table have a part of the log in common."""
    windows = [
        (row[0], row[1])
        for row in spark.sql(f"SELECT DISTINCT _window_start, _window_stop FROM delta.`{path}`").collect()
    ]
    windows.sort()
    assert all(before[1] <= after[0] for before, after in pairwise(windows)), windows


def landed_again(instance: dg.DagsterInstance) -> list[str]:
    """Ranges that bronze's materializations say twice, or that do not go on from one another."""
    records = instance.fetch_materializations(dg.AssetKey(["bronze", SOURCE]), limit=100, ascending=True).records
    metadata = [record.asset_materialization.metadata for record in records if record.asset_materialization]
    ranges = [
        (str(step_metadata["binlog/start"].value), str(step_metadata["binlog/end"].value))
        for step_metadata in metadata
        if "binlog/start" in step_metadata
    ]
    return [f"{before} {after}" for before, after in pairwise(ranges) if before[1] != after[0]]
