from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_jobs.binlog import Mark, Marks, SliceMarks, Slicer
from spark_jobs.changes.json_encoding import bytes_at
from tests.binlogs.segment_spec import UUID, Commit, Insert, SegmentSpec, Statement, Table
from tests.binlogs.segment_types import INT

SPEC = SegmentSpec(
    tables=[Table("shop.t", key=["id"], id=INT.NOT_NULL)],
    changes=[
        *(Insert("shop.t", (number,)) for number in range(3)),
        Commit(),
        Statement("shop", "TRUNCATE t"),
        Insert("shop.t", (9,)),
        Commit(),
    ],
    rotate_to="",
)


def slices(spec: SegmentSpec, target: int) -> Iterator[tuple[pa.RecordBatch, SliceMarks]]:
    slicer, marks = Slicer("b.000001", 0, None, target=target), Marks()
    for batch in [*slicer.feed(spec.to_bytes()), *slicer.finish()]:
        for at in range(batch.num_rows):
            yield batch.slice(at, 1), marks.of_slice(batch.slice(at, 1), 0, bytes_at(batch.column("payload"), at))


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_begins_and_ends(target: int) -> None:
    marks_in_order = [mark for _, part in slices(SPEC, target) for mark in part.marks]
    offsets = SPEC.offsets()
    kinds = [event[4] for event in SPEC.events()]
    first = kinds.index(33)
    assert marks_in_order == [
        Mark("begin", offsets[first], f"{UUID}:1"),
        Mark("end", offsets[kinds.index(16)], f"{UUID}:1", 43),
        Mark("statement", offsets[kinds.index(16) + 2], f"{UUID}:2"),
        Mark("begin", offsets[kinds.index(16) + 3], f"{UUID}:3"),
        Mark("end", offsets[-2], f"{UUID}:3", 45),
    ]


@pytest.mark.parametrize("target", [1, 1 << 20])
def test_events_have_the_connection_of_their_transaction(target: int) -> None:
    offsets = SPEC.offsets()
    rows = [offset for offset, event in zip(offsets, SPEC.events(), strict=False) if event[4] == 30]
    marks_in_order: dict[int, tuple[int | None, tuple[int, int]]] = {}
    for cells, marks in slices(SPEC, target):
        start, stop = (cells.column(name)[0].as_py() for name in ("start", "stop"))
        marks_in_order |= {row: (marks.thread(row), marks.stamp(row)) for row in rows if start <= row < stop}
    assert marks_in_order == {row: (7, (1_700_000_000 + 2 * (row == rows[-1]), 1)) for row in rows}


def test_a_compressed_transaction() -> None:
    packed = slices(replace(SPEC, payload=lambda _: "zstd"), 1 << 20)
    marks = next(marks for _, marks in packed if marks.marks)
    begin, end = marks.marks[:2]
    assert (begin.kind, end.kind, end.xid, marks.thread(end.offset)) == ("begin", "end", 43, 7)
