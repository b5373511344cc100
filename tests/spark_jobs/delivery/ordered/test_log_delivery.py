"""Every change of every transaction of a real server's log, into a schema of it, in order."""

import random
import shutil
from threading import get_ident
from typing import Any

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.delivery import progress
from spark_jobs.delivery.deliver import DeliveryOutcome, chosen_tables, deliver, reload_tables
from spark_jobs.delivery.progress import Progress, TableId
from spark_jobs.delivery.statements import Writer
from spark_jobs.delivery.status import status
from spark_jobs.delivery.target import Connection
from spark_jobs.lake.layout import lake_of
from tests.command_result import without_codes
from tests.lakes.delivered import Copy
from tests.services.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.mysql]


def run(copy: Copy, **keys: Any) -> DeliveryOutcome:
    return copy.run(copy.pipeline(apply="ordered", **keys))


def transaction(copy: Copy, *statements: str) -> None:
    copy.shop.execute("START TRANSACTION", *statements, "COMMIT")


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that deliveries execute."""
    execute, executed = Connection.execute, []

    def noted(connection: Connection, statement: str | bytes) -> int:
        executed.append(statement if isinstance(statement, str) else statement.decode())
        return execute(connection, statement)

    monkeypatch.setattr(Connection, "execute", noted)
    return executed


def test_a_table_is_copied_and_then_followed(copy: Copy, statements: list[str]) -> None:
    copy.shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, name VARCHAR(20))",
        "INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, NULL)",
    )
    assert [table.rows for table in run(copy).tables] == [3]
    copy.shop.execute(f"ALTER TABLE `{copy.schema}`.t ADD UNIQUE (u)")
    # Values that change places under a unique index, as no net change may: every step counts.
    transaction(
        copy,
        "UPDATE t SET u = -1 WHERE id = 1",
        "UPDATE t SET u = 1 WHERE id = 2",
        "UPDATE t SET u = 2 WHERE id = 1",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (3, 7, 'it''s back')",
        "UPDATE t SET id = 9 WHERE id = 3",
    )
    statements.clear()
    outcome = run(copy)
    assert outcome.stopped == {}
    assert [(table.rows, table.position) for table in outcome.tables] == [(6, str(_published(copy)))]
    copy.require_same("t")
    # One transaction of the source is one of the target, with the progress row.
    assert [text for text in statements if text in ("START TRANSACTION", "COMMIT")] == [
        "START TRANSACTION",
        "COMMIT",
    ] * 3, "its own, one for the end, and one that notes which tables the log is followed for"
    assert run(copy).tables == []
    [table] = status(copy.pipeline(apply="ordered"), lake_of(copy.pipeline()), "copy").tables
    assert (table.state, table.version) == ("current", table.published_version)


def _published(copy: Copy) -> Any:
    return next(row["position"] for row in copy.progress() if row["table_name"] == "t")


def test_transactions_stay_whole_side_by_side(copy: Copy, statements: list[str]) -> None:
    """Two tables of a transaction, by several connections: a reader never sees a part of it."""
    for table in ("a", "b"):
        copy.shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {table} VALUES (-1, 0)")
    run(copy)
    for number in range(40):
        transaction(copy, f"INSERT INTO a VALUES ({number}, 0)", f"INSERT INTO b VALUES ({number}, 0)")
    statements.clear()
    assert run(copy, workers=4, batch_rows=4).stopped == {}
    copy.require_same("a", "b")
    assert any("parts = CONCAT" in text for text in statements)
    inserted = [{*_ids(text)} for text in statements if text.startswith("INSERT INTO") and ".`a`" in text]
    inserted_elsewhere = [{*_ids(text)} for text in statements if text.startswith("INSERT INTO") and ".`b`" in text]
    assert sorted(map(sorted, inserted)) == sorted(map(sorted, inserted_elsewhere))
    assert len(inserted) > 4


def _ids(text: str) -> list[int]:
    return [int(row.split(",")[0]) for row in text.partition("VALUES (")[2].rstrip(")").split("),(")]


SCHEMAS = [
    "CREATE TABLE plain (id INT PRIMARY KEY, n INT, t VARCHAR(20))",
    "CREATE TABLE twice (a INT, b VARCHAR(9), u INT, PRIMARY KEY (a, b), UNIQUE (u)) COLLATE utf8mb4_unicode_ci",
    "CREATE TABLE bag (a INT, b VARCHAR(9))",
    "INSERT INTO plain VALUES (0, 0, '')",
    "INSERT INTO twice VALUES (0, '', 0)",
    "INSERT INTO bag VALUES (0, '')",
]


def _random_change(generator: random.Random) -> str:
    key, value, text = (
        generator.randrange(20),
        generator.randrange(20),
        generator.choice(["x", "X", "é", "yy", "it''s"]),
    )
    return generator.choice(
        [
            f"INSERT IGNORE INTO plain VALUES ({key}, {value}, '{text}')",
            f"REPLACE INTO plain VALUES ({key}, {value}, '{text}')",
            f"UPDATE plain SET n = n + 1, t = '{text}' WHERE id % 5 = {key % 5}",
            f"UPDATE IGNORE plain SET id = {key} WHERE id = {value}",
            f"UPDATE IGNORE plain SET id = id + 100 WHERE id = {key}",
            f"DELETE FROM plain WHERE id IN ({key}, {value})",
            f"INSERT IGNORE INTO twice VALUES ({key % 4}, '{text}', {value})",
            f"REPLACE INTO twice VALUES ({key % 4}, '{text}', {value})",
            f"UPDATE IGNORE twice SET u = {key} WHERE u = {value}",
            f"UPDATE IGNORE twice SET b = '{text}', a = {key % 4} WHERE u = {value}",
            f"UPDATE twice SET u = NULL WHERE a = {key % 4}",
            f"DELETE FROM twice WHERE a = {key % 4}",
            f"INSERT INTO bag VALUES ({key % 3}, '{text}'), ({key % 3}, NULL)",
            f"UPDATE bag SET b = '{text}' WHERE a = {value % 3} LIMIT 2",
            f"DELETE FROM bag WHERE a = {key % 3} LIMIT 1",
        ]
    )


@pytest.mark.thorough
@pytest.mark.parametrize("workers, batch_rows", [(1, 1000), (4, 3)])
def test_random_transactions(copy: Copy, workers: int, batch_rows: int) -> None:
    """Changes of keys, swaps, second unique keys, deletes and inserts again, of several tables."""
    generator = random.Random(workers)
    copy.shop.execute(*SCHEMAS)
    run(copy)
    copy.shop.execute(f"ALTER TABLE `{copy.schema}`.twice ADD UNIQUE (u)")
    for _ in range(3):
        for _ in range(60):
            changes = [_random_change(generator) for _ in range(generator.randint(1, 6))]
            copy.shop.execute("START TRANSACTION", *changes, generator.choice(["COMMIT"] * 5 + ["ROLLBACK"]))
        assert run(copy, workers=workers, batch_rows=batch_rows).stopped == {}
        copy.require_same("plain", "twice", "bag")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "statement, columns",
    [
        ("ALTER TABLE t ADD c INT DEFAULT 7, DROP b", "id, a, c"),
        ("ALTER TABLE t RENAME COLUMN a TO z", "id, z, b"),
        ("ALTER TABLE t MODIFY a BIGINT", "id, a, b"),
        ("TRUNCATE t", "id, a, b"),
    ],
)
def test_a_statement_in_its_place(copy: Copy, statements: list[str], statement: str, columns: str) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, 1)")
    run(copy)
    copy.shop.execute("INSERT INTO t VALUES (2, 2, 2)", statement, "INSERT INTO t VALUES (3, 30, 30)")
    statements.clear()
    outcome = run(copy)
    assert outcome.stopped == {}
    copy.require_same("t")
    assert copy.rows("t", columns) == copy.source_rows("t", columns)
    ordered = [text.partition(" ")[0] for text in statements if f"`{copy.schema}`.`t`" in text]
    assert ordered == ["INSERT", statement.partition(" ")[0], "INSERT"]
    assert len(outcome.tables[0].statements) == 1
    copy.shop.execute("INSERT INTO t VALUES (4, 4, 4)")
    assert run(copy).stopped == {}
    copy.require_same("t")


def test_statements_are_stopped_at(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    run(copy, ddl="apply")
    copy.shop.execute("INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD c INT", "INSERT INTO t VALUES (3, 3, 3)")
    [reason] = run(copy, ddl="stop").stopped.values()
    assert "ddl is stop" in reason
    assert copy.rows("t") == [(1, 1), (2, 2)]
    copy.shop.execute(without_codes(reason).partition("deliver again: ")[2])
    assert run(copy, ddl="stop").stopped == {}
    copy.require_same("t")


def test_rules_apply_as_downstream(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "pepper")
    copy.shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, secret VARCHAR(20), gone INT, n INT)",
        "INSERT INTO t VALUES (1, 'a', 1, 1), (2, 'b', 2, 2)",
    )
    rules: dict[str, Any] = {
        "columns": {
            "c": {
                "tables": ["*.t"],
                "exclude": ["gone"],
                "mask": {"secret": {"hash": "${SALT}"}},
                "computed": {"twice": {"sql": "n * 2", "type": "BIGINT"}},
            }
        },
        "filters": {"f": {"tables": ["*.t"], "events": ["delete"]}},
        "row_filters": {"r": {"tables": ["*.t"], "insert-value-expr": "n > 100"}},
    }
    run(copy, **rules)
    copy.shop.execute(
        "INSERT INTO t VALUES (3, 'c', 3, 3), (4, 'd', 4, 101)", "UPDATE t SET secret = 'z' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    )  # fmt: skip
    assert run(copy, **rules).stopped == {}
    lake = copy.shop.spark.read.format("delta").load(
        lake_of(copy.pipeline(apply="ordered", **rules)).downstream(copy.schema, "t").path
    )
    downstream = sorted(tuple(row) for row in lake.select("id", "secret", "n", "twice").collect())
    assert copy.rows("t", "id, secret, n, twice") == downstream
    assert [row[0] for row in downstream] == [1, 2, 3]


def test_rows_beside_the_log_are_told(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    run(copy)
    copy.shop.execute(f"INSERT INTO `{copy.schema}`.t VALUES (2, 7)", "INSERT INTO t VALUES (2, 2)")
    [reason] = run(copy).stopped.values()
    assert "Duplicate entry" in reason
    assert "safe_mode: on" in reason
    assert run(copy, safe_mode="on").stopped == {}
    copy.require_same("t")
    pipeline = copy.pipeline(apply="ordered")
    reload_tables(pipeline, "copy", chosen_tables(pipeline, lake_of(pipeline), "copy"))
    copy.shop.execute("INSERT INTO t VALUES (5, 5)")
    assert run(copy).stopped == {}
    copy.require_same("t")


def test_own_columns_of_the_target_stay(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    run(copy)
    copy.shop.execute(
        f"ALTER TABLE `{copy.schema}`.t ADD own INT", f"UPDATE `{copy.schema}`.t SET own = 5",
        "UPDATE t SET a = 2", "UPDATE t SET id = 8",
    )  # fmt: skip
    assert run(copy).stopped == {}
    assert copy.rows("t") == [(8, 2, 5)]


def test_merged_tables(copy: Copy) -> None:
    schema = copy.shop.database.name
    routes = [{"from": f"{schema}.part_*", "to": f"{copy.schema}.parts"}]
    for number in (1, 2):
        copy.shop.execute(f"CREATE TABLE part_{number} (id INT PRIMARY KEY)", f"INSERT INTO part_{number} VALUES (1)")
    run(copy, routes=routes)
    copy.shop.execute("UPDATE part_1 SET id = 7", "INSERT INTO part_2 VALUES (7)", "DELETE FROM part_2 WHERE id = 1")
    assert run(copy, routes=routes).stopped == {}
    assert copy.rows("parts", "_table, id") == [("part_1", 7), ("part_2", 7)]
    assert run(copy, routes=routes).tables == []


@pytest.mark.thorough
def test_other_settings_in_a_window_that_is_open(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that was begun with other indexes at the target is written again, by statements that may be repeated."""
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, u INT)", "INSERT INTO t VALUES (-1, -1)")
    run(copy)
    copy.shop.execute(
        *(f"INSERT INTO t VALUES ({number}, {number})" for number in range(20)), "UPDATE t SET u = u + 100"
    )
    write, count = Writer.write_texts, iter(range(1))

    def failing(*arguments: Any) -> Any:
        if next(count, None) is None:
            raise OSError("cut")
        return write(*arguments)

    monkeypatch.setattr(Writer, "write_texts", failing)
    pipeline = copy.pipeline(apply="ordered", batch_rows=2, workers=2)
    assert copy.run(pipeline).stopped
    monkeypatch.undo()
    [log] = [row for row in copy.progress() if row["exit_version"] is not None]
    assert log["parts"]
    copy.shop.execute(f"ALTER TABLE `{copy.schema}`.t ADD UNIQUE (u)")
    assert deliver(pipeline, "copy").stopped == {}
    copy.require_same("t")


def _stopped_within(copy: Copy, monkeypatch: pytest.MonkeyPatch, texts: int, **keys: Any) -> Pipeline:
    """A delivery that stops in a window, after so many texts of statements were made; its configuration.

    One worker stops, and not before a part of another one is committed.
    """
    write, count = Writer.write_texts, iter(range(texts))
    stopped: list[int] = []

    def failing(*arguments: Any) -> Any:
        if next(count, None) is None and stopped in ([], [get_ident()]):
            stopped[:] = [get_ident()]
            wait_for("a part is committed", lambda: any(row["parts"] for row in copy.progress()))
            raise OSError("cut")
        return write(*arguments)

    pipeline = copy.pipeline(apply="ordered", **keys)
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "write_texts", failing)
        assert copy.run(pipeline).stopped
    [log] = [row for row in copy.progress() if row["exit_version"] is not None]
    assert log["parts"]
    return pipeline


@pytest.mark.thorough
def test_tables_that_are_created_while_a_window_is_open(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables outside the window, whatever their names, are none of its plan: also without a key it goes on."""
    copy.shop.execute("CREATE TABLE bag (a INT, b INT)", "INSERT INTO bag VALUES (-1, -1)")
    settings: dict[str, Any] = {"batch_rows": 1, "workers": 2}
    run(copy, **settings)
    copy.shop.execute(*(f"INSERT INTO bag VALUES ({number % 7}, 0)" for number in range(40)))
    pipeline = _stopped_within(copy, monkeypatch, 12, **settings)
    copy.shop.execute("CREATE TABLE aaa (id INT PRIMARY KEY)", "INSERT INTO aaa VALUES (1)")
    assert copy.run(pipeline).stopped == {}
    copy.require_same("aaa", "bag")


@pytest.mark.thorough
def test_a_table_that_was_left_out_for_a_while(copy: Copy) -> None:
    """What the log said of it meanwhile is not at the target, and nothing may pass over that."""
    for table in ("kept", "paused"):
        copy.shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    run(copy)
    for table in ("kept", "paused"):
        copy.shop.execute(f"INSERT INTO {table} VALUES (2)")
    assert run(copy, tables=["*.kept"]).stopped == {}
    for table in ("kept", "paused"):
        copy.shop.execute(f"INSERT INTO {table} VALUES (3)")
    # The other one goes on, and this one is complete once it is delivered from the beginning.
    [reason] = run(copy).stopped.values()
    assert f"{copy.schema}.paused" in reason
    assert "--reload" in reason
    _reload(copy, "paused")
    assert deliver(copy.pipeline(apply="ordered"), "copy").stopped == {}
    copy.require_same("kept", "paused")


@pytest.mark.thorough
@pytest.mark.parametrize("is_first", [False, True])
def test_a_table_that_comes_back_while_a_window_is_open(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    """The window was begun without the table, whose rows up to the window's end nothing delivers."""
    settings: dict[str, Any] = {"batch_rows": 1, "workers": 2}
    for table in ("kept", "paused"):
        copy.shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    run(copy, **settings)
    # Before its first window the log has no position, and the tables alone say where it begins.
    if not is_first:
        for table in ("kept", "paused"):
            copy.shop.execute(f"INSERT INTO {table} VALUES (2)")
        assert run(copy, **settings).stopped == {}
    copy.shop.execute("INSERT INTO paused VALUES (3)", *(f"INSERT INTO kept VALUES ({10 + at})" for at in range(40)))
    _stopped_within(copy, monkeypatch, 1, tables=["*.kept"], **settings)
    for table in ("kept", "paused"):
        copy.shop.execute(f"INSERT INTO {table} VALUES (4)")
    [reason] = run(copy, **settings).stopped.values()
    assert f"{copy.schema}.paused" in reason
    assert "--reload" in reason
    copy.require_same("kept")
    _reload(copy, "paused", **settings)
    assert run(copy, **settings).stopped == {}
    copy.require_same("kept", "paused")


@pytest.mark.thorough
def test_a_table_that_is_reloaded_from_an_earlier_lake(copy: Copy) -> None:
    """The log is beyond what the table was copied of, and what is between the two nothing delivers."""
    for table in ("kept", "again"):
        copy.shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    run(copy)
    lake, backup = copy.shop.folder / "lake", copy.shop.folder / "backup"
    shutil.copytree(lake, backup)
    for table in ("kept", "again"):
        copy.shop.execute(f"INSERT INTO {table} VALUES (2)")
    assert run(copy).stopped == {}
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    _reload(copy, "again")
    deliver(copy.pipeline(apply="ordered"), "copy")
    for table in ("kept", "again"):
        copy.shop.execute(f"INSERT INTO {table} VALUES (3)")
    [reason] = run(copy).stopped.values()
    assert f"{copy.schema}.again" in reason
    assert "--reload" in reason
    # The other one goes on, and this one is complete once the lake is where the log is.
    copy.require_same("kept")
    _reload(copy, "again")
    assert deliver(copy.pipeline(apply="ordered"), "copy").stopped == {}
    copy.require_same("kept", "again")


@pytest.mark.thorough
def test_an_earlier_lake_while_a_window_is_open(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window whose end the lake does not have any more is not closed before it has it again."""
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (-1)")
    settings: dict[str, Any] = {"batch_rows": 1, "workers": 2}
    run(copy, **settings)
    lake, backup = copy.shop.folder / "lake", copy.shop.folder / "backup"
    shutil.copytree(lake, backup)
    copy.shop.execute(*(f"INSERT INTO t VALUES ({number})" for number in range(40)))
    pipeline = _stopped_within(copy, monkeypatch, 1, **settings)
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    [reason] = deliver(pipeline, "copy").stopped.values()
    assert "is open at the target" in reason
    assert copy.run(pipeline).stopped == {}
    copy.require_same("t")


@pytest.mark.parametrize("is_new", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_a_quiet_table_that_is_copied_behind_the_log(copy: Copy, *, is_new: bool) -> None:
    """Its newest version is older than the log's position, and complete up to there: from then on it is followed."""
    for table in ("kept", "quiet"):
        copy.shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    for number in (2, 3):
        run(copy, tables=["*.kept"] if is_new else ["*.*"])
        copy.shop.execute(f"INSERT INTO kept VALUES ({number})")
    run(copy, tables=["*.kept"] if is_new else ["*.*"])
    if not is_new:
        _reload(copy, "quiet")
    assert deliver(copy.pipeline(apply="ordered"), "copy").stopped == {}
    for table in ("kept", "quiet"):
        copy.shop.execute(f"INSERT INTO {table} VALUES (4)")
    assert run(copy).stopped == {}
    copy.require_same("kept", "quiet")


def _reload(copy: Copy, name: str, **keys: Any) -> None:
    """Has a table delivered from the beginning by the next delivery."""
    pipeline = copy.pipeline(apply="ordered", **keys)
    tables = [table for table in chosen_tables(pipeline, lake_of(pipeline), "copy") if table.name == name]
    reload_tables(pipeline, "copy", tables)


def test_another_run_delivers_between_reading_and_claiming(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read of the log's progress is old then, and windows that are at the target are not written again."""
    copy.shop.execute("CREATE TABLE bag (a INT)", "INSERT INTO bag VALUES (1)")
    run(copy)
    claim, overtaken = progress.claim, iter([True])

    def late_claim(connection: Connection, table: TableId) -> Progress:
        if not table.schema and next(overtaken, False):
            assert deliver(copy.pipeline(apply="ordered"), "copy").stopped == {}
        return claim(connection, table)

    monkeypatch.setattr(progress, "claim", late_claim)
    for number in (2, 2):
        copy.shop.execute(f"INSERT INTO bag VALUES ({number})")
    assert run(copy).stopped == {}
    copy.require_same("bag")


def test_a_table_is_reloaded_while_a_run_delivers_its_log(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run writes nothing into the table that was emptied, and does not note that the target has it."""
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    run(copy)
    copy.shop.execute("INSERT INTO t VALUES (2)")
    run(copy)
    claim, reloads = progress.claim, iter([True])

    def early_claim(connection: Connection, table: TableId) -> Progress:
        claimed = claim(connection, table)
        if not table.schema and next(reloads, False):
            _reload(copy, "t")
        return claimed

    monkeypatch.setattr(progress, "claim", early_claim)
    copy.shop.execute("INSERT INTO t VALUES (3)")
    [reason] = run(copy).stopped.values()
    assert "another run delivers the table since" in reason
    assert run(copy).stopped == {}
    copy.require_same("t")


def test_a_table_is_reloaded_before_a_run_claims_a_log_that_has_no_row_yet(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has read that the target has the table, and delivers nothing into the one that was emptied."""
    copy.shop.execute("CREATE TABLE bag (a INT)", "INSERT INTO bag VALUES (1)")
    run(copy)
    claim, reloads = progress.claim, iter([True])

    def late_claim(connection: Connection, table: TableId) -> Progress:
        if not table.schema and next(reloads, False):
            _reload(copy, "bag")
        return claim(connection, table)

    monkeypatch.setattr(progress, "claim", late_claim)
    copy.shop.execute("INSERT INTO bag VALUES (2)")
    assert run(copy).stopped == {}
    assert run(copy).stopped == {}
    copy.require_same("bag")


@pytest.mark.parametrize("is_open", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_the_net_change_after_a_part_of_the_log(copy: Copy, monkeypatch: pytest.MonkeyPatch, *, is_open: bool) -> None:
    """Rows that the log's windows wrote already are not written a second time by another way of applying."""
    copy.shop.execute("CREATE TABLE bag (a INT)", "INSERT INTO bag VALUES (-1)")
    settings: dict[str, Any] = {"batch_rows": 1, "workers": 2}
    run(copy, **settings)
    copy.shop.execute(*(f"INSERT INTO bag VALUES ({number % 7})" for number in range(40)))
    if is_open:
        _stopped_within(copy, monkeypatch, 12, **settings)
        [reason] = deliver(copy.pipeline(**settings), "copy").stopped.values()
        assert "apply: ordered" in reason
    assert run(copy, **settings).stopped == {}
    copy.shop.execute("INSERT INTO bag VALUES (9)")
    assert copy.run(copy.pipeline(**settings)).stopped == {}
    copy.require_same("bag")


def _prepare_xa(copy: Copy, name: str, *statements: str) -> None:
    """An XA transaction that is prepared in a session of its own, which then ends."""
    with copy.shop.database.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"USE `{copy.shop.database.name}`")
        for statement in (f"XA START '{name}'", *statements, f"XA END '{name}'", f"XA PREPARE '{name}'"):
            cursor.execute(statement)
        cursor.execute("SELECT CONNECTION_ID()")
        ((session,),) = cursor.fetchall()
    listed = f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {session}"
    # The transaction is nobody's once its session has ended, which takes a moment.
    wait_for("the session has ended", lambda: not copy.shop.database.execute(listed), 60, pause=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("workers, batch_rows", [(1, 1000), (4, 1)])
def test_an_xa_transaction_is_whole_where_it_is_committed(
    copy: Copy, statements: list[str], workers: int, batch_rows: int
) -> None:
    """Its rows come after those that were committed between its PREPARE and its COMMIT, and never after a ROLLBACK."""
    for table in ("a", "b"):
        copy.shop.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {table} VALUES (1, 0)")
    run(copy)
    options = {"workers": workers, "batch_rows": batch_rows}
    _prepare_xa(copy, "kept", "INSERT INTO a VALUES (10, 1)", "UPDATE b SET n = 5", "INSERT INTO b VALUES (10, 1)")
    _prepare_xa(copy, "gone", "INSERT INTO a VALUES (11, 1)")
    copy.shop.execute("INSERT INTO a VALUES (2, 0)", "UPDATE a SET n = n + 1 WHERE id = 1")
    assert run(copy, **options).stopped == {}
    assert copy.rows("a") == [(1, 1), (2, 0)]
    copy.require_same("a", "b")
    # Committed in a later run than it was prepared in, with conflicts on both sides.
    copy.shop.execute("UPDATE a SET n = 7 WHERE id = 2", "XA COMMIT 'kept'", "XA ROLLBACK 'gone'")
    transaction(copy, "UPDATE a SET id = 12 WHERE id = 10", "UPDATE b SET n = n * 2 WHERE id = 1")
    statements.clear()
    assert run(copy, **options).stopped == {}
    assert copy.rows("a") == [(1, 1), (12, 1), (2, 7)]
    assert copy.rows("b") == [(1, 10), (10, 1)]
    copy.require_same("a", "b")
    # Its rows of both tables are one transaction of the target.
    [transaction_text] = [text for text in "\n".join(statements).split("START TRANSACTION") if "INSERT INTO" in text]
    assert transaction_text.count("(10,1)") == 2
    # Prepared, committed, and changed again within one window.
    _prepare_xa(copy, "again", "INSERT INTO a VALUES (20, 1)", "DELETE FROM b WHERE id = 10")
    copy.shop.execute("INSERT INTO a VALUES (21, 0)", "XA COMMIT 'again'", "DELETE FROM a WHERE id = 20")
    assert run(copy, **options).stopped == {}
    copy.require_same("a", "b")
    assert run(copy, **options).tables == []


@pytest.mark.thorough
def test_the_net_change_of_a_table_that_left_the_log(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log may have written a part of what comes after the table's version."""
    for table in ("bag", "other"):
        copy.shop.execute(f"CREATE TABLE {table} (a INT)", f"INSERT INTO {table} VALUES (-1)")
    settings: dict[str, Any] = {"batch_rows": 1, "workers": 2}
    run(copy, **settings)
    copy.shop.execute(*(f"INSERT INTO bag VALUES ({number % 7})" for number in range(40)))
    _stopped_within(copy, monkeypatch, 12, **settings)
    run(copy, tables=["*.other"], **settings)
    copy.shop.execute("INSERT INTO other VALUES (9)")
    run(copy, tables=["*.other"], **settings)
    [reason] = copy.run(copy.pipeline(**settings)).stopped.values()
    assert f"{copy.schema}.bag" in reason
    assert "--reload" in reason
    _reload(copy, "bag", **settings)
    assert copy.run(copy.pipeline(**settings)).stopped == {}
    copy.require_same("bag", "other")
