"""A lake that commit 212e5c2 wrote is read and continued: by runs, backfills, verification, gc and maintenance.

How it was recorded: tests/lakes/lake_recording.py.
"""

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import verify_source
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import run_source
from tests.lakes.lake_recording import RECORDING, SALT
from tests.lakes.lake_tables import table_rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.thorough]

MASKED = TableName("shop", "customers")
STOPPED = TableName("shop", "logged_by_statement")
SOURCE = "shop"


@dataclass(frozen=True)
class RecordedLake:
    """The recording: a lake, the log that it has read, and the log that follows."""

    spark: SparkSession
    folder: Path

    def pipeline(self) -> Pipeline:
        return load(self.folder / "pipeline.yaml", {"SALT": SALT})

    def with_following_log(self) -> Outcome:
        """Reads the following log into the lake."""
        name = "mysql-bin.000003"
        (self.folder / "later" / name).rename(self.folder / "binlogs" / name)
        _, outcome = run_source(self.spark, self.pipeline(), SOURCE)
        return outcome

    def from_server(self, server: MySQLServer) -> Pipeline:
        """The same pipeline, of a source that is a server now."""
        path = self.folder / "pipeline.yaml"
        keys = yaml.safe_load(path.read_text(encoding="utf-8"))
        login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        keys["sources"] = {SOURCE: {"mysql": login, "on_new_server": "continue"}}
        path.write_text(yaml.safe_dump(keys), encoding="utf-8")
        return self.pipeline()

    def server_rows(self) -> dict[str, dict[str, list[str]]]:
        """By table, its CREATE TABLE, columns and rows as they were on the server at the log's end."""
        tables: dict[str, dict[str, list[str]]] = json.loads((self.folder / "rows.json").read_text(encoding="utf-8"))
        return tables

    def downstream(self) -> dict[str, list[str]]:
        """Every row of every downstream table as text, sorted, by table."""
        lake = lake_of(self.pipeline())
        names = sorted(path.name for path in (self.folder / "lake" / "downstream" / "shop").iterdir())
        return {name: sorted(map(str, table_rows(lake.downstream("shop", name)))) for name in names}


@pytest.fixture
def recorded(spark: SparkSession, tmp_path: Path) -> RecordedLake:
    with tarfile.open(RECORDING) as archive:
        archive.extractall(tmp_path, filter="data")
    return RecordedLake(spark, tmp_path)


@pytest.fixture
def server(recorded: RecordedLake, tmp_path: Path) -> Iterator[MySQLServer]:
    """A server that has the rows with which the recorded log ends, and nothing of them in its own log."""
    with MySQLServer(tmp_path / "server") as server, server.connect() as connection, connection.cursor() as cursor:
        for statement in ("SET sql_log_bin = 0", "SET SESSION sql_mode = ''", "CREATE DATABASE shop", "USE shop"):
            cursor.execute(statement)
        for name, table in recorded.server_rows().items():
            cursor.execute(str(table["create"]))
            folders = ", ".join(["%s"] * len(table["columns"]))
            cursor.executemany(f"INSERT INTO {name} VALUES ({folders})", table["rows"])
        yield server


def test_a_run_continues_it_and_every_row_is_the_servers(recorded: RecordedLake, server: MySQLServer) -> None:
    assert set(recorded.with_following_log().stopped) == {STOPPED}
    pipeline = recorded.from_server(server)
    verdicts = list(verify_source(recorded.spark, pipeline, SOURCE, lambda table: table != STOPPED))
    assert [(verdict.table, verdict.state) for verdict in verdicts if not verdict.is_right] == [
        (MASKED, "not compared")
    ]
    assert {verdict.table.table for verdict in verdicts} >= recorded.server_rows().keys() - {STOPPED.table}


def test_backfill_gc_and_maintenance_leave_its_rows_as_they_are(recorded: RecordedLake) -> None:
    recorded.with_following_log()
    pipeline, before = recorded.pipeline(), recorded.downstream()
    log_range = Range(Position("mysql-bin.000001", 4), Position("mysql-bin.000003", 4))
    outcome = backfill_source(recorded.spark, pipeline, SOURCE, log_range, lambda table: table != STOPPED)
    assert outcome.stopped == {}
    gc_source(recorded.spark, pipeline, SOURCE)
    assert maintain_source(recorded.spark, pipeline, SOURCE).stopped == {}
    assert recorded.downstream() == before
    assert [name for name, rows in before.items() if not rows] == []
    assert len(before) == 8
