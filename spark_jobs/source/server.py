"""A live MySQL or MariaDB server, read by the replication protocol.

Put here: what is asked of a server, and reading its dump. Not here: what the bytes mean (binlog/).
The connection and the dump command are mysql-replication's; its decoding is not used.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pymysql
from pymysql.cursors import DictCursor
from pymysqlreplication import BinLogStreamReader

from spark_jobs.binlog import MAGIC, FormatDescription
from spark_jobs.config import MySQL
from spark_jobs.errors import SourceError
from spark_jobs.position import FIRST_EVENT, Position, file_number
from spark_jobs.source import Log, LogFile, Part, Reading, require_contiguous

CHUNK = 4 << 20
_FORMAT, _HEARTBEAT, _HEARTBEAT_V2 = 15, 27, 41
_ARTIFICIAL = 0x0020
_NO_SUCH_COMMAND = 1064
_NO_LOG = "the server writes no binary log; start it with log_bin"
_REPLICATION_PRIVILEGES = {1045: "user or password", 1044: "privileges", 1227: "privileges", 1142: "privileges"}


class Server:
    """One live server, as a source."""

    def __init__(self, name: str, settings: MySQL) -> None:
        self.name = name
        self.settings = settings

    def log(self) -> Log:
        with self.connect() as connection:
            variables = self.variables(connection)
            self._require_rows(variables)
            # The end first: were it asked for last, a rotation in between would move it past a file whose size is old.
            end = self.end(connection)
            rows = self.ask(connection, "SHOW BINARY LOGS")
        files = [LogFile(row["Log_name"], row["File_size"]) for row in rows]
        files = [file for file in files if file_number(file.name) <= end.number]
        require_contiguous(self.name, [file.name for file in files])
        return Log(self.name, tuple(files), end, variables.get("server_uuid"))

    def reading(self) -> Reading:
        return DumpReading(self.name, self.settings)

    def connect(self) -> "pymysql.Connection[DictCursor]":
        """A connection whose session speaks UTC. Raises SourceError."""
        try:
            return pymysql.connect(**connection_options(self.settings), cursorclass=DictCursor, autocommit=True)
        except (pymysql.MySQLError, RuntimeError, OSError) as error:
            raise SourceError(_refusal(self.name, self.settings, error)) from error

    def variables(self, connection: "pymysql.Connection[DictCursor]") -> dict[str, str]:
        """The global variables that decide how the server logs."""
        names = "'log_bin','binlog_format','binlog_row_image','binlog_row_metadata','server_uuid','server_id','version'"
        rows = self.ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        return {row["Variable_name"]: row["Value"] for row in rows}

    def problems(self) -> list[str]:
        """What keeps this server from being read, all of it; empty where nothing does."""
        with self.connect() as connection:
            found = _logging_problems(self.variables(connection))
            if _NO_LOG in found:
                return found
            try:
                end = self.end(connection)
                # The first packet of a dump from the end shows whether the user may have one.
                next(DumpReading(self.name, self.settings).packets(Part(end.file, end.offset, end.offset)))
            except SourceError as error:
                found.append(str(error))
        return found

    def _require_rows(self, variables: dict[str, str]) -> None:
        problems = _logging_problems(variables)
        if problems:
            raise SourceError("\n".join(f"{self.name}: {problem}" for problem in problems))

    def _status(self, connection: "pymysql.Connection[DictCursor]") -> dict[str, Any]:
        """File and offset of the log's end; MySQL 8.4 renamed the statement."""
        try:
            rows = self.ask(connection, "SHOW BINARY LOG STATUS")
        except SourceError as error:
            if _code(error.__cause__) != _NO_SUCH_COMMAND:
                raise
            rows = self.ask(connection, "SHOW MASTER STATUS")
        if not rows:
            raise SourceError(f"{self.name}: {_NO_LOG}")
        return rows[0]

    def end(self, connection: "pymysql.Connection[DictCursor]") -> Position:
        """Where the log ends now."""
        status = self._status(connection)
        return Position(status["File"], status["Position"])

    def ask(self, connection: "pymysql.Connection[DictCursor]", statement: str) -> list[dict[str, Any]]:
        """The rows of a query. Raises SourceError."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise SourceError(_refusal(self.name, self.settings, error)) from error


@dataclass(frozen=True)
class DumpReading:
    """Reads parts of a server's log, each over a dump connection of its own.

    Carries the password, since a task connects by itself; it travels pickled in the task and nowhere else.
    """

    name: str
    settings: MySQL

    def __call__(self, part: Part) -> tuple[FormatDescription | None, Iterator[bytes]]:
        events = self._events(part)
        if not part.start:
            return None, _chunked(events, [MAGIC], part.stop - len(MAGIC))
        first = next(events, b"")
        if not first or first[4] != _FORMAT:
            raise SourceError(f"{self.name}: {part.file}:{part.start}: the dump begins without a format event")
        return FormatDescription.parse(first, f"{part.file}:{FIRST_EVENT}"), _chunked(
            events, [], part.stop - part.start
        )

    def _events(self, part: Part) -> Iterator[bytes]:
        """The events of one file, those that the server makes up for the connection left out."""
        packets = self.packets(part)
        for event in packets:
            flags = int.from_bytes(event[17:19], "little")
            made_up = event[4] in (_HEARTBEAT, _HEARTBEAT_V2) or (flags & _ARTIFICIAL and event[4] != _FORMAT)
            if not made_up:
                yield event

    def packets(self, part: Part) -> Iterator[bytes]:
        """What the server sends from the part's start on, events made up for the connection included."""
        dump = _Dump(self.settings, part.file, max(part.start, FIRST_EVENT))
        try:
            yield from dump.packets()
        except pymysql.MySQLError as error:
            raise SourceError(_refusal(f"{self.name}: {part.file}:{part.start}", self.settings, error)) from error
        finally:
            dump.close()


class _Dump(BinLogStreamReader):  # type: ignore[misc] # the library has no types
    """A COM_BINLOG_DUMP whose packets are handed on as they come."""

    def __init__(self, settings: MySQL, file: str, offset: int) -> None:
        # Ids of replicas clash when equal: the server ends the older dump. 31 random bits above the usual small ids.
        super().__init__(
            connection_settings=connection_options(settings),
            server_id=random.SystemRandom().randrange(1 << 31, 1 << 32),
            log_file=file,
            log_pos=offset,
            resume_stream=True,
            blocking=False,
        )

    def packets(self) -> Iterator[bytes]:
        # The library's own loop decodes each event into objects; its connection set-up is what is wanted.
        self._BinLogStreamReader__connect_to_stream()
        while not (packet := self._stream_connection._read_packet()).is_eof_packet():  # noqa: SLF001
            yield packet.get_all_data()[1:]


def connection_options(settings: MySQL) -> dict[str, Any]:
    """PyMySQL's arguments for a configured server."""
    options: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user,
        "password": settings.password.get_secret_value(),
        "charset": "utf8mb4",
        "connect_timeout": settings.connect_timeout,
        "read_timeout": settings.read_timeout,
        "init_command": "SET time_zone = '+00:00'",
    }
    if settings.tls:
        tls = settings.tls
        paths = {"ssl_ca": tls.ca, "ssl_cert": tls.cert, "ssl_key": tls.key}
        options |= {key: str(path) for key, path in paths.items() if path}
        options |= {"ssl_verify_cert": tls.verify, "ssl_verify_identity": tls.verify}
    return options


def _chunked(events: Iterator[bytes], head: list[bytes], size: int) -> Iterator[bytes]:
    """Events gathered into chunks; ends after ``size`` bytes of events."""
    gathered, length, left = head, 0, size
    while left > 0:
        event = next(events, b"")
        if not event:
            break
        gathered.append(event)
        length += len(event)
        left -= len(event)
        if length >= CHUNK:
            yield b"".join(gathered)
            gathered, length = [], 0
    yield b"".join(gathered)


def _logging_problems(variables: dict[str, str]) -> list[str]:
    found = []
    if variables.get("log_bin", "OFF").upper() not in ("ON", "1"):
        found.append(_NO_LOG)
    if variables.get("binlog_format", "ROW").upper() != "ROW":
        found.append(
            f"binlog_format is {variables['binlog_format']}; SET GLOBAL binlog_format = 'ROW' "
            "and let the applications connect anew"
        )
    if variables.get("binlog_row_image", "FULL").upper() != "FULL":
        found.append(f"binlog_row_image is {variables['binlog_row_image']}; SET GLOBAL binlog_row_image = 'FULL'")
    return found


def _code(error: BaseException | None) -> int | None:
    return error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else None


def _refusal(where: str, settings: MySQL, error: Exception) -> str:
    """What a server said, where, and what to look at; never with a secret."""
    said = re.sub(r"\s+", " ", str(error.args[-1] if error.args else error))
    hint = _REPLICATION_PRIVILEGES.get(_code(error) or 0)
    look = f"; check the {hint} of {settings.user!r}" if hint else ""
    return f"{where}: {settings.host}:{settings.port} answered: {said}{look}"
