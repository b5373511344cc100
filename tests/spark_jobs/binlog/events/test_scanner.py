"""The walk over events: GTIDs of all kinds, known maps, a slice opened by itself."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.events.format_description import FormatDescription
from spark_jobs.binlog.events.scanner import EventScanner, TableMaps, map_name, open_slice
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated
from tests.binlogs.segment_spec import (
    MAGIC,
    SID,
    UUID,
    Change,
    Commit,
    Insert,
    Query,
    RawEvent,
    Rollback,
    SegmentSpec,
    Statement,
    Table,
    reframed,
    varlen,
)
from tests.binlogs.segment_types import INT, VARCHAR

FILE = "mysql-bin.000001"
ORDERS = Table("shop.orders", key=["id"], id=INT, note=VARCHAR(40))
SPEC = SegmentSpec(tables=[ORDERS], changes=[Insert("shop.orders", (1, "a")), Commit()])


def signed(number: int) -> bytes:
    return varlen(number << 1 if number >= 0 else (-(number + 1) << 1) | 1)


def tagged(number: int, tag: str, committed: int, extra: bytes = b"") -> bytes:
    """A GTID_TAGGED_LOG event's body: numbered fields behind version, size and the last field that must be known."""
    fields = varlen(0) + varlen(1)
    fields += varlen(1) + b"".join(varlen(byte) for byte in SID)
    fields += varlen(2) + signed(number)
    fields += varlen(3) + varlen(len(tag)) + tag.encode()
    fields += varlen(4) + signed(7) + varlen(5) + signed(8)
    fields += varlen(6) + varlen(committed) + extra
    size = next(size for size in range(256) if 2 + len(varlen(size)) + len(fields) == size)
    return varlen(1) + varlen(size) + varlen(0) + fields


@given(
    number=st.integers(1, 2**63 - 2),
    tag=st.text("abc_9", min_size=1, max_size=32),
    committed=st.integers(0, 2**55 - 1),
    later=st.booleans(),
)
def test_tagged_gtid(number: int, tag: str, committed: int, later: bool) -> None:
    body = tagged(number, tag, committed, varlen(8) + varlen(500) + varlen(99) + b"anything" if later else b"")
    spec = replace(SPEC, changes=[RawEvent(42, body), Statement("shop", "drop table x")])
    events = spec.events()
    del events[3]  # the GTID that Statement writes
    _, scan = open_slice(FILE, 0, None, MAGIC + b"".join(events), TableMaps())
    assert scan.gtid(0) == f"{UUID}:{tag}:{number}"
    assert scan.transactions[0, event_cells.TX_COMMITTED] == committed


def test_a_tagged_gtid_cut_short() -> None:
    body = tagged(5, "tag", 1_700_000_000_000_000)
    for length in range(len(body)):
        event = RawEvent(42, body[:length])
        with pytest.raises(DecodeError, match="Gtid_tagged_log_event event"):
            open_slice(FILE, 0, None, replace(SPEC, changes=[event]).to_bytes(), TableMaps())


@pytest.mark.parametrize(
    "flags, standalone, xa",
    [(0, False, False), (1, True, False), (0x0C, False, False), (0x40, False, True), (0x81, True, True)],
)
def test_mariadb_gtid(flags: int, standalone: bool, xa: bool) -> None:
    body = struct.pack("<QIB", 2**63 + 5, 3, flags) + bytes(6)
    spec = replace(SPEC, version="11.4.5-MariaDB-log", changes=[RawEvent(162, body)], rotate_to="", server_id=9)
    scanner, scan = open_slice(FILE, 0, None, spec.to_bytes(), TableMaps())
    assert scan.gtid(0) == f"3-9-{2**63 + 5}"
    assert scanner.undecided == standalone
    assert bool(scan.transactions[0, event_cells.TX_FLAGS] & event_cells.TX_XA) == xa
    assert scan.transactions[0, event_cells.TX_COMMITTED] == spec.second * 1_000_000


@pytest.mark.parametrize(
    "flags, before, extra, has_effect",
    [
        (0x29, b"", b"\0" * 6, True),
        (0x29, b"", b"\2" + b"\0" * 5, False),
        (0x29, b"", b"\4" + struct.pack("<Q", 4), True),
        (0x29, b"", b"\x08" + struct.pack("<Q", 7), False),
        (0x29, b"", b"\x0b\1" + struct.pack("<Q", 7), False),  # several engines
        (0x2B, struct.pack("<Q", 2), b"", True),  # a group commit, whose number is like a flag
        (0x2B, struct.pack("<Q", 2), b"\2", False),
        (0xA9, struct.pack("<IBB", 1, 2, 1) + b"\2\2\2", b"", True),  # an XID, whose bytes are
        (0xA9, struct.pack("<IBB", 1, 2, 1) + b"abc", b"\x08" + bytes(8), False),
        (0xA9, b"", b"\0" * 5, True),
    ],
)
def test_mariadb_alter_in_two_phases(flags: int, before: bytes, extra: bytes, has_effect: bool) -> None:
    """Laid out as MariaDB 11.4.5 writes START ALTER, COMMIT ALTER and ROLLBACK ALTER."""
    gtid = RawEvent(162, struct.pack("<QIB", 5, 0, flags) + before + extra)
    changes: list[Change] = [gtid, Query("shop", "ALTER TABLE orders ADD COLUMN c INT")]
    spec = replace(SPEC, version="11.4.5-MariaDB-log", changes=changes, rotate_to="")
    _, scan = open_slice(FILE, 0, None, spec.to_bytes(), TableMaps())
    statements = scan.mark & event_cells.MARK_STATEMENT != 0
    assert statements.any() == has_effect
    assert scan.transactions[0, event_cells.TX_STOP] == len(spec.to_bytes()), "it is a transaction all the same"


@pytest.mark.parametrize("gtids, times", [(True, True), (True, False), (False, True), (False, False)])
def test_mysql_gtid(gtids: bool, times: bool) -> None:
    spec = replace(SPEC, gtids=gtids, commit_times=times)
    _, scan = open_slice(FILE, 0, None, spec.to_bytes(), TableMaps())
    assert scan.gtid(0) == (f"{UUID}:1" if gtids else None)
    assert scan.transactions[0, event_cells.TX_COMMITTED] == spec.second * 1_000_000 + (250_000 if times else 0)


@pytest.mark.parametrize(
    "changes, flags",
    [
        ([Insert("shop.orders", (1, "a")), Commit()], event_cells.TX_HAS_ROWS),
        ([Insert("shop.orders", (1, "a")), Rollback()], event_cells.TX_HAS_ROWS | event_cells.TX_ROLLED_BACK),
        ([Rollback()], event_cells.TX_ROLLED_BACK),
        (
            [Statement("", "XA START X'61',X'',1"), Insert("shop.orders", (1, "a"))],
            event_cells.TX_HAS_ROWS | event_cells.TX_XA,
        ),
        ([Statement("", "XA COMMIT X'61',X'',1")], event_cells.TX_XA),
        ([Statement("shop", "drop table x")], 0),
    ],
)
def test_flags_of_a_transaction(changes: list[Change], flags: int) -> None:
    _, scan = open_slice(FILE, 0, None, replace(SPEC, changes=changes).to_bytes(), TableMaps())
    assert scan.transactions[:, event_cells.TX_FLAGS].tolist() == [flags]


def test_columns_of_a_scan() -> None:
    scanner, scan = open_slice(FILE, 0, None, SPEC.to_bytes(), TableMaps())
    assert scan.code.tolist() == [15, 35, 33, 2, 19, 30, 16, 4]
    assert scan.offset.tolist() == SPEC.offsets()[:-1]
    assert scan.table.tolist() == [-1, -1, -1, -1, 0, 0, -1, -1]
    assert scan.transaction.tolist() == [-1, -1, 0, 0, 0, 0, 0, -1]
    assert scan.mark.tolist() == [4, 4, 1, 0, 0, 16 | 32, 2, 4]
    assert scan.transactions[0, : event_cells.TX_GTID].tolist() == [SPEC.offsets()[2], SPEC.offsets()[7]]
    assert (scanner.inside, scan.end, len(scan)) == (False, len(SPEC.to_bytes()), 8)


def test_known_maps_are_found_among_many() -> None:
    tables = [Table(f"shop.t{k}", id=INT) for k in range(1000)]
    changes = [Insert(table.name, (k,)) for k, table in enumerate([*tables, *reversed(tables)])]
    maps = TableMaps()
    _, scan = open_slice(FILE, 0, None, SegmentSpec(tables=tables, changes=changes).to_bytes(), maps)
    ordinals = scan.table[scan.code == 30]
    assert len(maps) == 1000
    assert np.array_equal(ordinals, [*range(1000), *reversed(range(1000))])
    assert maps.names[17] == ("shop", "t17")


def test_a_map_that_differs_in_one_byte_is_another() -> None:
    """Bodies are compared by their bytes: two tables of one name after an ALTER, and table ids that do not count."""
    maps = TableMaps()
    for k, table in enumerate([ORDERS, Table("shop.orders", key=["id"], id=INT, note=VARCHAR(41)), ORDERS]):
        spec = replace(SPEC, tables=[table], first_table_id=100 + k)
        open_slice(FILE, 0, None, spec.to_bytes(), maps)
    assert maps.names == [("shop", "orders")] * 2


@pytest.mark.parametrize(
    "body", [b"", bytes(8), bytes(8) + b"\3abcd\0\0", bytes(8) + b"\3abc\0\3de", bytes(8) + b"\3ab\xff\0\1d\0"]
)
def test_no_name_in_it(body: bytes) -> None:
    with pytest.raises((IndexError, UnicodeDecodeError)):
        map_name(body)


def test_map_name() -> None:
    assert map_name(ORDERS.body(7)) == ("shop", "orders")


def test_a_slice_inside_a_transaction() -> None:
    """Table maps come from the context; GTID and time are the caller's to know."""
    content, offsets = SPEC.to_bytes(), SPEC.offsets()
    head = FormatDescription.parse(content[4 : offsets[1]], FILE).event
    context, payload = head + content[offsets[4] : offsets[5]], content[offsets[5] : offsets[7]]
    scanner, scan = open_slice(FILE, offsets[5], context, payload, TableMaps(), transaction_start=158, committed_us=77)
    assert scan.table.tolist() == [0, -1]
    assert scan.transaction.tolist() == [0, 0]
    assert scan.transactions[0, [event_cells.TX_START, event_cells.TX_GTID, event_cells.TX_COMMITTED]].tolist() == [
        158,
        4,
        77,
    ]
    assert scan.gtid(0) is None
    assert not scanner.inside


def test_a_slice_cut_short() -> None:
    content = SPEC.to_bytes()
    offsets = set(SPEC.offsets())
    for length in range(4, len(content)):
        if length in offsets and length > 4:
            open_slice(FILE, 0, None, content[:length], TableMaps())
            continue
        with pytest.raises(Truncated):
            open_slice(FILE, 0, None, content[:length], TableMaps())


def test_a_slice_without_context() -> None:
    with pytest.raises(DecodeError, match=f"{FILE}:158: a slice that begins inside a file needs a context"):
        open_slice(FILE, 158, None, b"", TableMaps())


def test_an_event_longer_than_a_server_writes() -> None:
    content = bytearray(SPEC.to_bytes())
    offset = SPEC.offsets()[3]
    content[offset + 9 : offset + 13] = struct.pack("<I", 0x7FFFFFFF)
    with pytest.raises(DecodeError, match=f"{FILE}:{offset}: Query event .type 2. of 2147483647 bytes"):
        open_slice(FILE, 0, None, bytes(content), TableMaps())


def test_offsets_beyond_4_gib() -> None:
    """A header's own position has 32 bits; what is said here is counted."""
    spec = replace(SPEC, checksum=True)
    events = spec.events()
    far = 5 << 32
    _, scan = open_slice(FILE, far, events[0], b"".join(events[2:7]), TableMaps())
    assert scan.transactions[0, event_cells.TX_START] == far
    broken = reframed(events[2], body=bytes(5))
    with pytest.raises(DecodeError, match=f"{FILE}:{far}: "):
        open_slice(FILE, far, events[0], broken, TableMaps())


def test_more_events_than_there_was_room_for() -> None:
    """Room is made for a guess at their number: these are smaller than it expects."""
    begin, *_ = replace(SPEC, checksum=False, gtids=False).events()
    small = struct.pack("<IBIIIH", 0, 27, 1, 19, 0, 0)
    _, scan = open_slice(FILE, 0, None, MAGIC + begin + small * 20_000, TableMaps())
    assert (len(scan), scan.length[1:].tolist()) == (20_001, [19] * 20_000)
    assert scan.offset[1:].tolist() == [*range(4 + len(begin), 4 + len(begin) + 19 * 20_000, 19)]


def test_what_stands_before_damage_is_scanned() -> None:
    content = bytearray(SPEC.to_bytes())
    content[SPEC.offsets()[6] + 25] ^= 1
    scanner = EventScanner(FILE, FormatDescription.parse(SPEC.events()[0], FILE))
    scan = scanner.scan(bytes(content), 0, 4)
    assert (len(scan), scan.end) == (6, SPEC.offsets()[6])
    assert isinstance(scan.error, ChecksumMismatch)
    with pytest.raises(ChecksumMismatch):
        EventScanner(FILE, FormatDescription.parse(SPEC.events()[0], FILE)).scan_all(bytes(content), 0, 4)
