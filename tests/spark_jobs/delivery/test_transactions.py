"""Exactly once: a delivery that is killed, whose server goes away, or that is overtaken. Each ends with equal rows."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_jobs.config.model import Pipeline
from spark_jobs.config.servers import MySQL
from spark_jobs.delivery import progress, transactions
from spark_jobs.delivery.deliver import deliver
from spark_jobs.delivery.progress import TableId
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.transactions import execute_alone
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import LostRace, StratalogError
from spark_jobs.pipeline.run import run_source
from tests.fix_keeper import wait_until
from tests.fix_mysql import Database
from tests.fix_pipeline import SOURCE
from tests.lakes.delivered import Copy
from tests.services.proxy import Listener

pytestmark = [pytest.mark.spark, pytest.mark.mysql]

ROWS = 30


class Restorable:
    """A delivery of two windows, of which the target has the first; ``restore`` puts it back to there."""

    def __init__(self, copy: Copy, **keys: Any) -> None:
        self.copy, self.shop, self.rows_compared = copy, copy.shop, 0
        values = ", ".join(f"({number}, {number})" for number in range(ROWS))
        self.shop.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, n INT, UNIQUE KEY (n))",
            f"INSERT INTO keyed VALUES {values}",
            "CREATE TABLE counted (a INT, b VARCHAR(9))",
            f"INSERT INTO counted VALUES {values}, {values}",
        )
        self.keys = keys
        copy.run(self.pipeline())
        copy.execute(f"ALTER TABLE `{copy.schema}`.keyed ADD UNIQUE KEY (n)")
        for table in (f"`{copy.schema}`.keyed", f"`{copy.schema}`.counted", "stratalog.checkpoint"):
            copy.execute(
                f"CREATE TABLE {self._saved(table)} LIKE {table}",
                f"INSERT INTO {self._saved(table)} SELECT * FROM {table}",
            )
        self.shop.execute(
            *(f"UPDATE keyed SET n = -1 - n WHERE id BETWEEN {at} AND {at + 4}" for at in range(0, ROWS, 5)),
            "DELETE FROM keyed WHERE id % 5 = 0",
            "UPDATE keyed SET id = id + 1000, n = 1000 - n WHERE id % 5 = 1",
            f"INSERT INTO keyed VALUES {', '.join(f'({number + 500}, {number})' for number in range(ROWS))}",
            "DELETE FROM counted WHERE a % 3 = 0 LIMIT 11",
            f"INSERT INTO counted VALUES {values}",
        )
        run_source(self.shop.spark, self.pipeline(), SOURCE)

    def pipeline(self, **keys: Any) -> Pipeline:
        return self.copy.pipeline(**(self.keys | keys))

    def _saved(self, table: str) -> str:
        return f"`{self.copy.schema}`.saved_{table.rpartition('.')[2]}"

    def restore(self) -> None:
        for table in (f"`{self.copy.schema}`.keyed", f"`{self.copy.schema}`.counted", "stratalog.checkpoint"):
            self.copy.execute(f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM {self._saved(table)}")

    def require_delivered(self) -> None:
        missing, extra, rows = Counter[Any](), Counter[Any](), 0
        for table in ("keyed", "counted"):
            delivered, expected = Counter(self.copy.rows(table)), Counter(self.copy.source_rows(table))
            missing, extra, rows = (
                missing + (expected - delivered),
                extra + (delivered - expected),
                rows + expected.total(),
            )
        assert (missing, extra) == ({}, {})
        self.rows_compared += rows
        assert {(row["exit_version"], row["parts"]) for row in self.copy.progress()} == {(None, None)}

    def faults(self, fault: str, times: int) -> str:
        """A line for the summary; rows that differed would have ended the test."""
        method = next(name for name, keys in METHODS.items() if keys == self.keys)
        into = "delivery into TiDB" if self.copy.target else "delivery"
        return f"{into}, {method}: {fault} × {times}: {self.rows_compared:,} rows compared, 0 lost, 0 doubled"


METHODS: dict[str, dict[str, Any]] = {
    "net": {"batch_rows": 1000},
    "net, split": {"batch_rows": 4, "workers": 2},
    "ordered": {"apply": "ordered"},
    "ordered, split": {"apply": "ordered", "batch_rows": 2, "workers": 2},
}
"""Windows of one transaction and of several, of both ways."""
each_method = pytest.mark.parametrize("keys", METHODS.values(), ids=METHODS)


@pytest.mark.long
@pytest.mark.parametrize("fixture", ["copy", "tidb_copy"])
@each_method
def test_killed_at_each_statement(
    request: pytest.FixtureRequest, fixture: str, keys: dict[str, Any], summary: list[str]
) -> None:
    restorable = Restorable(request.getfixturevalue(fixture), **keys)
    pipeline = restorable.pipeline()
    script = Path(__file__).parent / "killed.py"
    deaths = 0
    with subprocess.Popen(
        [sys.executable, str(script), str(pipeline.path), "copy"],
        env=os.environ | {"PYTHONPATH": "."},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        for moment in ("before", "after"):
            for number in range(1, 10_000):
                restorable.restore()
                process.stdin.write(f"{number} {moment}\n")
                process.stdin.flush()
                ended = int(process.stdout.readline())
                assert ended in (0, -signal.SIGKILL)
                assert deliver(pipeline, "copy").stopped == {}
                restorable.require_delivered()
                deaths += ended != 0
                if ended == 0:
                    break
    assert deaths > 10
    summary.append(restorable.faults("killed before and after a statement", deaths))


class CommitCutter(Listener):
    """Cuts connections at COMMIT: before the server gets it, or behind its answer, so many times."""

    def __init__(self, host: str, port: int, cuts: int, *, is_carried_out: bool) -> None:
        self._upstream = (host, port)
        self.remaining = cuts
        self._is_carried_out = is_carried_out
        super().__init__()

    def _accept_client(self, client: socket.socket) -> None:
        server = socket.create_connection(self._upstream)
        threading.Thread(target=self._questions, args=(client, server), daemon=True).start()
        threading.Thread(target=self._answers, args=(client, server), daemon=True).start()

    def _questions(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while question := client.recv(1 << 16):
                if question.endswith(b"\x03COMMIT") and self.remaining > 0:
                    self.remaining -= 1
                    client.shutdown(socket.SHUT_RDWR)
                    client.close()
                    if self._is_carried_out:
                        server.sendall(question)
                        time.sleep(0.2)
                    break
                server.sendall(question)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 16):
                client.sendall(answer)
        for end in (client, server):
            end.close()


@pytest.mark.thorough
@pytest.mark.parametrize("is_carried_out", [True, False])
@each_method
def test_the_answer_to_commit_is_lost(
    copy: Copy, summary: list[str], *, is_carried_out: bool, keys: dict[str, Any]
) -> None:
    restorable = Restorable(copy, **keys)
    server = copy.shop.database.server
    with CommitCutter(server.host, server.port, 5, is_carried_out=is_carried_out) as cutter:
        pipeline = restorable.pipeline(port=cutter.port)
        assert deliver(pipeline, "copy").stopped == {}
        assert cutter.remaining <= 3
    restorable.require_delivered()
    fault = f"connection cut {'behind' if is_carried_out else 'before'} COMMIT"
    summary.append(restorable.faults(fault, 5 - cutter.remaining))


def _stopping_at(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[threading.Event, threading.Event]:
    """The first statement with a text waits: until the second event, after it has set the first."""
    execute, reached, resumes = Connection.execute, threading.Event(), threading.Event()

    def stopping(connection: Connection, statement: str | bytes) -> int:
        if isinstance(statement, str) and text in statement and not reached.is_set():
            reached.set()
            assert resumes.wait(60)
        return execute(connection, statement)

    monkeypatch.setattr(Connection, "execute", stopping)
    return reached, resumes


@pytest.mark.thorough
@each_method
def test_a_deliverer_that_was_overtaken_cannot_commit(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], summary: list[str]
) -> None:
    restorable = Restorable(copy, **keys)
    reached, resumes = _stopping_at(monkeypatch, "parts = CONCAT" if "workers" in keys else "lake_version = ")
    outcomes: list[Any] = []
    sleeper = threading.Thread(target=lambda: outcomes.append(deliver(restorable.pipeline(), "copy")))
    sleeper.start()
    assert reached.wait(60)
    # Its transaction holds locks of rows: what overtakes it has to wait for these, or for their end.
    copy.shop.execute("SET GLOBAL innodb_lock_wait_timeout = 1")
    try:
        overtaking = threading.Thread(target=lambda: outcomes.append(deliver(restorable.pipeline(), "copy")))
        overtaking.start()
        time.sleep(3)
        resumes.set()
        overtaking.join(60)
        sleeper.join(60)
    finally:
        copy.shop.execute("SET GLOBAL innodb_lock_wait_timeout = 50")
    reasons = [reason for outcome in outcomes for reason in outcome.stopped.values()]
    assert len(outcomes) == 2
    assert all("another run delivers the table since" in reason for reason in reasons)
    assert deliver(restorable.pipeline(), "copy").stopped == {}
    restorable.require_delivered()
    assert reasons
    summary.append(restorable.faults("overtaken by another run", len(reasons)))


@pytest.mark.thorough
@each_method
def test_locks_of_another_session_are_waited_for(copy: Copy, keys: dict[str, Any], summary: list[str]) -> None:
    restorable = Restorable(copy, **keys)
    copy.shop.execute("SET GLOBAL innodb_lock_wait_timeout = 1")
    try:
        with copy.shop.database.server.connect() as holder, holder.cursor() as cursor:
            cursor.execute("START TRANSACTION")
            cursor.execute(f"SELECT * FROM `{copy.schema}`.keyed FOR UPDATE")
            timer = threading.Timer(2.5, holder.commit)
            timer.start()
            assert deliver(restorable.pipeline(), "copy").stopped == {}
            timer.join()
    finally:
        copy.shop.execute("SET GLOBAL innodb_lock_wait_timeout = 50")
    restorable.require_delivered()
    summary.append(restorable.faults("locks of another session, 2.5 s", 1))


@pytest.mark.thorough
@each_method
def test_a_deadlock_is_tried_again(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], summary: list[str]
) -> None:
    """The session in the way has changed more rows, so that the server rolls the delivery back, not it."""
    restorable = Restorable(copy, **keys)
    execute, victims = Connection.execute, []

    def counting(connection: Connection, statement: str | bytes) -> int:
        try:
            return execute(connection, statement)
        except pymysql.err.OperationalError as error:
            victims.append(error.args[0])
            raise

    monkeypatch.setattr(Connection, "execute", counting)
    ballast = f"`{copy.schema}`.ballast"
    copy.shop.execute(f"CREATE TABLE {ballast} (n INT)")
    with copy.shop.database.server.connect() as holder, holder.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute(f"INSERT INTO {ballast} VALUES {', '.join(['(1)'] * 2000)}")
        cursor.execute(f"SELECT * FROM `{copy.schema}`.keyed WHERE id = 5 FOR UPDATE")
        outcomes: list[Any] = []
        delivering = threading.Thread(target=lambda: outcomes.append(deliver(restorable.pipeline(), "copy")))
        delivering.start()
        waiting = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        deadline = time.monotonic() + 60
        while copy.shop.database.execute(waiting) == ((0,),):
            assert time.monotonic() < deadline
            time.sleep(0.3)  # the server refills that table once it was not queried for 0.1 s
        cursor.execute("SELECT * FROM stratalog.checkpoint FOR UPDATE")
        cursor.execute(f"SELECT * FROM `{copy.schema}`.keyed FOR UPDATE")
        holder.commit()
        delivering.join(60)
    assert outcomes[0].stopped == {}
    assert 1213 in victims
    restorable.require_delivered()
    summary.append(restorable.faults("rolled back in a deadlock", victims.count(1213)))


@pytest.mark.thorough
@pytest.mark.parametrize("apply, batch_rows, note", [("net", 2, "',i140-160'"), ("ordered", 20, "',1'")])
def test_a_target_that_is_killed_and_started_again(
    copy: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apply: str, batch_rows: int, note: str
) -> None:
    """The server keeps what it committed, and nothing is delivered twice or left out."""
    shop = copy.shop
    shop.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)", "CREATE TABLE counted (a INT, b INT)")
    shop.execute("INSERT INTO t VALUES (-1, 0)", "INSERT INTO counted VALUES (-1, 0)")
    durable: dict[str, object] = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}
    with MySQLServer(tmp_path / "target", durable) as target:
        copy.target = target
        copy.execute(
            "CREATE USER writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'",
            "GRANT ALL ON *.* TO writer@'%'",
        )
        pipeline = copy.pipeline(apply=apply, batch_rows=batch_rows, workers=2)
        assert copy.run(pipeline).stopped == {}
        for begin in range(0, 400, 40):
            values = ", ".join(f"({number}, {number})" for number in range(begin, begin + 40))
            shop.execute(f"INSERT INTO t VALUES {values}", f"INSERT INTO counted VALUES {values}, {values}")
        run_source(shop.spark, pipeline, SOURCE)
        reached, resumes = _stopping_at(monkeypatch, note)
        outcomes: list[Any] = []
        delivering = threading.Thread(target=lambda: outcomes.append(deliver(pipeline, "copy")))
        delivering.start()
        assert reached.wait(60)
        target.kill()
        resumes.set()
        time.sleep(1)
        target.start()
        delivering.join(120)
        assert outcomes[0].stopped == {}
        with target.connect() as connection, connection.cursor() as cursor:
            for table in ("t", "counted"):
                cursor.execute(f"SELECT * FROM `{copy.schema}`.{table}")
                assert sorted(cursor.fetchall()) == sorted(shop.database.execute(f"SELECT * FROM {table}"))


@pytest.mark.thorough
def test_a_target_that_is_not_there(copy: Copy) -> None:
    restorable = Restorable(copy)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(StratalogError, match=r"delivery copy: 127\.0\.0\.1:.* cannot be reached"):
        deliver(restorable.pipeline(port=port), "copy")


@pytest.mark.thorough
@pytest.mark.parametrize("apply", ["net", "ordered"])
def test_a_target_that_is_read_only(copy: Copy, apply: str) -> None:
    restorable = Restorable(copy, apply=apply)
    copy.shop.execute("SET GLOBAL read_only = ON")
    try:
        reasons = _reasons(restorable.pipeline())
    finally:
        copy.shop.execute("SET GLOBAL read_only = OFF")
    assert all("name the server that takes writes" in reason for reason in reasons)
    assert reasons


def _reasons(pipeline: Pipeline) -> list[str]:
    try:
        return list(deliver(pipeline, "copy").stopped.values())
    except StratalogError as error:
        return [str(error)]


ROW = TableId("copy", "shop", "t")
EXECUTING = "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO IS NOT NULL AND ID"
"""Of a session that executes a statement."""


@pytest.fixture
def deliverers(database: Database) -> Iterator[tuple[Connection, Connection]]:
    """Connections of two runs to a target with tables of progress."""
    server = database.server
    database.execute("CREATE USER IF NOT EXISTS runs@'%' IDENTIFIED WITH mysql_native_password BY 'runs'")
    database.execute("GRANT ALL ON stratalog.* TO runs@'%'")
    database.execute(f"GRANT ALL ON `{database.name}`.* TO runs@'%'")
    database.execute("DROP DATABASE IF EXISTS stratalog")
    login = MySQL(host=server.host, port=server.port, user="runs", password="runs")
    with Connection("copy", login) as first, Connection("copy", login) as second:
        progress.create(first)
        yield first, second
    database.execute("DROP DATABASE IF EXISTS stratalog")


@pytest.fixture
def executing(deliverers: tuple[Connection, Connection]) -> Iterator[tuple[int, float]]:
    """The fence of the first run, whose statement the server executes for a second, and when it began."""
    first, second = deliverers
    fence = progress.claim(first, ROW).fence
    first.execute(progress.begin_statement_sql(ROW, fence, first.session))
    began = time.monotonic()
    thread = threading.Thread(target=lambda: first.rows("SELECT SLEEP(1)"))
    thread.start()
    wait_until(lambda: bool(second.ask(f"{EXECUTING} = %s", (first.session.number,))))
    yield fence, began
    thread.join()


def require_ended(connection: Connection, began: float) -> None:
    """The statement had its second, and no row of progress has its session any more."""
    assert time.monotonic() - began > 0.9
    stored = progress.stored_progress(connection, ROW)
    assert stored
    assert stored.session is None


def test_a_statement_alone_waits_for_the_one_that_the_server_still_executes(
    deliverers: tuple[Connection, Connection], executing: tuple[int, float], database: Database
) -> None:
    _, second = deliverers
    fence, began = executing
    execute_alone(second, ROW, fence, f"CREATE TABLE `{database.name}`.t (id INT)")
    require_ended(second, began)
    assert database.execute("SHOW TABLES LIKE 't'")


def test_a_takeover_waits_for_the_statement_that_the_server_still_executes(
    deliverers: tuple[Connection, Connection], executing: tuple[int, float]
) -> None:
    _, second = deliverers
    fence, began = executing
    assert progress.claim(second, ROW).fence == fence + 1
    require_ended(second, began)


def test_a_row_is_read_as_the_run_that_changes_it_leaves_it(deliverers: tuple[Connection, Connection]) -> None:
    first, second = deliverers
    fence = progress.claim(first, ROW).fence
    first.execute("START TRANSACTION")
    first.execute(progress.restart_sql(ROW))
    number = second.session.number
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(progress.stored_progress, second, ROW)
        wait_until(lambda: reading.done() or bool(first.rows(f"{EXECUTING} = %s", (number,))))
        first.execute("COMMIT")
        stored = reading.result()
    assert stored
    assert stored.fence == fence + 1


def test_a_statement_alone_is_not_executed_behind_a_takeover(
    deliverers: tuple[Connection, Connection], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = deliverers
    fence, own_row = progress.claim(first, ROW).fence, transactions._own_row

    def overtaken(*arguments: Any) -> progress.Progress:
        row = own_row(*arguments)
        progress.claim(second, ROW)
        return row

    monkeypatch.setattr(transactions, "_own_row", overtaken)
    with pytest.raises(LostRace, match="another run delivers the table since"):
        execute_alone(first, ROW, fence, f"CREATE TABLE `{database.name}`.t (id INT)")
    assert not database.execute("SHOW TABLES LIKE 't'")
