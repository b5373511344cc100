from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.binlog.events.scanner import FormatDescription, TableMaps, open_slice
from spark_jobs.binlog.events.table_map import Column, TableDefinition, TableName, parse_table_map, same_layout
from spark_jobs.errors import DecodeError, Truncated, Unsupported
from tests.binlogs.segment_spec import Insert, SegmentSpec, Table, lenenc
from tests.binlogs.segment_types import (
    BIGINT,
    BINARY,
    BINARY_COLLATION,
    CHAR,
    DECIMAL,
    ENUM,
    INT,
    LATIN1,
    OLD_TIME,
    SET,
    UTF8MB4,
    VARCHAR,
    YEAR,
    ColumnType,
)  # fmt: skip

ORDERS = Table(
    "shop.orders",
    key=["id", "kind"],
    id=BIGINT.UNSIGNED.NOT_NULL,
    title=VARCHAR(32),
    old=VARCHAR(300, LATIN1, 1),
    code=BINARY(4),
    kind=ENUM("new", "ü"),
    marks=SET("x", "y").NOT_NULL,
    price=DECIMAL(12, 2),
    count=INT,
    c=CHAR(200),
)


def table_map(table: Table, version: str = "8.0.36") -> tuple[bytes, FormatDescription]:
    row = [None] * len(table.columns)
    maps = TableMaps()
    content = SegmentSpec([table], [Insert(table.name, row)], version=version).to_bytes()
    scanner, _ = open_slice("log.000001", 0, None, content, maps)
    return maps.events[0], scanner.format


def parsed(table: Table, version: str = "8.0.36") -> TableDefinition:
    return parse_table_map(*table_map(table, version), "log.000001:200")


def with_fields(table: Table, version: str, *fields: tuple[int, bytes]) -> TableDefinition:
    """A TABLE_MAP without metadata, and these optional fields behind it."""
    event, head = table_map(table, version)
    tail = b"".join(bytes([kind]) + lenenc(len(content)) + content for kind, content in fields)
    return parse_table_map(event[:-4] + tail + event[-4:], head, "log.000001:200")


def test_all_that_full_metadata_tells() -> None:
    definition = parsed(ORDERS)
    assert definition.name == TableName("shop", "orders")
    assert str(definition.name) == "shop.orders"
    assert definition.has_names()
    assert definition.key == (0, 4)
    assert str(definition) == (
        "shop.orders (id bigint unsigned, title varchar(32), old varchar(300), code binary(4), kind enum('new','ü'), "
        "marks set('x','y'), price decimal(12,2), count int, c char(200))"
    )
    assert [column.nullable for column in definition.columns] == [
        False,
        True,
        True,
        True,
        True,
        False,
        True,
        True,
        True,
    ]
    charsets = [None, UTF8MB4, LATIN1, BINARY_COLLATION, UTF8MB4, UTF8MB4, None, None, UTF8MB4]
    assert [column.charset for column in definition.columns] == charsets


def test_what_no_metadata_tells_is_unknown() -> None:
    bare = Table("shop.t", metadata=False, id=INT, title=VARCHAR(9), kind=ENUM("a"))
    definition = parsed(bare)
    assert not definition.has_names()
    assert definition.key is None
    assert definition.columns[0] == Column(None, 3, unsigned=None)
    assert [column.charset for column in definition.columns] == [None] * 3
    assert definition.columns[2].labels is None
    assert definition.column_names() == ["@1", "@2", "@3"]


def test_a_table_without_key_is_known_to_have_none() -> None:
    assert parsed(Table("shop.t", id=INT)).key == ()


SIGNED = Table("shop.t", metadata=False, a=INT, y=YEAR, b=INT, c=INT)


@pytest.mark.parametrize(
    "version, content, unsigned",
    [
        ("8.0.12", b"\xa0", [True, False, False, True]),
        ("8.0.36", b"\xa0", [True, False, True, False]),
        ("9.7.0", b"\xa0", [True, False, True, False]),
        ("10.11.4-MariaDB-log", b"\xb0", [True, False, True, True]),
        ("8.0.15", b"\xa0", [True, False, None, None]),
        ("8.0.15", b"\x00", [False, False, False, False]),
    ],
)
def test_whether_year_has_a_sign_bit_depends_on_the_server(version: str, content: bytes, unsigned: list[bool]) -> None:
    signs = [column.unsigned for column in with_fields(SIGNED, version, (1, content)).columns]
    assert signs == [unsigned[0], False, *unsigned[2:]]  # a server's own definition of a YEAR has no sign either


def test_the_length_of_the_sign_bits_decides_where_it_can() -> None:
    eight = {f"c{k}": INT for k in range(8)}
    nine = Table("shop.t", metadata=False, y=YEAR, **eight)  # type: ignore[arg-type]  # columns by name
    definition = with_fields(nine, "8.0.15", (1, b"\x01"))
    assert [column.unsigned for column in definition.columns[1:]] == [False] * 7 + [True]
    definition = with_fields(nine, "8.0.15", (1, b"\x00\x80"))
    assert [column.unsigned for column in definition.columns[1:]] == [False] * 7 + [True]


def test_default_charset_and_its_exceptions() -> None:
    three = Table("shop.t", metadata=False, a=VARCHAR(1), n=INT, b=VARCHAR(1), c=VARCHAR(1), e=ENUM("a"))
    definition = with_fields(three, "8.0.36", (2, b"\x08\x01\xfc\xff\x00"), (10, b"\x1c"))
    assert [column.charset for column in definition.columns] == [8, None, 255, 8, 28]


GEOMETRY = ColumnType(255, b"\4", bytes)
VECTOR = ColumnType(242, b"\4", bytes)


@pytest.mark.parametrize("version, code", [("10.11.4-MariaDB", 255), ("9.7.0", 242)])
def test_which_other_column_counts_among_the_character_sets(version: str, code: int) -> None:
    table = Table("shop.t", metadata=False, g=GEOMETRY, v=VECTOR, title=VARCHAR(1))
    definition = with_fields(table, version, (3, b"\x3f\x08"))
    assert definition.columns[2].charset == 8
    assert [column.charset for column in definition.columns[:2]] == [
        63 if code == 255 else None,
        63 if code == 242 else None,
    ]


def test_a_key_on_a_prefix_names_the_column() -> None:
    table = Table("shop.t", metadata=False, a=VARCHAR(9), b=INT)
    assert with_fields(table, "8.0.36", (9, b"\x00\x05\x01\x00")).key == (0, 1)


def test_unknown_metadata_is_passed_over() -> None:
    table = Table("shop.t", metadata=False, a=INT)
    assert with_fields(table, "8.0.36", (99, b"xyz"), (4, b"\x01a")).columns[0].name == "a"


@pytest.mark.parametrize(
    "labels, collation, expected",
    [
        ((b"\xe9",), 8, ("é",)),
        ((b"\xd6\xd0",), 28, ("中",)),
        ((b"a", b"b c"), None, ("a", "b c")),
        ((b"\xc3\xbc",), None, None),
        ((b"a", b"b^c"), None, None),  # in swe7, bÜc
        ((b"\xad\xa1",), 97, ("①",)),
    ],
)
def test_labels_are_in_their_own_character_set(
    labels: tuple[bytes], collation: int, expected: tuple[str] | None
) -> None:
    table = Table("shop.t", metadata=False, e=ENUM("a"))
    content = lenenc(len(labels)) + b"".join(lenenc(len(label)) + label for label in labels)
    fields = [(6, content)] + ([(11, lenenc(collation))] if collation else [])
    assert with_fields(table, "8.0.36", *fields).columns[0].labels == expected


def test_a_table_map_cut_inside_its_columns_is_an_error() -> None:
    event, head = table_map(ORDERS)
    plain = Table(ORDERS.name, metadata=False, **ORDERS.columns).body(100)  # type: ignore[arg-type]  # columns by name
    for length in range(19 + 8, 19 + len(plain)):
        with pytest.raises(DecodeError, match=r"^log.000001:200: TABLE_MAP"):
            parse_table_map(event[:length] + event[-4:], head, "log.000001:200")


def test_each_column_has_a_bit_for_being_visible() -> None:
    columns = {f"c{offset}": INT for offset in range(9)}
    nine = Table("shop.t", metadata=False, **columns)  # type: ignore[arg-type]  # columns by name
    definition = with_fields(nine, "8.0.36", (12, b"\xdf\x00"))
    assert [column.invisible for column in definition.columns] == [False, False, True, *[False] * 5, True]
    assert {column.invisible for column in with_fields(nine, "8.0.36").columns} == {None}
    with pytest.raises(Truncated, match="1 bytes of visibility for 9 columns"):
        with_fields(nine, "8.0.36", (12, b"\xdf"))


def test_a_table_map_cut_between_its_fields_tells_less() -> None:
    event, head = table_map(ORDERS)
    definition = parse_table_map(event, head, "log.000001:200")
    plain = Table(ORDERS.name, metadata=False, **ORDERS.columns).body(100)  # type: ignore[arg-type]  # columns by name
    bare = parse_table_map(event[: 19 + len(plain)] + event[-4:], head, "log.000001:200")
    assert same_layout(bare, definition)
    assert not bare.has_names()
    with pytest.raises(Truncated, match=r"^log.000001:200: TABLE_MAP of shop.orders: \d+ bytes wanted, \d+ left"):
        parse_table_map(event[: 19 + len(plain) + 2] + event[-4:], head, "log.000001:200")


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"log.000001:200: TABLE_MAP of shop.t: column 1 has type number 200"):
        parsed(Table("shop.t", metadata=False, a=ColumnType(200, b"", bytes)))


def test_a_table_without_columns_is_an_error() -> None:
    with pytest.raises(DecodeError, match=r"^log.000001:200: TABLE_MAP of shop.t: 0 columns; servers have 1 to 4096"):
        parsed(Table("shop.t", metadata=False))


def test_left_over_type_metadata_is_an_error() -> None:
    with pytest.raises(DecodeError, match="bytes of type metadata left over"):
        parsed(Table("shop.t", metadata=False, a=ColumnType(3, b"\1", bytes)))


@pytest.mark.parametrize(
    "code, meta",
    [
        *((code, bytes([size])) for code in (252, 245, 255, 242) for size in (0, 5)),
        *((246, bytes(digits)) for digits in ((0, 0), (5, 6), (66, 1))),
        *((16, bytes(bits)) for bits in ((0, 0), (1, 8))),
        *((code, b"\7") for code in (17, 18, 19)),
        *((254, bytes(label)) for label in ((247, 0), (247, 3), (248, 5), (248, 9))),
    ],
)
def test_metadata_that_no_server_writes_is_an_error(code: int, meta: bytes) -> None:
    with pytest.raises(DecodeError, match=rf"log.000001:200: TABLE_MAP of shop.t: column 1 .* metadata {meta.hex()}"):
        parsed(Table("shop.t", metadata=False, a=ColumnType(code, meta, bytes)))


@pytest.mark.parametrize("count", [0, 4097])
def test_as_many_columns_as_no_table_has_are_an_error(count: int) -> None:
    with pytest.raises(DecodeError, match=f"TABLE_MAP of shop.t: {count} columns"):
        parsed(Table("shop.t", (), metadata=False, **{f"c{offset}": INT for offset in range(count)}))


PLAIN = Table("shop.t", metadata=False, a=VARCHAR(5))


@pytest.mark.parametrize(
    "kind, content, message",
    [
        (2, b"", "does not fit its columns"),
        (2, b"\x08\0", "does not fit its columns"),
        (8, b"\1", "column 2 is in the key of 1 columns"),
        (9, b"\7\0", "column 8 is in the key of 1 columns"),
    ],
)
def test_optional_metadata_that_does_not_fit_is_an_error(kind: int, content: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=rf"log.000001:200: TABLE_MAP of shop.t: .*{message}"):
        with_fields(PLAIN, "8.0.36", (kind, content))


def test_a_collation_that_is_not_known_does_not_keep_a_table_from_being_named() -> None:
    definition = with_fields(PLAIN, "8.0.36", (3, b"\xfc\xff\xff"))
    assert str(definition) == "shop.t (@1 varchar(20))"
    with pytest.raises(Unsupported, match="collation 65535"):
        assert definition.columns[0].arrow


@pytest.mark.parametrize(
    "change, is_same",
    [({"name": "x"}, True), ({"unsigned": True}, True), ({"meta": 2}, False), ({"type_code": 8}, False)],
)
def test_same_layout(change: dict[str, Any], is_same: bool) -> None:
    first = TableDefinition(TableName("a", "b"), (Column("id", 3, 0),))
    second = TableDefinition(TableName("c", "d"), (replace(first.columns[0], **change),))
    assert same_layout(first, second) is is_same
    assert not same_layout(first, replace(first, columns=first.columns * 2))


def test_a_type_that_is_not_read_has_a_name() -> None:
    assert Column("c", 0).sql_type == "decimal before MySQL 5.0"
    with pytest.raises(Unsupported, match=r"decimal before MySQL 5\.0"):
        assert Column("c", 0).arrow


@pytest.mark.parametrize("version, declared", [("5.6.51", "time"), ("8.0.36", "time"), ("10.11.4-MariaDB", None)])
def test_whether_old_temporal_types_have_a_fraction(version: str, declared: str | None) -> None:
    """Only MariaDB's may, and its log does not tell."""
    assert with_fields(Table("shop.t", metadata=False, t=OLD_TIME), version).columns[0].declared == declared
