"""Readers of the logs, and what is measured: the time until every changed value was there.

Put here: one function a reader. Not here: the logs, or the table that is printed.
Ours verifies every checksum; the peer does not.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from pyspark.sql import SparkSession

from benchmarks.logs import SCHEMA, Log
from benchmarks.usage import Usage, metered
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer
from spark_jobs.pipeline.run import run_source


def peer(server: MySQLServer, log: Log) -> "Reading":
    """python-mysql-replication, with the last row of every key in a dict."""
    changes = 0
    state: dict[tuple[str, object], object] = {}
    with metered() as usage:
        stream = _stream(server, log)
        try:
            for event in stream:
                for row in event.rows:
                    changes += 1
                    values = row.get("values") or row["after_values"]
                    state[event.table, values["id"]] = None if isinstance(event, DeleteRowsEvent) else values
                if changes >= log.changes:
                    break
        finally:
            stream.close()
    return Reading(changes, usage)


def _stream(server: MySQLServer, log: Log) -> BinLogStreamReader:
    return BinLogStreamReader(
        connection_settings={"host": server.host, "port": server.port, "user": server.user, "passwd": server.password},
        server_id=4_000_000_000,
        log_file=log.path.name,
        log_pos=4,
        resume_stream=True,
        blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of a reader for a log. written: bytes of the lake that came of it; 0 where there is none."""

    changes: int
    usage: Usage
    bytes_written: int = 0


def whole_path(spark: SparkSession, log: Log, *, folder: Path) -> Reading:
    """The file through bronze, silver and downstream, in a session that is up already."""
    files = folder / f"{log.shape}-files"
    files.mkdir(parents=True)
    (files / log.path.name).write_bytes(log.path.read_bytes())
    path = folder / f"{log.shape}.yaml"
    document = {"lake": f"./{log.shape}-lake", "sources": {"log": {"files": str(files)}}, "tables": [f"{SCHEMA}.*"]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    pipeline = load(path)
    with metered() as usage:
        _, outcome = run_source(spark, pipeline, "log")
    assert not outcome.stopped, outcome.stopped
    bytes_written = sum(file.stat().st_size for file in (folder / f"{log.shape}-lake").rglob("*") if file.is_file())
    return Reading(sum(table.changes for table in outcome.compacted), usage, bytes_written)
