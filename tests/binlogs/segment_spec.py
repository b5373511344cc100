"""Binlog files described, not pasted: tables and changes in, the bytes a server would write out.

    SegmentSpec(tables=[Table("shop.orders", key=["id"], id=INT, note=VARCHAR(40))],
                changes=[Insert("shop.orders", (1, None)), Commit()]).to_bytes()

Broken input is made by editing the spec (``dataclasses.replace``) or the bytes of one event (``events()``).

Put here: events, transactions and files. Not here: how one value is written (segment_types.py).
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import zstandard

from tests.binlogs.segment_types import ColumnType

MAGIC = b"\xfebin"
SID = bytes(range(0x10, 0x20))
UUID = "10111213-1415-1617-1819-1a1b1c1d1e1f"
"""The source UUID of every described GTID."""

_HEAD_LENGTHS_MYSQL = bytes.fromhex(
    "000d0008000000000400040000006200041a08000000080808020000000a0a0a2a2a001234000a280000"
)
_WRITE, _UPDATE, _DELETE = 0, 1, 2


class Table:
    """A table's columns in order; ``key`` names its primary key's. Table ids follow the order of tables in the spec."""

    def __init__(self, name: str, key: Sequence[str] = (), metadata: bool = True, **columns: ColumnType) -> None:
        self.name = name
        self.columns = columns
        self.key = list(key)
        self.metadata = metadata
        """True if the TABLE_MAP carries names, signs, charsets, labels and key (binlog_row_metadata=FULL)."""

    def body(self, table_id: int) -> bytes:
        schema, _, table = self.name.partition(".")
        types = list(self.columns.values())
        meta = b"".join(kind.meta for kind in types)
        body = struct.pack("<IHH", table_id & 0xFFFFFFFF, table_id >> 32, 1)
        body += (
            _length_prefixed(schema) + _length_prefixed(table) + lenenc(len(types)) + bytes(kind.code for kind in types)
        )
        body += lenenc(len(meta)) + meta + bits([kind.nullable for kind in types])
        return body + (self._optional(types) if self.metadata else b"")

    def _optional(self, types: list[ColumnType]) -> bytes:
        names = list(self.columns)
        signs = [kind.unsigned for kind in types if kind.numeric]
        plain = [kind.collation for kind in types if kind.collation and not kind.labels]
        labelled = [kind.collation for kind in types if kind.labels]
        fields: list[tuple[int, bytes]] = []
        if signs:
            fields.append((1, bits(signs, reverse=True)))
        if plain:
            fields.append((3, b"".join(lenenc(collation) for collation in plain if collation)))
        fields.append((4, b"".join(lenenc(len(name.encode())) + name.encode() for name in names)))
        for code, is_set in ((5, True), (6, False)):
            lists = [kind.labels for kind in types if kind.labels and kind.is_set == is_set]
            if lists:
                fields.append((code, b"".join(map(_labels, lists))))
        if self.key:
            fields.append((8, b"".join(lenenc(names.index(name)) for name in self.key)))
        if labelled:
            fields.append((11, b"".join(lenenc(collation) for collation in labelled if collation)))
        return b"".join(bytes([code]) + lenenc(len(value)) + value for code, value in fields)

    def image(self, row: Sequence[Any]) -> bytes:
        """Null bits of the columns that are not left out (``...``), then every value of them that is not NULL.

        A value given as bytes in a ``Raw`` is written as it is.
        """
        types = list(self.columns.values())
        assert len(row) == len(types), f"{self.name} has {len(types)} columns, the row has {len(row)} values"
        values = [
            value.bytes if isinstance(value, Raw) else kind.encode(value)
            for kind, value in zip(types, row, strict=True)
            if value is not None and value is not ...
        ]
        return bits([value is None for value in row if value is not ...]) + b"".join(values)


@dataclass(frozen=True)
class Raw:
    """A value's bytes as they are to stand in the row image."""

    bytes: bytes


@dataclass(frozen=True)
class Insert:
    table: str
    row: Sequence[Any]


@dataclass(frozen=True)
class Update:
    table: str
    before: Sequence[Any]
    after: Sequence[Any]


@dataclass(frozen=True)
class Delete:
    table: str
    row: Sequence[Any]


@dataclass(frozen=True)
class Rows:
    """One row event of several rows of one kind; an update's rows are pairs. last: STMT_END_F is set.

    All rows leave out the same columns (``...``); extra: an event's extra row information, in version 2; flags: set
    besides.
    """

    table: str
    kind: type[Insert] | type[Update] | type[Delete]
    rows: Sequence[Any]
    last: bool = True
    extra: bytes = b""
    flags: int = 0


@dataclass(frozen=True)
class Commit:
    """Ends the transaction by an XID event."""


@dataclass(frozen=True)
class Rollback:
    """Ends the transaction by a QUERY."""


@dataclass(frozen=True)
class Query:
    """A QUERY as it stands, inside the transaction or, with none open, without a GTID before it."""

    database: str
    text: str


@dataclass(frozen=True)
class Statement:
    """A statement that is a transaction of its own, its GTID before it. Inside a transaction: a QUERY alone.

    ``XA START …`` opens a transaction, which a RawEvent of XA_PREPARE ends.
    """

    database: str
    text: str


@dataclass(frozen=True)
class RawEvent:
    """Any event by type number and body. transaction: a GTID and a BEGIN come before it where none is open."""

    code: int
    body: bytes
    flags: int = 0
    transaction: bool = False
    ends: bool = False


Change = Insert | Update | Delete | Rows | Commit | Rollback | Query | Statement | RawEvent


@dataclass
class SegmentSpec:
    """One binlog file. A change outside a transaction opens one; ``Commit()`` ends it, and so does the file's end."""

    tables: Sequence[Table] = ()
    changes: Sequence[Change] = ()
    checksum: bool = True
    version: str = "8.0.36"
    rows_version: int = 2
    server_id: int = 1
    second: int = 1_700_000_000
    """Header time of the first transaction; each following one is a second later."""
    first_number: int = 1
    """GTID number of the first transaction."""
    gtids: bool = True
    """False: ANONYMOUS_GTID events."""
    commit_times: bool = True
    """True if GTID events carry µs of commit (MySQL 8.0.1 and later); they are the header's second and 250,000 µs."""
    commit_micros: Sequence[int] = ()
    """µs of commit of the first transactions, where they are others."""
    first_table_id: int = 100
    payload: "Callable[[int], str | None]" = lambda _: None
    """True if the n-th transaction is compressed: "zstd", "none" (a payload of plain bytes), or None for no payload."""
    compressed_rows: int | None = None
    """MariaDB's log_bin_compress_min_len: row events with at least so many bytes of rows are compressed."""
    partial: int | None = None
    """Updates are PARTIAL_UPDATE_ROWS events with these value options."""
    in_use: bool = False
    rotate_to: str | None = "mysql-bin.000002"
    """The file's last event: ROTATE to that name; None: STOP; "" for neither."""
    _out: list[bytes] = field(default_factory=list, init=False, repr=False)
    _open: bool = field(default=False, init=False, repr=False)
    _offset: int = field(default=4, init=False, repr=False)
    _transactions: int = field(default=0, init=False, repr=False)
    _inside: list[bytes] | None = field(default=None, init=False, repr=False)
    """Events of the payload that is being filled."""

    def to_bytes(self) -> bytes:
        return MAGIC + b"".join(self.events())

    def events(self) -> list[bytes]:
        """The file's events, one after the other, without the magic bytes."""
        self._out, self._open, self._offset, self._transactions, self._inside = [], False, 4, 0, None
        self._event(15, self._format_body(), flags=1 if self.in_use else 0, closed_flags=0)
        self._event(35, struct.pack("<Q", 0))
        for change in self.changes:
            self._write_change(change)
        if self._open:
            self._write_change(Commit())
        if self.rotate_to:
            self._event(4, struct.pack("<Q", 4) + self.rotate_to.encode())
        elif self.rotate_to is None:
            self._event(3, b"")
        return self._out

    def offsets(self) -> list[int]:
        """File offset of each event of ``events()``, and last the file's length."""
        offsets = [4]
        for event in self.events():
            offsets.append(offsets[-1] + len(event))
        return offsets

    def _format_body(self) -> bytes:
        head = struct.pack("<H50sIB", 4, self.version.encode(), self.second, 19)
        return head + _HEAD_LENGTHS_MYSQL + bytes([1 if self.checksum else 0])

    def _event(self, code: int, body: bytes, flags: int = 0, closed_flags: int | None = None) -> None:
        second = self.second + max(self._transactions - 1, 0)
        if self._inside is not None:
            head = struct.pack("<IBIIIH", second, code, self.server_id, 19 + len(body), 0, flags)
            self._inside.append(head + body)
            return
        footer = 4 if self.checksum or code == 15 else 0
        length = 19 + len(body) + footer
        self._offset += length

        def frame(bits: int) -> bytes:
            return struct.pack("<IBIIIH", second, code, self.server_id, length, self._offset & 0xFFFFFFFF, bits) + body

        crc = zlib.crc32(frame(flags if closed_flags is None else closed_flags))
        self._out.append(frame(flags) + (struct.pack("<I", crc) if footer else b""))

    def _gtid(self) -> None:
        self._transactions += 1
        number = self.first_number + self._transactions - 1
        body = b"\1" + (SID if self.gtids else bytes(16)) + struct.pack("<Q", number if self.gtids else 0)
        body += b"\2" + struct.pack("<QQ", self._transactions - 1, self._transactions)
        if self.commit_times:
            commit_times = self.commit_micros[self._transactions - 1 : self._transactions]
            committed = (
                commit_times[0] if commit_times else (self.second + self._transactions - 1) * 1_000_000 + 250_000
            )
            body += committed.to_bytes(7, "little") + b"\0" + struct.pack("<I", 80036)
        self._event(33 if self.gtids else 34, body)

    def _query(self, database: str, text: str | bytes) -> None:
        name = database.encode()
        raw = text.encode() if isinstance(text, str) else text
        status = b"\0" + bytes(4) + b"\1" + bytes(8)
        self._event(2, struct.pack("<IIBHH", 7, 0, len(name), 0, len(status)) + status + name + b"\0" + raw)

    def _begin_transaction(self) -> None:
        if not self._open:
            self._gtid()
            self._inside = None if self.payload(self._transactions) is None else []
            self._query("", "BEGIN")
            self._open = True

    def _end_payload(self) -> None:
        """Writes out what was gathered for a payload."""
        self._open = False
        if self._inside is not None:
            kind, content, self._inside = self.payload(self._transactions), b"".join(self._inside), None
            self._event(40, payload_body(content, kind or "zstd"))

    def _write_change(self, change: Change) -> None:  # noqa: C901, PLR0912 - one case a kind of change
        match change:
            case Insert(table, row):
                self._write_rows(Rows(table, Insert, [row]))
            case Update(table, before, after):
                self._write_rows(Rows(table, Update, [(before, after)]))
            case Delete(table, row):
                self._write_rows(Rows(table, Delete, [row]))
            case Rows():
                self._write_rows(change)
            case Commit():
                self._begin_transaction()
                self._event(16, struct.pack("<Q", 42 + self._transactions))
                self._end_payload()
            case Rollback():
                self._begin_transaction()
                self._query("", "ROLLBACK")
                self._end_payload()
            case Query(database, text):
                self._query(database, text)
            case Statement(database, text):
                if not self._open:
                    self._gtid()
                if text.startswith("XA START"):
                    self._open, self._inside = True, None if self.payload(self._transactions) is None else []
                self._query(database, text)
            case RawEvent():
                if change.transaction:
                    self._begin_transaction()
                self._event(change.code, change.body, change.flags)
                if change.ends:
                    self._end_payload()

    def _write_rows(self, rows: Rows) -> None:
        self._begin_transaction()
        number, table = next((k, table) for k, table in enumerate(self.tables) if table.name == rows.table)
        table_id = self.first_table_id + number
        self._event(19, table.body(table_id))
        head, images = self._row_body(table, table_id, rows)
        code = self._row_code(rows.kind)
        if self.partial is not None and rows.kind is Update:
            code = 39
        if self.compressed_rows is not None and len(images) >= self.compressed_rows:
            code, images = code + (139 if code >= 30 else 143), compressed_record(images)
        self._event(code, head + images)

    def _row_code(self, kind: type) -> int:
        return (30 if self.rows_version == 2 else 23) + {Insert: _WRITE, Update: _UPDATE, Delete: _DELETE}[kind]

    def _row_body(self, table: Table, table_id: int, rows: Rows) -> tuple[bytes, bytes]:
        """Everything before the first row, and the rows."""
        head = struct.pack("<IHH", table_id & 0xFFFFFFFF, table_id >> 32, rows.flags | rows.last)
        if self.rows_version == 2:
            head += struct.pack("<H", 2 + len(rows.extra)) + rows.extra
        pairs = rows.rows if rows.kind is Update else [(row,) for row in rows.rows]
        masks = [[[value is not ... for value in row] for row in pair] for pair in pairs]
        assert all(mask == masks[0] for mask in masks), "rows of one event leave out the same columns"
        present = b"".join(bits(mask) for mask in masks[0])
        shared = b"" if self.partial is None else bytes([self.partial])
        images = b"".join(shared.join(map(table.image, pair)) for pair in pairs)
        return head + lenenc(len(table.columns)) + present, images


def variants(of: Callable[..., SegmentSpec]) -> dict[str, SegmentSpec]:
    """The same changes in every form that a log has them in. of: makes the spec, with keys of SegmentSpec."""
    return {
        "version 2": of(),
        "version 1": of(rows_version=1),
        "without checksums": of(checksum=False),
        "partial updates": of(partial=1),
        "compressed rows": of(compressed_rows=1, version="10.11.6-MariaDB", rows_version=1),
        "compressed transactions": of(payload=lambda _: "zstd"),
        "payloads of plain bytes": of(payload=lambda _: "none"),
    }


def payload_body(content: bytes, kind: str = "zstd", **fields: int | None) -> bytes:
    """A TRANSACTION_PAYLOAD's body; ``size``, ``type``, ``claimed`` as fields say something else, None: not there."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(content) if kind == "zstd" else content
    header: dict[str, int | None] = {"type": 0, "claimed": len(content)} if kind == "zstd" else {"type": 255}
    header |= {"size": len(packed)} | fields
    numbers = {"size": 1, "type": 2, "claimed": 3}
    encoded = [(numbers[name], lenenc(value)) for name, value in header.items() if value is not None]
    head = b"".join(bytes([number, len(value)]) + value for number, value in encoded)
    return head + b"\0" + packed


def compressed_record(content: bytes) -> bytes:
    """MariaDB's compressed bytes: a byte 1aaa0nnn, n bytes of length, big-endian, a zlib stream."""
    size = (max(len(content), 1).bit_length() + 7) // 8
    return bytes([0x80 | size]) + len(content).to_bytes(size, "big") + zlib.compress(content)


def reframed(event: bytes, *, body: bytes | None = None, code: int | None = None, checksum: bool = True) -> bytes:
    """The event with another body or type number, its length and checksum made right again."""
    content = event[19 : -4 if checksum else None] if body is None else body
    length = 19 + len(content) + (4 if checksum else 0)
    head = (
        event[:4] + bytes([event[4] if code is None else code]) + event[5:9] + struct.pack("<I", length) + event[13:19]
    )
    return head + content + (struct.pack("<I", zlib.crc32(head + content)) if checksum else b"")


def chunked(content: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def lenenc(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + struct.pack("<H", number)
    return b"\xfd" + number.to_bytes(3, "little") if number < 1 << 24 else b"\xfe" + struct.pack("<Q", number)


def varlen(number: int) -> bytes:
    """A variable-length integer as MySQL's serialization library writes it: the first byte's ones count the rest."""
    for extra in range(8):
        if number < 1 << 7 * (extra + 1):
            return (number << (extra + 1) | ((1 << extra) - 1)).to_bytes(extra + 1, "little")
    return b"\xff" + number.to_bytes(8, "little")


def bits(flags: Sequence[bool], *, reverse: bool = False) -> bytes:
    """Flags as bits, the first one lowest in the first byte; ``reverse``: highest."""
    out = bytearray((len(flags) + 7) // 8)
    for k, flag in enumerate(flags):
        out[k // 8] |= flag << (7 - k % 8 if reverse else k % 8)
    return bytes(out)


def _length_prefixed(text: str) -> bytes:
    raw = text.encode()
    return bytes([len(raw)]) + raw + b"\0"


def _labels(labels: Sequence[str]) -> bytes:
    encoded = [label.encode() for label in labels]
    return lenenc(len(encoded)) + b"".join(lenenc(len(raw)) + raw for raw in encoded)
