"""A source of many small tables: its first run, runs without news, and runs in which a few of the tables changed.

The log is described, not a server's: twenty rows a table in its first file, five rows of ten tables in each later one.
What a table costs beside its rows is what shows here: planning, and a commit a layer.

Put here: what is measured. Not here: logs of many rows (hot.py, folding.py).
"""

import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from benchmarks import processes
from benchmarks.progress_lines import print_progress
from benchmarks.usage import memory, metered
from dagster_project.build import build_defs
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.status import status
from spark_jobs.pipeline.run import compact_source, extract_source, merge_source, publish
from tests.binlogs.segment_spec import Change, Commit, Insert, SegmentSpec, Statement, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR, ColumnType

SOURCE = "shop"
CHANGED = 10
SHARDS = 100
MODE_TABLES = 20
STEPS = ("extract", "compact", "merge", "publish")
ALTERING = (4, 5)
"""Numbers of the files of the log that have statements."""


def measure(spark: SparkSession, folder: Path, count: int) -> None:
    """Prints seconds by the clock and layer, and of the processor in all processes, for a log of so many tables."""
    tables = of_two_columns(count)
    pipeline = pipeline_of(folder)
    write(folder, tables, 1, rows=20)
    _print_head(f"{count:,} tables")
    _run_pipeline(spark, pipeline, "first run", count)
    _run_pipeline(spark, pipeline, "no news", 0)
    changed = tables[:CHANGED]
    for number in (2, 3):
        write(folder, changed, number, rows=5)
        _run_pipeline(spark, pipeline, f"{len(changed)} tables changed", len(changed))
    altered = _write_altered(folder, changed)
    _run_pipeline(spark, pipeline, f"{len(changed)} tables changed, {2 * len(changed)} ALTERs", len(changed))
    _read_status(pipeline)
    _measure_shards(spark, folder / "shards", tables[:SHARDS])
    for mode in ("append", "history"):
        _measure_mode(spark, folder / mode, tables[:MODE_TABLES], mode)
    python, jvm = memory()
    print(f"\nAt most {python:,} MiB in Python, {jvm:,} MiB in the JVM.")
    numbers = iter(range(ALTERING[-1] + 1, 1_000))
    processes.compare(folder, folder / "pipeline.yaml", lambda: write(folder, altered, next(numbers), rows=5))


def of_two_columns(count: int) -> list[Table]:
    return [Table(f"shop.table_{at:05d}", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40)) for at in range(count)]


def _print_head(label: str) -> None:
    print(f"\n| {label} | {' | '.join(f'{step}, s' for step in STEPS)} | all, s | processor, s |")
    print(f"| --- |{' --- |' * (len(STEPS) + 2)}")


def _measure_shards(spark: SparkSession, folder: Path, tables: Sequence[Table]) -> None:
    """The same of tables that are merged into one."""
    pipeline = pipeline_of(folder, routes=[{"from": "shop.table_*", "to": "shop.all"}])
    _print_head(f"{len(tables):,} tables merged into one")
    write(folder, tables, 1, rows=20)
    _run_pipeline(spark, pipeline, "first run", len(tables))
    for number in (2, 3):
        write(folder, tables[:CHANGED], number, rows=5)
        _run_pipeline(spark, pipeline, f"{CHANGED} tables changed", CHANGED)


def _measure_mode(spark: SparkSession, folder: Path, tables: Sequence[Table], mode: str) -> None:
    """The same of tables with a mode that has every change; each row that changes was there."""
    pipeline = pipeline_of(folder, downstream=[{"tables": "shop.*", "mode": mode}])
    _print_head(f"{len(tables):,} tables, mode {mode}")
    write(folder, tables, 1, rows=20)
    _run_pipeline(spark, pipeline, "first run", len(tables))
    for number in (2, 3):
        changes: list[Change] = []
        for table in tables:
            rows = [((1000 + at, f"row {at}, {number - 1}"), (1000 + at, f"row {at}, {number}")) for at in range(10)]
            if number == 2:
                rows = [((1000 + at, f"row {at}"), after) for at, (_, after) in enumerate(rows)]
            changes += [Update(table.name, before, after) for before, after in rows] + [Commit()]
        _write_file(folder, tables, changes, number)
        _run_pipeline(spark, pipeline, "10 rows of each changed", len(tables))


def _read_status(pipeline: Pipeline) -> None:
    """Reads of the lake and of the configuration without a run: the status, and Dagster's graph."""
    with metered() as usage:
        status(pipeline, lake_of(pipeline), SOURCE)
    print(f"\nstatus: {usage.seconds:.1f} s, {usage.processor:.1f} s of the processor")
    with metered() as usage:
        specs = build_defs(pipeline).resolve_all_asset_specs()
    print(
        f"Dagster's definitions, {len(specs):,} assets: {usage.seconds:.1f} s, {usage.processor:.1f} s of the processor"
    )


def pipeline_of(folder: Path, **settings: Any) -> Pipeline:
    (folder / "binlogs").mkdir(parents=True)
    path = folder / "pipeline.yaml"
    document: dict[str, Any] = {
        "lake": str(folder / "lake"),
        "sources": {SOURCE: {"files": "./binlogs"}},
        "tables": ["shop.*"],
    }
    document |= settings
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(path)


def write(folder: Path, tables: Sequence[Table], number: int, *, rows: int) -> None:
    """One file of the log, a transaction a table."""
    changes: list[Change] = []
    for table in tables:
        changes += [*_rows_of_file(table, number, rows), Commit()]
    _write_file(folder, tables, changes, number)


def _with_columns(tables: Sequence[Table], numbers: Sequence[int]) -> list[Table]:
    """The tables with the columns that these files of the log add."""
    added: dict[str, ColumnType] = {f"added_{number}": INT for number in numbers}
    return [Table(table.name, ["id"], True, **table.columns, **added) for table in tables]


def _write_altered(folder: Path, tables: Sequence[Table]) -> Sequence[Table]:
    """Two files of the log, in each a statement a table that adds a column, and rows with it. Returns the tables."""
    altered = tables
    for end, number in enumerate(ALTERING, 1):
        altered = _with_columns(tables, ALTERING[:end])
        changes: list[Change] = []
        for table in altered:
            schema, _, name = table.name.partition(".")
            changes.append(Statement(schema, f"ALTER TABLE {name} ADD COLUMN added_{number} INT"))
            changes += [*_rows_of_file(table, number, 5), Commit()]
        _write_file(folder, altered, changes, number)
    return altered


def _rows_of_file(table: Table, number: int, rows: int) -> list[Change]:
    """Rows of one file; columns that were added have a number."""
    values = (7,) * (len(table.columns) - 2)
    return [Insert(table.name, (1000 * number + at, f"row {at}", *values)) for at in range(rows)]


def _write_file(folder: Path, tables: Sequence[Table], changes: Sequence[Change], number: int) -> None:
    spec = SegmentSpec(tables, changes, first_number=100_000 * number, rotate_to=f"mysql-bin.{number + 1:06d}")
    (folder / "binlogs" / f"mysql-bin.{number:06d}").write_bytes(spec.to_bytes())


def _run_pipeline(spark: SparkSession, pipeline: Pipeline, label: str, merges: int) -> None:
    print_progress(label)
    times = [time.perf_counter()]
    with metered() as usage:
        extract_source(spark, pipeline, SOURCE)
        times.append(time.perf_counter())
        compacted = compact_source(spark, pipeline, SOURCE)
        times.append(time.perf_counter())
        merged = merge_source(spark, pipeline, SOURCE, compacted)
        times.append(time.perf_counter())
        publish(pipeline, SOURCE, merged)
        times.append(time.perf_counter())
    assert (merged.stopped, len(merged.merged)) == ({}, merges), merged.stopped
    steps = [later - earlier for earlier, later in pairwise(times)]
    cells = [*(f"{step:.1f}" for step in steps), f"{usage.seconds:.1f}", f"{usage.processor:.1f}"]
    print(f"| {label} | {' | '.join(cells)} |", flush=True)
