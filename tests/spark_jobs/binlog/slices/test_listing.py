"""The listing, beside what two servers showed for the same files."""

import json
import struct
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.kernels import event_cells
from spark_jobs.binlog.slices.listing import EVENT_TYPES, Event, _treatment, list_events, summarize
from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated
from tests.binlogs.segment_spec import (
    UUID,
    Change,
    Commit,
    Insert,
    RawEvent,
    Rollback,
    SegmentSpec,
    Statement,
    Table,
    chunked,
)
from tests.binlogs.segment_types import INT

FILE = "mysql-bin.000001"
RECORDED = Path(__file__).parents[3] / "recorded"
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


def test_what_a_payload_holds_follows_it() -> None:
    """With its offset and stop, as part of its transaction."""
    spec = replace(SPEC, changes=SPEC.changes[1:], payload=lambda number: "zstd" if number == 1 else None)
    events = listed(spec.to_bytes(), 99)
    outer = events[3]
    assert [(event.type, event.table, event.note) for event in events[3:8]] == [
        ("Transaction_payload", None, outer.note),
        ("Query", None, "BEGIN"),
        ("Table_map", "shop.orders", "table_id: 100 (shop.orders)"),
        ("Write_rows", "shop.orders", "table_id: 100 flags: STMT_END_F"),
        ("Xid", None, "COMMIT /* xid=43 */"),
    ]
    assert outer.note.startswith("compression='ZSTD', decompressed_size=")
    assert {(event.offset, event.stop, event.transaction) for event in events[3:8]} == {
        (*spec.offsets()[3:5], f"{UUID}:1")
    }
    assert [event.offset for event in events[8:]] == spec.offsets()[4:-1]


def test_payloads_as_the_server_shows_them() -> None:
    """It gives the events inside the payload's end for an offset."""
    expected = json.loads((RECORDED / "mysql-9.7-packed.json").read_text(encoding="utf-8"))
    events = listed((RECORDED / "mysql-9.7-packed.000001").read_bytes())[: len(expected)]
    assert [[event.type, event.server_id, event.stop] for event in events] == [row[1:4] for row in expected]
    inside = [event.offset != row[0] for event, row in zip(events, expected, strict=True)]
    assert [event.stop for event, is_inside in zip(events, inside, strict=True) if is_inside] == [
        row[0] for row, is_inside in zip(expected, inside, strict=True) if is_inside
    ]
    notes = [
        (event.note, row[4]) for event, row in zip(events, expected, strict=True) if event.type == "Transaction_payload"
    ]
    assert len(notes) == 8
    assert all(actual == server_note for actual, server_note in notes)


@pytest.mark.parametrize("name", ["mysql-8.0-transactions", "mariadb-11.4-transactions"])
def test_as_the_server_shows_it(name: str) -> None:
    """Offsets, types and server ids are SHOW BINLOG EVENTS'; ends too, where the server still writes them."""
    expected = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    events = listed((RECORDED / f"{name}.000001").read_bytes(), 999)
    assert [[event.offset, event.type, event.server_id] for event in events] == [row[:3] for row in expected]
    assert [event.stop for event, row in zip(events, expected, strict=True) if row[3]] == [
        row[3] for row in expected if row[3]
    ]
    for event, (_, kind, _, _, note) in zip(events, expected, strict=True):
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
        (35, b"\1" + bytes(6) + b"\1", ""),
        (
            35,
            b"\1\1" + bytes(5) + b"\1" + bytes(16) + b"\x08blue" + struct.pack("<QQQ", 1, 1, 6),
            f"{uuid.UUID(int=0)}:blue:1-5",
        ),
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
        (35, b""),
        (35, b"\2" + bytes(23) + struct.pack("<QQQ", 1, 1, 6)),
        (35, b"\1" + bytes(23) + struct.pack("<QQQ", 2, 1, 6)),
        (35, b"\1" + bytes(23) + struct.pack("<Q", 2**63)),
        (35, struct.pack("<Q", 2**55)),
        (163, b"\1\0\0\0" + bytes(15)),
        (163, b"\xff\xff\xff\x0f" + bytes(16)),
    ],
)
def test_a_set_of_gtids_that_announces_more_than_it_has_is_damaged(code: int, body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^mysql-bin.000001:\d+: (PREVIOUS_GTIDS|GTID_LIST): \d+ bytes are not the"):
        listed(replace(SPEC, changes=[RawEvent(code, body)]).to_bytes())


def test_a_very_long_set_of_gtids_is_not_listed() -> None:
    intervals = 1 << 17
    body = b"\1" + bytes(23) + struct.pack("<Q", intervals) + bytes(16 * intervals)
    event = listed(replace(SPEC, changes=[RawEvent(35, body)]).to_bytes())[2]
    assert (event.type, event.note) == ("Previous_gtids", f"({event.stop - event.offset} bytes)")


def test_an_unknown_ignorable_event() -> None:
    events = listed(replace(SPEC, changes=[RawEvent(77, b"x", flags=0x80)]).to_bytes())
    assert (events[2].type, events[2].note) == ("Unknown(77)", "")


def test_a_file_that_ends_inside_an_event() -> None:
    content, offsets = SPEC.to_bytes(), set(SPEC.offsets()[1:])
    for length in range(len(content)):
        if length in offsets:
            assert listed(content[:length])[-1].stop == length
            continue
        with pytest.raises(Truncated if length else DecodeError):
            listed(content[:length])


def test_a_broken_event_is_named() -> None:
    content = bytearray(SPEC.to_bytes())
    content[-10] ^= 1
    with pytest.raises(ChecksumMismatch, match=f"^{FILE}:{SPEC.offsets()[-2]}: Rotate event"):
        listed(bytes(content))


def recorded_files() -> list[Path]:
    return sorted(RECORDED.glob("*.00????")) + sorted(Path("spark_jobs/demo/recorded_logs").glob("*.00????"))


@pytest.mark.parametrize("file", recorded_files(), ids=lambda file: file.name)
@pytest.mark.parametrize("size", [777, 1 << 20])
def test_every_byte_of_a_recorded_file_is_accounted_for(file: Path, size: int) -> None:
    content = file.read_bytes()
    summary = summarize(chunked(content, size), file.name)
    assert (summary.size, summary.magic, summary.rest, summary.error) == (len(content), 4, 0, None)
    assert 4 + sum(type_.bytes for type_ in summary.types) == len(content)
    events = list(
        {event.offset: event for event in reversed(listed(content))}.values()
    )  # payloads, not what is in them
    counts = Counter(event.type for event in events)
    assert {type_.type: type_.events for type_ in summary.types} == counts
    sizes = {name: sum(event.stop - event.offset for event in events if event.type == name) for name in counts}
    assert {type_.type: type_.bytes for type_ in summary.types} == sizes


def test_treatments() -> None:
    changes: list[Change] = [
        Insert("shop.orders", (1,)),
        Commit(),
        RawEvent(27, b"x"),
        RawEvent(77, b"xyz", flags=0x80),
        RawEvent(77, b"", flags=0x80),
    ]
    content = replace(SPEC, changes=changes).to_bytes()
    treatments = {
        type_.type: (type_.treatment, type_.events, type_.bytes) for type_ in summarize(iter([content]), FILE).types
    }
    assert treatments["Unknown(77)"] == ("counted", 2, 2 * 23 + 3)
    assert treatments["Heartbeat"] == ("counted", 1, 24)
    assert treatments["Rotate"][0] == treatments["Previous_gtids"][0] == "counted"
    assert {treatments[name][0] for name in ("Format_desc", "Gtid", "Query", "Table_map", "Write_rows", "Xid")} == {
        "decoded"
    }


def test_every_type_has_a_treatment_and_what_stops_has_none_to_show() -> None:
    treatments = {code: _treatment(code) for code, event in EVENT_TYPES.items() if event.meaning != event_cells.STOPS}
    assert set(treatments.values()) <= {"decoded", "counted"}
    assert all(treatments[code] == "decoded" for code in (23, 24, 25, 30, 31, 32, 38, 39, 40, 166, 171))


@given(data=st.data())
def test_every_byte_of_a_damaged_file_is_accounted_for(data: st.DataObject) -> None:
    content = bytearray(SPEC.to_bytes())
    offset = data.draw(st.integers(0, len(content) - 1))
    content[offset] ^= data.draw(st.integers(1, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    summary = summarize(chunked(bytes(content), data.draw(st.integers(1, 400))), FILE)
    assert summary.magic + sum(type_.bytes for type_ in summary.types) + summary.rest == summary.size == len(content)
    assert (summary.error is None) == (summary.rest == 0 and summary.size > 4)


def test_the_bytes_behind_an_event_that_stops_are_the_rest() -> None:
    spec = replace(SPEC, changes=[Commit(), RawEvent(26, b"\1\0\0"), Commit()])
    offset = spec.offsets()[5]
    summary = summarize(chunked(spec.to_bytes(), 50), FILE)
    assert summary.error is not None
    assert summary.error.startswith(f"{FILE}:{offset}: Incident event")
    assert (summary.rest, sum(type_.bytes for type_ in summary.types)) == (len(spec.to_bytes()) - offset, offset - 4)


def test_a_long_statement_is_noted_by_its_beginning() -> None:
    text = "insert into t values ('" + "ü" * (1 << 20) + "')"
    events = listed(replace(SPEC, changes=[Statement("shop", text)]).to_bytes())
    assert events[3].note.startswith("use `shop`; insert into t values ('üü")
    assert events[3].note.endswith(f" … ({events[3].stop - events[3].offset} bytes)")
    assert len(events[3].note) < 1 << 20


def test_header_positions_are_not_believed() -> None:
    """They wrap at 4 GiB, and MariaDB 11.4 and later write 0 inside transactions."""
    content, offsets = bytearray(replace(SPEC, checksum=False).to_bytes()), replace(SPEC, checksum=False).offsets()
    for number, offset in enumerate(offsets[1:-1]):
        content[offset + 13 : offset + 17] = (b"\0" * 4, b"\xff" * 4, b"\1\0\0\0")[number % 3]
    assert [event.offset for event in listed(bytes(content))] == offsets[:-1]


@pytest.mark.parametrize("length", [0, 18, 22, 0x7FFFFFFF])
def test_an_event_of_a_length_that_cannot_be(length: int) -> None:
    content = bytearray(SPEC.to_bytes())
    offset = SPEC.offsets()[3]
    content[offset + 9 : offset + 13] = struct.pack("<I", length)
    with pytest.raises(DecodeError, match=f"^{FILE}:{offset}: Query event .type 2. of {length} bytes"):
        listed(bytes(content))
