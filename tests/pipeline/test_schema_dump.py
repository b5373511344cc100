"""Logs that name no columns, read from files alone with a schema dump: the tables are the server's all the same."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.cli.group import cli
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.schema import history as schema_history
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import build_or_skip
from tests.services.schema_dumps import dump_position, execute, schema_dump

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

MADE = (
    "CREATE DATABASE shop DEFAULT CHARACTER SET latin1",
    "USE shop",
    """CREATE TABLE orders (
        id INT UNSIGNED NOT NULL AUTO_INCREMENT, `weird ;,` INT DEFAULT 7 COMMENT 'it''s; /* no comment */ -- x',
        name VARCHAR(20), text VARCHAR(30) CHARACTER SET utf8mb4, price DECIMAL(10,2) NOT NULL DEFAULT '1.50',
        state ENUM('new','pa;id') NOT NULL, tags SET('a','b'), at TIMESTAMP(3) NULL, big BIGINT UNSIGNED,
        flag BIT(3), code VARBINARY(5), body TEXT, PRIMARY KEY (id), KEY by_name (name)
    ) PARTITION BY HASH (id) PARTITIONS 2""",
    "CREATE TABLE onward (a INT PRIMARY KEY, b VARCHAR(9))",
    "CREATE TABLE given (k INT PRIMARY KEY, v INT)",
    "CREATE TABLE bag (a INT, b INT)",
    "CREATE TABLE early (a INT PRIMARY KEY, b INT)",
    "CREATE TABLE gone (a INT PRIMARY KEY)",
    "CREATE VIEW seen AS SELECT id, name FROM orders",
    "CREATE TRIGGER counts BEFORE INSERT ON bag FOR EACH ROW BEGIN SET NEW.b = 1; -- it's\n SET NEW.b = NEW.a; END",
)
BEFORE = (
    """INSERT INTO orders (name, text, state, tags, at, big, flag, code, body) VALUES
        ('caf\u00e9', '\u20ac', 'new', 'a,b', '2026-11-22 08:00:00.125', 18446744073709551615, b'101', x'00ff', 'x')""",
    "INSERT INTO given VALUES (1, 1), (2, 2)",
    "INSERT INTO early VALUES (1, 1)",
    "ALTER TABLE early DROP COLUMN b, ADD c INT",
    "INSERT INTO gone VALUES (1)",
)
BEHIND = (
    "ALTER TABLE onward ADD COLUMN c DECIMAL(5,1) NOT NULL DEFAULT 2.5 AFTER a, CHANGE b d VARCHAR(12)",
    "INSERT INTO onward VALUES (1, 1.5, 'one')",
    "UPDATE orders SET price = 9, state = 'pa;id' WHERE id = 1",
    "ALTER TABLE orders ADD COLUMN extra INT UNSIGNED NULL, DROP COLUMN code",
    "INSERT INTO orders (name, state, extra) VALUES ('two', 'new', 4000000000)",
    "RENAME TABLE given TO taken",
    "DELETE FROM taken WHERE k = 1",
    "INSERT INTO taken VALUES (3, 3)",
    "INSERT INTO bag VALUES (1, 0), (1, 0), (2, 0)",
    "INSERT INTO early VALUES (2, 2)",
    "DROP TABLE gone",
    "CREATE TABLE made (id INT PRIMARY KEY, x VARCHAR(5))",
    "INSERT INTO made VALUES (1, 'x')",
)
TEXTS = {
    "CHANGE b d VARCHAR(12)": "CHANGE b d VARCHAR(12) CHARACTER SET latin1",
    "x VARCHAR(5))": "x VARCHAR(5)) CHARACTER SET latin1",
}
"""Position where rows do not tell the character set of a text, its statement has to."""
TABLES = ("orders", "onward", "taken", "bag", "made")


LOG_CHARACTER_SETS = ("mysql-8.0", "mysql-9.7")


def with_character_sets(statement: str) -> str:
    for text, charset in TEXTS.items():
        statement = statement.replace(text, charset)
    return statement


def begin_log(server: MySQLServer) -> None:
    """What was logged until now is gone."""
    try:
        execute(server, "RESET MASTER")
    except Exception:  # noqa: BLE001 - MySQL from 8.4 on has other words for it
        execute(server, "RESET BINARY LOGS AND GTIDS")


def copied(server: MySQLServer, folder: Path) -> Path:
    """The server's binlog files, all of them closed."""
    execute(server, "FLUSH BINARY LOGS")
    folder.mkdir(exist_ok=True)
    for file in sorted(server.data.glob("mysql-bin.[0-9]*"))[:-1]:
        shutil.copy(file, folder)
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mysql-5.7", "mysql-8.0", "mysql-9.7", "mariadb-10.11", "mariadb-11.4"])
def test_tables_that_only_a_dump_names_are_the_server_s(
    name: str, spark: SparkSession, tmp_path: Path, summary: list[str]
) -> None:
    build = build_or_skip(name)
    options = {"binlog_row_metadata": None, "log_bin_trust_function_creators": "ON"}
    with MySQLServer(tmp_path / "server", options, build) as server, server.connect(database=None) as connection:
        execute(server, *MADE)
        begin_log(server)
        execute(server, "USE shop", *BEFORE)
        at = dump_position(server)
        dump, program = schema_dump(name, server, "shop")
        assert at.rpartition(":")[2] in dump
        execute(server, "USE shop", *(BEHIND if name in LOG_CHARACTER_SETS else map(with_character_sets, BEHIND)))
        path = tmp_path / "schema.sql"
        path.write_text(dump, encoding="utf-8")
        source = {"files": str(copied(server, tmp_path / "log")), "schema_dump": "schema.sql"}
        connection.select_db("shop")
        shop = Shop(spark, Database("shop", server, connection), tmp_path, Position.parse(at))
        pipeline = shop.pipeline(sources={SOURCE: source}, tables=["shop.*"])
        _, outcome = shop.run(pipeline)
        for table in TABLES:
            assert TableName("shop", table) not in outcome.stopped, outcome.stopped
            require_same(shop, pipeline, table)
        (stopped,) = outcome.stopped.items()
        assert stopped[0] == TableName("shop", "early")
        assert "ALTER TABLE at" in stopped[1]
        printed = CliRunner().invoke(cli, ["schema", "-c", str(tmp_path / "pipeline.yaml"), "--at", at])
        assert f"shop.orders at {at}: key id, from the schema dump at {at}\n" in printed.stdout
        _, repeated = shop.run(pipeline)
        assert repeated.stopped.keys() == {TableName("shop", "early")}
        history = schema_history.read(lake_of(pipeline), SOURCE)
        versions = [version for version in history.versions if version.origin == "dump"]
        assert {version.at for version in versions} == {Position.parse(at)}
        assert not [version for version in versions if not version.holds or version.differs]
    summary.append(f"{name}: {len(TABLES)} tables of a log without names, by a dump of {program} at {at}")


@pytest.mark.thorough
def test_a_dump_that_comes_later_or_is_another_one(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without one the tables stop.

    With one whose position is behind the files too; then it is taken in at its position.
    """
    with MySQLServer(tmp_path / "server", {"binlog_row_metadata": None}) as server, server.connect() as connection:
        execute(server, "CREATE DATABASE shop", "CREATE TABLE shop.t (a INT PRIMARY KEY, b VARCHAR(5), c INT)")
        execute(server, "CREATE TABLE shop.wrong (a INT)")
        begin_log(server)
        execute(server, "INSERT INTO shop.t VALUES (1, 'x', 1)", "INSERT INTO shop.wrong VALUES (1)")
        source = {"files": str(copied(server, tmp_path / "log"))}
        connection.select_db("shop")
        shop = Shop(spark, Database("shop", server, connection), tmp_path, Position("mysql-bin.000001", 4))

        def stopped(**keys: str) -> dict[str, str]:
            pipeline = shop.pipeline(sources={SOURCE: source | keys}, tables=["shop.*"])
            _, outcome = shop.run(pipeline)
            return {name.table: reason for name, reason in outcome.stopped.items()}

        assert "no definition was read from a server" in stopped()["t"]

        execute(server, "INSERT INTO shop.t VALUES (2, 'y', 2)")
        behind = tmp_path / "behind.sql"
        text, _ = schema_dump("mysql-8.0", server, "shop")
        behind.write_text(text.replace("CREATE TABLE `wrong` (\n  `a` int", "CREATE TABLE `wrong` (\n  `a` bigint"))
        assert "after the log's end" in stopped(schema_dump="behind.sql")["t"]

        execute(server, "ALTER TABLE shop.t ADD d INT NULL FIRST", "INSERT INTO shop.t VALUES (9, 3, 'z', 3)")
        copied(server, tmp_path / "log")
        reasons = stopped(schema_dump="behind.sql")
        assert reasons.keys() == {"wrong"}
        assert "the schema dump does not tell them: its rows have types (@1 int" in reasons["wrong"]
        assert "says shop.wrong (a bigint" in reasons["wrong"]
        pipeline = shop.pipeline(sources={SOURCE: source | {"schema_dump": "behind.sql"}}, tables=["shop.*"])
        require_same(shop, pipeline, "t")
        assert "the schema dump has changed" not in caplog.text

        bronze = lake_of(pipeline).bronze(SOURCE)
        start = bronze.head()
        execute(server, "UPDATE shop.t SET b = 'w' WHERE a = 3")
        copied(server, tmp_path / "log")
        assert stopped(schema_dump="behind.sql").keys() == {"wrong"}
        end = bronze.head()
        assert start is not None
        assert start.position is not None
        assert end is not None
        assert end.position is not None
        log_range = Range(start.position, end.position)
        replayed = backfill_source(spark, pipeline, SOURCE, log_range, lambda name: name.table == "t")
        assert replayed.stopped == {}
        require_same(shop, pipeline, "t")

        behind.write_text(text.replace("`c` int", "`other` int"))
        assert stopped(schema_dump="behind.sql") == {}
        require_same(shop, pipeline, "wrong")
        assert "shop: the schema dump has changed, and tells otherwise of shop.t" in caplog.text
