import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery import progress, target
from spark_jobs.delivery.progress import Step, TableId, WindowPlan
from spark_jobs.delivery.statements import RowStatement
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.transactions import TargetTransaction, commit
from spark_jobs.errors import DeliveryDenied, DeliveryError
from tests.fix_mysql import Database

SERVER = MySQL(host="db", user="writer", password="secret")


@pytest.mark.parametrize(
    "number, text, message",
    [
        (
            1062,
            "Duplicate entry 'Ann' for key 't.name'",
            "Duplicate entry ? for key 't.name'; a row of the target is in",
        ),
        (
            1366,
            "Incorrect string value: '\\xFF' for column 'c' at row 1",
            "Incorrect string value: ? for column 'c' at row",
        ),
        (
            1406,
            "Data too long for column 'c' at row 1",
            "Data too long for column 'c' at row 1; widen the target's column",
        ),
        (1142, "INSERT command denied to user 'w'@'h' for table 't'", "for table 't'; grant it"),
        (
            1290,
            "The MySQL server is running with the --read-only option so it cannot execute this statement",
            "name the server that takes writes",
        ),
        (9999, "Ann", "answered: error 9999"),
        (1526, "Table has no partition for value Ann", "for value ?; add a partition to the target's table"),
        (1644, "Ann is not wanted here", "error 1644; see which trigger of the target refuses the row"),
        (2013, "Lost connection to MySQL server during query", "db:3306: Lost connection"),
    ],
)
def test_refusals_are_messages_without_values(number: int, text: str, message: str) -> None:
    error = Connection("replica", SERVER).error(pymysql.OperationalError(number, text), "shop.t")
    assert isinstance(error, DeliveryError)
    assert str(error).startswith("delivery replica: shop.t: db:3306")
    assert message in str(error)
    assert not any(value in str(error) for value in ("Ann", "xFF", "secret"))


@pytest.mark.parametrize(
    "error, attempts",
    [
        (pymysql.IntegrityError(1062, "Duplicate entry 'Ann' for key 't.name'"), 1),
        (pymysql.OperationalError(1213, "Deadlock found when trying to get lock"), 2),
        (OSError("cut"), 2),
    ],
    ids=["refused", "deadlock", "cut"],
)
def test_what_is_refused_is_not_tried_again(error: Exception, attempts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "RETRIED_FOR", 0.0)
    made = []

    def failing() -> None:
        made.append(error)
        raise error

    with pytest.raises(DeliveryError):
        Connection("replica", SERVER).retried(failing)
    assert len(made) == attempts


@pytest.mark.parametrize(
    "number, kind",
    [
        *((number, DeliveryDenied) for number in (1044, 1045, 1130, 1142)),
        *((number, DeliveryError) for number in (1062, 1205, 2013)),
    ],
)
def test_a_denial_has_a_class(number: int, kind: type[DeliveryError]) -> None:
    assert type(Connection("replica", SERVER).error(pymysql.OperationalError(number, "no"))) is kind


@pytest.mark.mysql
def test_a_login_that_is_denied_is_told_at_once(login: MySQL) -> None:
    began = time.monotonic()
    with (
        Connection("copy", login.model_copy(update={"password": SecretStr("another")})) as connection,
        pytest.raises(
            DeliveryDenied, match=r"Access denied for user 'writer'@.*; check the user or password of 'writer'"
        ),
    ):
        connection.ask("SELECT 1")
    assert time.monotonic() - began < 3


TABLE = TableId("copy", "s", "t")
STEP = Step("lake", 5, "b.000001:9", {})


@pytest.fixture
def login(database: Database) -> Iterator[MySQL]:
    """A user who writes a table ``t``; reads of its sessions are given up after two seconds."""
    database.execute("CREATE USER IF NOT EXISTS writer@'%' IDENTIFIED WITH mysql_native_password BY 'writes'")
    database.execute("GRANT ALL ON *.* TO writer@'%'")
    database.execute("DROP DATABASE IF EXISTS stratalog")
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    server = database.server
    yield MySQL(host=server.host, port=server.port, user="writer", password="writes", read_timeout=2)
    database.execute("DROP DATABASE IF EXISTS stratalog")


@contextmanager
def locked(database: Database, *statements: str, seconds: float = 600) -> Iterator[None]:
    """What another session holds, for so many seconds at most."""
    with database.server.connect() as holder, holder.cursor() as cursor:
        cursor.execute(f"USE `{database.name}`")
        for statement in statements:
            cursor.execute(statement)
        timer = threading.Timer(seconds, lambda: cursor.execute("UNLOCK TABLES"))
        timer.start()
        yield
        timer.cancel()
        timer.join()


def writers(database: Database) -> list[tuple[object, ...]]:
    """The writer's sessions that the server has, once those that were told to end have ended."""
    deadline = time.monotonic() + 1
    query = "SELECT id, state, info FROM information_schema.processlist WHERE user = 'writer'"
    while (listed := [*database.execute(query)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return listed


@pytest.mark.mysql
@pytest.mark.parametrize("read_timeout, seconds", [(60, 10), (5, 2), (1, 1)])
def test_locks_are_waited_for_less_than_for_an_answer(login: MySQL, read_timeout: int, seconds: int) -> None:
    settings = login.model_copy(update={"read_timeout": read_timeout})
    with Connection("copy", settings) as connection:
        [row] = connection.ask("SELECT @@lock_wait_timeout locks, @@innodb_lock_wait_timeout locks_of_rows")
    assert row == {"locks": seconds, "locks_of_rows": seconds}


@pytest.mark.mysql
@pytest.mark.parametrize("kind", ["READ", "WRITE"])
def test_a_locked_table_is_waited_for(database: Database, login: MySQL, kind: str) -> None:
    """Longer than for one answer; rows are written once, and no session is left behind."""
    with Connection("copy", login) as connection:
        progress.create(connection)
        row = progress.claim(connection, TABLE)
        statement = progress.complete_version_sql(TABLE, row, STEP, 1)
        insert = RowStatement(f"INSERT INTO `{database.name}`.t VALUES (1)".encode(), "t", "inserted", 1)
        work = TargetTransaction(TABLE, [insert], statement, lambda stored: stored.version == STEP.version)
        with locked(database, f"LOCK TABLES t {kind}", seconds=5):
            if kind == "WRITE":
                assert connection.ask(f"SELECT * FROM `{database.name}`.t") == []
            else:
                assert commit(connection, work, row.fence)
                assert connection.ask(f"SELECT id FROM `{database.name}`.t") == [{"id": 1}]
    assert writers(database) == []


@pytest.mark.mysql
@pytest.mark.parametrize("first", ["create", "claim", "listed", "opened"])
def test_the_first_statements_wait_for_locks_too(database: Database, login: MySQL, first: str) -> None:
    with Connection("copy", login) as connection:
        progress.create(connection)
        row = progress.claim(connection, TABLE)
        plan = WindowPlan("digest")
        opened = TargetTransaction(
            TABLE, (), progress.open_window_sql(TABLE, row, STEP, plan), lambda stored: stored.plan == plan
        )
        statements: dict[str, Callable[[], object]] = {
            "create": lambda: progress.create(connection),
            "claim": lambda: progress.claim(connection, TABLE),
            "listed": lambda: progress.progress_by_table(connection, "copy"),
            "opened": lambda: commit(connection, opened, row.fence),
        }
        with locked(database, "LOCK TABLES stratalog.checkpoint WRITE", seconds=4):
            statements[first]()
    assert writers(database) == []


@pytest.mark.mysql
def test_a_table_that_stays_locked_is_given_up(
    database: Database, login: MySQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many seconds, whatever one attempt takes."""
    monkeypatch.setattr(target, "RETRIED_FOR", 4.0)
    with Connection("copy", login) as connection:
        connection.open()
        began = time.monotonic()
        with (
            locked(database, "LOCK TABLES t WRITE"),
            pytest.raises(DeliveryError, match="another session holds its locks; run again when it has ended"),
        ):
            connection.ask(f"SELECT * FROM `{database.name}`.t")
        assert 4 < time.monotonic() - began < 12
    assert writers(database) == []


@pytest.mark.mysql
def test_a_session_without_an_answer_is_ended(
    database: Database, login: MySQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "RETRIED_FOR", 0.0)
    with Connection("copy", login) as connection:
        with pytest.raises(DeliveryError, match="Lost connection"):
            connection.ask("SELECT SLEEP(100)")
        assert writers(database) == []
        assert connection.ask("SELECT 1 one") == [{"one": 1}]


@pytest.mark.mysql
def test_what_a_server_is_asks_each_connection_by_itself(login: MySQL, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose server does not answer keeps no other one waiting, nor one of another delivery."""
    asked, answered = threading.Event(), threading.Event()
    with Connection("slow", login) as slow, Connection("copy", login) as quick, ThreadPoolExecutor(2) as pool:
        ask = slow.ask

        def waiting(query: str) -> list[dict[str, Any]]:
            asked.set()
            assert answered.wait(60)
            return ask(query)

        monkeypatch.setattr(slow, "ask", waiting)
        slow_facts = pool.submit(lambda: slow.facts)
        assert asked.wait(60)
        try:
            facts = pool.submit(lambda: quick.facts).result(timeout=10)
        finally:
            answered.set()
        assert slow_facts.result() == facts


def test_a_server_that_does_not_answer_is_told_at_once() -> None:
    began = time.monotonic()
    with (
        Connection("copy", MySQL(host="127.0.0.1", port=1, user="writer", password="x")) as connection,
        pytest.raises(DeliveryError, match="cannot be reached"),
    ):
        connection.ask("SELECT 1")
    assert time.monotonic() - began < 3
