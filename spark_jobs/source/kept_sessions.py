"""Cache of sessions for queries, in a process that asks the same servers again and again: a login less each time.

A session is used again for a minute at most, so that addresses, privileges and passwords of others than the first
minute's count soon; and not after an error. What is kept has no password: a token or what a program gave is used for
the login, as for any other connection.

Put here: which session is used again. Not here: logging in (connection.py), or what is asked (server.py).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pymysql

from spark_jobs.config.servers import MySQL
from spark_jobs.source.connection import connect

if TYPE_CHECKING:
    from pymysql.cursors import DictCursor

    Session = pymysql.Connection[DictCursor]

LONGEST = 60.0
"""Seconds after a login from which on its session is not used again."""


class _Sessions:
    """Sessions that nobody uses now, by source and server, each with when it logged in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str, int, str], tuple[float, Session]] = {}

    def take(self, name: str, settings: MySQL) -> "tuple[float, Session] | None":
        """A session that answers, out of those that are kept."""
        with self._lock:
            kept = self._idle.pop(_key(name, settings), None)
        if kept is None:
            return None
        began, session = kept
        if time.monotonic() < began + LONGEST:
            with suppress(pymysql.MySQLError, OSError, RuntimeError):  # ended meanwhile
                session.ping(reconnect=False)
                return kept
        _close(session)
        return None

    def keep(self, name: str, settings: MySQL, began: float, session: "Session") -> None:
        with self._lock:
            before = self._idle.pop(_key(name, settings), None)
            self._idle[_key(name, settings)] = began, session
        if before:  # two threads asked the same server
            _close(before[1])

    def close(self) -> None:
        with self._lock:
            sessions = [session for _, session in self._idle.values()]
            self._idle.clear()
        for session in sessions:
            _close(session)


class _Keeping:
    """Sessions that this process keeps; None where it keeps none."""

    sessions: _Sessions | None = None


@contextmanager
def keeping_sessions() -> Iterator[None]:
    """Sessions are kept inside the ``with`` block, and closed at its end."""
    sessions = _Keeping.sessions = _Sessions()
    try:
        yield
    finally:
        _Keeping.sessions = None
        sessions.close()


@contextmanager
def session_of(name: str, settings: MySQL) -> "Iterator[Session]":
    """A session at a server: one that is kept, or of a login now. Raises SourceError."""
    sessions = _Keeping.sessions
    if sessions is None:
        with connect(name, settings) as session:
            yield session
        return
    began, session = sessions.take(name, settings) or (time.monotonic(), _without_password(connect(name, settings)))
    try:
        yield session
    except BaseException:
        _close(session)
        raise
    sessions.keep(name, settings, began, session)


def _close(session: "Session") -> None:
    """End a session, also one that is broken."""
    with suppress(pymysql.MySQLError, OSError, RuntimeError):
        session.close()


def _without_password(session: "Session") -> "Session":
    """PyMySQL keeps it to log in once more, which is not done here."""
    session.password = b""
    return session


def _key(name: str, settings: MySQL) -> tuple[str, str, int, str]:
    return name, settings.host, settings.port, settings.user
