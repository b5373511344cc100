"""Servers of several versions. Put here: fixtures around them. Not here: how each is found (servers.py)."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import pytest

from spark_jobs.demo.server import Build, MySQLServer
from spark_jobs.errors import ConfigError
from tests.services.servers import FETCHED, SERVERS, build_of

OPTIONS: dict[str, object] = {"log_bin": "log-bin", "binlog_row_event_max_size": 2048, "thread_stack": "2M"}
"""Small row events, so that one statement's rows fill several. MySQL 8.0 follows foreign keys from row to row on the
stack of its thread, and dies where that is too small for a table that refers to itself."""
EACH_SERVER = [
    pytest.param(name, marks=[] if name in ("mysql-8.0", "mariadb-11.4") else pytest.mark.thorough) for name in SERVERS
]
"""Parameters of a test of every server: by every session of tests one of each kind."""
TELLING = (
    ("mysql-5.7", None),
    ("mysql-8.0", "FULL"),
    ("mysql-8.0", "MINIMAL"),
    ("mysql-9.7", "FULL"),
    ("mysql-9.7", "MINIMAL"),
    ("mariadb-10.11", "FULL"),
    ("mariadb-10.11", "NO_LOG"),
    ("mariadb-11.4", "FULL"),
    ("mariadb-11.4", "MINIMAL"),
    ("mariadb-11.4", "NO_LOG"),
    ("mariadb-11.8", "FULL"),
)
"""Servers, and how much of tables their logs tell (binlog_row_metadata); MySQL 5.7 has no choice: their types."""


def build_or_skip(name: str) -> Build:
    """Position where a server lies, for a test that makes its own; skips the test where it is not here."""
    try:
        return build_of(name)
    except ConfigError as error:
        skip_without(name, error)


def skip_without(name: str, reason: ConfigError) -> NoReturn:
    """On CI those that can be fetched must be here."""
    if os.environ.get("CI") and name in FETCHED:
        raise reason
    pytest.skip(str(reason))


class Servers:
    """Starts the servers of a run, each when a test first asks for it."""

    def __init__(self, stack: ExitStack, directories: pytest.TempPathFactory) -> None:
        self._stack = stack
        self._directories = directories
        self._running: dict[str, MySQLServer] = {}

    def get(self, name: str) -> MySQLServer:
        """Skips the test where that server is not here; on CI those that can be fetched must be."""
        if name not in self._running:
            try:
                build = build_of(name)
                server = MySQLServer(self._directories.mktemp(name), OPTIONS, build)
                self._running[name] = self._stack.enter_context(server)
            except ConfigError as error:
                skip_without(name, error)
        return self._running[name]


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, tmp_path_factory)


@pytest.fixture(scope="session", params=EACH_SERVER)
def any_server(request: pytest.FixtureRequest, servers: Servers) -> tuple[str, MySQLServer]:
    """Each server in turn, with its name. Tests set its global variables back."""
    return request.param, servers.get(request.param)


@contextmanager
def telling(server: MySQLServer, metadata: str | None) -> Iterator[None]:
    """Meanwhile the server's log tells so much of tables."""
    if metadata is None:
        yield
        return
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.binlog_row_metadata")
        ((setting,),) = cursor.fetchall()
        cursor.execute(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
        yield
        cursor.execute(f"SET GLOBAL binlog_row_metadata = '{setting}'")
