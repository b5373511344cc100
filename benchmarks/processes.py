"""A run as a process of its own, as a scheduler starts it, beside a bare Spark session that appends one row.

Put here: the two processes and the order in which they take turns. Not here: a session that is warm (tables.py).
"""

import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, of_process
from spark_jobs.runtime.provision import delta_jars

ROUNDS = 5
GOAL, KEPT_GOAL = 1.3, 0.25
"""Times the bare session; the second with a Spark server that stays (spark.keep)."""
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
"""It waits for its JVM, as ours does: of what is left behind no processor time is counted."""


def compare(folder: Path, config: Path, write_news: Callable[[], None]) -> None:
    """Prints median and least of processes that take turns; ``write_news`` comes before each run."""
    bare = [sys.executable, "-c", _BARE.format(jars=",".join(map(str, delta_jars())), path=str(folder / "bare"))]
    run = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(config)]
    kept_folder = config.with_name("standing.yaml")
    kept_folder.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"spark": {"keep": "10m"}}))
    own_offset = ["env", f"TMPDIR={folder}", sys.executable, "-m", "spark_jobs.cli"]  # no session of others
    kept_run = [*own_offset, "run", "-c", str(kept_folder)]
    here_folder = config.with_name("here.yaml")
    here_folder.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"spark": {"job_bytes": 4 << 20}}))
    here_run = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(here_folder)]
    bare_times: list[Usage] = []
    kept_times: list[Usage] = []
    run_times: list[Usage] = []
    idle_times: list[Usage] = []
    here_times: list[Usage] = []
    for nth in range(ROUNDS + 1):  # the first of each makes its table and fills the page cache
        print_progress(f"processes, round {nth}")
        bare_times.append(of_process(bare)[0])
        write_news()
        run_times.append(of_process(run)[0])
        idle_times.append(of_process(run)[0])
        write_news()
        kept_times.append(of_process(kept_run)[0])
        write_news()
        here_times.append(of_process(here_run)[0])
    of_process([*own_offset, "session", "stop"])
    median = statistics.median(usage.seconds for usage in bare_times[1:])
    print("\n| process | median, s | least, s | processor, s | times the bare session |")
    print("| --- | --- | --- | --- | --- |")
    for label, times in (
        ("a bare Spark session appends one row to a Delta table", bare_times[1:]),
        (f"stratalog run, news (goal {GOAL} times)", run_times[1:]),
        ("stratalog run, no news", idle_times[1:]),
        (f"stratalog run, news, with spark.keep (goal {KEPT_GOAL} times)", kept_times[1:]),
        ("stratalog run, news, with spark.job_bytes", here_times[1:]),
    ):
        seconds = [usage.seconds for usage in times]
        processor = statistics.median(usage.processor for usage in times)
        middle = statistics.median(seconds)
        print(f"| {label} | {middle:.1f} | {min(seconds):.1f} | {processor:.1f} | {middle / median:.2f} |", flush=True)
