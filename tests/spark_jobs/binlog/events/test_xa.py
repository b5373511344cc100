"""What slices say about rows that may not take effect."""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.binlog.events.xa import XaStep, xa_step
from spark_jobs.errors import DecodeError
from tests.binlogs.segment_spec import Change, Commit, Insert, Query, RawEvent, Rollback, Rows, Statement
from tests.binlogs.slicing import FILE, SPEC, sliced

XID = "X'6762',X'627175616c',7"
START = Statement("", f"XA START {XID}")
END = Query("", f"XA END {XID}")
ROW = Insert("shop.orders", (1, "a"))


def prepare(*, one_phase: bool = False) -> RawEvent:
    return RawEvent(38, struct.pack("<BIII", one_phase, 7, 2, 5) + b"gbbqual", ends=True)


def steps(changes: Sequence[Change], *, packed: bool = False, **options: Any) -> list[XaStep | None]:
    """What each slice does that is not about the file alone, in order. packed: transactions are compressed."""
    spec = replace(SPEC, changes=changes, payload=lambda _: "zstd" if packed else None)
    rows, _ = sliced(spec.to_bytes(), **options)
    xa_steps: list[XaStep | None] = []
    inside = False
    for row in rows:
        if row["kind"] == "control":
            continue
        position = (FILE, row["start"], row["context"], row["payload"], row["transaction_start"])
        xa_steps.append(xa_step(*position, inside=inside))
        inside = bool(xa_steps[-1] and xa_steps[-1].kind == "part")
    return xa_steps


@pytest.mark.parametrize(
    "changes, expected",
    [
        ([START, ROW, END, prepare()], [XaStep("prepared", XID)]),
        ([START, ROW, END, prepare(one_phase=True)], [XaStep("at once", XID)]),
        ([Statement("shop", f"XA COMMIT {XID}")], [XaStep("committed", XID)]),
        ([Statement("shop", f"xa  commit {XID.replace('X', 'x')}")], [XaStep("committed", XID)]),
        ([Statement("shop", f"XA ROLLBACK {XID}")], [XaStep("rolled back", XID)]),
        ([ROW, Commit()], [None]),
        ([ROW, Rollback()], [None]),
        ([Statement("shop", "drop table x")], [None]),
    ],
)
def test_steps(changes: list[Change], expected: list[XaStep | None]) -> None:
    assert steps(changes) == expected


@pytest.mark.parametrize("one_phase", [False, True])
def test_a_compressed_transaction(one_phase: bool) -> None:
    xa_steps = steps([START, ROW, END, prepare(one_phase=one_phase)], packed=True)
    assert xa_steps == [XaStep("at once" if one_phase else "prepared", XID)]


@pytest.mark.parametrize("statement", [("shop", "INSERT INTO t VALUES (1)"), ("", "ROLLBACK TO `s`")])
@pytest.mark.parametrize("target", [1, 1 << 20])
def test_a_statement_among_the_rows_is_told(statement: tuple[str, str], target: int) -> None:
    xa_steps = steps([START, ROW, ROW, Query(*statement), ROW, END, prepare(), ROW, Commit()], target=target)
    assert [step.statement for step in xa_steps if step and step.statement] == [statement]
    assert [step.kind for step in xa_steps if step][-1] == "prepared"


def test_mariadb_marks_the_gtid_and_may_log_another_statement_first() -> None:
    """Such a slice is told by its text as one of an XA transaction all the same."""
    prepared = RawEvent(162, struct.pack("<QIB", 5, 3, 0x40) + bytes(6))  # FL_PREPARED_XA
    query = Query("shop", "INSERT INTO t VALUES (1)")
    spec = replace(SPEC, version="11.4.5-MariaDB-log", changes=[prepared, query, END, prepare()])
    (row,) = (log_slice for log_slice in sliced(spec.to_bytes())[0] if log_slice["kind"] != "control")
    assert (row["kind"], row["database"], row["statement"]) == ("statement", "shop", "XA START")
    position = (FILE, row["start"], row["context"], row["payload"], row["transaction_start"])
    assert xa_step(*position, inside=False) == XaStep("prepared", XID, ("shop", query.text))


def test_a_transaction_in_parts_says_what_becomes_of_it_in_the_last() -> None:
    *parts, last, after = steps([START, ROW, ROW, ROW, END, prepare(), Statement("shop", "drop table x")], target=1)
    assert len(parts) > 4
    assert set(parts) == {XaStep("part", None)}
    assert (last, after) == (XaStep("prepared", XID), None)


@pytest.mark.parametrize("undo", [Rollback(), Query("", "ROLLBACK TO `s`")])
def test_a_rollback_in_a_later_part_undoes_the_earlier_ones(undo: Change) -> None:
    parts = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(9)], last=False) for _ in range(400)]
    xa_steps = steps([*parts, undo, *([] if isinstance(undo, Rollback) else [Commit()])], target=100, chunk=5000)
    assert XaStep("undone", None) in xa_steps


@pytest.mark.parametrize("text", ["XA COMMIT 'a'", "XA RECOVER", "XA COMMIT X'',1"])
def test_an_end_that_is_not_known(text: str) -> None:
    with pytest.raises(DecodeError, match=rf"^{FILE}:\d+: Query event: .* is no end of an XA transaction"):
        steps([Statement("", text)])
