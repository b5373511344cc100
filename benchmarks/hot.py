"""Cost of a key that half of all changes touch, compared with changes spread over all keys.

Put here: the measurement of compaction alone, bronze to silver. Not here: the whole way (readers.py).
"""

import time
from pathlib import Path

import yaml
from pymysql.cursors import Cursor
from pyspark.sql import SparkSession

from benchmarks.logs import SCHEMA
from benchmarks.progress_lines import print_progress
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import compact_source, extract_source

ROUNDS = 3
_SHAPES = {"uniform": "{spread}", "one key of half of all changes": "IF(n % 2, 0, {spread})"}
_CREATE = "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 0, note VARCHAR(60))"
_WRITE = """
INSERT INTO t (id, note)
WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})
SELECT {key}, CONCAT('note of row ', n) FROM s
ON DUPLICATE KEY UPDATE v = v + 1
"""


def measure(spark: SparkSession, folder: Path, count: int) -> None:
    """Prints seconds to compact ``count`` changes of one table, best of some rounds, and the net rows that are left."""
    pipelines = {shape: _extracted(spark, folder / str(at), _SHAPES[shape], count) for at, shape in enumerate(_SHAPES)}
    best: dict[str, float] = {}
    rows: dict[str, int] = {}
    for _ in range(ROUNDS):
        for shape, pipeline in pipelines.items():
            seconds, rows[shape] = _compacted(spark, pipeline, count)
            print_progress(f"{shape}: {seconds:.2f} s")
            best[shape] = min(seconds, best.get(shape, seconds))
    print(f"| compacting {count:,} changes | net rows | s |")
    print("| --- | --- | --- |")
    for shape in _SHAPES:
        print(f"| {shape} | {rows[shape]:,} | {best[shape]:.2f} |")


def _extracted(spark: SparkSession, folder: Path, key: str, count: int) -> Pipeline:
    """A pipeline whose bronze holds the log of ``count`` changes in one statement."""
    with MySQLServer(folder / "server") as server, server.connect() as connection:
        cursor: Cursor = connection.cursor()
        for statement in (f"CREATE DATABASE {SCHEMA}", f"USE {SCHEMA}", _CREATE):
            cursor.execute(statement)
        cursor.execute("SET SESSION cte_max_recursion_depth = 4294967295")
        cursor.execute(_WRITE.format(count=count, key=key.format(spread=f"1 + n * 7919 % {count // 2}")))
        cursor.execute("FLUSH BINARY LOGS")
        path = folder / "pipeline.yaml"
        document = {"lake": "./lake", "sources": {"log": {"files": str(server.data)}}, "tables": [f"{SCHEMA}.*"]}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        pipeline = load(path)
        extract_source(spark, pipeline, "log")
    return pipeline


def _compacted(spark: SparkSession, pipeline: Pipeline, count: int) -> tuple[float, int]:
    """Seconds and net rows; silver is put aside first, so that it is made anew."""
    silver = Path(lake_of(pipeline).root) / "silver"
    if silver.exists():
        silver.rename(silver.with_name(f"silver-{time.monotonic_ns()}"))
    began = time.perf_counter()
    outcome = compact_source(spark, pipeline, "log")
    seconds = time.perf_counter() - began
    (compacted,) = outcome.compacted
    assert compacted.changes == count, f"{compacted.changes} of {count} changes"
    return seconds, compacted.rows
