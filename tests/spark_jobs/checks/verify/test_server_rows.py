"""What the server answers, beside a plain twin of the texts and digests."""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import server_rows
from spark_jobs.checks.verify.bucket_sums import HashedColumns
from spark_jobs.checks.verify.protocol import Buckets, KeySet
from spark_jobs.checks.verify.row_digest import DIGITS, layout
from spark_jobs.checks.verify.server_rows import ServerRows, ServerSession
from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError, TableStopped
from spark_jobs.runtime.tasks_here import TASKS_HERE
from spark_jobs.source.server import Server
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql
LAKE = {"a%b": "STRING", "id": "INT", "note": "STRING"}
TYPES = (pa.string(), pa.int32(), pa.string())
ROWS = [(f"É{n % 37}", n, None if n % 3 else f"note {n}") for n in range(2500)]


def key(row: tuple[str, int, str | None]) -> bytes:
    word = row[0].encode()
    return b"%d:%s%d," % (len(word), word, row[1])


def digest(row: tuple[str, int, str | None]) -> int:
    note = hashlib.sha256(row[2].encode()).hexdigest() if row[2] is not None else ""
    text = key(row) + note.encode() + b","
    return int(hashlib.sha256(text).hexdigest()[:DIGITS], 16)


@pytest.fixture
def session(database: Database) -> Iterator[ServerSession]:
    login = {"host": database.server.host, "port": database.server.port, "user": database.server.user}
    with ServerSession(Server("shop", MySQL(**login, password=database.server.password))) as session:
        yield session


@pytest.fixture
def rows(database: Database, session: ServerSession) -> ServerRows:
    database.execute(
        "CREATE TABLE t (`a%b` VARCHAR(20) COLLATE utf8mb4_general_ci, id INT, note TEXT, PRIMARY KEY (`a%b`, id))"
    )
    listed = ", ".join(f"('{word}', {n}, {'NULL' if note is None else repr(note)})" for word, n, note in ROWS)
    database.execute(f"INSERT INTO t VALUES {listed}")
    name = TableName(database.name, "t")
    return ServerRows(TASKS_HERE, session, layout(name, session.columns(database.name, "t"), LAKE, ("a%b", "id")))


def arrow(rows: Sequence[tuple[str, int, str | None]]) -> pa.Table:
    """The rows as the lake has them."""
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), TYPES, strict=True)]
    return pa.table([*columns, pa.nulls(len(rows), pa.map_(pa.string(), pa.string()))], names=[*LAKE, "_raw"])


def test_a_walk_in_ranges_sees_every_row_once(rows: ServerRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_rows, "_LEAST", 100)
    monkeypatch.setattr(server_rows, "_MOST", 100)
    buckets = rows.buckets(64)
    assert buckets.rows.sum() == rows.count() == len(ROWS)
    expected, columns, table = Buckets.empty(64), HashedColumns.of(rows.layout, 64), arrow(ROWS)
    expected.add_rows(columns.buckets_of(table), columns.digests_of(table))
    assert list(buckets.unlike(expected)) == []


@pytest.mark.spark
def test_keys_of_buckets_are_those_of_their_rows(rows: ServerRows, spark: SparkSession) -> None:
    rows.spark = spark
    digests, columns, table = rows.digests_in([3, 5], 64), HashedColumns.of(rows.layout, 64), arrow(ROWS)
    is_chosen = np.isin(columns.buckets_of(table), [3, 5])
    expected = sorted(key(row) for row, is_here in zip(ROWS, is_chosen, strict=True) if is_here)
    assert sorted(digests["key"].to_pylist()) == expected
    keys = rows.keys_in([3, 5], 64)
    assert [*keys] == expected
    assert keys.hashes.tolist() == sorted(columns.key_hashes(table)[is_chosen].tolist())


def test_rows_of_keys(rows: ServerRows) -> None:
    keys = [key(ROWS[7]), key(ROWS[8]), key(("é7", 7, None)), b"1:x5,"]
    table = rows.digests_of(KeySet.of(keys))
    assert sorted(table["key"].to_pylist()) == sorted(keys[:2]), "é7 is É7 to the collation, and another key"
    assert sorted(table["digest"].to_pylist()) == sorted(digest(row) for row in ROWS[7:9])
    word, n, note = ROWS[9]
    assert rows.values_of(KeySet.of([key(ROWS[9])])) == {key(ROWS[9]): [(word.encode(), b"%d" % n, str(note).encode())]}
    assert rows.digests_of(KeySet()).num_rows == 0


def test_a_table_that_was_altered_meanwhile_is_not_compared(rows: ServerRows, database: Database) -> None:
    database.execute("ALTER TABLE t DROP COLUMN note")
    with pytest.raises(TableStopped, match="was altered while it was compared; verify again"):
        rows.buckets(64)


def test_a_session_only_reads(session: ServerSession, database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(SourceError, match=r"shop: .* answered: "):
        session.rows(f"INSERT INTO {database.name}.t VALUES (1)")
    assert TableName(database.name, "t") in session.tables()
    assert session.estimate(database.name, "none") == 0
    assert session.count(database.name, "t") == 0
