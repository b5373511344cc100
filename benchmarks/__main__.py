"""``python -m benchmarks [PART]…``: writes logs on real servers, reads them, prints tables.

Figures of one run compare with each other and with nothing else: machines differ, and so do their hours.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import (
    cascades,
    catchup,
    cliffs,
    decoding,
    delivering,
    folding,
    freshness,
    growth,
    hot,
    iceberg,
    keys,
    load,
    operations,
    readers,
    replay,
    start,
    store,
    stream,
    tables,
    tpcc,
    verifying,
    week,
)
from benchmarks.logs import Log, write
from benchmarks.progress_lines import print_progress
from benchmarks.readers import Reading
from spark_jobs.config.model import Spark
from spark_jobs.demo.server import MySQLServer
from spark_jobs.runtime.spark_session import spark_session

Reader = Callable[[Log], Reading]
ROUNDS = 3
"""Of the whole path."""
PARTS = (
    "decode",
    "start",
    "whole",
    "catchup",
    "hot",
    "fold",
    "tables",
    "keys",
    "replay",
    "deliver",
    "operations",
    "growth",
    "iceberg",
    "stream",
    "load",
    "verify",
    "store",
    "cliffs",
    "follow",
    "tpcc",
    "week",
    "cascades",
)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    arguments.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="what to run (default: all)")
    arguments.add_argument("--logs", default="", help="decode only the logs whose name contains this")
    arguments.add_argument(
        "--rows", type=int, default=400_000, help="whole, cliffs: rows of the bulk log (default 400000)"
    )
    arguments.add_argument(
        "--transactions", type=int, default=60_000, help="whole, cliffs: of the OLTP log (default 60000)"
    )
    arguments.add_argument("--cases", default="", help="cliffs: parts of names of cases, by commas (default: all)")
    arguments.add_argument("--rounds", type=int, default=5, help="cliffs: that are measured (default 5)")
    arguments.add_argument("--megabytes", type=int, default=100, help="catchup: of each of ten files (default 100)")
    arguments.add_argument("--changes", type=int, default=1_000_000, help="hot: of one table (default 1000000)")
    arguments.add_argument("--folded", type=int, default=5_120_000, help="fold, replay: silver rows (default 5120000)")
    arguments.add_argument("--tables", type=int, default=100, help="tables, store: in the log (default 100)")
    arguments.add_argument(
        "--key-rows", default="1000000,10000000", help="keys: rows of each target (default 1000000,10000000)"
    )
    arguments.add_argument(
        "--delivered", type=int, default=1_000_000, help="deliver: changes a window (default 1000000)"
    )
    arguments.add_argument("--operations", type=int, default=1_000_000, help="operations: in the log (default 1000000)")
    arguments.add_argument("--files", type=int, default=10_000, help="growth, iceberg: at most (default 10000)")
    arguments.add_argument("--commits", type=int, default=1_000, help="growth: commits of bronze (default 1000)")
    arguments.add_argument("--gigabytes", type=int, default=2, help="stream: of log, in all (default 2)")
    arguments.add_argument(
        "--loaded", type=int, default=2_000_000, help="load, verify: rows of the table (default 2000000)"
    )
    arguments.add_argument(
        "--seconds", type=float, default=60.0, help="follow, tpcc: of load that is measured (default 60)"
    )
    arguments.add_argument("--interval", type=float, default=0.0, help="follow, tpcc: run --interval (default 0)")
    arguments.add_argument("--runs", type=int, default=2_000, help="week: runs of the follower (default 2000)")
    arguments.add_argument("--maintained", type=int, default=200, help="week: runs between maintenance (default 200)")
    arguments.add_argument("--warehouses", type=int, default=1, help="tpcc: warehouses, 1 to 10 (default 1)")
    arguments.add_argument(
        "--children", type=int, default=1_000_000, help="cascades: rows of the child table (default 1000000)"
    )
    options = arguments.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        arguments.error(f"{', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    folder = Path(tempfile.mkdtemp(prefix="stratalog-bench-"))
    try:
        for part in options.parts or PARTS:
            run(part, folder / part, options)
    finally:
        shutil.rmtree(folder)


def run(part: str, folder: Path, options: argparse.Namespace) -> None:
    """Measures one part, and prints its table."""

    def session() -> SparkSession:
        return spark_session(Spark(master="local[*]"))

    measures: dict[str, Callable[[], None]] = {
        "decode": lambda: decoding.compare(folder, options.logs),
        "start": lambda: start.measure(folder),
        "whole": lambda: whole_lake(folder, options.rows, options.transactions),
        "catchup": lambda: catchup.measure(folder, options.megabytes * 1_000_000),
        "hot": lambda: hot.measure(session(), folder, options.changes),
        "fold": lambda: folding.measure(session(), folder, options.folded),
        "tables": lambda: tables.measure(session(), folder, options.tables),
        "keys": lambda: keys.measure(folder, [int(rows) for rows in options.key_rows.split(",")]),
        "operations": lambda: operations.measure(session(), folder, options.operations),
        "iceberg": lambda: iceberg.measure(folder, options.files),
        "growth": lambda: growth.measure(session(), folder, options.files, options.commits),
        "stream": lambda: stream.measure(session(), folder, options.gigabytes, options.operations),
        "load": lambda: load.measure(session, folder, options.loaded),
        "verify": lambda: verifying.measure(session(), folder, options.loaded),
        "cliffs": lambda: cliffs.measure(
            session, folder, options.cases, options.rounds, (options.rows, options.transactions)
        ),
        "cascades": lambda: cascades.measure(session(), folder, options.children),
        "follow": lambda: freshness.measure(folder, options.seconds, options.interval),
        "tpcc": lambda: tpcc.measure(folder, options.warehouses, options.seconds, options.interval),
        "week": lambda: week.measure(folder, options.runs, options.maintained),
        "store": lambda: store.measure(folder, options.tables),
        "replay": lambda: replay.measure(session(), folder, options.folded),
        "deliver": lambda: delivering.measure(session(), folder, options.delivered),
    }
    folder.mkdir()
    measures[part]()


def whole_lake(folder: Path, count: int, transactions: int) -> None:
    """The whole path, from a file through every layer, against the peer with a dict."""
    with MySQLServer(folder / "server") as server:
        print_progress("writing the logs")
        measure(server, list(write(server, count, transactions)), folder)


def measure(server: MySQLServer, logs: list[Log], folder: Path) -> None:
    rows: list[str] = []
    print_progress("starting Spark")
    spark = spark_session(Spark(master="local[*]"))
    readers.whole_path(spark, logs[0], folder=folder / "warm")  # the first commits of a JVM take longest
    own_runs: list[Reading] = []
    for log in logs:
        print_progress(f"the whole path of the {log.shape} log")
        rounds = [read(partial(readers.whole_path, spark, folder=folder / f"{nth}"), log) for nth in range(ROUNDS)]
        own_runs.append(sorted(rounds, key=lambda reading: reading.usage.seconds)[ROUNDS // 2])
    spark.stop()
    # The peer's dict of millions of rows would be in the way of what is measured behind it.
    for log, own_run in zip(logs, own_runs, strict=True):
        print_progress(f"the peer with the {log.shape} log")
        rows += compared(log, own_run, read(partial(readers.peer, server), log))
    print(
        "| log | the whole path of | changes/s | MB/s | ratio | processor seconds a million changes "
        "| MiB of Python, JVM | bytes written a byte of log |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    print("\n".join(rows))


def compared(log: Log, own_run: Reading, peer_run: Reading) -> list[str]:
    """Two lines of the table: tables in a lake, the median of some rounds, and the peer's rows in a dict in memory."""
    ratio = peer_run.usage.seconds / own_run.usage.seconds
    return [
        line(log, f"stratalog: bronze, silver and downstream tables, median of {ROUNDS}", own_run, f"{ratio:.1f}"),
        line(log, "python-mysql-replication: the last row of each key, in a dict", peer_run, "1"),
    ]


def read(reader: Reader, log: Log) -> Reading:
    reading = reader(log)
    if reading.changes != log.changes:
        sys.exit(f"{log.shape}: {reading.changes} changes were read, {log.changes} were written")
    return reading


def line(log: Log, reader: str, reading: Reading, ratio: str) -> str:
    usage = reading.usage
    cells = [
        f"{log.shape}, {log.changes:,} changes",
        reader,
        f"{log.changes / usage.seconds:,.0f}",
        f"{log.size / usage.seconds / 1e6:.1f}",
        ratio,
        f"{usage.processor / log.changes * 1e6:.1f}",
        f"{usage.python:,}, {usage.jvm:,}",
        f"{reading.bytes_written / log.size:.2f}" if reading.bytes_written else "-",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
