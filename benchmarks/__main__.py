"""``python -m benchmarks [PART]…``: writes logs on real servers, reads them, prints tables.

Figures of one run compare with each other and with nothing else: machines differ, and so do their hours.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import catchup, decoding, folding, hot, readers, start, tables
from benchmarks.logs import Log, write
from benchmarks.told import say
from spark_jobs.config.model import Spark
from spark_jobs.demo.server import MySQLServer
from spark_jobs.runtime.spark_session import spark_session

Reader = Callable[[Log], tuple[int, float]]
PARTS = ("decode", "start", "whole", "catchup", "hot", "fold", "tables")


def main() -> None:
    arguments = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    arguments.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="what to run (default: all)")
    arguments.add_argument("--logs", default="", help="decode only the logs whose name contains this")
    arguments.add_argument("--rows", type=int, default=400_000, help="whole: rows of the bulk log (default 400000)")
    arguments.add_argument("--transactions", type=int, default=60_000, help="whole: of the OLTP log (default 60000)")
    arguments.add_argument("--megabytes", type=int, default=100, help="catchup: of each of ten files (default 100)")
    arguments.add_argument("--changes", type=int, default=1_000_000, help="hot: of one table (default 1000000)")
    arguments.add_argument("--folded", type=int, default=5_120_000, help="fold: rows of silver (default 5120000)")
    arguments.add_argument("--tables", type=int, default=100, help="tables: in the log (default 100)")
    options = arguments.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        arguments.error(f"{', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    folder = Path(tempfile.mkdtemp(prefix="stratalog-bench-"))
    try:
        for part in options.parts or PARTS:
            if part == "decode":
                decoding.compare(folder, options.logs)
            elif part == "start":
                start.measure()
            elif part == "hot":
                hot.measure(spark_session(Spark(master="local[*]")), folder / "hot", options.changes)
            elif part == "fold":
                folding.measure(spark_session(Spark(master="local[*]")), folder / "fold", options.folded)
            elif part == "tables":
                tables.measure(spark_session(Spark(master="local[*]")), folder / "tables", options.tables)
            elif part == "catchup":
                catchup.measure(folder / "catchup", options.megabytes * 1_000_000)
            else:
                whole_lake(folder / "whole", options.rows, options.transactions)
    finally:
        shutil.rmtree(folder)


def whole_lake(folder: Path, count: int, transactions: int) -> None:
    """The whole path, from a file through every layer, against the peer with a dict."""
    with MySQLServer(folder / "server") as server:
        say("writing the logs")
        measure(server, list(write(server, count, transactions)), folder)


def measure(server: MySQLServer, logs: list[Log], folder: Path) -> None:
    rows: list[str] = []
    say("starting Spark")
    spark = spark_session(Spark(master="local[*]"))
    readers.whole_path(spark, logs[0], folder / "warm")  # the first commits of a JVM take longest
    for log in logs:
        say(f"the whole path of the {log.shape} log")
        rows += compared(log, lambda log: readers.whole_path(spark, log, folder / "measured"), server)
    spark.stop()
    print("| log | the whole path of | changes/s | MB/s | ratio |\n| --- | --- | --- | --- | --- |")
    print("\n".join(rows))


def compared(log: Log, reader: Reader, server: MySQLServer) -> list[str]:
    """Two lines of the table: tables in a lake, and the peer's rows in a dict in memory."""
    own_seconds, peer_seconds = run(reader, log), run(lambda log: readers.peer(server, log), log)
    return [
        line(log, "stratalog: bronze, silver and downstream tables", own_seconds, f"{peer_seconds / own_seconds:.1f}"),
        line(log, "python-mysql-replication: the last row of each key, in a dict", peer_seconds, "1"),
    ]


def run(reader: Reader, log: Log) -> float:
    changes, seconds = reader(log)
    if changes != log.changes:
        sys.exit(f"{log.shape}: {changes} changes were read, {log.changes} were written")
    return seconds


def line(log: Log, reader: str, seconds: float, ratio: str) -> str:
    name = f"{log.shape}, {log.changes:,} changes"
    return f"| {name} | {reader} | {log.changes / seconds:,.0f} | {log.size / seconds / 1e6:.1f} | {ratio} |"


if __name__ == "__main__":
    main()
