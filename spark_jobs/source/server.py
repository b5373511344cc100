"""Source of a live MySQL or MariaDB server.

Put here: what is asked of a server by SQL. Not here: how it is connected to (connection.py), reading its dump
(binlog_dump.py), or what the bytes mean (binlog/).
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError
from spark_jobs.log.gtid import MysqlGtids
from spark_jobs.log.position import FIRST_EVENT, Position, file_number
from spark_jobs.source.binlog_dump import DumpReading
from spark_jobs.source.connection import connect, error_number, refused_by
from spark_jobs.source.kept_sessions import session_of
from spark_jobs.source.protocol import (
    ALONE,
    LOST_LOG_REMEDIES,
    Log,
    LogFile,
    PartReader,
    Source,
    Switch,
    require_contiguous,
)

_NO_SUCH_COMMAND = 1064
_NO_LOG = "the server writes no binary log; start it with log_bin"
_VARIABLES = (
    *("log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "server_uuid", "server_id", "version"),
    *("gtid_mode", "log_slave_updates", "log_replica_updates", "innodb_native_foreign_keys"),
    "binlog_storage_engine",
)
_CUT_OFF, _STOPPED = 1e6, 1e9
"""Seconds that a replica counts as behind which is not connected to its primary, or does not apply what it gets."""
_ENCRYPTION_HEAD = 512
"""Bytes that stand in an encrypted file of MySQL before the log, and that no position counts (MySQL manual,
"Encrypting Binary Log Files and Relay Log Files")."""


def is_mariadb(variables: Mapping[str, str]) -> bool:
    """True if a server's variables are a MariaDB's, by its version."""
    return "mariadb" in variables.get("version", "").lower()


class Server:
    """One live server, as a source."""

    earlier = LOST_LOG_REMEDIES

    def __init__(self, name: str, settings: MySQL, switch: Switch = ALONE) -> None:
        self.name = name
        self.settings = settings
        self.endpoint: str | None = f"{settings.host}:{settings.port}"
        self.switch = switch
        self._uuid: str | None = None
        self._connection: pymysql.Connection[DictCursor] | None = None

    @contextmanager
    def one_connection(self) -> "Iterator[None]":
        """Ask by one connection, in one thread, while the context lasts. Raises SourceError."""
        with session_of(self.name, self.settings) as connection:
            self._connection = connection
            try:
                yield
            finally:
                self._connection = None

    def asking(self) -> "AbstractContextManager[pymysql.Connection[DictCursor]]":
        """The connection that is kept, or one for this question. Raises SourceError."""
        return nullcontext(self._connection) if self._connection else self.connect()

    def log(self, held: Position | None = None) -> Log:  # noqa: ARG002 - a server knows its end
        """The files that SHOW BINARY LOGS lists, with the server's UUID and the end of the log. Raises SourceError."""
        with self.asking() as connection:
            variables = self.variables(connection)
            self._require_rows(variables)
            # The end first: were it asked for last, a rotation in between would move it past a file whose size is old.
            end = self.end(connection)
            rows = self.ask(connection, "SHOW BINARY LOGS")
        files = [LogFile(row["Log_name"], _log_size(row)) for row in rows]
        files = [file for file in files if file_number(file.name) <= end.number]
        require_contiguous(self.name, [file.name for file in files])
        self._uuid = variables.get("server_uuid")
        return Log(self.name, tuple(files), end, self._uuid, variables.get("server_id"))

    def reading(self) -> PartReader:
        return DumpReading(self.name, self.settings, self._uuid)

    def now(self) -> datetime:
        with self.asking() as connection:
            (row,) = self.ask(connection, "SELECT UTC_TIMESTAMP(6) now")
        now: datetime = row["now"]
        return now.replace(tzinfo=UTC)

    def purged(self) -> MysqlGtids:
        with self.asking() as connection:
            rows = self.ask(connection, "SHOW GLOBAL VARIABLES LIKE 'gtid_purged'")
        return MysqlGtids.parse(rows[0]["Value"]) if rows else MysqlGtids()

    def connect(self) -> "pymysql.Connection[DictCursor]":
        """A connection whose session speaks UTC. Raises SourceError."""
        return connect(self.name, self.settings)

    def variables(self, connection: "pymysql.Connection[DictCursor]") -> dict[str, str]:
        """The global variables that decide how the server logs."""
        names = ", ".join(f"'{name}'" for name in _VARIABLES)
        rows = self.ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        return {row["Variable_name"]: row["Value"] for row in rows}

    def problems(self) -> list[str]:
        """Problems that keep this server from being read, all of them; empty where nothing does."""
        with self.connect() as connection:
            variables = self.variables(connection)
            problems = _logging_problems(variables)
            if _NO_LOG in problems:
                return problems
            if self.switch.has_several:
                problems += _moving_problems(variables)
            try:
                end = self.end(connection)
                DumpReading(self.name, self.settings).probe(end)
            except SourceError as error:
                problems.append(str(error))
        return problems

    def load(self) -> float:
        """Load that decides between endpoints that are equal otherwise: seconds behind its primary, and busy threads.

        A replica that has lost its primary comes behind those that have theirs, and one that has stopped applying what
        it gets behind all. Raises SourceError where it does not answer.
        """
        with self.connect() as connection:
            lag = seconds_behind(self.replication(connection))
            rows = self.ask(connection, "SHOW GLOBAL STATUS LIKE 'Threads_running'")
        return lag + float(rows[0]["Value"])

    def replication(self, connection: "pymysql.Connection[DictCursor]") -> list[dict[str, Any]]:
        """A row for each primary of the server's; MySQL 8.0.22 renamed the statement.

        MariaDB wants a privilege of its own for it (SLAVE MONITOR).
        """
        try:
            return self.ask(connection, "SHOW REPLICA STATUS")
        except SourceError as error:
            if error_number(error.__cause__) != _NO_SUCH_COMMAND:
                raise
            return self.ask(connection, "SHOW SLAVE STATUS")

    def _require_rows(self, variables: dict[str, str]) -> None:
        problems = _logging_problems(variables)
        if problems:
            raise SourceError("\n".join(f"{self.name}: {problem}" for problem in problems))

    def log_status(self, connection: "pymysql.Connection[DictCursor]") -> dict[str, Any]:
        """File and offset of the log's end, and the schemas that it leaves out; MySQL 8.4 renamed the statement."""
        try:
            rows = self.ask(connection, "SHOW BINARY LOG STATUS")
        except SourceError as error:
            if error_number(error.__cause__) != _NO_SUCH_COMMAND:
                raise
            rows = self.ask(connection, "SHOW MASTER STATUS")
        if not rows:
            raise SourceError(f"{self.name}: {_NO_LOG}")
        return rows[0]

    def end(self, connection: "pymysql.Connection[DictCursor]") -> Position:
        """Position where the log ends now."""
        status = self.log_status(connection)
        return Position(status["File"], status["Position"])

    def position_visible_to_readers(self) -> Position:
        """A position in the log before which all is committed: whoever reads tables from now on sees it.

        A transaction is in the log before others see its rows, so the log's end is no such position. MariaDB and
        Percona give one with a snapshot; MySQL begins no file while a transaction of the one before is not committed
        (sql/binlog.cc, ``new_file_impl``). Raises SourceError.
        """
        with self.connect() as connection:
            self.ask(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            rows = self.ask(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
            values = {row["Variable_name"].lower(): row["Value"] for row in rows}
            if file := values.get("binlog_snapshot_file"):
                return Position(file, int(values["binlog_snapshot_position"]))
            return Position(self.end(connection).file, FIRST_EVENT)

    def committed(self) -> MysqlGtids:
        """The transactions whose rows all see, by GTID; none where the server gives no MySQL GTIDs."""
        with self.connect() as connection:
            rows = self.ask(connection, "SHOW GLOBAL VARIABLES LIKE 'gtid_executed'")
        return MysqlGtids.parse(rows[0]["Value"]) if rows else MysqlGtids()

    def has_committed(self, gtids: MysqlGtids, seconds: int = 10) -> bool:
        """True if all see the rows of these transactions, now or within so many seconds. Raises SourceError."""
        with self.connect() as connection:
            (row,) = self.ask(connection, f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', {seconds}) late")
        return bool(row["late"] == 0)

    def ask(self, connection: "pymysql.Connection[DictCursor]", statement: str) -> list[dict[str, Any]]:
        """The rows of a query. Raises SourceError."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise refused_by(self.name, self.settings, error) from error


def by_one_connection(source: Source) -> AbstractContextManager[None]:
    """Ask a server by one connection while the context lasts. Raises SourceError."""
    return source.one_connection() if isinstance(source, Server) else nullcontext()


def seconds_behind(replication: list[dict[str, Any]]) -> float:
    """Seconds that a server is behind its primaries, of which each has a row of SHOW REPLICA STATUS.

    0 where it has none.

    What the server says counts from what it has received (MySQL manual, "SHOW REPLICA STATUS"), and is NULL where the
    connection is lost and all of that applied: then nobody knows, and it counts as a million seconds more.
    """
    return max(map(_behind, replication), default=0.0)


def _behind(row: dict[str, Any]) -> float:
    def value(new: str, old: str) -> Any:
        return row.get(new, row.get(old))

    seconds = float(value("Seconds_Behind_Source", "Seconds_Behind_Master") or 0)
    if value("Replica_SQL_Running", "Slave_SQL_Running") != "Yes":
        return seconds + _STOPPED
    return seconds if value("Replica_IO_Running", "Slave_IO_Running") == "Yes" else seconds + _CUT_OFF


def _logging_problems(variables: dict[str, str]) -> list[str]:
    problems = []
    if variables.get("log_bin", "OFF").upper() not in ("ON", "1"):
        problems.append(_NO_LOG)
    if variables.get("binlog_format", "ROW").upper() != "ROW":
        problems.append(
            f"binlog_format is {variables['binlog_format']}; SET GLOBAL binlog_format = 'ROW' "
            "and let the applications reconnect"
        )
    if engine := variables.get("binlog_storage_engine"):
        problems.append(
            f"binlog_storage_engine is {engine}: that log (MariaDB 12.3) has no files and offsets to read from; take "
            "the option out of the server's configuration, and restart it"
        )
    return problems


def _moving_problems(variables: dict[str, str]) -> list[str]:
    """Problems that keep a source from moving between this server and others that have the same log."""
    problems = []
    mode = variables.get("gtid_mode", "ON")  # MariaDB has GTIDs always, and no such variable
    if mode.upper() != "ON":
        problems.append(f"gtid_mode is {mode}; a source moves between endpoints by GTID: turn it on on all of them")
    name = next((name for name in ("log_replica_updates", "log_slave_updates") if name in variables), None)
    if name and variables[name].upper() not in ("ON", "1"):
        problems.append(
            f"{name} is {variables[name]}; what this server replicates is not in its log: start it with it ON"
        )
    return problems


def _log_size(row: dict[str, Any]) -> int:
    """A file's bytes as positions count them, of a row of SHOW BINARY LOGS."""
    size: int = row["File_size"]
    return size - _ENCRYPTION_HEAD if row.get("Encrypted") == "Yes" else size
