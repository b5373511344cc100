"""What the server answers, beside a plain twin of the texts and digests."""

import hashlib
import zlib
from collections.abc import Iterator

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import server_rows
from spark_jobs.checks.verify.row_digest import DIGITS, layout
from spark_jobs.checks.verify.server_rows import ServerRows, ServerSession
from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError
from spark_jobs.source.server import Server
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql
LAKE = {"a%b": "STRING", "id": "INT", "note": "STRING"}
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
    return ServerRows(session, layout(name, session.columns(database.name, "t"), LAKE, ("a%b", "id")))


def test_a_walk_in_ranges_sees_every_row_once(rows: ServerRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_rows, "_FIRST", 100)
    monkeypatch.setattr(server_rows, "_LEAST", 100)
    monkeypatch.setattr(server_rows, "_MOST", 100)
    buckets = rows.buckets(64)
    assert buckets.rows.sum() == rows.count() == len(ROWS)
    expected = [0] * 64
    for row in ROWS:
        expected[zlib.crc32(key(row)) % 64] ^= digest(row)
    assert list(buckets.digests) == expected


def test_rows_of_buckets_and_of_keys(rows: ServerRows) -> None:
    expected = {key(row): digest(row) for row in ROWS if zlib.crc32(key(row)) % 64 in (3, 5)}
    table = rows.digests_in([3, 5], 64)
    assert dict(zip(table["key"].to_pylist(), table["digest"].to_pylist(), strict=True)) == expected
    keys = [key(ROWS[7]), key(ROWS[8]), key(("é7", 7, None)), b"1:x5,"]
    table = rows.digests_of(keys)
    assert sorted(table["key"].to_pylist()) == sorted(keys[:2]), "é7 is É7 to the collation, and another key"
    word, n, note = ROWS[9]
    assert rows.values_of([key(ROWS[9])]) == {key(ROWS[9]): [(word.encode(), b"%d" % n, str(note).encode())]}
    assert rows.digests_of([]).num_rows == 0


def test_a_session_only_reads(session: ServerSession, database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(SourceError, match=r"shop: .* answered: "):
        session.rows(f"INSERT INTO {database.name}.t VALUES (1)")
    assert (database.name, "t") in session.tables()
    assert session.estimate(database.name, "none") == 0
    assert session.count(database.name, "t") == 0
