"""XA transactions in the change feed."""

import json
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from spark_jobs.binlog import list_events
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import Output, wanted_tables
from spark_jobs.errors import DecodeError
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Insert,
    RawEvent,
    Rows,
    SegmentSpec,
    Statement,
    chunked,
)
from tests.binlogs.xa import XA, XA_END, XA_START, prepared
from tests.spark_jobs.changes.feeds import ANY, ORDERS, OTHER, RECORDED, recorded


def xa_changes(*files: Sequence[Change], payload: str | None = None) -> list[tuple[Any, ...]]:
    """(file, offset, committed_at, gtid's number, after) of every change in files of these changes."""
    specs = [
        SegmentSpec(tables=[ORDERS, OTHER], changes=changes, first_number=10 * k, payload=lambda _: payload)
        for k, changes in enumerate(files)
    ]
    log_files = [(f"b.{k:06}", chunked(spec.to_bytes(), 1 << 20)) for k, spec in enumerate(specs, 1)]
    lines = [json.loads(line) for line in "".join(changes_of_files(log_files, ANY)).splitlines()]
    return [(c["file"], c["committed_at"][17:19], c["gtid"].rpartition(":")[2], c["after"]) for c in lines]


def test_rows_of_an_xa_transaction_come_with_its_commit() -> None:
    """In a later file: its offset, row and GTID are the rows' own, its time is the commit's."""
    first = [*prepared(Insert("bench.orders", (1, None))), Insert("bench.other", (7,)), Commit()]
    second: list[Change] = [
        Insert("bench.other", (8,)),
        Commit(),
        Statement("", f"XA COMMIT {XA}"),
        Insert("bench.other", (9,)),
    ]
    assert xa_changes(first, second) == [
        ("b.000001", "21", "1", {"id": 7}),
        ("b.000002", "20", "10", {"id": 8}),
        ("b.000001", "21", "0", {"id": 1, "price": None}),
        ("b.000002", "22", "12", {"id": 9}),
    ]


@pytest.mark.parametrize("payload", [None, "zstd"])
def test_an_xa_transaction_begins_and_ends_around_its_rows(payload: str | None) -> None:
    """In the file that commits it, by its own offsets; one without a wanted row, or rolled back, has neither."""
    first = prepared(Insert("bench.orders", (1, None)), Insert("bench.orders", (2, None)))
    second: list[Change] = [Insert("bench.other", (8,)), Commit(), Statement("", f"XA COMMIT {XA}"), *first]
    third: list[Change] = [Statement("", f"XA ROLLBACK {XA}"), Insert("bench.orders", (9, None)), Commit()]
    specs = [SegmentSpec(tables=[ORDERS, OTHER], changes=changes, payload=lambda _: payload) for changes in
             (first, second, third)]  # fmt: skip
    log_files = [(f"b.{k:06}", chunked(spec.to_bytes(), 1 << 20)) for k, spec in enumerate(specs, 1)]
    output = Output.of("stratalog", transactions=True)
    lines = [json.loads(line) for line in "".join(changes_of_files(log_files, ANY, output=output)).splitlines()]
    operations = [(line["op"], line.get("after", {}).get("id")) for line in lines]
    assert operations == [
        *(("begin", None), ("insert", 8), ("commit", None)),
        *(("begin", None), ("insert", 1), ("insert", 2), ("commit", None)),
        *(("begin", None), ("insert", 9), ("commit", None)),
    ]
    xa = lines[3:7]
    assert {line["file"] for line in xa} == {"b.000001"}
    assert [line["offset"] for line in xa] == sorted(line["offset"] for line in xa)
    assert len({line["gtid"] for line in xa}) == 1
    only_other = Output.of("stratalog", transactions=True)
    log_files = [(f"b.{k:06}", chunked(spec.to_bytes(), 1 << 20)) for k, spec in enumerate(specs, 1)]
    text = "".join(changes_of_files(log_files, wanted_tables(["bench.other"]), output=only_other))
    assert [json.loads(line)["op"] for line in text.splitlines()] == ["begin", "insert", "commit"]


@pytest.mark.parametrize("payload", [None, "zstd"])
def test_rows_of_an_xa_transaction_that_is_rolled_back_never_come(
    payload: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    rows = prepared(Insert("bench.orders", (1, None)))
    changes = [*rows, Statement("", f"XA ROLLBACK {XA}"), Insert("bench.other", (9,))]
    assert xa_changes(changes, payload=payload) == [("b.000001", "22", "2", {"id": 9})]
    assert not caplog.records


def test_an_xa_transaction_committed_in_one_phase_is_like_any_other() -> None:
    changes = xa_changes([*prepared(Insert("bench.other", (1,)), one_phase=True), Insert("bench.other", (2,))])
    assert [after for *_, after in changes] == [{"id": 1}, {"id": 2}]


def test_an_xid_may_be_used_again() -> None:
    commit = Statement("", f"XA COMMIT {XA}")
    rows = [*prepared(Insert("bench.other", (1,))), commit, *prepared(Insert("bench.other", (2,))), commit]
    assert [after for *_, after in xa_changes(rows)] == [{"id": 1}, {"id": 2}]


def test_what_is_still_prepared_at_the_end_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert xa_changes([*prepared(Insert("bench.other", (1,))), *prepared(name=b"y"), Insert("bench.other", (2,))])
    spec = SegmentSpec(tables=[OTHER], changes=prepared(Insert("bench.other", (1,))))
    start = spec.offsets()[2]
    assert caplog.messages[0].startswith(f"b.000001:{start}: rows of XA transaction {XA} are missing: it is prepared")
    assert "rows of XA transaction X'79',X'',1 are missing" in caplog.messages[1]


def test_a_commit_of_an_xa_transaction_from_an_earlier_file_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert xa_changes([Statement("", f"XA COMMIT {XA}")]) == []
    [message] = caplog.messages
    assert message.endswith(f"XA transaction {XA} is committed, but no file given has its rows")


def test_an_xid_prepared_twice_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    changes = xa_changes([*prepared(Insert("bench.other", (1,))), *prepared(Insert("bench.other", (2,)))], [
        Statement("", f"XA COMMIT {XA}")
    ])  # fmt: skip
    assert [after for *_, after in changes] == [{"id": 2}]
    assert "no file given ends it" in caplog.messages[0]


@pytest.mark.thorough
@pytest.mark.slow
def test_a_large_xa_transaction_is_held_in_a_file() -> None:
    rows = [(number, "1.00") for number in range(20_000)]
    parts: list[Change] = [Rows("bench.orders", Insert, rows) for _ in range(10)]
    changes = xa_changes([*prepared(*parts), Insert("bench.other", (7,)), Commit(), Statement("", f"XA COMMIT {XA}")])
    assert changes[0][3] == {"id": 7}
    assert [after["id"] for *_, after in changes[1:]] == [*range(20_000)] * 10


def test_recorded_xa_transactions_of_mysql() -> None:
    """x1 was committed, x2 rolled back."""
    inserted = [change["after"] for change in recorded("mysql-8.0-transactions", "*.a") if change["op"] == "insert"]
    assert [row["id"] for row in inserted] == [1, 2, 3, 4]


def test_recorded_xa_transactions_of_mariadb(caplog: pytest.LogCaptureFixture) -> None:
    """The GTID is marked, there is no XA START. Only the transaction of row 5 and its commit are left in the file."""
    file = RECORDED / "mariadb-11.4-transactions.000001"
    content = file.read_bytes()
    events = [
        event for event in list_events(iter([content]), file.name) if event.transaction in (None, "0-7-10", "0-7-11")
    ]
    pieces = [content[:4], *(content[event.offset : event.stop] for event in events)]
    committed, prepared = b"".join(pieces), b"".join(pieces[:-3])
    lines = list(changes_of_files([("b.000001", iter([committed]))], ANY))
    assert [json.loads(line)["after"] for line in lines] == [{"id": 5, "note": "prepared"}]
    assert list(changes_of_files([("b.000001", iter([prepared]))], ANY)) == []
    assert [message.partition(" XA")[2].partition(" is")[0] for message in caplog.messages]


@pytest.mark.parametrize("body", [b"", bytes(12), bytes(14), struct.pack("<BIII", 0, 1, 9, 9)])
def test_an_xa_prepare_that_does_not_fit(body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^b\.000001:\d+: XA_prepare event: its parts do not fit"):
        xa_changes([XA_START, Insert("bench.other", (1,)), XA_END, RawEvent(38, body, ends=True)])
