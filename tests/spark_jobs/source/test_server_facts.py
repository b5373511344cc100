"""Foreign keys and system versioning, as servers of each kind declare them."""

from collections.abc import Callable

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.server_facts import ServerFacts
from spark_jobs.source.server import Server
from spark_jobs.source.server_facts import ask_facts, has_inline_keys, logs_cascades
from tests.fix_mysql import Database, database_of
from tests.fix_servers import Servers

STATEMENTS = (
    "CREATE TABLE p (id INT PRIMARY KEY)",
    (
        "CREATE TABLE c (id INT PRIMARY KEY, pid INT, CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) "
        "ON DELETE CASCADE ON UPDATE SET NULL, CONSTRAINT g FOREIGN KEY (pid) REFERENCES p (id))"
    ),
    "CREATE TABLE other LIKE p",
)


def facts_of(database: Database, in_scope: Callable[[str, str], bool]) -> ServerFacts:
    """As a user sees them that may read tables and the log, and no more."""
    server = database.server
    database.execute("CREATE USER IF NOT EXISTS reader@'%' IDENTIFIED BY 'secret'")
    database.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader@'%'")
    source = Server("shop", MySQL(host=server.host, port=server.port, user="reader", password="secret"))
    with source.connect() as connection:
        return ask_facts(source, connection, source.variables(connection), in_scope)


@pytest.mark.mysql
@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-8.0", "mariadb-11.4"])
def test_servers_tell_foreign_keys_that_cascade_to_users_that_may_only_read(servers: Servers, name: str) -> None:
    server = servers.get(name)
    with database_of(server) as database:
        for statement in STATEMENTS:
            database.execute(statement)
        facts = facts_of(database, lambda schema, _: schema == database.name)
        parent = TableName(database.name, "p")
        key = ForeignKey("f", parent, "CASCADE", "SET NULL", columns=("pid",), parent_columns=("id",))
        assert facts.foreign_keys == ((TableName(database.name, "c"), key),)
        assert facts.versioned == ()
        assert facts.has_inline_keys == (name == "mariadb-11.4")
        assert not facts.logs_cascades
        assert facts_of(database, lambda _, table: table != "c").foreign_keys == ()


@pytest.mark.mysql
def test_mariadb_tells_which_tables_are_system_versioned(servers: Servers) -> None:
    with database_of(servers.get("mariadb-11.4")) as database:
        database.execute("CREATE TABLE v (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
        database.execute("CREATE SEQUENCE s")
        facts = facts_of(database, lambda schema, _: schema == database.name)
        assert facts.versioned == (TableName(database.name, "v"),)


@pytest.mark.parametrize(
    "version, native, inline, logged",
    [
        ("5.7.22-log", None, False, False),
        ("8.0.12", None, False, False),
        ("9.0.1", None, True, False),
        ("9.6.0", "OFF", True, True),
        ("9.7.2", "ON", True, False),
        ("10.4.32-MariaDB-log", None, False, False),
        ("11.4.5-MariaDB-log", None, True, False),
    ],
)
def test_versions_differ_in_inline_keys_and_in_what_is_logged(
    version: str, native: str | None, inline: bool, logged: bool
) -> None:
    variables = {"version": version} | ({"innodb_native_foreign_keys": native} if native else {})
    assert (has_inline_keys(variables), logs_cascades(variables)) == (inline, logged)
