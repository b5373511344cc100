"""Where a table's rows wait during a load: a table of the lake beside silver, and how far the load is.

Put here: its columns and its commits. Not here: what a commit says (commit.py), reading rows (reading.py), or moving
them to silver (landing.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.errors import TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.lake.table import Table
from spark_jobs.pipeline.initial_load.commit import LoadCommit
from spark_jobs.silver import table as silver
from spark_jobs.text import sql


@dataclass(slots=True)
class StagedTable:
    """Where a table's rows wait, at a head, and how far its load is."""

    spark: SparkSession
    name: TableName
    table: Table
    head: Head
    progress: LoadCommit
    types: dict[str, str]
    """Names and Spark types of the columns that the rows wait with."""

    def append(self, rows: DataFrame, progress: LoadCommit) -> None:
        """Raises LostRace where another load of the table came first."""
        self.head = self.table.append(rows, self.head, progress.next())
        self.progress = progress

    def append_files(self, upon: Snapshot, files: Sequence[DataFile], progress: LoadCommit) -> None:
        """The same of files that tasks wrote. Raises LostRace."""
        self.head = self.table.append_files(upon, files, self.head, progress.next())
        self.progress = progress

    def overwrite(self) -> None:
        """Begins, with the columns that the table has now and no row of an earlier load."""
        self.head = self.table.overwrite(self._no_rows(), self.head, self.progress.next())

    def note(self, progress: LoadCommit) -> None:
        self.append(self._no_rows(), progress)

    def empty(self, progress: LoadCommit) -> None:
        """Removes the rows."""
        self.head = self.table.replace(self._no_rows(), "true", self.head, progress.next())
        self.progress = progress

    def given_up(self, reason: str) -> TableStopped:
        """Ends the load: its rows go, and nothing of it was seen anywhere."""
        self.empty(self.progress.stopped(reason))
        return TableStopped(reason)

    def _no_rows(self) -> DataFrame:
        return self.spark.createDataFrame([], sql.columns(self.types))


def columns_of(definition: TableDefinition) -> dict[str, str]:
    """Names and Spark types of rows as they are read: the source's columns, and the exact texts."""
    return silver.columns(definition).types | {"_raw": silver.ADDED["_raw"]}
