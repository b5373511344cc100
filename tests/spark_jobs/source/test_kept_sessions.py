import time

import pytest

from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError
from spark_jobs.source import kept_sessions
from spark_jobs.source.kept_sessions import keeping_sessions, session_of
from spark_jobs.source.server import Server
from tests.services.waiting import wait_for
from tests.spark_jobs.source.test_binlog_dump import settings_of

pytestmark = pytest.mark.mysql


def asked(server: Server) -> int:
    """The id of the session by which a round asks."""
    with server.one_connection(), server.asking() as session:
        (row,) = server.ask(session, "SELECT CONNECTION_ID() id")
    return int(row["id"])


@pytest.fixture
def source(mysql: MySQLServer) -> Server:
    return Server("shop", settings_of(mysql))


def kill(server: MySQLServer, session: int) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"KILL {session}")


def sessions_at(server: MySQLServer, ids: set[int]) -> set[int]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW PROCESSLIST")
        return {row[0] for row in cursor.fetchall()} & ids


def test_rounds_ask_by_one_session_which_ends_with_the_process(mysql: MySQLServer, source: Server) -> None:
    with keeping_sessions():
        ids = {asked(source) for _ in range(3)}
        # Another round has another object for the same server.
        ids.add(asked(Server("shop", settings_of(mysql))))
        assert len(ids) == 1
        # Another source asks by its own.
        assert asked(Server("other", settings_of(mysql))) not in ids
        assert sessions_at(mysql, ids) == ids
        kept = kept_sessions._Keeping.sessions  # what is collected would end by itself
    wait_for("the end of the session", lambda: not sessions_at(mysql, ids), 10.0)
    assert kept is not None
    assert asked(source) != asked(source)


def test_a_session_that_the_server_ended_is_replaced(mysql: MySQLServer, source: Server) -> None:
    with keeping_sessions():
        first = asked(source)
        kill(mysql, first)
        second = asked(source)
        assert second != first
        assert asked(source) == second


def test_after_an_error_the_next_round_logs_in(source: Server) -> None:
    """What was refused may be granted by then, which counts for new sessions alone."""
    with keeping_sessions():
        first = asked(source)
        with pytest.raises(SourceError), source.one_connection(), source.asking() as session:
            source.ask(session, "SELECT * FROM nowhere.nothing")
        assert asked(source) != first


def test_a_session_is_not_used_for_longer_than_a_minute(source: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with keeping_sessions():
        first = asked(source)
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + kept_sessions.LONGEST + 1)
        assert asked(source) != first


def test_a_session_that_is_kept_has_no_password(source: Server) -> None:
    with keeping_sessions(), session_of("shop", source.settings) as session:
        secret = source.settings.password.get_secret_value()
        assert secret
        assert secret.encode() not in [value for value in vars(session).values() if isinstance(value, bytes)]
        assert secret not in [value for value in vars(session).values() if isinstance(value, str)]


def test_two_threads_have_two_sessions(mysql: MySQLServer, source: Server) -> None:
    with keeping_sessions():
        with source.one_connection(), source.asking() as session:
            (row,) = source.ask(session, "SELECT CONNECTION_ID() id")
            second = asked(Server("shop", settings_of(mysql)))
        assert second != row["id"]
        # One of both stays, the other is closed.
        assert asked(source) == row["id"]
        wait_for("the end of the other session", lambda: not sessions_at(mysql, {second}), 10.0)
