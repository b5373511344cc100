"""A pipeline over the run's server. Put here: the fixture, and comparing tables. Not here: what a test does with it."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, Row, SparkSession

from spark_jobs.bronze.extract import Extracted
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import merge_job
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import run_source
from tests.fix_mysql import Database
from tests.lakes.lake_tables import source_cells, table_rows

SOURCE = "shop"


@dataclass(frozen=True, slots=True)
class Shop:
    """A database of the server and a pipeline from it; the source begins where the log ended when the test began."""

    spark: SparkSession
    database: Database
    folder: Path
    start: Position

    def pipeline(self, *, live: bool = False, **keys: Any) -> Pipeline:
        """The test's configuration, read from a real file; ``live`` reads the server, otherwise its binlog files."""
        server = self.database.server
        login = {"host": server.host, "port": server.port, "user": server.user, "password": "${SHOP_PASSWORD}"}
        origin = {"mysql": login} if live else {"files": str(server.data)}
        document = {
            "lake": str(self.folder / "lake"),
            "sources": {SOURCE: origin | {"start": str(self.start)}},
            "tables": [f"{self.database.name}.*"],
        } | keys
        path = self.folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return load(path, {**os.environ, "SHOP_PASSWORD": server.password})

    def run(self, pipeline: Pipeline) -> tuple[Extracted, Outcome]:
        return run_source(self.spark, pipeline, SOURCE)

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.database.execute(statement)

    def truth(self, table: str) -> list[tuple[Any, ...]]:
        """The server's own rows, sorted."""
        return sorted(self.database.execute(f"SELECT * FROM `{table}`"))

    def merged(self, pipeline: Pipeline, table: str) -> list[tuple[Any, ...]]:
        """The downstream rows without the added columns, sorted."""
        return rows(lake_of(pipeline).downstream(self.database.name, table))

    def silver(self, pipeline: Pipeline, table: str) -> list[Row]:
        """The rows of silver, with all columns, in no order."""
        return table_rows(lake_of(pipeline).silver(SOURCE, self.database.name, table))

    def end(self) -> Position:
        """Position where the server's log ends now; MySQL 8.4 renamed the statement."""
        version = self.database.execute("SELECT VERSION()")[0][0]
        is_renamed = "MariaDB" not in version and int(version.partition(".")[0]) > 8
        file, offset = self.database.execute(f"SHOW {'BINARY LOG' if is_renamed else 'MASTER'} STATUS")[0][:2]
        return Position(file, offset)


def rows(source: Table | DataFrame) -> list[tuple[Any, ...]]:
    """Rows without the columns that the project adds, sorted; of a table without a JVM."""
    if isinstance(source, Table):
        return sorted(map(source_cells, table_rows(source)))
    names = [name for name in source.columns if not name.startswith("_")]
    return sorted(tuple(row) for row in source.select(*(f"`{name}`" for name in names)).collect())


_AS_IN_THE_LAKE = {"time": "CAST(`{}` AS CHAR)", "bit": "`{}` + 0", "set": "CAST(`{}` AS CHAR)"}
"""How columns are asked for whose Python values are others than those of the lake."""


def require_same(shop: Shop, pipeline: Pipeline, table: str) -> int:
    """Columns, in order, and rows of a downstream table are the server's; how many rows that are."""
    target = lake_of(pipeline).downstream(shop.database.name, table)
    if target.head() is None:
        assert shop.truth(table) == [], "a table without any row is not there yet"
        return 0
    columns = target.columns()
    listed = shop.database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
        "ORDER BY ordinal_position",
        (shop.database.name, table),
    )
    names = [name for name in columns if name not in merge_job.ADDED]
    assert names == [name for name, _ in listed]
    expressions = ", ".join(_AS_IN_THE_LAKE.get(kind, "`{}`").format(name) for name, kind in listed)
    truth = shop.database.execute(f"SELECT {expressions} FROM `{table}`")
    all_lake_rows = []
    for row in table_rows(target):
        cells = [row[name] for name in names]
        texts = [(row["_raw"] or {}).get(name) for name in names]
        all_lake_rows.append(tuple(text if cell is None else cell for cell, text in zip(cells, texts, strict=True)))
    assert sorted(map(repr, map(_comparable_row, all_lake_rows))) == sorted(map(repr, map(_comparable_row, truth)))
    return len(all_lake_rows)


def killed_at(config: Path, layer: str, moment: str, *verb: str) -> bool:
    """True if a run in a process of its own died (pipeline/killed.py) at its next commit there; False at its end."""
    script = Path(__file__).parent / "pipeline" / "killed.py"
    command = [sys.executable, str(script), str(config), layer, moment, *verb]
    environment = os.environ | {"PYTHONPATH": "."}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


def _comparable_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with bytes as bytes, and whole numbers as integers: BIGINT UNSIGNED is a decimal in the lake."""
    cells = (bytes(cell) if isinstance(cell, bytearray) else cell for cell in row)
    return tuple(int(cell) if isinstance(cell, Decimal) and cell == int(cell) else cell for cell in cells)


@pytest.fixture
def shop(spark: SparkSession, database: Database, tmp_path: Path) -> Shop:
    """A fresh schema, and a pipeline whose source begins at the log's present end. For tests marked spark and mysql."""
    file, offset = database.execute("SHOW MASTER STATUS")[0][:2]
    return Shop(spark, database, tmp_path, Position(file, offset))
