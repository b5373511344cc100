"""Who reads the logs, and what is measured: the time until every changed value was there.

Put here: one function a reader. Not here: the logs, or the table that is printed.
Ours verifies every checksum; the peer does not.
"""

import time
from pathlib import Path

import yaml
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from pyspark.sql import SparkSession

from benchmarks.logs import SCHEMA, Log
from spark_jobs.config.loader import load
from spark_jobs.demo.server import MySQLServer
from spark_jobs.pipeline.run import run_source


def peer(server: MySQLServer, log: Log) -> tuple[int, float]:
    """Changes and seconds for python-mysql-replication, with the last row of every key in a dict."""
    began, changes = time.perf_counter(), 0
    state: dict[tuple[str, object], object] = {}
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
    return changes, time.perf_counter() - began


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


def whole_path(spark: SparkSession, log: Log, folder: Path) -> tuple[int, float]:
    """Changes and seconds: the file through bronze, silver and downstream, in a session that is up already."""
    files = folder / f"{log.shape}-files"
    files.mkdir(parents=True)
    (files / log.path.name).write_bytes(log.path.read_bytes())
    path = folder / f"{log.shape}.yaml"
    document = {"lake": f"./{log.shape}-lake", "sources": {"log": {"files": str(files)}}, "tables": [f"{SCHEMA}.*"]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    pipeline = load(path)
    began = time.perf_counter()
    _, outcome = run_source(spark, pipeline, "log")
    seconds = time.perf_counter() - began
    assert not outcome.stopped, outcome.stopped
    return sum(table.changes for table in outcome.compacted), seconds
