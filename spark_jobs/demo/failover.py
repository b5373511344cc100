"""The demo of a failover: a replica takes over its primary's address during a run, as in a Blue/Green switchover.

The replica has the same transactions in files of another name, at other offsets. A run continues there by GTID, in a
new stretch of the log; at the end each transaction is in bronze once, and every row is the server's.

Put here: two servers, the switchover, and the order of events. Not here: what is written (shop.py, writers.py), how a
source continues with another server (source/failover.py).
"""

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.folder import DemoFolder
from spark_jobs.demo.gtid_check import gtid_check
from spark_jobs.demo.live import TRAFFIC, compare_with_server, pipeline_of, ready_folder, start_spark
from spark_jobs.demo.progress import note, step
from spark_jobs.demo.report import DemoReport
from spark_jobs.demo.run_totals import RunTotals, run
from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.writers import Traffic, Writers, change, rotate
from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import lake_of
from spark_jobs.runtime.interrupt import interruptible
from spark_jobs.runtime.provision import MYSQL

_LATER = 10_000
"""The number of the first transaction at green: none is the same as one at blue."""
_TRIES = 10
_PAUSE = 2.0
"""Runs that are started again while nobody answers at the address, and the seconds between them."""
_CATCH_UP_SECONDS = 120
_GREEN: dict[str, object] = {
    "server_id": 2,
    "log_bin": "green-bin",
    "slave_parallel_type": "LOGICAL_CLOCK",
    "slave_parallel_workers": 4,
}
"""Files of another name, and transactions that are applied side by side: nothing of a position stays the same."""


@dataclass(frozen=True)
class ServerPair:
    """Blue, whose address the pipeline reads, and green, which has its transactions by GTID."""

    blue: MySQLServer
    green: MySQLServer

    def replicate(self) -> None:
        """Green follows blue from here on."""
        blue = self.blue
        self._execute_on_green(
            f"CHANGE MASTER TO MASTER_HOST='{blue.host}', MASTER_PORT={blue.port}, MASTER_USER='{blue.user}', "
            f"MASTER_PASSWORD='{blue.password}', MASTER_AUTO_POSITION=1, MASTER_SSL=1",
            "START SLAVE",
        )

    def await_green(self) -> None:
        """Return when green has what blue has. Raises SourceError where that takes too long."""
        waiting = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed(self.blue)}', {_CATCH_UP_SECONDS})"
        if self._execute_on_green(waiting) != 0:
            raise SourceError(f"the replica did not catch up within {_CATCH_UP_SECONDS} s; see {self.green.log}")

    def switch_over(self) -> None:
        """Blue is killed, and green answers at its address; green has to have what blue has."""
        self.blue.kill()
        self._execute_on_green("STOP SLAVE", "RESET SLAVE ALL")
        self.green.stop()
        self.green.port = self.blue.port
        self.green.start()

    def _execute_on_green(self, *statements: str) -> object:
        return _ask(self.green, *statements)


def executed(server: MySQLServer) -> str:
    """All transactions that a server has."""
    return str(_ask(server, "SELECT @@gtid_executed"))


def _ask(server: MySQLServer, *statements: str) -> object:
    """The first value that the last statement gives."""
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        row = cursor.fetchone()
        return row[0] if row else None


def run_failover(path: Path, rows: int) -> DemoReport:
    """Run the demo in a folder, which it empties first of what an earlier one left.

    Raises ConfigError for a folder that is not a demo's and for too few rows; SourceError, DecodeError, LakeError.
    """
    folder = ready_folder(path, rows)
    with folder.afresh():
        with _servers(folder) as pair:
            pipeline = pipeline_of(folder, pair.blue, moves=True)
            spark, loaded = start_spark(pipeline, pair.blue, rows)
            with interruptible():
                report = _report(spark, pipeline, pair, folder, loaded)
        with interruptible(), step("run 4: the log's last bytes, now from the replica's files"):
            run(spark, load(folder.config), report.totals)
        return report


@contextmanager
def _servers(folder: DemoFolder) -> Iterator[ServerPair]:
    """Both servers; of them nothing but green's log is left when the ``with`` block ends, in whatever way."""
    pair = ServerPair(MySQLServer(folder.server / "blue"), MySQLServer(folder.server / "green", _GREEN))
    pair.green.password = pair.blue.password  # the account moves with the address
    try:
        with pair.blue, pair.green:
            pair.replicate()
            yield pair
    finally:
        folder.keep_log(pair.green.data, "green-bin")
        shutil.rmtree(folder.server, ignore_errors=True)


def _report(spark: SparkSession, pipeline: Pipeline, pair: ServerPair, folder: DemoFolder, loaded: int) -> DemoReport:
    """Three runs and a switchover during the second one; then everything is compared with green."""
    totals = RunTotals()
    # The order of events of a switchover; after it nothing may be missing.
    _before(spark, pipeline, pair, totals)
    _switchover(spark, pipeline, pair, totals)
    _after(spark, pipeline, pair, totals)
    with step("comparing every row and every transaction with the replica's own"):
        compared = compare_with_server(spark, pipeline)
        log = gtid_check(spark, lake_of(pipeline), executed(pair.green))
    servers = f"A MySQL {MYSQL.artifact.version.partition('-')[0]} and its replica"
    return DemoReport(
        story=f"{servers}, {loaded:,} rows loaded; the replica took over its address during run 2.",
        reference="the replica's own rows",
        folder=folder,
        totals=totals,
        compared=compared,
        log=log,
        rates=False,
    )


def _before(spark: SparkSession, pipeline: Pipeline, pair: ServerPair, totals: RunTotals) -> None:
    """A run on blue while others write, and changes that it does not read any more."""
    with pair.blue.connect() as connection, pair.blue.connect() as traffic_connection:
        traffic = Traffic(traffic_connection)
        with step("run 1: the primary, while small transactions go on"), Writers(traffic):
            run(spark, pipeline, totals)
        with step("changes at the primary that run 1 did not read; the replica applies them"):
            change(connection)
            rotate(connection)
            traffic.write(TRAFFIC)
            pair.await_green()


def _switchover(spark: SparkSession, pipeline: Pipeline, pair: ServerPair, totals: RunTotals) -> None:
    """A run that begins as the address changes hands; what it cannot finish, the next one does."""
    # While nobody answers at the address, a run ends with a message; whoever started it starts it again.
    with ThreadPoolExecutor(1) as executor, step("run 2: the primary is killed, and the replica gets its address"):
        switching = executor.submit(pair.switch_over)
        for tries_left in reversed(range(_TRIES)):
            try:
                run(spark, pipeline, totals)
                break
            except SourceError as error:
                if not tries_left:
                    raise
                note(f"  a run ended, and is started again: {str(error).splitlines()[0]}")
                time.sleep(_PAUSE)
        switching.result()


def _after(spark: SparkSession, pipeline: Pipeline, pair: ServerPair, totals: RunTotals) -> None:
    """Changes at green, which has never been read before under this name."""
    with pair.green.connect() as connection:
        with step("changes at the replica, which is the primary now"):
            change(connection)
            rotate(connection)
            Traffic(connection, first=_LATER).write(TRAFFIC)
        with step("run 3: the replica's log"):
            run(spark, pipeline, totals)
