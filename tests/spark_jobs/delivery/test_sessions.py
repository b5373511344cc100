"""Sessions of real servers that are told to end, or waited for."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pymysql
import pytest

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery import sessions
from spark_jobs.delivery.sessions import TargetSession
from spark_jobs.delivery.target import Connection
from spark_jobs.demo.server import MySQLServer

pytestmark = pytest.mark.mysql


@pytest.fixture
def connections(any_server: tuple[str, MySQLServer]) -> Iterator[tuple[Connection, Connection]]:
    _, server = any_server
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP USER IF EXISTS ender@'%'")
        cursor.execute("CREATE USER ender@'%' IDENTIFIED BY 'ends'")
    login = MySQL(host=server.host, port=server.port, user="ender", password="ends")
    with Connection("copy", login) as first, Connection("copy", login) as second:
        yield first, second


def test_a_session_is_told_from_others(connections: tuple[Connection, Connection]) -> None:
    first, second = connections
    assert first.session != second.session
    assert TargetSession.parse(first.session.to_text()) == first.session
    # A number that was given again, by a server that was started again: whose it is now is let alone.
    sessions.end(second, replace(first.session, host="10.0.0.9:1"))
    sessions.outlast(second, replace(first.session, host="10.0.0.9:1"))
    assert first.ask("SELECT 1 one") == [{"one": 1}]


def test_the_end_of_a_session(connections: tuple[Connection, Connection]) -> None:
    first, second = connections
    number = first.session.number
    sessions.end(second, first.session)
    sessions.end(second, first.session)
    with pytest.raises(pymysql.OperationalError):
        first.execute("SELECT 1")
    first.close()
    assert first.session.number != number


def test_what_is_executed_is_waited_for(connections: tuple[Connection, Connection]) -> None:
    first, second = connections
    session, ended = first.session, []
    sleeping = threading.Thread(target=lambda: ended.append(first.rows("SELECT SLEEP(1.5) slept")[0]["slept"]))
    sleeping.start()
    time.sleep(0.3)
    began = time.monotonic()
    sessions.outlast(second, session)
    sleeping.join()
    assert (ended, time.monotonic() - began > 1) == ([0], True)
    # Then nothing is executed in it any more.
    with pytest.raises(pymysql.OperationalError):
        first.execute("SELECT 1")
