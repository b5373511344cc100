"""A table's rows as the server has them: digests by bucket, by key, and values of single rows.

Put here: what is asked of the server. Not here: what is hashed (row_digest.py).

The table is walked in ranges of its key, each a statement of about a second and a transaction of its own: no long read
view that keeps old versions of rows alive, no lock that an ALTER TABLE, and after it everybody, waits for. The rows
are therefore of different moments; what differs is read again anyway.
"""

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pymysql
from pymysql.cursors import Cursor

from spark_jobs.checks.verify.protocol import DIGESTS, Buckets, Values
from spark_jobs.checks.verify.row_digest import DigestLayout
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.key_ranges import Boundary, Key, KeyRange, in_text, key_of, ranges
from spark_jobs.source.connection import refusal
from spark_jobs.source.server import Server
from spark_jobs.text.sql import identifier, is_table

log = logging.getLogger(__name__)

_FIRST = 20_000
_LEAST, _MOST = 1_000, 500_000
"""Rows in one statement of a walk."""
_SECONDS = 1.0
"""Time that such a statement should take; the next one's rows follow from it."""
_RANGE = "\0"
"""Placeholder for a range of keys in a statement; no name has it."""
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
_ASK_SIZE = "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE {}"


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
            raise SourceError(refusal(self.server.name, self.server.settings, error)) from error

    def end(self, stretch: int) -> Position:
        """Position where the log ends now.

        What stands before may not be visible to other sessions for a moment: servers log a transaction before its
        storage engine commits it.
        """
        end = self.server.end(self._connection)
        return Position(end.file, end.offset, stretch)

    def tables(self) -> list[tuple[str, str]]:
        """Schema and name of all tables that the user may see."""
        return sorted(self.rows(_ASK_TABLES))

    def columns(self, schema: str, table: str) -> list[dict[str, Any]]:
        """As ``layout`` wants them; none where there is no such table."""
        rows = self.rows(_ASK_COLUMNS.format(is_table(schema, table)))
        return [dict(zip(_COLUMN, row, strict=True)) for row in rows]

    def key(self, layout: DigestLayout) -> Key:
        """A table's key as the server compares it."""
        return key_of(self._connection, layout.schema, layout.table, tuple(column.name for column in layout.key))

    def range_of(self, key: Key, rows: int, after: Boundary | None) -> KeyRange:
        """The next range of so many rows behind a key."""
        return next(ranges(self._connection, key, rows=rows, after=after))

    def estimate(self, schema: str, table: str) -> int:
        """About how many rows a table has, as the server's statistics say."""
        rows = self.rows(_ASK_SIZE.format(is_table(schema, table)))
        return int(rows[0][0] or 0) if rows else 0

    def count(self, schema: str, table: str) -> int:
        """Number of rows that a table has."""
        return int(self.rows(f"SELECT COUNT(*) FROM {identifier(schema)}.{identifier(table)}")[0][0])


class ServerRows:
    """The server's side of a table."""

    def __init__(self, session: ServerSession, layout: DigestLayout) -> None:
        self.session = session
        self.layout = layout
        self.key = session.key(layout)

    def count(self) -> int:
        return self.session.count(self.layout.schema, self.layout.table)

    def buckets(self, count: int) -> Buckets:
        """As of the lake's side, computed by the server a range of keys at a time."""
        buckets = Buckets.empty(count)
        listed = (
            f"{self.layout.server_bucket(count)}, COUNT(*), BIT_XOR({self.layout.server_digest}) "
            f"FROM {self.layout.server_name} WHERE {_RANGE} GROUP BY 1"
        )
        for rows in self._walk(listed):
            if rows:
                bucket, counts, digest = np.array(rows, np.int64).T
                buckets.add(bucket, counts, digest)
        return buckets

    def digests_in(self, buckets: Sequence[int], count: int) -> pa.Table:
        numbers = ", ".join(map(str, buckets))
        listed = (
            f"{self.layout.server_key}, {self.layout.server_digest} "
            f"FROM {self.layout.server_name} WHERE ({_RANGE}) AND {self.layout.server_bucket(count)} IN ({numbers})"
        )
        return pa.concat_tables([_digests(rows) for rows in self._walk(listed)])

    def digests_of(self, keys: Collection[bytes]) -> pa.Table:
        listed = f"{self.layout.server_key}, {self.layout.server_digest}"
        return pa.concat_tables([DIGESTS.empty_table(), *(_digests(rows) for rows in self._of(listed, keys))])

    def values_of(self, keys: Collection[bytes]) -> dict[bytes, list[Values]]:
        columns = [column.server_value for column in self.layout.columns]
        return self._values(columns, keys)

    def extra_values_of(self, keys: Collection[bytes]) -> dict[bytes, list[Values]]:
        """Result of each column's extra value, None where it has none."""
        return self._values([column.extra_value or "NULL" for column in self.layout.columns], keys)

    def _values(self, columns: list[str], keys: Collection[bytes]) -> dict[bytes, list[Values]]:
        by_key: dict[bytes, list[Values]] = {}
        for rows in self._of(", ".join([self.layout.server_key, *columns]), keys):
            for key, *values in rows:
                by_key.setdefault(key, []).append(tuple(values))
        return by_key

    def _of(self, listed: str, keys: Collection[bytes]) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of exactly these keys; ``listed`` begins with the key's text."""
        ordered = sorted(keys)
        for at in range(0, len(ordered), _AT_ONCE):
            batch = ordered[at : at + _AT_ONCE]
            asked_keys, condition = set(batch), self.layout.condition_for(batch)
            rows = self.session.rows(f"SELECT {listed} FROM {self.layout.server_name} WHERE {condition}")
            yield [row for row in rows if row[0] in asked_keys]

    def _walk(self, listed: str) -> Iterator[list[tuple[Any, ...]]]:
        """The answers to a statement for one range of keys after the other; ``_RANGE`` in it is the range."""
        began = reported = time.monotonic()
        size, rows_read, after = _FIRST, 0, None
        before, behind = map(in_text, listed.split(_RANGE, 1))
        # A range is read up to a key, so that no transaction stays open for long.
        while True:
            part = self.session.range_of(self.key, size, after)
            condition, parameters = part.condition(self.key)
            sent_at = time.monotonic()
            yield self.session.rows(f"SELECT {before}{condition}{behind}", tuple(parameters))
            if part.up_to is None:
                return
            # The next range has as many rows as fit into the time, at most twice and at least half as many.
            now = time.monotonic()
            rows_read += size
            fitting = int(size * _SECONDS / max(now - sent_at, 0.01))
            size, after = max(min(fitting, size * 2, _MOST), size // 2, _LEAST), part.up_to
            if now - reported > _QUIET:
                reported = now
                log.info("%s: %s rows at the server in %.0f s", self.layout, f"{rows_read:,}", now - began)


def _digests(rows: Sequence[Sequence[Any]]) -> pa.Table:
    keys, digests = ([row[at] for row in rows] for at in (0, 1))
    return pa.table([pa.array(keys, pa.binary()), pa.array(digests, pa.int64())], schema=DIGESTS)
