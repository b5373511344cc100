"""Cost of a run as a source's files and bronze's commits become many: curves, in steps of ten.

Each file holds one transaction of one row, so that what is read costs nothing beside what is listed and planned. Files
are read by one run; commits are made one a file, by the run's own functions without a Spark job, which would cost each
the same. At each step of a curve a run over one new file is measured as a whole, and at the end of the second curve
``maintain``, which nobody has run until then.

Of the files whose commits are made the source keeps the newest, as a server does. The log of bronze keeps a second of
its commits and checkpoints, in place of thirty days: ten thousand checkpoints, each of all files, would be 150 GB.

Put here: many files, many commits. Not here: many tables (tables.py), many rows (operations.py).
"""

import time
from collections import deque
from collections.abc import Collection
from itertools import count
from pathlib import Path
from statistics import median

import pyarrow as pa
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks import runs
from benchmarks.progress_lines import print_progress
from benchmarks.usage import memory, metered
from spark_jobs.bronze import extract, landing
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.delta import data_files, vacuum
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.lake import driver_commit
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.retention.maintenance import maintain_source
from tests.binlogs.logs import file
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR

SOURCE = "shop"
_TABLE = Table("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40))
_FEW = 100
"""The first step of each curve."""
_KEPT_FILES = 3
"""Files that the source keeps while commits are made."""
_COMMITS_AN_UPKEEP = 500
"""Commits between one removal of old files of bronze's log and the next."""


def measure(spark: SparkSession, folder: Path, most_files: int, most_commits: int) -> None:
    """Prints two curves: files of a source, and commits of bronze."""
    print("| binlog files | first run, s | one new file: s | processor s | status, s | MiB of Python, JVM |")
    print("| --- | --- | --- | --- | --- | --- |")
    for files in _steps(most_files):
        _measure_files(spark, folder / f"files-{files}", files)
    print("\n| commits of bronze | one, ms | with a checkpoint, ms | one new file: s | processor s | status, s |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    _measure_commits(spark, folder / "commits", most_commits)
    python, jvm = memory()
    print(f"\nAt most {python:,} MiB in Python, {jvm:,} MiB in the JVM.")


def _steps(maximum: int) -> list[int]:
    """100, 1,000 and so on, up to ``maximum``."""
    return [step for step in (_FEW * 10**power for power in range(8)) if step <= maximum]


def _measure_files(spark: SparkSession, folder: Path, files: int) -> None:
    print_progress(f"{files:,} files")
    pipeline = _pipeline(folder)
    for number in range(1, files + 1):
        _write_log_file(folder, number)
    first = runs.usage_of(spark, pipeline, SOURCE)
    _print(f"{files:,}", [f"{first.seconds:.1f}"], _one_more(spark, pipeline, folder, files + 1), with_memory=True)


def _measure_commits(spark: SparkSession, folder: Path, commits: int) -> None:
    pipeline = _pipeline(folder)
    _write_log_file(folder, 1)
    runs.run(spark, pipeline, SOURCE)
    path = lake_of(pipeline).bronze(SOURCE).path
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 second"})
    steps = _steps(commits)
    times = deque[tuple[int, float]](maxlen=_FEW)
    numbers = count(2)
    while steps:
        times.append(_timed_commit(pipeline, folder, next(numbers)))
        version = times[-1][0]
        if version % _COMMITS_AN_UPKEEP == 0:
            _expire(path)
        if version >= steps[0]:
            print_progress(f"{version:,} commits")
            step = steps.pop(0)
            runs.run(spark, pipeline, SOURCE)  # silver gets what these commits have
            _print(f"{step:,}", _of_commits(times), _one_more(spark, pipeline, folder, next(numbers)))
    with metered() as usage:
        maintain_source(spark, pipeline, SOURCE)
    print(f"\nmaintain: {usage.seconds:.1f} s, {usage.processor:.1f} of the processor; after it:", flush=True)
    times.extend(_timed_commit(pipeline, folder, next(numbers)) for _ in range(2 * _FEW))
    runs.run(spark, pipeline, SOURCE)
    _print(f"{commits:,}", _of_commits(times), _one_more(spark, pipeline, folder, next(numbers)))


def _timed_commit(pipeline: Pipeline, folder: Path, number: int) -> tuple[int, float]:
    """Commits a file of its own. Returns the version, and seconds."""
    _write_log_file(folder, number)
    for old in sorted((folder / "binlogs").iterdir())[:-_KEPT_FILES]:
        old.unlink()
    began = time.perf_counter()
    version = _commit_bronze(pipeline)
    return version, time.perf_counter() - began


def _of_commits(times: Collection[tuple[int, float]]) -> list[str]:
    """Milliseconds of one of the commits, in the middle of them, without and with a checkpoint."""
    plain, checkpointed = (
        [seconds for version, seconds in times if (version % 10 == 0) is has] for has in (False, True)
    )
    return [f"{median(part) * 1000:.0f}" for part in (plain, checkpointed)]


def _expire(path: str) -> None:
    """Removes what bronze's log need not keep, as ``maintain`` does."""
    snapshot = snapshot_of(path)
    assert snapshot is not None
    vacuum.remove(path, vacuum.unneeded_log(snapshot, vacuum.list_files(snapshot)))


def _commit_bronze(pipeline: Pipeline) -> int:
    """Work of a run on bronze, in this process and without a Spark job. Returns the version that it made."""
    lake = lake_of(pipeline)
    table = lake.bronze(SOURCE)
    source = endpoints_of(pipeline, SOURCE).first(lambda source: source)
    planned = extract.plan(table, source, "earliest")
    upon = driver_commit.snapshot_upon(table.path, planned.head, appends=True)
    parts = extract.LogParts(SOURCE, planned.stretch.number, planned.parts, source.reading(), planned.uuid)
    slicing = extract.slicing_task(parts, bronze.ARROW)
    groups = landing.row_groups(slicing(iter([_ids(len(planned.parts))])))
    data_file = data_files.write_parts(
        table.path, groups, upon.schema, dict(upon.configuration), **landing.layout_of(upon.schema)
    )
    return table.append_files(upon, (data_file,), planned.head, planned.commit()).version


def _ids(parts: int) -> pa.RecordBatch:
    """The ids of a plan's parts, as a task of Spark gets them."""
    return pa.record_batch([pa.array(range(parts), pa.int64())], ["id"])


def _one_more(spark: SparkSession, pipeline: Pipeline, folder: Path, number: int) -> list[str]:
    """A run over one new file, and a status after it: seconds, processor seconds, seconds."""
    _write_log_file(folder, number)
    usage = runs.usage_of(spark, pipeline, SOURCE)
    began = time.perf_counter()
    status(pipeline, lake_of(pipeline), SOURCE)
    return [f"{usage.seconds:.2f}", f"{usage.processor:.2f}", f"{time.perf_counter() - began:.2f}"]


def _print(label: str, cells: list[str], of_next_run: list[str], *, with_memory: bool = False) -> None:
    python, jvm = memory()
    tail = [f"{python:,}, {jvm:,}"] if with_memory else []
    print(f"| {' | '.join([label, *cells, *of_next_run, *tail])} |", flush=True)


def _pipeline(folder: Path) -> Pipeline:
    (folder / "binlogs").mkdir(parents=True)
    document = {"lake": "./lake", "sources": {SOURCE: {"files": "./binlogs"}}, "tables": ["shop.*"]}
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(folder / "pipeline.yaml")


def _write_log_file(folder: Path, number: int) -> None:
    """A file of one row; the row's key is the file's number."""
    changes: list[Change] = [Insert(_TABLE.name, (number, f"row {number}")), Commit()]
    spec = SegmentSpec([_TABLE], changes, first_number=number, rotate_to=file(number + 1))
    (folder / "binlogs" / file(number)).write_bytes(spec.to_bytes())
