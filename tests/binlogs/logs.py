"""A source of described binlog files, a day apart, and a pipeline over it.

Put here: writing files, running, reading what came of it. Not here: what a test expects of it.
"""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.pipeline.run import run_source
from tests.binlogs.segment_spec import Change, SegmentSpec, Table
from tests.binlogs.segment_types import INT, VARCHAR
from tests.lakes.lake_tables import table_rows

SOURCE = "shop"
NAMES = ("orders", "lines", "later", "_orders_gho")
TABLES = [Table(f"shop.{name}", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40)) for name in NAMES]
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    """Time when the first transaction of a file of this number was committed."""
    return _BEGIN + timedelta(days=number)


def file(number: int) -> str:
    return f"mysql-bin.{number:06d}"


@dataclass(frozen=True)
class Logs:
    """Binlog files and a lake in one folder."""

    spark: SparkSession
    folder: Path

    @property
    def binlogs(self) -> Path:
        return self.folder / "binlogs"

    def write(self, number: int, *changes: Change) -> Path:
        """One closed file of the log."""
        self.binlogs.mkdir(exist_ok=True)
        spec = SegmentSpec(TABLES, changes, rotate_to=file(number + 1), first_number=number * 100)
        spec.second = int(day(number).timestamp())
        path = self.binlogs / file(number)
        path.write_bytes(spec.to_bytes())
        return path

    def copied(self, folder: Path) -> "Logs":
        """Files and lake in another folder, where a run has told the lake that it is there now."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        copy = Logs(self.spark, folder)
        copy.run()
        return copy

    def pipeline(self, **keys: Any) -> Pipeline:
        document = {"lake": "./lake", "sources": {SOURCE: {"files": "./binlogs"}}, "tables": ["shop.*"]} | keys
        path = self.folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return load(path)

    @property
    def lake(self) -> Lake:
        return lake_of(self.pipeline())

    def run(self, pipeline: Pipeline | None = None) -> Outcome:
        return run_source(self.spark, pipeline or self.pipeline(), SOURCE)[1]

    def bronze(self) -> Head:
        head = self.lake.bronze(SOURCE).head()
        assert head is not None
        return head

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The downstream rows without the added columns, sorted."""
        return sorted((row["id"], row["note"]) for row in table_rows(self.lake.downstream("shop", table)))
