"""Dump of a part of a log (COM_BINLOG_DUMP): the bytes of one file, as a server sends them to its replicas.

PyMySQL connects, logs in and sends the command. From then on the connection is read in large pieces, and a kernel takes
packet heads, and events made up for the connection, off all that a piece holds: no Python runs for an event.

What is relied on: MySQL, sql/rpl_binlog_sender.cc and sql/rpl_source.cc (``kill_zombie_dump_threads``); MariaDB,
sql/sql_repl.cc; the manual's "MySQL Packets" and "COM_BINLOG_DUMP".

Put here: reading one file of one server, and going on where a connection was lost. Not here: what is asked of a server
by SQL (server.py), or what the bytes mean (binlog/).
"""

import logging
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pymysql
from pymysql.cursors import DictCursor
from pymysql.err import raise_mysql_exception

from spark_jobs.binlog import MAGIC, FormatDescription
from spark_jobs.binlog.kernels import dump_packets
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.config.servers import MySQL
from spark_jobs.errors import SourceError
from spark_jobs.log.position import FIRST_EVENT, Position
from spark_jobs.source.connection import is_denial, may_pass, open_connection, refusal, refused_by
from spark_jobs.source.protocol import FilePart
from spark_jobs.text.sql import standard_literal

log = logging.getLogger(__name__)

CHUNK = 4 << 20
"""Bytes handed on at once."""
PIECE = 1 << 20
"""Bytes read from a connection at once: a piece stays in the processor's cache."""
TRIES = 5
"""Number of times that a connection may be lost without a whole event in between."""
BACK_OFF = 0.5
"""Seconds before the first further try; each one waits twice as long."""

_COM_BINLOG_DUMP = 0x12
_NON_BLOCK, _ANNOTATIONS = 0x01, 0x02
_NO_REPLICA = 0
"""The server id of a dump: a server ends an older one of the same id or UUID, but never one of id 0, mysqlbinlog's."""
FARTHEST = 0xFFFFFFFF
"""The last offset that the command's four bytes can ask for."""
_HEADER = 19


@dataclass(frozen=True)
class DumpReading:
    """Reads parts of a server's log, each over a dump connection of its own.

    Carries the password, since a task connects by itself; it travels pickled in the task and nowhere else. ``uuid`` is
    the server's, where it has one: another server at the same address is refused.
    """

    name: str
    settings: MySQL
    uuid: str | None = None

    def __call__(self, part: FilePart) -> tuple[FormatDescription | None, Iterator[memoryview]]:
        """A chunk is valid until the next one is asked for. Raises SourceError and DecodeError, as its chunks do."""
        dump = Dump(self, part)
        return (dump.format() if part.start else None), dump.chunks()

    def probe(self, position: Position) -> None:
        """Ask for a dump from there and end it. Raises SourceError where the server does not give one."""
        with closing(Dump(self, FilePart(position.file, position.offset, position.offset + 1))) as dump:
            dump.format()


class Dump:
    """A part under way: its connection, what has come and was not handed on, and how far it is."""

    def __init__(self, reading: DumpReading, part: FilePart) -> None:
        """Buffers for one part of a file; nothing is connected before the first byte is read."""
        self._reading, self._part = reading, part
        self._connection: pymysql.Connection[DictCursor] | None = None
        # Received packets and what the kernel makes of them: file bytes, without the protocol's headers.
        self._source = np.empty(PIECE + dump_packets.DUMP_PADDING, np.uint8)
        self._begin = self._end = 0
        """Bytes of ``_source`` that were not taken yet."""
        self._target = np.empty(CHUNK + dump_packets.DUMP_PADDING, np.uint8)
        self._filled = 0
        self._state = np.zeros(dump_packets.D_CELLS, np.int64)
        self._state[dump_packets.D_POSITION] = max(part.start, FIRST_EVENT)
        self._format: bytes | None = None
        self._emitted = max(part.start, FIRST_EVENT)
        """File offset after what was handed on."""
        self._mark, self._crc = self._emitted, 0
        """File offset after the last whole event handed on, and the CRC32 of what was handed on after it."""
        self._crc_again = 0
        """The same of what came again after a connection was lost."""
        self._tries = 0

    def format(self) -> FormatDescription:
        """The file's format event, which begins every dump."""
        try:
            while self._format is None:
                self._advance()
        except BaseException:
            self.close()
            raise
        return FormatDescription.parse(self._format, f"{self._part.file}:{FIRST_EVENT}")

    def chunks(self) -> Iterator[memoryview]:
        """The part's bytes, each once; events may be cut between two chunks."""
        with closing(self):
            if not self._part.start:
                yield memoryview(MAGIC)[: self._part.stop]
            while self._position < self._part.stop:
                full = self._advance()
                if self._filled and (full or self._connection is None):
                    yield from self._hand_on()
            yield from self._hand_on()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @property
    def _position(self) -> int:
        return int(self._state[dump_packets.D_POSITION])

    @property
    def _location(self) -> str:
        return f"{self._reading.name}: {self._part.file}:{self._position}"

    def _advance(self) -> bool:
        """One step further; whether the target is to be emptied. A connection that was lost is None after it."""
        try:
            if self._connection is None:
                self._open()
            return self._step()
        except (pymysql.MySQLError, OSError, RuntimeError) as error:
            self.close()
            self._await_next_try(error)
            return True

    def _await_next_try(self, error: Exception) -> None:
        """Wait before the next try. Raises SourceError if another try cannot help, or there were enough."""
        if self._boundary > self._mark:
            self._tries = 0
        location = f"{self._reading.name}: {self._part.file}:{self._boundary}"
        if is_denial(error):
            raise refused_by(location, self._reading.settings, error) from error
        if not may_pass(error) or self._tries >= TRIES:
            message = refusal(location, self._reading.settings, error)
            raise SourceError(f"{message}; tried {self._tries + 1} times" if self._tries else message) from error
        wait = BACK_OFF * 2**self._tries
        self._tries += 1
        log.warning("%s; going on there in %s s", refusal(location, self._reading.settings, error), wait)
        time.sleep(wait)

    @property
    def _boundary(self) -> int:
        """File offset after the last whole event that has come."""
        return max(int(self._state[dump_packets.D_BOUNDARY]), self._mark)

    def _open(self) -> None:
        """Ask for the dump from the last whole event on; what was handed on after it comes again."""
        assert not self._filled
        begin = self._mark if self._mark <= FARTHEST else FIRST_EVENT
        self._begin = self._end = 0
        self._crc_again = 0
        self._state[:] = 0
        self._state[dump_packets.D_POSITION] = begin
        self._state[dump_packets.D_STOP] = max(self._part.stop, begin)
        self._connection = open_connection(self._reading.settings)
        self._require_server(self._connection)
        # A heartbeat comes where a server does not end the dump at the log's end but waits.
        request_dump(self._connection, self._part.file, begin, self._reading.settings.read_timeout / 2)
        self._state[dump_packets.D_SEQUENCE] = 1

    def _require_server(self, connection: "pymysql.Connection[DictCursor]") -> None:
        if self._reading.uuid is None:
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.server_uuid uuid")
            answer = cursor.fetchone()
        if answer and answer["uuid"] != self._reading.uuid:
            raise SourceError(
                f"{self._location}: the server at this address is {answer['uuid']} now, and was "
                f"{self._reading.uuid} "
                "when the run began; run again once the first one is back, or give the new one a source of its own"
            )

    def _step(self) -> bool:
        """Take what has come, and receive more where there is no more; whether the target is to be emptied."""
        # The kernel unpacks until the target is full, the part is complete, or it needs more bytes or a decision.
        code, consumed, produced = dump_packets.unpack_dump(
            address_of(self._source) + self._begin,
            self._end - self._begin,
            address_of(self._target) + self._filled,
            CHUNK - self._filled,
            self._state,
        )
        self._begin += consumed
        self._filled += produced
        # What the kernel leaves to Python: more packets, the file's first events, errors of the server.
        if code in (dump_packets.DUMP_FULL, dump_packets.DUMP_STOPPED):
            return True
        if code == dump_packets.DUMP_MORE:
            self._receive()
        elif code == dump_packets.DUMP_FORMAT:
            self._compare_format(self._packet()[1:])
        elif code == dump_packets.DUMP_ROTATED and not self._state[dump_packets.D_FORMATS]:
            self._require_file(self._packet()[1 + _HEADER + 8 :])
        elif code == dump_packets.DUMP_REFUSED:
            raise_mysql_exception(self._packet())
        else:
            raise SourceError(self._problem(code))
        return False

    def _receive(self) -> None:
        """Read what there is, at least a byte, behind what was not taken. Raises OSError."""
        pending = self._end - self._begin
        self._source[:pending] = self._source[self._begin : self._end]
        self._begin, self._end = 0, pending
        assert self._connection is not None
        # PyMySQL's own buffered reader: it has nothing left, and reads past its buffer where the room is larger.
        stream = self._connection._rfile  # type: ignore[attr-defined] # noqa: SLF001
        count = stream.readinto1(self._source[pending:PIECE].data)
        if not count:
            raise pymysql.OperationalError(2013, "Lost connection to MySQL server during a dump")
        self._end += count

    def _packet(self) -> bytes:
        """The packet that was taken last, whole."""
        return self._source[self._begin - int(self._state[dump_packets.D_BEHIND]) : self._begin].tobytes()

    def _require_file(self, name: bytes) -> None:
        if name != self._part.file.encode():
            raise SourceError(
                f"{self._location}: the server sends {name.decode(errors='replace')!r} where this file was asked for"
            )

    def _compare_format(self, event: bytes) -> None:
        """Require that the file is the same after a connection was lost: its format event is."""
        if self._format is not None and _lasting(event) != _lasting(self._format):
            raise SourceError(
                f"{self._location}: the server has another file of that name since the connection was lost; a log "
                "whose numbers began again needs another source name"
            )
        self._format = self._format or event

    def _hand_on(self) -> Iterator[memoryview]:
        """The target's bytes but for those handed on before, which have to be the same."""
        begin, count = self._position - self._filled, self._filled
        chunk = self._target[:count].data
        overlap = min(max(self._emitted - begin, 0), count)
        if overlap:
            self._compare(begin, chunk[:overlap])
        self._filled = 0
        fresh = chunk[overlap:]
        if fresh:
            boundary = int(self._state[dump_packets.D_BOUNDARY])
            if boundary > self._mark:
                self._mark, self._crc, self._tries = boundary, 0, 0
            self._crc = zlib.crc32(fresh[max(self._mark - self._emitted, 0) :], self._crc)
            self._emitted = begin + count
            yield fresh

    def _compare(self, begin: int, chunk: memoryview) -> None:
        """Compare what came again of an event that was handed on in part."""
        self._crc_again = zlib.crc32(chunk[max(self._mark - begin, 0) :], self._crc_again)
        if begin + len(chunk) == self._emitted and self._crc_again != self._crc:
            raise SourceError(
                f"{self._reading.name}: {self._part.file}:{self._mark}: this event came in two versions, before and "
                "after the connection was lost; nothing of it was kept, run again"
            )

    def _problem(self, code: int) -> str:
        """The message for an outcome that is no success, with the first bytes of the packet."""
        # An end is the server's, everything else something between it and here.
        if code in (dump_packets.DUMP_END, dump_packets.DUMP_IDLE, dump_packets.DUMP_ROTATED):
            return (
                f"{self._location}: the server's log ends here, and was to be read to {self._part.stop}; the file was "
                "cut or the log was reset: run again, or give the source another name"
            )
        texts = {
            dump_packets.DUMP_SEQUENCE: "a packet of the connection is missing or came twice",
            dump_packets.DUMP_HOLE: "the server left out what the log holds here",
            dump_packets.DUMP_AGAIN: "the server sent an event that it had sent already",
            dump_packets.DUMP_STRANGE: "the server sent what is no part of a dump",
        }
        head = self._source[self._begin : min(self._begin + 24, self._end)].tobytes().hex(" ")
        return (
            f"{self._location}: {texts[code]} (packet {head}); run again, and where it stays so, connect to the server "
            "itself, without a proxy, or read copies of its files"
        )


def request_dump(
    connection: "pymysql.Connection[DictCursor]",
    file: str,
    offset: int,
    heartbeat: float,
    *,
    replica: int = _NO_REPLICA,
) -> None:
    """Send the command for a file from an offset on, after what tells the server how much this reader understands.

    A checksum algorithm, any, says that events may have checksums; files are sent as they are. Capability 4 is
    MariaDB's GTIDs.

    Args:
        connection: one that is logged in; it is a dump from here on.
        file: the file's name.
        offset: where an event begins.
        heartbeat: seconds without an event after which the server sends a heartbeat.
        replica: a server id with which the server waits at the log's end for more; without one it ends the dump there.
    """
    variables = {"binlog_checksum": "'NONE'", "heartbeat_period": str(int(heartbeat * 1e9))}
    assignments = [f"@{side}_{name} = {value}" for side in ("master", "source") for name, value in variables.items()]
    identity = standard_literal(str(uuid.uuid4()))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SET {', '.join(assignments)}, @mariadb_slave_capability = 4, "
            f"@slave_uuid = {identity}, @replica_uuid = {identity}"
        )
    mariadb = "MariaDB" in connection.get_server_info()  # type: ignore[no-untyped-call]
    flags = (0 if replica else _NON_BLOCK) | (_ANNOTATIONS if mariadb else 0)
    head = struct.pack("<IHI", offset, flags, replica)
    connection._execute_command(_COM_BINLOG_DUMP, head + file.encode())  # type: ignore[attr-defined] # noqa: SLF001


def _lasting(event: bytes) -> bytes:
    """A format event without what differs from dump to dump: position, flags, time of the start, checksum."""
    return event[:13] + event[_HEADER : _HEADER + 52] + event[_HEADER + 56 : -4]
