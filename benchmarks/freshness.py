"""``run --follow`` beside a server under load: seconds from COMMIT until a reader of ``published`` sees the row.

Transactions are committed at a fixed rate over ten tables, and a heartbeat twenty times a second into one more. A
reader asks ``published`` for the heartbeat's table every few milliseconds, and opens each version that is new to it.

Put here: the writers, the reader, the table of figures. Not here: how sources are followed (operations/follow.py).
"""

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from benchmarks.progress_lines import print_progress
from benchmarks.usage import processor_of
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.rows import rows_of

TABLES = 10
RATE = 500
"""Transactions a second, each of which inserts a row and updates another."""
BEAT = 0.05
WARM, IDLE = 30.0, 30.0
"""Seconds of load that are not measured, and without load."""
_LOOK = 0.005
_SOURCE = "shop"
_PASSWORD = "FRESHNESS_PASSWORD"


@dataclass
class Beats:
    """Times when each heartbeat was committed, and first seen, by its id; seconds by the monotonic clock."""

    committed: dict[int, float] = field(default_factory=dict)
    visible: dict[int, float] = field(default_factory=dict)

    def ages(self, since: float) -> list[float]:
        """Of those committed from then on and seen, the seconds in between, sorted."""
        return sorted(at - self.committed[id_] for id_, at in self.visible.items() if self.committed[id_] >= since)


def measure(folder: Path, seconds: float, interval: float) -> None:
    """Prints freshness under load, and the processor time of an idle follower."""
    with MySQLServer(folder / "server") as server:
        _create_shop(server)
        config = _configured(folder, server)
        os.environ[_PASSWORD] = server.password
        command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(config), "--follow"]
        with (folder / "output.txt").open("w") as output:
            follower = subprocess.Popen(
                [*command, "--interval", str(interval)], stdout=output, stderr=subprocess.STDOUT, text=True
            )
        try:
            _measured(server, config, seconds)
        finally:
            follower.send_signal(signal.SIGTERM)
            print_progress(f"the follower ended with exit status {follower.wait()}")


def _measured(server: MySQLServer, config: Path, seconds: float) -> None:
    beats, stop = Beats(), threading.Event()
    committed_count = [0]
    threads = [
        threading.Thread(target=_beat, args=(server, beats, stop)),
        threading.Thread(target=_note_heartbeats, args=(config, beats, stop)),
        threading.Thread(target=_write_transactions, args=(server, stop, committed_count)),
    ]
    for thread in threads:
        thread.start()
    print_progress("waiting for the first rows")
    while not beats.visible:
        time.sleep(0.1)
    print_progress("under load")
    time.sleep(WARM)
    since, before, count = time.monotonic(), _processor(), committed_count[0]
    time.sleep(seconds)
    processor, rate = (_processor() - before) / seconds, (committed_count[0] - count) / seconds
    stop.set()
    for thread in threads:
        thread.join()
    # The server's own threads go on; of the follower's processes the time without news is counted.
    time.sleep(5)
    before = _processor()
    print_progress("idle")
    time.sleep(IDLE)
    idle = (_processor() - before) / IDLE
    ages = beats.ages(since)
    p50, p95, p99 = (ages[min(len(ages) - 1, int(len(ages) * part))] for part in (0.5, 0.95, 0.99))
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


def _processor() -> float:
    """Processor seconds of the follower: this process's children but for the server, and the server's not."""
    return processor_of() - processor_of("mysqld") - time.process_time()


def _create_shop(server: MySQLServer) -> None:
    statements = ["CREATE DATABASE shop", "CREATE TABLE shop.heartbeat (id INT PRIMARY KEY)"]
    statements += [
        f"CREATE TABLE shop.t{at} (id INT PRIMARY KEY AUTO_INCREMENT, quantity INT, note VARCHAR(60))"
        for at in range(TABLES)
    ]
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _configured(folder: Path, server: MySQLServer) -> Path:
    login = {"host": server.host, "port": server.port, "user": server.user, "password": f"${{{_PASSWORD}}}"}
    path = folder / "pipeline.yaml"
    document = {"lake": "./lake", "sources": {_SOURCE: {"mysql": login}}, "tables": ["shop.*"]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


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


def _beat(server: MySQLServer, beats: Beats, stop: threading.Event) -> None:
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for id_ in range(1, 1 << 30):
            if stop.wait(BEAT):
                return
            cursor.execute(f"INSERT INTO shop.heartbeat VALUES ({id_})")
            beats.committed[id_] = time.monotonic()


def _note_heartbeats(config: Path, beats: Beats, stop: threading.Event) -> None:
    """Notes each heartbeat when a version that ``published`` names has it."""
    lake, last, newest = lake_of(load(config)), -1, 0
    while not stop.wait(_LOOK):
        entries = publication.read(lake, _SOURCE)
        versions = [entry.into[0].version for entry in entries if entry.table == "heartbeat" and entry.into]
        if not versions or versions[0] is None or versions[0] == last:
            continue
        last = versions[0]
        path = lake.downstream("shop", "heartbeat").path
        ids = [id_ for rows in rows_of(path, last, ["id"], None, rows=1 << 16) for id_ in rows.column(0).to_pylist()]
        now = time.monotonic()
        for id_ in range(newest + 1, max(ids, default=0) + 1):
            beats.visible[id_] = now
        newest = max(newest, *ids, 0)
