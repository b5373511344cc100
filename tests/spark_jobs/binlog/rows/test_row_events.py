"""Packed row events made plain: what a server wrote, JSON diffs in rows, and what is said of damaged ones."""

import json
import re
import struct
from collections.abc import Iterator
from ctypes import string_at
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.binlog.events.scanner import TableMaps, open_slice
from spark_jobs.binlog.events.table_map import Column, TableDefinition, TableName, parse_table_map
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.rows import row_events
from spark_jobs.binlog.rows.row_events import RowEvents, plain_events, rows_in, sizes_of
from spark_jobs.errors import DecodeError, Truncated, Unsupported
from tests.binlogs import segment_types as types
from tests.binlogs.json_documents import Opaque, from_binary, to_binary
from tests.binlogs.segment_spec import (
    Change,
    Insert,
    RawEvent,
    Rows,
    SegmentSpec,
    Table,
    Update,
    bits,
    compressed_record,
    lenenc,
)
from tests.twins import slow_decoder

FILE = "log.000001"
RECORDED = Path("tests/recorded")
JSON = types.ColumnType(
    245, b"\4", lambda value: (binary := to_binary(value), struct.pack("<I", len(binary)) + binary)[1]
)


def json_bytes(wire: slow_decoder.Cursor, _: Column) -> Any:
    stored = wire.take(wire.little(4))
    return from_binary(stored) if stored else None


@pytest.fixture(autouse=True)
def documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain twin reads documents as Python values."""
    monkeypatch.setitem(slow_decoder.READERS, 245, json_bytes)


def made_plain(content: bytes, name: str) -> Iterator[slow_decoder.Row]:
    """A table's rows, its events made plain and read by the plain twin."""
    maps = TableMaps()
    scanner, outer_scan = open_slice(FILE, 0, None, content, maps)
    scans = [(outer_scan, outer_scan.base + outer_scan.offset)]
    opened = Payloads(FILE, scanner.format, maps).open(outer_scan)
    scans += [(part.inner, outer_scan.base + outer_scan.offset[part.outer]) for part in opened]
    ordinals = [ordinal for ordinal, table_name in enumerate(maps.names) if ".".join(table_name) == name]
    definition = parse_table_map(maps.events[ordinals[0]], scanner.format, FILE)
    for scan, offsets in scans:
        footer = scanner.format.footer if scan is outer_scan else 0
        byte_offsets = np.flatnonzero((scan.mark & event_cells.MARK_ROWS != 0) & np.isin(scan.table, ordinals))
        zeros = np.zeros(len(byte_offsets), np.int64)
        events = RowEvents(
            FILE, scan.address + scan.offset[byte_offsets], scan.length[byte_offsets] - footer,
            scan.code[byte_offsets], offsets[byte_offsets],
            zeros, zeros, zeros, zeros, [scan.buffer],
        )  # fmt: skip
        for run in plain_events(events, definition):
            assert set(run.codes.tolist()) <= {23, 24, 25, 30, 31, 32}
            for event in range(len(run)):
                wire = string_at(int(run.addresses[event]), int(run.lengths[event]))
                assert wire[4] == run.codes[event]
                yield from slow_decoder.rows_of(
                    slow_decoder.Cursor(wire[27:]), wire[4], definition, int(run.offsets[event]), 0, None
                )


def test_partial_updates_of_a_server_are_its_full_ones() -> None:
    """The same statements twice, written as a server writes full and partial updates, compressed and not."""
    content = (RECORDED / "mysql-9.7-packed.000001").read_bytes()
    compared = 0
    for table in ("a", "b", "c", "j"):
        pair = [
            [(row.op, row.before, row.after) for row in made_plain(content, f"{s}.{table}")]
            for s in ("plain", "packed")
        ]
        assert pair[0] == pair[1]
        compared += len(pair[0])
    assert compared == 46


def test_documents_end_as_the_server_selects_them() -> None:
    tables = json.loads((RECORDED / "mysql-9.7-packed.tables.json").read_text(encoding="utf-8"))
    content = (RECORDED / "mysql-9.7-packed.000001").read_bytes()
    rows: dict[int, list[Any]] = {}
    for change in made_plain(content, "packed.j"):
        if change.before:
            del rows[change.before[0]]
        if change.op == 3:
            del rows[change.after[0]]
        else:
            rows[change.after[0]] = change.after
    selected = {int(row[0]): row for row in tables["packed.j"]["rows"]}
    assert set(rows) == {1, 3, 4, 5}
    for key, row in selected.items():
        for offset in (1, 3):
            assert text_of(rows[key][offset]) == (row[offset] and json.loads(row[offset]))


def text_of(document: Any) -> Any:
    """Times and dates as their text: the two that are there; decimals as numbers."""
    match document:
        case dict():
            return {key: text_of(value) for key, value in document.items()}
        case list():
            return [text_of(value) for value in document]
        case Opaque(246, content):
            column = Column("", 246, content[0] << 8 | content[1])
            return float(slow_decoder.decimal(slow_decoder.Cursor(content[2:]), column))
        case Opaque(code):
            return {10: "2024-02-29", 11: "12:34:57.000000"}[code]
    return document


def test_a_document_that_the_row_before_does_not_hold_is_refused_by_name() -> None:
    content = (RECORDED / "mysql-9.7-packed.000001").read_bytes()
    with pytest.raises(Unsupported, match=rf"^{FILE}:\d+: row 0 of packed.k: doc: a partial update .*binlog_row_image"):
        list(made_plain(content, "packed.k"))


DOCS = Table("shop.docs", key=["id"], id=types.INT, one=JSON, note=types.VARCHAR(300), two=JSON)
DIFF = b"\0\3$.a" + lenenc(3) + to_binary(2)


def partial(rows: list[tuple[list[Any], int, list[bool], list[Any]]], **options: Any) -> bytes:
    """A file of one PARTIAL_UPDATE_ROWS event; rows: before, value options, partial bits, after; diffs as bytes."""
    present = bits([True] * 4)
    body = struct.pack("<IHHH", 100, 0, 1, 2) + lenenc(4) + present * 2
    for before, shared, partly, after in rows:
        body += DOCS.image(before) + bytes([shared]) + (bits(partly) if shared & 1 else b"")
        values = [
            struct.pack("<I", len(value)) + value if isinstance(value, bytes) else kind.encode(value)
            for kind, value in zip(DOCS.columns.values(), after, strict=True)
            if value is not None
        ]
        body += bits([value is None for value in after]) + b"".join(values)
    changes: list[Change] = [
        Rows("shop.docs", Insert, [(9, None, None, None)], last=False),
        RawEvent(39, options.get("body", body)),
    ]
    return SegmentSpec([DOCS], changes, checksum=options.get("checksum", True)).to_bytes()


@pytest.mark.parametrize("checksum", [True, False])
def test_full_and_partial_documents_side_by_side(checksum: bool) -> None:
    """Bits stand for JSON columns only; options 0 have none; NULL needs none."""
    old = [1, {"a": 1}, "n", [1]]
    content = partial(
        [
            (old, 1, [True, False], [1, DIFF, "m", [2]]),
            (old, 1, [False, True], [1, {"x": 1}, None, b"\2\4$[0]"]),
            (old, 1, [True, True], [2, DIFF + DIFF, "m", b""]),
            (old, 1, [True, True], [2, None, "m" * 300, b"\1\4$[0]" + lenenc(3) + to_binary(0)]),
            (old, 0, [], [1, None, None, {"y": []}]),
        ],
        checksum=checksum,
    )
    rows = [row for row in made_plain(content, "shop.docs") if row.op == 2]
    assert all(row.before == old for row in rows)
    assert [row.after for row in rows] == [
        [1, {"a": 2}, "m", [2]],
        [1, {"x": 1}, None, []],
        [2, {"a": 2}, "m", [1]],
        [2, None, "m" * 300, [0, 1]],
        [1, None, None, {"y": []}],
    ]


OLD = [1, {"a": 1}, "n", [1]]


@pytest.mark.parametrize(
    "content, error, message",
    [
        (partial([(OLD, 2, [], OLD)]), Truncated, "row 0 of shop.docs: a partial update whose parts do not fit"),
        (partial([(OLD, 1, [True, False], [1, DIFF + b"\0", None, None])]), DecodeError, "one: JSON of"),
        (partial([(OLD, 1, [True, False], [1, DIFF.replace(b"a", b"b"), None, None])]), DecodeError, "no member of"),
        (partial([([1, None, None, None], 1, [True, False], [1, DIFF, None, None])]), DecodeError, "one: .* was NULL"),
        (partial([], body=struct.pack("<IHHH", 100, 0, 1, 2) + b"\3\7\7"), Truncated, "shop.docs: a partial update"),
        (partial([], body=struct.pack("<IHHH", 100, 0, 1, 2) + b"\4\xff"), Truncated, "shop.docs: a partial update"),
        (partial([], body=struct.pack("<IHHH", 100, 0, 1, 2) + b"\4\xff\xff\0"), Truncated, "row 0 of shop.docs"),
    ],
)  # fmt: skip
def test_partial_updates_that_are_refused(content: bytes, error: type[DecodeError], message: str) -> None:
    with pytest.raises(error, match=rf"^{FILE}:\d+: .*{message}"):
        list(made_plain(content, "shop.docs"))


def test_a_partial_update_cut_anywhere_is_refused() -> None:
    event_body = partial([(OLD, 1, [True, True], [1, DIFF, "m", b""])])
    offsets = [match.start() for match in re.finditer(struct.pack("<IHHH", 100, 0, 1, 2), event_body)]
    body = event_body[offsets[-1] : -4 - 31 - 4 - 27 - 20]
    for length in range(14, 60):
        content = partial([], body=body[:length])
        with pytest.raises((Truncated, DecodeError), match=rf"^{FILE}:\d+: "):
            list(made_plain(content, "shop.docs"))


ORDERS = Table("shop.orders", key=["id"], id=types.INT, note=types.VARCHAR(4000))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("at_once", [1, 5000, 64 << 20])
def test_compressed_rows(monkeypatch: pytest.MonkeyPatch, version: int, at_once: int) -> None:
    """Long and short ones mixed, inflated together or a few at a time."""
    monkeypatch.setattr(row_events, "AT_ONCE", at_once)
    changes = [Rows("shop.orders", Insert, [(k, "x" * k * 40) for k in range(n)]) for n in (1, 9, 20, 2)]
    changes.append(Rows("shop.orders", Update, [((k, "x" * k * 40), (k, None)) for k in range(9)]))
    spec = SegmentSpec([ORDERS], changes, rows_version=version, version="11.4.5-MariaDB")
    packed = replace(spec, compressed_rows=256)
    codes = {event[4] for event in packed.events()}
    assert codes >= ({23, 166, 167} if version == 1 else {30, 169, 170})
    pair = [
        [(row.op, row.before, row.after) for row in made_plain(log_spec.to_bytes(), "shop.orders")]
        for log_spec in (spec, packed)
    ]
    assert pair[0] == pair[1]
    assert len(pair[0]) == 41


@pytest.mark.parametrize(
    "code, rest, message",
    [
        (166, b"", "Write_rows_compressed_v1 event: compression head missing"),
        (166, b"\x12", "compression head 12"),
        (167, b"", "Update_rows_compressed_v1 event: compression head missing"),
        (166, compressed_record(b"abc")[:-1], "3 bytes of content announced, another number found"),
    ],
)
def test_compressed_rows_that_are_refused(code: int, rest: bytes, message: str) -> None:
    present = b"\3" * (2 if code == 167 else 1)
    head = struct.pack("<IHH", 100, 0, 1) + b"\2" + present
    first_rows = Rows("shop.orders", Insert, [(1, "a")], last=False)
    content = SegmentSpec([ORDERS], [first_rows, RawEvent(code, head + rest)]).to_bytes()
    with pytest.raises(DecodeError, match=rf"^{FILE}:\d+: shop.orders: .*{message}"):
        list(made_plain(content, "shop.orders"))


def test_compressed_rows_of_other_columns_are_refused() -> None:
    first_rows = Rows("shop.orders", Insert, [(1, "a")], last=False)
    body = struct.pack("<IHH", 100, 0, 1) + b"\3\7" + compressed_record(b"abc")
    with pytest.raises(DecodeError, match="head does not fit its TABLE_MAP"):
        list(made_plain(SegmentSpec([ORDERS], [first_rows, RawEvent(166, body)]).to_bytes(), "shop.orders"))


@pytest.mark.parametrize(
    "code, meta, size",
    [
        (1, 0, 1), (2, 0, 2), (9, 0, 3), (3, 0, 4), (8, 0, 8), (4, 4, 4), (5, 8, 8), (13, 0, 1), (10, 0, 3), (14, 0, 3),
        (7, 0, 4), (11, 0, 3), (12, 0, 8), (17, 0, 4), (17, 3, 6), (18, 0, 5), (18, 6, 8), (19, 0, 3), (19, 5, 6),
        (16, 1, 1), (16, 9, 2), (16, 64, 8), (15, 255, -1), (15, 256, -2), (254, 20, -1), (254, 1020, -2),
        (252, 1, -1), (252, 4, -4), (245, 4, -4), (255, 4, -4), (242, 4, -4), (247, 2, 2), (248, 8, 8),
        (246, 10 << 8 | 2, 5), (246, 65 << 8 | 30, 30), (246, 1 << 8, 1),
    ],
)  # fmt: skip
def test_sizes_of_values(code: int, meta: int, size: int) -> None:
    """Signs and character sets unknown, as where the log tells the least."""
    column = Column("c", code, meta, None, charset=None)
    assert sizes_of(TableDefinition(TableName("s", "t"), (column,))).tolist() == [size]


def test_a_type_whose_size_is_unknown_is_refused_by_name() -> None:
    definition = TableDefinition(TableName("s", "t"), (Column("old", 0, 0),))
    with pytest.raises(Unsupported, match=r"s\.t\.old: values of type decimal before"):
        sizes_of(definition)


def test_a_length_of_too_many_bytes_is_refused_by_name() -> None:
    definition = TableDefinition(TableName("s", "t"), (Column("b", 252, 5),))
    with pytest.raises(DecodeError, match=r"s\.t\.b: a length of 5 bytes"):
        sizes_of(definition)


def test_rows_without_columns_are_not_counted() -> None:
    """They have no bytes: any number of them would fit."""
    event = struct.pack("<IBIIIHIHHHBBB", 0, 30, 1, 32, 0, 0, 100, 0, 1, 2, 1, 0, 7)
    buffer, unit = np.frombuffer(event + bytes(64), np.uint8), np.array([1])
    events = RowEvents(FILE, unit * address_of(buffer), unit * len(event), unit * 30, unit * 4, unit, unit, unit, unit)
    with pytest.raises(Truncated, match="its rows do not end"):
        rows_in(events, TableDefinition(TableName("s", "t"), (Column("id", 3),)))


def test_rows_that_do_not_end_with_their_event_are_not_counted() -> None:
    spec = SegmentSpec([ORDERS], [Rows("shop.orders", Insert, [(1, "a"), (2, "bb")])], checksum=False)
    event = next(event for event in spec.events() if event[4] == 30)
    definition = TableDefinition(TableName("shop", "orders"), (Column("id", 3), Column("note", 15, 16000)))
    buffer = np.frombuffer(event + bytes(64), np.uint8)
    unit = np.array([1])

    def counted(length: int) -> list[int]:
        events = RowEvents(FILE, unit * address_of(buffer), unit * length, unit * 30, unit * 4, unit, unit, unit, unit)
        counts: list[int] = rows_in(events, definition).tolist()
        return counts

    assert counted(len(event)) == [2]
    ends = {len(event) - 9, len(event) - 9 - 8}
    for length in set(range(20, len(event))) - ends:
        with pytest.raises(Truncated, match=rf"^{FILE}:4: shop.orders: its rows do not end"):
            counted(length)
    assert [counted(length) for length in sorted(ends)] == [[0], [1]]


def test_a_compressed_event_of_a_mariadb_server() -> None:
    content = (RECORDED / "mariadb-11.4-transactions.000001").read_bytes()
    rows = [row.after for row in made_plain(content, "recorded.a") if row.op == 1]
    assert rows == [[1, "one"], [2, None], [3, "drei"], [4, "long " * 70], [5, "prepared"]]
