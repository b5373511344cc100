"""Rows erased from slices: none of their bytes stays, every other row does, and so does every event's offset."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import FileDecoder, SliceBytes, Slicer, list_events, same_but_redacted, summarize
from spark_jobs.binlog.rows import erasure
from spark_jobs.binlog.rows.erasure import ErasedSlice, SliceEraser
from spark_jobs.binlog.slices.slicer import SLICE_SCHEMA
from spark_jobs.errors import DecodeError, Unsupported
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    RawEvent,
    Rows,
    SegmentSpec,
    Table,
    Update,
    chunked,
    variants,
)
from tests.binlogs.segment_types import INT, VARCHAR

FILE = "mysql-bin.000001"
PEOPLE = Table("shop.people", key=["id"], id=INT, word=VARCHAR(400))
OTHERS = Table("shop.others", key=["id"], id=INT, word=VARCHAR(400))
WORD = "hush-4711"
CHANGES: list[Change] = [
    RawEvent(29, b"\0insert into people values (1, '" + WORD.encode() + b"')", 0x80, transaction=True),
    Rows("shop.people", Insert, [(1, WORD), (2, "two"), (3, "three")]),
    Commit(),
    Insert("shop.people", (4, "four")),
    Update("shop.people", (1, WORD), (1, WORD * 30)),
    Insert("shop.others", (1, "one")),
    Commit(),
    RawEvent(29, b"\0update people set name = 'deux' where id = 2", 0x80, transaction=True),
    Update("shop.people", (2, "two"), (2, "deux")),
    Commit(),
    Rows("shop.people", Delete, [(3, "three"), (1, WORD * 30)]),
    Commit(),
]
_FOLDER = Path(__file__).parents[3] / "recorded"
RECORDED = sorted(
    path for path in _FOLDER.glob("*.000001") if "5.7" not in path.name and any(_FOLDER.glob(f"{path.stem}.[hr]*.json"))
)
"""Those whose rows are all decoded."""
Row = tuple[str, int, int]
"""Table, offset of the event, number of the row."""


def spec(**keys: Any) -> SegmentSpec:
    return SegmentSpec(tables=[PEOPLE, OTHERS], changes=CHANGES, **keys)


SPECS = variants(spec)


def sliced(content: bytes, target: int = 1 << 20) -> list[dict[str, Any]]:
    slicer = Slicer(FILE, 0, None, target=target)
    batches = [batch for piece in chunked(content, 1000) for batch in slicer.feed(piece)]
    rows: list[dict[str, Any]] = pa.Table.from_batches([*batches, *slicer.finish()], SLICE_SCHEMA).to_pylist()
    return rows


def decoded(content: bytes) -> Iterator[tuple[Row, str]]:
    """Every row, and its images."""
    decoder = FileDecoder(FILE, before="all", partial=True)
    for definition, changes in [*decoder.feed(content), *decoder.finish()]:
        rows = zip(changes.offset.to_pylist(), changes.row.to_pylist(), strict=True)
        images = zip(changes.before.to_pylist(), changes.after.to_pylist(), changes.op.to_pylist(), strict=True)
        for (offset, row), image in zip(rows, images, strict=True):
            yield (str(definition.name), offset, row), repr(image)


def by_position(rows: dict[Row, str]) -> list[str]:
    """The images of rows with their tables and offsets, in order of these; their numbers may be others now."""
    return [f"{position[0]} {position[1]} {rows[position]}" for position in sorted(rows)]


def erased(content: bytes, row_locations: set[Row], target: int = 1 << 20) -> tuple[bytes, list[ErasedSlice]]:
    """The log without rows, slice by slice; texts of their transactions go with them."""
    slices = sliced(content, target)
    erasers = [
        SliceEraser.of(FILE, SliceBytes(row["start"], row["context"], row["payload"], row["transaction_start"]))
        for row in slices
    ]
    indexes = {(offset, row) for _, offset, row in row_locations}
    starts = {start for eraser in erasers for start in eraser.transactions_of({offset for offset, _ in indexes})}
    results = [
        eraser.erased({byte_offset for byte_offset in indexes if row["start"] <= byte_offset[0] < row["stop"]}, starts)
        for eraser, row in zip(erasers, slices, strict=True)
    ]
    return b"".join(result.payload for result in results), results


@pytest.mark.parametrize("target", [1, 1 << 20])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_rows_go_and_the_rows_beside_them_stay(spec: SegmentSpec, target: int) -> None:
    content = spec.to_bytes()
    rows = dict(decoded(content))
    row_locations = {position for position, text in rows.items() if WORD in text}
    assert len(row_locations) == 3
    log, results = erased(content, row_locations, target)
    events = list(list_events(iter([log]), FILE))
    assert len(log) == len(content)
    assert WORD.encode() not in log
    assert WORD not in "".join(repr(event) for event in events)
    assert by_position(dict(decoded(log))) == by_position(
        {position: text for position, text in rows.items() if position not in row_locations}
    )
    assert summarize(iter([log]), FILE).error is None
    changed = [result for result in results if result.events]
    assert {table for result in changed for table in result.tables} == {("shop", "people")}
    assert sum(result.events for result in changed) == 4  # three row events and the text of one of them
    assert all(result.size for result in changed)
    footer = 4 if spec.checksum else 0
    assert same_but_redacted(log, content, footer)
    assert same_but_redacted(content, log, footer)
    assert not same_but_redacted(log, content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], footer)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
@pytest.mark.parametrize("seed", range(3))
def test_random_rows_of_a_servers_log(path: Path, seed: int) -> None:
    content = path.read_bytes()
    content = content[:21] + bytes([content[21] & 0xFE]) + content[22:]
    rows = dict(decoded(content))
    dice = random.Random(seed)
    row_locations = {position for position in rows if dice.random() < (0.1, 0.5, 1)[seed]}
    log, results = erased(content, row_locations, (1 << 20, 5000, 5000)[seed])
    assert len(log) == len(content)
    assert by_position(dict(decoded(log))) == by_position(
        {position: text for position, text in rows.items() if position not in row_locations}
    )
    account = summarize(iter([log]), FILE)
    assert (account.error, account.rest, account.size) == (None, 0, len(content))
    assert bool(row_locations) == any(result.events for result in results)
    assert any(same_but_redacted(log, content, footer) for footer in (4, 0))


def test_a_gap_too_large_for_information_beside_rows_becomes_an_event() -> None:
    rows = [(number, f"{number:05}" * 70) for number in range(400)]
    content = SegmentSpec(tables=[PEOPLE], changes=[Rows("shop.people", Insert, rows), Commit()]).to_bytes()
    indexes = dict(decoded(content))
    row_locations = {position for position in indexes if position[2] % 4}
    log, results = erased(content, row_locations)
    assert sum(result.added for result in results) == 1
    assert [text for _, text in decoded(log)] == [
        text for position, text in indexes.items() if position not in row_locations
    ]
    assert summarize(iter([log]), FILE).error is None
    assert same_but_redacted(log, content, 4)


def test_a_statement_still_ends_where_its_last_event_goes() -> None:
    changes: list[Change] = [
        Rows("shop.people", Insert, [(1, "one")], last=False),
        Rows("shop.others", Insert, [(2, WORD)]),
        Commit(),
    ]
    content = SegmentSpec(tables=[PEOPLE, OTHERS], changes=changes).to_bytes()
    log, _ = erased(content, {position for position, text in decoded(content) if WORD in text})
    ends = [event.table for event in list_events(iter([log]), FILE) if "STMT_END_F" in str(event.note)]
    assert ends == ["shop.people"]
    assert same_but_redacted(log, content, 4)


@pytest.mark.parametrize("size", range(1, 60))
def test_a_compressed_event_has_as_many_bytes_without_a_row(size: int) -> None:
    rows = [(1, "x" * size), (2, random.Random(size).randbytes(size).hex())]
    changes: list[Change] = [Rows("shop.people", Insert, rows), Commit()]
    keys: dict[str, Any] = {"compressed_rows": 1, "version": "10.11.6-MariaDB", "rows_version": 1}
    content = SegmentSpec(tables=[PEOPLE], changes=changes, **keys).to_bytes()
    indexes = dict(decoded(content))
    for row_locations in indexes:
        log, _ = erased(content, {row_locations})
        assert len(log) == len(content)
        assert [text for _, text in decoded(log)] == [
            text for position, text in indexes.items() if position != row_locations
        ]
        assert same_but_redacted(log, content, 4)


def test_what_cannot_be_written_again_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    content = SPECS["compressed transactions"].to_bytes()
    row_locations = {position for position, text in decoded(content) if WORD in text}
    plain = SPECS["version 2"].to_bytes()
    unknown = {(position[0], position[1], 7) for position, text in decoded(plain) if "one" in text}
    with pytest.raises(DecodeError, match=rf"{FILE}:\d+: row 7 is asked for of [13]"):
        erased(plain, unknown)
    monkeypatch.setattr(erasure, "body_that_fits", lambda *_: None)
    with pytest.raises(Unsupported, match=rf"{FILE}:\d+: a compressed transaction that does not fit into its place"):
        erased(content, row_locations)
