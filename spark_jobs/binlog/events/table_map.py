"""Definitions of tables in TABLE_MAP events.

Source: MySQL libs/mysql/binlog/event/rows_event.h (Table_map_event, Optional_metadata_fields); MariaDB sql/log_event.h.
Servers differ in two places: MariaDB counts GEOMETRY among the columns with a character set, MySQL VECTOR; and YEAR
counts among the columns with a sign in some.

Put here: definitions and how they are read from TABLE_MAP. Not here: definitions from DDL (spark_jobs/ddl/), rows
(binlog/rows/decoder.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa

from spark_jobs.binlog.events.scanner import HEADER, FormatDescription, map_name
from spark_jobs.binlog.types import GEOMETRY_CODE, OLD_TWINS, TYPES, VECTOR_CODE, real_code, type_of
from spark_jobs.binlog.types.base import ColumnReading, ColumnType
from spark_jobs.binlog.types.charsets import ALIKE, BINARY, charset_of, text_of
from spark_jobs.binlog.types.temporal import YEAR
from spark_jobs.errors import DecodeError, Truncated, Unsupported


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's schema and name as the log spells them."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. What neither the log nor a statement told is None: its name, sign, character set, labels."""

    name: str | None
    type_code: int
    """Number in MySQL's enum_field_types; ENUM and SET under their own numbers."""
    meta: int = 0
    """The type's metadata as its ColumnType.meta reads it: precision and scale, length in bytes, fraction digits …."""
    unsigned: bool | None = False
    nullable: bool = True
    charset: int | None = None
    """Collation id; 63 is bytes."""
    labels: tuple[str, ...] | None = None
    """Labels of an ENUM or SET, in the order of their numbers; None for other types, and where nothing told them."""
    declared: str | None = None
    """The type as declared, where type code and metadata tell less: ``uuid``, ``vector(3)``, an old ``time(3)``."""
    default: str | None = field(default=None, compare=False)
    """Value of a row whose INSERT gives the column none, as an SQL literal of the lake; None: not known.

    No TABLE_MAP tells it, so definitions that differ in it alone are equal."""
    computed: bool | None = field(default=None, compare=False)
    """True if it is a generated column; None: not known. As ``default``."""
    invisible: bool | None = field(default=None, compare=False)
    """True if SELECT * leaves it out; None: not known. As ``default``."""
    label_bytes: tuple[bytes, ...] | None = field(default=None, compare=False)
    """Labels as the log has them, where it names no character set for them (MySQL 8.0.1 to 8.0.16) or one that is not
    known. ``labels`` has those that are printable ASCII, which text of UCS-2 may look like. Never stored."""

    @property
    def type(self) -> ColumnType:
        return type_of(self.type_code, self.declared)

    @property
    def sql_type(self) -> str:
        """The type as SHOW CREATE TABLE would print it: ``decimal(12,2)``, ``varchar(32)``."""
        return self.type.sql(self)

    @property
    def arrow(self) -> pa.DataType:
        """The column's type in silver.

        Raises Unsupported for a type, sign or character set that this version does not read.
        """
        return self.type.arrow(self)

    def reading(self) -> ColumnReading:
        """Reading of its values. Raises as ``arrow``."""
        return self.type.reading(self)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table's columns in the order of its rows.

    key: ordinals of the columns by which the server tells rows apart: the primary key's, or else those of the first
    unique index whose columns are all NOT NULL and whole (MySQL sql/dd_table_share.cc, MariaDB sql/table.cc, which
    TABLE_MAP and InnoDB go by). None: not known, (): it has none. A primary key on a column's prefix names the column:
    what is unique by a prefix is unique as a whole.
    index: the name of that index where a statement or a server told it; "" where it is another than PRIMARY, without a
    name of its own in the statement.
    numbered: whether nothing tells the names of its columns, and numbers stand for them: then what its rows are told
    apart by is not known either.
    """

    name: TableName
    columns: tuple[Column, ...]
    key: tuple[int, ...] | None = None
    index: str | None = None
    numbered: bool = False

    def has_names(self) -> bool:
        """True if the names of all columns are known."""
        return all(column.name is not None for column in self.columns)

    def column_names(self) -> list[str]:
        """The names, ``@1``, ``@2``, … by position where unknown."""
        return [f"@{offset}" if column.name is None else column.name for offset, column in enumerate(self.columns, 1)]

    def __str__(self) -> str:
        parts = [f"{n} {column.sql_type}" for n, column in zip(self.column_names(), self.columns, strict=True)]
        return f"{self.name} ({', '.join(parts)})"


def same_layout(a: TableDefinition, b: TableDefinition) -> bool:
    """True if the row bytes of one can be read with the other: types and metadata equal, column by column."""
    return [(c.type_code, c.meta) for c in a.columns] == [(c.type_code, c.meta) for c in b.columns]


class _ByteReader:
    """Reads forward over bytes; beyond their end it raises Truncated."""

    def __init__(self, wire: bytes) -> None:
        self.wire = wire
        self.offset = 0

    def __bool__(self) -> bool:
        return self.offset < len(self.wire)

    def take(self, count: int) -> bytes:
        content = self.wire[self.offset : self.offset + count]
        if len(content) < count:
            raise Truncated(f"{count} bytes wanted, {len(content)} left")
        self.offset += count
        return content

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """An integer of 1, 3, 4 or 9 bytes (MySQL manual, "Integer types", length-encoded)."""
        first = self.number(1)
        return first if first < 251 else self.number({252: 2, 253: 3, 254: 8}[first])

    def text(self) -> bytes:
        return self.take(self.packed())


def _packed_numbers(wire: bytes) -> Iterator[int]:
    numbers = _ByteReader(wire)
    while numbers:
        yield numbers.packed()


def parse_table_map(event: bytes, head: FormatDescription, location: str) -> TableDefinition:
    """Definition parsed from a whole TABLE_MAP event. ``location`` (``file:offset``) opens every message.

    Raises Truncated, DecodeError, and Unsupported for a type number that is not known. Types that are known but not
    read in this version are refused when their column is decoded, not here. Unknown optional metadata is ignored.
    """
    body = event[HEADER : len(event) - head.footer]
    try:
        name = TableName(*map_name(body))
    except (IndexError, UnicodeDecodeError):
        raise DecodeError(f"{location}: TABLE_MAP: no schema and table name in it") from None
    try:
        return _parse_body(name, body[8:], head.flavor == "mariadb", _year_counts(head))
    except DecodeError as error:
        raise type(error)(f"{location}: TABLE_MAP of {name}: {error}") from None
    except (ValueError, IndexError, KeyError) as error:
        raise DecodeError(
            f"{location}: TABLE_MAP of {name}: its metadata does not fit its columns ({error!r})"
        ) from None


@lru_cache(maxsize=1024)
def _parse_body(name: TableName, body: bytes, is_mariadb: bool, year_counts: tuple[bool, ...]) -> TableDefinition:
    """body: after the table's id and the flags. Each file of a server has its table maps again."""
    wire = _ByteReader(body)
    for _ in ("schema", "table"):
        wire.take(wire.number(1) + 1)
    count = wire.packed()
    if not 1 <= count <= _MOST_COLUMNS:
        raise DecodeError(f"{count} columns; servers have 1 to {_MOST_COLUMNS}")
    codes = wire.take(count)
    columns = _plain_columns(codes, _ByteReader(wire.text()), wire.take((len(codes) + 7) // 8))
    if not is_mariadb:  # there, old temporal types may have a fraction that the log does not tell
        columns = [replace(c, declared=c.type.sql(c)) if c.type_code in OLD_TWINS.values() else c for c in columns]
    return _OptionalMetadata(name, columns, is_mariadb, year_counts).read(wire)


_MOST_COLUMNS = 4096
"""MySQL sql/sql_const.h and MariaDB, MAX_FIELDS: more would make a few bytes claim gigabytes of slots."""


def _plain_columns(codes: bytes, metadata: _ByteReader, nullable: bytes) -> list[Column]:
    columns = []
    for ordinal, code in enumerate(codes):
        if code not in TYPES:
            raise Unsupported(f"column {ordinal + 1} has type number {code}, which is not known")
        meta = metadata.take(TYPES[code].meta_size)
        kind = real_code(code, meta)
        may_be_null = bool(nullable[ordinal >> 3] >> (ordinal & 7) & 1)
        unsigned = None if TYPES[kind].is_numeric and TYPES[kind] is not YEAR else False
        number = TYPES[kind].meta(meta)
        if not TYPES[kind].allows(number):
            raise DecodeError(f"column {ordinal + 1} of type number {kind} has the metadata {meta.hex()}")
        columns.append(Column(None, kind, number, unsigned, may_be_null))
    if metadata:
        raise DecodeError(f"{len(metadata.wire) - metadata.offset} bytes of type metadata left over")
    return columns


@dataclass(slots=True)
class _OptionalMetadata:
    """Additions of TABLE_MAP's optional fields to the columns, field by field."""

    name: TableName
    columns: list[Column]
    is_mariadb: bool
    year_counts: tuple[bool, ...]
    key: tuple[int, ...] | None = None
    labels: list[tuple[int, bytes]] = field(default_factory=list)
    has_names: bool = False

    def read(self, wire: _ByteReader) -> TableDefinition:
        while wire:
            kind = wire.number(1)
            content = wire.text()
            if kind in _FIELDS:
                _FIELDS[kind](self, content)
        for code, content in self.labels:
            self._set_labels(code, content)
        if self.key and max(self.key) >= len(self.columns):
            raise DecodeError(f"column {max(self.key) + 1} is in the key of {len(self.columns)} columns")
        if self.has_names and self.key is None:
            self.key = ()  # a server that logs names logs the key too, where there is one
        return TableDefinition(self.name, tuple(self.columns), self.key)

    def _ordinals(self, test: Callable[[ColumnType], bool]) -> list[int]:
        return [ordinal for ordinal, column in enumerate(self.columns) if test(column.type)]

    def _textual(self) -> list[int]:
        also = GEOMETRY_CODE if self.is_mariadb else VECTOR_CODE
        return [o for o, column in enumerate(self.columns) if column.type.is_character or column.type_code == also]

    def signs(self, content: bytes) -> None:
        """A bit for each numeric column from the highest bit down, set where UNSIGNED.

        Servers differ in whether YEAR counts. Where that is open, a column has a sign if it has the same both ways.
        A YEAR has none to tell: its bit is set, and no server declares it UNSIGNED.
        """
        candidates = [self._signs(content, year) for year in self.year_counts]
        candidates = [signs for signs in candidates if (len(signs) + 7) // 8 == len(content)]
        if not candidates:
            raise Truncated(f"{len(content)} bytes of signedness do not fit the numeric columns")
        for ordinal in self._ordinals(lambda kind: kind.is_numeric and kind is not YEAR):
            signs = {signs_by_column.get(ordinal, False) for signs_by_column in candidates}
            self.columns[ordinal] = replace(self.columns[ordinal], unsigned=signs.pop() if len(signs) == 1 else None)

    def _signs(self, content: bytes, year: bool) -> dict[int, bool]:
        counted = self._ordinals(lambda kind: kind.is_numeric and (year or kind is not YEAR))
        bits = "".join(f"{byte:08b}" for byte in content).ljust(len(counted), "0")
        return {ordinal: bit == "1" for ordinal, bit in zip(counted, bits, strict=False)}

    def _charsets(self, ordinals: Iterable[int], collations: Iterable[int]) -> None:
        for ordinal, collation in zip(ordinals, collations, strict=False):
            self.columns[ordinal] = replace(self.columns[ordinal], charset=collation)

    def _default_charset(self, ordinals: list[int], content: bytes) -> None:
        default, *pairs = _packed_numbers(content)
        charsets = dict(zip(pairs[::2], pairs[1::2], strict=True))
        self._charsets(ordinals, (charsets.get(offset, default) for offset in range(len(ordinals))))

    def default_charset(self, content: bytes) -> None:
        """One collation for most character columns, then pairs (offset among these, collation) for the rest."""
        self._default_charset(self._textual(), content)

    def column_charsets(self, content: bytes) -> None:
        self._charsets(self._textual(), _packed_numbers(content))

    def default_label_charset(self, content: bytes) -> None:
        self._default_charset(self._ordinals(lambda kind: kind.has_labels), content)

    def label_charsets(self, content: bytes) -> None:
        self._charsets(self._ordinals(lambda kind: kind.has_labels), _packed_numbers(content))

    def names(self, content: bytes) -> None:
        names = _ByteReader(content)
        for ordinal, column in enumerate(self.columns):
            self.columns[ordinal] = replace(column, name=names.text().decode())
        self.has_names = True

    def set_labels(self, content: bytes) -> None:
        self.labels.append((_SET, content))

    def enum_labels(self, content: bytes) -> None:
        self.labels.append((_ENUM, content))

    def _set_labels(self, code: int, content: bytes) -> None:
        """Labels come before the fields that name their character sets, so they are read last."""
        wire = _ByteReader(content)
        for ordinal, column in enumerate(self.columns):
            if column.type_code == code:
                texts = [wire.text() for _ in range(wire.packed())]
                labels = _label_texts(texts, column.charset)
                label_bytes = tuple(texts) if column.charset is None or labels is None else None
                self.columns[ordinal] = replace(column, labels=labels, label_bytes=label_bytes)

    def visibility(self, content: bytes) -> None:
        """A bit for each column from the highest bit down, set where it is visible."""
        if len(content) < (len(self.columns) + 7) // 8:
            raise Truncated(f"{len(content)} bytes of visibility for {len(self.columns)} columns")
        for ordinal, column in enumerate(self.columns):
            is_visible = content[ordinal >> 3] << (ordinal & 7) & 128
            self.columns[ordinal] = replace(column, invisible=not is_visible)

    def simple_key(self, content: bytes) -> None:
        self.key = tuple(_packed_numbers(content))

    def prefixed_key(self, content: bytes) -> None:
        """Pairs: ordinal, length of the prefix (0: all of it)."""
        self.key = tuple(_packed_numbers(content))[::2]


def _label_texts(labels: list[bytes], collation: int | None) -> tuple[str, ...] | None:
    """None where the text is not known: then values are their numbers, unless a definition has the labels.

    MySQL before 8.0.17 does not log the labels' character set; letters that all sets have in one place need none.
    """
    if collation is None:
        plain = ALIKE.issuperset(b"".join(labels))
        return tuple(label.decode("ascii") for label in labels) if plain else None
    try:
        charset = charset_of(collation)
    except Unsupported:
        return None
    try:
        return tuple(text_of(label, charset) for label in labels)
    except UnicodeDecodeError:
        if charset != BINARY:
            raise
        return None


def _year_counts(head: FormatDescription) -> tuple[bool, ...]:
    """True if YEAR has a bit among the signs: in MariaDB, and in MySQL since log_event.cc uses field.h's list of types.

    Seen without it in 8.0.12 and with it in 8.0.20; in between, both readings are tried.
    """
    if head.flavor == "mariadb":
        return (True,)
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", head.server_version)
    version = tuple(int(number) for number in numbers.groups()) if numbers else (0, 0, 0)
    if version <= (8, 0, 12):
        return (False,)
    return (True,) if version >= (8, 0, 20) else (False, True)


_SET, _ENUM = 248, 247
_FIELDS: dict[int, Callable[[_OptionalMetadata, bytes], None]] = {
    1: _OptionalMetadata.signs,
    2: _OptionalMetadata.default_charset,
    3: _OptionalMetadata.column_charsets,
    4: _OptionalMetadata.names,
    5: _OptionalMetadata.set_labels,
    6: _OptionalMetadata.enum_labels,
    8: _OptionalMetadata.simple_key,
    9: _OptionalMetadata.prefixed_key,
    10: _OptionalMetadata.default_label_charset,
    11: _OptionalMetadata.label_charsets,
    12: _OptionalMetadata.visibility,
}
