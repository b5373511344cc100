"""Function ``stratalog.as_of``: a table as of a position, as an Arrow table or as a DataFrame.

Put here: the question as programs ask it. Not here: the answer (tables_at.py).
"""

from collections.abc import Sequence
from typing import Any, overload

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position
from spark_jobs.pipeline.as_of.row_files import target_of, write_files
from spark_jobs.pipeline.as_of.table_rows import RowQuery
from spark_jobs.pipeline.as_of.tables_at import tables_at


@overload
def as_of(
    pipeline: Pipeline,
    table: str,
    at: str | Position,
    *,
    source: str | None = None,
    keys: Sequence[Any] = (),
    where: str | None = None,
    raw: bool = False,
) -> pa.Table: ...


@overload
def as_of(  # noqa: D418 - as long as it is, it says what it gives
    pipeline: Pipeline,
    table: str,
    at: str | Position,
    *,
    source: str | None = None,
    keys: Sequence[Any] = (),
    where: str | None = None,
    raw: bool = False,
    spark: SparkSession,
    folder: str,
) -> DataFrame:
    """A table as it was, as a DataFrame of a Delta table in the folder."""


def as_of(  # noqa: PLR0913 - the ways in which rows are chosen
    pipeline: Pipeline,
    table: str,
    at: str | Position,
    *,
    source: str | None = None,
    keys: Sequence[Any] = (),
    where: str | None = None,
    raw: bool = False,
    spark: SparkSession | None = None,
    folder: str | None = None,
) -> pa.Table | DataFrame:
    """A table as it was at a location of its source's log: in memory, by key; or a DataFrame of rows in a folder.

    Starts no JVM. With ``spark`` and ``folder`` this process writes the rows there, a row group at a time, as a Delta
    table that Spark reads; the folder is the caller's to remove. Otherwise nothing is written.

    Args:
        pipeline: the configuration.
        table: the source's table as it was called then, such as ``shop.orders``.
        at: a position, a GTID set or a time, as text; inside a transaction it is where that begins.
        source: whose table it is; required where there are several.
        keys: only rows of these keys: a value each, or of keys of several columns a tuple each.
        where: only rows for which this condition is TRUE, in the language of row filters.
        raw: as the source had the rows, without masks and filters.
        spark: what the DataFrame is of, of Spark Connect too.
        folder: a new one, as ``s3a://bucket/prefix`` too, that both this process and Spark's executors reach.

    Raises:
        ConfigError: what is given names no table, location, key, condition or folder.
        SourceError: the stored log does not have the location.
        LakeError: the table was not there then, or the lake cannot tell its rows of then; the message says why.
    """
    name = _source(pipeline, source, table)
    if (spark is None) != (folder is None):
        raise ConfigError({"folder": "a DataFrame needs both: spark, and a new folder for its rows"})
    choice = RowQuery.of([key if isinstance(key, str | tuple | list) else (key,) for key in keys], where)
    target = target_of(folder, pipeline) if folder is not None else None
    with tables_at(pipeline, name, [table], at, choice=choice, is_raw=raw) as source_at:
        selection = source_at.tables[0].selection()
        if spark is None or target is None:
            return selection.table()
        path, _ = write_files(selection, "delta", target)
    return spark.read.format("delta").load(str(path))


def _source(pipeline: Pipeline, source: str | None, table: str) -> str:
    """Name of the table's source: the given one, or the only one there is. Raises ConfigError."""
    names = list(pipeline.sources)
    if source is None and len(names) != 1:
        raise ConfigError({"source": f"name one of {', '.join(names)}"})
    if not Pattern.parse(table).is_name:
        raise ConfigError({"table": f"{table!r} is a pattern; name one table"})
    return source or names[0]
