from collections.abc import Iterator

import pytest

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery import progress
from spark_jobs.delivery.progress import Step, TableId, WindowPlan
from spark_jobs.delivery.target import Connection
from tests.fix_mysql import Database

pytestmark = pytest.mark.mysql

TABLE = TableId("it's", "s\u00e9", "t`")
STEP = Step("lake", 5, "shop.töpfe.漢 mysql-bin.000001:9", {"p1": {"name": "c", "definition": "int NULL"}})


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    server = database.server
    database.execute("CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'")
    database.execute("GRANT ALL ON stratalog.* TO writer@'%'")
    database.execute("DROP DATABASE IF EXISTS stratalog")
    with Connection("it's", MySQL(host=server.host, port=server.port, user="writer", password="writes")) as connection:
        yield connection
    database.execute("DROP DATABASE IF EXISTS stratalog")


def test_a_row_is_moved_once_and_by_its_last_owner_alone(connection: Connection) -> None:
    assert not progress.exists(connection)
    progress.create(connection)
    progress.create(connection)
    assert progress.exists(connection)
    first = progress.claim(connection, TABLE)
    assert (first.fence, first.version, first.columns) == (1, None, {})
    assert connection.execute(progress.complete_version_sql(TABLE, first, STEP, 3)) == 1
    assert connection.execute(progress.complete_version_sql(TABLE, first, STEP, 3)) == 0, "a second time"
    second = progress.claim(connection, TABLE)
    assert (second.fence, second.version, second.position, second.rows_written) == (2, 5, STEP.position, 3)
    assert second.columns == STEP.columns
    later = Step("lake", 6, "mysql-bin.000001:10", {})
    assert connection.execute(progress.complete_version_sql(TABLE, first, later, 0)) == 0, (
        "by the one that was overtaken"
    )
    assert connection.execute(progress.complete_version_sql(TABLE, second, later, 0)) == 1
    assert list(progress.progress_by_table(connection, "it's")) == [(TABLE.schema, TABLE.table)]
    assert progress.progress_by_table(connection, "another") == {}


def test_a_window_in_parts(connection: Connection) -> None:
    progress.create(connection)
    overtaken, row = progress.claim(connection, TABLE), progress.claim(connection, TABLE)
    plan = WindowPlan("digest", part_rows=7, tables=frozenset({("s", "t")}))
    assert connection.execute(progress.open_window_sql(TABLE, overtaken, STEP, plan)) == 0
    assert connection.execute(progress.open_window_sql(TABLE, row, STEP, plan)) == 1
    assert connection.execute(progress.open_window_sql(TABLE, row, STEP, WindowPlan("other"))) == 0
    for part in ("i0-11", "1"):
        assert connection.execute(progress.complete_part_sql(TABLE, row, 5, part, 2)) == 1
        assert connection.execute(progress.complete_part_sql(TABLE, row, 5, part, 2)) == 0
    assert connection.execute(progress.complete_part_sql(TABLE, row, 6, "2", 2)) == 0, "of another window"
    stored = progress.claim(connection, TABLE)
    assert (stored.exit_version, stored.exit_position, stored.plan) == (5, STEP.position, plan)
    assert (sorted(stored.parts), stored.rows_written) == (["1", "i0-11"], 4)
    assert connection.execute(progress.complete_part_sql(TABLE, row, 5, "3", 2)) == 0, "by the one that was overtaken"
    assert connection.execute(progress.complete_version_sql(TABLE, stored, STEP, 0)) == 1
    assert connection.execute(progress.restart_sql(TABLE)) == 1
    after = progress.claim(connection, TABLE)
    assert (after.version, after.exit_version, after.fence) == (None, None, 5)


def test_a_window_from_its_beginning_again(connection: Connection) -> None:
    progress.create(connection)
    row = progress.claim(connection, TABLE)
    assert connection.execute(progress.open_window_sql(TABLE, row, STEP, WindowPlan("first"))) == 1
    assert connection.execute(progress.complete_part_sql(TABLE, row, 5, "1", 2)) == 1
    stored, second_plan = progress.claim(connection, TABLE), WindowPlan("second", is_repeated=True)
    assert connection.execute(progress.open_window_sql(TABLE, row, STEP, second_plan)) == 0, (
        "by the one that was overtaken"
    )
    assert connection.execute(progress.open_window_sql(TABLE, stored, STEP, second_plan)) == 1
    stored = progress.claim(connection, TABLE)
    assert (stored.plan, stored.parts, stored.exit_version) == (second_plan, frozenset(), 5)


def test_the_tables_of_a_log_and_the_logs_of_a_table(connection: Connection) -> None:
    progress.create(connection)
    row = progress.claim(connection, TABLE)
    assert (row.tables, row.logs) == (None, None)
    names = frozenset({("s", "b"), ("s", "a")})
    assert connection.execute(progress.set_tables_sql(TABLE, row, names)) == 1
    row = progress.claim(connection, TABLE)
    assert row.tables == names
    assert connection.execute(progress.open_window_sql(TABLE, row, STEP, WindowPlan("x"))) == 1
    row = progress.claim(connection, TABLE)
    assert row.tables == names
    assert connection.execute(progress.leave_log_sql(TABLE, row, frozenset({("s", "a"), ("s", "c")}))) == 1
    assert connection.execute(progress.set_tables_sql(TABLE, row, names)) == 0, "by the one that was overtaken"
    row = progress.claim(connection, TABLE)
    assert (row.tables, row.plan) == (frozenset({("s", "b")}), WindowPlan("x"))
    step = Step("lake", 7, "b.000001:4", {}, logs={"shop": "b.000001:9"})
    assert connection.execute(progress.set_version_sql(TABLE, step)) == 1
    row = progress.claim(connection, TABLE)
    assert (row.version, row.logs, row.tables) == (7, {"shop": "b.000001:9"}, None)


def test_a_table_of_progress_of_an_earlier_release(connection: Connection) -> None:
    progress.create(connection)
    connection.execute("ALTER TABLE stratalog.checkpoint DROP COLUMN plan, ADD COLUMN part_rows BIGINT NULL")
    names = "delivery, table_schema, table_name, fence, exit_version, exit_position, parts, part_rows"
    connection.execute(f"INSERT INTO stratalog.checkpoint ({names}) VALUES ('d', 's', 't', 1, 4, 'b.1:4', ',0,2', 10)")
    [(row, _)] = progress.progress_by_table(connection, "d").values()
    assert (row.exit_version, row.plan, row.parts) == (4, None, frozenset({"0", "2"}))
    progress.create(connection)
    progress.create(connection)
    row = progress.claim(connection, TableId("d", "s", "t"))
    assert (row.exit_version, row.plan, row.parts) == (4, None, frozenset({"0", "2"}))
