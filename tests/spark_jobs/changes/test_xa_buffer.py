"""Keeping slices until somebody asks for them."""

import pyarrow as pa
import pytest

from spark_jobs.changes import xa_buffer as module
from spark_jobs.changes.xa_buffer import Prepared


def part(text: str) -> pa.RecordBatch:
    """A slice cut out of a longer batch, as slices are."""
    return pa.RecordBatch.from_pydict({"payload": ["before", text, "behind"]}).slice(1, 1)


def given(held: Prepared, xid: str) -> list[str] | None:
    found = held.take(xid)
    return None if found is None else [batch.column(0)[0].as_py() for batch in found]


@pytest.mark.parametrize("in_memory", [1, 1 << 20])
def test_parts_come_back_in_order_by_their_xid(monkeypatch: pytest.MonkeyPatch, in_memory: int) -> None:
    monkeypatch.setattr(module, "_IN_MEMORY", in_memory)
    with Prepared() as held:
        for xid in ("a", "b", "c"):
            for number in range(3):
                held.add(part(f"{xid}{number}"), f"f:{xid}")
            assert held.prepare(xid) is None
        assert held.waiting() == [("a", "f:a"), ("b", "f:b"), ("c", "f:c")]
        assert given(held, "b") == ["b0", "b1", "b2"]
        assert given(held, "b") is None
        assert held.drop("a")
        assert not held.drop("a")
        assert given(held, "c") == ["c0", "c1", "c2"]
        assert held.waiting() == []


def test_room_is_given_back_when_nothing_waits() -> None:
    with Prepared() as held:
        for number in range(100):
            held.add(part("x" * 1000), "f:4")
            held.prepare("a")
            assert given(held, "a") if number % 2 else held.drop("a")
            assert held._end == 0


def test_room_is_not_given_back_while_one_is_being_read() -> None:
    with Prepared() as held:
        held.add(part("a0"), "f:4")
        held.prepare("a")
        held.add(part("b0"), "f:9")
        assert given(held, "a") == ["a0"]
        held.add(part("b1"), "f:9")
        held.prepare("b")
        assert given(held, "b") == ["b0", "b1"]


def test_one_xid_after_the_other() -> None:
    with Prepared() as held:
        held.add(part("old"), "f:4")
        held.prepare("a")
        held.add(part("new"), "f:9")
        assert held.prepare("a") == "f:4"
        assert given(held, "a") == ["new"]
