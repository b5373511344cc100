"""Freshness by heartbeats: seconds from a row's COMMIT until a reader of ``published`` has opened a version with it.

Put here: writing heartbeats, noting when each is seen, and the follower beside which that is done. Not here: the load
(freshness.py, tpcc.py).
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc
import yaml

from benchmarks.progress_lines import print_progress
from benchmarks.usage import processor_of
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer
from spark_jobs.downstream import publication
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.rows import rows_of

SOURCE = "shop"
TABLE = "heartbeat"
_BEAT, _LOOK = 0.05, 0.005
"""Seconds between two heartbeats, and between two looks at ``published``."""
_LAST = 60.0
"""Seconds that the last heartbeats have until they are seen."""
_PASSWORD = "FRESHNESS_PASSWORD"


@dataclass
class Beats:
    """Times when each heartbeat was committed, and first seen, by its id; seconds by the monotonic clock."""

    committed: dict[int, float] = field(default_factory=dict)
    visible: dict[int, float] = field(default_factory=dict)

    def ages(self, since: float, until: float = float("inf")) -> list[float]:
        """Of those committed in between and seen, the seconds until then, sorted."""
        chosen = [(at, self.committed[id_]) for id_, at in self.visible.items()]
        return sorted(at - committed for at, committed in chosen if since <= committed < until)


def quantiles(ages: list[float]) -> tuple[float, float, float]:
    """p50, p95 and p99 of sorted seconds."""
    p50, p95, p99 = (ages[min(len(ages) - 1, int(len(ages) * part))] for part in (0.5, 0.95, 0.99))
    return p50, p95, p99


def configured(folder: Path, server: MySQLServer, tables: str) -> Path:
    """A configuration with the server as its only source; its password is in the environment from here on."""
    os.environ[_PASSWORD] = server.password
    login = {"host": server.host, "port": server.port, "user": server.user, "password": f"${{{_PASSWORD}}}"}
    path = folder / "pipeline.yaml"
    document = {"lake": "./lake", "sources": {SOURCE: {"mysql": login}}, "tables": [tables]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@contextmanager
def followed(config: Path, interval: float) -> Iterator[None]:
    """``run --follow`` in a process of its own while the context lasts; its output lies beside the configuration."""
    command = [sys.executable, "-m", "spark_jobs.cli", "run", "-c", str(config), "--follow"]
    with config.with_name("output.txt").open("w") as output:
        follower = subprocess.Popen(
            [*command, "--interval", str(interval)], stdout=output, stderr=subprocess.STDOUT, text=True
        )
    try:
        yield
    finally:
        follower.send_signal(signal.SIGTERM)
        print_progress(f"the follower ended with exit status {follower.wait()}")


def follower_processor(*programs: str) -> float:
    """Processor seconds of the follower: this process's children but for the server and other programs."""
    return processor_of() - sum(map(processor_of, ("mysqld", *programs))) - time.process_time()


@contextmanager
def beating(server: MySQLServer, schema: str, config: Path) -> Iterator[Beats]:
    """Heartbeats into a table of their own, and a reader that notes each, while the context lasts."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {schema}.{TABLE} (id INT PRIMARY KEY)")
    beats, stop, ended = Beats(), threading.Event(), threading.Event()
    writer = threading.Thread(target=_beat, args=(server, schema, beats, stop))
    reader = threading.Thread(target=_note_heartbeats, args=(config, schema, beats, stop, ended))
    for thread in (writer, reader):
        thread.start()
    try:
        yield beats
    finally:
        stop.set()
        writer.join()
        ended.wait(_LAST)  # the last heartbeats are seen too
        reader.join()


def _beat(server: MySQLServer, schema: str, beats: Beats, stop: threading.Event) -> None:
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for id_ in range(1, 1 << 30):
            if stop.wait(_BEAT):
                return
            cursor.execute(f"INSERT INTO {schema}.{TABLE} VALUES ({id_})")
            beats.committed[id_] = time.monotonic()


def published_versions(config: Path) -> Mapping[str, int]:
    """By table the version that ``published`` names, all of one commit of it."""
    entries = publication.read(lake_of(load(config)), SOURCE)
    return {entry.table: entry.into[0].version for entry in entries if entry.into and entry.into[0].version is not None}


def _note_heartbeats(config: Path, schema: str, beats: Beats, stop: threading.Event, ended: threading.Event) -> None:
    """Notes each heartbeat when a version that ``published`` names has it, until the last one.

    A look is whether the log of ``published`` has one more file; what it says is read then.
    """
    lake, last, newest, looked = lake_of(load(config)), -1, 0, 0
    log = Path(lake.published().path, "_delta_log")
    deadline = float("inf")
    while time.monotonic() < deadline and not (stop.is_set() and newest >= max(beats.committed, default=0)):
        if stop.is_set() and deadline == float("inf"):
            deadline = time.monotonic() + _LAST
        time.sleep(_LOOK)
        if not (log / f"{looked:020}.json").exists():
            continue
        looked += 1
        version = published_versions(config).get(TABLE)
        if version is None or version == last:
            continue
        last = version
        path = lake.downstream(schema, TABLE).path
        ids = [
            id_
            for rows in rows_of(path, last, ["id"], pc.field("id") > newest, rows=1 << 16)
            for id_ in rows.column(0).to_pylist()
        ]
        now = time.monotonic()
        for id_ in range(newest + 1, max(ids, default=0) + 1):
            beats.visible[id_] = now
        newest = max(newest, *ids, 0)
    ended.set()
