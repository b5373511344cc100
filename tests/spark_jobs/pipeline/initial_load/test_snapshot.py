"""Snapshots at a position, on real servers. Whole loads: tests/pipeline/test_load_keyless.py."""

import re
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.filters import TableFilters
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load import snapshot
from spark_jobs.pipeline.initial_load.key_ranges import Key
from spark_jobs.pipeline.initial_load.row_rules import COUNTED, RowRules
from spark_jobs.pipeline.initial_load.selecting import Selecting
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.row_filters import ChangeFilters
from spark_jobs.source.information_schema import on_server
from tests.fix_mysql import Database, database_of
from tests.fix_servers import Servers
from tests.servers import SERVERS
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
    place = end(database)
    with snapshot.opened(selecting(database)) as (position, changes):
        assert position == place
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
    with snapshot.opened(selecting(database)) as (_, changes):
        thread.start()
        assert not ended.wait(0.3)
        assert sum(map(len, changes)) == 3
    thread.join()
    assert ended.is_set()


def batches(database: Database) -> Iterator[pa.RecordBatch]:
    reading = selecting(database)
    definition, filters = reading.definition, TableFilters()
    changes = ChangeFilters.of(filters, definition, frozenset())
    rules = RowRules(definition, filters, silver.columns(definition), masks_of(definition, None), changes)
    return snapshot.batches(reading, rules)


def test_spark_gets_the_position_as_a_row_of_its_own(database: Database) -> None:
    place = end(database)
    rows = pa.Table.from_batches(batches(database))
    assert rows.column_names == ["v", "n'o", "_raw", *COUNTED, snapshot.PLACE]
    assert rows.column(snapshot.PLACE).to_pylist() == [str(place), None, None, None]
    database.execute("DELETE FROM bag")
    assert len(pa.Table.from_batches(batches(database))) == 1


def test_a_user_who_may_not_lock_is_told_the_grant(database: Database) -> None:
    database.execute(f"REVOKE LOCK TABLES ON {database.name}.* FROM repl")
    if "MariaDB" in database.execute("SELECT VERSION()")[0][0]:
        assert len(pa.Table.from_batches(batches(database))) == 4
        return
    grant = f"GRANT LOCK TABLES ON `{database.name}`.* TO 'repl'@'%'"
    with pytest.raises(SourceError, match=re.escape(grant)):
        next(batches(database))


def test_writers_that_do_not_end_are_not_waited_for_long(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_LOCK_SECONDS", 1)
    monkeypatch.setattr(snapshot, "_TRIES", 2)
    is_mariadb = "MariaDB" in database.execute("SELECT VERSION()")[0][0]
    with database.server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {database.name}.bag")
        if is_mariadb:
            with snapshot.opened(selecting(database)) as (_, changes):
                assert sum(map(len, changes)) == 3
        else:
            with pytest.raises(SourceError, match="a transaction that wrote to it has not ended within"):
                next(batches(database))
        connection.rollback()
