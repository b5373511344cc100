"""``python -m benchmarks``: writes logs on a real server, reads them with everybody, prints the ratios.

Figures of one run compare with each other and with nothing else: machines differ, and so do their hours.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import readers
from benchmarks.logs import Log, write
from spark_jobs.config import Spark
from spark_jobs.demo.server import MySQLServer
from spark_jobs.session import spark_session

Reader = Callable[[Log], tuple[int, float]]


def main() -> None:
    arguments = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    arguments.add_argument("--rows", type=int, default=200_000, help="rows of the bulk log (default 200000)")
    arguments.add_argument("--transactions", type=int, default=20_000, help="of the OLTP log (default 20000)")
    chosen = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stratalog-bench-"))
    try:
        with MySQLServer(folder / "server") as server:
            say("writing the logs")
            logs = list(write(server, chosen.rows, chosen.transactions))
            measure(server, logs, folder)
    finally:
        shutil.rmtree(folder)


def measure(server: MySQLServer, logs: list[Log], folder: Path) -> None:
    rows: list[str] = []
    for log in logs:
        say(f"decoding the {log.shape} log, one core")
        with one_core():
            rows += compared(log, "decode", readers.decode, lambda log: readers.peer(server, log, fold=False))
    say("starting Spark")
    spark = spark_session(Spark(master="local[*]"))
    readers.whole_path(
        spark, logs[0], folder / "warm"
    )  # the first MERGE of a JVM takes several times the second's time
    for log in logs:
        say(f"the whole path of the {log.shape} log")
        ours: Reader = lambda log: readers.whole_path(spark, log, folder / "measured")  # noqa: E731
        rows += compared(log, "whole path", ours, lambda log: readers.peer(server, log, fold=True), times=1)
    spark.stop()
    print("| log | what | reader | changes/s | MB/s | ratio |\n| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


def compared(log: Log, what: str, ours: Reader, peers: Reader, times: int = 3) -> list[str]:
    """Two lines of the table: the best of some runs of ours, and one of the peer's."""
    mine = min((run(ours, log) for _ in range(times)), default=0.0)
    theirs = run(peers, log)
    return [
        line(log, what, "stratalog", mine, f"{theirs / mine:.1f}"),
        line(log, what, "python-mysql-replication", theirs, "1"),
    ]


def run(reader: Reader, log: Log) -> float:
    changes, seconds = reader(log)
    if changes != log.changes:
        sys.exit(f"{log.shape}: {changes} changes were read, {log.changes} were written")
    return seconds


def line(log: Log, what: str, reader: str, seconds: float, ratio: str) -> str:
    return (
        f"| {log.shape} | {what} | {reader} | {log.changes / seconds:,.0f} | {log.size / seconds / 1e6:.1f} | {ratio} |"
    )


class one_core:  # noqa: N801 - reads as a statement
    """Pins this process to one core for a while."""

    def __enter__(self) -> None:
        self.before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(self.before)})

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self.before)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
