"""What many small commits of ``run --follow`` leave: files, log, and the cost of a run, with maintenance in between.

Each run has one transaction of one row of two tables, and is what the follower runs: the same functions with its size
of jobs, so that no Spark starts. Maintenance comes every so many runs, as it comes by ``--maintain-every``: an hour at
an interval of one second is 3,600 runs.

The log of a table keeps commits for thirty days (``delta.logRetentionDuration``); here its files are made a month older
before each maintenance, so that what a month would remove is seen in minutes.

Put here: the curve. Not here: freshness (freshness.py), one layer's growth (growth.py).
"""

import os
import time
from pathlib import Path
from statistics import median
from typing import Never

import yaml

from benchmarks.progress_lines import print_progress
from spark_jobs.cli.follow import with_small_jobs_here
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.run import run_source
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started
from tests.binlogs.logs import file
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Update
from tests.binlogs.segment_spec import Table as SpecTable
from tests.binlogs.segment_types import INT, VARCHAR

SOURCE = "shop"
_TABLES = [SpecTable(f"shop.{name}", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40)) for name in ("orders", "lines")]
_KEPT_FILES = 3
"""Files that the source keeps."""
_KEYS = 500
"""Keys that the rows have in turn: the first runs insert, all others update."""
STEPS = 10


def measure(folder: Path, runs: int, maintained_each: int) -> None:
    """Prints a line a tenth of the runs."""
    (folder / "logs").mkdir(parents=True)
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"lake": "./lake", "sources": {SOURCE: {"files": "./logs"}}}), encoding="utf-8")
    pipeline = with_small_jobs_here(load(path))
    spark = lazy_session(_no_spark)
    print(
        f"| runs, maintenance each {maintained_each:,} | a run, ms | maintenance, s | data files: bronze, silver, "
        "downstream, published | files of their logs | kB of their logs |"
    )
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    times, upkeep = list[float](), 0.0
    for number in range(1, runs + 1):
        _write_log_file(folder, number)
        began = time.perf_counter()
        run_source(spark, pipeline, SOURCE)
        times.append(time.perf_counter() - began)
        if number % maintained_each == 0:
            _let_a_month_go_by(pipeline)
            began = time.perf_counter()
            stopped = maintain_source(spark, pipeline, SOURCE).stopped
            assert not stopped, stopped
            upkeep = time.perf_counter() - began
        if number % max(1, runs // STEPS) == 0:
            print_progress(f"{number:,} runs")
            _print_line(number, times, upkeep, _tables(pipeline))
            times.clear()
    assert session_if_started(spark) is None


def _no_spark() -> Never:
    raise AssertionError("no job is large enough for Spark")


def _tables(pipeline: Pipeline) -> list[Table]:
    lake = lake_of(pipeline)
    return [
        lake.bronze(SOURCE),
        lake.silver(SOURCE, "shop", "orders"),
        lake.downstream("shop", "orders"),
        lake.published(),
    ]


def _let_a_month_go_by(pipeline: Pipeline) -> None:
    """What the logs of tables have so far was written a month earlier, by the times of its files."""
    then = time.time() - 31 * 86_400
    for table in _tables(pipeline):
        for path in Path(table.path, "_delta_log").iterdir():
            os.utime(path, (then, then))


def _print_line(number: int, times: list[float], upkeep: float, tables: list[Table]) -> None:
    files, entries, sizes = [], [], []
    for table in tables:
        logged = [path.stat().st_size for path in Path(table.path, "_delta_log").iterdir() if path.is_file()]
        files.append(f"{len(table.file_sizes()):,}")
        entries.append(f"{len(logged):,}")
        sizes.append(f"{sum(logged) >> 10:,}")
    cells = [f"{median(times) * 1e3:.0f}", f"{upkeep:.1f}", ", ".join(files), ", ".join(entries), ", ".join(sizes)]
    print(f"| {number:,} | {' | '.join(cells)} |", flush=True)


def _write_log_file(folder: Path, number: int) -> None:
    key, note = number % _KEYS, f"n{number}"
    is_new = number < _KEYS
    changes: list[Change] = [
        Insert(table.name, (key, note)) if is_new else Update(table.name, (key, f"n{number - _KEYS}"), (key, note))
        for table in _TABLES
    ]
    spec = SegmentSpec(_TABLES, [*changes, Commit()], first_number=number, rotate_to=file(number + 1))
    (folder / "logs" / file(number)).write_bytes(spec.to_bytes())
    (folder / "logs" / file(number - _KEPT_FILES)).unlink(missing_ok=True)
