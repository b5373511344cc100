"""Tables without a key that are older than their log: one snapshot at an exact position, on real servers.

Put here: whole loads of such tables. Not here: those with a key (test_load.py), rules (test_load_rules.py).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import Row, SparkSession

from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.backfill.run import backfill_source
from spark_jobs.pipeline.initial_load.commit import LOADED, READ, READING, LoadCommit, progress
from spark_jobs.pipeline.initial_load.load import load_source
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from tests.fix_mysql import database_of
from tests.fix_pipeline import SOURCE, Shop, killed_at, require_same, rows
from tests.fix_servers import Servers

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

SERVERS = ["mysql-8.0", "mariadb-11.4"]
ROWS = 4000


@pytest.fixture(params=SERVERS)
def shop(request: pytest.FixtureRequest, servers: Servers, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    """A fresh schema in a server of either kind, and a pipeline whose source begins at the log's end."""
    with database_of(servers.get(request.param)) as database:
        if "mysql" in request.param:
            database.execute("GRANT LOCK TABLES ON *.* TO repl")
        yield Shop(spark, database, tmp_path, Shop.end(Shop(spark, database, tmp_path, Position("", 0))))


def filled(shop: Shop, name: str = "bag", count: int = ROWS) -> Shop:
    """A table of rows of which many are equal; the pipeline begins after them."""
    shop.execute(f"CREATE TABLE {name} (v INT, note VARCHAR(40), f FLOAT, d DATE)", "SET SESSION sql_mode = ''")
    chance = Random(5)
    values = [
        f"({chance.choice(['NULL', str(chance.randrange(40))])}, {chance.choice(['NULL', repr('x'), repr('ä')])}, "
        f"{chance.choice(['0.0', '-0.0', '1.5'])}, {chance.choice(['NULL', repr('0000-00-00'), repr('2024-02-29')])})"
        for _ in range(count)
    ]
    for at in range(0, count, 1000):
        shop.execute(f"INSERT INTO {name} VALUES {', '.join(values[at : at + 1000])}")
    shop.execute("FLUSH BINARY LOGS")
    return replace(shop, start=shop.end())


def is_mariadb(shop: Shop) -> bool:
    return "MariaDB" in shop.database.execute("SELECT VERSION()")[0][0]


def name_of(shop: Shop, table: str = "bag") -> TableName:
    return TableName(shop.database.name, table)


@contextmanager
def written_to(shop: Shop) -> Iterator[None]:
    """A writer that adds, changes and deletes copies, a transaction at a time, until the block is left."""
    ended, failed = threading.Event(), list[BaseException]()

    def write() -> None:
        chance = Random(7)
        try:
            with shop.database.server.connect() as connection, connection.cursor() as cursor:
                connection.select_db(shop.database.name)
                cursor.execute("SET SESSION sql_mode = ''")
                while not ended.wait(0.005):
                    v = chance.randrange(40)
                    match chance.randrange(3):
                        case 0:
                            cursor.execute(
                                "INSERT INTO bag VALUES (%s, 'x', 0.0, NULL), (%s, 'new', -0.0, NULL)", (v, v)
                            )
                        case 1:
                            cursor.execute("DELETE FROM bag WHERE v = %s LIMIT 2", (v,))
                        case _:
                            cursor.execute("UPDATE bag SET v = %s WHERE v = %s LIMIT 3", (chance.randrange(40), v))
        except BaseException as error:  # noqa: BLE001 - reported by the test's own thread
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not failed


def test_a_table_is_loaded_while_copies_are_written_and_deleted(shop: Shop, summary: list[str]) -> None:
    shop = filled(shop)
    pipeline = shop.pipeline(live=True)
    states: list[str] = []

    def disturbing(_name: TableName, commit: LoadCommit) -> None:
        states.append(commit.state)
        # A run of the source takes windows that begin before the snapshot and end after it.
        if commit.state == READ:
            shop.run(pipeline)

    with written_to(shop):
        first = shop.run(pipeline)[1]  # copies that the lake never saw come are deleted
        load = load_source(shop.spark, pipeline, SOURCE, on_progress=disturbing)
        assert load.stopped == {}
        shop.run(pipeline)
    assert states == [READING, READ, LOADED]
    assert shop.run(pipeline)[1].stopped == {}
    count = require_same(shop, pipeline, "bag")
    assert count > ROWS // 2
    position = load.tables[name_of(shop)].position
    assert position > shop.start
    assert {row["_window_stop"] for row in loaded_rows(shop, pipeline)} == {(1, *position.order[1:])}
    # Rows that were loaded change like others.
    shop.execute(
        "UPDATE bag SET note = 'ö' WHERE v = 3",
        "DELETE FROM bag WHERE v IS NULL",
        "INSERT INTO bag VALUES (1, 'x', 1, NULL)",
    )
    assert shop.run(pipeline)[1].stopped == {}
    require_same(shop, pipeline, "bag")
    summary.append(f"{'MariaDB' if is_mariadb(shop) else 'MySQL'}: {count} rows without a key, {len(first.stopped)}")


def loaded_rows(shop: Shop, pipeline: Pipeline) -> list[Row]:
    return [row for row in shop.silver(pipeline, "bag") if row["_op"] == silver.Op.LOAD]


def test_changes_before_the_position_have_no_effect_and_later_ones_do(shop: Shop) -> None:
    shop = filled(shop, count=50)
    pipeline = shop.pipeline(live=True)
    shop.execute("INSERT INTO bag VALUES (100, 'before', 1, NULL), (100, 'before', 1, NULL), (101, 'gone', 1, NULL)")
    shop.run(pipeline)
    shop.execute(
        "DELETE FROM bag WHERE v = 101", "DELETE FROM bag WHERE v = 100 LIMIT 1", "DELETE FROM bag WHERE v < 20"
    )

    def later(_name: TableName, commit: LoadCommit) -> None:
        if commit.state == READ:
            shop.execute("INSERT INTO bag VALUES (100, 'before', 1, NULL), (102, 'after', 1, NULL)")

    load = load_source(shop.spark, pipeline, SOURCE, on_progress=later)
    assert load.stopped == {}
    require_same(shop, pipeline, "bag")
    new_rows = lake_of(pipeline).downstream(shop.database.name, "bag").read(shop.spark).where("v >= 100")
    assert rows(new_rows) == [
        (100, "before", 1.0, None),
        (100, "before", 1.0, None),
        (102, "after", 1.0, None),
    ]
    # Silver is replayed from the position on, and not before it.
    commit = SilverCommit.of_head(lake_of(pipeline).silver(SOURCE, shop.database.name, "bag").head())
    assert commit is not None
    position = load.tables[name_of(shop)].position
    assert (commit.floor, commit.is_complete) == (position, True)
    replayed = backfill_source(shop.spark, pipeline, SOURCE, Range(position, commit.position), lambda _: True)
    assert replayed.stopped == {}
    require_same(shop, pipeline, "bag")
    refused = backfill_source(shop.spark, pipeline, SOURCE, Range(shop.start, commit.position), lambda _: True)
    assert "its windows before" in refused.stopped[name_of(shop)]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_after_a_kill_the_table_is_read_anew(shop: Shop, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", shop.database.server.password)
    shop = filled(shop, count=200)
    pipeline = shop.pipeline(live=True)
    shop.run(pipeline)
    # The first commit begins the load, and the second one has the rows.
    assert killed_at(shop.folder / "pipeline.yaml", "loads/", moment, "load", "2")
    interrupted = progress(lake_of(pipeline), SOURCE, name_of(shop))
    assert interrupted is not None
    assert interrupted.state == READING
    shop.execute("DELETE FROM bag LIMIT 20", "INSERT INTO bag VALUES (7, 'x', 0, NULL)")
    load = load_source(shop.spark, pipeline, SOURCE)
    assert load.stopped == {}
    assert load.tables[name_of(shop)].rows == 181
    assert require_same(shop, pipeline, "bag") == 181


STATEMENTS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "altered": ("ALTER TABLE bag ADD COLUMN w INT DEFAULT 7", lambda reason: not reason),
    "keyed": (
        "ALTER TABLE bag ADD COLUMN id INT PRIMARY KEY AUTO_INCREMENT",
        lambda reason: "has no key; load it again" in reason,
    ),
    "emptied": ("TRUNCATE TABLE bag", lambda reason: not reason),
    "indexed": ("CREATE INDEX by_v ON bag (v)", lambda reason: not reason),
}


@pytest.mark.parametrize("case", STATEMENTS)
def test_statements_after_it_was_read(shop: Shop, case: str) -> None:
    statement, expects = STATEMENTS[case]
    shop = filled(shop, count=30)
    pipeline = shop.pipeline(live=True)

    def disturbing(_name: TableName, commit: LoadCommit) -> None:
        if commit.state == READ:
            shop.execute("INSERT INTO bag (v) VALUES (1)", statement, "INSERT INTO bag (v) VALUES (2), (2)")

    load = load_source(shop.spark, pipeline, SOURCE, on_progress=disturbing)
    assert expects(load.stopped.get(name_of(shop), ""))
    if load.stopped:
        assert load_source(shop.spark, pipeline, SOURCE).stopped == {}
    require_same(shop, pipeline, "bag")


def test_a_unique_index_without_null_is_a_key_and_other_engines_are_refused(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE uniques (id INT NOT NULL, v INT, UNIQUE (id))",
        "CREATE TABLE nullable (id INT, v INT, UNIQUE (id))",
        "CREATE TABLE isam (v INT) ENGINE = MyISAM",
        "CREATE TABLE logged (v INT)",
    )
    for table in ("uniques", "nullable"):
        shop.execute(f"INSERT INTO {table} VALUES {', '.join(f'({at}, 1)' for at in range(20))}")
    shop.execute("INSERT INTO nullable VALUES (NULL, 1), (NULL, 1)", "FLUSH BINARY LOGS")
    late = replace(shop, start=shop.end())
    pipeline = late.pipeline(live=True, downstream=[{"tables": f"{shop.database.name}.logged", "mode": "history"}])
    load = load_source(shop.spark, pipeline, SOURCE, chunk_rows=5)
    assert {name.table: (commit.rows, commit.is_snapshot) for name, commit in load.tables.items()} == {
        "uniques": (20, False),
        "nullable": (22, True),
    }
    assert load.tables[name_of(shop, "uniques")].chunks > 1
    assert "keeps every change (mode: history)" in load.stopped[name_of(shop, "logged")]
    assert "its engine MyISAM has no snapshot" in load.stopped[name_of(shop, "isam")]
    for table in ("uniques", "nullable"):
        require_same(late, pipeline, table)


def test_rules_hold_for_rows_of_a_snapshot(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "pepper")
    shop.execute("CREATE TABLE masked (v INT, secret VARCHAR(20))", "CREATE TABLE judged (v INT, secret VARCHAR(20))")
    shop.execute("CREATE TABLE none (v INT)", "INSERT INTO none VALUES (1)")
    for table in ("masked", "judged"):
        shop.execute(f"INSERT INTO {table} VALUES (1, 'a'), (1, 'a'), (2, 'b'), (3, NULL)")
    shop.execute("FLUSH BINARY LOGS")
    late = replace(shop, start=shop.end(), folder=shop.folder / "late")
    late.folder.mkdir()
    masked, judged, without_rows = (str(name_of(shop, table)) for table in ("masked", "judged", "none"))
    rules = {
        "filters": {"none": {"tables": [without_rows], "events": ["insert"]}},
        "row_filters": {"twos": {"tables": [judged], "insert-value-expr": "v = 2", "delete-value-expr": "v = 2"}},
        "columns": {"secrets": {"tables": [masked, judged], "mask": {"secret": {"hash": "${SALT}"}}}},
    }
    pipelines = [(lake_shop, lake_shop.pipeline(live=True, **rules)) for lake_shop in (shop, late)]
    assert load_source(late.spark, pipelines[1][1], SOURCE).stopped == {}
    shop.execute(
        "DELETE FROM judged WHERE v = 2",
        "DELETE FROM masked WHERE v = 1 LIMIT 1",
        "UPDATE masked SET v = 9 WHERE v = 3",
    )
    for lake_shop, pipeline in pipelines:
        assert lake_shop.run(pipeline)[1].stopped == {}
    for table, count in (("masked", 3), ("judged", 3), ("none", 0)):
        logged, loaded = (
            target.read(shop.spark)
            if (target := lake_of(pipeline).downstream(shop.database.name, table)).head()
            else None
            for _, pipeline in pipelines
        )
        assert (rows(loaded) if loaded else []) == (rows(logged) if logged else [])
        assert len(rows(loaded) if loaded else []) == count


def test_a_user_who_may_not_lock_is_told_the_grant(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = filled(shop, count=20)
    server = shop.database.server
    shop.execute("DROP USER IF EXISTS reader", "CREATE USER reader IDENTIFIED BY 'Read-1'")
    shop.execute(
        f"GRANT SELECT ON {shop.database.name}.* TO reader",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader",
    )
    if is_mariadb(shop):
        shop.execute("GRANT BINLOG MONITOR ON *.* TO reader")
    monkeypatch.setenv("READER_PASSWORD", "Read-1")
    login = {"host": server.host, "port": server.port, "user": "reader", "password": "${READER_PASSWORD}"}
    pipeline = shop.pipeline(sources={SOURCE: {"mysql": login, "start": str(shop.start)}})
    load = load_source(shop.spark, pipeline, SOURCE)
    if is_mariadb(shop):
        assert load.stopped == {}, "the server names the position of a snapshot"
    else:
        (reason,) = load.stopped.values()
        assert f"GRANT LOCK TABLES ON `{shop.database.name}`.* TO 'reader'@'%'" in reason
        assert "\n" not in reason
        shop.execute(f"GRANT LOCK TABLES ON {shop.database.name}.* TO reader")
        assert load_source(shop.spark, pipeline, SOURCE).stopped == {}
    require_same(shop, pipeline, "bag")


def test_a_transaction_that_does_not_end_is_waited_for(shop: Shop) -> None:
    shop = filled(shop, count=20)
    pipeline = shop.pipeline(live=True)
    with shop.database.server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        connection.select_db(shop.database.name)
        cursor.execute("INSERT INTO bag VALUES (1, 'open', 1, NULL)")
        load = load_source(shop.spark, pipeline, SOURCE)
        if is_mariadb(shop):
            assert load.stopped == {}
        else:
            (reason,) = load.stopped.values()
            assert "a transaction that wrote to it has not ended" in reason
        connection.commit()
    if load.stopped:
        assert load_source(shop.spark, pipeline, SOURCE).stopped == {}
    shop.run(pipeline)
    assert require_same(shop, pipeline, "bag") == 21
