"""Compressed transactions opened: what is inside, and what is said of those that are damaged."""

import resource
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog.events import compression, transaction_payload
from spark_jobs.binlog.events.scanner import Scan, TableMaps, open_slice
from spark_jobs.binlog.events.table_map import parse_table_map
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.events.types import type_name
from spark_jobs.binlog.kernels import event_cells
from spark_jobs.errors import DecodeError, Unsupported
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Insert,
    Query,
    RawEvent,
    Rollback,
    Rows,
    SegmentSpec,
    Table,
    payload_body,
)
from tests.binlogs.segment_types import INT, VARCHAR

FILE = "mysql-bin.000001"
ORDERS = Table("shop.orders", key=["id"], id=INT, note=VARCHAR(4000))
PACKED = SegmentSpec([ORDERS], [Insert("shop.orders", (1, "a")), Commit()] * 3, payload=lambda _: "zstd")


def opened(content: bytes) -> tuple[list[list[str]], Scan, TableMaps]:
    """Names of the events inside, a list a payload event."""
    maps = TableMaps()
    scanner, scan = open_slice(FILE, 0, None, content, maps)
    names: dict[int, list[str]] = {}
    for part in Payloads(FILE, scanner.format, maps).open(scan):
        for code, outer in zip(part.inner.code.tolist(), part.outer.tolist(), strict=True):
            names.setdefault(outer, []).append(type_name(code))
    return list(names.values()), scan, maps


INSIDE = ["Query", "Table_map", "Write_rows", "Xid"]


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("kinds", [("zstd",), ("none",), ("zstd", "none", None)])
def test_what_is_inside(checksum: bool, kinds: tuple[str | None, ...]) -> None:
    spec = replace(PACKED, checksum=checksum, payload=lambda number: kinds[number % len(kinds)])
    names, _, maps = opened(spec.to_bytes())
    assert names == [INSIDE] * (3 if None not in kinds else 2)
    assert len(maps) == 1


@pytest.mark.parametrize("at_once", [1, 50, 200, 1000])
@pytest.mark.parametrize("kind", ["zstd", "none"])
def test_in_parts(monkeypatch: pytest.MonkeyPatch, at_once: int, kind: str) -> None:
    """Whatever the size of a part, events are whole."""
    monkeypatch.setattr(transaction_payload, "AT_ONCE", at_once)
    monkeypatch.setattr(compression, "AT_ONCE", at_once)
    rows = Rows("shop.orders", Insert, [(k, "x" * k) for k in range(20)])
    spec = replace(PACKED, changes=[Insert("shop.orders", (1, None)), rows, Commit(), rows], payload=lambda _: kind)
    names, _, _ = opened(spec.to_bytes())
    assert names == [["Query", "Table_map", "Write_rows", "Table_map", "Write_rows", "Xid"], INSIDE]


@pytest.mark.parametrize("checksum", [True, False])
def test_table_maps_are_kept_as_the_file_would_have_them(checksum: bool) -> None:
    spec = replace(PACKED, checksum=checksum)
    content = spec.to_bytes()
    scanner, _ = open_slice(FILE, 0, None, content, TableMaps())
    _, _, maps = opened(content)
    [event] = maps.events
    assert int.from_bytes(event[9:13], "little") == len(event)
    assert str(parse_table_map(event, scanner.format, "f:4")) == "shop.orders (id int, note varchar(4000))"
    outside = replace(spec, payload=lambda _: None).to_bytes()
    assert event[-4:] == zlib.crc32(event[:-4]).to_bytes(4, "little") or not checksum
    assert open_slice(FILE, 0, None, outside, maps)
    assert len(maps) == 1


def test_one_content_size_is_not_said() -> None:
    """MySQL calls the field informational."""
    content = inner_of(PACKED)
    body = payload_body(content, claimed=None)
    assert opened(holding(body))[0] == [INSIDE]


def test_a_field_of_a_later_version_is_passed_over() -> None:
    body = b"\x09\x03abc" + payload_body(inner_of(PACKED))
    assert opened(holding(body))[0] == [INSIDE]


def inner_of(spec: SegmentSpec) -> bytes:
    """The content of the first payload."""
    body = next(event[19:-4] for event in replace(spec, payload=lambda _: "none").events() if event[4] == 40)
    offset = 0
    while body[offset]:
        offset += 2 + body[offset + 1]
    return body[offset + 1 :]


def holding(body: bytes) -> bytes:
    """A file of one transaction, a payload event with that body."""
    gtid = PACKED.events()[2]
    changes = [RawEvent(33, gtid[19:-4]), RawEvent(40, body)]
    return replace(PACKED, changes=changes, payload=lambda _: None).to_bytes()


CONTENT = inner_of(PACKED)
OFFSET = SegmentSpec([ORDERS], [Insert("shop.orders", (1, "a"))], payload=lambda _: "zstd").offsets()[3]


def cut_inside(count: int) -> bytes:
    return payload_body(CONTENT[:-count])


@pytest.mark.parametrize(
    "body, error, message",
    [
        (b"", DecodeError, "header does not make sense"),
        (payload_body(CONTENT)[:6], DecodeError, "header does not make sense"),
        (payload_body(CONTENT) + b"x", DecodeError, "header does not make sense"),
        (payload_body(CONTENT, size=None), DecodeError, "header does not make sense"),
        (payload_body(CONTENT, type=None), DecodeError, "header does not make sense"),
        (payload_body(CONTENT, size=10), DecodeError, "header does not make sense"),
        (b"\xfb" + payload_body(CONTENT), DecodeError, "header does not make sense"),
        (payload_body(CONTENT, type=3), Unsupported, "compression type 3 is not known"),
        (payload_body(CONTENT, claimed=len(CONTENT) - 1), DecodeError, ""),
        (payload_body(CONTENT, claimed=len(CONTENT) + 1), DecodeError, ""),
        (payload_body(CONTENT, claimed=1 << 40), DecodeError, "bytes of content announced, another number found"),
        (payload_body(CONTENT, "none", type=0, claimed=len(CONTENT)), DecodeError, ""),
        (payload_body(CONTENT, "none", type=0), DecodeError, ""),
        (cut_inside(1), DecodeError, ""),
        (cut_inside(27), DecodeError, "not one whole transaction"),
        (payload_body(CONTENT + CONTENT), DecodeError, "not one whole transaction"),
        (payload_body(CONTENT[: CONTENT.index(b"BEGIN") + 5]), DecodeError, "not one whole transaction"),
        (payload_body(CONTENT[CONTENT.index(b"BEGIN") + 5 :]), DecodeError, None),
        (payload_body(b"\0"), DecodeError, ""),
        (payload_body(struct.pack("<IBIIIH", 0, 40, 1, 19, 0, 0)), DecodeError, "holds another one"),
        (payload_body(struct.pack("<IBIIIH", 0, 26, 1, 19, 0, 0)), Unsupported, "Incident"),
        (payload_body(struct.pack("<IBIIIH", 0, 200, 1, 19, 0, 0)), Unsupported, "event type 200 is not known"),
        (payload_body(struct.pack("<IBIIIH", 0, 2, 1, 5, 0, 0)), DecodeError, "of 5 bytes"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 64 << 20])
def test_what_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: bytes, error: type[DecodeError], message: str | None, at_once: int
) -> None:
    """Whole or in parts, with the place of the payload event."""
    monkeypatch.setattr(transaction_payload, "AT_ONCE", at_once)
    monkeypatch.setattr(compression, "AT_ONCE", at_once)
    if message is None:
        assert opened(holding(body))[0] == [INSIDE[1:]]
        return
    with pytest.raises(error, match=rf"^{FILE}:{OFFSET}: Transaction_payload event: .*{message}"):
        opened(holding(body))


def test_a_damaged_one_among_good_ones_is_named() -> None:
    content = bytearray(replace(PACKED, checksum=False).to_bytes())
    offsets = replace(PACKED, checksum=False).offsets()
    content[offsets[6] - 10] ^= 0xFF  # in the second of three
    with pytest.raises(DecodeError, match=rf"^{FILE}:{offsets[5]}: Transaction_payload event: "):
        opened(bytes(content))


def test_a_place_inside_is_named() -> None:
    """By the payload event, and the byte of its content."""
    spec = replace(PACKED, changes=[Insert("shop.orders", (1, "a")), RawEvent(200, b"")])
    with pytest.raises(
        Unsupported, match=rf"^{FILE}:{spec.offsets()[3]}: Transaction_payload event: byte \d\d+ of its"
    ):
        opened(spec.to_bytes())


@pytest.mark.parametrize(
    "ending, flag",
    [
        ([Rollback()], event_cells.TX_ROLLED_BACK),
        ([Query("", "XA END X'61',X'',1"), RawEvent(38, bytes(13), ends=True)], event_cells.TX_XA),
        ([Commit()], 0),
    ],
)
def test_xa_and_rollback_inside_are_the_transactions(ending: list[Change], flag: int) -> None:
    changes = [Insert("shop.orders", (1, "a")), Query("", "SAVEPOINT s"), *ending]
    _, scan, _ = opened(replace(PACKED, changes=changes).to_bytes())
    assert scan.transactions[:, event_cells.TX_FLAGS].tolist() == [event_cells.TX_HAS_ROWS | flag]


def test_a_statement_beside_rows_is_refused() -> None:
    """No server writes one; its rows and its text could not both be told from outside."""
    spec = replace(PACKED, changes=[Insert("shop.orders", (1, "a")), Query("shop", "INSERT INTO x VALUES (1)")])
    with pytest.raises(Unsupported, match="a statement among other changes"):
        opened(spec.to_bytes())


def test_a_frame_that_claims_much_costs_nothing() -> None:
    """What is allocated follows what comes, not what is claimed."""
    body = payload_body(CONTENT, claimed=900 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DecodeError, match="bytes of content announced"):
        opened(holding(body))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


def test_what_a_server_wrote() -> None:
    """The events inside are those that SHOW BINLOG EVENTS shows behind each payload."""
    file = Path("tests/recorded/mysql-9.7-packed.000001")
    names, _, _ = opened(file.read_bytes())
    assert len(names) == 8
    assert names[0] == ["Query", "Table_map", "Write_rows", "Xid"]
    assert names[-3] == ["Query", "Table_map", "Write_rows", "Query", "XA_prepare"]


def test_the_note() -> None:
    event = PACKED.events()[3]
    note = transaction_payload.payload_note(event, 4, "f:4")
    assert note == f"compression='ZSTD', decompressed_size={len(CONTENT)} bytes"
    assert transaction_payload.payload_note(event[:30], 4, "f:4") == ""
