"""Hashes of the rows of either side of a comparison, by tasks: sums by bucket, and the rows of some buckets.

Put here: the hash of a row, the tasks, and what both sides do with their results. Not here: which ranges and files a
table has (server_rows.py, lake_rows.py), or comparing (compare.py).

Both sides are columns of Arrow, of the types that the lake has them in. Rows of the server come as a load reads them,
by the binary protocol, but for text, of which the server itself makes UTF-8: the decoder's tables of characters are not
compared with themselves. Hashes only decide which rows are looked at: whether these differ is judged by texts that both
sides' SQL makes (value_text.py).

A bucket is a hash of the key, never a range of keys: the server orders keys by their collation, the lake by their
bytes. Hashes are added, not joined by XOR: of a row that stands twice both would vanish.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from spark_jobs.checks.verify.protocol import HASH, HASHED_DIGESTS, Buckets, KeySet
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema, from_spark_types
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.delta.value_hash import hashes_of
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.engine.jobs.key_hash import hashes
from spark_jobs.engine.rows.inherited_rows import row_groups
from spark_jobs.pipeline.initial_load.key_ranges import KeyRange
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.runtime.lazy_session import lazy_session, session_if_started, start_session
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver.keyless_rows import comparable_columns

RAW = "_raw"
DIGEST = "digest"


@dataclass(frozen=True, slots=True)
class HashedColumns:
    """Columns that rows are hashed over, the key's, and the number of buckets.

    schema: names and Arrow types as the lake has them, the exact texts (RAW) last.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    buckets: int

    @classmethod
    def of(cls, layout: DigestLayout, buckets: int) -> "HashedColumns":
        types = {column.name: column.lake_type for column in layout.columns} | {RAW: ADDED[RAW]}
        schema = from_spark_types(types, column_mapping=False).arrow(physical=False)
        return cls(schema, tuple(column.name for column in layout.key), buckets)

    @property
    def key_only(self) -> "HashedColumns":
        """The same of the key alone."""
        return replace(self, schema=pa.schema([self.schema.field(name) for name in (*self.key, RAW)]))

    def key_hashes(self, rows: pa.Table) -> NDArray[np.uint64]:
        """The hash of each row's key. rows: with at least the key's columns, of any types, and the exact texts."""
        return hashes(self.key_only.converted(rows), self.key)

    def buckets_of(self, rows: pa.Table) -> NDArray[np.int64]:
        """The bucket of each row."""
        return (hashes(rows, self.key) % np.uint64(self.buckets)).astype(np.int64)

    def digests_of(self, rows: pa.Table) -> NDArray[np.int64]:
        """The hash of each row, over all columns."""
        names = [name for name in self.schema.names if name != RAW]
        return hashes_of(comparable_columns(rows, names), len(rows)).view(np.int64)

    def converted(self, rows: pa.Table) -> pa.Table:
        """Rows in the schema's types. A column that has a value which its type cannot hold stays what it is."""
        columns = [_cast(rows.column(field.name), field.type) for field in self.schema]
        return pa.table(columns, names=self.schema.names)


def _cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # its rows have other hashes, and are looked at one by one
        return values


IsWanted = Callable[[NDArray[np.uint64]], NDArray[np.bool_]]
"""Mask of the rows that are wanted, by the hashes of their keys."""


class HashTask(Protocol):
    """Rows of one side that a task reads."""

    @property
    def columns(self) -> HashedColumns: ...

    def tables(self) -> Iterator[pa.Table]:
        """The rows in pieces, in the schema's types."""
        ...

    def tables_where(self, is_wanted: IsWanted) -> Iterator[pa.Table]:
        """The same of some rows."""
        ...


@dataclass(frozen=True, slots=True)
class ServerRanges:
    """Ranges of the server's rows, read one after the other on a connection for each."""

    selecting: Selecting
    parts: tuple[KeyRange, ...]
    columns: HashedColumns

    def tables(self) -> Iterator[pa.Table]:
        """The server's rows in batches, with the columns of the comparison.

        Raises SourceError, and what the decoder raises.
        """
        for part in self.parts:
            for changes in self.selecting.read(part):
                yield self.columns.converted(pa.Table.from_batches([changes.with_exact_texts()]))

    def tables_where(self, is_wanted: IsWanted) -> Iterator[pa.Table]:
        """The rows of ``tables`` whose key hashes are wanted. Raises as ``tables``."""
        for rows in self.tables():
            yield rows.filter(pa.array(is_wanted(hashes(rows, self.columns.key))))


@dataclass(frozen=True, slots=True)
class LakeFiles:
    """Data files of a table of the lake.

    current: values of columns in the rows that count: those that the source has now, and of a table of several parts
    those of one.
    """

    path: str
    schema: TableSchema
    files: tuple[DataFile, ...]
    current: Mapping[str, bool | str]
    columns: HashedColumns

    def tables(self) -> Iterator[pa.Table]:
        """The lake's rows by row group, with the columns of the comparison. Raises LakeError."""
        for file in self.files:
            for _, is_counted, rows in self._row_groups(file, self.columns.schema.names):
                yield self.columns.converted(rows.filter(pa.array(is_counted)))

    def tables_where(self, is_wanted: IsWanted) -> Iterator[pa.Table]:
        """The rows of ``tables`` whose key hashes are wanted; of other row groups only the key is read.

        Raises LakeError.
        """
        names = self.columns.schema.names
        for file in self.files:
            numbers = [np.zeros(0, np.int64)]
            for begin, is_counted, rows in self._row_groups(file, [*self.columns.key, RAW]):
                is_chosen = is_counted & is_wanted(self.columns.key_hashes(rows))
                numbers.append(begin + np.flatnonzero(is_chosen))
            found = np.concatenate(numbers)
            if len(found):
                yield self.columns.converted(data_files.read_rows(self.path, file, found, names, self.schema))

    def _row_groups(self, file: DataFile, names: Sequence[str]) -> Iterator[tuple[int, NDArray[np.bool_], pa.Table]]:
        """Row groups of a file: the first row's number, which rows count, and all."""
        for begin, living, rows in row_groups(self.path, self.schema, file, [*names, *self.current]):
            is_counted = living
            for name, value in self.current.items():
                is_counted = is_counted & np.asarray(pc.fill_null(pc.equal(rows.column(name), value), False), np.bool_)
            yield begin, is_counted, rows


def sums(task: HashTask) -> Iterator[Buckets]:
    """The sums of a task's rows."""
    columns = task.columns
    result = Buckets.empty(columns.buckets)
    for rows in task.tables():
        result.add_rows(columns.buckets_of(rows), columns.digests_of(rows))
    yield result


def row_counts(task: HashTask) -> Iterator[int]:
    """The number of a task's rows."""
    yield sum(len(rows) for rows in task.tables())


@dataclass(frozen=True, slots=True)
class BucketRowsTask:
    """A task, and the buckets whose rows it gives."""

    task: HashTask
    buckets: tuple[int, ...]


def bucket_rows(work: BucketRowsTask) -> Iterator[pa.Table]:
    """The key's columns, the exact texts and the hash (DIGEST, int64) of the rows in some buckets, in pieces."""
    columns = work.task.columns
    is_chosen = np.zeros(columns.buckets, np.bool_)
    is_chosen[list(work.buckets)] = True
    for rows in work.task.tables_where(lambda hashed: is_chosen[hashed % np.uint64(columns.buckets)]):
        if len(rows):
            yield rows.select([*columns.key, RAW]).append_column(DIGEST, pa.array(columns.digests_of(rows)))


Work = Callable[[HashTask], Iterable[Any]]


class HashedSide(ABC):
    """A side of a comparison whose rows are read by tasks."""

    def __init__(self, spark: SparkSession, layout: DigestLayout) -> None:
        self.spark = spark
        self.layout = layout

    @abstractmethod
    def _results(self, columns: HashedColumns, work: Work) -> Iterable[Any]:
        """Results of a function for each of the tasks that read all rows."""

    def start(self) -> None:
        """Start Spark, whose SQL makes texts, by this thread: others ask for them."""
        start_session(self.spark)

    def buckets(self, count: int) -> Buckets:
        """All rows, over so many buckets."""
        buckets = Buckets.empty(count)
        for part in self._results(HashedColumns.of(self.layout, count), sums):
            buckets.add(part)
        return buckets

    def keys_in(self, buckets: Sequence[int], count: int) -> KeySet:
        """The keys in some of the buckets, of which no other column is read."""
        rows = self._rows_in(buckets, HashedColumns.of(self.layout, count).key_only)
        return KeySet.of(rows.column("key").to_pylist(), np.asarray(rows.column(HASH)))

    def digests_in(self, buckets: Sequence[int], count: int) -> pa.Table:
        """The rows of some of the buckets, as HASHED_DIGESTS."""
        return self._rows_in(buckets, HashedColumns.of(self.layout, count))

    def _rows_in(self, buckets: Sequence[int], columns: HashedColumns) -> pa.Table:
        """The same, of the columns' digests: Spark's SQL makes the texts of their keys."""
        chosen = tuple(buckets)
        parts = [*self._results(columns, lambda task: bucket_rows(BucketRowsTask(task, chosen)))]
        if not parts:
            return HASHED_DIGESTS.empty_table()
        rows = pa.concat_tables(parts, promote_options="permissive")
        rows = rows.append_column(HASH, pa.array(columns.key_hashes(rows).view(np.int64)))  # Spark's are signed
        texts = in_texts(self.spark, rows, [f"{self.layout.lake_key} AS key", DIGEST, HASH])
        return texts.set_column(2, HASH, pa.array(np.asarray(texts.column(HASH)).view(np.uint64))).cast(HASHED_DIGESTS)


def in_texts(spark: SparkSession, rows: pa.Table, listed: Sequence[str]) -> pa.Table:
    """Rows as columns of Spark's SQL over them."""
    return session_of_texts(spark, rows.nbytes).createDataFrame(rows).selectExpr(*listed).toArrow()


def session_of_texts(spark: SparkSession, size: int) -> SparkSession:
    """A session that prints numbers alike whatever the user's settings are: not ANSI, small decimals get exponents.

    A lazy one of a lazy one that is not started. size: bytes that it reads.
    """
    if session_if_started(spark) is None:
        return lazy_session(lambda: session_of_texts(start_session(spark), size))
    session = session_over(spark, size)
    session.conf.set("spark.sql.ansi.enabled", "true")
    return session
