"""A table's rows as the server has them: hashes by bucket, digests by key, and values of single rows.

Put here: what is asked of the server. Not here: how rows are hashed (bucket_sums.py) or become text (row_digest.py).

The table is walked in ranges of its key, each a statement of a second or less and a transaction of its own: no long
read view that keeps old versions of rows alive, no lock that an ALTER TABLE, and after it everybody, waits for. The
rows are therefore of different moments; what differs is read again anyway.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, Self

import pyarrow as pa
import pymysql
from pymysql.cursors import Cursor
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.checks.verify.bucket_sums import RAW, HashedColumns, HashedSide, HashTask, ServerRanges, Work
from spark_jobs.checks.verify.protocol import DIGESTS, KeySet, Values
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.engine.jobs import spark_job
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import Key, KeyRange, key_of, ranges
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.runtime.lazy_session import start_session
from spark_jobs.runtime.tasks_here import TASKS_HERE
from spark_jobs.source.connection import refused_by
from spark_jobs.source.information_schema import definition_of
from spark_jobs.source.server import Server
from spark_jobs.text.sql import identifier, is_table

log = logging.getLogger(__name__)

_LEAST, _MOST = 1_000, 250_000
"""Rows in one statement of a walk."""
_BYTES = 64 << 20
"""Bytes of rows that such a statement should give: it takes a second or less."""
_TASKS, _RANGES = 4, 8
"""Tasks of a job, and ranges that one of them reads at most."""
_SMALL = 20_000
"""Rows of a table up to which it is read in this process."""
_QUIET = 2.0
"""Seconds between two lines about how far a walk is."""
_AT_ONCE = 200
"""Keys in one statement."""

_ASK_COLUMNS = (
    "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, DATETIME_PRECISION "
    "FROM information_schema.COLUMNS WHERE {} ORDER BY ORDINAL_POSITION"
)
_COLUMN = ("name", "kind", "declared", "charset", "fraction")
_ASK_TABLES = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'"
_ASK_SIZE = "SELECT TABLE_ROWS, AVG_ROW_LENGTH FROM information_schema.TABLES WHERE {}"


class ServerSession:
    """A connection that only reads, and whose answers do not depend on the server's settings. Raises SourceError.

    has_read_only: whether the server can be asked for read-only transactions; TiDB refuses.
    """

    def __init__(self, server: Server, *, has_read_only: bool = True) -> None:
        self.server = server
        self._connection = server.connect()
        self.rows("SET SESSION sql_mode = ''")
        if has_read_only:
            self.rows("SET SESSION TRANSACTION READ ONLY")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(self, statement: str, parameters: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement; %s stand for parameters where there are any."""
        try:
            with self._connection.cursor(Cursor) as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise refused_by(self.server.name, self.server.settings, error) from error

    def end(self, stretch: int) -> Position:
        """Position where the log ends now.

        What stands before may not be visible to other sessions for a moment: servers log a transaction before its
        storage engine commits it.
        """
        end = self.server.end(self._connection)
        return Position(end.file, end.offset, stretch)

    def tables(self) -> list[TableName]:
        """All tables that the user may see."""
        return sorted(TableName(*name) for name in self.rows(_ASK_TABLES))

    def columns(self, schema: str, table: str) -> list[dict[str, Any]]:
        """Columns of a table as ``layout`` takes them; none where there is no such table."""
        rows = self.rows(_ASK_COLUMNS.format(is_table(schema, table)))
        return [dict(zip(_COLUMN, row, strict=True)) for row in rows]

    def key(self, layout: DigestLayout) -> Key:
        """A table's key as the server compares it."""
        return key_of(self._connection, layout.schema, layout.table, tuple(column.name for column in layout.key))

    def ranges(self, key: Key, rows: int) -> Iterator[KeyRange]:
        """Ranges of so many rows, as the table is when each one is asked for."""
        return ranges(self._connection, key, rows=rows)

    def definition(self, name: TableName) -> TableDefinition | None:
        """The table as the server declares it now; None where there is no such table."""
        return definition_of(self.server, self._connection, name)

    def estimate(self, schema: str, table: str) -> int:
        """Estimated number of rows of a table, by the server's statistics."""
        return self.estimates(schema, table)[0]

    def estimates(self, schema: str, table: str) -> tuple[int, int]:
        """The same, and about how many bytes a row has; zeros where there is no such table."""
        rows = self.rows(_ASK_SIZE.format(is_table(schema, table)))
        return (int(rows[0][0] or 0), int(rows[0][1] or 0)) if rows else (0, 0)

    def count(self, schema: str, table: str) -> int:
        """Number of rows that a table has."""
        return int(self.rows(f"SELECT COUNT(*) FROM {identifier(schema)}.{identifier(table)}")[0][0])


class ServerRows(HashedSide):
    """The server's side of a table."""

    def __init__(self, spark: SparkSession, session: ServerSession, layout: DigestLayout) -> None:
        super().__init__(spark, layout)
        self.session = session
        self.key = session.key(layout)
        self._rows, self._row_bytes = session.estimates(layout.schema, layout.table)
        # By this thread: another one reads the rows.
        self._tasks_in = TASKS_HERE if self._rows <= _SMALL else start_session(spark)

    def count(self) -> int:
        return self.session.count(self.layout.schema, self.layout.table)

    def digests_of(self, keys: KeySet) -> pa.Table:
        listed = f"{self.layout.server_key}, {self.layout.server_digest}"
        return pa.concat_tables([DIGESTS.empty_table(), *(_digests(rows) for rows in self._of(listed, keys))])

    def values_of(self, keys: KeySet) -> dict[bytes, list[Values]]:
        columns = [column.server_value for column in self.layout.columns]
        return self._values(columns, keys)

    def extra_values_of(self, keys: KeySet) -> dict[bytes, list[Values]]:
        """Result of each column's extra value, None where it has none."""
        return self._values([column.extra_value or "NULL" for column in self.layout.columns], keys)

    def _values(self, columns: list[str], keys: KeySet) -> dict[bytes, list[Values]]:
        by_key: dict[bytes, list[Values]] = {}
        for rows in self._of(", ".join([self.layout.server_key, *columns]), keys):
            for key, *values in rows:
                by_key.setdefault(key, []).append(tuple(values))
        return by_key

    def _of(self, listed: str, keys: KeySet) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of exactly these keys; ``listed`` begins with the key's text."""
        ordered = [*keys]
        for at in range(0, len(ordered), _AT_ONCE):
            batch = ordered[at : at + _AT_ONCE]
            asked_keys, condition = set(batch), self.layout.condition_for(batch)
            rows = self.session.rows(f"SELECT {listed} FROM {self.layout.server_name} WHERE {condition}")
            yield [row for row in rows if row[0] in asked_keys]

    def _results(self, columns: HashedColumns, work: Work) -> Iterator[Any]:
        """Results of tasks over the rows, of some ranges of keys at a time."""
        layout = self.layout
        rows = max(_LEAST, min(_MOST, _BYTES // max(self._row_bytes, 1)))
        boundaries = self.session.ranges(self.key, rows)
        selecting = self._selecting(columns)
        began = reported = time.monotonic()
        rows_read = 0
        # The next ranges are planned while tasks read: each costs the server a walk over the index.
        with ThreadPoolExecutor(1) as planner:
            parts = [*islice(boundaries, _TASKS)]
            while parts:
                following = planner.submit(lambda: [*islice(boundaries, _TASKS * _RANGES)])
                group_size = -(-len(parts) // _TASKS)
                groups = (tuple(parts[at : at + group_size]) for at in range(0, len(parts), group_size))
                tasks: list[HashTask] = [ServerRanges(selecting, group, columns) for group in groups]
                yield from spark_job.run(self._tasks_in, tasks, work)
                rows_read += rows * len(parts)
                parts = following.result()
                now = time.monotonic()
                if parts and now - reported > _QUIET:
                    reported = now
                    log.info("%s: %s rows at the server in %.0f s", layout, f"{rows_read:,}", now - began)

    def _selecting(self, hashed: HashedColumns) -> Selecting:
        """Reader of some columns. Raises TableStopped where the table has others by now."""
        name, server = TableName(self.layout.schema, self.layout.table), self.session.server
        definition = self.session.definition(name)
        columns = {str(column.name): column for column in definition.columns} if definition else {}
        names = [column for column in hashed.schema.names if column != RAW]
        if definition is None or not columns.keys() >= set(names):
            raise TableStopped(f"{name}: was altered while it was compared; verify again")
        compared = replace(definition, columns=tuple(columns[name] for name in names), key=())
        return Selecting(server.name, server.settings, compared, self.key, converts_text=True)


def _digests(rows: Sequence[Sequence[Any]]) -> pa.Table:
    keys, digests = ([row[at] for row in rows] for at in (0, 1))
    return pa.table([pa.array(keys, pa.binary()), pa.array(digests, pa.int64())], schema=DIGESTS)
