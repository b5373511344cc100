"""The demo's shop. Put here: fixtures that several of its tests share. Not here: the server (tests/fix_mysql.py)."""

from collections.abc import Iterator

import pytest

from spark_jobs.demo.server import MySQLServer
from spark_jobs.demo.shop import SCHEMA, create, fill
from tests.fix_mysql import Database


@pytest.fixture(scope="module")
def shop(mysql: MySQLServer) -> Iterator[Database]:
    """A filled shop, gone after the module's tests."""
    with mysql.connect() as connection:
        shop = Database(SCHEMA, mysql, connection)
        create(connection)
        assert fill(connection, 1_000) > 1_000
        yield shop
        shop.execute(f"DROP DATABASE {SCHEMA}")
