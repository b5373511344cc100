"""Deliveries. Put here: fixtures of targets and of a delivered copy. Not here: the copy itself (delivered.py)."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery.target import Connection
from tests.fix_pipeline import Shop
from tests.fix_servers import Servers
from tests.lakes.delivered import Copy
from tests.services.servers import FETCHED
from tests.services.tidb import TiDBServer, tidb_or_skip


@pytest.fixture(scope="session")
def tidb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TiDBServer]:
    with tidb_or_skip(tmp_path_factory.mktemp("tidb")) as server:
        yield server


@pytest.fixture
def copy(shop: Shop) -> Iterator[Copy]:
    copy = Copy(shop)
    shop.execute(
        "DROP DATABASE IF EXISTS stratalog",
        "CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'",
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM writer@'%'",  # as earlier tests at this server granted them
        "GRANT ALL ON stratalog.* TO writer@'%'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP ON `{copy.schema}`.* TO writer@'%'",
    )
    yield copy
    shop.execute(f"DROP DATABASE IF EXISTS `{copy.schema}`", "DROP DATABASE IF EXISTS stratalog")


@pytest.fixture
def tidb_copy(copy: Copy, tidb: TiDBServer) -> Iterator[Copy]:
    """The same, at TiDB."""
    with copy.writable(tidb):
        yield copy


@pytest.fixture
def sessions(servers: Servers) -> Iterator[dict[str, Connection]]:
    """A delivery's session at each server that tests fetch, which has a schema ``pairs``."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(_session(servers, name)) for name in FETCHED}


def _session(servers: Servers, name: str) -> Connection:
    server = servers.get(name)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS pairs")
        cursor.execute("CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED BY 'writes'")
        cursor.execute("GRANT ALL ON *.* TO writer@'%'")
    return Connection(name, MySQL(host=server.host, port=server.port, user="writer", password="writes"))
