"""Keeping slices until somebody asks for them."""

import pyarrow as pa
import pytest

from spark_jobs.changes import xa_buffer as module
from spark_jobs.changes.xa_buffer import PreparedBuffer


def part(text: str) -> pa.RecordBatch:
    """A slice cut out of a longer batch, as slices are."""
    return pa.RecordBatch.from_pydict({"payload": ["before", text, "behind"]}).slice(1, 1)


def texts(buffer: PreparedBuffer, xid: str) -> list[str] | None:
    batches = buffer.take(xid)
    return None if batches is None else [batch.column(0)[0].as_py() for batch in batches]


@pytest.mark.parametrize("in_memory", [1, 1 << 20])
def test_parts_come_back_in_order_by_their_xid(monkeypatch: pytest.MonkeyPatch, in_memory: int) -> None:
    monkeypatch.setattr(module, "_IN_MEMORY", in_memory)
    with PreparedBuffer() as buffer:
        for xid in ("a", "b", "c"):
            for number in range(3):
                buffer.add(part(f"{xid}{number}"), f"f:{xid}")
            assert buffer.prepare(xid) is None
        assert buffer.waiting() == [("a", "f:a"), ("b", "f:b"), ("c", "f:c")]
        assert texts(buffer, "b") == ["b0", "b1", "b2"]
        assert texts(buffer, "b") is None
        assert buffer.drop("a")
        assert not buffer.drop("a")
        assert texts(buffer, "c") == ["c0", "c1", "c2"]
        assert buffer.waiting() == []


def test_room_is_given_back_when_nothing_waits() -> None:
    with PreparedBuffer() as buffer:
        for number in range(100):
            buffer.add(part("x" * 1000), "f:4")
            buffer.prepare("a")
            assert texts(buffer, "a") if number % 2 else buffer.drop("a")
            assert buffer._end == 0


def test_room_is_not_given_back_while_one_is_being_read() -> None:
    with PreparedBuffer() as buffer:
        buffer.add(part("a0"), "f:4")
        buffer.prepare("a")
        buffer.add(part("b0"), "f:9")
        assert texts(buffer, "a") == ["a0"]
        buffer.add(part("b1"), "f:9")
        buffer.prepare("b")
        assert texts(buffer, "b") == ["b0", "b1"]


def test_one_xid_after_the_other() -> None:
    with PreparedBuffer() as buffer:
        buffer.add(part("old"), "f:4")
        buffer.prepare("a")
        buffer.add(part("new"), "f:9")
        assert buffer.prepare("a") == "f:4"
        assert texts(buffer, "a") == ["new"]
