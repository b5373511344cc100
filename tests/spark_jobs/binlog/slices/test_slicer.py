"""Slices: what they hold together, where they are cut, and that nothing is lost. Random files against a plain walk."""

import json
import struct
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.events.scanner import FormatDescription, TableMaps, open_slice
from spark_jobs.binlog.kernels.addresses import CHECKED
from spark_jobs.binlog.slices.slicer import LARGE, Slicer
from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated
from tests.binlogs.segment_spec import (
    UUID,
    Change,
    Commit,
    Delete,
    Insert,
    Query,
    RawEvent,
    Rollback,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
    chunked,
    lenenc,
)
from tests.binlogs.segment_types import INT
from tests.binlogs.slicing import FILE, LINES, ORDERS, SPEC, sliced
from tests.fix_hypothesis import examples

RECORDED = Path(__file__).parents[3] / "recorded"


def brief(content: bytes, *, target: int = 1 << 20) -> list[tuple[str, int, int, str | None]]:
    """(kind, events, transactions ended, statement) of each slice."""
    rows, _ = sliced(content, target=target)
    return [(row["kind"], row["events"], row["transactions"], row["statement"]) for row in rows]


HEAD = ("control", 2, 0, None)
TAIL = ("control", 1, 0, None)
XA_START, XA_PREPARE = Statement("", "XA START X'61',X'',1"), RawEvent(38, bytes(13), ends=True)


@pytest.mark.parametrize(
    "changes, slices",
    [
        ([Insert("shop.orders", (1, "a")), Commit()], [("rows", 5, 1, None)]),
        (
            [Insert("shop.orders", (1, "a")), Commit(), Delete("shop.orders", (1, "a")), Commit()],
            [("rows", 10, 2, None)],
        ),
        ([Statement("shop", "drop table x")], [("statement", 2, 1, "drop table x")]),
        (
            [Insert("shop.orders", (1, "a")), Commit(), Statement("shop", "flush"), Insert("shop.orders", (2, "a"))],
            [("rows", 5, 1, None), ("statement", 2, 1, "flush"), ("rows", 5, 1, None)],
        ),
        (
            [Insert("shop.orders", (1, "a")), Statement("shop", "create temporary table t"), Commit(), Commit()],
            [
                ("rows", 4, 0, None),
                ("statement", 1, 0, "create temporary table t"),
                ("rows", 1, 1, None),
                ("rows", 3, 1, None),
            ],
        ),
        (
            [Commit(), Insert("shop.orders", (1, "a")), Rollback(), Commit()],
            [("rows", 3, 1, None), ("statement", 5, 1, "ROLLBACK"), ("rows", 3, 1, None)],
        ),
        (
            [
                RawEvent(29, b"\1x", transaction=True),
                Query("", "ROLLBACK TO `s`"),
                Insert("shop.orders", (1, "a")),
            ],
            [("rows", 7, 1, None)],
        ),
        (
            [Insert("shop.orders", (1, "a")), Query("", "SAVEPOINT `s`"), Query("", "ROLLBACK TO `s`"), Commit()],
            [("statement", 7, 1, "ROLLBACK TO `s`")],
        ),
        (
            [XA_START, Insert("shop.orders", (1, "a")), Query("", "XA END X'61',X'',1"), XA_PREPARE, Commit()],
            [("statement", 6, 1, XA_START.text), ("rows", 3, 1, None)],
        ),
        ([Statement("", "XA COMMIT X'61',X'',1")], [("statement", 2, 1, "XA COMMIT X'61',X'',1")]),
        ([Query("shop", "create table old (id int)")], [("statement", 1, 1, "create table old (id int)")]),
        (
            [RawEvent(5, bytes(9)), Query("shop", "insert into t values (1)")],
            [("statement", 2, 1, "insert into t values (1)")],
        ),
        ([RawEvent(29, b"\1x", transaction=True), Commit()], [("rows", 4, 1, None)]),
    ],
)
def test_kinds(changes: list[Change], slices: list[tuple[str, int, int, str | None]]) -> None:
    assert brief(replace(SPEC, changes=changes).to_bytes()) == [HEAD, *slices, TAIL]


def test_a_file_without_transactions() -> None:
    assert brief(SPEC.to_bytes()) == [("control", 3, 0, None)]


def test_one_slice() -> None:
    changes: list[Change] = [Statement("shop", "create table orders"), Insert("shop.orders", (1, "a"))]
    content = replace(SPEC, changes=[*changes, Insert("shop.lines", (1, 1)), Commit()]).to_bytes()
    rows, slicer = sliced(content)
    assert (slicer.complete, slicer.pending) == (len(content), 0)
    row = rows[2]
    assert row["gtid"] == f"{UUID}:2"
    assert row["committed_at"].isoformat() == "2023-11-14T22:13:21.250000+00:00"
    assert row["tables"] == [{"schema": "shop", "table": "lines"}, {"schema": "shop", "table": "orders"}]
    assert (row["start"], row["transaction_start"], row["server_id"], row["ignored"]) == (rows[1]["stop"],) * 2 + (1, 0)
    assert [event[19 + 6 : -4] for event in row["maps"]] == [ORDERS.body(0)[6:], LINES.body(0)[6:]]
    assert row["context"] == slicer.format.event
    assert rows[0]["context"] is None
    assert (rows[1]["database"], rows[1]["gtid"]) == ("shop", f"{UUID}:1")


def test_a_known_map_is_given_once() -> None:
    changes = [change for k in range(50) for change in (Insert("shop.orders", (k, "a")), Commit())]
    rows, _ = sliced(replace(SPEC, changes=changes).to_bytes(), target=500, chunk=300)
    assert len(rows) > 10
    assert [len(row["maps"]) for row in rows if row["maps"]] == [1]


@dataclass
class Plain:
    """An event as a plain walk sees it."""

    offset: int
    stop: int
    code: int
    transaction_start: int | None


def walk(content: bytes, footer: int = 4) -> list[Plain]:
    """Every event with the offset of its transaction's first one, by the rules of the files that are generated here."""
    events: list[Plain] = []
    offset, start = 4, None
    while offset < len(content):
        code, length = content[offset + 4], struct.unpack_from("<I", content, offset + 9)[0]
        text = content[offset + 19 : offset + length - footer]
        start = offset if code in {33, 34} else start
        events.append(Plain(offset, offset + length, code, start))
        if code == 16 or (code == 2 and not text.endswith((b"BEGIN", b"in a transaction"))):
            start = None
        offset += length
    return events


names = st.text("abcé\U0001f600", max_size=12)
inserts = st.builds(lambda k, note: Insert("shop.orders", (k, note)), st.integers(-9, 9), names | st.none())
updates = st.builds(lambda k: Update("shop.lines", (k, 1), (k, None)), st.integers(-9, 9))
long_rows = st.builds(
    lambda count, last: Rows("shop.orders", Insert, [(k, "long " * 8) for k in range(count)], last),
    st.integers(1, 40),
    st.booleans(),
)
changes_made = st.lists(
    inserts | updates | long_rows | st.just(Commit()) | st.just(Statement("shop", "in a transaction")), max_size=40
)
files = st.builds(
    lambda changes, checksum, gtids, version: replace(
        SPEC, changes=list(_statements_inside(changes)), checksum=checksum, gtids=gtids, rows_version=version
    ),
    changes_made,
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2]),
)


def _statements_inside(changes: list[Change]) -> Iterator[Change]:
    """Statements with no transaction open become DDL, so that the plain walk can tell them apart by their text."""
    is_open = False
    for change in changes:
        if isinstance(change, Statement) and not is_open:
            yield Statement("shop", "drop table t")
            continue
        is_open = not isinstance(change, Commit)
        yield change


@pytest.mark.slow
@examples(120)
@given(
    spec=files,
    target=st.integers(1, 4000),
    chunk=st.integers(1, 3000),
)
def test_random_files(spec: SegmentSpec, target: int, chunk: int) -> None:
    content = spec.to_bytes()
    rows, slicer = sliced(content, target=target, chunk=chunk)
    assert b"".join(row["payload"] for row in rows) == content
    assert slicer.complete == len(content)
    events = walk(content, 4 if spec.checksum else 0)
    _check_slices(rows, events)
    _check_each_alone(rows, events, content)


def _check_slices(rows: list[dict[str, Any]], events: list[Plain]) -> None:
    starts = {event.offset: event for event in events}
    starts[0] = starts[4]
    for row in rows:
        first = starts[row["start"]]
        inside = [event for event in events if row["start"] <= event.offset < row["stop"]]
        assert row["transaction_start"] == (
            row["start"] if first.transaction_start is None else first.transaction_start
        )
        assert row["events"] == len(inside)
        owners = {event.transaction_start for event in inside}
        if row["transaction_start"] < row["start"]:
            assert owners == {row["transaction_start"]}, "a part of a transaction shares no slice with another"
        assert (row["kind"] == "control") == (owners == {None})


def _check_each_alone(rows: list[dict[str, Any]], events: list[Plain], content: bytes) -> None:
    """A slice by itself, with its context, reads as it does within the whole file."""
    maps = TableMaps()
    _, scan = open_slice(FILE, 0, None, content, maps)
    k = 0
    for row in rows:
        slice_maps = TableMaps()
        _, alone = open_slice(
            FILE, row["start"], row["context"], row["payload"], slice_maps, transaction_start=row["transaction_start"]
        )
        for event in range(len(alone)):
            assert alone.base + alone.offset[event] == events[k].offset == scan.offset[k]
            assert alone.code[event] == events[k].code
            assert alone.mark[event] | 1 == scan.mark[k] | 1
            tables = [maps.names[scan.table[k]]] if scan.table[k] >= 0 else []
            assert ([slice_maps.names[alone.table[event]]] if alone.table[event] >= 0 else []) == tables
            k += 1
    assert k == len(events)


def test_a_large_transaction_is_cut_between_events() -> None:
    row_event_list = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(20)], last=k == 9) for k in range(10)]
    maps_once = [row_event_list[0]]
    content = replace(
        SPEC, changes=[Insert("shop.lines", (1, 1)), Commit(), *maps_once, *row_event_list[1:], Commit()]
    ).to_bytes()
    rows, _ = sliced(content, target=2000)
    parts = [row for row in rows if row["gtid"] == f"{UUID}:2"]
    assert len(parts) > 3
    assert {row["transaction_start"] for row in parts} == {parts[0]["start"]}
    assert [row["transactions"] for row in parts] == [0] * (len(parts) - 1) + [1]
    assert all(len(row["payload"]) >= 2000 for row in parts[:-1])
    assert all(len(row["context"]) > len(rows[1]["context"]) for row in parts[1:-1])


def test_slices_of_an_open_transaction_wait() -> None:
    rows = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(50)]) for k in range(40)]
    content = replace(SPEC, changes=[*rows, Commit()]).to_bytes()
    slicer = Slicer(FILE, 0, None, target=5000)
    end = content.rindex(struct.pack("<Q", 43)) - 19
    before = [row for batch in slicer.feed(content[:end]) for row in batch.to_pylist()]
    assert [row["kind"] for row in before] == ["control"]
    assert slicer.pending == end - slicer.complete > 5000
    after = [row for batch in [*slicer.feed(content[end:]), *slicer.finish()] for row in batch.to_pylist()]
    assert b"".join(row["payload"] for row in before + after) == content


def test_the_last_part_shares_no_slice() -> None:
    """A transaction whose first parts were cut before its end was fed: its rest stays apart from what follows."""
    rows = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(50)]) for k in range(40)]
    content = replace(SPEC, changes=[*rows, Commit(), Insert("shop.lines", (1, 1)), Commit()]).to_bytes()
    parts, _ = sliced(content, target=5000, chunk=5000)
    first, second = ([row for row in parts if row["gtid"] == f"{UUID}:{number}"] for number in (1, 2))
    assert len(first) > 10
    assert {row["transaction_start"] for row in first} == {first[0]["start"]}
    assert [(row["start"] - row["transaction_start"], row["transactions"]) for row in second] == [(0, 1)]


def test_a_statement_stays_with_what_comes_before_it() -> None:
    """Values that a statement will need may be larger than a slice; which kind it is, only its QUERY tells."""
    gtid = replace(SPEC, changes=[Commit()]).events()[2][19:-4]
    values = [RawEvent(14, bytes(3000))] * 3
    changes: list[Change] = [RawEvent(33, gtid), *values, Query("shop", "insert into t values (@a)")]
    parts, _ = sliced(replace(SPEC, changes=changes).to_bytes(), target=1000, chunk=1000)
    assert [(row["kind"], row["events"], row["ignored"]) for row in parts[1:-1]] == [("statement", 5, 3)]


def test_a_large_transaction_rolled_back() -> None:
    """Its end is a statement slice that a reader sees; the parts before it belong to the same transaction."""
    rows = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(50)]) for k in range(4)]
    parts, _ = sliced(replace(SPEC, changes=[*rows, Rollback()]).to_bytes(), target=3000)
    assert [row["statement"] for row in parts if row["kind"] == "statement"][-1] == "ROLLBACK"
    assert len({row["transaction_start"] for row in parts[1:-1]}) == 1
    assert len(parts) > 3


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(CHECKED, reason="200 MB are much for kernels in plain Python")
def test_memory_is_bounded() -> None:
    """200 MB of transactions of 1 MB: what is held at once is a few chunks."""
    spec = replace(SPEC, changes=[Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(150)])] * 150, rotate_to="")
    head, transaction = spec.to_bytes()[: spec.offsets()[2]], spec.to_bytes()[spec.offsets()[2] :]
    slicer = Slicer(FILE, 0, None)
    list(slicer.feed(head))
    count = 200_000_000 // len(transaction)
    tracemalloc.start()
    slices = sum(batch.num_rows for _ in range(count) for batch in slicer.feed(transaction))
    slices += sum(batch.num_rows for batch in slicer.finish())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert slicer.complete == len(head) + count * len(transaction)
    assert slices >= count
    assert peak < 16 * len(transaction)


def test_finish_drops_an_open_transaction() -> None:
    content = replace(SPEC, changes=[Insert("shop.lines", (1, 1)), Commit(), Insert("shop.lines", (2, 1))]).to_bytes()
    rows, slicer = sliced(content[:-80], target=10)
    assert b"".join(row["payload"] for row in rows) == content[: slicer.complete]
    assert slicer.complete + slicer.pending == len(content) - 80
    assert rows[-1]["transactions"] == 1


@pytest.mark.slow
def test_more_than_can_be_held_is_handed_out_open() -> None:
    blob = "x" * (1 << 20)
    body = ORDERS.image((1, None))[:-1]
    event = RawEvent(
        30, struct.pack("<IHHH", 100, 0, 0, 2) + lenenc(2) + b"\xff" + body + blob.encode(), transaction=True
    )
    spec = replace(SPEC, changes=[Rows("shop.orders", Insert, [(1, "x")], last=False), *[event] * 70, Commit()])
    content = spec.to_bytes()
    end = len(content) - 200
    slicer = Slicer(FILE, 0, None)
    rows = [
        row for piece in chunked(content[:end], 4 << 20) for batch in slicer.feed(piece) for row in batch.to_pylist()
    ]
    assert rows[-1]["stop"] > LARGE
    assert slicer.complete < 1000, "the transaction has not ended"
    rows += [row for batch in [*slicer.feed(content[end:]), *slicer.finish()] for row in batch.to_pylist()]
    assert b"".join(row["payload"] for row in rows) == content


SMALL = replace(
    SPEC,
    changes=[Statement("shop", "x"), Insert("shop.orders", (1, "a")), Commit(), Update("shop.lines", (1, 1), (1, 2))],
)


def test_cut_after_every_byte() -> None:
    content = SMALL.to_bytes()
    events = walk(content)
    boundaries = [event.stop for event in events if event.code in {15, 35, 16, 4}] + [events[3].stop]
    for length in range(4, len(content)):
        rows, slicer = sliced(content[:length])
        assert slicer.complete == max([stop for stop in boundaries if stop <= length], default=0)
        assert b"".join(row["payload"] for row in rows) == content[: slicer.complete]
        assert slicer.pending == length - slicer.complete


@pytest.mark.thorough
def test_one_flipped_bit_is_seen() -> None:
    content = SMALL.to_bytes()
    for offset in range(len(content)):
        for bit in (0, 7):
            broken = bytearray(content)
            broken[offset] ^= 1 << bit
            if (offset, bit) == (21, 0):
                continue  # the in-use flag, which is cleared
            _must_fail(bytes(broken), content)


def _must_fail(broken: bytes, content: bytes) -> None:
    try:
        rows, slicer = sliced(broken)
    except DecodeError as error:
        assert str(error).startswith(FILE), error  # noqa: PT017 - either an error or a shorter file
    else:
        assert slicer.complete < len(content), "a longer event than there is"
        assert b"".join(row["payload"] for row in rows) == content[: slicer.complete]


def test_the_in_use_flag_is_cleared() -> None:
    in_use, closed = replace(SMALL, in_use=True).to_bytes(), SMALL.to_bytes()
    assert in_use != closed
    rows, slicer = sliced(in_use)
    assert b"".join(row["payload"] for row in rows) == closed
    assert slicer.format.event == closed[4 : 4 + len(slicer.format.event)]


def test_resumed_at_any_boundary() -> None:
    content = SMALL.to_bytes()
    rows, slicer = sliced(content, target=1)
    for row in rows[1:]:
        if row["transaction_start"] != row["start"]:
            continue
        resumed = Slicer(FILE, row["start"], slicer.format, target=1)
        batches = [*resumed.feed(content[row["start"] :]), *resumed.finish()]
        assert batches[0].column("start")[0].as_py() == row["start"]
        assert batches[0].column("gtid")[0].as_py() == row["gtid"]
        assert (
            b"".join(piece for batch in batches for piece in batch.column("payload").to_pylist())
            == content[row["start"] :]
        )


def test_many_maps_in_one_statement() -> None:
    tables = [Table(f"shop.t{k}", id=INT) for k in range(300)]
    rows = [Rows(table.name, Insert, [(1,)], last=k == 299) for k, table in enumerate(tables)]
    out, _ = sliced(SegmentSpec(tables=tables, changes=[*rows, Commit()]).to_bytes(), target=3000)
    assert len({row["table"] for log_slice in out for row in log_slice["tables"]}) == 300
    assert sum(len(log_slice["maps"]) for log_slice in out) == 300
    assert max(len(log_slice["context"] or b"") for log_slice in out) > 10_000


def test_a_start_inside_a_file_needs_its_format() -> None:
    with pytest.raises(ValueError, match="needs the file's FORMAT_DESCRIPTION"):
        Slicer(FILE, 4711, None)


def test_no_format_before_it_is_fed() -> None:
    slicer = Slicer(FILE, 0, None)
    assert [*slicer.feed(SMALL.to_bytes()[:50]), *slicer.finish()] == []
    with pytest.raises(Truncated, match=f"{FILE}: it ends inside its FORMAT_DESCRIPTION"):
        _ = slicer.format


def test_a_broken_checksum_names_its_event() -> None:
    content = bytearray(SMALL.to_bytes())
    offset = SMALL.offsets()[6]
    content[offset + 25] ^= 1
    with pytest.raises(ChecksumMismatch, match=rf"^{FILE}:{offset}: \w+ event of \d+ bytes: its CRC32"):
        sliced(bytes(content))


@pytest.mark.parametrize("name", ["mysql-8.0-transactions", "mariadb-11.4-transactions"])
@pytest.mark.parametrize("target", [1, 700, 1 << 20])
def test_recorded(name: str, target: int) -> None:
    """Each DDL statement of the recording is a slice with its text; XA's rows stand in a statement slice."""
    content = (RECORDED / f"{name}.000001").read_bytes()
    rows, slicer = sliced(content, target=target)
    assert b"".join(row["payload"] for row in rows) == content == content[: slicer.complete]
    texts = [row["statement"] for row in rows if row["kind"] == "statement"]
    queries = [
        note.partition("; ")[2] or note for _, kind, _, _, note in _server_events(name) if kind.startswith("Query")
    ]
    ordinary = ("BEGIN", "COMMIT", "SAVEPOINT `s1`", "XA START", "XA END")
    ddl = [text.partition(" /* xid=")[0] for text in queries if not text.startswith(ordinary)]
    assert [text for text in texts if not text.startswith(("XA START", "XA END"))] == ddl
    prepared = [row for row in rows if row["statement"] and row["statement"].startswith(("XA START", "XA END"))]
    assert all(row["tables"] in ([], [{"schema": "recorded", "table": "a"}]) for row in prepared)
    assert any(row["tables"] for row in prepared)


def _server_events(name: str) -> list[list[Any]]:
    row_events: list[list[Any]] = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    return row_events


def test_context_opens_without_the_file() -> None:
    content = SMALL.to_bytes()
    rows, _ = sliced(content, target=1)
    assert FormatDescription.parse(rows[-1]["context"], "context").checksum
