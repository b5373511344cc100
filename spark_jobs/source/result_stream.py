"""Rows of a query, from the connection to row images: no Python runs for a row or a value.

PyMySQL connects and logs in. The query is prepared and executed, so that its rows come in the binary protocol, where
numbers are what they are in a row image; then the connection is read in large pieces, which a kernel turns into images.

What is relied on: the manual's "COM_STMT_PREPARE", "COM_STMT_EXECUTE" and "Binary Protocol Resultset"; MariaDB's
"Result Set Packets".

Put here: packets of one prepared query. Not here: which query, or what its columns become
(pipeline/initial_load/row_images.py).
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pymysql
from numpy.typing import NDArray
from pymysql.err import raise_mysql_exception
from pymysql.protocol import MysqlPacket

from spark_jobs.binlog.kernels import result_rows
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.errors import SourceError

PIECE = 1 << 20
"""Bytes read from a connection at once: a piece stays in the processor's cache."""
ROOM = 2 << 20
"""Bytes of images that are handed on at once, but for a longer row."""

_PREPARE, _EXECUTE = 0x16, 0x17
_NAMES = 6
"""Texts before a column's type in its definition."""
_LONGEST = 0xFFFFFF
_PADDING = result_rows.RESULT_PADDING

Images = tuple[NDArray[np.uint8], int]
"""An event of ``head`` and images, and its length; valid until the next one is asked for."""


class ResultStream:
    """A query under way on a connection of its own."""

    def __init__(self, connection: "pymysql.Connection[Any]", label: str) -> None:
        """label: opens every message."""
        self._connection, self._label = connection, label
        self._source = np.empty(PIECE + _PADDING, np.uint8)
        self._begin = self._end = 0
        """Bytes of ``_source`` that were not taken yet."""
        self._target = np.empty(0, np.uint8)
        self._filled = 0
        self._state = np.zeros(result_rows.Q_CELLS, np.int64)

    def images(self, statement: str, head: bytes, fields: Callable[[list[int]], NDArray[np.int64]]) -> Iterator[Images]:
        """The rows of a query as images behind ``head``, many at a time.

        fields: the kernel's cells of each column, from the columns' types in the result. Raises SourceError, and what
        PyMySQL and the operating system raise.
        """
        cells = fields(self._execute(statement))
        self._target, self._filled = _buffer(head, ROOM), len(head)
        while True:
            code, consumed, produced = self._put_rows(cells)
            self._begin += consumed
            self._filled += produced
            if code == result_rows.RESULT_MORE:
                self._receive()
            elif code == result_rows.RESULT_LONG:
                yield from self._handed_on(head)
                yield self._long_row(head, cells)
            elif code == result_rows.RESULT_FULL and self._filled == len(head):  # one row alone has no room
                packet = int(self._state[result_rows.Q_PACKET])
                self._target = _buffer(head, result_rows.row_room(packet, len(cells)))
            elif code in (result_rows.RESULT_FULL, result_rows.RESULT_END):
                yield from self._handed_on(head)
                if code == result_rows.RESULT_END:
                    return
            else:
                self._raise(code)

    def _put_rows(self, cells: NDArray[np.int64]) -> tuple[int, int, int]:
        code, consumed, produced = result_rows.put_rows(
            address_of(self._source) + self._begin,
            self._end - self._begin,
            address_of(self._target) + self._filled,
            len(self._target) - _PADDING - self._filled,
            self._state,
            cells,
            len(cells),
            PIECE,
        )
        return int(code), int(consumed), int(produced)

    def _handed_on(self, head: bytes) -> Iterator[Images]:
        """The images that there are."""
        if self._filled > len(head):
            yield self._target, self._filled
        self._filled = len(head)

    def _long_row(self, head: bytes, cells: NDArray[np.int64]) -> Images:
        """A row that no piece holds, or that comes in several packets, by itself."""
        # Its packets, without their headers: one of full length is followed by more of it.
        pieces: list[bytes] = []
        length = _LONGEST
        while length == _LONGEST:
            length, sequence = self._packet_head()
            if sequence != int(self._state[result_rows.Q_SEQUENCE]):
                self._raise(result_rows.RESULT_SEQUENCE)
            self._state[result_rows.Q_SEQUENCE] = (sequence + 1) & 255
            pieces.append(self._take_bytes(length))
        row = b"".join([*pieces, bytes(_PADDING)])
        size = len(row) - _PADDING
        if row[:1] == b"\xff":
            raise_mysql_exception(row[:size])
        target = _buffer(head, result_rows.row_room(size, len(cells)))
        packet, begin = np.frombuffer(row, np.uint8), address_of(target) + len(head)
        after = result_rows.put_row(address_of(packet), size, begin, cells, len(cells))
        if after < 0:
            raise SourceError(self._problem(row[:24]))
        return target, len(head) + int(after) - begin

    def _packet_head(self) -> tuple[int, int]:
        low, high, sequence = struct.unpack("<HBB", self._take_bytes(4))
        return low | high << 16, sequence

    def _take_bytes(self, count: int) -> bytes:
        """Next bytes of the connection, so many, those that were read already first."""
        first = self._source[self._begin : min(self._begin + count, self._end)]
        self._begin += len(first)
        content = np.empty(count, np.uint8)
        content[: len(first)] = first
        offset = len(first)
        while offset < count:
            offset += self._read_into(content[offset:])
        return content.tobytes()

    def _receive(self) -> None:
        """Read what there is, at least a byte, behind what was not taken. Raises OSError."""
        pending = self._end - self._begin
        self._source[:pending] = self._source[self._begin : self._end]
        self._begin, self._end = 0, pending
        self._end += self._read_into(self._source[pending:PIECE])

    def _read_into(self, target: NDArray[np.uint8]) -> int:
        """Read what there is, at least a byte. Raises OSError."""
        # Not by PyMySQL's buffered reader: with some bytes in its buffer it would wait for more than there are.
        count: int = self._connection._sock.recv_into(target.data)  # type: ignore[attr-defined] # noqa: SLF001
        if not count:
            raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
        return count

    def _raise(self, code: int) -> None:
        """Raise the error that a packet means that is no row: the server's, or SourceError."""
        length = int(self._state[result_rows.Q_PACKET])
        if code == result_rows.RESULT_REFUSED:
            raise_mysql_exception(self._source[self._begin - length : self._begin].tobytes())
        head = self._source[self._begin : min(self._begin + 24, self._end)].tobytes()
        # A server that stops sends its error under the number 0.
        if code == result_rows.RESULT_SEQUENCE and head[3:5] == b"\0\xff":
            raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
        raise SourceError(self._problem(head))

    def _problem(self, head: bytes) -> str:
        return (
            f"{self._label}: the server sent what is no row of the query (packet {head.hex(' ')}); run again, and "
            "where it stays so, connect to the server itself, without a proxy"
        )

    def _execute(self, statement: str) -> list[int]:
        """Prepare and execute a query; the types of its columns."""
        connection: Any = self._connection
        connection._execute_command(_PREPARE, statement)  # noqa: SLF001
        _, number, columns, parameters = struct.unpack_from("<BIHH", connection._read_packet().get_all_data())  # noqa: SLF001
        for _ in range((columns + 1 if columns else 0) + (parameters + 1 if parameters else 0)):
            connection._read_packet()  # noqa: SLF001
        connection._execute_command(_EXECUTE, struct.pack("<IBI", number, 0, 1))  # noqa: SLF001
        count = connection._read_packet().read_length_encoded_integer()  # noqa: SLF001
        types = [_type_code(connection._read_packet()) for _ in range(count)]  # noqa: SLF001
        connection._read_packet()  # noqa: SLF001 - the end of the definitions
        self._state[result_rows.Q_SEQUENCE] = connection._next_seq_id  # noqa: SLF001
        # What the reader has in its buffer: nothing else is read by it from here on.
        buffered = connection._rfile.peek(1)  # noqa: SLF001
        self._end = len(buffered)
        self._source[: self._end] = np.frombuffer(connection._rfile.read(len(buffered)), np.uint8)  # noqa: SLF001
        return types


def _type_code(packet: MysqlPacket) -> int:
    """Type code on the wire, in a column's definition."""
    for _ in range(_NAMES):
        packet.read_length_coded_string()  # type: ignore[no-untyped-call]
    *_, code, _flags, _scale = packet.read_struct("<xHIBHBxx")
    return int(code)


def _buffer(head: bytes, room: int) -> NDArray[np.uint8]:
    """Memory for an event: its head, and room for images and padding."""
    buffer = np.empty(len(head) + room + _PADDING, np.uint8)
    buffer[: len(head)] = np.frombuffer(head, np.uint8)
    return buffer
