"""Events that are passed over: what is left decodes as before, whatever the slice."""

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Decoder, Slicer, TableName, definitions_of, events_of, passed_over
from spark_jobs.errors import DecodeError
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Table, Update
from tests.binlogs.segment_types import INT

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
    return [row for batch in cut for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True)]


def decoded(slice_list: list[Slice], skip: set[int]) -> dict[str, list[tuple[int, int, int]]]:
    """By table: operation, id and v of each change, without the events at these offsets."""
    rows_by_table: dict[str, list[tuple[int, int, int]]] = {"t": [], "u": []}
    for start, context, payload in slice_list:
        inside = [offset for offset in skip if start <= offset < start + len(payload)]
        plain = passed_over(FILE, start, payload, inside) if inside else payload
        assert len(plain) == len(payload)
        for definition in definitions_of(FILE, start, context, payload):
            transaction: dict[str, Any] = {"committed_us": 0, "transaction_start": start}
            for changes in Decoder(definition).decode(FILE, start, context, pa.py_buffer(plain), **transaction):
                rows = zip(changes.op.to_pylist(), changes.after.to_pylist(), strict=True)
                rows_by_table[definition.name.table] += [(op, row["id"], row["v"]) for op, row in rows]
    return rows_by_table


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("target", [1, 1 << 20])
def test_each_event_of_rows_can_be_left_out_alone(checksum: bool, target: int) -> None:
    cut_slices = slices(SegmentSpec([T, U], CHANGES, checksum=checksum), target)
    events = [event for start, context, payload in cut_slices for event in events_of(FILE, start, context, payload)]
    rows = [event for event in events if event.may_stop]
    all_rows = decoded(cut_slices, set())
    assert [row.table and row.table.table for row in rows] == ["t", "u", "t", "t", "t"]
    for at, event in enumerate(rows):
        assert event.table
        remaining = {name: list(row_list) for name, row_list in all_rows.items()}
        del remaining[event.table.table][sum(row.table == event.table for row in rows[:at])]
        assert decoded(cut_slices, {event.offset}) == remaining
    assert decoded(cut_slices, {row.offset for row in rows}) == {"t": [], "u": []}


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_a_compressed_transaction_goes_as_one(target: int) -> None:
    spec = SegmentSpec([T, U], CHANGES, payload=lambda nth: "zstd" if nth == 2 else None)
    cut_slices = slices(spec, target)
    events = [event for start, context, payload in cut_slices for event in events_of(FILE, start, context, payload)]
    (packed,) = [event for event in events if event.type == "Transaction_payload"]
    assert (packed.may_stop, packed.table) == (True, None)
    all_rows = decoded(cut_slices, set())
    assert decoded(cut_slices, {packed.offset}) == all_rows | {"t": [row for row in all_rows["t"] if row != (2, 1, 2)]}


def test_a_place_without_an_event_is_none() -> None:
    start, context, payload = slices(SegmentSpec([T, U], CHANGES), 1 << 20)[-2]
    inside = events_of(FILE, start, context, payload)[0].offset + 1
    with pytest.raises(DecodeError, match=rf"^a\.000001:{inside}: an event is quarantined here, and none begins"):
        passed_over(FILE, start, payload, [inside])


def test_events_are_named_with_their_tables() -> None:
    cut_slices = slices(SegmentSpec([T], [Insert("shop.t", (1, 1)), Commit()]), 1 << 20)
    events = [event for start, context, payload in cut_slices for event in events_of(FILE, start, context, payload)]
    assert [(event.type, event.table) for event in events if event.may_stop] == [("Write_rows", TableName("shop", "t"))]
    assert {event.type for event in events} >= {"Table_map", "Gtid", "Xid", "Query"}
