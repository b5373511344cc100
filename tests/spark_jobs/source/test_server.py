import pickle
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from spark_jobs.config.servers import MySQL
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.source.files import Files
from spark_jobs.source.protocol import FilePart, require_boundary
from spark_jobs.source.server import Server, _logging_problems, by_one_connection
from tests.fix_mysql import Database
from tests.fix_servers import Servers

pytestmark = pytest.mark.mysql


def settings(server: MySQLServer, **changed: object) -> MySQL:
    connection_settings = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return MySQL.model_validate(connection_settings | changed)


def source_of(server: MySQLServer, **changed: object) -> Server:
    return Server("shop", settings(server, **changed))


def content_of(server: MySQLServer, file: str) -> bytes:
    """The file as the server has it on disk, its in-use flag cleared as a dump clears it."""
    content = bytearray((server.data / file).read_bytes())
    content[4 + 17] &= 0xFE
    return bytes(content)


def read(source: Server, part: FilePart) -> bytes:
    return b"".join(bytes(chunk) for chunk in source.reading()(part)[1])


@pytest.fixture(scope="module")
def private_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQLServer]:
    """A server whose settings may be changed."""
    with MySQLServer(tmp_path_factory.mktemp("own")) as server:
        yield server


def set_global(server: MySQLServer, name: str, value: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET GLOBAL {name} = '{value}'")


def test_the_log_is_what_the_server_lists(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    database.execute("FLUSH BINARY LOGS")
    database.execute("INSERT INTO t VALUES (1)")
    log = source_of(database.server).log()
    rows = database.execute("SHOW BINARY LOGS")
    assert [(file.name, file.size) for file in log.files] == [row[:2] for row in rows]
    (status,) = database.execute("SHOW MASTER STATUS")
    assert log.end == Position(status[0], status[1])
    assert log.uuid == database.execute("SELECT @@server_uuid")[0][0]


def test_all_is_committed_before_the_servers_newest_file(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    source = source_of(database.server)
    file, _, _, _, executed = database.execute("SHOW MASTER STATUS")[0]
    assert source.position_visible_to_readers() == Position(file, 4)
    assert str(source.committed()) == executed.replace("\n", "")


@pytest.mark.slow
def test_mariadb_tells_the_place_of_a_snapshot(servers: Servers) -> None:
    server = servers.get("mariadb-11.4")
    source = source_of(server)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE settled")
        assert source.position_visible_to_readers() == source.log().end
        cursor.execute("DROP DATABASE settled")
    assert not source.committed()


def test_a_dump_is_the_files_bytes(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(200))")
    database.execute("FLUSH BINARY LOGS")
    ends = []
    for number in range(20):
        database.execute("INSERT INTO t VALUES (%s, %s)", (number, "x" * 10 * number))
        ends.append(Position(*database.execute("SHOW MASTER STATUS")[0][:2]))
    source = source_of(database.server)
    file, stop = ends[-1].file, ends[-1].offset
    content = content_of(database.server, file)[:stop]
    assert read(source, FilePart(file, 0, stop)) == content
    middle, later = ends[5].offset, ends[12].offset
    pieces = [read(source, FilePart(file, *span)) for span in ((0, middle), (middle, later), (later, stop))]
    assert pieces == [content[:middle], content[middle:later], content[later:]]


def test_a_closed_file_is_dumped_to_its_rotate_event(database: Database) -> None:
    file = database.execute("SHOW MASTER STATUS")[0][0]
    database.execute("FLUSH BINARY LOGS")
    content = content_of(database.server, file)
    assert read(source_of(database.server), FilePart(file, 0, len(content))) == content


def test_chunks_are_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.source.binlog_dump.CHUNK", 300)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    database.execute("FLUSH BINARY LOGS")
    for number in range(5):
        database.execute("INSERT INTO t VALUES (%s)", (number,))
    file, stop = database.execute("SHOW MASTER STATUS")[0][:2]
    chunks = [bytes(chunk) for chunk in source_of(database.server).reading()(FilePart(file, 0, stop))[1]]
    assert len(chunks) > 5
    assert max(map(len, chunks)) <= 300
    assert b"".join(chunks) == content_of(database.server, file)[:stop]


def test_a_start_in_the_middle_comes_with_the_files_format(database: Database) -> None:
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    file, start = database.execute("SHOW MASTER STATUS")[0][:2]
    database.execute("INSERT INTO t VALUES (1)")
    stop = database.execute("SHOW MASTER STATUS")[0][1]
    format_, chunks = source_of(database.server).reading()(FilePart(file, start, stop))
    assert format_ is not None
    assert format_.checksum
    assert format_.server_version == database.execute("SELECT VERSION()")[0][0]
    assert b"".join(map(bytes, chunks)) == content_of(database.server, file)[start:stop]


def test_transactions_begin_where_the_server_says(database: Database) -> None:
    source = source_of(database.server)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    before = Position(*database.execute("SHOW MASTER STATUS")[0][:2])
    database.execute("INSERT INTO t VALUES (1)")
    require_boundary(source, before)
    inside = database.execute(f"SHOW BINLOG EVENTS IN '{before.file}' FROM {before.offset} LIMIT 1, 1")[0][1]
    with pytest.raises(SourceError) as refused:
        require_boundary(source, Position(before.file, inside))
    assert str(refused.value) == (
        f"shop: no transaction begins at {before.file}:{inside}; the nearest boundary before it is {before}"
    )


def test_a_file_that_the_server_has_not_is_refused_by_name(database: Database) -> None:
    with pytest.raises(SourceError) as refused:
        read(source_of(database.server), FilePart("mysql-bin.999999", 0, 1000))
    assert str(refused.value) == (
        f"shop: mysql-bin.999999:4: 127.0.0.1:{database.server.port} answered: "
        "Could not find first log file name in binary log index file"
    )


def test_a_server_as_it_should_be_has_no_problems(database: Database) -> None:
    assert source_of(database.server).problems() == []


@pytest.mark.parametrize("value", ["STATEMENT", "MIXED"])
def test_a_server_that_does_not_log_rows_is_refused(private_server: MySQLServer, value: str) -> None:
    problem = f"binlog_format is {value}; SET GLOBAL binlog_format = 'ROW' and let the applications reconnect"
    set_global(private_server, "binlog_format", value)
    try:
        assert source_of(private_server).problems() == [problem]
        with pytest.raises(SourceError) as refused:
            source_of(private_server).log()
        assert str(refused.value) == f"shop: {problem}"
    finally:
        set_global(private_server, "binlog_format", "ROW")


def test_a_server_without_a_binary_log_is_refused(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "log_bin": None,
        "skip_log_bin": "ON",
        "gtid_mode": None,
        "enforce_gtid_consistency": None,
    }
    with MySQLServer(tmp_path, options) as server:
        assert source_of(server).problems() == ["the server writes no binary log; start it with log_bin"]
        with pytest.raises(SourceError) as refused:
            source_of(server).log()
        assert str(refused.value) == "shop: the server writes no binary log; start it with log_bin"


def test_a_wrong_password_is_told_without_it(database: Database) -> None:
    server = database.server
    with pytest.raises(SourceError) as refused:
        source_of(server, password="geheim").log()
    assert str(refused.value) == (
        f"shop: 127.0.0.1:{server.port} answered: Access denied for user 'repl'@'localhost' (using password: YES); "
        "check the user or password of 'repl'"
    )
    assert "geheim" not in repr(refused.value.__cause__)


def test_a_user_without_privileges_is_told_which(database: Database) -> None:
    database.execute("CREATE USER nobody@'%' IDENTIFIED BY 'nothing'")
    try:
        source = source_of(database.server, user="nobody", password="nothing")
        with pytest.raises(SourceError) as refused:
            source.log()
        message = (
            f"shop: 127.0.0.1:{database.server.port} answered: Access denied; you need (at least one of) the SUPER, "
            "REPLICATION CLIENT privilege(s) for this operation; GRANT REPLICATION CLIENT ON *.* TO 'nobody'@'…'; "
            "stratalog check --connect names the account"
        )
        assert str(refused.value) == message
        assert source.problems() == [message]
        database.execute("GRANT REPLICATION CLIENT ON *.* TO nobody@'%'")
        end = Position(*database.execute("SHOW MASTER STATUS")[0][:2])
        assert source.problems() == [
            (
                f"shop: {end}: 127.0.0.1:{database.server.port} answered: Access denied; you need (at least one of) "
                f"the "
                "REPLICATION SLAVE privilege(s) for this operation; GRANT REPLICATION SLAVE ON *.* TO 'nobody'@'…'; "
                "stratalog check --connect names the account"
            )
        ]
    finally:
        database.execute("DROP USER nobody@'%'")


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    server_uuid = Server("shop", MySQL(port=1, user="repl", password=SecretStr("geheim"), connect_timeout=2))
    with pytest.raises(SourceError) as refused:
        server_uuid.log()
    assert str(refused.value) == ("shop: 127.0.0.1:1 cannot be reached: Connection refused")


def test_a_reading_pickles_and_shows_no_password() -> None:
    reading = Server("shop", MySQL(user="repl", password=SecretStr("geheim"))).reading()
    back = pickle.loads(pickle.dumps(reading))  # noqa: S301 - our own bytes
    assert back == reading
    assert "geheim" not in repr(back)


def test_questions_go_by_one_connection_while_it_is_kept(database: Database) -> None:
    server = database.server
    source = Server("shop", MySQL(host=server.host, port=server.port, user=server.user, password=server.password))
    sessions = list[dict[str, Any]]()
    with by_one_connection(source):
        for _ in range(2):
            source.log()
            source.now()
            with source.asking() as connection:
                sessions += source.ask(connection, "SELECT CONNECTION_ID() id")
    assert sessions[0] == sessions[1]
    with source.asking() as connection:
        assert source.ask(connection, "SELECT CONNECTION_ID() id") != sessions[:1]
    with by_one_connection(Files("shop", Path())):
        pass


def test_no_certificates_are_read_where_none_is_verified(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", None)
    server = database.server
    settings = MySQL(host=server.host, port=server.port, user=server.user, password=server.password)
    for _ in range(2):
        with Server("shop", settings).connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
            row = cursor.fetchone()
            assert row
            assert row["Value"].startswith("TLS")


def test_a_session_speaks_utc(database: Database) -> None:
    source = source_of(database.server)
    with source.connect() as connection:
        assert source.ask(connection, "SELECT @@session.time_zone zone") == [{"zone": "+00:00"}]


def test_a_log_in_innodb_pages_is_refused() -> None:
    """MariaDB 12.3; no such server was at hand, so these are its variables alone."""
    variables = {"log_bin": "ON", "binlog_format": "ROW", "binlog_storage_engine": "innodb"}
    [problem] = _logging_problems(variables)
    assert problem.startswith("binlog_storage_engine is innodb: that log (MariaDB 12.3) has no files and offsets")
    assert _logging_problems(variables | {"binlog_storage_engine": ""}) == []
