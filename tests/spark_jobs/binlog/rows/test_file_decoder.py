"""A file decoded in one pass, against the same file through slices, a table at a time."""

import gc
import io
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog.events.table_map import TableDefinition, TableName
from spark_jobs.binlog.rows import decoder as rows
from spark_jobs.binlog.rows import file_decoder
from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.binlog.rows.file_decoder import FileDecoder
from spark_jobs.binlog.slices.slicer import Slicer
from spark_jobs.errors import ChecksumMismatch, DecodeError, Unsupported
from tests.binlogs import segment_types as types
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    Rollback,
    Rows,
    SegmentSpec,
    Table,
    Update,
    chunked,
)

FILE = "log.000001"
ORDERS = Table("shop.orders", key=["id"], id=types.INT, note=types.VARCHAR(40))
ITEMS = Table("shop.items", key=["id"], id=types.INT, note=types.VARCHAR(40))
SPEC = SegmentSpec(
    tables=[ORDERS, ITEMS],
    changes=[
        Insert("shop.orders", (1, "a")),
        Insert("shop.items", (2, "b")),
        Update("shop.orders", (1, "a"), (1, "c")),
        Commit(),
        Rows("shop.orders", Insert, [(k, "x" * (k % 40)) for k in range(300)]),
        Insert("shop.items", (3, None)),
        Rows("shop.orders", Insert, [(k, "y" * (k % 40)) for k in range(300)]),
        Commit(),
        Delete("shop.items", (2, "b")),
        Commit(),
    ],
)


EXTRA = 19 + 8
"""Position where the length of a row event's extra data stands, behind header, table id and flags."""
NOTE = 19 + 8 + 2 + 1 + 1 + 1 + 4
"""Position where the first row's note begins, with its length, in a row event of one image: behind header, table id and
flags, extra data, column count, bitmap, null bits and id."""


def rows_of(blocks: list[tuple[TableDefinition, Changes]], table: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for definition, changes in blocks:
        if str(definition.name) == table:
            changes.after.validate(full=True)
            scalars = (changes.op, changes.offset, changes.row, changes.committed_at.cast(pa.int64()), changes.gtid)
            images = (changes.after.to_struct_array(), changes.before.to_struct_array())
            rows += zip(*(column.to_pylist() for column in (*scalars, *images) if column is not None), strict=True)
    return rows


def in_one_pass(content: bytes, size: int) -> list[tuple[TableDefinition, Changes]]:
    decoder = FileDecoder(FILE, before="all", gtids=True)
    blocks = [block for chunk in chunked(content, size) for block in decoder.feed(chunk)]
    blocks += decoder.finish()
    assert decoder.pending == 0
    return blocks


@pytest.mark.parametrize("limit", [1, 100, 1 << 20])
def test_read_is_feed_and_finish(limit: int) -> None:
    """However little each call of the file's own readinto gives."""

    class Slow(io.BytesIO):
        def readinto(self, room: Any, /) -> int:
            return super().readinto(room[:limit])

    decoder = FileDecoder(FILE, before="all", gtids=True)
    blocks = list(decoder.read(Slow(SPEC.to_bytes())))
    assert decoder.pending == 0
    for table in ("shop.orders", "shop.items"):
        assert rows_of(blocks, table) == rows_of(in_one_pass(SPEC.to_bytes(), limit), table)


def test_a_decoder_is_gone_when_nobody_has_it() -> None:
    """A cycle would keep its memory, as large as a pass, until the garbage collector comes by."""
    decoder = FileDecoder(FILE)
    list(decoder.feed(SPEC.to_bytes()))
    list(decoder.finish())
    gc.disable()
    try:
        reference = weakref.ref(decoder._feed)
        del decoder
        assert reference() is None
    finally:
        gc.enable()


def by_slices(content: bytes, definition: TableDefinition) -> list[tuple[TableDefinition, Changes]]:
    slicer, decoder = Slicer(FILE, 0, None), Decoder(definition, before="all", gtids=True)
    return [
        (definition, changes)
        for batch in [*slicer.feed(content), *slicer.finish()]
        for row in batch.to_pylist()
        for changes in decoder.decode(FILE, row["start"], row["context"], row["payload"])
    ]


def small_passes(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Whatever a pass does, it does after so many bytes."""
    monkeypatch.setattr(file_decoder, "AT_ONCE", size)
    monkeypatch.setattr(file_decoder, "GATHERED", size)


@pytest.mark.parametrize("at_once, capacity", [(1, 1), (1, 1 << 20), (100, 2000), (5000, 1), (1 << 20, 1 << 20)])
@pytest.mark.parametrize("size", [37, 1000, 1 << 20])
def test_same_as_slices(at_once: int, capacity: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_passes(monkeypatch, at_once)
    monkeypatch.setattr(file_decoder, "HELD", capacity)
    content = SPEC.to_bytes()
    blocks = in_one_pass(content, size)
    definitions = {str(definition.name): definition for definition, _ in blocks}
    assert sorted(definitions) == ["shop.items", "shop.orders"]
    for table, count in (("shop.orders", 602), ("shop.items", 3)):
        rows = rows_of(blocks, table)
        assert len(rows) == count
        assert rows == rows_of(by_slices(content, definitions[table]), table)


def test_tables_not_wanted_are_passed_over() -> None:
    decoder = FileDecoder(FILE, lambda name: name == TableName("shop", "items"))
    blocks = [*decoder.feed(SPEC.to_bytes()), *decoder.finish()]
    assert {str(definition.name) for definition, _ in blocks} == {"shop.items"}


def test_a_table_that_changes_has_a_decoder_for_each_layout() -> None:
    after = Table("shop.orders", key=["id"], id=types.INT, note=types.VARCHAR(40), more=types.INT)
    first = replace(SPEC, tables=[ORDERS], changes=[Insert("shop.orders", (1, "a")), Commit()], rotate_to="")
    second = replace(SPEC, tables=[after], changes=[Insert("shop.orders", (2, "b", 3)), Commit()], rotate_to="")
    behind_head = second.to_bytes()[second.offsets()[2] :]
    decoder = FileDecoder(FILE)
    blocks = [*decoder.feed(first.to_bytes() + behind_head), *decoder.finish()]
    assert [changes.after.to_pylist() for _, changes in blocks] == [
        [{"id": 1, "note": "a"}],
        [{"id": 2, "note": "b", "more": 3}],
    ]


@pytest.mark.parametrize("capacity", [1, 1 << 20])
def test_a_rollback_is_never_passed_over(capacity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where it is seen with the rows, nor where these were handed out before."""
    small_passes(monkeypatch, 1)
    monkeypatch.setattr(file_decoder, "HELD", capacity)
    rows = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(50)]) for _ in range(4)]
    content = replace(SPEC, changes=[*rows, Rollback()]).to_bytes()
    with pytest.raises(Unsupported, match=r"log\.000001:\d+: .*ROLLBACK"):
        in_one_pass(content, 20)


@pytest.mark.parametrize("before", [[], [Insert("shop.items", (1, "a")), Commit()], [Insert("shop.items", (1, "a"))]])
def test_a_rollback_of_rows_that_nobody_wants_is_passed_over(
    before: list[Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large they are, and whatever came before; not where rows that are wanted were handed out with them."""
    small_passes(monkeypatch, 1)
    monkeypatch.setattr(file_decoder, "HELD", 1)
    rows = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(50)]) for _ in range(4)]
    content = replace(SPEC, changes=[*before, *rows, Rollback()]).to_bytes()
    decoder = FileDecoder(FILE, lambda name: name.table == "items")
    blocks: list[tuple[TableDefinition, Changes]] = []
    with pytest.raises(Unsupported, match="ROLLBACK") if len(before) == 1 else nullcontext():
        for chunk in chunked(content, 20):
            blocks.extend(decoder.feed(chunk))
        blocks.extend(decoder.finish())
        assert decoder.pending == 0
    assert len(rows_of(blocks, "shop.items")) == min(len(before), 1)


def test_a_large_transaction_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    small_passes(monkeypatch, 1)
    monkeypatch.setattr(file_decoder, "HELD", 1000)
    rows = [Rows("shop.orders", Insert, [(k, "x" * 40) for k in range(50)]) for _ in range(4)]
    decoder = FileDecoder(FILE)
    blocks = [
        block for chunk in chunked(replace(SPEC, changes=rows).to_bytes()[:-100], 500) for block in decoder.feed(chunk)
    ]
    assert [len(changes) for _, changes in blocks] == [50, 50, 50]
    assert decoder.complete < blocks[0][1].offset[0].as_py()


def test_damage_is_told_after_what_stands_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    small_passes(monkeypatch, 1)
    content = bytearray(SPEC.to_bytes())
    content[-40] ^= 1
    blocks: list[tuple[TableDefinition, Changes]] = []
    with pytest.raises(ChecksumMismatch, match=r"log\.000001:\d+"):
        blocks.extend(FileDecoder(FILE, before="all", gtids=True).feed(bytes(content)))
    assert len(rows_of(blocks, "shop.orders")) == 602


def test_damage_inside_a_row_is_told_after_the_rows_of_all_tables_before_it() -> None:
    """With their GTIDs, which a row has only while its events are at hand."""
    spec = replace(SPEC, checksum=False)
    content = bytearray(spec.to_bytes())
    deletes = [offset for offset in spec.offsets()[:-1] if content[offset + 4] == 32]
    content[deletes[-1] + NOTE] = 200
    blocks: list[tuple[TableDefinition, Changes]] = []
    with pytest.raises(DecodeError, match=r"log\.000001:\d+: row 0 of shop\.items: note"):
        blocks.extend(FileDecoder(FILE, gtids=True).read(io.BytesIO(content)))
    assert [len(rows_of(blocks, table)) for table in ("shop.orders", "shop.items")] == [602, 2]
    assert all(changes.gtid is not None for _, changes in blocks)


def test_damage_in_an_events_head_is_told_of_its_first_row() -> None:
    """However many rows the event before it had."""
    spec = replace(SPEC, checksum=False)
    content = bytearray(spec.to_bytes())
    deletes = [offset for offset in spec.offsets()[:-1] if content[offset + 4] == 32]
    content[deletes[-1] + EXTRA] = 200
    with pytest.raises(DecodeError, match=r"log\.000001:\d+: row 0 of shop\.items: its null bits"):
        list(FileDecoder(FILE).read(io.BytesIO(content)))


def labelled(name: str) -> Table:
    return Table(name, key=["id"], id=types.INT, kind=types.ENUM("a", "b"), note=types.VARCHAR(9))


def without_labels(names: tuple[str, ...], changes: Sequence[Change]) -> bytes:
    """A log in which the last ENUM value of each INSERT has no label."""
    spec = SegmentSpec([labelled(name) for name in names], list(changes), checksum=False)
    content = bytearray(spec.to_bytes())
    for start in [offset for offset in spec.offsets()[:-1] if content[offset + 4] == 30]:
        end = start + int.from_bytes(content[start + 9 : start + 13], "little")
        content[end - 3] = 9  # before a note of one letter
    return bytes(content)


@pytest.mark.parametrize("options", [{}, {"gtids": True}, {"partial": True}])
def test_rows_before_a_value_without_meaning_come_of_every_table(options: dict[str, bool]) -> None:
    """And the first such value is what is said, however many tables have one."""
    names = ("shop.labelled", "shop.others")
    changes = [change for name in names for change in (Rows(name, Insert, [(k, "a", "x") for k in range(9)]), Commit())]
    content = without_labels(names, changes)
    blocks: list[tuple[TableDefinition, Changes]] = []
    with pytest.raises(DecodeError, match=r"log\.000001:\d+: row 8: shop\.labelled\.kind: an ENUM value beyond"):
        blocks.extend(FileDecoder(FILE, **options).read(io.BytesIO(content)))  # type: ignore[arg-type]
    assert [len(rows_of(blocks, name)) for name in names] == [8, 8]
    assert all((changes.gtid is not None) == ("gtids" in options) for _, changes in blocks)


def test_a_reader_that_leaves_amid_what_is_handed_out_does_no_harm() -> None:
    """What it has is not written to when it comes back."""
    content = SPEC.to_bytes()
    decoder = FileDecoder(FILE, before="all")
    list(decoder.feed(content))
    leaving = decoder.finish()
    first = next(leaving)
    del leaving
    before = first[1].after.to_pylist()
    list(decoder.feed(content[SPEC.offsets()[2] :]))
    list(decoder.finish())
    assert first[1].after.to_pylist() == before


def test_what_is_complete_is_not_behind_damage() -> None:
    spec = replace(SPEC, checksum=False)
    content = bytearray(spec.to_bytes())
    first = next(offset for offset in spec.offsets() if content[offset + 4] == 30)
    content[first + NOTE] = 200
    decoder = FileDecoder(FILE)
    with pytest.raises(DecodeError):
        list(decoder.read(io.BytesIO(content)))
    assert decoder.complete <= first


def test_blocks_are_handed_out_before_they_are_too_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    content = SPEC.to_bytes()
    assert not list(FileDecoder(FILE).feed(content))
    monkeypatch.setattr(rows, "OPEN", 1)
    decoder = FileDecoder(FILE, before="all")
    blocks = [*decoder.feed(content), *decoder.finish()]
    assert [str(definition.name) for definition, _ in blocks] == ["shop.orders", "shop.items"] * 3
    assert [len(rows_of(blocks, table)) for table in ("shop.orders", "shop.items")] == [602, 3]


def test_what_is_cut_stays_pending() -> None:
    content = SPEC.to_bytes()
    decoder = FileDecoder(FILE)
    list(decoder.feed(content[:-60]))
    list(decoder.finish())
    assert 0 < decoder.pending == len(content) - 60 - decoder.complete
