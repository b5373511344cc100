"""The initial load of one table, beside mysqldump and a plain PyMySQL reader of the same rows.

The table is that of operations.py, sixteen columns a row, and older than the log. Each reader is a process of its own
at a server that runs beside it; what the server takes is counted apart. Two figures are ours: reading alone, from the
connection to Arrow columns, which is what the other two do at most; and the whole load, down to the downstream table.

Put here: what is measured. Not here: what a load does (spark_jobs/pipeline/initial_load/).
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import yaml
from pymysql.cursors import SSCursor
from pyspark.sql import SparkSession

from benchmarks import operations
from benchmarks.progress_lines import print_progress
from benchmarks.usage import memory, processor_of
from spark_jobs.binlog import TableName
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.servers import MySQL
from spark_jobs.demo.server import MySQLServer
from spark_jobs.pipeline.initial_load.key_ranges import KeyRange, key_of
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.pipeline.run import run_source
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.server import Server

SOURCE = "shop"
TABLE = TableName(operations.SCHEMA, "t0")
_DUMPS = ("mysqldump", "mariadb-dump")
_KIB = 1024
_WARM = 1000
"""Rows that a reader reads before it is measured."""
OPTIONS = operations.OPTIONS | {"default_authentication_plugin": "mysql_native_password"}
"""Clients of MariaDB need a plugin for the other one, which may not be there."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a reader: seconds by the clock, of its own processes and of the server, and MiB at most."""

    seconds: float
    processor: float
    server: float
    memory: str


def measure(session: Callable[[], SparkSession], folder: Path, rows: int) -> None:
    """Prints a line a reader, of a table of so many rows."""
    with MySQLServer(folder / "server", OPTIONS) as server:
        print_progress(f"writing {rows:,} rows")
        write_table(server, rows)
        print(
            f"| {rows:,} rows by | rows/s | rows a processor second | processor s a million rows "
            "| the server's | MiB at most |\n| --- | --- | --- | --- | --- | --- |"
        )
        for name, command in peers(server):
            if command is None:
                print_progress(f"{name} is not here")
                continue
            print_progress(name)
            _print_cost(name, rows, in_process(command, server, rows if command[0] == sys.executable else None))
        spark = session()
        print_progress("the whole load")
        _print_cost(
            "stratalog: the whole load, two tasks, to downstream", rows, whole_load(spark, server, folder, rows)
        )


def write_table(server: MySQLServer, rows: int) -> None:
    """A table that is older than the newest file of the log."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {operations.SCHEMA}")
        cursor.execute(f"USE {operations.SCHEMA}")
        cursor.execute("SET cte_max_recursion_depth = 100000000")
        for statement in operations.statements(0, rows):
            cursor.execute(statement)
        cursor.execute("ANALYZE TABLE t0")
        cursor.execute("SELECT COUNT(*), SUM(tax) FROM t0")  # every page is in memory, for each reader alike
        cursor.execute("FLUSH BINARY LOGS")


def peers(server: MySQLServer) -> Iterator[tuple[str, list[str] | None]]:
    """Names and commands of the readers that are processes of their own; None for a program that is not here."""
    program = next((path for path in map(shutil.which, _DUMPS) if path), None)
    login = [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"]
    options = ["--single-transaction", "--skip-lock-tables", "--skip-tz-utc", "--compact"]
    dump = [program, *login, *options, TABLE.schema, TABLE.table] if program else None
    yield "mysqldump, to /dev/null", dump
    for reader, name in ("plain", "PyMySQL: SSCursor, rows as tuples"), ("own", "stratalog: reading, to Arrow columns"):
        yield name, [sys.executable, "-m", "benchmarks.load", reader]


def in_process(command: list[str], server: MySQLServer, rows: int | None) -> Cost:
    """Runs a reader to its end; ``rows`` that it has to count, where it is one of this module's."""
    settings = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    environment = os.environ | {"MYSQL_PWD": server.password, "STRATALOG_LOGIN": json.dumps(settings)}
    output = subprocess.PIPE if rows is not None else subprocess.DEVNULL
    server_before, began = processor_of("mysqld"), time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=output) as process:
        text = process.stdout.read() if process.stdout else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode or (rows is not None and int(text.split()[0]) != rows):
        raise SystemExit(f"{command[0]}: exit status {process.returncode}, {text.decode()} of {rows} rows")
    processor = usage.ru_utime + usage.ru_stime
    if rows is not None:  # without what a process takes to start, and to import
        _, seconds, processor = map(float, text.split())
    return Cost(seconds, processor, processor_of("mysqld") - server_before, f"{usage.ru_maxrss // _KIB:,}")


def whole_load(spark: SparkSession, server: MySQLServer, folder: Path, rows: int) -> Cost:
    """A load through all layers, in a warm session: of a small table before, which is not counted."""
    with server.connect(database=TABLE.schema) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE small LIKE t0")
        cursor.execute("INSERT INTO small SELECT * FROM t0 LIMIT 1000")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        file, offset, *_ = cursor.fetchone() or ()
    pipeline = pipeline_of(server, folder, f"{file}:{offset}")
    run_source(spark, pipeline, SOURCE)
    load_source(spark, pipeline, SOURCE, tables=[f"{TABLE.schema}.small"])
    with counted_costs() as cost:
        loaded = load_source(spark, pipeline, SOURCE, tables=[str(TABLE)])
    if loaded.stopped or loaded.tables[TABLE].rows != rows:
        raise SystemExit(f"{loaded.stopped}, {loaded.tables}")
    return cost[0]


@contextmanager
def counted_costs() -> Iterator[list[Cost]]:
    """Measures this process and all below it, but for the server."""
    costs: list[Cost] = []
    server, total, began = processor_of("mysqld"), processor_of(), time.perf_counter()
    yield costs
    seconds = time.perf_counter() - began
    server = processor_of("mysqld") - server
    python, jvm = memory()
    costs.append(Cost(seconds, processor_of() - total - server, server, f"{python:,} Python, {jvm:,} JVM"))


def pipeline_of(server: MySQLServer, folder: Path, start: str) -> Pipeline:
    login = {"host": server.host, "port": server.port, "user": server.user, "password": "${BENCH_PASSWORD}"}
    document = {
        "lake": "./lake",
        "sources": {SOURCE: {"mysql": login, "start": start}},
        "tables": [f"{TABLE.schema}.*"],
    }
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return load(folder / "pipeline.yaml", {**os.environ, "BENCH_PASSWORD": server.password})


def _print_cost(name: str, rows: int, cost: Cost) -> None:
    cells = (
        f"{rows / cost.seconds:,.0f}",
        f"{rows / cost.processor:,.0f}",
        f"{cost.processor / rows * 1e6:.2f}",
        f"{cost.server / rows * 1e6:.2f}",
        cost.memory,
    )
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def read_plain(login: dict[str, Any], last: int | None = None) -> int:
    """Every row up to an id as a tuple of Python's values, without keeping it."""
    connection = pymysql.connect(**login, cursorclass=SSCursor)
    with connection, connection.cursor() as cursor:
        condition = "TRUE" if last is None else f"id <= {last}"
        cursor.execute(f"SELECT * FROM {TABLE.schema}.{TABLE.table} WHERE {condition}")
        return sum(1 for _ in cursor)


def read_own(login: dict[str, Any], last: int | None = None) -> int:
    """Every row up to an id in Arrow columns, without keeping it: one connection, as a task of a load reads a range."""
    settings = MySQL.model_validate(login)
    server = Server(SOURCE, settings)
    with server.connect() as connection:
        key = key_of(connection, TABLE.schema, TABLE.table)
    selecting = Selecting(SOURCE, settings, on_server(server)[TABLE], key)
    return sum(len(changes) for changes in selecting.read(KeyRange(None, (str(last),) if last else None)))


def main() -> None:
    """Reads the table by one of this module's readers; prints its rows, and seconds by the clock and the processor."""
    login = json.loads(os.environ["STRATALOG_LOGIN"])
    reader = {"plain": read_plain, "own": read_own}[sys.argv[1]]
    reader(login, _WARM)  # compiled code is loaded, or made
    began, before = time.perf_counter(), time.process_time()
    print(reader(login), time.perf_counter() - began, time.process_time() - before)


if __name__ == "__main__":
    main()
