"""Row images that leave columns out: downstream is what the server SELECTs, or the table says why it is not."""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checks.integrity import keys_never_whole
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.operations.observation.status import status
from spark_jobs.pipeline.backfill.request import DOWNSTREAM, SILVER, BackfillOptions
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.load import load_source
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE, Shop, require_same
from tests.fix_servers import Servers

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

SEED = int(os.environ.get("STRATALOG_SEED", "1"))
STATEMENTS = int(os.environ.get("STRATALOG_STATEMENTS", "25"))
KEYS = 20
IMAGES = ("MINIMAL", "NOBLOB", "FULL")
TABLES = {
    "t": "CREATE TABLE t (a INT, b INT NOT NULL DEFAULT 7, id INT PRIMARY KEY, s TEXT, d DATE DEFAULT '2024-01-02',"
    " v VARCHAR(9) DEFAULT 'x', n DECIMAL(6,2) NOT NULL DEFAULT 1.5, g INT AS (b + 1))",
    "u": "CREATE TABLE u (a INT, b INT NOT NULL DEFAULT 7, id INT NOT NULL, s BLOB, UNIQUE (id))",
    "bag": "CREATE TABLE bag (a INT, b INT NOT NULL DEFAULT 7, id INT, s TEXT)",
}


def statement(generator: random.Random) -> list[str]:
    """One random statement under a random row image."""
    table, key, number = generator.choice(list(TABLES)), generator.randrange(KEYS), generator.randrange(99)
    text = generator.choice(["'one'", "NULL", "''", "'two'"])
    change = generator.choice(
        [
            f"INSERT IGNORE INTO {table} (id) VALUES ({key})",
            f"INSERT IGNORE INTO {table} (id, a, s) VALUES ({key}, {number}, {text}), ({key + 1}, {number}, {text})",
            f"REPLACE INTO {table} (id, a) VALUES ({key}, {number})",
            f"INSERT INTO {table} (id, a) VALUES ({key}, 1) ON DUPLICATE KEY UPDATE b = {number}",
            f"UPDATE {table} SET a = {number} WHERE id = {key}",
            f"UPDATE {table} SET b = b + 1, s = {text} WHERE id BETWEEN {key} AND {key + 3}",
            f"UPDATE {table} SET s = {text} WHERE id = {key}",
            f"DELETE FROM {table} WHERE id = {key}",
            f"UPDATE IGNORE {table} SET id = {number} WHERE id = {key} LIMIT 1",
        ]
    )
    return [f"SET binlog_row_image = {generator.choice(IMAGES)}", change]


LOGGED = {
    "mysql-8.0": ("MINIMAL", "NOBLOB"),
    "mariadb-11.4": ("MINIMAL", "NOBLOB", "FULL_NODUP"),
}
"""Servers, and the row images without all columns that each has."""
ROWS = (
    "CREATE TABLE t (a INT, b INT NOT NULL DEFAULT 7, id INT PRIMARY KEY, s TEXT, d DATE DEFAULT '2024-01-02',"
    " v VARCHAR(9) DEFAULT 'x', n DECIMAL(6,2) NOT NULL DEFAULT 1.5, e DATETIME, f DOUBLE DEFAULT 0.1)"
)
PAIRS = "CREATE TABLE p (x INT, k INT NOT NULL, l VARCHAR(5) NOT NULL, y BLOB, z TINYINT DEFAULT 3, PRIMARY KEY (k, l))"


def row_statements(generator: random.Random, count: int, *, sets_texts: bool) -> Iterator[str]:
    """Random statements that each server logs so that rows can be told: no REPLACE, and no change of a key.

    sets_texts: whether each update sets the TEXT or BLOB: without one, MariaDB logs it under NOBLOB as it does REPLACE.
    """
    for _ in range(count):
        key, number = generator.randrange(KEYS), generator.randrange(99)
        text = generator.choice(["'one'", "NULL", "''"])
        of_t, of_p = (f"s = {text}, ", f"y = {text}, ") if sets_texts else ("", "")
        yield generator.choice(
            [
                f"INSERT IGNORE INTO t (id) VALUES ({key})",
                f"INSERT IGNORE INTO t (id, a, s) VALUES ({key}, {number}, {text})",
                f"INSERT IGNORE INTO p (k, l) VALUES ({key}, {number % 3}), ({key}, 'a')",
                f"UPDATE t SET {of_t}a = {number}, n = n + 1 WHERE id = {key}",
                f"UPDATE t SET b = b + 1, s = {text} WHERE id BETWEEN {key} AND {key + 3}",
                f"UPDATE t SET {of_t}d = NULL, f = {number} / 8 WHERE id = {key}",
                f"UPDATE p SET x = {number}, y = {text} WHERE k = {key}",
                f"UPDATE p SET {of_p}z = {number % 9} WHERE k <> {key}",
                f"DELETE FROM t WHERE id = {key}",
                f"DELETE FROM p WHERE k = {key}",
            ]
        )


@pytest.mark.parametrize(
    "server, image",
    [
        pytest.param(server, image, marks=[] if (server, image) == ("mysql-8.0", "MINIMAL") else pytest.mark.thorough)
        for server, images in LOGGED.items()
        for image in images
    ],
)
def test_the_engine_takes_each_row_image(
    servers: Servers, server: str, image: str, spark: SparkSession, tmp_path: Path, summary: list[str]
) -> None:
    running, generator = servers.get(server), random.Random(SEED)
    with running.connect() as connection:
        database = Database("images", running, connection)
        shop = shop_of(database, spark, tmp_path)
        pipeline = shop.pipeline()
        shop.execute(ROWS, PAIRS, *(f"INSERT INTO t (id, a) VALUES ({key}, {key})" for key in range(0, KEYS, 2)))
        changes = 0
        sets_texts = image == "NOBLOB" and "mariadb" in server
        text = "s = 'x', " if sets_texts else ""
        statements = (
            "DO 0",
            "ALTER TABLE t DROP COLUMN v, ADD COLUMN w INT NOT NULL DEFAULT 8",
            "ALTER TABLE t CHANGE e h DATETIME",
        )
        for nth, logged in enumerate(statements):
            shop.execute(
                f"SET binlog_row_image = {image}", *row_statements(generator, STATEMENTS, sets_texts=sets_texts)
            )
            shop.execute(f"UPDATE t SET {text}b = b + 1 WHERE id % 2", logged)
            shop.execute(f"UPDATE t SET {text}b = b + 1 WHERE id % 3", "SET binlog_row_image = FULL")
            if nth == 1:
                shop.execute("TRUNCATE p", "INSERT INTO p (k, l) VALUES (1, 'b')")
            _, outcome = shop.run(pipeline)
            assert outcome.stopped == {}
            changes += sum(job.changes for job in outcome.compacted)
            for table in ("t", "p"):
                require_same(shop, pipeline, table)
        lacking = sum(row["_absent"] is not None for row in shop.silver(pipeline, "t"))
        assert lacking > 0 or sets_texts or image == "FULL_NODUP", "some rows of silver lack columns"
        assert never_whole(pipeline) == {}
    summary.append(f"{server}, {image}: {changes} changes, {lacking} silver rows lack columns, no difference")


def shop_of(database: Database, spark: SparkSession, folder: Path) -> Shop:
    """A fresh schema of a server, and a pipeline that begins at the log's present end."""
    database.execute(f"DROP DATABASE IF EXISTS {database.name}")
    database.execute(f"CREATE DATABASE {database.name} CHARACTER SET latin1")
    database.connection.select_db(database.name)
    return Shop(spark, database, folder, Position(*database.execute("SHOW MASTER STATUS")[0][:2]))


def silver(shop: Shop, pipeline: Pipeline, table: str) -> list[str]:
    return sorted(map(repr, shop.silver(pipeline, table)))


@pytest.mark.long
def test_random_statements_under_row_images_that_change(shop: Shop, summary: list[str]) -> None:
    generator, pipeline = random.Random(SEED), shop.pipeline()
    rows = ", ".join(f"({key}, {key})" for key in range(KEYS))
    shop.execute(*TABLES.values(), *(f"INSERT INTO {table} (id, a) VALUES {rows}" for table in TABLES))
    counts, positions = [0, 0], [shop.start]
    for _ in range(3):
        for _ in range(STATEMENTS):
            shop.execute(*statement(generator))
        shop.execute("SET binlog_row_image = MINIMAL", "UPDATE t SET d = '2024-05-06' WHERE id % 2")
        positions.append(shop.end())
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        for table in TABLES:
            require_same(shop, pipeline, table)
        counts = [counts[0] + STATEMENTS, counts[1] + sum(job.changes for job in outcome.compacted)]
    before = {table: silver(shop, pipeline, table) for table in TABLES}
    lacking = sum(row["_absent"] is not None for row in shop.silver(pipeline, "t"))
    assert lacking > 0, "some rows of silver lack columns"
    for part in (Range(positions[1], positions[2]), Range(shop.start, positions[1])):
        replayed = backfill_source(
            shop.spark, pipeline, SOURCE, part, lambda _: True, options=BackfillOptions((SILVER,))
        )
        assert replayed.stopped == {}
    assert {table: silver(shop, pipeline, table) for table in TABLES} == before, "a range done again is the same"
    assert [table.keys_never_whole for table in status(pipeline, lake_of(pipeline), SOURCE).tables] == [None] * 3
    summary.append(f"{counts[0]} statements, {counts[1]} changes, {lacking} silver rows lack columns, no difference")


def minimal(*statements: str) -> tuple[str, ...]:
    return "SET binlog_row_image = MINIMAL", *statements, "SET binlog_row_image = FULL"


def never_whole(pipeline: Pipeline) -> dict[str, int]:
    tables_shown = status(pipeline, lake_of(pipeline), SOURCE).tables
    counts = {table.table.split(".")[1]: table.keys_never_whole for table in tables_shown if table.keys_never_whole}
    assert {name.table: keys for (name, _), keys in keys_never_whole(pipeline, SOURCE).items()} == counts
    return counts


OLDER = {"old": "INT DEFAULT 5", "told": "INT DEFAULT 5", "unknown": "VARBINARY(9) DEFAULT 'five'"}
"""Tables that are older than the log, and their column b: a server prints bytes in a way of each version."""


@pytest.mark.long
def test_what_no_image_tells_waits_or_stops_its_table_and_is_said(shop: Shop) -> None:
    schema = shop.database.name
    shop.execute(
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b {kind}, s TEXT)" for name, kind in OLDER.items()),
        "INSERT INTO old VALUES (1, 1, 1, 'one'), (2, 2, 2, 'two'), (3, 3, 3, 'three'), (4, 4, 4, 'four')",
        "FLUSH BINARY LOGS",
    )
    started_shop = replace(shop, start=shop.end())
    pipeline = started_shop.pipeline(
        live=True,
        routes=[{"from": f"{schema}.part_*", "to": f"{schema}.parts"}],
        row_filters={"asking": {"tables": [f"{schema}.asked*"], "update-new-value-expr": "b > 5"}},
        columns={"hiding": {"tables": [f"{schema}.hidden"], "exclude": ["s"], "mask": {"a": {"constant": 0}}}},
    )
    other_tables = ("moved", "asked", "asked_behind", "hidden", "part_1", "part_2", "altered")
    shop.execute(
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b INT DEFAULT 5, s TEXT)" for name in other_tables),
        *(f"INSERT INTO {name} VALUES (1, 1, 1, 'one'), (2, 2, 2, 'two')" for name in other_tables),
        *minimal("UPDATE old SET a = 10 WHERE id = 1", "UPDATE old SET a = 20 WHERE id = 2"),
        *minimal("DELETE FROM old WHERE id = 4", "UPDATE asked SET a = 9, b = 2 WHERE id = 1"),
    )
    _, outcome = started_shop.run(pipeline)
    assert outcome.stopped == {}
    assert started_shop.merged(pipeline, "old") == []
    assert never_whole(pipeline) == {"old": 2}
    shop.execute(
        *minimal(
            "UPDATE old SET b = 11, s = 'eins' WHERE id = 1", "INSERT INTO old (id, a, b, s) VALUES (5, 5, 5, '')"
        ),
        *minimal("UPDATE moved SET id = 9 WHERE id = 1", "INSERT INTO unknown (id, a) VALUES (1, 1)"),
        *minimal("INSERT INTO told (id, a) VALUES (1, 1)"),
        "ALTER TABLE asked_behind ADD COLUMN c INT",
        *minimal("UPDATE asked_behind SET a = 10 WHERE id = 1"),
        *minimal("UPDATE asked SET a = 10 WHERE id = 1", "UPDATE hidden SET b = 6, a = 3, s = 'x' WHERE id = 2"),
        *minimal("UPDATE part_1 SET a = 7 WHERE id = 1", "DELETE FROM part_2 WHERE id = 1", "UPDATE part_2 SET a = 8"),
        *minimal("UPDATE altered SET s = 'was' WHERE id = 1", "INSERT INTO altered (id) VALUES (3)"),
        "ALTER TABLE altered RENAME COLUMN a TO c, DROP COLUMN b, ADD COLUMN d INT NOT NULL DEFAULT 8",
        *minimal("UPDATE altered SET d = 9 WHERE id = 2", "ALTER TABLE altered ALTER d SET DEFAULT 4"),
        *minimal("INSERT INTO altered (id) VALUES (4)"),
    )
    _, outcome = started_shop.run(pipeline)
    reasons = {str(name).removeprefix(f"{schema}."): reason for name, reason in outcome.stopped.items()}
    assert reasons.keys() == {"asked_behind", "unknown"}
    assert "row_filters.asking.update-new-value-expr: the row image leaves column b out" in reasons["asked_behind"]
    assert "column b is not in its row image: the row was inserted with the column's default" in reasons["unknown"]
    assert started_shop.merged(pipeline, "old") == [(1, 10, 11, "eins"), (5, 5, 5, "")]
    assert never_whole(pipeline) == {"old": 1}
    assert started_shop.merged(pipeline, "hidden") == [(1, 0, 1), (2, 0, 6)]
    assert started_shop.merged(pipeline, "parts") == [(1, 7, 1, "one"), (2, 2, 2, "two"), (2, 8, 2, "two")]
    for table in ("altered", "told", "moved", "asked"):
        require_same(started_shop, pipeline, table)
    load = load_source(started_shop.spark, pipeline, SOURCE, tables=[f"{schema}.old"])
    assert load.stopped == {}
    require_same(started_shop, pipeline, "old")
    assert never_whole(pipeline) == {}
    downstream = {name: started_shop.merged(pipeline, name) for name in ("old", "altered", "parts", "hidden")}
    full_range = Range(started_shop.start, shop.end())
    for options in (BackfillOptions(), BackfillOptions((DOWNSTREAM,))):
        replayed = backfill_source(
            started_shop.spark, pipeline, SOURCE, full_range, lambda table: table.table not in reasons, options=options
        )
        assert replayed.stopped == {}
        assert {name: started_shop.merged(pipeline, name) for name in downstream} == downstream


@pytest.mark.long
def test_a_live_server_that_leaves_columns_out_by_default_tells_their_defaults(shop: Shop) -> None:
    columns = "id INT PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 5, s TEXT, d DATE DEFAULT '2024-01-02'"
    shop.execute(f"CREATE TABLE t ({columns})", "FLUSH BINARY LOGS")
    started_shop = replace(shop, start=shop.end())
    pipeline = started_shop.pipeline(live=True)
    shop.execute("SET GLOBAL binlog_row_image = MINIMAL")
    try:
        shop.execute(
            *minimal("INSERT INTO t (id, a) VALUES (1, 1), (2, 2), (3, 3)", "UPDATE t SET s = 'x' WHERE id = 1"),
            *minimal("DELETE FROM t WHERE id = 2", "UPDATE t SET b = 6 WHERE id = 3"),
        )
        _, outcome = started_shop.run(pipeline)
    finally:
        shop.execute("SET GLOBAL binlog_row_image = FULL")
    assert outcome.stopped == {}
    require_same(started_shop, pipeline, "t")


PLAIN = "(id INT PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 7, s TEXT) DEFAULT CHARSET=latin1"
VIRTUAL = "(id INT PRIMARY KEY, a INT, g INT AS (a + 1) VIRTUAL)"


@pytest.mark.long
@pytest.mark.parametrize("server", ["mysql-5.7", "mariadb-10.11", "mariadb-11.4", "mariadb-11.8"])
def test_row_images_of_other_servers(servers: Servers, server: str, spark: SparkSession, tmp_path: Path) -> None:
    running = servers.get(server)
    with running.connect() as connection:
        database = Database("images", running, connection)
        shop = shop_of(database, spark, tmp_path)
        pipeline = shop.pipeline(columns={"hiding": {"tables": ["images.hidden"], "exclude": ["g"]}})
        tables = ("t", "noblob", "nodup", "replaced", "bag")
        shop.execute(
            *(f"CREATE TABLE {name} {PLAIN}" for name in tables[:-1]),
            "CREATE TABLE bag (a INT, b INT NOT NULL DEFAULT 7, s TEXT) DEFAULT CHARSET=latin1",
            *(f"CREATE TABLE {name} {VIRTUAL}" for name in ("computed", "hidden")),
            *(f"INSERT INTO {name} (id, a, s) VALUES (1, 1, 'one'), (2, 2, 'two')" for name in tables[:-1]),
            "INSERT INTO bag VALUES (1, 1, 'one'), (1, 1, 'one')",
        )
        _, outcome = shop.run(pipeline)
        assert outcome.stopped == {}
        modes = ["MINIMAL", "NOBLOB", "FULL_NODUP" if server > "mariadb-11" and "mariadb" in server else "MINIMAL"]
        for name, image in zip(tables, [*modes, "MINIMAL", "MINIMAL"], strict=True):
            row = "id, a" if name != "bag" else "a"
            shop.execute(
                f"SET binlog_row_image = {image}",
                f"INSERT INTO {name} ({row}) VALUES ({'3, 3' if name != 'bag' else '3'})",
                f"UPDATE {name} SET a = 4, s = 'four' WHERE a = 1",
                f"DELETE FROM {name} WHERE a = 2",
            )
        shop.execute("SET binlog_row_image = FULL_NODUP" if modes[2] == "FULL_NODUP" else "DO 0")
        shop.execute("REPLACE INTO nodup (id, b) VALUES (1, 5)", "UPDATE nodup SET id = 9 WHERE id = 3")
        shop.execute("SET binlog_row_image = MINIMAL", "REPLACE INTO replaced (id, a) VALUES (1, 5)")
        shop.execute("INSERT INTO computed (id, a) VALUES (1, 1)", "UPDATE computed SET a = 2")
        shop.execute(
            "INSERT INTO hidden (id, a) VALUES (1, 1)", "UPDATE hidden SET a = 2", "SET binlog_row_image = FULL"
        )
        _, outcome = shop.run(pipeline)
        reasons = {name.table: reason for name, reason in outcome.stopped.items()}
        if "mariadb" in server:
            assert reasons.keys() == {"replaced", "computed"}
            assert (
                "column b is not in its row image: the image holds the key, as that of a REPLACE does"
                in reasons["replaced"]
            )
            assert "column g is not in its row image" in reasons["computed"]
        else:
            assert reasons.keys() <= {"nodup"}, "MySQL logs what changed"
        for name in {*tables} - reasons.keys():
            require_same(shop, pipeline, name)
        assert shop.merged(pipeline, "hidden") == [(1, 2)]
