"""Abandoned sessions at a target: ended, or waited for, before their work is repeated.

Put here: what tells a session from another one, and its end. Not here: opening them (target.py).

A server continues a statement whose client went away. In a transaction that is harmless, since nobody sends COMMIT;
what commits by itself (ALTER TABLE, TRUNCATE) would take effect at some later time.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pymysql

from spark_jobs.errors import DeliveryError
from spark_jobs.source.connection import error_number

log = logging.getLogger(__name__)

_ENDED_WITHIN = 10.0
"""Seconds in which a session ends that is told to."""
_FIRST_POLL, _LONGEST_POLL = 0.02, 1.0
"""Seconds between two looks."""
_REPORT_SECONDS = 30.0
"""Seconds between two lines about a session that is waited for."""
_IDLE = "Sleep"
_NO_SUCH_SESSION = 1094


@dataclass(frozen=True, slots=True)
class TargetSession:
    """A session at a server. host: the client's end of the connection as the server has it, with its port.

    Numbers are given again after a restart, and by another server at the same address; the host tells them apart.
    """

    number: int
    host: str

    def __str__(self) -> str:
        return f"session {self.number} of {self.host}"

    def to_text(self) -> str:
        return f"{self.number} {self.host}"

    @classmethod
    def parse(cls, text: str) -> "TargetSession":
        number, _, host = text.partition(" ")
        return cls(int(number), host)


class TargetConnection(Protocol):
    """A connection to the server."""

    label: str

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """Rows of a query. Raises DeliveryError, MySQLError, OSError."""

    def execute(self, statement: str | bytes) -> int:
        """Run a statement; how many rows it changed. Raises DeliveryError, MySQLError, OSError."""


def own_session(connection: TargetConnection) -> TargetSession:
    """The connection's own session. Raises DeliveryError, MySQLError, OSError."""
    number = int(connection.rows("SELECT CONNECTION_ID() number")[0]["number"])
    host = next((str(row["Host"]) for row in _user_sessions(connection) if int(row["Id"]) == number), "")
    return TargetSession(number, host)


def end(connection: TargetConnection, session: TargetSession) -> None:
    """End a session with its transaction. Raises DeliveryError where it continues, MySQLError, OSError."""
    if _command(connection, session) is None:
        return
    _kill(connection, session)
    deadline, pause = time.monotonic() + _ENDED_WITHIN, _FIRST_POLL
    while _command(connection, session) is not None:
        if time.monotonic() > deadline:
            raise DeliveryError(f"{connection.label}: {session} was asked to end, and has not; end it at the target")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_POLL)


def outlast(connection: TargetConnection, session: TargetSession) -> None:
    """Wait for the end of what a session executes, and end it then.

    What it executes may be an hour's work, and is needed. Raises DeliveryError, MySQLError, OSError.
    """
    reported_at, pause = time.monotonic(), _FIRST_POLL
    while (command := _command(connection, session)) is not None:
        if command == _IDLE:
            end(connection, session)
            return
        if time.monotonic() - reported_at >= _REPORT_SECONDS:
            reported_at = time.monotonic()
            log.warning("%s: waits for %s, which is at a statement of an earlier run", connection.label, session)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_POLL)


def _command(connection: TargetConnection, session: TargetSession) -> str | None:
    """Command of a session; None where there is no such session."""
    for row in _user_sessions(connection):
        if int(row["Id"]) == session.number and str(row["Host"]) == session.host:
            return str(row["Command"])
    return None


def _user_sessions(connection: TargetConnection) -> list[dict[str, Any]]:
    """The user's sessions, or all where the user may see them."""
    return connection.rows("SHOW PROCESSLIST")


def _kill(connection: TargetConnection, session: TargetSession) -> None:
    try:
        connection.execute(f"KILL {session.number}")
    except pymysql.MySQLError as error:
        if error_number(error) != _NO_SUCH_SESSION:
            raise
