"""Watch of a server's log until it grows: a dump connection, on which the server sends the next event.

No query is sent while it waits, and none of what comes is kept: whoever waited reads the log as always.

Source: MySQL sql/rpl_binlog_sender.cc (``wait_new_events``: a replica's server id is not 0; heartbeats), MariaDB
sql/sql_repl.cc; the manual's "COM_BINLOG_DUMP", "Event Header".

Put here: telling an event of the log from what a server sends beside it. Not here: reading the log (binlog_dump.py).
"""

import random
from contextlib import closing
from typing import Self

import pymysql

from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.source.binlog_dump import request_dump
from spark_jobs.source.connection import open_connection, refused_by

_TYPE, _FLAGS = 4, 17
"""Offsets in an event's header: the event's type, one byte, and its flags, two bytes, little-endian."""
_ARTIFICIAL = 0x20
"""LOG_EVENT_ARTIFICIAL_F: the event was made for the connection, and is not in the file."""
_FORMAT_DESCRIPTION, _HEARTBEATS = 15, (27, 41)
"""Types of events that say nothing of a change: a file's first event, HEARTBEAT and HEARTBEAT_V2."""
_LEAST_ID = 1 << 31
"""Server ids of a watch are random numbers from here on: MariaDB ends an older dump of the same id."""


class LogWatch:
    """A dump connection that waits after a position of a server's log; it is a context manager."""

    def __init__(self, name: str, settings: MySQL, position: Position, heartbeat: float) -> None:
        """Connects, and asks for what comes after the position.

        Args:
            name: the source's.
            settings: the server.
            position: where the server's log was read to.
            heartbeat: seconds after which ``grows`` returns without news; at most half of the read timeout.

        Raises SourceError.
        """
        self._position, self._settings = f"{name}: {position}", settings
        beat = min(heartbeat, settings.read_timeout / 2)
        try:
            self._connection = open_connection(settings)
            identity = random.randrange(_LEAST_ID, 2 * _LEAST_ID)  # noqa: S311 - no secret
            request_dump(self._connection, position.file, position.offset, beat, replica=identity)
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            raise self._refused(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def grows(self) -> bool:
        """Wait for the next event or heartbeat: whether the log has more. Raises SourceError."""
        try:
            while True:
                packet = self._connection._read_packet()  # type: ignore[no-untyped-call] # noqa: SLF001 - nothing is public
                event = packet.get_all_data()[1:]
                if event[_TYPE] in _HEARTBEATS:
                    return False
                is_artificial = int.from_bytes(event[_FLAGS : _FLAGS + 2], "little") & _ARTIFICIAL
                if event[_TYPE] != _FORMAT_DESCRIPTION and not is_artificial:
                    return True
        except (pymysql.MySQLError, OSError, RuntimeError, IndexError) as error:
            raise self._refused(error) from error

    def close(self) -> None:
        with closing(self._connection):
            pass

    def _refused(self, error: Exception) -> SourceError:
        return refused_by(self._position, self._settings, error)
