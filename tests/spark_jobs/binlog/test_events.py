"""The listing, beside what two servers showed for the same files."""

import json
import struct
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog.events import Event, list_events
from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated
from tests.segment_spec import UUID, Commit, Insert, RawEvent, Rollback, SegmentSpec, Statement, Table, chunked
from tests.segment_types import INT

FILE = "mysql-bin.000001"
RECORDED = Path(__file__).parents[2] / "recorded"
SPEC = SegmentSpec(
    tables=[Table("shop.orders", key=["id"], id=INT)],
    changes=[Statement("shop", "create table orders (id int)"), Insert("shop.orders", (1,)), Commit(), Rollback()],
)


def listed(content: bytes, size: int = 1 << 20) -> list[Event]:
    return list(list_events(chunked(content, size), FILE))


@pytest.mark.parametrize("size", [1, 37, 1 << 20])
def test_every_event(size: int) -> None:
    events = listed(SPEC.to_bytes(), size)
    first, second, third = (f"{UUID}:{number}" for number in (1, 2, 3))
    assert [(event.type, event.transaction, event.table, event.note) for event in events] == [
        ("Format_desc", None, None, "Server ver: 8.0.36, Binlog ver: 4"),
        ("Previous_gtids", None, None, ""),
        ("Gtid", first, None, ""),
        ("Query", first, None, "use `shop`; create table orders (id int)"),
        ("Gtid", second, None, ""),
        ("Query", second, None, "BEGIN"),
        ("Table_map", second, "shop.orders", "table_id: 100 (shop.orders)"),
        ("Write_rows", second, "shop.orders", "table_id: 100 flags: STMT_END_F"),
        ("Xid", second, None, "COMMIT /* xid=44 */"),
        ("Gtid", third, None, ""),
        ("Query", third, None, "BEGIN"),
        ("Query", third, None, "ROLLBACK"),
        ("Rotate", None, None, "mysql-bin.000002;pos=4"),
    ]
    assert [event.offset for event in events] + [events[-1].stop] == SPEC.offsets()
    assert [event.stop for event in events] == SPEC.offsets()[1:]
    assert {event.server_id for event in events} == {1}


@pytest.mark.parametrize("name", ["mysql-8.0-transactions", "mariadb-11.4-transactions"])
def test_as_the_server_shows_it(name: str) -> None:
    """Offsets, types and server ids are SHOW BINLOG EVENTS'; ends too, where the server still writes them."""
    shown = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    events = listed((RECORDED / f"{name}.000001").read_bytes(), 999)
    assert [[event.offset, event.type, event.server_id] for event in events] == [row[:3] for row in shown]
    assert [event.stop for event, row in zip(events, shown, strict=True) if row[3]] == [
        row[3] for row in shown if row[3]
    ]
    for event, (_, kind, _, _, note) in zip(events, shown, strict=True):
        if kind in {"Table_map", "Format_desc", "Rotate", "Xid", "Annotate_rows"} or "_rows_v1" in kind:
            assert event.note == note
        if kind == "Query" and note not in {"BEGIN", "COMMIT"}:
            assert note.partition(" /* xid=")[0].endswith(event.note.partition("`; ")[2] or event.note)
        if kind == "Gtid":
            assert event.transaction is not None
            assert event.transaction in note


def test_mysql_previous_gtids() -> None:
    (previous,) = [
        event.note
        for event in listed((RECORDED / "mysql-8.0-transactions.000001").read_bytes())
        if event.type == "Previous_gtids"
    ]
    assert previous == "e67c8562-e59c-11f1-bf84-02fc00000001:1-60010"


@pytest.mark.parametrize(
    "code, body, note",
    [
        (35, b"\1" + bytes(23) + struct.pack("<QQQQQ", 2, 1, 6, 8, 9), f"{uuid.UUID(int=0)}:1-5:8"),
        (35, b"\1" + bytes(6) + b"\1", "a set with tags"),
        (29, b"\x06select", "# select"),
        (163, b"\2\0\0\0" + bytes([1, 0, 0, 0, 7, 0, 0, 0, 9]) + bytes(7) + bytes(16), "1-7-9,0-0-0"),
        (163, b"\0\0\0\x10", ""),
        (27, b"mysql-bin.000001", ""),
    ],
)
def test_notes(code: int, body: bytes, note: str) -> None:
    events = listed(replace(SPEC, changes=[RawEvent(code, body)]).to_bytes())
    assert events[2].note == note


@pytest.mark.parametrize(
    "code, body",
    [
        (35, b"\1" + bytes(6)),
        (35, b"\1" + bytes(8)),
        (35, b"\1" + bytes(23) + b"\xff" * 8),
        (35, struct.pack("<Q", 1 << 55)),
        (163, b"\1\0\0"),
        (163, b"\2\0\0\0" + bytes(31)),
    ],
)
def test_a_set_of_gtids_that_is_cut(code: int, body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"mysql-bin.000001:\d+: a set of GTIDs of \d+ bytes in \d+"):
        listed(replace(SPEC, changes=[RawEvent(code, body)]).to_bytes())


def test_the_note_of_a_long_set_of_gtids_is_its_length() -> None:
    count = 1 << 16
    body = (
        b"\1"
        + bytes(23)
        + struct.pack("<Q", count)
        + b"".join(struct.pack("<QQ", 2 * k + 1, 2 * k + 2) for k in range(count))
    )
    assert listed(replace(SPEC, changes=[RawEvent(35, body)]).to_bytes())[2].note == f"({len(body) + 23} bytes)"


def test_an_unknown_ignorable_event() -> None:
    events = listed(replace(SPEC, changes=[RawEvent(77, b"x", flags=0x80)]).to_bytes())
    assert (events[2].type, events[2].note) == ("Unknown(77)", "")


def test_a_file_that_ends_inside_an_event() -> None:
    content, places = SPEC.to_bytes(), set(SPEC.offsets()[1:])
    for length in range(len(content)):
        if length in places:
            assert listed(content[:length])[-1].stop == length
            continue
        with pytest.raises(Truncated if length else DecodeError):
            listed(content[:length])


def test_a_broken_event_is_named() -> None:
    content = bytearray(SPEC.to_bytes())
    content[-10] ^= 1
    with pytest.raises(ChecksumMismatch, match=f"^{FILE}:{SPEC.offsets()[-2]}: Rotate event"):
        listed(bytes(content))
