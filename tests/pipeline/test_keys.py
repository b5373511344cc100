"""What tells rows apart: keys of every kind, and tables without one. Downstream is what the server SELECTs."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import Servers

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

FIRST_SEED = int(os.environ.get("STRATALOG_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("STRATALOG_RUNS", "1")))

NO_KEY = "bag"
TABLES = {
    "one": "CREATE TABLE one (v INT, a INT NOT NULL, b INT NOT NULL, UNIQUE second (b), UNIQUE (a), KEY (v))",
    "pair": "CREATE TABLE pair (v INT, s VARCHAR(9) COLLATE utf8mb4_bin NOT NULL, n TINYINT NOT NULL, UNIQUE u (s, n))",
    "ci": "CREATE TABLE ci (v INT, s VARCHAR(9) COLLATE utf8mb4_general_ci NOT NULL UNIQUE)",
    "fixed": "CREATE TABLE fixed (v INT, s CHAR(4) NOT NULL, b VARBINARY(4) NOT NULL, UNIQUE (s, b)) CHARSET latin1",
    "number": "CREATE TABLE number (v INT, f DOUBLE PRIMARY KEY)",
    "day": "CREATE TABLE day (v INT, d DATE NOT NULL, t DATETIME(1) NOT NULL, UNIQUE (d, t))",
    NO_KEY: "CREATE TABLE bag (v INT, s VARCHAR(4), f FLOAT, d DATE, j JSON, UNIQUE (v, s, f))",
}
VALUES = {
    "one": ["1", "2", "3", "4", "5", "6"],
    "pair": ["'a', 1", "'A', 1", "'a ', 1", "'', 1", "'a', 2", "'ab', 1"],
    "ci": ["'a'", "'A'", "'b'", "'B'", "'c'", "'ç'"],
    "fixed": ["'a', 'a'", "'a ', 'a '", "'ä', X'00'", "'', X'0000'", "'A', ''"],
    "number": ["0", "-0e0", "1.5", "-1e300", "2.5e-300"],
    "day": [
        "'0000-00-00', '0000-00-00'",
        "'2024-00-00', '2024-01-01'",
        "'2024-01-00', '2024-01-01'",
        "'2024-01-01', '2024-01-00'",
        "'2024-01-01', '2024-01-01'",
    ],
    NO_KEY: [
        "'a', 0, NULL, NULL",
        "'a', -0e0, NULL, NULL",
        "'A', 0, '0000-00-00', NULL",
        "NULL, NULL, NULL, '[]'",
        "'a', 0, NULL, '{\"a\": 1}'",
        "NULL, 1.5, '2024-00-00', NULL",
    ],
}
COLUMNS = {"one": "a", "pair": "s, n", "ci": "s", "fixed": "s, b", "number": "f", "day": "d, t", NO_KEY: "s, f, d, j"}


def statements(generator: random.Random, count: int) -> list[str]:
    """Random statements about all tables; keys change, swap and come again, and a keyless table's rows repeat."""
    lines = []
    for _ in range(count):
        table = generator.choice(list(TABLES))
        names, value = COLUMNS[table], generator.choice(VALUES[table])
        extra_column = "b, " if table == "one" else ""
        cells = f"{generator.randrange(3)}, {value}" if table == NO_KEY else f"{generator.randrange(99)}, {value}"
        if extra_column:
            cells = f"{generator.randrange(99)}, {generator.randrange(1000, 9999)}, {value}"
        condition = f"v % 3 = {generator.randrange(3)}"
        first, *_ = names.split(", ")
        into = generator.choice(VALUES[table]).split(", ")[0]
        lines.append(
            generator.choice(
                [
                    f"INSERT IGNORE INTO {table} (v, {extra_column}{names}) VALUES ({cells})",
                    f"REPLACE INTO {table} (v, {extra_column}{names}) VALUES ({cells})",
                    f"UPDATE IGNORE {table} SET {first} = {into} WHERE {condition} LIMIT 2",
                    f"UPDATE IGNORE {table} SET v = v + 1 WHERE {condition} LIMIT 3",
                    f"DELETE FROM {table} WHERE {condition} LIMIT 1",
                ]
            )
        )
    return lines


def require_equal(shop: Shop, pipeline: Pipeline, table: str) -> None:
    """Columns and rows of a downstream table are the server's; dates that no column holds by their exact texts."""
    listed = shop.database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s "
        "ORDER BY ordinal_position",
        (shop.database.name, table),
    )
    query = ", ".join(
        f"CAST(`{name}` AS CHAR)" if kind in ("date", "datetime", "json", "double", "float") else f"`{name}`"
        for name, kind in listed
    )
    truth = Counter(shop.database.execute(f"SELECT {query} FROM `{table}`"))
    target = lake_of(pipeline).downstream(shop.database.name, table)
    if target.head() is None:
        assert not truth
        return
    frame = target.read(shop.spark)
    assert frame.columns[: len(listed)] == [name for name, _ in listed]
    actual = Counter(_exact_row(row.asDict(), listed) for row in frame.collect())
    assert actual == truth, table


def _exact_row(row: dict[str, Any], listed: Any) -> tuple[Any, ...]:
    return tuple(_cell(row[name], kind, (row["_raw"] or {}).get(name)) for name, kind in listed)


def _cell(value: Any, kind: str, exact: str | None) -> Any:
    if exact is not None:
        return exact
    if kind == "datetime" and value is not None:
        return value.isoformat(" ", timespec="milliseconds")[:-2]
    if kind in ("double", "float") and value is not None:
        return {"0.0": "0", "-0.0": "-0", "-1e+300": "-1e300", "2.5e-300": "2.5e-300"}.get(repr(value), repr(value))
    if isinstance(value, bytearray):
        return bytes(value)
    return str(value) if kind == "date" and value is not None else value


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_random_statements_about_tables_with_keys_of_every_kind_and_without_any(
    shop: Shop, seed: int, summary: list[str]
) -> None:
    generator = random.Random(seed)
    pipeline = shop.pipeline()
    shop.execute("SET SESSION sql_mode = ''", *TABLES.values())
    runs, positions = 3, [shop.start]
    for nth in range(runs):
        shop.execute(*statements(generator, 150))
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}, f"seed {seed}, run {nth}"
        for table in TABLES:
            require_equal(shop, pipeline, table)
        positions.append(shop.end())
    before = heads(shop, pipeline)
    log_range = Range(*sorted(generator.sample(positions, 2)))
    outcome = backfill_source(shop.spark, pipeline, SOURCE, log_range, lambda _: True)
    assert outcome.stopped == {}
    assert heads(shop, pipeline) == before, "done again, nothing differs"
    summary.append(f"seed {seed}: {150 * runs} statements of {len(TABLES)} tables, {runs} runs, no difference")


def heads(shop: Shop, pipeline: Pipeline) -> list[Any]:
    lake = lake_of(pipeline)
    names = [TableName(shop.database.name, table) for table in TABLES]
    return [
        head
        for name in names
        for head in (lake.silver(SOURCE, *_pair(name)).head(), lake.downstream(*_pair(name)).head())
    ]


def _pair(name: TableName) -> tuple[str, str]:
    return name.schema, name.table


@pytest.mark.long
def test_bags_live_through_statements(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE t (a INT, b VARCHAR(5))", "INSERT INTO t VALUES (1,'x'),(1,'x'),(1,'y'),(NULL,NULL)")
    run_and_compare(shop, pipeline, "t")
    shop.execute(
        "DELETE FROM t WHERE b = 'x' LIMIT 1",
        "ALTER TABLE t ADD c INT NOT NULL DEFAULT 7 FIRST, CHANGE a n BIGINT",
        "UPDATE t SET c = 8 WHERE b = 'y'",
        "INSERT INTO t VALUES (7, 1, 'x')",
        "ALTER TABLE t DROP b",
        "INSERT INTO t VALUES (7, 1), (7, NULL)",
        "UPDATE t SET c = c + 1 ORDER BY c DESC LIMIT 2",
    )
    run_and_compare(shop, pipeline, "t")


@pytest.mark.long
def test_a_table_made_again_may_have_a_key_or_lose_it(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE gets (a INT)", "INSERT INTO gets VALUES (1),(1)")
    shop.execute("CREATE TABLE loses (a INT PRIMARY KEY)", "INSERT INTO loses VALUES (1),(2)")
    run_and_compare(shop, pipeline, "gets", "loses")
    shop.execute(
        "DROP TABLE gets, loses",
        "CREATE TABLE gets (a INT PRIMARY KEY, b INT)",
        "INSERT INTO gets VALUES (1,1),(2,2)",
        "UPDATE gets SET a = 9 WHERE a = 1",
        "CREATE TABLE loses (a INT, b INT)",
        "INSERT INTO loses VALUES (1,1),(1,1)",
    )
    run_and_compare(shop, pipeline, "gets", "loses")


@pytest.mark.long
def test_counts_of_a_bag_are_set_by_a_range_done_again(shop: Shop) -> None:
    pipeline = shop.pipeline()
    shop.execute("CREATE TABLE u (a INT NOT NULL)", "INSERT INTO u VALUES (1), (1), (2)", "DELETE FROM u LIMIT 1")
    shop.execute("ALTER TABLE u ADD UNIQUE (a)", "INSERT INTO u VALUES (3)")
    run_and_compare(shop, pipeline, "u")
    middle = shop.end()
    shop.execute("UPDATE u SET a = a + 10", "ALTER TABLE u ADD UNIQUE w (a)", "DELETE FROM u WHERE a = 11")
    run_and_compare(shop, pipeline, "u")
    lake = lake_of(pipeline)
    wrong = [lake.silver(SOURCE, shop.database.name, "u").sql, lake.downstream(shop.database.name, "u").sql]
    shop.spark.sql(f"UPDATE {wrong[0]} SET _copies = _copies + 5 WHERE a > 10")
    shop.spark.sql(f"INSERT INTO {wrong[1]} SELECT * FROM {wrong[1]}")
    outcome = backfill_source(shop.spark, pipeline, SOURCE, Range(middle, shop.end()), lambda _: True)
    assert outcome.stopped == {}
    assert len(outcome.compacted) == 1
    require_same(shop, pipeline, "u")


def run_and_compare(shop: Shop, pipeline: Pipeline, *tables: str) -> None:
    _, outcome = shop.run(pipeline)
    assert outcome.stopped == {}
    for table in tables:
        require_same(shop, pipeline, table)


def test_what_stops_a_table_says_so(shop: Shop) -> None:
    shop.execute("CREATE TABLE old (a INT)", "INSERT INTO old VALUES (1)")
    later = Shop(shop.spark, shop.database, shop.folder, shop.end())
    pipeline = later.pipeline()
    shop.execute("DELETE FROM old")
    _, outcome = later.run(pipeline)
    (stopped,) = outcome.stopped.values()
    assert "old: the table has no key, and more copies of a row were deleted than the lake has seen" in stopped


@pytest.mark.long
@pytest.mark.parametrize("server", ["mysql-5.7", "mariadb-11.4"])
def test_keys_where_the_log_tells_none(servers: Servers, server: str, spark: SparkSession, tmp_path: Path) -> None:
    running = servers.get(server)
    with running.connect() as connection:
        database = Database("keys", running, connection)
        database.execute("DROP DATABASE IF EXISTS `keys`")
        database.execute("CREATE DATABASE `keys` CHARACTER SET latin1")
        connection.select_db("keys")
        shop = Shop(spark, database, tmp_path, Position(*database.execute("SHOW MASTER STATUS")[0][:2]))
        pipeline = shop.pipeline()
        shop.execute(
            "CREATE TABLE t (a INT, b INT NOT NULL, UNIQUE x (a), UNIQUE u (b)) DEFAULT CHARSET=latin1",
            "CREATE TABLE bag (a INT, s CHAR(3)) DEFAULT CHARSET=latin1",
            "INSERT INTO t VALUES (1,1),(NULL,2),(NULL,3)",
            "INSERT INTO bag VALUES (1,'a'),(1,'a'),(1,'b')",
            "UPDATE t SET b = 5 WHERE b = 2",
            "DELETE FROM bag WHERE s = 'a' LIMIT 1",
            "CREATE UNIQUE INDEX y ON t (b, a)",
            "DROP INDEX x ON t",
            "CREATE TABLE goes (b INT NOT NULL, UNIQUE u (b))",
            "INSERT INTO goes VALUES (1)",
        )
        run_and_compare(shop, pipeline, "t", "bag", "goes")
        shop.execute("INSERT INTO t VALUES (1,7)", "UPDATE bag SET s = 'a'", "ALTER TABLE t DROP INDEX y")
        shop.execute("DROP INDEX u ON goes", "INSERT INTO goes VALUES (1)")
        run_and_compare(shop, pipeline, "t", "bag", "goes")
        database.execute("DROP DATABASE `keys`")
