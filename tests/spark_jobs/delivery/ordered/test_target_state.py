"""What statements of the log do to a table of a real server, and which are refused."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import Column
from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.routes import Destination
from spark_jobs.delivery.lake_table import LakeTable
from spark_jobs.delivery.ordered.judgement import Judge
from spark_jobs.delivery.ordered.target_state import Columns, TargetState
from spark_jobs.delivery.target import Connection
from spark_jobs.errors import DeliveryError
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Range
from spark_jobs.silver.compaction_job import CompactionJob, Window
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.binlogs.timelines import NAME, OLD, STRICT, at, definition, steps
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql

LABEL = "shop.t"
OTHER_KEY = "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)"
BEFORE: Columns = {
    "p-id": {"name": "id", "definition": "int NOT NULL"},
    "p-v": {"name": "v", "definition": "int NULL"},
}


@dataclass(frozen=True)
class Target:
    """A table of the server, with columns id and v, as the log has them."""

    database: Database
    connection: Connection
    folder: Path
    before: Columns = field(default_factory=lambda: BEFORE)

    def state(self, change: SchemaChange, **keys: Any) -> TargetState:
        schema = self.database.name
        lake = Table(str(self.folder), plain=False)
        job = CompactionJob("shop", NAME, Window(lake, 0, (Range(at(10), at(1000)),)), (change,), lake, None, 0)
        settings = Delivery.model_validate({"mysql": {"user": "w"}, "apply": "ordered"} | keys)
        into = LakeTable(schema, "t", lake, 0, (("shop", NAME),), Destination(schema, "t"))
        writing = self.connection, self.connection.execute
        return TargetState(LABEL, settings, 0, into, Judge(job, {}), *writing, self.before, TableState(OLD))

    def columns(self) -> list[str]:
        return [row[0] for row in self.database.execute("SHOW COLUMNS FROM t")]

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.database.execute("SELECT * FROM t"))


@pytest.fixture
def target(database: Database, tmp_path: Path) -> Iterator[Target]:
    server = database.server
    database.execute("CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'")
    database.execute(f"GRANT ALL ON `{database.name}`.* TO writer@'%'")
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    database.execute("INSERT INTO t VALUES (1, 10)")
    login = {"host": server.host, "port": server.port, "user": "writer", "password": "writes"}
    settings = Delivery.model_validate({"mysql": login}).mysql
    with Connection("copy", settings) as connection:
        yield Target(database, connection, tmp_path)


def change_by(statement: str) -> SchemaChange:
    """What a statement does to a table (id, v)."""
    timeline = steps((500, statement), last=400, session=STRICT)
    [change] = (step for step in timeline if isinstance(step, SchemaChange))
    return change


@pytest.mark.parametrize(
    "statement, columns, clauses, rows",
    [
        ("ALTER TABLE t RENAME COLUMN v TO w", {"p-id": "id", "p-v": "w"}, "RENAME COLUMN `v` TO `w`", [(1, 10)]),
        ("ALTER TABLE t CHANGE v w BIGINT", {"p-id": "id", "p-v": "w"}, "CHANGE COLUMN `v` `w` bigint NULL", [(1, 10)]),
        (
            "ALTER TABLE t ADD x INT DEFAULT 7",
            {"p-id": "id", "p-v": "v", "x@b.000001:500": "x"},
            "ADD COLUMN `x` int NULL DEFAULT 7 AFTER `v`",
            [(1, 10, 7)],
        ),
        ("ALTER TABLE t DROP v", {"p-id": "id"}, "DROP COLUMN `v`", [(1,)]),
        # A name that is free and taken again at once is of another column.
        (
            "ALTER TABLE t RENAME COLUMN v TO w, ADD v INT FIRST",
            {"v@b.000001:500": "v", "p-id": "id", "p-v": "w"},
            None,
            None,
        ),
        ("TRUNCATE t", {"p-id": "id", "p-v": "v"}, "", []),
    ],
)
def test_physical_names_follow_a_statement(
    target: Target, statement: str, columns: dict[str, str], clauses: str | None, rows: list[tuple[Any, ...]] | None
) -> None:
    change = change_by(statement)
    state = target.state(change)
    applied = state.apply(change)
    after, executed = applied.columns, applied.executed
    assert {physical: column["name"] for physical, column in after.items()} == columns
    assert (state.before, state.state) == (after, change.state)
    if clauses is not None:
        table = f"`{target.database.name}`.`t`"
        assert executed == [f"ALTER TABLE {table} {clauses}" if clauses else f"TRUNCATE TABLE {table}"]
        assert target.rows() == rows


@pytest.mark.parametrize(
    "ddl, is_there, message",
    [
        (
            "stop",
            True,
            r"^shop.t: its columns changed at b.000001:500, and ddl is stop; run .*: ALTER TABLE .*`t` RENAME COLUMN",
        ),
        ("apply", False, "^shop.t: the target has no such table; create it, or set ddl: apply"),
        ("ignore", False, None),
        ("ignore", True, None),
    ],
)
def test_who_alters(target: Target, ddl: str, is_there: bool, message: str | None) -> None:
    change = change_by("ALTER TABLE t RENAME COLUMN v TO w")
    if not is_there:
        target.database.execute("DROP TABLE t")
    state = target.state(change, ddl=ddl)
    if message:
        with pytest.raises(DeliveryError, match=message):
            state.apply(change)
        assert state.before == BEFORE, "nothing is noted of it"
    else:
        applied = state.apply(change)
        assert (applied.columns["p-v"]["name"], applied.executed) == ("w", [])
    assert not is_there or target.columns() == ["id", "v"]


def test_what_somebody_has_altered_is_not_stopped_at(target: Target) -> None:
    change = change_by("ALTER TABLE t RENAME COLUMN v TO w")
    target.database.execute("ALTER TABLE t RENAME COLUMN v TO w")
    applied = target.state(change, ddl="stop").apply(change)
    assert (applied.columns["p-v"]["name"], applied.executed) == ("w", [])


@pytest.mark.parametrize(
    "statement, is_empty, message",
    [
        (OTHER_KEY, False, "^shop.t: the statement at b.000001:500 gave the table rows that it had under another"),
        (OTHER_KEY, True, "^shop.t: the primary key changed at b.000001:500; change the target's too"),
        ("ALTER TABLE t RENAME COLUMN id TO k", False, None),
    ],
)
def test_a_key_that_changes(target: Target, statement: str, is_empty: bool, message: str | None) -> None:
    """is_empty: no row is known that the table had under its earlier key."""
    change = change_by(statement)
    change = replace(change, inherited=None) if is_empty else change
    state = target.state(change)
    if message is None:
        state.apply(change)
        assert target.columns() == ["k", "v"]
        return
    with pytest.raises(DeliveryError, match=message):
        state.apply(change)
    assert target.columns() == ["id", "v"]


@pytest.mark.parametrize(
    "table, message",
    [
        ("", "^shop.t: the target has no such table"),
        ("CREATE TABLE t (theirs INT)", "^shop.t: the target's table has no column of the lake's"),
    ],
)
def test_a_table_that_takes_no_rows(target: Target, table: str, message: str) -> None:
    target.database.execute("DROP TABLE t")
    if table:
        target.database.execute(table)
    with pytest.raises(DeliveryError, match=message):
        target.state(change_by("TRUNCATE t")).open(TableState(OLD))


def test_a_table_is_looked_at_again_for_another_definition(target: Target) -> None:
    state = target.state(change_by("TRUNCATE t"))
    state.open(TableState(OLD))
    writer = state.writer
    assert writer
    assert ([column.name for column in writer.columns], writer.key) == (["id", "v"], ("id",))
    assert not state.has_own_columns
    target.database.execute("ALTER TABLE t ADD theirs INT")
    state.open(TableState(OLD))
    assert state.writer is writer
    state.open(TableState(definition(Column("id", 3, nullable=False))))
    assert state.writer is not writer
    assert [column.name for column in state.writer.columns] == ["id"]
    assert state.has_own_columns
