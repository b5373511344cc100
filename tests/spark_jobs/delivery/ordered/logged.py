"""A lake of one described binlog file, written without Spark, as a delivery in order reads it.

Put here: bronze, silver's commits and a range of the log. Not here: what a test expects of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import deltalake
import pyarrow as pa
from deltalake import CommitProperties, Transaction

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination
from spark_jobs.delivery.lake_table import LakeTable
from spark_jobs.delivery.ordered.log_tables import Logged, OrderedTable
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from tests.binlogs.segment_spec import Change, SegmentSpec
from tests.binlogs.slicing import FILE, LINES, ORDERS, bronze_rows

SOURCE = "shop"
NAMES = (TableName("shop", "orders"), TableName("shop", "lines"))


def at(offset: int) -> Position:
    return Position(FILE, offset)


def write(table: Table, rows: pa.Table, commit: Checkpoint, version: int = 1) -> None:
    """A commit of ours. version: the number of the write, from 1 on."""
    properties = CommitProperties(
        custom_metadata={"userMetadata": commit.to_json()}, app_transactions=[Transaction("stratalog", version)]
    )
    deltalake.write_deltalake(table.path, rows, mode="append", commit_properties=properties)


@dataclass(frozen=True)
class LoggedLake:
    """A lake whose bronze is one file, up to ``end``."""

    pipeline: Pipeline
    end: Position

    @classmethod
    def of(cls, folder: Path, changes: Sequence[Change], target: int = 1 << 20) -> "LoggedLake":
        """target: bytes of a slice, about."""
        keys = {"lake": "./lake", "sources": {SOURCE: {"files": "./binlogs"}}, "tables": ["shop.*"]}
        pipeline = from_keys(keys, folder / "pipeline.yaml")
        content = SegmentSpec(tables=[ORDERS, LINES], changes=changes).to_bytes()
        end = at(len(content))
        commit = BronzeCommit(end, "b", begin=at(4))
        write(lake_of(pipeline).bronze(SOURCE), bronze_rows(FILE, content, target=target), commit)
        return cls(pipeline, end)

    @property
    def lake(self) -> Lake:
        return lake_of(self.pipeline)

    def into(self, name: TableName, *, is_shared: bool = False) -> LakeTable:
        destination = Destination(name.schema, name.table, is_merged=is_shared, is_shared=is_shared)
        return LakeTable(
            name.schema,
            name.table,
            self.lake.downstream(name.schema, name.table),
            0,
            ((SOURCE, name),),
            destination,
        )

    def logged(self, start: int = 4, *, since: int = 4) -> Logged:
        """Both tables from a position of the log on. since: up to where the target has the second."""
        positions = (at(start), at(max(start, since)))
        tables = [
            OrderedTable(name, self.into(name), at_position, self.end)
            for name, at_position in zip(NAMES, positions, strict=True)
        ]
        return Logged.of(self.pipeline, self.lake, SOURCE, Range(at(start), self.end), tables)
