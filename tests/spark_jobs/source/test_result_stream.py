"""Rows of a prepared query on a real server: long ones, and a connection that ends."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymysql
import pytest
from numpy.typing import NDArray

from spark_jobs.binlog import written_head
from spark_jobs.binlog.kernels import result_rows
from spark_jobs.errors import SourceError
from spark_jobs.source import result_stream
from spark_jobs.source.result_stream import ResultStream
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql
LARGEST = 32 << 20


def fields(wires: list[int]) -> NDArray[np.int64]:
    """Of an INT and a LONGBLOB."""
    assert wires == [3, 252]
    return np.array([[result_rows.FIELD_FIXED, 4, 4, 0, 0], [result_rows.FIELD_COUNTED, 0, 4, 0, 0]])


@contextmanager
def streaming(database: Database) -> Iterator[tuple[Any, ResultStream]]:
    with database.server.connect(database=database.name, max_allowed_packet=LARGEST) as connection:
        yield connection, ResultStream(connection, "shop: rows")


def rows(events: Iterator[result_stream.Images]) -> Iterator[tuple[int, bytes]]:
    """The values of images."""
    for event, length in events:
        content, offset = event[:length].tobytes(), len(written_head(2))
        while offset < length:
            number, size = struct.unpack_from("<II", content, offset + 1)
            yield number, content[offset + 9 : offset + 9 + size]
            offset += 9 + size


@pytest.mark.parametrize("sizes", [[0, 3, 70_000], [5, 1 << 20, 7], [1, (1 << 20) - 16, 3 << 20, 2], [9, 17 << 20, 4]])
def test_rows_of_any_length_come_in_their_order(database: Database, sizes: list[int]) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB NOT NULL)")
    with database.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET GLOBAL max_allowed_packet = {LARGEST}")
    with streaming(database) as (connection, stream):
        with connection.cursor() as cursor:
            for at, size in enumerate(sizes):
                cursor.execute("INSERT INTO t SELECT %s, REPEAT(CHAR(65 + %s), %s)", (at, at, size))
        images = stream.images("SELECT id, v FROM t ORDER BY id", written_head(2), fields)
        assert list(rows(images)) == [(at, bytes([65 + at]) * size) for at, size in enumerate(sizes)]


def test_many_rows_fill_several_events(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB NOT NULL)")
    with streaming(database) as (connection, stream):
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, REPEAT('x', 900))", [(at,) for at in range(6000)])
        events = stream.images("SELECT id, v FROM t ORDER BY id", written_head(2), fields)
        counts: list[int] = []
        for event, length in events:
            counts.append(sum(1 for _ in rows(iter([(event, length)]))))
    assert sum(counts) == 6000
    assert len(counts) > 1


def test_an_error_amid_the_rows_is_the_servers(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB)")
    database.execute("INSERT INTO t VALUES (1, 'x'), (2, 'x')")
    statement = "SELECT id, IF(id = 1, v, (SELECT b.v FROM t a JOIN t b WHERE a.id <= t.id)) FROM t ORDER BY id"
    with streaming(database) as (_, stream), pytest.raises(pymysql.MySQLError) as raised:
        list(stream.images(statement, written_head(2), lambda _: fields([3, 252])))
    assert raised.value.args[0] == 1242


def test_a_connection_that_is_cut_is_one(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB NOT NULL)")
    for at in range(20):
        database.execute("INSERT INTO t VALUES (%s, REPEAT('x', 70000))", (at,))
    statement = "SELECT id, IF(id > 2, IF(SLEEP(0.5), v, v), v) FROM t ORDER BY id"
    with streaming(database) as (connection, stream), pytest.raises(pymysql.OperationalError):
        list(stream.images(statement, written_head(2), lambda _: _cut(database, connection.thread_id())))


def _cut(database: Database, number: int) -> NDArray[np.int64]:
    database.execute(f"KILL {number}")
    return fields([3, 252])


def test_what_is_no_row_is_named_with_its_bytes(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGBLOB NOT NULL)")
    database.execute("INSERT INTO t VALUES (1, 'x')")
    with streaming(database) as (_, stream), pytest.raises(SourceError, match=r"shop: rows: .*no row of the query"):
        list(stream.images("SELECT id FROM t", written_head(2), lambda _: fields([3, 252])))
