from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.binlog import SliceBytes, Slicer, StatementTexts
from spark_jobs.changes.json_encoding import bytes_at
from tests.binlogs.segment_spec import Change, Commit, Insert, RawEvent, Rows, SegmentSpec, Table
from tests.binlogs.segment_types import INT

NAMES = ("shop.t", "shop.u")
TABLES = [Table(name, key=["id"], id=INT.NOT_NULL) for name in NAMES]


def rows_query(text: str, code: int = 29) -> RawEvent:
    """The event that tells a statement; MySQL's has a byte in front that may be too small for the length."""
    head = bytes([min(len(text), 255)]) if code == 29 else b""
    return RawEvent(code, head + text.encode(), transaction=True)


def spec(*changes: Change, **options: Any) -> SegmentSpec:
    return SegmentSpec(TABLES, changes, rotate_to="", **options)


def texts(spec: SegmentSpec, target: int = 1 << 20) -> dict[tuple[int, int], str | None]:
    """By offset of a row event's first row the statement; of slices as small as ``target`` has them."""
    slicer, reader = Slicer("b.000001", 0, None, target=target), StatementTexts()
    by_position: dict[tuple[int, int], str | None] = {}
    for batch in [*slicer.feed(spec.to_bytes()), *slicer.finish()]:
        for cells in _slices(batch):
            of_slice = reader.of_slice("b.000001", cells)
            by_position |= dict(zip(of_slice.offsets, of_slice.texts, strict=True))
    return by_position


def _slices(batch: Any) -> Iterator[SliceBytes]:
    for at in range(batch.num_rows):
        start, context, first = (batch.column(name)[at].as_py() for name in ("start", "context", "transaction_start"))
        yield SliceBytes(start, context, bytes_at(batch.column("payload"), at), first)


@pytest.mark.parametrize("target", [1, 1 << 20])
@pytest.mark.parametrize("code, version", [(29, "8.0.36"), (160, "11.4.5-MariaDB")])
def test_a_statement_has_the_rows_up_to_its_end(target: int, code: int, version: str) -> None:
    """A second table's event belongs to the same statement where the first is not its last."""
    # Five row events: two of one statement, one without, one of a long text, one of another transaction.
    log = spec(
        rows_query("INSERT INTO t, or both", code),
        Rows("shop.t", Insert, [(1,)], last=False),
        Rows("shop.u", Insert, [(2,)]),
        Insert("shop.t", (3,)),
        rows_query("another, ä" * 40, code),
        Insert("shop.u", (4,)),
        Commit(),
        Insert("shop.u", (5,)),
        Commit(),
        version=version,
    )
    by_position = texts(log, target)
    assert [by_position[offset] for offset in sorted(by_position)] == [
        *["INSERT INTO t, or both"] * 2, None, "another, ä" * 40, None,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["zstd", "none"])
def test_rows_of_a_compressed_transaction_are_told_apart_by_their_number(kind: str) -> None:
    # The row's number counts all tables of a payload.
    log = spec(
        rows_query("first"),
        Rows("shop.t", Insert, [(1,), (2,)], last=False),
        Rows("shop.u", Insert, [(3,)]),
        rows_query("second"),
        Rows("shop.u", Insert, [(4,), (5,)]),
        Commit(),
        payload=lambda _: kind,
    )
    indexes = texts(log)
    (offset,) = {offset for offset, _ in indexes}
    assert {row: text for (_, row), text in indexes.items()} == {0: "first", 2: "first", 3: "second"}
    reader = StatementTexts()
    slicer = Slicer("b.000001", 0, None)
    (cells,) = [cells for batch in [*slicer.feed(log.to_bytes()), *slicer.finish()] for cells in _slices(batch)][-1:]
    of_slice = reader.of_slice("b.000001", cells)
    assert [of_slice.text(offset, row) for row in range(5)] == ["first"] * 3 + ["second"] * 2


def test_a_log_without_texts_has_none() -> None:
    log = spec(Insert("shop.t", (1,)), Commit())
    assert set(texts(log).values()) == {None}
    assert texts(replace(log, changes=[])) == {}
