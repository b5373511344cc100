"""Recorder of the binlogs that ``stratalog demo --files`` reads: ``python -m spark_jobs.demo.record``.

Needs the embedded MySQL server. Run it after a change of shop.py or writers.py, and commit what it wrote. Two
recordings differ in the server's UUID, in times and in nothing else.

Put here: what is recorded. Not here: what is written to the server (shop.py, writers.py).
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spark_jobs.config.table_patterns import Scope
from spark_jobs.demo.recorded import KEY, LOGS
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.server_rows import TEXT_CONNECTION, selection, server_rows, tables
from spark_jobs.demo.shop import SCHEMA, TABLES, create, fill
from spark_jobs.demo.writers import Traffic, change, rotate

_ROWS = 1_500
_TRANSACTIONS = 150


def record(into: Path) -> None:
    """Write binlog files and expected rows into a folder, in place of what is there.

    Files: what was loaded; changes, with small transactions around them; more of them; and after the moment of which
    the expected rows are, a few small transactions.
    """
    shutil.rmtree(into, ignore_errors=True)
    (into / "expected").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        with MySQLServer(Path(scratch)) as server, server.connect() as connection:
            _write_demo_rows(connection)
            rotate(connection)
            _keep_rows(server, into / "expected")
            Traffic(connection, first=10_000).write(_TRANSACTIONS)
        for file in sorted(server.data.glob("mysql-bin.[0-9]*")):
            shutil.copyfile(file, into / file.name)  # not its mode: a server lets nobody else read


def _write_demo_rows(connection: Any) -> None:
    traffic = Traffic(connection)
    create(connection)
    fill(connection, _ROWS)
    rotate(connection)
    traffic.write(_TRANSACTIONS)
    change(connection)
    rotate(connection)
    change(connection)
    traffic.write(_TRANSACTIONS)


def _keep_rows(server: MySQLServer, into: Path) -> None:
    scope = Scope.parse(TABLES)
    with server.connect(**TEXT_CONNECTION) as connection:
        for table in tables(connection, SCHEMA):
            if scope.holds(SCHEMA, table):
                query = selection(connection, SCHEMA, table)
                rows = server_rows(connection, query).replace_schema_metadata({KEY: json.dumps(query.key)})
                pq.write_table(rows, into / f"{table}.parquet", compression="zstd")


if __name__ == "__main__":
    record(Path(sys.argv[1]) if sys.argv[1:] else LOGS)
