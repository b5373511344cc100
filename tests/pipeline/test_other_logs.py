"""Logs that are not the one that bronze holds, on real servers: each by its own message, and bronze stays as it was.

Put here: what happens to a server's log. Not here: the same of files that stand for servers
(spark_jobs/bronze/test_resume.py).
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from spark_jobs.config.servers import MySQL
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import AnotherLog, SourceError
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.source.server import Server
from tests.binlogs.gtid_logs import land
from tests.fix_servers import build_or_skip
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.mysql, pytest.mark.thorough, pytest.mark.slow]

AGAIN = "the log is another one: "
GONE = AGAIN + "the source has no file log-bin.00000{}, which bronze ends in; it holds {}.000001 to {}.00000{}. "
BEGUN = AGAIN + "bronze ends in a log-bin.00000{} begun at "


class Shop:
    """A server that writes, and bronze of it as it was at several moments."""

    def __init__(self, server: MySQLServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.lake = Lake(str(folder / "lake"))
        self.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        self.grow()

    def execute(self, *statements: str) -> None:
        with self.server.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def grow(self, count: int = 3) -> None:
        self.execute(*["INSERT INTO d.t VALUES (NULL)"] * count)

    def purge_to(self, file: str) -> None:
        """Purges the log up to a file. Servers keep what a connection reads; MariaDB keeps all without a replica."""
        with self.server.connect() as connection, connection.cursor() as cursor:
            if cursor.execute("SHOW GLOBAL VARIABLES LIKE 'slave_connections_needed_for_purge'"):
                cursor.execute("SET GLOBAL slave_connections_needed_for_purge = 0")

            def is_purged() -> bool:
                cursor.execute(f"PURGE BINARY LOGS TO '{file}'")
                cursor.execute("SHOW BINARY LOGS")
                return bool(cursor.fetchall()[0][0] == file)

            wait_for(f"{file} to be the oldest", is_purged)

    def bronze(self, name: str) -> Table:
        """The log up to now, in a table of its own."""
        table = self.lake.bronze(name)
        land(table, self._source())
        return table

    def require_refused(self, table: Table, message: str, kind: type[SourceError] = AnotherLog) -> None:
        before = table.head()
        with pytest.raises(kind) as refused:
            land(table, self._source())
        assert str(refused.value).startswith(f"shop: {message}")
        assert table.head() == before

    def _source(self) -> Server:
        settings = MySQL(
            host=self.server.host,
            port=self.server.port,
            user=self.server.user,
            password=SecretStr(self.server.password),
        )
        return Server("shop", settings)


@pytest.fixture(params=["mysql-8.0", "mariadb-11.4"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    build = build_or_skip(request.param)
    with MySQLServer(tmp_path / "server", {"log_bin": "log-bin"}, build) as server:
        yield Shop(server, tmp_path)


def test_a_log_that_is_purged_reset_or_renamed(shop: Shop) -> None:
    at_first = shop.bronze("purged")
    shop.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    shop.purge_to("log-bin.000003")
    purged = "log-bin.000001 is gone from the source, whose oldest file is log-bin.000003; either have archived copies"
    shop.require_refused(at_first, purged, SourceError)
    # Numbers begin again: first behind what bronze has, then beyond it.
    in_third = shop.bronze("reset")
    time.sleep(1.1)
    shop.execute("RESET MASTER")
    shop.require_refused(in_third, GONE.format(3, "log-bin", "log-bin", 1))
    shop.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    shop.grow(50)
    shop.require_refused(in_third, BEGUN.format(3))
    in_third = shop.bronze("renamed")
    shop.server.options["log_bin"] = "other"
    shop.server.restart()
    shop.grow()
    shop.require_refused(in_third, GONE.format(3, "other", "other", 1))


def test_a_server_that_was_restored_from_a_backup(shop: Shop) -> None:
    """It writes the files again whose numbers bronze has, with other transactions."""
    shop.execute("FLUSH BINARY LOGS")
    shop.server.stop()
    shutil.copytree(shop.server.data, shop.folder / "backup")
    shop.server.start()
    shop.grow()
    inside_third = shop.bronze("inside")
    shop.execute("FLUSH BINARY LOGS")
    at_fourth = shop.bronze("fourth")
    shop.server.stop()
    shutil.rmtree(shop.server.data)
    shutil.copytree(shop.folder / "backup", shop.server.data)
    time.sleep(1.1)
    shop.server.start()
    shop.require_refused(at_fourth, GONE.format(4, "log-bin", "log-bin", 3))
    shop.grow(50)
    shop.require_refused(inside_third, BEGUN.format(3))
    shop.execute("FLUSH BINARY LOGS")
    shop.grow()
    shop.require_refused(at_fourth, BEGUN.format(4))
