"""Rows that a server changes, or has, and does not tell in its log: cascades, system versioning, sequences."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.checks.schema_drift import audit_schema
from spark_jobs.checks.verify import verify_source
from spark_jobs.ddl.sequences import REASON
from spark_jobs.demo.server import MySQLServer
from spark_jobs.downstream.publication import read
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.repair import add, plan_skip
from spark_jobs.pipeline.cascades.unlogged_changes import cascades
from tests.command_result import without_codes
from tests.fix_mysql import database_of
from tests.fix_pipeline import SOURCE, Shop
from tests.fix_servers import Servers, build_or_skip, telling

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

PARENT = "CREATE TABLE p (id INT PRIMARY KEY)"
CHILD = (
    "CREATE TABLE c (id INT PRIMARY KEY, pid INT, CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE)"
)


def states(shop: Shop, **keys: object) -> dict[str, tuple[str, str]]:
    entries = read(lake_of(shop.pipeline(tables=["memory.*"])), SOURCE)
    return {entry.table: (entry.state, entry.reason or "") for entry in entries}


def test_a_child_whose_rows_go_by_a_cascade_is_told_by_name(shop: Shop) -> None:
    shop.execute(PARENT, CHILD, "INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (1, 1), (2, 2)")
    shop.execute("DELETE FROM p WHERE id = 1")
    pipeline = shop.pipeline(on_cascade="warn")
    _, outcome = shop.run(pipeline)
    assert not outcome.stopped
    assert shop.merged(pipeline, "c") == [(1, 1), (2, 2)], "the log does not tell that the server deleted row 1"
    (cascade,) = cascades(pipeline, lake_of(pipeline), SOURCE)
    assert str(cascade).startswith(f"{shop.database.name}.c: is changed by the foreign key f -> {shop.database.name}.p")
    causes = {
        verdict.table.table: verdict.causes
        for verdict in verify_source(shop.spark, shop.pipeline(live=True, on_cascade="warn"), SOURCE)
    }
    assert causes["p"] == ()
    assert [cause.partition(", ")[0] for cause in causes["c"]] == [str(cascade).partition(": ")[2].partition(", ")[0]]


def test_a_child_is_mended_as_the_page_says(shop: Shop) -> None:
    shop.execute(PARENT, CHILD, "INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (1, 1), (2, 2), (3, 1)")
    shop.execute("DELETE FROM p WHERE id = 1")
    pipeline = shop.pipeline(on_cascade="warn")
    shop.run(pipeline)
    # A row that only the lake has: the log gets its DELETE by an INSERT before it.
    shop.execute("SET foreign_key_checks = 0", "INSERT INTO c VALUES (1, 1)", "DELETE FROM c WHERE id = 1")
    shop.execute("SET foreign_key_checks = 1")
    shop.run(pipeline)
    assert shop.merged(pipeline, "c") == [(2, 2), (3, 1)]
    # The whole table.
    shop.execute(
        "CREATE TABLE copy LIKE c",
        "ALTER TABLE copy ADD CONSTRAINT f2 FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE",
        "INSERT INTO copy SELECT * FROM c",
        "RENAME TABLE c TO old, copy TO c",
        "DROP TABLE old",
    )
    shop.run(pipeline)
    assert shop.merged(pipeline, "c") == shop.truth("c") == [(2, 2)]
    (cascade,) = cascades(pipeline, lake_of(pipeline), SOURCE)
    assert (cascade.table.table, cascade.key.name) == ("c", "f2")


@pytest.mark.thorough
def test_where_cascades_stop_a_child_holds_what_came_before_the_parent_s_change(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE p (id INT PRIMARY KEY, note INT)",
        "CREATE TABLE c (id INT PRIMARY KEY, pid INT, v INT)",
        "INSERT INTO p VALUES (1, 0), (2, 0), (3, 0)",
        "INSERT INTO c VALUES (1, 1, 0), (2, 2, 0)",
        "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL",
        "UPDATE p SET note = 1",
        "INSERT INTO c VALUES (3, 3, 0)",
    )
    pipeline = shop.pipeline(on_cascade=[{"tables": f"{shop.database.name}.c", "action": "stop"}])
    # Neither the key itself, nor what the parent's changes do not cascade, stops the child.
    _, outcome = shop.run(pipeline)
    assert not outcome.stopped
    shop.execute("SET foreign_key_checks = 0", "DELETE FROM p WHERE id = 3", "SET foreign_key_checks = 1")
    _, outcome = shop.run(pipeline)
    assert not outcome.stopped
    # A transaction in which the child's rows change before its parent's: it stops before all of it.
    shop.execute("INSERT INTO c VALUES (4, 1, 0)")
    at = shop.end()
    shop.execute("BEGIN", "UPDATE c SET v = 1", "UPDATE p SET id = 20 WHERE id = 2", "COMMIT")
    shop.execute("INSERT INTO c VALUES (5, 1, 0)")
    shop.run(pipeline)
    _, outcome = shop.run(pipeline)
    ((name, reason),) = outcome.stopped.items()
    text = without_codes(reason)
    assert text.startswith(f"{SOURCE}: {shop.database.name}.c: UPDATE of its parent at {at.file}:")
    assert "the foreign key f -> " in text
    assert shop.merged(pipeline, "c") == [(1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 1, 0)]
    assert shop.merged(pipeline, "p") == [(1, 1), (20, 1)]
    # The event is quarantined for the child, which goes on without what the server did by it.
    location = text.partition(" of its parent at ")[2].partition(": ")[0]
    assert f"stratalog skip --source {SOURCE} --at {location} --table {name}" in text
    (skip,) = plan_skip(pipeline, SOURCE, location)
    assert skip.name == name
    add(pipeline, SOURCE, [skip])
    _, outcome = shop.run(pipeline)
    assert not outcome.stopped
    assert shop.merged(pipeline, "c") == [(1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 1, 1), (5, 1, 0)]
    # A run without a row of the child finds the parent's change all the same.
    shop.execute("DELETE FROM p WHERE id = 1")
    _, outcome = shop.run(pipeline)
    assert [name.table for name in outcome.stopped] == ["c"]
    assert len(shop.merged(pipeline, "c")) == 5
    shop.run(shop.pipeline(on_cascade="warn"))
    assert shop.merged(pipeline, "p") == [(20, 1)]


def test_keys_older_than_the_log_are_told_by_the_server(shop: Shop) -> None:
    shop.execute(PARENT, CHILD)
    later = Shop(shop.spark, shop.database, shop.folder, shop.end())
    pipeline = later.pipeline(live=True, on_cascade="warn")
    later.execute("INSERT INTO p VALUES (1)", "INSERT INTO c VALUES (1, 1)")
    later.run(pipeline)
    assert [cascade.key.name for cascade in cascades(pipeline, lake_of(pipeline), SOURCE)] == ["f"]
    later.execute("ALTER TABLE c DROP FOREIGN KEY f")
    later.run(pipeline)
    assert cascades(pipeline, lake_of(pipeline), SOURCE) == []


@pytest.fixture(params=["FULL", "NO_LOG"])
def maria(request: pytest.FixtureRequest, spark: SparkSession, servers: Servers, tmp_path: Path) -> Iterator[Shop]:
    """A pipeline over MariaDB, whose log names columns or does not."""
    server = servers.get("mariadb-11.4")
    with telling(server, request.param), database_of(server) as database:
        file, offset = database.execute("SHOW MASTER STATUS")[0][:2]
        yield Shop(spark, database, tmp_path, Position(file, offset))


VERSIONED = [
    "CREATE TABLE v (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING",
    (
        "CREATE TABLE v (id INT PRIMARY KEY, a INT, rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START, re TIMESTAMP(6) "
        "GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (rs, re)) WITH SYSTEM VERSIONING"
    ),
    "CREATE TABLE v (id INT PRIMARY KEY, a INT WITH SYSTEM VERSIONING)",
]
CHANGES = [
    "INSERT INTO v (id, a) VALUES (1, 1), (2, 2)",
    "UPDATE v SET a = 3 WHERE id = 1",
    "DELETE FROM v WHERE id = 2",
]


@pytest.mark.thorough
@pytest.mark.parametrize("create", VERSIONED)
def test_a_system_versioned_table_stops_by_name_and_others_go_on(maria: Shop, create: str) -> None:
    at = maria.end()
    maria.execute(create, *CHANGES, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pipeline = maria.pipeline(live=True)
    for _ in range(2):
        _, outcome = maria.run(pipeline)
        ((name, reason),) = outcome.stopped.items()
        assert without_codes(reason).startswith(f"{SOURCE}: {name}: at {at.file}:")
        assert "is a system-versioned table: the log has its historical rows" in reason
        assert f'leave the table out (tables: "!{name}"' in reason
        assert maria.merged(pipeline, "t") == [(1,)]
        assert lake_of(pipeline).silver(SOURCE, name.schema, "v").head() is None
        maria.execute("UPDATE v SET a = a + 1")


def test_a_table_that_is_versioned_later_holds_what_came_before(maria: Shop) -> None:
    maria.execute("CREATE TABLE v (id INT PRIMARY KEY, a INT)", "INSERT INTO v VALUES (1, 1)")
    pipeline = maria.pipeline(live=True)
    maria.run(pipeline)
    maria.execute("INSERT INTO v VALUES (2, 2)", "ALTER TABLE v ADD SYSTEM VERSIONING", "UPDATE v SET a = 3")
    _, outcome = maria.run(pipeline)
    ((_, reason),) = outcome.stopped.items()
    assert "is a system-versioned table" in reason


def test_versioning_older_than_the_log_is_told_by_the_server(maria: Shop) -> None:
    maria.execute(VERSIONED[0])
    later = Shop(maria.spark, maria.database, maria.folder, maria.end())
    later.execute(*CHANGES)
    _, outcome = later.run(later.pipeline(live=True))
    ((_, reason),) = outcome.stopped.items()
    assert "since before the log is a system-versioned table" in reason


@pytest.mark.thorough
def test_sequences_are_left_out_by_name(maria: Shop) -> None:
    maria.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE SEQUENCE s")
    pipeline = maria.pipeline(live=True)
    for _ in range(2):
        maria.execute("SELECT NEXTVAL(s)", "SELECT SETVAL(s, 5000)", "INSERT INTO t SELECT max(id) + 1 FROM t")
        _, outcome = maria.run(pipeline)
        assert not outcome.stopped
        states = {
            entry.table: (entry.state, entry.reason) for entry in outcome.entries if entry.schema == maria.database.name
        }
        assert states["s"] == ("ignored", REASON)
        assert states["t"] == ("current", None)
    lake = lake_of(pipeline)
    assert lake.silver(SOURCE, maria.database.name, "s").head() is None
    assert lake.downstream(maria.database.name, "s").head() is None
    assert [(verdict.table.table, verdict.state) for verdict in verify_source(maria.spark, pipeline, SOURCE)] == [
        ("t", "equal")
    ]
    audit = audit_schema(pipeline, SOURCE)
    assert audit is not None
    assert not audit.lines()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_a_memory_table_is_empty_after_its_server_restarted(name: str, spark: SparkSession, tmp_path: Path) -> None:
    build, data = build_or_skip(name), tmp_path / "server"
    data.mkdir()
    with MySQLServer(data, build=build) as server, database_of(server) as database:
        database.execute("CREATE DATABASE memory")
        database.execute("CREATE TABLE memory.m (id INT PRIMARY KEY) ENGINE = MEMORY")
        database.execute("INSERT INTO memory.m VALUES (1), (2)")
        shop = Shop(spark, replace(database, name="memory"), tmp_path, Position("mysql-bin.000001", 4))
        shop.run(shop.pipeline(tables=["memory.*"]))
        assert shop.merged(shop.pipeline(tables=["memory.*"]), "m") == [(1,), (2,)]
    with MySQLServer(data, build=build) as server, database_of(server) as database:
        assert database.execute("SELECT * FROM memory.m") == ()
        database.execute("INSERT INTO memory.m VALUES (3)")
        shop = Shop(spark, replace(database, name="memory"), tmp_path, Position("mysql-bin.000001", 4))
        _, outcome = shop.run(shop.pipeline(tables=["memory.*"]))
        assert not outcome.stopped
        assert shop.merged(shop.pipeline(tables=["memory.*"]), "m") == [(3,)]
