"""MySQL. Put here: fixtures around the one embedded server of a test run. Not here: tables of a test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from spark_jobs.demo.server import MySQLServer

_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Database:
    """A schema of one test's own, and root's connection with that schema chosen."""

    name: str
    server: MySQLServer
    connection: "pymysql.Connection[Cursor]"

    def execute(self, statement: str, parameters: tuple[object, ...] | None = None) -> tuple[tuple[Any, ...], ...]:
        """The statement's rows; %s stand for parameters where there are any. Commits by itself, as the server does."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            rows: tuple[tuple[Any, ...], ...] = cursor.fetchall()
            return rows


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQLServer]:
    """The run's only server; a test that stops it or reconfigures it makes its own. For tests marked ``mysql``."""
    with MySQLServer(tmp_path_factory.mktemp("mysql")) as server:
        yield server


@contextmanager
def database_of(server: MySQLServer) -> Iterator[Database]:
    """A fresh schema in a server, gone afterwards; the binlog keeps its traces."""
    name = f"test_{next(_NUMBERS)}"
    with server.connect() as connection:
        database = Database(name, server, connection)
        database.execute(f"CREATE DATABASE {name}")
        connection.select_db(name)
        yield database
        database.execute(f"DROP DATABASE {name}")


@pytest.fixture
def database(mysql: MySQLServer) -> Iterator[Database]:
    """A fresh schema in the run's server."""
    with database_of(mysql) as database:
        yield database
