"""Parents deleted with their children by a foreign key, beside the same deletes logged by the server.

One child table, whose rows of one parent lie far apart by key. Rounds take turns: in one the children are deleted by
statements, before their parents, so that the log has all; in the other the server deletes them unlogged, and the lake
derives it. The first round that derives builds the index of the foreign key. Logged rounds look for children too, as
every change of a parent does: in a lake beside it, with ``on_cascade: warn``, nothing is looked for.

Put here: what is measured. Not here: what is derived (spark_jobs/cascades/).
"""

from pathlib import Path

import yaml
from pymysql.cursors import Cursor
from pyspark.sql import SparkSession

from benchmarks import runs
from benchmarks.logs import SCHEMA
from benchmarks.progress_lines import print_progress
from benchmarks.usage import Usage, forget_peaks
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of

PARENTS, CHILDREN = 10_000, 10
"""Deleted in a round, and of each."""
ROUNDS = 3
GOAL = 2.0
"""Times the time of the logged deletes with ``on_cascade: warn``."""
SOURCE = "log"
_TRANSACTIONS = 100
_OPTIONS = {"innodb_flush_log_at_trx_commit": "0", "sync_binlog": "0", "innodb_buffer_pool_size": "1G"}
_TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    (
        "CREATE TABLE c (id BIGINT PRIMARY KEY, pid INT, sku VARCHAR(32) NOT NULL, price DECIMAL(12,2) NOT NULL, "
        "note VARCHAR(60), CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)"
    ),
)
_NUMBERS = "WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {stop})"
_CHILD = "n, n % {parents}, CONCAT('SKU-', n % 9999), n % 100000 / 100, CONCAT('note of row ', n)"
_BATCH = 500_000


def measure(spark: SparkSession, folder: Path, children: int) -> None:
    """Prints a line a round, of a child table of so many rows."""
    parents = children // CHILDREN
    with MySQLServer(folder / "server", _OPTIONS) as server, server.connect() as connection:
        print_progress(f"writing {children:,} child rows")
        cursor: Cursor = connection.cursor()
        _fill(cursor, parents, children)
        pipelines = {action: _pipeline_with(action, folder, server) for action in ("warn", "apply")}
        print_progress("reading them")
        for pipeline in pipelines.values():
            runs.run(spark, pipeline, SOURCE)
        _print_rounds(spark, pipelines, cursor, parents)
        _require_same(pipelines["apply"], cursor)


def _print_rounds(spark: SparkSession, pipelines: dict[str, Pipeline], cursor: Cursor, parents: int) -> None:
    print(
        f"| {PARENTS:,} parents and {PARENTS * CHILDREN:,} children | s | processor s | MiB of Python, JVM | ratio |\n"
        "| --- | --- | --- | --- | --- |"
    )
    baseline = Usage()
    for number in range(2 * ROUNDS):
        is_derived = bool(number % 2)
        print_progress(f"deleting, round {number + 1}")
        _delete(cursor, parents, number, is_logged=not is_derived)
        # The lake that looks for nothing is the one that ratios are of.
        for action, pipeline in pipelines.items():
            forget_peaks()
            usage = runs.usage_of(spark, pipeline, SOURCE)
            is_baseline = action == "warn" and not is_derived
            baseline = usage if is_baseline else baseline
            goal = f" (goal {GOAL})" if action == "apply" and is_derived else ""
            label = f"{'unlogged' if is_derived else 'logged'}, {action}"
            memory = f"{usage.python:,}, {usage.jvm:,}"
            ratio = f"{usage.seconds / baseline.seconds:.2f}{goal}"
            print(f"| {label} | {usage.seconds:.1f} | {usage.processor:.1f} | {memory} | {ratio} |", flush=True)


def _fill(cursor: Cursor, parents: int, children: int) -> None:
    for statement in (f"CREATE DATABASE {SCHEMA}", f"USE {SCHEMA}", *_TABLES):
        cursor.execute(statement)
    cursor.execute("SET SESSION cte_max_recursion_depth = 4294967295")
    for first in range(0, parents, _BATCH):
        numbers = _NUMBERS.format(first=first, stop=min(first + _BATCH, parents))
        cursor.execute(f"INSERT INTO p {numbers} SELECT n, CONCAT('parent ', n) FROM s")
    for first in range(0, children, _BATCH):
        numbers = _NUMBERS.format(first=first, stop=min(first + _BATCH, children))
        cursor.execute(f"INSERT INTO c {numbers} SELECT {_CHILD.format(parents=parents)} FROM s")
    cursor.execute("FLUSH BINARY LOGS")


def _delete(cursor: Cursor, parents: int, number: int, *, is_logged: bool) -> None:
    """Deletes parents that lie far apart, with their children by statements or by the foreign key."""
    apart, width = parents // PARENTS, parents // _TRANSACTIONS
    for first in range(0, parents, width):
        chosen = f"BETWEEN {first} AND {first + width - 1}"
        cursor.execute("BEGIN")
        if is_logged:
            cursor.execute(f"DELETE FROM c WHERE pid {chosen} AND pid % {apart} = {number}")
        cursor.execute(f"DELETE FROM p WHERE id {chosen} AND id % {apart} = {number}")
        cursor.execute("COMMIT")
    cursor.execute("FLUSH BINARY LOGS")


def _pipeline_with(action: str, folder: Path, server: MySQLServer) -> Pipeline:
    path = folder / f"{action}.yaml"
    document = {
        "lake": f"./{action}",
        "sources": {SOURCE: {"files": str(server.data)}},
        "tables": [f"{SCHEMA}.*"],
        "on_cascade": action,
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(path)


def _require_same(pipeline: Pipeline, cursor: Cursor) -> None:
    """Raises SystemExit where the lake has other rows than the server."""
    for table in ("p", "c"):
        cursor.execute(f"SELECT COUNT(*), SUM(id) FROM {table}")
        expected = tuple(map(int, cursor.fetchone() or ()))
        ids = [row["id"] for row in lake_of(pipeline).downstream(SCHEMA, table).rows(columns=["id"])]
        if (len(ids), sum(ids)) != expected:
            raise SystemExit(f"{table}: {len(ids)} rows, and the server has {expected[0]}")
