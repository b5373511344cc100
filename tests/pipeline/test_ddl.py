"""Tables whose columns and rows statements change: downstream stays what the server has, at every pause."""

import re
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.config.servers import MySQL
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.source.server import Server
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import Servers
from tests.lakes.lake_tables import table_rows
from tests.services.servers import SERVERS

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def test_a_truncate_empties_the_table_at_its_place(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)")
    shop.run(pipeline)
    shop.execute("INSERT INTO t VALUES (3,3)", "TRUNCATE t", "INSERT INTO t VALUES (2,20),(4,40)")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    shop.execute("TRUNCATE TABLE t")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")


@pytest.mark.long
def test_columns_come_and_go(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1,1),(2,2)")
    shop.run(pipeline)
    shop.execute(
        "INSERT INTO t VALUES (3,3)",
        "ALTER TABLE t ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'new' AFTER id, ADD price DECIMAL(10,2)",
        "INSERT INTO t VALUES (4,'x',4,1.25)",
        "ALTER TABLE t DROP COLUMN v",
        "UPDATE t SET note = 'changed' WHERE id = 1",
    )
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    shop.execute("ALTER TABLE t ADD (a INT DEFAULT -5, b DATE DEFAULT '2024-02-29') , RENAME COLUMN note TO label")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")


@pytest.mark.thorough
def test_statements_of_sessions_with_ansi_quotes(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute(
        "SET SESSION sql_mode = 'ANSI,STRICT_ALL_TABLES'",
        """CREATE TABLE "t" ("the id" INT, "a ""b`" REAL, note CHAR(9) DEFAULT 'say "x"', PRIMARY KEY ("the id"))""",
        "INSERT INTO t VALUES (1, 1.5, 'first')",
        """ALTER TABLE "t" RENAME COLUMN "the id" TO id, ADD COLUMN "new one" CHAR(5) DEFAULT 'it''s' FIRST""",
        "INSERT INTO t (id) VALUES (2)",
    )
    _, outcome = shop.run(pipeline)
    shop.execute('RENAME TABLE "t" TO "other"', "UPDATE other SET note = 'changed' WHERE id = 1")
    shop.execute('RENAME TABLE "other" TO "t"', 'ALTER TABLE "t" DROP COLUMN "a ""b`"')
    _, repeated = shop.run(pipeline)
    assert (outcome.stopped, repeated.stopped) == ({}, {})
    require_same(shop, pipeline, "t")


@pytest.mark.parametrize("on_drop", ["keep", pytest.param("drop", marks=pytest.mark.long)])
def test_a_table_is_dropped_and_made_again(shop: Shop, on_drop: str) -> None:
    pipeline = shop.pipeline(on_drop=on_drop)
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO t VALUES (1,1,1),(2,2,2)")
    shop.run(pipeline)
    shop.execute("INSERT INTO t VALUES (3,3,3)", "DROP TABLE IF EXISTS t")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    assert [row[0] for row in shop.merged(pipeline, "t")] == ([1, 2, 3] if on_drop == "keep" else [])
    shop.execute("CREATE TABLE t (code VARCHAR(9), v INT, w DATE, PRIMARY KEY (code))", "CREATE TABLE u LIKE t")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    shop.execute("INSERT INTO t VALUES ('x', 1, '2024-02-29')", "DROP TABLE t", "CREATE TABLE t LIKE u")
    shop.execute("ALTER TABLE u DROP v", "INSERT INTO t VALUES ('y', 5, NULL)")
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")


@pytest.mark.long
def test_names_come_from_statements_where_the_log_has_none(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        shop.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT UNSIGNED, e ENUM('a','b'))",
            "INSERT INTO t VALUES (1,4000000000,'b')",
            "ALTER TABLE t ADD note VARCHAR(9) DEFAULT 'ü' AFTER id, RENAME COLUMN v TO w",
            "INSERT INTO t VALUES (2,'é',2,'a')",
        )
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        require_same(shop, pipeline, "t")
        shop.execute("ALTER TABLE t MODIFY w BIGINT FIRST, DROP note", "TRUNCATE t", "INSERT INTO t VALUES (5,5,'a')")
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        require_same(shop, pipeline, "t")
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


ZEROS = {"d": "0000-00-00 00:00:00.00", "e": "0000-00-00"}


@pytest.mark.long
def test_exact_texts_stay_with_their_columns(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE t (id INT PRIMARY KEY, a DATE, b DATE)",
        "INSERT INTO t VALUES (1, '0000-00-00', '2024-02-00')",
    )
    shop.run(pipeline)
    shop.execute(
        "ALTER TABLE t DROP a, CHANGE b c DATE",
        "INSERT INTO t VALUES (2, '2023-00-00')",
        "ALTER TABLE t ADD d DATETIME(2) NOT NULL, ADD e DATE DEFAULT '0000-00-00'",
        "INSERT INTO t VALUES (3, '2023-01-01', '2023-01-01', NULL)",
    )
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    rows = sorted(table_rows(lake_of(pipeline).downstream(shop.database.name, "t")), key=lambda row: row["id"])
    assert [(row["id"], row["c"], row["_raw"]) for row in rows] == [
        (1, None, {"c": "2024-02-00"} | ZEROS),
        (2, None, {"c": "2023-00-00"} | ZEROS),
        (3, date(2023, 1, 1), None),
    ]
    require_same(shop, pipeline, "t")


@pytest.mark.long
@pytest.mark.parametrize("server", ["mysql-5.7", "mariadb-11.4"])
def test_servers_that_log_types_alone(servers: Servers, server: str, spark: SparkSession, tmp_path: Path) -> None:
    running = servers.get(server)
    with running.connect() as connection:
        database = Database("ddl", running, connection)
        database.execute("CREATE DATABASE ddl CHARACTER SET latin1")
        connection.select_db("ddl")
        file, offset = database.execute("SHOW MASTER STATUS")[0][:2]
        shop = Shop(spark, database, tmp_path, Position(file, offset))
        pipeline = shop.pipeline()
        shop.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT UNSIGNED, s VARCHAR(9)) DEFAULT CHARSET=latin1",
            "INSERT INTO t VALUES (1,4000000000,'ü')",
            "ALTER TABLE t ADD COLUMN note CHAR(9) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'é ' AFTER id",
            "ALTER TABLE t CHANGE v w BIGINT, DROP COLUMN s",
            "INSERT INTO t VALUES (2,'ß',-2)",
        )
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        require_same(shop, pipeline, "t")
        shop.execute(
            "TRUNCATE TABLE t", "ALTER TABLE t ADD n TINYINT DEFAULT 3", "INSERT INTO t (id, note) VALUES (7,'')"
        )
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        require_same(shop, pipeline, "t")
        database.execute("DROP DATABASE ddl")


@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS)
def test_rows_written_before_have_the_time_of_the_statement(
    servers: Servers, server: str, spark: SparkSession, tmp_path: Path
) -> None:
    running = servers.get(server)
    with running.connect() as connection:
        database = Database("moments", running, connection)
        database.execute("CREATE DATABASE moments")
        connection.select_db("moments")
        login = {"host": running.host, "port": running.port, "user": running.user, "password": running.password}
        shop = Shop(spark, database, tmp_path, Server(SOURCE, MySQL.model_validate(login)).log().end)
        pipeline = shop.pipeline()
        shop.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in "tuw"))
        shop.execute(*(f"INSERT INTO {name} VALUES (1,1),(2,2)" for name in "tuw"))
        begin = shop.run(pipeline)[0].range.start
        shop.execute(
            "SET time_zone = '+05:30'",
            "DO SLEEP(1.1)",
            "ALTER TABLE t ADD a TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD b TIMESTAMP(6) NULL DEFAULT NOW(6)",
            "ALTER TABLE t ADD c DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, "
            "ADD d DATETIME(3) NOT NULL DEFAULT LOCALTIMESTAMP(3) FIRST, ALGORITHM=COPY",
            "ALTER TABLE t ADD e TIMESTAMP DEFAULT '2024-02-29 03:00:00', ADD f DATETIME DEFAULT '2024-02-29 03:00:00'",
            "SET time_zone = 'SYSTEM'",
            "ALTER TABLE u ADD a TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3)",
            "ALTER TABLE w ADD a DATETIME DEFAULT CURRENT_TIMESTAMP",
            "SET time_zone = '+00:00', timestamp = 1900000000.123456",
            "ALTER TABLE u ADD b DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6), ADD c TIMESTAMP(2) DEFAULT NOW(2)",
            "SET timestamp = DEFAULT",
            *(f"INSERT INTO {name} (id, v) VALUES (3,3)" for name in "tuw"),
            "UPDATE t SET v = 20 WHERE id = 2",
        )
        extracted, outcome = shop.run(pipeline)
        assert [name.table for name in outcome.stopped] == ["w"], outcome.stopped
        (stopped,) = outcome.stopped.values()
        assert re.search(r"moments\.w: .*column a .*time zone is the server's own \(SYSTEM\)", stopped)
        for name in "tu":
            require_same(shop, pipeline, name)
        ((zone,),) = database.execute("SELECT @@system_time_zone")
        origin = {"files": str(running.data), "start": str(shop.start), "system_time_zone": zone}
        pipeline = shop.pipeline(sources={SOURCE: origin})
        assert shop.run(pipeline)[1].stopped == {}
        require_same(shop, pipeline, "w")
        log_range = Range(begin, extracted.range.stop)
        repeated = backfill_source(spark, pipeline, SOURCE, log_range, lambda name: name.table != "w")
        assert (repeated.stopped, repeated.compacted) == ({}, [])
        database.execute("DROP DATABASE moments")
