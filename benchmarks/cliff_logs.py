"""Catching up with the logs of ``whole``, by tables without a key, with MINIMAL row images or under a row filter.

Each log is written once a shape of it; a round takes it into a new lake: the file in which the tables begin, which is
not measured, then the bulk log, then the OLTP log. The cases take turns.

Put here: what is measured. Not here: what is in the logs (logs.py), or small ticks (cliffs.py).
"""

import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from benchmarks import logs, runs
from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, forget_peaks, metered
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer

PLAIN = "plain"
GOAL = 1 / 3
"""Of the plain rate."""
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    PLAIN: ("full", {}),
    "row filter": (
        "full",
        {
            "row_filters": {
                "few": {
                    "tables": ["*.*"],
                    "insert-value-expr": "id % 100 = 7",
                    "update-new-value-expr": "id % 100 = 9",
                    "delete-value-expr": "id % 100 = 13",
                }
            }
        },
    ),
    "MINIMAL": ("minimal", {}),
    "no key": ("keyless", {}),
}
"""The logs of each, and what its pipeline says beside tables."""
_SHAPES = {"full": ("FULL", "PRIMARY KEY"), "minimal": ("MINIMAL", "PRIMARY KEY"), "keyless": ("FULL", "KEY")}
"""The row image of the server's session, and how the index on id is declared, by the name of the logs."""


@dataclass(frozen=True, slots=True)
class ServerLogs:
    """The logs of one server, and the files before the first of them."""

    before: tuple[Path, ...]
    logs: tuple[logs.Log, ...]


def measure(
    spark: SparkSession, folder: Path, is_chosen: Callable[[str], bool], sizes: tuple[int, int], rounds: int
) -> None:
    """Prints a line a case and log, for the cases that are chosen and the plain one; nothing where none is."""
    names = [name for name in CASES if name == PLAIN or is_chosen(f"catch-up: {name}")]
    if len(names) == 1:
        return
    logs_by_shape = {log: _server_logs(folder, log, sizes) for log in {CASES[name][0] for name in names}}
    usages_by_case: dict[tuple[str, str], list[Usage]] = defaultdict(list)
    for nth in range(rounds + 1):  # the first one warms the session up
        for name in names:
            print_progress(f"catch-up: {name}, round {nth}")
            log, settings = CASES[name]
            for shape, usage in _caught_up(spark, folder / "lake", logs_by_shape[log], settings):
                if nth:
                    usages_by_case[shape, name].append(usage)
    _print(logs_by_shape["full"].logs, names, usages_by_case)


def _print(shapes: tuple[logs.Log, ...], names: list[str], usages_by_case: dict[tuple[str, str], list[Usage]]) -> None:
    print(
        "\n| log | tables | changes/s | of the plain rate (goal a third) | processor seconds a million changes "
        "| MiB of Python, JVM |\n| --- | --- | --- | --- | --- | --- |"
    )
    for log in shapes:
        plain = statistics.median(usage.seconds for usage in usages_by_case[log.shape, PLAIN])
        for name in names:
            usages = usages_by_case[log.shape, name]
            seconds = statistics.median(usage.seconds for usage in usages)
            processor = statistics.median(usage.processor for usage in usages)
            cells = (
                f"{log.changes / seconds:,.0f}",
                f"{plain / seconds:.2f}",
                f"{processor / log.changes * 1e6:.1f}",
                f"{max(usage.python for usage in usages):,}, {max(usage.jvm for usage in usages):,}",
            )
            print(f"| {log.shape}, {log.changes:,} changes | {name} | {' | '.join(cells)} |", flush=True)


def _server_logs(folder: Path, name: str, sizes: tuple[int, int]) -> ServerLogs:
    print_progress(f"writing the {name} logs")
    with MySQLServer(folder / name) as server:
        image, key = _SHAPES[name]
        log_files = tuple(logs.write(server, *sizes, image=image, key=key))
        files = sorted(server.data.glob("mysql-bin.[0-9]*"))
    return ServerLogs(tuple(file for file in files if file < log_files[0].path), log_files)


def _caught_up(
    spark: SparkSession, folder: Path, server_logs: ServerLogs, settings: dict[str, Any]
) -> Iterator[tuple[str, Usage]]:
    """The shape of each log and what its run took, in a lake that has the tables of the files before."""
    files = folder / "binlogs"
    files.mkdir(parents=True)
    path = folder / "pipeline.yaml"
    document = {"lake": "./lake", "sources": {"log": {"files": "./binlogs"}}, "tables": [f"{logs.SCHEMA}.*"]}
    path.write_text(yaml.safe_dump(document | settings), encoding="utf-8")
    pipeline = load(path)
    for file in server_logs.before:
        (files / file.name).hardlink_to(file)
    runs.run(spark, pipeline, "log")
    for log in server_logs.logs:
        (files / log.path.name).hardlink_to(log.path)
        forget_peaks()
        with metered() as usage:
            outcome = runs.run(spark, pipeline, "log")
        changes = sum(table.changes for table in outcome.compacted)
        left_out = sum(sum(table.left_out.values()) for table in outcome.compacted)
        if changes + left_out != log.changes:
            raise SystemExit(f"{log.shape}: {changes:,} and {left_out:,} left out, of {log.changes:,} changes")
        yield log.shape, usage
    shutil.rmtree(folder)
