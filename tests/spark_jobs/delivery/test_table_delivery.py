import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.delivery import target
from spark_jobs.delivery.deliver import chosen_tables, deliver, reload_tables
from spark_jobs.delivery.statements import Writer
from spark_jobs.delivery.status import status
from spark_jobs.delivery.table_delivery import _cancel
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.retention.maintenance import maintain_source
from tests.fix_pipeline import SOURCE
from tests.fix_servers import Servers
from tests.lakes.delivered import Copy

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

ONE_KEY = "Duplicate entry|a row of another key is in the way|have one key at the target"
"""What stops rows that the source tells apart, and the target does not."""


def test_values_that_change_places_under_a_unique_index(copy: Copy) -> None:
    copy.shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, code INT, UNIQUE KEY (code))",
        "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
    )
    pipeline = copy.pipeline()
    copy.run(pipeline)
    copy.shop.execute(f"ALTER TABLE `{copy.schema}`.t ADD UNIQUE KEY (code)")
    copy.shop.execute(
        "UPDATE t SET code = -code", "UPDATE t SET code = 20 WHERE id = 1", "UPDATE t SET code = 10 WHERE id = 2"
    )
    copy.shop.execute("DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (4, 30)")
    copy.run(pipeline)
    copy.require_same("t")


def test_a_window_of_several_transactions(copy: Copy) -> None:
    values = ", ".join(f"({number}, {number})" for number in range(1, 1001))
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", f"INSERT INTO t VALUES {values}")
    pipeline = copy.pipeline(batch_rows=7, workers=3)
    copy.run(pipeline)
    copy.require_same("t")
    copy.shop.execute(
        "DELETE FROM t WHERE id % 3 = 0", "UPDATE t SET id = id + 5000 WHERE id % 3 = 1", "UPDATE t SET n = -n"
    )
    copy.run(pipeline)
    copy.require_same("t")
    [progress] = copy.progress()
    assert (progress["exit_version"], progress["parts"]) == (None, None)


@pytest.mark.thorough
def test_a_table_without_a_key(copy: Copy) -> None:
    copy.shop.execute(
        "CREATE TABLE t (a INT, f FLOAT, s VARCHAR(9), j JSON)",
        "INSERT INTO t VALUES (1, 0.1, 'x', '[1]'), (1, 0.1, 'x', '[1]'), (1, 0.1, 'x', '[1]')",
        "INSERT INTO t VALUES (NULL, NULL, NULL, NULL)",
    )
    pipeline = copy.pipeline()
    copy.run(pipeline)
    copy.require_same("t")
    copy.shop.execute(
        "DELETE FROM t WHERE a = 1 LIMIT 2", "INSERT INTO t VALUES (2, -0.0, 'y', NULL), (NULL, NULL, NULL, NULL)"
    )
    copy.run(pipeline)
    copy.require_same("t")
    copy.shop.execute("DELETE FROM t WHERE a IS NULL", "DELETE FROM t WHERE a = 1")
    copy.run(pipeline)
    copy.require_same("t")


@pytest.mark.thorough
@pytest.mark.parametrize("size", [100, 1])  # one transaction; a window of several
def test_a_table_without_a_key_that_gets_columns(copy: Copy, size: int) -> None:
    copy.shop.execute(
        "CREATE TABLE t (a INT, s VARCHAR(9))", "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, 'y'), (NULL, NULL)"
    )
    pipeline = copy.pipeline(batch_rows=size)
    copy.run(pipeline)
    copy.require_same("t")
    # The target's rows have MySQL's own 0 in the new column, and the lake's rows of before have none.
    copy.shop.execute(
        "ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7",
        "DELETE FROM t WHERE a = 2",
        "INSERT INTO t VALUES (1, 'x', 0)",
    )
    assert copy.run(pipeline).stopped == {}
    copy.require_same("t")
    # No column of before is left.
    copy.shop.execute("ALTER TABLE t ADD COLUMN m INT NOT NULL DEFAULT 3, DROP COLUMN a, DROP COLUMN s, DROP COLUMN n")
    assert copy.run(pipeline).stopped == {}
    copy.require_same("t")


def test_columns_are_followed(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(5))", "INSERT INTO t VALUES (1, 1, 'b')")
    pipeline = copy.pipeline(live=True)
    copy.run(pipeline)
    copy.shop.execute(
        "ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 7 AFTER id, DROP COLUMN a, CHANGE b bb VARCHAR(50)",
        "INSERT INTO t VALUES (2, 8, 'a long text')",
        "ALTER TABLE t MODIFY id BIGINT",
        "INSERT INTO t VALUES (5000000000, 8, 'x')",
    )
    outcome = copy.run(pipeline)
    assert outcome.stopped == {}
    copy.require_same("t")
    assert outcome.tables[0].statements


@pytest.mark.thorough
def test_columns_by_hand(copy: Copy) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    pipeline = copy.pipeline(live=True, ddl="stop")
    [reason] = copy.run(pipeline).stopped.values()
    statements = reason.partition("deliver again: ")[2].split("; ")
    assert statements[1].startswith("CREATE TABLE")
    copy.shop.execute(*statements)
    assert copy.run(pipeline).stopped == {}
    copy.shop.execute("ALTER TABLE t ADD b INT, DROP COLUMN a", "INSERT INTO t VALUES (2, 2)")
    [reason] = copy.run(pipeline).stopped.values()
    copy.shop.execute(*reason.partition("deliver again: ")[2].split("; "))
    assert copy.run(pipeline).stopped == {}
    copy.require_same("t")


def test_columns_that_the_target_lacks_or_has_besides(copy: Copy) -> None:
    copy.shop.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)",
        f"CREATE DATABASE `{copy.schema}`",
        f"CREATE TABLE `{copy.schema}`.t (own INT DEFAULT 5, ID INT PRIMARY KEY, A INT, twice INT AS (a * 2))",
    )
    pipeline = copy.pipeline(ddl="ignore")
    assert copy.run(pipeline).stopped == {}
    assert copy.rows("t") == [(5, 1, 1, 2), (5, 2, 2, 4)]
    copy.shop.execute(f"UPDATE `{copy.schema}`.t SET own = 9", "UPDATE t SET a = 3 WHERE id = 1")
    copy.run(pipeline)
    assert copy.rows("t") == [(9, 1, 3, 6), (9, 2, 2, 4)]


def test_safe_mode_is_changed_while_a_window_is_open(copy: Copy) -> None:
    """As the message of a row that is in the way says; the rest of the window is written, and nothing is left out."""
    values = ", ".join(f"({number}, {number})" for number in range(1, 31))
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", f"INSERT INTO t VALUES {values}")
    settings: dict[str, Any] = {"batch_rows": 1, "workers": 3}
    copy.run(copy.pipeline(safe_mode="off", **settings))
    values = ", ".join(f"({number}, {number})" for number in range(101, 126))
    copy.shop.execute(
        "UPDATE t SET n = -n WHERE id <= 5",
        f"INSERT INTO t VALUES {values}",
        f"INSERT INTO `{copy.schema}`.t VALUES (115, 0)",
    )
    # Some parts are complete, and the one with the row that is in the way is not.
    [reason] = copy.run(copy.pipeline(safe_mode="off", **settings)).stopped.values()
    assert "overwrite it by safe_mode: on" in reason
    [open_window] = copy.progress()
    assert open_window["parts"]
    assert deliver(copy.pipeline(safe_mode="on", **settings), "copy").stopped == {}
    copy.require_same("t")


@pytest.mark.thorough
def test_a_window_that_an_earlier_release_left_open(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers of parts say nothing: rows with a key are written again, and a table without one stops."""
    values = ", ".join(f"({number}, {number})" for number in range(60))
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "CREATE TABLE bag (a INT, b INT)")
    copy.shop.execute("INSERT INTO t VALUES (-1, 0)", "INSERT INTO bag VALUES (-1, 0)")
    settings: dict[str, Any] = {"batch_rows": 1, "workers": 1}
    copy.run(copy.pipeline(**settings))
    copy.shop.execute(f"INSERT INTO t VALUES {values}", f"INSERT INTO bag VALUES {values}")
    write, count = Writer.write_texts, iter(range(3))

    def failing(*arguments: Any) -> Any:
        if next(count, None) is None:
            raise OSError("cut")
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "write_texts", failing)
        patch.setattr(target, "RETRIED_FOR", 0.0)
        assert len(copy.run(copy.pipeline(**settings)).stopped) == 2
    assert all(row["exit_version"] for row in copy.progress())
    copy.execute("UPDATE stratalog.checkpoint SET plan = NULL, parts = ',0,2,1'")
    # Statements that may not be repeated are no way to write it again.
    stopped = deliver(copy.pipeline(safe_mode="off", **settings), "copy").stopped
    assert len(stopped) == 2
    assert "set safe_mode: auto, by which it is written again as a whole" in stopped[copy.schema, "t"]
    [(table, reason)] = deliver(copy.pipeline(**settings), "copy").stopped.items()
    assert table == (copy.schema, "bag")
    assert "other unique indexes at the target, or by another release of Stratalog" in reason
    copy.require_same("t")
    pipeline = copy.pipeline(**settings)
    keyless_tables = [into for into in chosen_tables(pipeline, lake_of(pipeline), "copy") if into.name == "bag"]
    reload_tables(pipeline, "copy", keyless_tables)
    assert deliver(pipeline, "copy").stopped == {}
    copy.require_same("t", "bag")


@pytest.mark.thorough
def test_a_downstream_table_that_was_restored_is_not_gone_on_with(copy: Copy) -> None:
    """Its next version has a number that the target has already, and other changes."""
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pipeline = copy.pipeline()
    copy.run(pipeline)
    folder, backup = Path(lake_of(pipeline).downstream(copy.schema, "t").path), copy.shop.folder / "backup"
    shutil.copytree(folder, backup)
    copy.shop.execute("INSERT INTO t VALUES (2)")
    copy.run(pipeline)
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    for number in (3, 4):
        copy.shop.execute(f"INSERT INTO t VALUES ({number})")
        stopped = copy.run(pipeline).stopped
        assert ["was restored to a state before version 1" in reason for reason in stopped.values()] == [True]
    reload_tables(pipeline, "copy", chosen_tables(pipeline, lake_of(pipeline), "copy"))
    assert deliver(pipeline, "copy").stopped == {}
    copy.require_same("t")


def test_keys_that_differ_at_the_source_alone(copy: Copy, servers: Servers) -> None:
    """A first copy of several transactions, at a server that lacks the source's collations: equal, or a stop."""
    urls = [f"http://{'p' * 192}{number}" for number in range(3)]
    texts = {
        "pfx": ("u TEXT, v INT, PRIMARY KEY (u(255))", urls),
        "cs": ("u VARCHAR(20) COLLATE utf8mb4_0900_as_cs PRIMARY KEY, v INT", ["abc", "ABC", "Abc"]),
        "ai": ("u VARCHAR(20) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT", ["abc", "abc ", "s", "ß"]),
    }
    for table, (columns, keys) in texts.items():
        values = ", ".join(f"('{key}', {at})" for at, key in enumerate([*keys, *(f"row {at}" for at in range(30))]))
        copy.shop.execute(f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {values}")
    with copy.writable(servers.get("mysql-5.7")):
        stopped = copy.run(copy.pipeline(batch_rows=1)).stopped
        copy.require_same("pfx", "cs")
    [reason] = stopped.values()
    assert "Duplicate entry" in reason
    assert f"{copy.schema}.ai: " in reason


@pytest.mark.parametrize("safe_mode", ["auto", pytest.param("on", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("apply", ["net", pytest.param("ordered", marks=pytest.mark.thorough)])
def test_a_unique_index_that_only_the_target_has(copy: Copy, apply: str, safe_mode: str) -> None:
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, code INT)", "INSERT INTO t VALUES (1, 1)")
    pipeline = copy.pipeline(apply=apply, safe_mode=safe_mode, batch_rows=1)
    copy.run(pipeline)
    copy.shop.execute(f"ALTER TABLE `{copy.schema}`.t ADD UNIQUE KEY (code)")
    values = ", ".join(f"({number}, {number})" for number in range(2, 30))
    copy.shop.execute(f"INSERT INTO t VALUES {values}", "INSERT INTO t VALUES (30, 1)")
    [reason] = copy.run(pipeline).stopped.values()
    assert "Duplicate entry" in reason or "a row of another key is in the way" in reason
    assert (1, 1) in copy.rows("t")


@pytest.mark.thorough
@pytest.mark.parametrize("safe_mode", ["auto", "on"])
@pytest.mark.parametrize("unique", ["", ", ADD UNIQUE KEY (v)"])
def test_a_key_of_the_source_that_the_target_does_not_have(copy: Copy, safe_mode: str, unique: str) -> None:
    """Rows of one key at the target are told apart at the source: a stop, and none is written over."""
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, v INT)", "INSERT INTO t VALUES (1, 1, 1)")
    pipeline = copy.pipeline(safe_mode=safe_mode)
    copy.run(pipeline)
    if unique:
        copy.execute(f"ALTER TABLE `{copy.schema}`.t {unique[1:]}")
    copy.shop.execute("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)", "UPDATE t SET v = 2")
    assert copy.run(pipeline).stopped == {}
    # Another row of the key alone, then together with the one that is there.
    for statement in ("INSERT INTO t VALUES (1, 2, 3)", "UPDATE t SET v = v + 4"):
        copy.shop.execute(statement)
        [reason] = copy.run(pipeline).stopped.values()
        assert re.search(ONE_KEY, reason), reason
        assert copy.rows("t") == [(1, 1, 2)]
    copy.execute(f"ALTER TABLE `{copy.schema}`.t DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)")
    assert copy.run(pipeline).stopped == {}
    copy.require_same("t")


@pytest.mark.parametrize("safe_mode", ["auto", pytest.param("on", marks=pytest.mark.thorough)])
def test_equal_rows_that_have_one_key_at_the_target(copy: Copy, safe_mode: str) -> None:
    copy.shop.execute("CREATE TABLE t (id INT NOT NULL, n INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    pipeline = copy.pipeline(safe_mode=safe_mode)
    copy.execute(
        f"CREATE DATABASE IF NOT EXISTS `{copy.schema}`", f"CREATE TABLE `{copy.schema}`.t (id INT PRIMARY KEY, n INT)"
    )
    assert copy.run(pipeline).stopped == {}
    copy.shop.execute("UPDATE t SET n = 3 WHERE id = 2")
    assert copy.run(pipeline).stopped == {}
    copy.require_same("t")
    for statement in ("INSERT INTO t VALUES (3, 3), (3, 3)", "UPDATE t SET n = 4 WHERE id = 3"):
        copy.shop.execute(statement)
        [reason] = copy.run(pipeline).stopped.values()
        assert re.search(ONE_KEY, reason), reason
        assert copy.rows("t") == [(1, 1), (2, 3)]


@pytest.mark.parametrize("apply", ["net", pytest.param("ordered", marks=pytest.mark.thorough)])
def test_json_with_decimals_in_a_table_without_a_key(copy: Copy, apply: str) -> None:
    copy.shop.execute(
        "CREATE TABLE t (a INT, j JSON)",
        "INSERT INTO t VALUES (1, JSON_OBJECT('p', 1.10)), (2, JSON_OBJECT('p', 2.50)), (4, '{\"x\": 1}'), "
        "(5, '{\"y\": 1e-7}'), (6, JSON_OBJECT('n', 123456789012345678901234567890.5)), (7, '{\"s\": \"a\"}')",
    )
    pipeline = copy.pipeline(apply=apply)
    copy.run(pipeline)
    copy.shop.execute(
        "DELETE FROM t WHERE a IN (1, 4, 5, 6)",
        "UPDATE t SET a = 20 WHERE a = 2",
        'INSERT INTO t VALUES (7, \'{"s": "A"}\')',
    )
    assert copy.run(pipeline).stopped == {}
    copy.shop.execute("DELETE FROM t WHERE j->>'$.s' = BINARY 'A'")
    assert copy.run(pipeline).stopped == {}
    assert copy.rows("t", "a, CAST(j AS CHAR)") == [(20, '{"p": 2.5}'), (7, '{"s": "a"}')]


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", pytest.param("KEY (id)", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("apply", ["net", pytest.param("ordered", marks=pytest.mark.thorough)])
def test_rows_that_somebody_else_removed(copy: Copy, apply: str, key: str) -> None:
    copy.shop.execute(f"CREATE TABLE t (id INT, n INT, {key})", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    pipeline = copy.pipeline(apply=apply)
    copy.run(pipeline)
    copy.execute(f"DELETE FROM `{copy.schema}`.t WHERE id = 2")
    copy.shop.execute("UPDATE t SET n = n + 10 WHERE id < 4")
    [reason] = copy.run(pipeline).stopped.values()
    assert copy.rows("t") == [(1, 1), (3, 3), (4, 4)], "nothing of the transaction is there"
    count = "found 2 rows where the window has 3" if "PRIMARY" in key else "deleted 0 rows where the window has 1"
    assert f"{copy.schema}.t: the target {count}" in reason


@pytest.mark.parametrize("apply", ["net", "ordered"])
@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", pytest.param("KEY (id)", marks=pytest.mark.thorough)])
def test_a_version_in_which_rows_have_only_moved_is_one_that_the_target_has(copy: Copy, key: str, apply: str) -> None:
    copy.shop.execute(f"CREATE TABLE t (id INT, n INT, {key})", "INSERT INTO t VALUES (1, 1), (2, 2)")
    pipeline = copy.pipeline(apply=apply)
    for number in range(3, 12):
        copy.shop.execute(f"INSERT INTO t VALUES ({number}, {number})")
        copy.run(pipeline)
    upkeep = maintain_source(copy.shop.spark, pipeline, SOURCE)
    path = lake_of(pipeline).downstream(copy.schema, "t").path
    (moved,) = (table for table in upkeep.tables if table.path == path and table.version_after > table.version_before)
    (written,) = (row["rows_written"] for row in copy.progress() if row["table_name"] == "t")
    assert deliver(pipeline, "copy").stopped == {}
    (row,) = (row for row in copy.progress() if row["table_name"] == "t")
    assert (row["lake_version"], row["rows_written"]) == (moved.version_after, written)
    assert [table.state for table in status(pipeline, lake_of(pipeline), "copy").tables] == ["current"]
    copy.shop.execute("UPDATE t SET n = -n")
    copy.run(pipeline)
    copy.require_same("t")


def test_parts_that_a_pool_has_dropped_are_not_waited_for() -> None:
    """As by an interrupt, and by what fails in another table."""
    begun, ended = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def work() -> int:
            begun.set()
            assert ended.wait(60)
            return 1

        pending = {pool.submit(work) for _ in range(3)}
        assert begun.wait(60)
        pool.shutdown(wait=False, cancel_futures=True)
        cancelling = threading.Thread(target=_cancel, args=(pending,), daemon=True)
        cancelling.start()
        cancelling.join(0.2)
        assert cancelling.is_alive(), "what is carried out is waited for"
        ended.set()
        cancelling.join(20)
        assert not cancelling.is_alive()
