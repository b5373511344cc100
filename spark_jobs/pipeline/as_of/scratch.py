"""Scratch lake in a temporary folder, into which tables are compacted and merged up to a position.

Put here: which tables are the folder's own, and which are those of the lake. Not here: what a copy has
(delta/version_copy.py), or the work on it (replayed.py).
"""

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from spark_jobs.binlog import TableName
from spark_jobs.delta import commits, data_files
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.delta.version_copy import copy_version
from spark_jobs.errors import about
from spark_jobs.lake.commit import APPLICATION
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table

_SILVER = "silver"
_DOWNSTREAM = "downstream"


class ScratchLake(Lake):
    """Silver and downstream of some tables of a source in a folder; all else is the lake's, and only read."""

    def __init__(self, lake: Lake, folder: Path, names: Collection[TableName]) -> None:
        super().__init__(lake.root, plain=lake.plain)
        self._folder = folder
        self._positions = {name: f"{number}" for number, name in enumerate(names)}

    def silver(self, source: str, schema: str, table: str) -> Table:
        name = TableName(schema, table)
        return self._table_of(_SILVER, name) if name in self._positions else super().silver(source, schema, table)

    def merged(self, name: TableName) -> Table:
        """The current rows of a source table, wherever its routes lead downstream."""
        return self._table_of(_DOWNSTREAM, name)

    def copy_silver(self, name: TableName, version: Snapshot) -> None:
        """Create silver of a table with a version as its beginning. Raises LakeError."""
        self._copy(_SILVER, name, version)

    def copy_merged(self, name: TableName, version: Snapshot) -> None:
        """Create the current rows of a table with a version as their beginning. Raises LakeError."""
        self._copy(_DOWNSTREAM, name, version)

    def put_merged(self, name: TableName, version: Snapshot, rows: pa.Table) -> None:
        """Create the current rows of a table with some rows of a version as their beginning. Raises LakeError."""
        path = self._path(_DOWNSTREAM, name)
        path.mkdir(parents=True)
        design = Snapshot(str(path), -1, version.protocol, version.metadata)
        files = [data_files.write(str(path), rows, version.schema, version.configuration)] if len(rows) else []
        transaction = (APPLICATION, version.transactions.get(APPLICATION, 0))
        commits.commit(design, adds=files, transaction=transaction, user_metadata=version.user_metadata)

    def _table_of(self, layer: str, name: TableName) -> Table:
        return Table(str(self._path(layer, name)), self.plain)

    def _copy(self, layer: str, name: TableName, version: Snapshot) -> None:
        with about(str(name)):
            copy_version(version, self._path(layer, name))

    def _path(self, layer: str, name: TableName) -> Path:
        return self._folder / layer / self._positions[name]
