"""Deliveries into a MySQL server on the same machine: a table from the beginning, inserts, and a mix of changes.

Rows are those of sysbench's table: an integer key, an indexed integer, 120 and 60 characters. The lake is made first;
only the delivery is measured. What the server needs by itself for such rows is in these figures.

Put here: what is measured. Not here: the way from the log to the lake (catchup.py, hot.py).
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from benchmarks.progress_lines import print_progress
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.delivery.deliver import deliver
from spark_jobs.demo.server import MySQLServer
from spark_jobs.pipeline.run import run_source

SOURCE = "shop"
_OPTIONS: dict[str, object] = {
    "innodb_buffer_pool_size": "512M",
    "innodb_log_file_size": "256M",
    "local_infile": "ON",
    "max_allowed_packet": "64M",
}
_TABLE = """CREATE TABLE bench.sbtest (
  id INT NOT NULL PRIMARY KEY, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',
  pad CHAR(60) NOT NULL DEFAULT '',
  KEY k (k)) CHARACTER SET latin1"""
_LETTERS = "abcdefgh-12345678901-"
_ROWS_A_STATEMENT = 1000


def measure(spark: SparkSession, folder: Path, count: int) -> None:
    """Prints changes of the log, and rows written, a second of each window.

    count: rows of the table, and changes of each later window.
    """
    folder.mkdir(parents=True, exist_ok=True)
    print("| apply | window | changes | rows written | s | changes/s | rows/s | processor s, us | the server | load |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with MySQLServer(folder / "source") as source:
        _execute(source, "CREATE DATABASE bench", _TABLE)
        generator = random.Random(1)
        mixes: tuple[Window, ...] = (
            ("mixed", lambda cursor: _mix(cursor, generator, count, _ROWS_A_STATEMENT)),
            ("mixed, of 20 changes", lambda cursor: _mix(cursor, generator, count, 20)),
        )
        windows: dict[str, tuple[Window, ...]] = {
            "net": (
                ("from the beginning", lambda cursor: _insert(cursor, generator, range(count))),
                ("inserts", lambda cursor: _insert(cursor, generator, range(count, 2 * count))),
                *mixes,
            ),
            "ordered": (("inserts", lambda cursor: _insert(cursor, generator, range(2 * count, 3 * count))), *mixes),
        }
        for apply, own_windows in windows.items():
            with MySQLServer(folder / f"target-{apply}", _OPTIONS) as target:
                pipeline = _delivery_pipeline(folder, source, target, apply)
                _execute(target, "CREATE DATABASE bench", _TABLE)
                if apply == "ordered":
                    print_progress("copying the table")
                    assert not deliver(pipeline, "replica").stopped
                for name, write in own_windows:
                    print_progress(f"writing the log of {name}")
                    with source.connect() as connection, connection.cursor() as cursor:
                        write(cursor)
                    run_source(spark, pipeline, SOURCE)
                    _window(pipeline, (apply, name), target, count)
                _compare(source, target)


Window = tuple[str, Callable[[Any], None]]
"""Its name, and what writes its log."""


def _window(pipeline: Pipeline, names: tuple[str, str], target: MySQLServer, count: int) -> None:
    """Measures the delivery of what is in the lake. count: changes of the log that it comes from."""
    began, cpu, before = time.monotonic(), time.process_time(), _processor(target)
    outcome = deliver(pipeline, "replica")
    seconds = time.monotonic() - began
    assert not outcome.stopped, outcome.stopped
    rows = sum(table.rows for table in outcome.tables)
    processor = time.process_time() - cpu, _processor(target) - before
    cells = (*names, f"{count:,}", f"{rows:,}", f"{seconds:.1f}", f"{count / seconds:,.0f}", f"{rows / seconds:,.0f}")
    print(f"| {' | '.join((*cells, *(f'{load:.1f}' for load in (*processor, os.getloadavg()[0]))))} |", flush=True)


def _delivery_pipeline(folder: Path, source: MySQLServer, target: MySQLServer, apply: str) -> Pipeline:
    document = {
        "lake": str(folder / "lake"),
        "sources": {SOURCE: {"files": str(source.data)}},
        "tables": ["bench.*"],
        "deliveries": {
            "replica": {
                "mysql": {"host": target.host, "port": target.port, "user": target.user, "password": target.password},
                "apply": apply,
                "workers": 2,
            }
        },
    }
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    _execute(target, f"GRANT ALL ON *.* TO `{target.user}`@`%`")
    return load(path)


def _execute(server: MySQLServer, *statements: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _random_text(generator: random.Random, length: int) -> str:
    return "".join(generator.choices(_LETTERS, k=20)) * (length // 20)


def _random_row(generator: random.Random, number: int) -> str:
    return (
        f"({number}, {generator.randrange(10**6)}, '{_random_text(generator, 120)}', '{_random_text(generator, 60)}')"
    )


def _insert(cursor: Any, generator: random.Random, numbers: range) -> None:
    for begin in range(0, len(numbers), _ROWS_A_STATEMENT):
        rows = ", ".join(_random_row(generator, number) for number in numbers[begin : begin + _ROWS_A_STATEMENT])
        cursor.execute(f"INSERT INTO bench.sbtest VALUES {rows}")


def _mix(cursor: Any, generator: random.Random, count: int, changes: int) -> None:
    """As sysbench's oltp_write_only: of four changes two are updates, one a delete, one an insert of that key.

    changes: of a transaction.
    """
    for begin in range(0, count, changes):
        size = min(changes, count - begin) // 4
        cursor.execute("START TRANSACTION")
        keys = generator.sample(range(2 * count), 2 * size)
        updated, replaced = keys[:size], keys[size:]
        listed = ", ".join(map(str, updated))
        cursor.execute(f"UPDATE bench.sbtest SET k = k + 1 WHERE id IN ({listed})")
        cursor.execute(f"UPDATE bench.sbtest SET c = '{_random_text(generator, 120)}' WHERE id IN ({listed})")
        cursor.execute(f"DELETE FROM bench.sbtest WHERE id IN ({', '.join(map(str, replaced))})")
        cursor.execute(f"INSERT INTO bench.sbtest VALUES {', '.join(_random_row(generator, key) for key in replaced)}")
        cursor.execute("COMMIT")


def _processor(server: MySQLServer) -> float:
    """Seconds of processor that a server used."""
    pid = int((server.directory / "mysqld.pid").read_text(encoding="ascii"))
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _compare(source: MySQLServer, target: MySQLServer) -> None:
    sums = []
    for server in (source, target):
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*), SUM(k), SUM(CRC32(CONCAT_WS(',', id, k, c, pad))) FROM bench.sbtest")
            sums.append(cursor.fetchall())
    assert sums[0] == sums[1], sums
    print_progress("source and target have the same rows")
