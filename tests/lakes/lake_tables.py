"""Rows of the lake's tables, without a JVM. Put here: reading whole tables. Not here: what a test expects of them.

deltalake reads in milliseconds what is a second of processor for Spark, which plans each query. Values are those that
Spark gives, and test_lake_tables.py holds that, but for moments before 1678 or after 2261 in files that Spark wrote:
deltalake misreads them. STRATALOG_READS=spark has Spark read everything (make test-nightly).
"""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.sql import Row, SparkSession

from spark_jobs.delta.log_files import opened_by_deltalake
from spark_jobs.delta.snapshot import new_table, snapshot_of
from spark_jobs.lake.table import Table

BY_SPARK = os.environ.get("STRATALOG_READS") == "spark"
Convert = Callable[[Any], Any]


def table_rows(table: Table, version: int | None = None) -> list[Row]:
    """The rows of a table, in no order. Spark reads what deltalake refuses."""
    try:
        if not BY_SPARK:
            return rows_by_deltalake(table.path, version)
    except DeltaError:
        if not table.head():
            raise
    return rows_by_spark(table, version)


def source_cells(row: Row) -> tuple[Any, ...]:
    """A row's values of the columns that the source has too."""
    return tuple(value for name, value in row.asDict().items() if not name.startswith("_"))


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Arrow's schema of a table with columns of Spark's types."""
    return new_table("t", columns, {}).schema.arrow(physical=False)


def no_rows(table: Table) -> pa.Table:
    """With the columns of a table."""
    return schema_of(table.columns()).empty_table()


def marked_rows(table: Table) -> int:
    """Rows in the newest version's files that are marked as deleted."""
    snapshot = snapshot_of(table.path)
    assert snapshot
    return sum(file.deletion_vector.cardinality for file in snapshot.files if file.deletion_vector)


def rows_by_spark(table: Table, version: int | None = None) -> list[Row]:
    return list(table.read(SparkSession.active(), version).collect())


def rows_by_deltalake(path: str, version: int | None = None) -> list[Row]:
    opened = deltalake.QueryBuilder().register("t", opened_by_deltalake(path, version))
    content = pa.table(opened.execute("SELECT * FROM t").read_all())
    record = Row(*content.schema.names)
    converters = [converter(kind) for kind in content.schema.types]
    columns = [map(convert, column.to_pylist()) for convert, column in zip(converters, content.columns, strict=True)]
    return [record(*cells) for cells in zip(*columns, strict=True)]


def converter(kind: pa.DataType) -> Convert:
    """Makes of Arrow's values of a type those of Spark's rows: structs are rows, maps are dictionaries."""
    if pa.types.is_struct(kind):
        record = Row(*(field.name for field in kind))
        fields = [(field.name, converter(field.type)) for field in kind]
        return unless_null(lambda value: record(*(convert(value[name]) for name, convert in fields)))
    if pa.types.is_map(kind):
        of_key, of_item = converter(kind.key_type), converter(kind.item_type)
        return unless_null(lambda value: {of_key(key): of_item(item) for key, item in value})
    if pa.types.is_nested(kind):
        of_element = converter(kind.value_type)
        return unless_null(lambda value: [of_element(element) for element in value])
    if pa.types.is_timestamp(kind) and kind.tz:
        return unless_null(local_time)
    return lambda value: value


def local_time(moment: datetime) -> datetime:
    """A moment as Spark's rows have it: in the zone of the process, without saying so."""
    return moment.astimezone().replace(tzinfo=None)


def unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
