from dataclasses import replace

import pyarrow as pa
import pytest

from spark_jobs.binlog.events.table_map import TableDefinition
from spark_jobs.binlog.kernels import memory
from spark_jobs.binlog.rows import blocks
from spark_jobs.binlog.rows.blocks import BEFORE, DecodePlan
from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.rows.decoder import Decoder
from tests.binlogs import segment_types as types
from tests.binlogs.segment_spec import Change, Delete, Insert, Rows, SegmentSpec, Table, Update
from tests.spark_jobs.binlog.test_same_as_slow import definition_of

TABLE = Table(
    "shop.blocks",
    key=["id"],
    id=types.INT.NOT_NULL,
    kind=types.ENUM("a", "b"),
    day=types.DATE,
    price=types.DECIMAL(10, 2),
    place=types.GEOMETRY,
    note=types.VARCHAR(100),
)


@pytest.fixture(autouse=True)
def _nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_statistics", {})
    blocks.plan_of.cache_clear()


def row(number: int, note: str = "x") -> tuple[object, ...]:
    return (number, "b", "2024-02-29", "1.50", None, note)


def content(*changes: Change) -> bytes:
    return SegmentSpec([TABLE], list(changes)).to_bytes()


def definition() -> TableDefinition:
    return definition_of(content(Insert("shop.blocks", row(1))), "shop.blocks")


def decoded(wire: bytes, limit: int = 1 << 16) -> list[Changes]:
    return list(Decoder(definition(), before="all", rows=limit).decode("log.000001", 0, None, wire))


def test_null_images_are_of_the_columns_types() -> None:
    """Those over shared zeros, and a nested one."""
    plan = DecodePlan(definition(), "all")
    for rows in (0, 1, 100_000):
        absent = plan.absent(rows)
        absent.validate(full=True)
        assert [column.null_count for column in absent.columns] == [rows] * 6
        assert absent.schema == pa.schema(
            [(name, reading.arrow) for name, reading in zip(plan.names, plan.readings, strict=True)]
        )


def test_rows_without_a_before_image_have_none_whatever_stands_in_the_memory() -> None:
    """Blocks are laid over memory that others have left, of labels and marks that no column of theirs has."""
    changes: list[Change] = [
        Insert("shop.blocks", row(1)),
        Update("shop.blocks", row(1), row(2)),
        Delete("shop.blocks", row(2)),
        Update("shop.blocks", (3, "a", "0000-00-00", None, None, None), row(4)),
        Insert("shop.blocks", row(5)),
    ]
    for byte in (0x00, 0x80, 0xFF):
        for room in [memory.fresh(1 << power) for power in range(17, 23)]:
            room[:] = byte
        del room
        [row_changes] = decoded(content(*changes))
        row_changes.before.validate(full=True)
        assert row_changes.before.column("kind").to_pylist() == [None, "b", None, "a", None]
        assert row_changes.before.column("note").to_pylist() == [None, "x", None, None, None]
        assert row_changes.before_raw is not None
        assert row_changes.before_raw.to_pylist() == [None, None, None, [("day", "0000-00-00")], None]


def test_blocks_are_as_large_as_what_has_come() -> None:
    """The first is small; those after it double, up to what is wanted at most, and so they begin next time."""
    wire = content(Rows("shop.blocks", Insert, [row(k) for k in range(20_000)]))
    assert [len(row_changes) for row_changes in decoded(wire)] == [1024, 2048, 6144, 10_784]
    assert [len(row_changes) for row_changes in decoded(wire)] == [20_000]
    assert [len(row_changes) for row_changes in decoded(wire, 15_000)] == [15_000, 5_000]
    small = content(Rows("shop.blocks", Insert, [row(k) for k in range(1500)]))
    for _ in range(20):
        assert [len(row_changes) for row_changes in decoded(small)] == [1500]
    assert len(decoded(wire)[0]) < 2500


def test_a_block_is_no_larger_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 19)
    wire = content(Rows("shop.blocks", Insert, [row(k, "x" * 90) for k in range(20_000)]))
    decoded(wire)
    sizes = [len(row_changes) for row_changes in decoded(wire)]
    assert sum(sizes) == 20_000
    assert 1024 < sizes[0] < 3000


def test_text_that_grows_finds_room() -> None:
    texts = ["", "x", "x" * 100]
    wire = content(*(Rows("shop.blocks", Insert, [row(k, text) for k in range(9000)]) for text in texts))
    block_list = decoded(wire)
    notes = [note for row_changes in block_list for note in row_changes.after.column("note").to_pylist()]
    assert notes == [text for text in texts for _ in range(9000)]


def test_a_layout_is_reckoned_once() -> None:
    plan = DecodePlan(definition(), "all")
    first = plan.layout(2000, 64)
    assert plan.layout(2000, 64) is first
    assert plan.layout(2000, 128) is not first
    assert DecodePlan(replace(definition()), "all").layout(2000, 128) is not first
    ends = [*(first.offsets + first.sizes).ravel()[:-1]]
    assert all(end <= start for end, start in zip(ends, first.offsets.ravel()[1:], strict=True))
    assert first.own_offsets[0] >= (first.offsets + first.sizes).max()
    assert first.offsets[BEFORE].min() > 0
