"""Row events as python-mysql-replication reads them, from bytes, without a server.

Put here: the other decoder. Not here: which events it gets (sample.py), or what its values are compared with
(values.py).
"""

import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from spark_jobs.binlog import MAGIC, FormatDescription, TableDefinition, TableName
from spark_jobs.binlog.types.charsets import some_collation
from spark_jobs.errors import ConfigError

PACKAGE = "mysql-replication"
HEADER = 19
TABLE_MAP = 19
KINDS = {23: "insert", 24: "update", 25: "delete", 30: "insert", 31: "update", 32: "delete"}
"""The codes of row events that it reads, and what they do."""
PASSED = {
    39: "partial updates of JSON",
    40: "compressed transactions",
    **dict.fromkeys(range(166, 172), "compressed events of MariaDB"),
    172: "row events in fragments",
}
"""Codes of events that it does not read."""
_SWITCHES = {
    "only_tables": None,
    "ignored_tables": None,
    "only_schemas": None,
    "ignored_schemas": None,
    "freeze_schema": False,
    "ignore_decode_errors": False,
    "verify_checksum": False,
    "enable_logging": False,
}


BINARY_COLLATION = 63
_ABSENT = "cols bitmap"
"""Reason that it gives for None in a column that the image omits."""


@dataclass(frozen=True, slots=True)
class RawEvent:
    """A row event of a slice. wire: its bytes; map_wire: those of the TABLE_MAP that it is read with."""

    offset: int
    code: int
    wire: bytes
    map_wire: bytes
    table: TableName

    @property
    def kind(self) -> str:
        """Operation on rows."""
        return KINDS[self.code]


@dataclass(frozen=True, slots=True)
class PeerRow:
    """A row's images, their values by position. absent: which columns of an image the log leaves out."""

    before: list[Any] | None
    after: list[Any] | None
    before_absent: frozenset[int]
    after_absent: frozenset[int]


def events_in(content: bytes, start: int) -> Iterator[tuple[int, int, bytes]]:
    """(file offset, code, bytes) of the events of a slice's payload or context; start: the offset of its first byte."""
    at = len(MAGIC) if content.startswith(MAGIC) else 0
    while at + HEADER <= len(content):
        length = int.from_bytes(content[at + 9 : at + 13], "little")
        yield start + at, content[at + 4], content[at : at + length]
        at += max(length, HEADER)


class PeerDecoder:
    """Decodes row events of one format of log."""

    def __init__(self, head: FormatDescription) -> None:
        """Prepare the second decoder for a log's format. Raises ConfigError if its package is missing."""
        self._classes = _classes()
        self._head = head
        self._connection = SimpleNamespace(charset="utf8mb4", _get_dbms=lambda: head.flavor)
        self._tables: dict[int, Any] = {}
        self._map = b""
        # Before MySQL 8.0.20 it takes signs and character sets to be those of other columns; MariaDB's it cannot read.
        version = tuple(map(int, re.findall(r"\d+", head.server_version)[:3]))
        self._reads_metadata = head.flavor == "mysql" and version >= (8, 0, 20)

    def rows(self, event: RawEvent, definition: TableDefinition) -> list[PeerRow]:
        """The rows of an event. Raises whatever the package does where it cannot read them.

        definition: has what the TABLE_MAP does not tell, or the package does not read of it.
        """
        if event.map_wire != self._map:
            self._tables.clear()
            wire = event.map_wire if self._reads_metadata else without_metadata(event.map_wire, self._head.footer)
            table = self._wrapped(wire)
            if not (self._reads_metadata and table.optional_metadata.column_name_list):
                self._complete_columns(table.columns, definition)
            self._map = event.map_wire
        return [_peer_row(event.kind, row) for row in self._wrapped(event.wire).rows]

    def _complete_columns(self, columns: list[Any], definition: TableDefinition) -> None:
        for column, name, declared in zip(columns, definition.column_names(), definition.columns, strict=True):
            column.name = name
            column.unsigned = bool(declared.unsigned)
            # As bytes where no character set is known: it would take them for UTF-8.
            collation = BINARY_COLLATION if declared.charset is None else some_collation(declared.charset)
            column.character_set_name = self._classes.find_charset(str(collation), dbms=self._head.flavor)[0]
            labels = list(declared.labels or ())
            column.enum_values, column.set_values = (["", *labels], labels) if labels else (None, None)

    def _wrapped(self, wire: bytes) -> Any:
        # It takes every event to end in a checksum, which is not verified here.
        if not self._head.footer:
            wire = wire[:9] + (len(wire) + 4).to_bytes(4, "little") + wire[13:] + bytes(4)
        packet = self._classes.packet(b"\0" + wire, "utf8mb4")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # datetime.utcfromtimestamp
            event = self._classes.wrapper(
                packet,
                self._tables,
                self._connection,
                (8, 0, 12),
                True,
                self._classes.events,
                **_SWITCHES,
                optional_meta_data=self._reads_metadata,
            ).event
            if hasattr(event, "rows"):
                _ = event.rows  # they are read when they are first asked for
        return event


def without_metadata(wire: bytes, footer: int) -> bytes:
    """A TABLE_MAP without its optional metadata, under a checksum that does not fit."""
    at = HEADER + 8
    for _ in ("schema", "table"):
        at += wire[at] + 2
    columns, at = _packed(wire, at)
    size, at = _packed(wire, at + columns)
    body = wire[: at + size + (columns + 7) // 8] + bytes(footer)
    return body[:9] + len(body).to_bytes(4, "little") + body[13:]


def _packed(wire: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer, and where the next byte stands."""
    first = wire[at]
    size = {252: 2, 253: 3, 254: 8}.get(first, 0)
    return (int.from_bytes(wire[at + 1 : at + 1 + size], "little") if size else first), at + 1 + size


def _peer_row(kind: str, row: dict[str, Any]) -> PeerRow:
    if kind == "update":
        before, after = row["before_values"], row["after_values"]
        return PeerRow(
            list(before.values()),
            list(after.values()),
            _absent(before, row["before_none_sources"]),
            _absent(after, row["after_none_sources"]),
        )
    values, absent = list(row["values"].values()), _absent(row["values"], row["none_sources"])
    no_columns: frozenset[int] = frozenset()
    return PeerRow(None, values, no_columns, absent) if kind == "insert" else PeerRow(values, None, absent, no_columns)


def _absent(values: dict[str, Any], sources: dict[str, Any]) -> frozenset[int]:
    return frozenset(at for at, name in enumerate(values) if sources.get(name) == _ABSENT)


@dataclass(frozen=True, slots=True)
class _Classes:
    packet: Any
    wrapper: Any
    events: frozenset[Any]
    find_charset: Any


def _classes() -> _Classes:
    # Where it is missing, that is a message of this check, and of nothing else.
    try:
        from pymysql.protocol import MysqlPacket
        from pymysqlreplication.packet import BinLogPacketWrapper
        from pymysqlreplication.row_event import (
            DeleteRowsEvent,
            TableMapEvent,
            UpdateRowsEvent,
            WriteRowsEvent,
            find_charset,
        )
    except ImportError as error:
        raise ConfigError(
            f"the second reader needs the package {PACKAGE}, which is not installed ({error}); install it with "
            f"{sys.executable} -m pip install {PACKAGE}"
        ) from error
    events = frozenset([TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent])
    return _Classes(MysqlPacket, BinLogPacketWrapper, events, find_charset)
