"""Statements whose text misleads who matches words: what the log of real servers leads to are their tables."""

from typing import Any

import pytest

from spark_jobs.config.servers import MySQL
from spark_jobs.ddl.diff import differences
from spark_jobs.schema.tracker import Tracker, as_of
from spark_jobs.source.information_schema import on_server
from spark_jobs.source.server import Server
from tests.fix_mysql import Database
from tests.spark_jobs.schema.test_tracker import facts_of, opened
from tests.spark_jobs.silver.test_table_timeline_on_server import Log

PARTITIONED = (
    "CREATE TABLE p (a INT PRIMARY KEY) /*!50100 PARTITION BY LIST (a) "
    "(PARTITION p0 VALUES IN (0), PARTITION p1 VALUES IN (1), PARTITION p2 VALUES IN (2)) */"
)
ON_BOTH = [
    "CREATE TABLE t (id INT PRIMARY KEY, v INT) COMMENT 'made IF NOT EXISTS'",
    "CREATE TABLE IF /* really */ NOT\nEXISTS t (z INT)",
    "ALTER TABLE t ADD `partition` INT COMMENT ', RENAME TO u'",
    "ALTER TABLE t DROP `partition`",
    "DROP TABLE IF EXISTS `if`, /* t, */ `exists`",
    "CREATE TABLE u (a INT PRIMARY KEY, `if not exists` INT) COMMENT 'LIKE t'",
    "RENAME TABLE t TO tmp, u TO t, tmp TO u",
    "ALTER TABLE u COMMENT 'RENAME TO x', RENAME TO w",
    "CREATE TABLE `like` LIKE w",
    PARTITIONED,
    "ALTER TABLE p DROP PARTITION p0, p1",
    "/*!50001 ALTER TABLE p ADD b INT */",
    "CREATE UNIQUE INDEX `on` ON w (v)",
    "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES'",
    'RENAME TABLE "w" TO "rename to t"',
    'ALTER TABLE "rename to t" ADD "x""y" INT DEFAULT 5',
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
]
ON_MARIADB = [
    "SET STATEMENT lock_wait_timeout = 5 FOR RENAME TABLE t TO x",
    "ALTER TABLE x NOWAIT ADD n INT",
    "ALTER TABLE x WAIT 5 ADD m INT, RENAME TO y",
    "SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE y ADD o INT",
    "CREATE OR REPLACE INDEX i ON y (n)",
    "CREATE OR REPLACE TABLE y (b INT) COMMENT 'IF NOT EXISTS'",
    "DROP TABLE `like` WAIT 5",
]


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.parametrize("server", ["", "mariadb-11.4"])
def test_texts_that_hold_words_of_ddl_lead_to_the_server_s_tables(request: pytest.FixtureRequest, server: str) -> None:
    if server:
        with opened(request.getfixturevalue("servers"), server) as database:
            require_same_after_each(database, [*ON_BOTH, *ON_MARIADB])
    else:
        require_same_after_each(request.getfixturevalue("database"), ON_BOTH)


def require_same_after_each(database: Database, statements: list[str]) -> None:
    server = database.server
    login: dict[str, Any] = {"host": server.host, "port": server.port, "user": server.user}
    source = Server("shop", MySQL(**login, password=server.password))
    database.execute("FLUSH BINARY LOGS")
    file = database.execute("SHOW MASTER STATUS")[0][0]
    for statement in statements:
        database.execute(statement)
        log = Log(file, (server.data / file).read_bytes(), 4)
        versions = as_of(Tracker().follow(facts_of(log)), log.at(log.stop)).values()
        followed = {
            version.name: version
            for version in versions
            if version.name.schema == database.name and not version.is_dropped
        }
        declared = {name: definition for name, definition in on_server(source).items() if name.schema == database.name}
        assert followed.keys() == declared.keys(), statement
        for name, version in followed.items():
            assert version.definition is not None, (statement, version.note)
            # Names and types: which unique index is the key may be open after a statement, until rows tell.
            column_names = (definition.column_names() for definition in (version.definition, declared[name]))
            assert len({tuple(names) for names in column_names}) == 1, statement
            assert [line for line in differences(version.definition, declared[name]) if "key" not in line] == []
