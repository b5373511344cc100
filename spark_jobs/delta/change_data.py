"""Files of changes, in ``_change_data``: what rows a commit inserted, updated and deleted.

Put here: their layout, and the action that names one, as Delta's PROTOCOL.md has them (change data files). Not here:
which rows changed (engine/target/feed.py).

Where a commit has such files, readers of the feed read them alone; where it has none, files that it adds are inserts,
and files that it removes are deletes.
"""

import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import DeltaColumn, TableSchema
from spark_jobs.delta.snapshot import DataFile

FOLDER = "_change_data"
CHANGE_TYPE = "_change_type"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
"""The values of ``_change_type``."""


def write(table_path: str, rows: pa.Table, schema: TableSchema, configuration: Mapping[str, str]) -> DataFile:
    """Write changed rows as one file that no commit names yet, durably.

    Args:
        table_path: the table's folder.
        rows: at least one, with the table's columns by logical name and CHANGE_TYPE.
        schema: the table's.
        configuration: the table's.

    Raises LakeError.
    """
    extended = TableSchema((*schema.columns, DeltaColumn(CHANGE_TYPE, "string")))
    name = f"{FOLDER}/cdc-00000-{uuid.uuid4()}.c000.snappy.parquet"
    return data_files.write(table_path, rows, extended, configuration, name=name, stats_columns=())


def action_of(file: DataFile) -> dict[str, Any]:
    """The ``cdc`` action of a file."""
    return {
        "path": file.path,
        "partitionValues": file.partition_values,
        "size": file.size,
        "dataChange": False,
    }
