"""Windows that are open when a delivery dies, and continued under other settings, with other tables at the source."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.delivery import target
from spark_jobs.delivery.deliver import chosen_tables, deliver, reload_tables
from spark_jobs.delivery.target import Connection
from spark_jobs.errors import StratalogError
from spark_jobs.lake.layout import lake_of
from spark_jobs.pipeline.run import run_source
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Update
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE
from tests.fix_pipeline import rows as lake_rows
from tests.lakes.delivered import Copy
from tests.services.proxy import Listener
from tests.spark_jobs.delivery.written_lake import WrittenLake

ROWS = 40
TRUE_STOPS = (
    r"Duplicate entry .* overwrite it by safe_mode: on",
    r"set apply: ordered until a run has delivered all",
    r"was begun .* so the rest of it is not known; put that back until the window is complete, or ",
    r"was delivered up to .* without it, .* deliver it from the beginning",
)


@pytest.fixture
def login(database: Database) -> Iterator[dict[str, Any]]:
    """A user who may write everything, where nothing was delivered before."""
    database.execute("CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'")
    database.execute("GRANT ALL ON *.* TO writer@'%'")
    database.execute("DROP DATABASE IF EXISTS stratalog")
    server = database.server
    yield {"host": server.host, "port": server.port, "user": "writer", "password": "writes"}
    database.execute("DROP DATABASE IF EXISTS stratalog")


class SavedTarget:
    """What the target has of a delivery, under names by which it is put back."""

    def __init__(self, database: Database, schema: str) -> None:
        self._database, self._schema = database, schema

    def save(self, name: str) -> None:
        for table in self._target_tables():
            self._copy(f"`{self._schema}`.{table}", f"`{self._schema}`.saved_{name}_{table}")
        self._copy("stratalog.checkpoint", f"`{self._schema}`.saved_{name}_checkpoint")

    def restore(self, name: str) -> None:
        """Tables are made again, with the columns that they had."""
        for table in self._target_tables():
            self._database.execute(f"DROP TABLE `{self._schema}`.{table}")
        prefix = f"saved_{name}_"
        for saved in self._table_names(prefix):
            table = saved.removeprefix(prefix)
            into = "stratalog.checkpoint" if table == "checkpoint" else f"`{self._schema}`.{table}"
            self._database.execute(f"DROP TABLE IF EXISTS {into}")
            self._copy(f"`{self._schema}`.{saved}", into)

    def is_open(self) -> bool:
        return bool(self._database.execute("SELECT 1 FROM stratalog.checkpoint WHERE exit_version IS NOT NULL"))

    def _copy(self, table: str, into: str) -> None:
        self._database.execute(f"CREATE TABLE {into} LIKE {table}")
        self._database.execute(f"INSERT INTO {into} SELECT * FROM {table}")

    def _target_tables(self) -> list[str]:
        return [table for table in self._table_names("") if not table.startswith("saved_")]

    def _table_names(self, prefix: str) -> list[str]:
        listed = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
        names = [row[0] for row in self._database.execute(listed, (self._schema,))]
        return sorted(name for name in names if name.startswith(prefix))


def _dead_deliveries(pipeline: Pipeline, saved: SavedTarget, generator: random.Random, deaths: int) -> list[str]:
    """Deliveries that died at statements with a window open; the names of what the target has then."""
    script = Path(__file__).parent / "killed.py"
    names: list[str] = []
    with subprocess.Popen(
        [sys.executable, str(script), str(pipeline.path), "copy"],
        env=os.environ | {"PYTHONPATH": "."},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        while len(names) < deaths:
            saved.restore("first")
            process.stdin.write(f"{generator.randint(10, 90)} {generator.choice(['before', 'after'])}\n")
            process.stdin.flush()
            if int(process.stdout.readline()) == -signal.SIGKILL and saved.is_open():
                names.append(str(len(names)))
                saved.save(names[-1])
    return names


def _changes(generator: random.Random) -> tuple[list[Change], int, int]:
    """A log of two tables, and in the end a third: with it how many changes are of the first copy and the window."""
    keyed, keyless = {number: number for number in range(ROWS)}, [(number % 7, 0) for number in range(ROWS)]
    changes: list[Change] = [Insert("shop.keyed", (key, n)) for key, n in keyed.items()]
    changes += [*(Insert("shop.bag", row) for row in keyless), Commit()]
    first, window = len(changes), 0
    for number in range(160):
        key, row = generator.choice(sorted(keyed)), generator.choice(keyless)
        kind = generator.randrange(5)
        if kind == 0:
            changes.append(Update("shop.keyed", (key, keyed[key]), (key, -number)))
            keyed[key] = -number
        elif kind == 1:
            changes.append(Delete("shop.keyed", (key, keyed.pop(key))))
        elif kind == 2:
            changes.append(Update("shop.keyed", (key, keyed[key]), (1000 + number, number)))
            del keyed[key]
            keyed[1000 + number] = number
        elif kind == 3:
            changes.append(Delete("shop.bag", row))
            keyless.remove(row)
        changes.append(Insert("shop.keyed", (2000 + number, number)))
        changes.append(Insert("shop.bag", (number % 7, number % 3)))
        keyed[2000 + number] = number
        keyless.append((number % 7, number % 3))
        changes += [Commit()] if generator.random() < 0.7 else []
        if number == 110:
            changes.append(Commit())
            window = len(changes)
    return [*changes, Insert("shop.aaa", (1, 1)), Commit()], first, window


def _random_settings(generator: random.Random) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "safe_mode": generator.choice(["auto", "on", "off"]),
        "batch_rows": generator.choice([1, 2, 4, 1000]),
        "workers": generator.choice([1, 3]),
        "ddl": generator.choice(["apply", "stop", "ignore"]),
        "apply": generator.choice(["net", "ordered"]),
        "tables": generator.choice([(), (), (), ("*.*", "!*.bag")]),
    }
    return dict(generator.sample(sorted(keys.items()), generator.randint(1, 4)))


@pytest.mark.mysql
@pytest.mark.parametrize(
    "deaths", [pytest.param(4, marks=pytest.mark.thorough), pytest.param(15, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("apply", ["net", "ordered"])
def test_killed_anywhere_and_continued_otherwise(
    database: Database, login: dict[str, Any], tmp_path: Path, apply: str, deaths: int, summary: list[str]
) -> None:
    """Equal rows, or a stop whose remedy leads to them."""
    generator = random.Random(37)
    changes, first, window = _changes(generator)
    lake = WrittenLake(tmp_path, database.name, login, changes)
    settings: dict[str, Any] = {"apply": apply, "batch_rows": 1, "workers": 2}
    lake.publish(first, ["keyed", "bag"])
    assert deliver(lake.pipeline(**settings), "copy").stopped == {}
    if apply == "ordered":  # a row of the log, which then has what the window begins with
        assert deliver(lake.pipeline(**settings), "copy").stopped == {}
    saved = SavedTarget(database, database.name)
    saved.save("first")
    lake.publish(window, ["keyed", "bag"])
    names = _dead_deliveries(lake.pipeline(**settings), saved, generator, deaths)
    lake.publish(len(changes), ["aaa", "keyed", "bag"])
    stops, reloads, changed_count, rows = Counter[str](), 0, 0, 0
    for name in names:
        saved.restore(name)
        was_left_out = False
        for _ in range(generator.randint(1, 2)):
            changed = _random_settings(generator)
            changed_count += len(changed)
            was_left_out = was_left_out or bool(changed.get("tables"))
            for reason in deliver(lake.pipeline(**settings | changed), "copy").stopped.values():
                kinds = [pattern for pattern in TRUE_STOPS if re.search(pattern, reason)]
                kinds += ["ddl"] if "create it, or set ddl: apply" in reason or "ddl is stop" in reason else []
                assert kinds, reason
                stops[kinds[0]] += 1
                assert "Duplicate" not in kinds[0] or changed.get("safe_mode") == "off", reason
        # As its messages say: under its own settings again, and from the beginning where a table was left out.
        pipeline = lake.pipeline(**settings)
        stopped = deliver(pipeline, "copy").stopped
        if stopped:
            assert was_left_out, stopped
            tables = chosen_tables(pipeline, lake_of(pipeline), "copy")
            reload_tables(pipeline, "copy", [table for table in tables if (table.schema, table.name) in stopped])
            reloads += 1
            assert deliver(pipeline, "copy").stopped == {}
        for table, expected in lake.rows.items():
            assert Counter(database.execute(f"SELECT id, n FROM {table}")) == expected, (table, name)
            rows += expected.total()
        assert not saved.is_open()
    summary.append(
        f"delivery, {apply}: killed × {len(names)} in open windows, {changed_count} settings changed, "
        f"{sum(stops.values())} stops, {reloads} reloads: {rows:,} rows compared, 0 lost, 0 doubled"
    )


def _cut_after(patch: pytest.MonkeyPatch, statements: int) -> None:
    """Connections are lost at each statement of rows after so many."""
    execute, remaining = Connection.execute, iter(range(statements))

    def failing(connection: Connection, statement: str | bytes) -> int:
        if isinstance(statement, bytes) and next(remaining, None) is None:
            raise OSError("cut")
        return execute(connection, statement)

    patch.setattr(Connection, "execute", failing)
    patch.setattr(target, "RETRIED_FOR", 0.0)


def _inserts(count: int) -> list[Change]:
    return [*(Insert("shop.keyed", (number, number)) for number in range(count)), Commit()]


@pytest.mark.mysql
def test_the_rest_of_a_window_is_written_before_what_came_since(
    database: Database, login: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts of another size: no row is written twice, and none stays that went since."""
    first = _inserts(40)
    changes = [*first, *(Delete("shop.keyed", (number, number)) for number in range(20)), Commit()]
    lake = WrittenLake(tmp_path, database.name, login, changes)
    lake.publish(len(first), ["keyed"])
    with monkeypatch.context() as patch:
        _cut_after(patch, 15)
        assert deliver(lake.pipeline(batch_rows=1, workers=1), "copy").stopped
    assert database.execute("SELECT COUNT(*) FROM keyed") == ((10,),)
    lake.publish(len(changes), ["keyed"])
    assert deliver(lake.pipeline(batch_rows=3, workers=1), "copy").stopped == {}
    assert Counter(database.execute("SELECT id, n FROM keyed")) == lake.rows["keyed"]


@pytest.mark.mysql
def test_a_window_whose_parts_would_be_others_is_written_again_as_a_whole(
    database: Database, login: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a unique index rows are deleted and written; without it they are updated, which finds no deleted row."""
    first = _inserts(40)
    changes = [
        *first,
        *(Update("shop.keyed", (number, number), (number, -1 - number)) for number in range(40)),
        Commit(),
    ]
    lake = WrittenLake(tmp_path, database.name, login, changes)
    pipeline = lake.pipeline(batch_rows=1, workers=1)
    lake.publish(len(first), ["keyed"])
    assert deliver(pipeline, "copy").stopped == {}
    database.execute("ALTER TABLE keyed ADD UNIQUE KEY other (n)")
    lake.publish(len(changes), ["keyed"])
    with monkeypatch.context() as patch:
        _cut_after(patch, 15)
        assert deliver(pipeline, "copy").stopped
    database.execute("ALTER TABLE keyed DROP KEY other")
    assert deliver(pipeline, "copy").stopped == {}
    assert Counter(database.execute("SELECT id, n FROM keyed")) == lake.rows["keyed"]


@pytest.mark.mysql
def test_a_window_of_a_table_that_was_made_again_is_not_continued(
    database: Database, login: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = WrittenLake(tmp_path, database.name, login, _inserts(40))
    lake.publish(41, ["keyed"])
    pipeline = lake.pipeline(batch_rows=1, workers=1)
    with monkeypatch.context() as patch:
        _cut_after(patch, 15)
        assert deliver(pipeline, "copy").stopped
    # As it would be if the target had the parts of a table that was there before.
    database.execute("UPDATE stratalog.checkpoint SET lake_id = 'before'")
    [reason] = deliver(pipeline, "copy").stopped.values()
    assert "the downstream table was made again since it was delivered" in reason
    assert database.execute("SELECT COUNT(*) FROM keyed") == ((10,),)


@pytest.mark.mysql
def test_writes_of_a_window_begin_once_its_deletes_are_complete(
    database: Database, login: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New rows have the unique values of those that go, whichever connection is the slower one."""
    first = _inserts(12)
    second: list[Change] = [Delete("shop.keyed", (number, number)) for number in range(12)]
    second += [*(Insert("shop.keyed", (number + 100, number)) for number in range(12)), Commit()]
    lake = WrittenLake(tmp_path, database.name, login, [*first, *second])
    pipeline = lake.pipeline(batch_rows=1, workers=3)
    lake.publish(len(first), ["keyed"])
    assert deliver(pipeline, "copy").stopped == {}
    database.execute("ALTER TABLE keyed ADD UNIQUE KEY (n)")
    lake.publish(len(first) + len(second), ["keyed"])
    execute, is_inserted, ends = Connection.execute, threading.Event(), list[float]()

    def late_deletes(connection: Connection, statement: str | bytes) -> int:
        """Deletes wait two seconds, all together, for what comes before them."""
        if isinstance(statement, bytes) and statement.startswith(b"DELETE"):
            ends.append(time.monotonic() + 2)
            is_inserted.wait(max(0.0, ends[0] - time.monotonic()))
        try:
            return execute(connection, statement)
        finally:
            if isinstance(statement, bytes) and statement.startswith(b"INSERT"):
                is_inserted.set()

    monkeypatch.setattr(Connection, "execute", late_deletes)
    assert deliver(pipeline, "copy").stopped == {}
    assert Counter(database.execute("SELECT id, n FROM keyed")) == lake.rows["keyed"]


CREATE = "CREATE TABLE {} (id INT PRIMARY KEY, n INT)"
STATEMENTS = {
    "dropped": ["DROP TABLE keyed"],
    "dropped, no key": ["DROP TABLE bag"],
    "created": [CREATE.format("aaa"), "INSERT INTO aaa VALUES (1, 1)"],
    "dropped and created": ["DROP TABLE keyed", CREATE.format("keyed"), "INSERT INTO keyed VALUES (1, 2), (7000, 1)"],
    "dropped and created, no key": [
        "DROP TABLE bag",
        "CREATE TABLE bag (id INT, n INT)",
        "INSERT INTO bag VALUES (1, 2)",
    ],
    "created otherwise": [
        "DROP TABLE keyed",
        "CREATE TABLE keyed (id BIGINT PRIMARY KEY, name VARCHAR(9), n INT)",
        "INSERT INTO keyed VALUES (1, 'a', 1), (7000, 'b', 2)",
    ],
    "created with another key": [
        "DROP TABLE keyed",
        "CREATE TABLE keyed (id INT, n INT, PRIMARY KEY (id, n))",
        "INSERT INTO keyed VALUES (1, 1), (1, 2)",
    ],
    "created without a key": [
        "DROP TABLE keyed",
        "CREATE TABLE keyed (id INT, n INT)",
        "INSERT INTO keyed VALUES (1, 1), (1, 1)",
    ],
    "renamed": ["RENAME TABLE keyed TO aaa", "INSERT INTO aaa VALUES (7000, 1)", "DELETE FROM aaa WHERE id = 2000"],
    "renamed, no key": ["RENAME TABLE bag TO aaa", "INSERT INTO aaa VALUES (7000, 1)"],
    "renamed and created": [
        "RENAME TABLE keyed TO aaa",
        CREATE.format("keyed"),
        "INSERT INTO keyed VALUES (1, 2), (7000, 1)",
        "INSERT INTO aaa VALUES (7000, 3)",
    ],
    "renamed and back": [
        "RENAME TABLE keyed TO aaa",
        "INSERT INTO aaa VALUES (7000, 1)",
        "RENAME TABLE aaa TO keyed",
        "INSERT INTO keyed VALUES (7001, 1)",
    ],
    "exchanged": [
        "RENAME TABLE keyed TO aaa, second TO keyed, aaa TO second",
        "INSERT INTO keyed VALUES (7000, 1)",
        "INSERT INTO second VALUES (7000, 2)",
    ],
    "all dropped": ["DROP TABLE keyed, bag, second"],
    "truncated": ["TRUNCATE TABLE keyed", "TRUNCATE TABLE bag", "INSERT INTO bag VALUES (1, 1)"],
}


KEYS = {
    "created otherwise": "MODIFY id BIGINT",
    "created with another key": "DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)",
    "created without a key": "DROP PRIMARY KEY",
}
"""By what is done at the source, what gives a table of the target the source's key."""
REMEDIES = {
    "primary key changed at": True,
    "have one key at the target": True,
    "Duplicate entry": True,
    "All parts of a PRIMARY KEY must be NOT NULL": True,
    "with another key column id": True,
    "which the log does not say": False,
    "rows that it had under another name": False,
}
"""By what a stop says, whether the table gets the source's key before it is delivered again."""


@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.long
@pytest.mark.parametrize("apply", ["net", "ordered"])
@pytest.mark.parametrize("change", STATEMENTS)
def test_tables_that_come_and_go_while_a_window_is_open(
    copy: Copy, change: str, apply: str, summary: list[str]
) -> None:
    """Rows as the lake has them, or a stop whose remedy leads to them."""
    generator = random.Random(37)
    settings: dict[str, Any] = {"apply": apply, "batch_rows": 1, "workers": 2, "on_drop": "drop"}
    _create(copy)
    copy.run(copy.pipeline(**settings))
    copy.shop.execute("INSERT INTO keyed VALUES (900, 1)")
    assert copy.run(copy.pipeline(**settings)).stopped == {}
    saved = SavedTarget(copy.shop.database, copy.schema)
    saved.save("first")
    _grow(copy, generator)
    pipeline = copy.pipeline(**settings)
    run_source(copy.shop.spark, pipeline, SOURCE)
    names = _dead_deliveries(pipeline, saved, generator, 4)
    copy.shop.execute(*STATEMENTS[change])
    assert run_source(copy.shop.spark, pipeline, SOURCE)[1].stopped == {}
    stops, rows = 0, 0
    tables = chosen_tables(pipeline, lake_of(pipeline), "copy")
    for name in names:
        saved.restore(name)
        for _ in range(3):
            for reason in deliver(pipeline, "copy").stopped.values():
                _follow(copy, pipeline, reason, KEYS.get(change))
                stops += 1
        assert deliver(pipeline, "copy").stopped == {}
        for table in tables:
            expected = lake_rows(table.table)
            assert copy.rows(table.name) == sorted(expected, key=repr), (str(table), name)
            rows += len(expected)
        assert not saved.is_open()
    summary.append(
        f"delivery, {apply}: killed × {len(names)} in open windows, tables {change}: {stops} stops, "
        f"{rows:,} rows compared, 0 lost, 0 doubled"
    )


def _follow(copy: Copy, pipeline: Pipeline, reason: str, key_clause: str | None) -> None:
    """Does what a message says, to the table that it names."""
    kinds = {needs_key for text, needs_key in REMEDIES.items() if text in reason}
    assert len(kinds) == 1, reason
    [table] = [table for table in chosen_tables(pipeline, lake_of(pipeline), "copy") if f"{table}: " in reason]
    if True in kinds:
        assert key_clause, reason
        copy.execute(f"ALTER TABLE `{copy.schema}`.`{table.name}` {key_clause}")
    if "--reload" in reason:
        reload_tables(pipeline, "copy", [table])


def _create(copy: Copy) -> None:
    """Three tables, with their first rows."""
    tables = ("keyed (id INT PRIMARY KEY, n INT)", "bag (id INT, n INT)", "second (id INT PRIMARY KEY, n INT)")
    values = ", ".join(f"({number}, {number % 7})" for number in range(ROWS))
    for table in tables:
        copy.shop.execute(f"CREATE TABLE {table}", f"INSERT INTO {table.partition(' ')[0]} VALUES {values}")


def _grow(copy: Copy, generator: random.Random) -> None:
    """A window of several parts."""
    for number in range(60):
        copy.shop.execute(
            "START TRANSACTION",
            f"UPDATE keyed SET n = -{number} WHERE id = {generator.randrange(ROWS)}",
            f"DELETE FROM bag WHERE id = {generator.randrange(ROWS)} LIMIT 1",
            f"INSERT INTO {generator.choice(['keyed', 'second'])} VALUES ({2000 + number}, {number})",
            f"INSERT INTO bag VALUES ({number % 7}, {number % 3})",
            "COMMIT",
        )


class StatementHolder(Listener):
    """Holds the first statement that has a text until it is released, whoever is waiting for it."""

    def __init__(self, host: str, port: int, text: bytes) -> None:
        self._upstream, self._text = (host, port), text
        self.is_held, self.is_released, self.is_passed_on = threading.Event(), threading.Event(), threading.Event()
        super().__init__()

    def _accept_client(self, client: socket.socket) -> None:
        server = socket.create_connection(self._upstream)
        threading.Thread(target=self._questions, args=(client, server), daemon=True).start()
        threading.Thread(target=self._answers, args=(client, server), daemon=True).start()

    def _questions(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while question := client.recv(1 << 16):
                if self._text in question and not self.is_held.is_set():
                    self.is_held.set()
                    self.is_released.wait(300)
                    with suppress(OSError):
                        server.sendall(question)
                    time.sleep(1)
                    self.is_passed_on.set()
                    continue
                server.sendall(question)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 16):
                client.sendall(answer)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.mark.mysql
@pytest.mark.parametrize("read_timeout", [2, 60])
def test_a_reload_whose_truncate_arrives_late(
    database: Database, login: dict[str, Any], tmp_path: Path, read_timeout: int
) -> None:
    """A run that delivers the table meanwhile has ended the session that the TRUNCATE came in."""
    lake = WrittenLake(tmp_path, database.name, login, [Insert("shop.keyed", (1, 1)), Commit()])
    lake.publish(2, ["keyed"])
    assert deliver(lake.pipeline(), "copy").stopped == {}
    with StatementHolder(login["host"], login["port"], b"TRUNCATE TABLE") as holder:
        held_login = login | {"port": holder.port, "tls": {"enabled": False}, "read_timeout": read_timeout}
        pipeline = lake.pipeline(mysql=held_login)
        tables, raised = chosen_tables(pipeline, lake_of(pipeline), "copy"), []

        def reload() -> None:
            try:
                reload_tables(pipeline, "copy", tables)
            except StratalogError as error:
                raised.append(str(error))

        reloading = threading.Thread(target=reload)
        reloading.start()
        assert holder.is_held.wait(60)
        # With a short time for answers the reload tries again; otherwise it is overtaken, before it emptied the table.
        if read_timeout < 60:
            reloading.join(60)
            assert raised == []
        else:
            database.execute("TRUNCATE TABLE keyed")
        assert deliver(lake.pipeline(), "copy").stopped == {}
        holder.is_released.set()
        assert holder.is_passed_on.wait(60)
        reloading.join(60)
        assert all("another run delivers the table since" in reason for reason in raised)
    assert database.execute("SELECT * FROM keyed") == ((1, 1),)


@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.long
@pytest.mark.parametrize("read_timeout", [2, 60])
@pytest.mark.parametrize(
    "statement, text, later",
    [
        ("ALTER TABLE t ADD c TEXT NOT NULL", b"SET `c` = ", "UPDATE t SET c = 'new'"),
        ("TRUNCATE TABLE t", b"TRUNCATE TABLE", "INSERT INTO t (id) VALUES (5), (6)"),
    ],
)
def test_a_statement_that_arrives_late(copy: Copy, statement: str, text: bytes, later: str, read_timeout: int) -> None:
    """What one run sent, and the server gets when another one has delivered more: it changes nothing any more."""
    copy.shop.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    copy.run(copy.pipeline(apply="ordered"))
    copy.shop.execute(statement, later)
    run_source(copy.shop.spark, copy.pipeline(apply="ordered"), SOURCE)
    server = copy.server
    with StatementHolder(server.host, server.port, text) as holder:
        login: dict[str, Any] = {"host": server.host, "port": holder.port, "user": "writer", "password": "writes"}
        login |= {"tls": {"enabled": False}, "read_timeout": read_timeout}
        through_holder: dict[str, Any] = {"apply": "ordered", "mysql": login}
        delivering = threading.Thread(target=deliver, args=(copy.pipeline(**through_holder), "copy"))
        delivering.start()
        assert holder.is_held.wait(120)
        # With a short time for answers the first run gives up or tries again; otherwise it is overtaken.
        if read_timeout < 60:
            delivering.join(120)
        assert deliver(copy.pipeline(apply="ordered"), "copy").stopped == {}
        copy.require_same("t")
        holder.is_released.set()
        assert holder.is_passed_on.wait(60)
        delivering.join(120)
    copy.require_same("t")
