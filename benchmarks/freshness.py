"""``run --follow`` beside a server under load: seconds from COMMIT until a reader of ``published`` sees the row.

Transactions are committed at a fixed rate over ten tables, and a heartbeat twenty times a second into one more. A
reader asks ``published`` for the heartbeat's table every few milliseconds, and opens each version that is new to it.

Put here: the writer, the table of figures. Not here: heartbeats and the follower (heartbeats.py), how sources are
followed (operations/follow.py).
"""

import statistics
import threading
import time
from pathlib import Path

from benchmarks.heartbeats import beating, configured, followed, follower_processor, quantiles
from benchmarks.progress_lines import print_progress
from spark_jobs.demo.server import MySQLServer

TABLES = 10
RATE = 500
"""Transactions a second, each of which inserts a row and updates another."""
WARM, IDLE = 30.0, 30.0
"""Seconds of load that are not measured, and without load."""


def measure(folder: Path, seconds: float, interval: float) -> None:
    """Prints freshness under load, and the processor time of an idle follower."""
    with MySQLServer(folder / "server") as server:
        _create_shop(server)
        config = configured(folder, server, "shop.*")
        with followed(config, interval):
            _measured(server, config, seconds)


def _measured(server: MySQLServer, config: Path, seconds: float) -> None:
    stop, committed_count = threading.Event(), [0]
    writer = threading.Thread(target=_write_transactions, args=(server, stop, committed_count))
    with beating(server, "shop", config) as beats:
        writer.start()
        print_progress("waiting for the first rows")
        while not beats.visible:
            time.sleep(0.1)
        print_progress("under load")
        time.sleep(WARM)
        since, before, count = time.monotonic(), follower_processor(), committed_count[0]
        time.sleep(seconds)
        until = time.monotonic()
        processor, rate = (follower_processor() - before) / seconds, (committed_count[0] - count) / seconds
        stop.set()
        writer.join()
    # The server's own threads go on; of the follower's processes the time without news is counted.
    time.sleep(5)
    before = follower_processor()
    print_progress("idle")
    time.sleep(IDLE)
    idle = (follower_processor() - before) / IDLE
    ages = beats.ages(since, until)
    p50, p95, p99 = quantiles(ages)
    print(
        f"\n| {TABLES} tables, transactions a second | heartbeats | p50, s | p95, s | p99, s | most, s | cores | idle |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {rate:.0f} | {len(ages):,} | {p50:.2f} | {p95:.2f} | {p99:.2f} | {ages[-1]:.2f} | {processor:.2f} | "
        f"{idle * 100:.1f} % of a core |",
        flush=True,
    )
    print_progress(f"mean {statistics.mean(ages):.2f} s")


def _create_shop(server: MySQLServer) -> None:
    statements = ["CREATE DATABASE shop"]
    statements += [
        f"CREATE TABLE shop.t{at} (id INT PRIMARY KEY AUTO_INCREMENT, quantity INT, note VARCHAR(60))"
        for at in range(TABLES)
    ]
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _write_transactions(server: MySQLServer, stop: threading.Event, committed_count: list[int]) -> None:
    """Transactions at the rate, one after another; what was late is made up for."""
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        began = time.monotonic()
        while not stop.is_set():
            if committed_count[0] > (time.monotonic() - began) * RATE:
                time.sleep(0.002)
                continue
            table = f"shop.t{committed_count[0] % TABLES}"
            cursor.execute(f"INSERT INTO {table} (quantity, note) VALUES (1, 'a note of some sixty letters')")
            cursor.execute(f"UPDATE {table} SET quantity = quantity + 1 WHERE id = {max(1, cursor.lastrowid - 50)}")
            connection.commit()
            committed_count[0] += 1
