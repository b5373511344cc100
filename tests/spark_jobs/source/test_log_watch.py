import threading
from collections.abc import Iterator

import pymysql
import pytest
from pydantic import SecretStr

from spark_jobs.config.servers import MySQL
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.source.log_watch import LogWatch
from tests.fix_servers import Servers

pytestmark = pytest.mark.mysql

BEAT = 0.4


@pytest.fixture(params=["mysql-5.7", "mysql-8.0", "mysql-9.7", "mariadb-10.11", "mariadb-11.4"])
def server(request: pytest.FixtureRequest, servers: Servers) -> Iterator[MySQLServer]:
    running = servers.get(request.param)
    execute(running, "CREATE DATABASE IF NOT EXISTS watched", "CREATE TABLE IF NOT EXISTS watched.t (id INT)")
    yield running
    execute(running, "DROP DATABASE watched")


def execute(server: MySQLServer, *statements: str) -> tuple[tuple[object, ...], ...]:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        records: tuple[tuple[object, ...], ...] = cursor.fetchall()
        return records


def end_of(server: MySQLServer) -> Position:
    try:
        ((file, offset, *_),) = execute(server, "SHOW MASTER STATUS")
    except pymysql.ProgrammingError:  # renamed in MySQL 8.4
        ((file, offset, *_),) = execute(server, "SHOW BINARY LOG STATUS")
    return Position(str(file), int(str(offset)))


def settings_of(server: MySQLServer) -> MySQL:
    return MySQL(host=server.host, port=server.port, user=server.user, password=SecretStr(server.password))


def test_a_log_that_ends_there_sends_heartbeats_alone_until_it_grows(server: MySQLServer) -> None:
    with LogWatch("shop", settings_of(server), end_of(server), BEAT) as watch:
        assert [watch.grows(), watch.grows()] == [False, False]
        threading.Timer(BEAT / 2, execute, [server, "INSERT INTO watched.t VALUES (1)"]).start()
        answers = iter(watch.grows, True)
        assert list(answers) in ([], [False])


def test_a_log_that_goes_on_behind_the_position_has_news_at_once(server: MySQLServer) -> None:
    position = end_of(server)
    execute(server, "INSERT INTO watched.t VALUES (1)")
    with LogWatch("shop", settings_of(server), position, 30) as watch:
        assert watch.grows()


def test_a_log_that_was_rotated_has_news(server: MySQLServer) -> None:
    position = end_of(server)
    execute(server, "FLUSH BINARY LOGS", "INSERT INTO watched.t VALUES (1)")
    with LogWatch("shop", settings_of(server), position, 30) as watch:
        assert watch.grows()


def test_a_new_file_without_a_change_is_no_news(server: MySQLServer) -> None:
    execute(server, "FLUSH BINARY LOGS")
    with LogWatch("shop", settings_of(server), end_of(server), BEAT) as watch:
        assert not watch.grows()


def test_two_watches_of_a_server_do_not_end_each_other(server: MySQLServer) -> None:
    position = end_of(server)
    with (
        LogWatch("shop", settings_of(server), position, BEAT) as first,
        LogWatch("shop", settings_of(server), position, BEAT) as second,
    ):
        assert [first.grows(), second.grows(), first.grows()] == [False, False, False]


def test_a_file_that_the_server_does_not_have_is_refused(server: MySQLServer) -> None:
    with (
        LogWatch("shop", settings_of(server), Position("mysql-bin.999999", 4), BEAT) as watch,
        pytest.raises(SourceError, match=r"^shop: mysql-bin.999999:4: "),
    ):
        watch.grows()


def test_a_server_that_is_not_there_is_refused() -> None:
    settings = MySQL(host="127.0.0.1", port=1, user="u", password=SecretStr("p"))
    with pytest.raises(SourceError, match="shop"):
        LogWatch("shop", settings, Position("mysql-bin.000001", 4), BEAT)
