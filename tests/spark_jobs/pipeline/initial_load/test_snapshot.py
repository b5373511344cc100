"""Snapshots at a position, on real servers. Whole loads: tests/pipeline/test_load_keyless.py."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.filters import TableFilters
from spark_jobs.delta.snapshot import DataFile, new_table
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load import snapshot
from spark_jobs.pipeline.initial_load.key_ranges import Key
from spark_jobs.pipeline.initial_load.range_files import FileTarget
from spark_jobs.pipeline.initial_load.row_rules import FilteredRows, RowRules
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.row_filters import ChangeFilters
from spark_jobs.source.information_schema import on_server
from tests.fix_mysql import Database, database_of
from tests.fix_servers import Servers
from tests.services.servers import SERVERS
from tests.spark_jobs.source.test_server import settings, source_of

pytestmark = pytest.mark.mysql


@pytest.fixture(params=SERVERS)
def database(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Database]:
    """A table without a key, of three rows."""
    with database_of(servers.get(request.param)) as database:
        database.execute(f"GRANT LOCK TABLES ON {database.name}.* TO repl")
        database.execute("CREATE TABLE bag (v INT, `n'o` VARCHAR(9))")
        database.execute("INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (NULL, NULL)")
        yield database


def selecting(database: Database) -> Selecting:
    name = TableName(database.name, "bag")
    definition = on_server(source_of(database.server))[name]
    return Selecting("shop", settings(database.server), definition, Key(name.schema, name.table, ()))


def end(database: Database) -> Position:
    server = source_of(database.server)
    with server.connect() as connection:
        return server.end(connection)


def test_rows_are_those_of_the_position(database: Database) -> None:
    log_position = end(database)
    with snapshot.open_snapshot(selecting(database)) as (position, changes):
        assert position == log_position
        database.execute("INSERT INTO bag VALUES (2, 'later')")
        rows = [row for change in changes for row in change.after.to_pylist()]
    assert rows == [{"v": 1, "n'o": "a"}] * 2 + [{"v": None, "n'o": None}]
    assert end(database) > position


def test_statements_that_change_the_table_wait_for_its_end(database: Database) -> None:
    ended = threading.Event()

    def alter() -> None:
        with database.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {database.name}.bag ADD COLUMN w INT")
        ended.set()

    thread = threading.Thread(target=alter)
    with snapshot.open_snapshot(selecting(database)) as (_, changes):
        thread.start()
        assert not ended.wait(0.3)
        assert sum(map(len, changes)) == 3
    thread.join()
    assert ended.is_set()


def read(database: Database, folder: Path) -> list[Position | DataFile | FilteredRows]:
    """What a task gives of the table, whose files go to a folder."""
    reading = selecting(database)
    definition, filters = reading.definition, TableFilters()
    changes = ChangeFilters.of(filters, definition, frozenset())
    rules = RowRules(definition, filters, silver.columns(definition), masks_of(definition, None), changes)
    target = FileTarget.of(new_table(str(folder), rules.staged, {}))
    return list(snapshot.read_snapshot(snapshot.SnapshotTask(reading, rules, target)))


def test_a_task_gives_the_position_before_the_files(database: Database, tmp_path: Path) -> None:
    position, file = read(database, tmp_path)
    assert position == end(database)
    assert isinstance(file, DataFile)
    assert file.num_records == 3
    database.execute("DELETE FROM bag")
    assert read(database, tmp_path) == [end(database)]


def test_a_user_who_may_not_lock_is_told_the_grant(database: Database, tmp_path: Path) -> None:
    database.execute(f"REVOKE LOCK TABLES ON {database.name}.* FROM repl")
    if "MariaDB" in database.execute("SELECT VERSION()")[0][0]:
        assert len(read(database, tmp_path)) == 2
        return
    grant = f"GRANT LOCK TABLES ON `{database.name}`.* TO 'repl'@'%'"
    with pytest.raises(SourceError, match=re.escape(grant)):
        read(database, tmp_path)


def test_the_privilege_is_known_without_a_lock(database: Database) -> None:
    names = [TableName(database.name, "bag"), TableName("absent_schema", "t")]
    server = source_of(database.server)
    with database.server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {database.name}.bag")  # a lock would wait for it
        snapshot.require_lock(server, names[:1])
        database.execute(f"REVOKE LOCK TABLES ON {database.name}.* FROM repl")
        if "MariaDB" in database.execute("SELECT VERSION()")[0][0]:
            snapshot.require_lock(server, names)
            return
        with pytest.raises(SourceError) as refused:
            snapshot.require_lock(server, names)
    assert str(refused.value) == (
        f"shop: {database.name}.bag: is locked against writers for the moment in which its snapshot is opened, and the "
        f"user may not do that; GRANT LOCK TABLES ON `{database.name}`.* TO 'repl'@'%'; GRANT LOCK TABLES ON "
        "`absent_schema`.* TO 'repl'@'%'"
    )


def test_writers_that_do_not_end_are_not_waited_for_long(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_LOCK_SECONDS", 1)
    monkeypatch.setattr(snapshot, "_TRIES", 2)
    is_mariadb = "MariaDB" in database.execute("SELECT VERSION()")[0][0]
    with database.server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {database.name}.bag")
        if is_mariadb:
            with snapshot.open_snapshot(selecting(database)) as (_, changes):
                assert sum(map(len, changes)) == 3
        else:
            with pytest.raises(SourceError, match="a transaction that wrote to it has not ended within"):
                read(database, tmp_path)
        connection.rollback()
