"""Statements of clients that do not speak UTF-8, on real servers: names and labels are the server's own."""

from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.servers import MySQL
from spark_jobs.ddl.diff import differences
from spark_jobs.log.position import Position
from spark_jobs.schema.tracker import Tracker, as_of
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.server import Server
from tests.fix_servers import Servers
from tests.spark_jobs.schema.test_tracker import facts_of
from tests.spark_jobs.silver.test_table_timeline_on_server import Log

pytestmark = pytest.mark.mysql

CLIENTS = {
    "latin1": ("cp1252", "é", "€"),
    "gbk": ("gbk", "乗", "中"),  # 0x5C is the second byte of the first
    "sjis": ("shift_jis", "表", "日"),
    "big5": ("big5", "功", "許"),
    "cp1251": ("cp1251", "Ж", "я"),
    "utf8": ("utf8", "é", "日"),
}
STATEMENTS = (
    "CREATE TABLE `t{a}` (id INT PRIMARY KEY, `c{a}` ENUM('l{a}', 'x{b}'), n VARCHAR(9) DEFAULT '{b}' COMMENT '{a}')",
    "CREATE TABLE `t{b}` (id INT PRIMARY KEY, s{a} SET('{b}', '{a}'))",
    "ALTER TABLE `t{a}` ADD `d{b}` ENUM('{a}') AFTER `c{a}`, MODIFY `c{a}` ENUM('l{a}', 'x{b}', '{b}{a}')",
    "CREATE TEMPORARY TABLE tmp{a} (id INT PRIMARY KEY, `c{a}` ENUM('l{a}', 'l{b}'))",
    "CREATE TABLE `like{a}` LIKE tmp{a}",
    "CREATE TABLE `copy{a}` LIKE `t{a}`",
    "CREATE TABLE `query{a}` (`c{b}` ENUM('{a}', '{b}'), KEY (`c{b}`)) SELECT 1 `id{a}`",
    "CREATE PROCEDURE p() CREATE TABLE `in{a}` (`c{a}` ENUM('l{b}'))",
    "CALL p()",
    "RENAME TABLE `t{b}` TO `new{b}`, `copy{a}` TO `t{b}{a}`",
    "ALTER TABLE `new{b}` RENAME TO `t{b}`, CHANGE s{a} `z{b}` SET('{b}', '{a}', 'z')",
    "DROP TABLE `in{a}`",
    "CREATE TABLE `m{a}` (id INT PRIMARY KEY, c ENUM('{a}')) ENGINE = MEMORY",
)


def shape(definition: TableDefinition) -> list[tuple[str | None, str]]:
    return [(column.name, column.sql_type) for column in definition.columns]


@pytest.mark.parametrize("charset", CLIENTS)
@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-5.7", "mariadb-11.4"])
def test_names_and_labels_are_the_servers(name: str, charset: str, servers: Servers) -> None:
    server = servers.get(name)
    codec, first, two = CLIENTS[charset]
    is_mariadb = name.startswith("mariadb")
    schema = f"client_{charset}_{first}"

    def in_set(statement: str) -> bytes:
        return statement.replace("{a}", first).replace("{b}", two).encode(codec)

    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        file = str(cursor.fetchall()[0][0])
        cursor.execute(f"SET NAMES {charset}")
        connection.query(f"CREATE DATABASE `{schema}` CHARACTER SET utf8mb4".encode(codec))
        connection.query(f"USE `{schema}`".encode(codec))
        try:
            for statement in STATEMENTS:
                if is_mariadb or " SELECT " not in statement:  # which MySQL refuses where it has GTIDs
                    connection.query(in_set(statement))
            log = Log(file, (server.data / file).read_bytes(), 4)
            followed = {
                table: version.definition
                for table, version in as_of(Tracker().follow(facts_of(log)), Position(file, log.stop)).items()
                if table.schema == schema and not version.is_dropped and not table.table.startswith("tmp")
            }
            login: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
            declared = {
                table: definition
                for table, definition in on_server(Server("shop", MySQL(**login, password=server.password))).items()
                if table.schema == schema
            }
        finally:
            connection.query(f"DROP DATABASE `{schema}`".encode(codec))
    assert {table.table for table in followed} == {table.table for table in declared}
    assert len(declared) == (6 if is_mariadb else 5)
    for table, definition in declared.items():
        found_definition = followed[table]
        assert found_definition is not None, table
        assert shape(found_definition) == shape(definition)
        assert differences(found_definition, definition) == []
