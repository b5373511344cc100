"""Blanked events: where they stand, what tells them, and that all else is as it was."""

import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Decoder, Definitions, FileDecoder, Slicer, list_events, same_but_redacted, summarize
from spark_jobs.binlog.events import compression as inflating
from spark_jobs.binlog.events.redaction import _padding, _payload, blanked, original
from spark_jobs.binlog.slices.slicer import SLICE_SCHEMA
from spark_jobs.errors import DecodeError, Unsupported
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    Query,
    RawEvent,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
    chunked,
    reframed,
    variants,
)
from tests.binlogs.segment_types import INT, VARCHAR

FILE = "mysql-bin.000001"
ORDERS = Table("shop.orders", key=["id"], id=INT, note=VARCHAR(400))
SECRETS = Table("shop.secrets", key=["id"], id=INT, note=VARCHAR(400))
WORD = "hush-4711"
CHANGES: Sequence[Change] = (
    Insert("shop.orders", (1, "one")),
    Insert("shop.secrets", (1, WORD * 9)),
    Commit(),
    RawEvent(29, b"\0insert into secrets values (2, '" + WORD.encode() + b"')", 0x80, transaction=True),
    Rows("shop.secrets", Insert, [(2, WORD), (3, None)], last=False),
    Update("shop.orders", (1, "one"), (1, "two")),
    Commit(),
    Statement("shop", "ALTER TABLE orders ADD x INT"),
    Update("shop.secrets", (2, WORD), (2, WORD + "!")),
    Delete("shop.secrets", (3, None)),
    Commit(),
)
RECORDED = sorted(Path(__file__).parents[3].joinpath("recorded").glob("*.000001"))


class Hides:
    """Rows of these tables; of statements those that begin with UPDATE are refused."""

    def __init__(self, *tables: str) -> None:
        self.tables = tables

    def holds(self, schema: str, table: str) -> bool:
        return f"{schema}.{table}" in self.tables or "*" in self.tables

    def refusal(self, text: str, database: str) -> str | None:
        return f"UPDATE in {database}" if text.startswith("UPDATE") else None


HIDDEN = Hides("shop.secrets")


def redacted(content: bytes, rule: Hides = HIDDEN, *, target: int = 1 << 20, chunk: int = 1000) -> list[dict[str, Any]]:
    slicer = Slicer(FILE, 0, None, target=target, redact=rule)
    batches = [batch for piece in chunked(content, chunk) for batch in slicer.feed(piece)]
    rows: list[dict[str, Any]] = pa.Table.from_batches([*batches, *slicer.finish()], SLICE_SCHEMA).to_pylist()
    return rows


def joined(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(row["payload"] for row in rows)


def closed(content: bytes) -> bytes:
    return content[:21] + bytes([content[21] & 0xFE]) + content[22:]


def spec(**keys: Any) -> SegmentSpec:
    return SegmentSpec(tables=[ORDERS, SECRETS], changes=CHANGES, **keys)


SPECS = variants(spec)


@pytest.mark.parametrize("target", [1, 1 << 20])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_no_byte_of_a_hidden_row_stays_and_every_other_byte_does(spec: SegmentSpec, target: int) -> None:
    content = spec.to_bytes()
    rows = redacted(content, target=target)
    redacted_log = joined(rows)
    events = list(list_events(iter([redacted_log]), FILE))
    assert WORD not in "".join(repr(event) for event in events)
    assert len(redacted_log) == len(content)
    spans = {(event.offset, event.stop) for event in events if event.type == "Redacted"}
    at = 0
    for start, stop in [*sorted(spans), (len(redacted_log), len(redacted_log))]:
        assert redacted_log[at:start] == content[at:start]
        at = stop
    notes = [row["redacted"] for row in rows if row["redacted"]]
    assert sum(entry["events"] for entry in notes) == sum(entry.type == "Redacted" for entry in events) == 5
    assert sum(note["bytes"] for note in notes) == sum(stop - start for start, stop in spans)
    assert {table["table"] for note in notes for table in note["tables"]} == {"secrets"}
    assert same_but_redacted(redacted_log, content, 4 if spec.checksum else 0)
    assert same_but_redacted(content, redacted_log, 4 if spec.checksum else 0)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_what_is_not_hidden_is_decoded_as_before(spec: SegmentSpec) -> None:
    def orders(content: bytes) -> list[Any]:
        decoder = FileDecoder(FILE, wanted=lambda name: name.table == "orders", before="all")
        blocks = [*decoder.feed(content), *decoder.finish()]
        return [
            (changes.after.to_pylist(), changes.before.to_pylist(), changes.offset.to_pylist()) for _, changes in blocks
        ]

    content = spec.to_bytes()
    assert orders(joined(redacted(content))) == orders(content) != []


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_hidden_rows_are_never_taken_for_none(spec: SegmentSpec) -> None:
    decoder = FileDecoder(FILE)
    with pytest.raises(Unsupported, match=rf"{FILE}:\d+: shop.secrets: rows of it were redacted here"):
        list(decoder.feed(joined(redacted(spec.to_bytes())))), list(decoder.finish())


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_slice_with_hidden_rows_is_refused_to_who_does_not_know_of_them(spec: SegmentSpec) -> None:
    slices = [row for row in redacted(spec.to_bytes()) if row["redacted"]]
    assert slices
    for row in slices:
        cells = {name: row[name] for name in ("file", "start", "context", "payload", "transaction_start")}
        (definition,) = [
            definition
            for definition in Definitions().of_slice(*list(cells.values())[:4])
            if definition.name.table == "secrets"
        ]
        with pytest.raises(Unsupported, match=rf"{FILE}:\d+: shop.secrets: rows of it were redacted here"):
            list(Decoder(definition, partial=True).decode(**cells))
        assert list(Decoder(definition, partial=True, redacted=True).decode(**cells)) == []


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_servers_log_with_every_row_hidden_is_a_log_still(path: Path) -> None:
    content = closed(path.read_bytes())
    rows = redacted(content, Hides("*"), chunk=5000)
    redacted_log = joined(rows)
    account = summarize(iter([redacted_log]), FILE)
    assert (account.error, account.rest, account.size) == (None, 0, len(content))
    events = [event for event in list_events(iter([redacted_log]), FILE) if event.type == "Redacted"]
    before = [event for event in list_events(iter([content]), FILE) if "ows" in event.type]
    assert [(event.offset, event.note) for event in events] == [(event.offset, event.type) for event in before]
    notes = [row["redacted"] for row in rows if row["redacted"]]
    assert sum(entry["bytes"] for entry in notes) == sum(
        stop - at for at, stop in {(entry.offset, entry.stop) for entry in events}
    )
    assert any(same_but_redacted(redacted_log, content, footer) for footer in (4, 0))
    assert joined(redacted(redacted_log, Hides("*"))) == redacted_log, "what is blank stays as it is"


def test_a_large_compressed_transaction_is_packed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.binlog.events.transaction_payload.AT_ONCE", 2000)
    monkeypatch.setattr(inflating, "AT_ONCE", 2000)
    letters = random.Random(1)
    texts = ["".join(letters.choices("abcdef", k=300)) for _ in range(60)]
    changes: list[Change] = [
        Insert(("shop.orders", "shop.secrets")[at % 2], (at, text)) for at, text in enumerate(texts)
    ]
    content = SegmentSpec(tables=[ORDERS, SECRETS], changes=changes, payload=lambda _: "zstd").to_bytes()
    redacted_log = joined(redacted(content))
    assert len(redacted_log) == len(content)
    assert same_but_redacted(redacted_log, content, 4)
    events = [event for event in list_events(iter([redacted_log]), FILE) if event.type == "Redacted"]
    assert len(events) == 30
    assert {event.table for event in events} == {"shop.secrets"}


def test_a_transaction_that_the_server_packed_too_close_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.binlog.events.redaction._payload", lambda *_: None)
    with pytest.raises(Unsupported, match=rf"{FILE}:\d+: a compressed transaction holds rows of redacted tables"):
        redacted(SPECS["compressed transactions"].to_bytes())


@pytest.mark.parametrize("payload", [None, "zstd"])
def test_statements_that_the_rule_refuses_are_named(payload: str | None) -> None:
    changes: list[Change] = [Insert("shop.orders", (1, "x")), Commit()]
    text = "UPDATE secrets SET note = 'x'"
    refused_changes: list[Change] = [RawEvent(5, bytes(9), transaction=True), Query("shop", text), Commit()]
    content = SegmentSpec(
        tables=[ORDERS, SECRETS], changes=[*changes, *refused_changes], payload=lambda at: payload if at > 1 else None
    ).to_bytes()
    with pytest.raises(Unsupported, match=rf"{FILE}:\d+: UPDATE in shop"):
        redacted(content)


def test_load_data_in_statement_format_is_refused_before_its_file_is_kept() -> None:
    changes: list[Change] = [RawEvent(17, b"\1\0\0\0" + WORD.encode(), transaction=True), Commit()]
    with pytest.raises(Unsupported, match="LOAD DATA in statement format: the source redacts tables"):
        redacted(SegmentSpec(tables=[ORDERS], changes=changes).to_bytes())


def test_an_event_is_blank_by_all_of_its_bytes() -> None:
    events = SPECS["version 2"].events()
    rows = next(event for event in events if event[4] == 30)
    blank = blanked(rows, 4)
    assert (len(blank), blank[9:17], blank[19:27]) == (len(rows), rows[9:17], rows[19:27])
    assert (original(rows, 4), original(blank, 4), blanked(blank, 4)) == (None, 30, blank)
    assert original(reframed(blank, body=blank[19:-5] + b"\1"), 4) is None
    text = reframed(rows, code=160, body=b"do x")
    assert (original(text, 4), original(blanked(text, 4), 4)) == (None, 29), "too short to say which"
    with pytest.raises(DecodeError, match="Write_rows event of 33 bytes: too short"):
        blanked(reframed(rows, body=bytes(10)), 4)


def test_logs_that_differ_otherwise_are_not_the_same() -> None:
    content = SPECS["version 2"].to_bytes()
    redacted_log = joined(redacted(content))
    assert not same_but_redacted(redacted_log, content[:-1], 4)
    assert not same_but_redacted(redacted_log, content + b"more", 4)
    spec = SegmentSpec(tables=[ORDERS, SECRETS], changes=[Insert("shop.orders", (1, "One")), *CHANGES[1:]]).to_bytes()
    assert not same_but_redacted(redacted_log, spec, 4)
    packed = joined(redacted(SPECS["compressed transactions"].to_bytes()))
    assert len(packed) == len(SPECS["compressed transactions"].to_bytes())
    changed = bytearray(SPECS["compressed transactions"].to_bytes())
    changed[300] ^= 1
    assert not same_but_redacted(packed, bytes(changed), 4)


@pytest.mark.parametrize("cut", [25, 30, 60])
def test_the_last_event_may_be_cut(cut: int) -> None:
    content = SPECS["version 2"].to_bytes()
    redacted_log = joined(redacted(content))
    offset = next(event.offset for event in list_events(iter([redacted_log]), FILE) if event.type == "Redacted")
    assert same_but_redacted(redacted_log[: offset + cut], content[: offset + cut], 4)


@pytest.mark.parametrize("size", [2, 3, 251, 252, 253, 254, 300, 0xFFFF, 0x10003, 0x10004, 1 << 20])
def test_padding_is_one_field_of_just_so_many_bytes(size: int) -> None:
    field = _padding(size)
    widths = {0xFC: 2, 0xFE: 8}
    width = widths.get(field[1], 0)
    length = int.from_bytes(field[2 : 2 + width], "little") if width else field[1]
    assert (len(field), 2 + width + length) == (size, size)
    assert width or field[1] < 251


def test_a_frame_that_leaves_one_byte_does_not_fit() -> None:
    frame = b"x" * 20
    fits = [room for room in range(20, 60) if _payload(frame, 500, room) is not None]
    assert fits[0] + 2 == fits[1]
    assert fits[1:] == list(range(fits[1], 60))
    assert zlib.crc32(b"") == 0
