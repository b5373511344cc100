"""A table's rows as the lake has them: digests by bucket, by key, and values of single rows.

Put here: what is asked of Spark. Not here: what is hashed (row_digest.py).

DataFrames and SQL alone; no value becomes a Python object but those of rows that differ.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.checks.verify.protocol import DIGESTS, Buckets, Values
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.errors import TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.runtime.spark_session import session_over
from spark_jobs.silver.table import Op, before_sql, position_sql
from spark_jobs.text.sql import identifier

_KEY = "__stratalog_key"
_KEYS = pa.schema([(_KEY, pa.binary())])


class LakeRows:
    """The lake's side of a table: its downstream table at the version that is its head now."""

    def __init__(self, spark: SparkSession, table: Table, layout: DigestLayout, current: str = "TRUE") -> None:
        """current: SQL, which of its rows the source has now."""
        self.spark = _session(spark, table)
        self.table = table
        self.layout = layout
        self.current = current
        head = table.head()
        assert head is not None, "a table that has a layout is there"
        self.version = head.version
        _require_columns(table, layout)

    def count(self) -> int:
        return self._compared_rows().count()

    def buckets(self, count: int) -> Buckets:
        """Buckets of the lake's rows by a hash of their keys: counts and XORs of digests, in one aggregation."""
        keyed = self._compared_rows().selectExpr(
            f"{self.layout.lake_bucket(count)} AS bucket", f"{self.layout.lake_digest} AS digest"
        )
        sums = keyed.groupBy("bucket").agg(F.count(F.lit(1)).alias("rows"), F.expr("bit_xor(digest)").alias("digest"))
        answer = sums.toArrow()
        bucket, rows, digest = (
            answer.column(name).to_numpy().astype(np.int64) for name in ("bucket", "rows", "digest")
        )
        buckets = Buckets.empty(count)
        buckets.add(bucket, rows, digest)
        return buckets

    def digests_in(self, buckets: Sequence[int], count: int) -> pa.Table:
        bucket = F.expr(self.layout.lake_bucket(count))
        return self._digests(self._compared_rows().where(bucket.isin([int(bucket) for bucket in buckets])))

    def digests_of(self, keys: Collection[bytes]) -> pa.Table:
        return self._digests(self._having(self._compared_rows(), keys))

    def values_of(self, keys: Collection[bytes]) -> dict[bytes, list[Values]]:
        listed = [f"{column.lake_value} AS c{at}" for at, column in enumerate(self.layout.columns)]
        answer = (
            self._having(self._compared_rows(), keys).selectExpr(f"{self.layout.lake_key} AS key", *listed).toArrow()
        )
        by_key: dict[bytes, list[Values]] = {}
        for key, *values in zip(*(column.to_pylist() for column in answer.columns), strict=True):
            by_key.setdefault(key, []).append(tuple(values))
        return by_key

    def stored_keys(self, keys: Collection[bytes], names: Sequence[str]) -> pa.Table:
        """Columns of the rows of some keys, as they are stored."""
        rows = self._having(self._compared_rows(), keys).selectExpr(*map(identifier, names))
        return self.table.collect_arrow(rows)

    def _compared_rows(self) -> DataFrame:
        return self.table.read(self.spark, self.version).where(self.current)

    def _digests(self, rows: DataFrame) -> pa.Table:
        listed = rows.selectExpr(f"{self.layout.lake_key} AS key", f"{self.layout.lake_digest} AS digest")
        return listed.toArrow().cast(DIGESTS)

    def _having(self, rows: DataFrame, keys: Collection[bytes]) -> DataFrame:
        return having(self.spark, rows, self.layout, keys)


class SilverRows:
    """Rows of a table's keys in silver."""

    def __init__(self, spark: SparkSession, table: Table, layout: DigestLayout) -> None:
        self.spark = _session(spark, table)
        self.table = table
        self.layout = layout
        _require_columns(table, layout)

    def any_since(self, since: Position) -> bool:
        """True if any row of the table changed at or after a position."""
        return not self._since(since).isEmpty()

    def changed_since(self, keys: Collection[bytes], since: Position) -> set[bytes]:
        """Those of the keys that changed at or after a position; all of them where the table was emptied since."""
        rows = self._since(since)
        if not rows.where(f"_op = '{Op.TRUNCATE}'").isEmpty():
            return set(keys)
        return self._keys(rows, keys)

    def keys_in_silver(self, keys: Collection[bytes]) -> set[bytes]:
        """Those of the keys of which the log held any change."""
        return self._keys(self.table.read(self.spark), keys)

    def _since(self, since: Position) -> DataFrame:
        at = before_sql(since)
        return self.table.read(self.spark).where(f"_window_stop > {position_sql(since)} AND _position > {at}")

    def _keys(self, rows: DataFrame, keys: Collection[bytes]) -> set[bytes]:
        plain = rows.where(f"_op <> '{Op.TRUNCATE}'")
        present = having(self.spark, plain, self.layout, keys).selectExpr(f"{self.layout.lake_key} AS key").distinct()
        return set(present.toArrow().column(0).to_pylist())


def having(spark: SparkSession, rows: DataFrame, layout: DigestLayout, keys: Collection[bytes]) -> DataFrame:
    """The rows of some keys, with the key's text as _KEY."""
    key_rows = spark.createDataFrame(pa.table([pa.array(sorted(keys), pa.binary())], schema=_KEYS))
    return rows.withColumn(_KEY, F.expr(layout.lake_key)).join(F.broadcast(key_rows), _KEY, "left_semi")


def _session(spark: SparkSession, table: Table) -> SparkSession:
    """A session that prints numbers alike whatever the user's settings are: not ANSI, small decimals get exponents."""
    session = session_over(spark, sum(table.file_sizes()))
    session.conf.set("spark.sql.ansi.enabled", "true")
    return session


def _require_columns(table: Table, layout: DigestLayout) -> None:
    """Raises TableStopped where the table's columns are no longer those that the comparison began with."""
    columns = table.columns()
    if not {column.name for column in layout.columns} <= columns.keys():
        raise TableStopped(f"{table.path}: its columns changed while it was compared; verify again")
