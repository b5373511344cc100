"""A log that is never stored whole: each file comes, is read by a run, and goes; old log and old versions are removed.

The file is one that a server has written (operations.py), under the next name each time. Its inserts find their keys
from the second time on, and its deletes do not, so that the tables stay as large as they are: what grows is the log.

Put here: the curve over the bytes of log. Not here: many files or commits at once (growth.py).
"""

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import operations, runs
from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, memory, metered
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import maintain_source

_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_GIGABYTE = 10**9
_RUNS_A_GC, _RUNS_A_MAINTAIN = 10, 50
"""Runs between one removal of old log and the next, and between two nights."""


def measure(spark: SparkSession, folder: Path, gigabytes: int, count: int) -> None:
    """Prints a curve up to so many gigabytes of log, in files of ``count`` operations each."""
    with MySQLServer(folder / "server", operations.OPTIONS) as server:
        print_progress(f"writing {count:,} operations")
        file = operations.write_log(server, count)[0]
    pipeline = _pipeline(folder / "streamed")
    base, number = file.name.rpartition(".")[0], int(file.name.rpartition(".")[2])
    steps = [step for step in _STEPS if step <= gigabytes]
    columns = ("GB of log", "s a GB", "processor s a GB", "gc, s", "maintain, s", "status, s", "MB of the lake")
    print(f"| {' | '.join(columns)} | MiB of Python, JVM |")
    print(f"|{' --- |' * (len(columns) + 1)}")
    log_bytes, step_bytes, usage = 0, 0, Usage()
    upkeep = dict.fromkeys((gc_source, maintain_source), 0.0)
    for nth in range(1_000_000):
        log = folder / "streamed" / "binlogs"
        (log / f"{base}.{number + nth:06d}").hardlink_to(file)
        _add_usage(usage, runs.usage_of(spark, pipeline, operations.SOURCE))
        if nth:
            (log / f"{base}.{number + nth - 1:06d}").unlink()
        log_bytes += file.stat().st_size
        step_bytes += file.stat().st_size
        for work, often in (gc_source, _RUNS_A_GC), (maintain_source, _RUNS_A_MAINTAIN):
            if nth % often == often - 1:
                with metered() as work_usage:
                    work(spark, pipeline, operations.SOURCE)
                upkeep[work] += work_usage.seconds
        if log_bytes >= steps[0] * _GIGABYTE:
            _print(pipeline, steps.pop(0), step_bytes, usage, list(upkeep.values()))
            step_bytes, usage = 0, Usage()
            upkeep = dict.fromkeys(upkeep, 0.0)
        if not steps:
            return


def _pipeline(folder: Path) -> Pipeline:
    """Of a day's versions, which a configuration keeps at least, nothing is kept."""
    (folder / "binlogs").mkdir(parents=True)
    pipeline = operations.pipeline_of(folder, retention={"bronze": "1m", "fold": True})
    retention = pipeline.retention.model_copy(update={"versions": timedelta(0)})
    return pipeline.model_copy(update={"retention": retention})


def _add_usage(total: Usage, usage: Usage) -> None:
    total.seconds += usage.seconds
    total.processor += usage.processor


def _print(pipeline: Pipeline, step: int, step_bytes: int, usage: Usage, upkeep: list[float]) -> None:
    with metered() as status_usage:
        status(pipeline, lake_of(pipeline), operations.SOURCE)
    lake = sum(path.stat().st_size for path in Path(pipeline.lake).rglob("*") if path.is_file())
    python, jvm = memory()
    cells = (
        f"{step}",
        f"{usage.seconds / step_bytes * _GIGABYTE:.1f}",
        f"{usage.processor / step_bytes * _GIGABYTE:.1f}",
        *(f"{seconds:.1f}" for seconds in upkeep),
        f"{status_usage.seconds:.2f}",
        f"{lake / 1e6:,.0f}",
        f"{python:,}, {jvm:,}",
    )
    print(f"| {' | '.join(cells)} |", flush=True)
