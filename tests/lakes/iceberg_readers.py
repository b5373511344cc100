"""Tables read as Iceberg tables by other programs, and as Delta tables by the project's own reader.

Put here: rows in one form, to be compared. Not here: what is compared.
"""

import math
import site
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.iceberg import metadata_files
from spark_jobs.iceberg.table_view import FIRST_ID

Rows = list[dict[str, Any]]


def newest_metadata(path: str) -> str:
    """The location of a table's newest metadata."""
    present = metadata_files.newest(path)
    assert present is not None
    return f"{metadata_files.location(path)}/metadata/{metadata_files.file_name(present.number)}"


def by_delta(path: str, version: int | None = None) -> Rows:
    """The rows of a version."""
    snapshot = snapshot_of(path, version)
    assert snapshot is not None
    parts = [snapshot.schema.arrow(physical=False).empty_table()]
    for file in snapshot.files:
        rows = data_files.read_columns(path, file, snapshot.schema.names, snapshot.schema)
        parts.append(
            rows.filter(pa.array(deletion_vectors.living_rows_mask(path, file.deletion_vector, rows.num_rows)))
        )
    return in_order(pa.concat_tables(parts))


def by_pyiceberg(path: str, version: int | None = None, condition: str | None = None) -> Rows:
    table = StaticTable.from_metadata(newest_metadata(path))
    snapshot_id = None if version is None else FIRST_ID + version
    return in_order(table.scan(AlwaysTrue() if condition is None else condition, snapshot_id=snapshot_id).to_arrow())


def by_duckdb(path: str, version: int | None = None, condition: str = "true") -> Rows:
    """By the folder of the table: DuckDB then asks the hint which metadata is the newest."""
    argument = "" if version is None else f", snapshot_from_id => {FIRST_ID + version}"
    query = f"SELECT * FROM iceberg_scan('{path}'{argument}) WHERE {condition}"
    return in_order(_connection().execute(query).fetch_arrow_table())


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with the extensions that come as packages."""
    (folder,) = Path(site.getsitepackages()[0], "duckdb_ext/extensions").glob(f"v{duckdb.__version__}/*")
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": "1"})
    for extension in ("avro", "iceberg"):
        connection.execute(f"LOAD '{folder / extension}.duckdb_extension'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def in_order(rows: pa.Table) -> Rows:
    """Rows in the order of their first column, then of all, with values that compare: -0.0 is no 0.0."""
    first = rows.column_names[0]
    listed = [{key: _comparable(value) for key, value in row.items()} for row in rows.to_pylist()]
    return sorted(listed, key=lambda row: (row[first] is None, row[first], repr(row)))


def _comparable(value: Any) -> Any:
    match value:
        case float():
            return ("float", value, math.copysign(1, value))
        case dict():
            return {key: _comparable(item) for key, item in value.items()}
        case list():
            return [_comparable(item) for item in value]
        case _:
            return value
