"""A first run on logs that name no columns and begin behind the CREATE TABLEs: what is told at their end leads back."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.cli.group import cli
from spark_jobs.config.model import Pipeline
from spark_jobs.demo.server import MySQLServer
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.schema import history as schema_history
from spark_jobs.source.information_schema import ask
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import build_or_skip
from tests.pipeline.test_schema_dump import begin_log, copied
from tests.services.schema_dumps import execute, schema_dump

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

NAMES = ("mysql-5.7", "mysql-8.0", "mysql-9.7", "mariadb-10.11", "mariadb-11.4")
FULL_METADATA = ("mysql-8.0", "mysql-9.7")
"""Whose logs tell signs and character sets."""


@dataclass(frozen=True)
class Case:
    """A table made before the log begins, what is done with it there, and where that leads to.

    table: its name in the end; ``{t}`` in statements is the one at first. reason: what stops it, with a log that tells
    neither sign nor character set; reason_anyway: with any.
    """

    create: str
    statements: tuple[str, ...]
    reason: str | None = None
    reason_anyway: str | None = None
    table: str = "{t}"


CASES = {
    "added": Case(
        "(id INT PRIMARY KEY, a VARCHAR(9), b INT UNSIGNED)",
        (
            "UPDATE {t} SET b = 4000000000",
            "ALTER TABLE {t} ADD COLUMN c VARCHAR(20) DEFAULT 'x', ADD d DECIMAL(7,2) NOT NULL DEFAULT 1.5 FIRST",
            "UPDATE {t} SET c = 'caf\u00e9' WHERE id = 1",
            "ALTER TABLE {t} ADD COLUMN (e INT NULL, f ENUM('x','y')), ADD COLUMN g TIMESTAMP(3) NULL AFTER a",
            "UPDATE {t} SET f = 'y', e = -1 WHERE id = 2",
        ),
    ),
    "nothing": Case(
        "(id INT PRIMARY KEY, a VARCHAR(9), b INT UNSIGNED, KEY old (b))",
        (
            "UPDATE {t} SET b = 1",
            "ALTER TABLE {t} ADD INDEX by_a (a), DROP INDEX old, COMMENT 'nothing', ENGINE = InnoDB",
            "UPDATE {t} SET b = 2 WHERE id = 1",
            "CREATE UNIQUE INDEX two ON {t} (a, id)",
            "ALTER TABLE {t} ALTER b SET DEFAULT 7",
            "ALTER TABLE {t} PARTITION BY HASH (id) PARTITIONS 2",
            "INSERT INTO {t} (id, a) VALUES (7, 'q')",
            "DROP INDEX two ON {t}",
            "ALTER TABLE {t} REMOVE PARTITIONING",
            "UPDATE {t} SET b = 3 WHERE id = 2",
        ),
    ),
    "renamed": Case(
        "(id INT PRIMARY KEY, a VARCHAR(9), b INT)",
        (
            "UPDATE {t} SET b = 1",
            "ALTER TABLE {t} CHANGE b c INT",
            "UPDATE {t} SET c = 2 WHERE id = 1",
            "ALTER TABLE {t} ADD b INT NOT NULL DEFAULT 3",
            "RENAME TABLE {t} TO {t}_1, {t}_1 TO {t}_2",
            "UPDATE {t}_2 SET b = 4 WHERE id = 1",
            "ALTER TABLE {t}_2 ADD z INT NULL, RENAME TO {t}_3",
            "UPDATE {t}_3 SET z = 4 WHERE id = 2",
        ),
        table="{t}_3",
    ),
    "widened": Case(
        "(id INT PRIMARY KEY, a DECIMAL(7,2), b INT UNSIGNED, c DATETIME, d BIT(3), e SMALLINT UNSIGNED NOT NULL)",
        (
            "UPDATE {t} SET b = 4000000000, a = 1.25, c = '2024-02-29 12:00:00', d = b'101', e = 65535",
            "ALTER TABLE {t} MODIFY b BIGINT UNSIGNED, MODIFY a DECIMAL(12,3), MODIFY c DATETIME(6), MODIFY d BIT(9)",
            "UPDATE {t} SET b = 18446744073709551615, a = 123456789.125 WHERE id = 1",
            "ALTER TABLE {t} CHANGE e f INT UNSIGNED",
            "UPDATE {t} SET f = 4294967295, c = '2024-02-29 12:00:00.5' WHERE id = 2",
        ),
    ),
    "signed": Case(
        "(id INT PRIMARY KEY, a INT)",
        ("UPDATE {t} SET a = -1", "ALTER TABLE {t} MODIFY a BIGINT", "UPDATE {t} SET a = -5000000000 WHERE id = 1"),
        reason="the log does not tell the sign that had before",
    ),
    "texts": Case(
        "(id INT PRIMARY KEY, a VARCHAR(9))",
        (
            "UPDATE {t} SET a = 'caf\u00e9'",
            "ALTER TABLE {t} CHANGE a b VARCHAR(300)",
            "UPDATE {t} SET b = 'other' WHERE id = 1",
        ),
        reason="the log does not tell the character set that had before",
    ),
    "moved": Case(
        "(id INT PRIMARY KEY, a DATE, b BIT(5), c YEAR)",
        (
            "UPDATE {t} SET a = '2024-02-29', b = 3, c = 1999",
            "ALTER TABLE {t} MODIFY c YEAR AFTER id",
            "UPDATE {t} SET b = 4 WHERE id = 1",
        ),
    ),
    "unsettled": Case(
        "(id INT PRIMARY KEY, a DATE, b DATE)",
        (
            "UPDATE {t} SET a = '2024-02-29', b = '1999-12-31'",
            "ALTER TABLE {t} MODIFY b DATE AFTER id",
            "UPDATE {t} SET b = '2000-01-01' WHERE id = 1",
        ),
        reason_anyway="the rows do not tell which",
    ),
    "dropped": Case(
        "(id INT PRIMARY KEY, a INT, b INT)",
        ("UPDATE {t} SET b = 1", "ALTER TABLE {t} DROP COLUMN a", "UPDATE {t} SET b = 2 WHERE id = 1"),
        reason_anyway="it drops column a, and what that was is in no log",
    ),
    "rekeyed": Case(
        "(id INT PRIMARY KEY, a INT NOT NULL)",
        ("UPDATE {t} SET a = id + 5", "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (a)", "UPDATE {t} SET id = 9"),
        reason_anyway="it changes keys",
    ),
    "converted": Case(
        "(id INT PRIMARY KEY, a VARCHAR(9), f ENUM('x'))",
        (
            "UPDATE {t} SET a = 'caf\u00e9', f = 'x'",
            "ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4",
            "UPDATE {t} SET a = '\u20ac' WHERE id = 1",
        ),
        reason="the log does not tell the character set that had before",
    ),
    "made": Case(
        "(id INT PRIMARY KEY)",
        (
            "DROP TABLE {t}",
            "CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(5))",
            "INSERT INTO {t} VALUES (1, 'x')",
            "ALTER TABLE {t} ADD b VARCHAR(5) DEFAULT 'y', CHANGE id k INT",
            "INSERT INTO {t} VALUES (2, 'z', 'z')",
        ),
    ),
    "late": Case(
        "(id INT PRIMARY KEY, a INT, b INT)",
        ("ALTER TABLE {t} DROP COLUMN a", "ALTER TABLE {t} ADD c INT NULL", "UPDATE {t} SET b = 2, c = 1"),
    ),
}
SWAPPED = (
    "UPDATE one SET a = 2",
    "UPDATE two SET b = 'x'",
    "RENAME TABLE one TO old, two TO one, old TO two",
    "UPDATE one SET b = 'y' WHERE id = 1",
    "UPDATE two SET a = 3 WHERE id = 1",
    "ALTER TABLE one ADD c INT NOT NULL DEFAULT 4 AFTER id",
    "ALTER TABLE two ADD c INT NOT NULL DEFAULT 5 FIRST",
    "UPDATE one SET c = 6 WHERE id = 1",
    "UPDATE two SET c = 7 WHERE id = 1",
)


def make(server: MySQLServer) -> None:
    """The tables with two rows each, of which the log that follows says nothing."""
    execute(server, "CREATE DATABASE shop DEFAULT CHARACTER SET latin1")
    for name, case in CASES.items():
        execute(server, "USE shop", f"CREATE TABLE {name} {case.create}")
        extra_column = ", e" if name == "widened" else ", a" if name == "rekeyed" else ""
        values = ["(1, 1), (2, 2)" if extra_column else "(1), (2)"]
        execute(server, "USE shop", f"INSERT INTO {name} (id{extra_column}) VALUES {values[0]}")
    execute(server, "USE shop", "CREATE TABLE one (id INT PRIMARY KEY, a INT)", "INSERT INTO one VALUES (1, 1)")
    execute(server, "USE shop", "CREATE TABLE two (id INT PRIMARY KEY, b VARCHAR(7))", "INSERT INTO two VALUES (1, '')")
    begin_log(server)


def write(server: MySQLServer) -> None:
    for name, case in CASES.items():
        execute(server, "USE shop", *(statement.replace("{t}", name) for statement in case.statements))
    execute(server, "USE shop", *SWAPPED)


def require_outcome(shop: Shop, pipeline: Pipeline, stopped: dict[str, str], *, logs_full_metadata: bool) -> int:
    """Each table is the server's or stops for its own reason; how many are the server's."""
    reasons = {
        name: case.reason_anyway or (None if logs_full_metadata else case.reason) for name, case in CASES.items()
    }
    expected_reasons = {name: reason for name, reason in reasons.items() if reason}
    assert stopped.keys() == expected_reasons.keys(), stopped
    for name, reason in expected_reasons.items():
        assert reason in stopped[name], stopped[name]
        assert "ALTER TABLE at mysql-bin.000001:" in stopped[name]
    equal = [case.table.replace("{t}", name) for name, case in CASES.items() if name not in expected_reasons]
    for table in (*equal, "one", "two"):
        require_same(shop, pipeline, table)
    return len(equal) + 2


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name, rows_query_event",
    [
        ("mysql-8.0", "server"),
        *(pytest.param(name, "server", marks=pytest.mark.long) for name in NAMES if name != "mysql-8.0"),
        *(pytest.param(name, "dump", marks=pytest.mark.long) for name in ("mysql-5.7", "mysql-8.0", "mariadb-11.4")),
    ],
)
def test_a_first_run_behind_the_creates_has_the_server_s_tables(
    name: str,
    rows_query_event: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    summary: list[str],
) -> None:
    build = build_or_skip(name)
    options = {"binlog_row_metadata": None}
    with MySQLServer(tmp_path / "server", options, build) as server, server.connect(database=None) as connection:
        monkeypatch.setenv("SHOP_PASSWORD", server.password)
        make(server)
        write(server)
        connection.select_db("shop")
        shop = Shop(spark, Database("shop", server, connection), tmp_path, Position("mysql-bin.000001", 4))
        if rows_query_event == "server":
            login = {"host": server.host, "port": server.port, "user": server.user, "password": "${SHOP_PASSWORD}"}
            sources = {SOURCE: {"mysql": login, "start": "earliest"}}
        else:
            (tmp_path / "schema.sql").write_text(schema_dump(name, server, "shop")[0], encoding="utf-8")
            sources = {SOURCE: {"files": str(copied(server, tmp_path / "log")), "schema_dump": "schema.sql"}}
        pipeline = shop.pipeline(sources=sources, tables=["shop.*"])
        _, outcome = shop.run(pipeline)
        stopped = {name.table: reason for name, reason in outcome.stopped.items()}
        count = require_outcome(shop, pipeline, stopped, logs_full_metadata=name in FULL_METADATA)
        history = schema_history.read(lake_of(pipeline), SOURCE)
        assert {version.origin for version in history.versions} == {"ddl", "table_map", rows_query_event, "inverted"}
        assert not [version for version in history.versions if version.differs and version.origin != "table_map"]
        printed = CliRunner().invoke(
            cli, ["schema", "-c", str(tmp_path / "pipeline.yaml"), "--at", str(history.begin), "--table", "shop.added"]
        )
        assert f"shop.added at {history.begin}: key id, from later definitions, projected backwards" in printed.stdout
        assert printed.stdout.splitlines()[2].split()[:2] == ["id", "int"]

        execute(server, "USE shop", "ALTER TABLE added ADD h VARCHAR(3) AFTER a", "UPDATE added SET h = 'h'")
        if rows_query_event == "server":
            _, outcome = shop.run(pipeline)
            require_outcome(
                shop,
                pipeline,
                {name.table: reason for name, reason in outcome.stopped.items()},
                logs_full_metadata=name in FULL_METADATA,
            )
        head = lake_of(pipeline).bronze(SOURCE).head()
        assert head is not None
        assert head.position is not None
    summary.append(
        f"{name}: {count} tables of a log behind their CREATEs, by what the {rows_query_event} told at its end"
    )


@pytest.mark.long
def test_a_range_over_an_alter_may_begin_behind_the_create(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT, e ENUM('a','b'))", "INSERT INTO t VALUES (1, 1, 'a')")
        shop.run(pipeline)
        begin = shop.end()
        shop.execute(
            "UPDATE t SET v = 2",
            "ALTER TABLE t ADD x DATE FIRST, CHANGE v w BIGINT",
            "INSERT INTO t VALUES ('2024-02-29', 2, 3, 'b')",
        )
        shop.run(pipeline)
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    outcome = backfill_source(shop.spark, pipeline, SOURCE, Range(begin, shop.end()), lambda name: name.table == "t")
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")


@pytest.mark.long
def test_a_table_that_changed_while_the_server_was_asked_is_led_back_by_the_next_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first run could not take for known is, when the history is written anew."""
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    shop = replace(shop, start=shop.end())
    pipeline = shop.pipeline(live=True)

    def altered_meanwhile(*arguments: Any) -> Any:
        definitions = ask(*arguments)
        shop.execute("ALTER TABLE t RENAME COLUMN w TO x", "INSERT INTO t VALUES (2, 2)")
        return definitions

    try:
        shop.execute("INSERT INTO t VALUES (1, 1)", "ALTER TABLE t RENAME COLUMN v TO w")
        with monkeypatch.context() as patch:
            patch.setattr(schema_history, "ask", altered_meanwhile)
            _, outcome = shop.run(pipeline)
        assert outcome.stopped.keys() == {TableName(shop.database.name, "t")}
        shop.execute("INSERT INTO t VALUES (3, 3)")
        _, outcome = shop.run(pipeline)
    finally:
        shop.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
    assert outcome.stopped == {}
    require_same(shop, pipeline, "t")
    versions = schema_history.read(lake_of(pipeline), SOURCE).of(TableName(shop.database.name, "t"))
    back = [version.definition for version in versions if version.origin == "inverted" and version.definition]
    assert [definition.column_names() for definition in back] == [["id", "v"]]  # from there statements lead on
