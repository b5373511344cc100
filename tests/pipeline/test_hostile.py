"""Names, defaults, comments and values that are taken for something else, through all that is done to a table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Range
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.text.sql import identifier
from tests.binlogs.hostile import SECRET, TEXTS, VALUES
from tests.fix_pipeline import SOURCE, Shop

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

NAMES = [name for name in TEXTS if name != "_op"]
KEY = "key ${system:PW} 'k' {source}"
SCHEMA = "s ${system:PW} 'q' {0} ſı"
KEYED, KEYLESS, LACKING = "t ${system:PW} 'q' `b` {source} \"d\" -- x", "*{a,b}[c] ${amount}", "ſ K ı \u202e {c}"
TABLES = (KEYED, KEYLESS, LACKING)


@pytest.fixture
def hostile(shop: Shop) -> Iterator[Shop]:
    """The schema of such a name, in a JVM of which a property and a setting are a secret."""
    jvm = shop.spark.sparkContext._jvm
    assert jvm
    system = jvm.java.lang.System
    system.setProperty("PW", SECRET)
    shop.spark.conf.set("amount", SECRET)
    shop.database.execute(f"CREATE DATABASE {identifier(SCHEMA)}")
    shop.database.connection.select_db(SCHEMA)
    try:
        yield replace(shop, database=replace(shop.database, name=SCHEMA))
    finally:
        system.clearProperty("PW")
        shop.spark.conf.unset("amount")
        shop.database.execute(f"DROP DATABASE {identifier(SCHEMA)}")


def create_table(shop: Shop, table: str) -> None:
    columns = [f"{identifier(name)} VARCHAR(100) COMMENT %s" for name in NAMES]
    key = [] if table == KEYLESS else [f"{identifier(KEY)} VARCHAR(90)", f"PRIMARY KEY ({identifier(KEY)})"]
    columns = [part.replace("%", "%%").replace("COMMENT %%s", "COMMENT %s") for part in columns]
    listed = ", ".join([*columns, *(part.replace("%", "%%") for part in key)])
    shop.database.execute(
        f"CREATE TABLE {identifier(table)} ({listed}) CHARSET utf8mb4 COLLATE utf8mb4_bin".replace("{}", "{}"),
        tuple(NAMES),
    )


def inserted(shop: Shop, table: str, rows: Sequence[int]) -> None:
    """Rows whose key, and whose every column, has one of the texts."""
    for row in rows:
        values = [VALUES[(row + at) % len(VALUES)] for at in range(len(NAMES))]
        key = [] if table == KEYLESS else [VALUES[row]]
        names = [*NAMES, *([] if table == KEYLESS else [KEY])]
        listed, marks = ", ".join(map(identifier, names)).replace("%", "%%"), ", ".join(["%s"] * len(names))
        into = identifier(table).replace("%", "%%")
        shop.database.execute(f"INSERT INTO {into} ({listed}) VALUES ({marks})", (*values, *key))


def changed(shop: Shop, table: str, names: Sequence[str]) -> None:
    """Some columns of some rows, and some rows gone; rows are told by a text."""
    label_column = identifier(NAMES[0] if table == KEYLESS else KEY).replace("%", "%%")
    into = identifier(table).replace("%", "%%")
    for at, name in enumerate(names):
        column = identifier(name).replace("%", "%%")
        shop.database.execute(f"UPDATE {into} SET {column} = %s WHERE {label_column} = %s", (VALUES[-at], VALUES[at]))
    shop.database.execute(f"DELETE FROM {into} WHERE {label_column} IN %s", ([VALUES[-1], VALUES[3]],))


def altered(shop: Shop, table: str) -> None:
    """Columns are added with such defaults, dropped, renamed in a circle, moved and made wider."""
    texts = [text for text in TEXTS if len(text) < 60]
    adds = [f"ADD COLUMN {identifier('new ' + text)} VARCHAR(99) DEFAULT %s COMMENT %s" for text in texts]
    adds = [text.replace("%", "%%").replace("%%s", "%s") if "%s %(" not in text else "" for text in adds]
    pairs = [(text, add) for text, add in zip(texts, adds, strict=True) if add]
    changes = ", ".join(add for _, add in pairs)
    into = identifier(table).replace("%", "%%")
    shop.database.execute(f"ALTER TABLE {into} {changes}", tuple(text for name, _ in pairs for text in (name, name)))
    first, second, third = (identifier(name) for name in NAMES[:3])
    shop.database.execute(
        f"ALTER TABLE {identifier(table)} DROP COLUMN {identifier(NAMES[10])}, RENAME COLUMN {first} TO {second}, "
        f"RENAME COLUMN {second} TO {third}, RENAME COLUMN {third} TO {first}, "
        f"MODIFY COLUMN {identifier(NAMES[12])} VARCHAR(120) FIRST, "
        f"ADD COLUMN {identifier('n ${system:PW}')} INT DEFAULT 7"
    )
    shop.database.execute(
        f"ALTER TABLE {identifier(table)} MODIFY COLUMN {identifier('n ${system:PW}')} BIGINT DEFAULT 7"
    )


def require_equal(shop: Shop, pipeline: Pipeline, tables: Sequence[str] = TABLES) -> None:
    """Read by other means than ``verify`` has: columns, their order, and rows."""
    for table in tables:
        frame = lake_of(pipeline).downstream(SCHEMA, table).read(shop.spark)
        with shop.database.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {identifier(table)}")
            names, truth = [column[0] for column in cursor.description], cursor.fetchall()
        assert [name for name in frame.columns if name not in ADDED] == names
        rows = frame.select(*map(identifier, names)).collect()
        assert sorted(map(repr, map(tuple, rows))) == sorted(map(repr, truth)), table


def files_with(folder: Path, text: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_everything_that_is_done_to_tables_of_such_names(hostile: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    shop = hostile
    pipeline = shop.pipeline(live=True, tables=["s *.*"])
    for table in TABLES:
        create_table(shop, table)
        inserted(shop, table, range(0, len(VALUES), 2))
    assert shop.run(pipeline)[1].stopped == {}
    require_equal(shop, pipeline)
    for table in TABLES:
        shop.execute(f"SET binlog_row_image = {'MINIMAL' if table == LACKING else 'FULL'}")
        inserted(shop, table, range(1, len(VALUES), 2))
        changed(shop, table, NAMES)
    assert shop.run(pipeline)[1].stopped == {}
    require_equal(shop, pipeline)
    for table in TABLES:
        shop.execute(f"SET binlog_row_image = {'MINIMAL' if table == LACKING else 'FULL'}")
        altered(shop, table)
        changed(shop, table, NAMES[:5])
    shop.execute("FLUSH BINARY LOGS")
    assert shop.run(pipeline)[1].stopped == {}
    require_equal(shop, pipeline)
    outcome = backfill_source(shop.spark, pipeline, SOURCE, Range(shop.start, shop.end()), lambda _: True)
    assert outcome.stopped == {}
    reset(pipeline, SOURCE, plan_reset(pipeline, SOURCE, f"{SCHEMA}.{KEYED}"))
    assert shop.run(pipeline)[1].stopped == {}
    require_equal(shop, pipeline)
    verdicts = list(verify_source(shop.spark, pipeline, SOURCE))
    assert [(verdict.label, verdict.lines(values=True)) for verdict in verdicts if not verdict.is_right] == []
    assert len(verdicts) == len(TABLES)
    assert files_with(shop.folder / "lake", SECRET) == []
    assert SECRET not in caplog.text
