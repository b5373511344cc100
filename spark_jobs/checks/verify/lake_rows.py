"""A table's rows as the lake has them: hashes by bucket, digests by key, and values of single rows.

Put here: what is asked of the lake. Not here: how rows are hashed (bucket_sums.py) or become text (row_digest.py).

Rows of given keys are found by the hashes of these in the key's columns, and become text by Spark's SQL alone: no other
row does.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.checks.verify.bucket_sums import (
    RAW,
    HashedColumns,
    HashedSide,
    HashTask,
    LakeFiles,
    Work,
    in_texts,
    row_counts,
    session_of_texts,
)
from spark_jobs.checks.verify.protocol import DIGESTS, KeySet, Values
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.config.modes import Mode
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.downstream.modes import CURRENT_VALUES
from spark_jobs.engine.jobs import spark_job
from spark_jobs.engine.merge.part_merge import part_schema
from spark_jobs.errors import TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.tasks_here import TASKS_HERE
from spark_jobs.silver.table import Op, before_sql, position_sql
from spark_jobs.text.sql import identifier

_KEY = "__stratalog_key"
_SMALL = 8 << 20
"""Bytes of a table's files up to which it is read in this process."""
_TASKS = 8
"""Tasks that a table's files are divided into, where these are alike."""
_KEYS = pa.schema([(_KEY, pa.binary())])


class LakeRows(HashedSide):
    """The lake's side of a table: its downstream table at the version that is its head now."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        layout: DigestLayout,
        mode: Mode = Mode.MIRROR,
        version: int | None = None,
    ) -> None:
        """mode: the table's, by which of its rows the source has now. version: None: the newest."""
        super().__init__(session_of_texts(spark, sum(table.file_sizes())), layout)
        self.table = table
        self.mode = mode
        if version is None:
            head = table.head()
            assert head is not None, "a table that has a layout is there"
            version = head.version
        self.version = version
        _require_columns(table, layout, version)

    def count(self) -> int:
        """The rows that count. The log's statistics tell it where each row of the table does; Spark reads nothing."""
        counts = [file.num_rows for file in self._compared_snapshot().files]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts) and not self._current_values():
            return sum(known)
        return sum(self._results(HashedColumns.of(self.layout, 1).key_only, row_counts))

    def digests_of(self, keys: KeySet) -> pa.Table:
        return self._texts_of(keys, [f"{self.layout.lake_digest} AS digest"]).cast(DIGESTS)

    def values_of(self, keys: KeySet) -> dict[bytes, list[Values]]:
        listed = [f"{column.lake_value} AS c{at}" for at, column in enumerate(self.layout.columns)]
        by_key: dict[bytes, list[Values]] = {}
        for key, *values in zip(*(column.to_pylist() for column in self._texts_of(keys, listed).columns), strict=True):
            by_key.setdefault(key, []).append(tuple(values))
        return by_key

    def stored_keys(self, keys: KeySet) -> pa.Table:
        """The key's columns and the exact texts of the rows of some keys, as they are stored."""
        rows = self._rows_of(keys)
        texts = in_texts(self.spark, rows, [f"{self.layout.lake_key} AS key"]).column(0)
        names = [*(column.name for column in self.layout.key), RAW]
        return rows.select(names).filter(_is_among_keys(texts, keys))

    def _texts_of(self, keys: KeySet, listed: Sequence[str]) -> pa.Table:
        """The text of the key, and columns of SQL, of the rows of some keys."""
        answer = in_texts(self.spark, self._rows_of(keys), [f"{self.layout.lake_key} AS key", *listed])
        return answer.filter(_is_among_keys(answer.column(0), keys))

    def _rows_of(self, keys: KeySet) -> pa.Table:
        """All rows of some keys, and perhaps of others that have their hashes."""
        columns, hashes = HashedColumns.of(self.layout, 1), keys.hashes
        parts = self._results(columns, lambda task: _rows_with(task, hashes)) if len(hashes) else []
        return pa.concat_tables([columns.schema.empty_table(), *parts], promote_options="permissive")

    def _results(self, columns: HashedColumns, work: Work) -> list[Any]:
        """Results of tasks over the rows in the table's files."""
        snapshot, current = self._compared_snapshot(), self._current_values()
        size = sum(file.size for file in snapshot.files)
        spark = TASKS_HERE if size <= _SMALL else start_session(self.spark)
        groups = spark_job.packed(snapshot.files, lambda file: file.size, max(size / _TASKS, 1))
        schema = part_schema(snapshot.schema, (column.name for column in self.layout.columns))
        tasks: list[HashTask] = [LakeFiles(self.table.path, schema, group, current, columns) for group in groups]
        return spark_job.run(spark, tasks, work)

    def _compared_snapshot(self) -> Snapshot:
        snapshot = snapshot_of(self.table.path, self.version)
        assert snapshot is not None, "the version is the table's"
        return snapshot

    def _current_values(self) -> dict[str, bool | str]:
        """Values of columns in the rows that count; empty where each row does."""
        return {**CURRENT_VALUES[self.mode], **self.table.provenance}


def _rows_with(task: HashTask, hashes: NDArray[np.uint64]) -> Iterator[pa.Table]:
    """The rows of a task whose keys have some hashes."""
    return task.tables_where(lambda hashed: hashes[np.searchsorted(hashes[:-1], hashed)] == hashed)


def _is_among_keys(texts: pa.ChunkedArray, keys: KeySet) -> pa.ChunkedArray:
    return pc.is_in(texts.cast(pa.binary()), pa.array(keys, pa.binary()))


class SilverRows:
    """Rows of a table's keys in silver."""

    def __init__(self, spark: SparkSession, table: Table, layout: DigestLayout) -> None:
        self.spark = session_of_texts(start_session(spark), sum(table.file_sizes()))
        self.table = table
        self.layout = layout
        _require_columns(table, layout, None)

    def keys_since(self, since: Position, limit: int) -> KeySet | None:
        """The keys that changed at or after a position; None where they are more, or the table was emptied since."""
        rows = self._rows_since(since)
        if not rows.where(f"_op = '{Op.TRUNCATE}'").isEmpty():
            return None
        columns = HashedColumns.of(self.layout, 1)
        listed = rows.selectExpr(f"{self.layout.lake_key} AS {_KEY}", *map(identifier, [*columns.key, RAW]))
        keys = listed.dropDuplicates([_KEY]).limit(limit + 1).toArrow()
        if len(keys) > limit:
            return None
        return KeySet.of(keys.column(_KEY).to_pylist(), columns.key_hashes(keys))

    def any_since(self, since: Position) -> bool:
        """True if any row of the table changed at or after a position."""
        return not self._rows_since(since).isEmpty()

    def changed_since(self, keys: Collection[bytes], since: Position) -> set[bytes]:
        """The given keys that changed at or after a position; all of them if the table was emptied since."""
        rows = self._rows_since(since)
        if not rows.where(f"_op = '{Op.TRUNCATE}'").isEmpty():
            return set(keys)
        return self._keys(rows, keys)

    def keys_in_silver(self, keys: Collection[bytes]) -> set[bytes]:
        """The given keys of which the log had any change."""
        return self._keys(self.table.read(self.spark), keys)

    def _rows_since(self, since: Position) -> DataFrame:
        at = before_sql(since)
        return self.table.read(self.spark).where(f"_window_stop > {position_sql(since)} AND _position > {at}")

    def _keys(self, rows: DataFrame, keys: Collection[bytes]) -> set[bytes]:
        plain = rows.where(f"_op <> '{Op.TRUNCATE}'")
        key_rows = self.spark.createDataFrame(pa.table([pa.array(sorted(keys), pa.binary())], schema=_KEYS))
        texts = plain.selectExpr(f"{self.layout.lake_key} AS {_KEY}")
        present = texts.join(F.broadcast(key_rows), _KEY, "left_semi").distinct()
        return set(present.toArrow().column(0).to_pylist())


def _require_columns(table: Table, layout: DigestLayout, version: int | None) -> None:
    """Check that a version has the columns that the comparison began with; None: the newest. Raises TableStopped."""
    columns = table.columns_at(version)
    if not {column.name for column in layout.columns} <= columns.keys():
        raise TableStopped(f"{table.path}: its columns changed while it was compared; verify again")
