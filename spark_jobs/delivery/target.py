"""Target server of a delivery: sessions with explicit settings, and the meaning of its errors.

Put here: connecting, running statements, trying again, errors as messages. Not here: the statements (statements.py),
which transactions there are (transactions.py), or what becomes of sessions that were given up (sessions.py).

A session has UTC, utf8mb4, READ COMMITTED, no foreign key checks, and a sql_mode under which each value of a source is
accepted or refused as it is: strict, zero dates allowed, no value made from 0 by AUTO_INCREMENT, backslashes as they
are. It waits for locks for less time than a read may take, so that the server ends a statement that waits, and not the
connection.
"""

import logging
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import DictCursor

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery import sessions
from spark_jobs.delivery.sessions import TargetSession
from spark_jobs.errors import DeliveryDenied, DeliveryError
from spark_jobs.source.connection import answer_of, error_number, is_denial, log_in, may_pass, refusal

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRIED_FOR = 30.0
"""Seconds after which what failed is not tried again, but for a second time."""
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 4.0
"""Seconds between two attempts: doubled with each further one, at most so many."""
_LOCK_SECONDS = 10
"""Seconds that a statement waits for a lock at most."""
SQL_MODE = (
    "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION,"
    "ALLOW_INVALID_DATES,ERROR_FOR_DIVISION_BY_ZERO"
)
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    f"SET SESSION sql_mode = '{SQL_MODE}', foreign_key_checks = 0, unique_checks = 1, sql_safe_updates = 0",
)
CONFLICTS = {1205, 1213, 8002, 8022, 8028, 9007}
"""Numbers of errors after which the same transaction may succeed: deadlocks, lock timeouts; TiDB's write conflicts and
schema changes."""
_READ_ONLY = "the server is read-only: name the server that takes writes, as after a failover"
_DENIED = "grant it (stratalog docs deliveries#privileges)"
_REMEDIES: Mapping[int, str] = {
    1044: _DENIED,
    1142: _DENIED,
    1143: _DENIED,
    1227: _DENIED,
    1290: _READ_ONLY,
    1792: _READ_ONLY,
    1836: _READ_ONLY,
    1049: "create the schema, or let ddl: apply create it",
    1146: "create the table, or let ddl: apply create it",
    1054: "let ddl: apply add the column, or ddl: ignore leave it out",
    1062: "a row of the target is in the way: the lake does not have it, or a unique index takes it for equal to "
    "another of the lake's; compare by `stratalog verify --delivery`, and give the target the source's indexes and "
    "collations, remove the row, or, where it has the same key, overwrite it by safe_mode: on",
    1071: "create the table yourself, with a key that the server takes",
    1264: "widen the target's column",
    1265: "give the target's column a type that holds what the source's does",
    1366: "give the target's column a type and a character set that hold what the source's do",
    1406: "widen the target's column",
    1364: "give the target's column a default, since the lake does not have it",
    1048: "let the target's column be NULL",
    1114: "free space at the target",
    1021: "free space at the target",
    1153: "raise max_allowed_packet of the target, or lower batch_rows",
    1205: "another session holds its locks; run again when it has ended",
    1213: "another session writes the same rows; stop it, or lower workers",
    1452: "drop the foreign key of the target, or set foreign_key_checks so that this session may set it off",
    1526: "add a partition to the target's table that takes the row",
    1644: "see which trigger of the target refuses the row, and drop it or let the row pass",
    3819: "drop the CHECK constraint of the target, which the source does not have",
    4025: "drop the CHECK constraint of the target, which the source does not have",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a server."""

    version: str
    is_mariadb: bool
    is_tidb: bool
    max_packet: int
    """max_allowed_packet, in bytes."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the version."""
        return tuple(map(int, re.findall(r"\d+", self.version)[:3]))


def lock_seconds(settings: MySQL) -> int:
    """Seconds that a statement waits for a lock: well below the time after which its answer is given up."""
    return max(1, min(_LOCK_SECONDS, settings.read_timeout // 2))


def may_succeed(error: BaseException) -> bool:
    """True if the same may succeed another time: conflicts, locks, a lost connection, a server that starts."""
    cause = error.__cause__ if isinstance(error, DeliveryError) else error
    return cause is not None and (error_number(cause) in CONFLICTS or may_pass(cause))


def _kind_of(error: BaseException) -> type[DeliveryError]:
    """The class of what is raised for an error of the target."""
    return DeliveryDenied if is_denial(error) else DeliveryError


class Connection:
    """A session at the target; what it raises is a DeliveryError or what PyMySQL raises of conflicts and lost servers.

    Not for two threads at once.
    """

    def __init__(self, delivery: str, settings: MySQL) -> None:
        self.delivery = delivery
        self.label = f"delivery {delivery}"
        self._settings = settings
        self._connection: pymysql.Connection[Any] | None = None
        self._facts: Facts | None = None
        self._session: TargetSession | None = None
        """Identifier at the server; also of the last one, where it was given up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the server rolls back an open transaction."""
        if self._connection is not None:
            with suppress(pymysql.MySQLError, OSError):
                self._connection.close()
        self._connection = None

    def open(self) -> None:
        """Connect where there is no connection. Raises DeliveryError."""
        if self._connection is not None:
            return
        try:
            # An UPDATE counts the rows that it finds, also those that have the values already.
            options = {"cursorclass": DictCursor, "autocommit": True, "client_flag": CLIENT.FOUND_ROWS}
            connection = log_in(self._settings, **options)
            self._connection = connection
            for statement in _SESSION:
                connection.query(statement)
            self._wait_for_locks(lock_seconds(self._settings))
            self._session = sessions.own_session(self)
        except (pymysql.MySQLError, RuntimeError, OSError) as error:
            self.close()
            raise _kind_of(error)(refusal(self.label, self._settings, error)) from error

    def _wait_for_locks(self, seconds: int) -> None:
        """Set how long a statement waits for a lock at most; the server may let it wait for less."""
        stored = int(self.rows("SELECT @@SESSION.innodb_lock_wait_timeout seconds")[0]["seconds"])
        values = f"lock_wait_timeout = {seconds}, innodb_lock_wait_timeout = {min(stored, seconds)}"
        self.execute(f"SET SESSION {values}")

    @property
    def session(self) -> TargetSession:
        """Session identifier at the server. Raises DeliveryError."""
        self.open()
        assert self._session
        return self._session

    def retried(self, work: Callable[[], T], table: str = "") -> T:
        """Result of work, which is tried again for about half a minute, each time in a session of its own.

        work: leaves nothing behind where its session ends. Raises DeliveryError, also of what may not succeed.
        """
        end, pause = time.monotonic() + RETRIED_FOR, _FIRST_WAIT
        is_first = True
        while True:
            try:
                return work()
            except (pymysql.MySQLError, OSError, DeliveryError) as error:
                self._give_up(error)
                reason = self.error(error, table)
                if not may_succeed(error) or (time.monotonic() > end and not is_first):
                    raise reason from (error if error is not reason else error.__cause__)
            log.warning("%s; trying again", reason)
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that two do not meet again
            is_first, pause = False, min(2 * pause, _LONGEST_WAIT)

    def _give_up(self, error: BaseException) -> None:
        """Closes; where no answer came, the server may be at the statement still, and is told to end it."""
        session, was_open = self._session, self._connection is not None
        self.close()
        if not was_open or session is None or not may_pass(error):
            return
        try:
            with Connection(self.delivery, self._settings) as connection:
                sessions.end(connection, session)
        except (DeliveryError, pymysql.MySQLError, OSError) as failure:
            log.warning("%s; its %s may run its last statement for a while", self.error(failure), session)

    def execute(self, statement: str | bytes) -> int:
        """Run a statement; how many rows it found or made. Raises MySQLError, OSError, DeliveryError."""
        self.open()
        assert self._connection is not None
        # PyMySQL encodes text by the connection's character set and sends bytes as they are.
        return int(self._connection.query(statement) or 0)

    @property
    def info(self) -> bytes:
        """Server's info text of the last statement: of an upsert, how many rows were there."""
        assert self._connection is not None
        # PyMySQL has no public name for it.
        return getattr(self._connection, "_result").message or b""  # noqa: B009

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows of a query's result, as column name to value.

        Raises MySQLError, OSError, DeliveryError. parameters: for %s.
        """
        self.open()
        assert self._connection is not None
        with self._connection.cursor() as cursor:
            cursor.execute(query, parameters or None)
            return list(cursor.fetchall())

    @property
    def facts(self) -> Facts:
        """The target's version, kind, and largest packet in bytes. Raises DeliveryError."""
        # A cached_property of Python 3.11 has one lock for all connections, which would wait for one that is lost.
        if self._facts is None:
            self._facts = self._asked_facts()
        return self._facts

    def _asked_facts(self) -> Facts:
        row = self.ask("SELECT VERSION() version, @@max_allowed_packet packet")[0]
        version = str(row["version"])
        is_tidb = "TiDB" in version
        if is_tidb:
            version = version.partition("TiDB-")[2]
        return Facts(version, "MariaDB" in version, is_tidb, int(row["packet"]))

    def ask(self, query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows of a query outside of transactions, which is tried again. Raises DeliveryError for every refusal."""
        # A server that does not answer at all is told at once.
        if self._session is None:
            self.open()
        return self.retried(lambda: self.rows(query, parameters))

    def error(self, error: BaseException, table: str = "") -> DeliveryError:
        """Error of a server as a message with the delivery, the table and what to do; it has no value of a row."""
        label = f"{self.label}: {table}" if table else self.label
        if isinstance(error, DeliveryError):
            return error
        number = error_number(error)
        if may_pass(error) or number is None or not isinstance(error, pymysql.MySQLError):
            return _kind_of(error)(refusal(label, self._settings, error))
        at, remedy = f"{label}: {self._settings.host}:{self._settings.port}", _REMEDIES.get(number)
        answer = f"{answer_of(error)}{'; ' + remedy if remedy else ''}"
        if is_denial(error):
            return DeliveryDenied(f"{at} answered: {answer}")
        return DeliveryError(f"{at} answered: {answer}")
