"""Events that are passed over: what is left decodes as before, whatever the slice."""

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Decoder, Slicer, TableName, definitions_of, events_of, passed_over
from spark_jobs.errors import DecodeError
from tests.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Table, Update
from tests.segment_types import INT

T = Table("shop.t", key=["id"], id=INT.NOT_NULL, v=INT)
U = Table("shop.u", key=["id"], id=INT.NOT_NULL, v=INT)
CHANGES: list[Change] = [
    *(Insert("shop.t", (1, 1)), Insert("shop.u", (7, 7)), Commit()),
    *(Update("shop.t", (1, 1), (1, 2)), Commit()),
    *(Insert("shop.t", (3, 3)), Delete("shop.t", (3, 3)), Commit()),
]
FILE = "a.000001"
Slice = tuple[int, bytes | None, bytes]


def slices(spec: SegmentSpec, target: int) -> list[Slice]:
    slicer = Slicer(FILE, 0, None, target=target)
    cut = [*slicer.feed(spec.to_bytes()), *slicer.finish()]
    names = ("start", "context", "payload")
    return [row for one in cut for row in zip(*(one.column(name).to_pylist() for name in names), strict=True)]


def decoded(held: list[Slice], skip: set[int]) -> dict[str, list[tuple[int, int, int]]]:
    """By table: operation, id and v of each change, without the events at these offsets."""
    found: dict[str, list[tuple[int, int, int]]] = {"t": [], "u": []}
    for start, context, payload in held:
        inside = [one for one in skip if start <= one < start + len(payload)]
        plain = passed_over(FILE, start, payload, inside) if inside else payload
        assert len(plain) == len(payload)
        for definition in definitions_of(FILE, start, context, payload):
            begun: dict[str, Any] = {"committed_us": 0, "transaction_start": start}
            for one in Decoder(definition).decode(FILE, start, context, pa.py_buffer(plain), **begun):
                rows = zip(one.op.to_pylist(), one.after.to_pylist(), strict=True)
                found[definition.name.table] += [(op, row["id"], row["v"]) for op, row in rows]
    return found


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("target", [1, 1 << 20])
def test_each_event_of_rows_can_be_left_out_alone(checksum: bool, target: int) -> None:
    held = slices(SegmentSpec([T, U], CHANGES, checksum=checksum), target)
    events = [one for start, context, payload in held for one in events_of(FILE, start, context, payload)]
    rows = [one for one in events if one.may_stop]
    whole = decoded(held, set())
    assert [one.table and one.table.table for one in rows] == ["t", "u", "t", "t", "t"]
    for at, event in enumerate(rows):
        assert event.table
        left = {name: list(found) for name, found in whole.items()}
        del left[event.table.table][sum(one.table == event.table for one in rows[:at])]
        assert decoded(held, {event.offset}) == left
    assert decoded(held, {one.offset for one in rows}) == {"t": [], "u": []}


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_a_compressed_transaction_goes_as_one(target: int) -> None:
    spec = SegmentSpec([T, U], CHANGES, payload=lambda nth: "zstd" if nth == 2 else None)
    held = slices(spec, target)
    events = [one for start, context, payload in held for one in events_of(FILE, start, context, payload)]
    (packed,) = [one for one in events if one.type == "Transaction_payload"]
    assert (packed.may_stop, packed.table) == (True, None)
    whole = decoded(held, set())
    assert decoded(held, {packed.offset}) == whole | {"t": [one for one in whole["t"] if one != (2, 1, 2)]}


def test_a_place_without_an_event_is_none() -> None:
    start, context, payload = slices(SegmentSpec([T, U], CHANGES), 1 << 20)[-2]
    inside = events_of(FILE, start, context, payload)[0].offset + 1
    with pytest.raises(DecodeError, match=rf"^a\.000001:{inside}: an event is to be passed over here, and none begins"):
        passed_over(FILE, start, payload, [inside])


def test_events_are_named_with_their_tables() -> None:
    held = slices(SegmentSpec([T], [Insert("shop.t", (1, 1)), Commit()]), 1 << 20)
    found = [one for start, context, payload in held for one in events_of(FILE, start, context, payload)]
    assert [(one.type, one.table) for one in found if one.may_stop] == [("Write_rows", TableName("shop", "t"))]
    assert {one.type for one in found} >= {"Table_map", "Gtid", "Xid", "Query"}
