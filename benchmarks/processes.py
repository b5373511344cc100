"""A run as a process of its own, as a scheduler starts it, beside a bare Spark session that appends one row.

Put here: the two processes and the order in which they take turns. Not here: a session that is warm (tables.py).
"""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.told import say
from spark_jobs.runtime.provision import delta_jars

ROUNDS = 5
GOAL = 1.3
"""Times the bare session."""
_BARE = """
from pyspark.sql import SparkSession
settings = {{
    "spark.master": "local[*]",
    "spark.jars": {jars!r},
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}}
builder = SparkSession.builder
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.createDataFrame([(1, "a row")], "id INT, note STRING").write.format("delta").mode("append").save({path!r})
spark.stop()
jvm = spark.sparkContext._gateway.proc
jvm.stdin.close()
jvm.wait()
"""
Usage = tuple[float, float]
"""Seconds by the clock and of the processor."""


def compare(folder: Path, config: Path, write_news: Callable[[], None]) -> None:
    """Prints median and least of processes that take turns; ``write_news`` comes before each run."""
    bare = [sys.executable, "-c", _BARE.format(jars=",".join(map(str, delta_jars())), path=str(folder / "bare"))]
    run = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(config)]
    bare_times: list[Usage] = []
    run_times: list[Usage] = []
    idle_times: list[Usage] = []
    for nth in range(ROUNDS + 1):  # the first of each makes its table and fills the page cache
        say(f"processes, round {nth}")
        bare_times.append(_process(bare))
        write_news()
        run_times.append(_process(run))
        idle_times.append(_process(run))
    median = statistics.median(seconds for seconds, _ in bare_times[1:])
    print("\n| process | median, s | least, s | processor, s | times the bare session |")
    print("| --- | --- | --- | --- | --- |")
    for label, times in (
        ("a bare Spark session appends one row to a Delta table", bare_times[1:]),
        (f"stratalog run, news (goal {GOAL} times)", run_times[1:]),
        ("stratalog run, no news", idle_times[1:]),
    ):
        seconds = [wall for wall, _ in times]
        processor = statistics.median(busy for _, busy in times)
        middle = statistics.median(seconds)
        print(f"| {label} | {middle:.1f} | {min(seconds):.1f} | {processor:.1f} | {middle / median:.2f} |", flush=True)


def _process(command: list[str]) -> Usage:
    """Both end their JVM and wait for it, without which its processor time is counted nowhere. Raises SystemExit."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    wall = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(process.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
