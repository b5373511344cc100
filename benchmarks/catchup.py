"""Catching up: ten files of a server to bronze, beside mysqlbinlog writing plain files, and where the time goes.

The log is ten copies of one file that a server has written, put into its index while it is down. A file of it is half
small transactions and half large ones.

Put here: what is measured. Not here: the path itself.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pymysql.cursors import Cursor
from pyspark.sql import SparkSession

from benchmarks import logs
from benchmarks.progress_lines import print_progress
from spark_jobs.binlog import Slicer
from spark_jobs.bronze.extract import extract
from spark_jobs.config.model import Spark
from spark_jobs.config.servers import MySQL
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import Lake
from spark_jobs.runtime.spark_session import session_over, spark_session
from spark_jobs.source.binlog_dump import DumpReading
from spark_jobs.source.protocol import FilePart, Log
from spark_jobs.source.server import Server
from tests.services.servers import tool_of

FILES = 10
GOAL = 2.5
ROUNDS = 3
_OPTIONS: dict[str, object] = {"max_binlog_size": 1 << 30, "binlog_row_event_max_size": 8192, "ssl": "OFF"}
"""Without TLS: with it, the server and the tool take twice as long, and the ratio looks better than it is."""


def measure(folder: Path, size: int) -> None:
    """``size``: bytes of a file, about."""
    with MySQLServer(folder / "server", _OPTIONS) as server:
        print_progress("writing the log")
        file = _write_log_file(server, size)
        server.stop()
        _repeat_file(server, file)
        server.start()
        source = Server("log", _settings(server))
        log = source.log()
        parts = [part for part in log.parts_from(log.first) if part.stop > size // 4]
        total = sum(part.stop for part in parts)
        print_progress(f"{len(parts)} files, {total:,} bytes")
        _report(_figures(server, source, log, parts, folder), total)


def _settings(server: MySQLServer) -> MySQL:
    return MySQL.model_validate(
        {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    )


def _write_log_file(server: MySQLServer, size: int) -> str:
    """The name of a closed file of about that size: the shapes' densities are 170 bytes a row and 530 a transaction."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in ("CREATE DATABASE bench", "USE bench", "SET cte_max_recursion_depth = 100000000"):
            cursor.execute(statement)
        for statement in (logs.ORDERS, logs.ACCOUNTS, logs.TRANSFERS):
            cursor.execute(statement)
        cursor.execute(logs.FILL.replace("{rows}", "1000"))
        cursor.execute("INSERT INTO accounts SELECT id, 0, sku, created_at FROM orders")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("CALL transfers(%s)", (size // 2 // 700,))
        while (at := _status(cursor))[1] < size:
            cursor.execute(logs.FILL.replace("{rows}", "20000"))
        cursor.execute("FLUSH BINARY LOGS")
        return at[0]


def _status(cursor: Cursor) -> tuple[str, int]:
    cursor.execute("SHOW MASTER STATUS")
    status = cursor.fetchone()
    assert status
    return str(status[0]), int(status[1])


def _repeat_file(server: MySQLServer, file: str) -> None:
    """The log is this file so many times, under consecutive names."""
    base, _, digits = file.rpartition(".")
    index = server.data / f"{base}.index"
    names = [f"{base}.{int(digits) + at:06d}" for at in range(FILES)]
    for line in index.read_text().split():
        path = server.data / line
        if path.name != file:
            path.unlink()
    for name in names[1:]:
        shutil.copyfile(server.data / file, server.data / name)
    index.write_text("".join(f"./{name}\n" for name in names))


Figures = dict[str, list[float]]


def _figures(server: MySQLServer, source: Server, log: Log, parts: list[FilePart], folder: Path) -> Figures:
    """Seconds of every round, by what was done; the ways take turns, since machines have better and worse minutes."""
    reading = source.reading()
    assert isinstance(reading, DumpReading)
    print_progress("starting Spark")
    spark = spark_session(Spark(master="local[*]"))
    figures: Figures = {}

    def timed(name: str, do: Callable[[], None]) -> None:
        began = time.perf_counter()
        do()
        figures.setdefault(name, []).append(time.perf_counter() - began)

    tool = _tool()
    _extracted(spark, source, log, folder / "warm")
    for at in range(ROUNDS):
        print_progress(f"round {at + 1}")
        if tool:
            timed(TOOL, partial(_by_tool, tool, server, parts, folder / "raw"))
        timed(EXTRACTED, partial(_extracted, spark, source, log, folder / f"lake{at}"))
        timed(DUMPED, lambda: _at_once(parts, lambda part: sum(len(chunk) for chunk in reading(part)[1])))
        timed(SLICED, lambda: _at_once(parts, lambda part: sum(1 for _ in _slices_of_part(reading, part))))
    spark.stop()
    return figures


TOOL = "mysqlbinlog --read-from-remote-server --raw"
EXTRACTED = "stratalog: to bronze, committed"
DUMPED = "of that: dumps alone"
SLICED = "of that: dumps and slices"


def _tool() -> list[str] | None:
    for server in ("mysql-9.7", "mysql-8.4", "mysql-8.0"):
        if tool := tool_of(server, "mysqlbinlog"):
            return tool
    here = shutil.which("mysqlbinlog") or shutil.which("mariadb-binlog")
    return [here] if here else None


def _by_tool(tool: list[str], server: MySQLServer, parts: list[FilePart], into: Path) -> None:
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    access = [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"]
    command = [*tool, "--no-defaults", "--read-from-remote-server", "--raw", *access, f"--result-file={into}/"]
    subprocess.run(
        [*command, *(part.file for part in parts)], check=True, env=os.environ | {"MYSQL_PWD": server.password}
    )
    assert all((into / part.file).stat().st_size == part.stop for part in parts)
    shutil.rmtree(into)


def _extracted(spark: SparkSession, source: Server, log: Log, lake: Path) -> None:
    extracted = extract(session_over(spark, 0), Lake(str(lake)), source, "earliest")
    assert extracted.bytes == log.bytes_from(log.first), f"{extracted.bytes} bytes in bronze"
    shutil.rmtree(lake)


def _at_once(parts: list[FilePart], do: Callable[[FilePart], int]) -> None:
    """As many parts at once as there are cores; Python holds its lock for little of it."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(do, parts))


def _slices_of_part(reading: DumpReading, part: FilePart) -> Iterator[object]:
    format_, chunks = reading(part)
    slicer = Slicer(part.file, part.start, format_)
    for chunk in chunks:
        yield from slicer.feed(chunk)
    yield from slicer.finish()


def _report(figures: Figures, total: int) -> None:
    best = {name: min(seconds) for name, seconds in figures.items()}
    if TOOL not in best:
        print("There is no mysqlbinlog here: name the folder of a MySQL server in STRATALOG_SERVERS (tests/README.md).")
    print("| 1 GB in ten files | best, s | MB/s | times mysqlbinlog's |\n| --- | --- | --- | --- |")
    for name in (TOOL, EXTRACTED, DUMPED, SLICED):
        if name in best:
            ratio = f"{best[name] / best[TOOL]:.2f}" if TOOL in best else "unknown"
            print(f"| {name} | {best[name]:.2f} | {total / best[name] / 1e6:.0f} | {ratio} |")
    if TOOL in best:
        reached = best[EXTRACTED] <= GOAL * best[TOOL]
        print(f"\nGoal: at most {GOAL} times; {'reached' if reached else 'missed'}.")
    print(
        f"Of {best[EXTRACTED]:.2f} s the dumps take {best[DUMPED]:.2f}, cutting slices "
        f"{best[SLICED] - best[DUMPED]:.2f}, and Spark, Parquet and the commit {best[EXTRACTED] - best[SLICED]:.2f}."
    )
