"""What each kind of event does to extraction: it is kept, counted, or stops the run by name. Nothing is passed over."""

import struct
from dataclasses import replace

import pytest

from spark_jobs.errors import DecodeError, Unsupported
from tests.segment_spec import Change, Commit, Insert, RawEvent, Rows
from tests.slicing import FILE, SPEC, sliced


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ([RawEvent(26, b"\1\0\0")], Unsupported, "Incident event (type 26): the server says that changes are missing"),
        ([RawEvent(164, bytes(17))], Unsupported, "Start_encryption event (type 164): a MariaDB log encrypted"),
        ([RawEvent(20, bytes(20))], Unsupported, "Write_rows_event_old event (type 20): logs this old are not read"),
        ([RawEvent(99, b"x")], Unsupported, "event type 99 is not known"),
        ([RawEvent(30, bytes(12), transaction=True)], DecodeError, "of a table id that no TABLE_MAP"),
        (
            [Insert("shop.orders", (1, "a")), RawEvent(33, bytes(42))],
            DecodeError,
            "inside the transaction begun at 158",
        ),
        ([Insert("shop.orders", (1, "a")), RawEvent(4, bytes(8))], DecodeError, "Rotate event (type 4) inside"),
        ([Commit(), RawEvent(15, bytes(100))], DecodeError, "is this a relay log?"),
        ([RawEvent(33, bytes(20))], DecodeError, "Gtid event (type 33) of 43 bytes"),
        ([RawEvent(2, bytes(12))], DecodeError, "Query event (type 2) of 35 bytes"),
        ([RawEvent(2, bytes(11) + b"\xff\xff" + bytes(9))], DecodeError, "Query event (type 2)"),
        ([RawEvent(19, bytes(9), transaction=True)], DecodeError, "Table_map event (type 19) of 32 bytes"),
        (
            [RawEvent(19, bytes(8) + b"\x09abc" + bytes(4), transaction=True)],
            DecodeError,
            "TABLE_MAP: no schema and table",
        ),
        ([RawEvent(42, b"\x02\x20" + bytes(30))], DecodeError, "Gtid_tagged event (type 42)"),
    ],
)
def test_what_stops(changes: list[Change], error: type[Exception], message: str) -> None:
    spec = replace(SPEC, changes=changes)
    place = spec.offsets()[[event[4] for event in spec.events()].index(_code(changes), _skipped(changes))]
    with pytest.raises(error) as caught:
        sliced(spec.to_bytes())
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"{FILE}:{place}: ")
    assert message in str(caught.value)


def _skipped(changes: list[Change]) -> int:
    """Events before the first that may be the broken one: the file head, and the transaction put before it."""
    return 2 if isinstance(changes[0], RawEvent) else 5


def _code(changes: list[Change]) -> int:
    return next(change.code for change in changes if isinstance(change, RawEvent))


def test_an_ignorable_event_is_counted() -> None:
    unknown = RawEvent(99, b"x", flags=0x80)
    content = replace(SPEC, changes=[unknown, Insert("shop.orders", (1, "a")), unknown, Commit()]).to_bytes()
    rows, _ = sliced(content)
    assert [(row["kind"], row["ignored"]) for row in rows] == [("control", 1), ("rows", 1), ("control", 0)]


def test_a_payload_may_touch_any_table() -> None:
    spec = replace(SPEC, changes=[Insert("shop.orders", (1, "a")), Commit()])
    gtid = spec.events()[2]
    payload = RawEvent(33, gtid[19:-4]), RawEvent(40, b"\0" * 30)
    rows, _ = sliced(replace(spec, changes=[*spec.changes, *payload]).to_bytes())
    assert [(row["kind"], row["tables"], row["transactions"]) for row in rows[1:-1]] == [("rows", None, 2)]


def test_rows_of_unread_kinds_are_kept() -> None:
    """PARTIAL_UPDATE_ROWS and MariaDB's compressed rows: their slices name the tables; decoding refuses them."""
    for code in (39, 166, 171):
        body = struct.pack("<IHH", 100, 0, 1) + b"anything"
        begun = Rows("shop.orders", Insert, [(1, "a")], last=False)
        rows, _ = sliced(replace(SPEC, changes=[begun, RawEvent(code, body), Commit()]).to_bytes())
        assert [(row["kind"], row["tables"]) for row in rows[1:-1]] == [
            ("rows", [{"schema": "shop", "table": "orders"}])
        ]


def test_a_dummy_row_event_closes_the_maps() -> None:
    dummy = RawEvent(30, struct.pack("<IHH", 0xFFFFFF, 0, 1) + bytes(3), transaction=True)
    content = replace(SPEC, changes=[Rows("shop.orders", Insert, [(1, "a")], last=False), dummy, Commit()]).to_bytes()
    rows, _ = sliced(content)
    assert (rows[1]["events"], rows[1]["ignored"]) == (6, 1)
