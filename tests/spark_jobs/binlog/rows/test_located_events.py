import pyarrow as pa
import pytest

from spark_jobs.binlog.events import compression, transaction_payload
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.errors import Unsupported
from tests.binlogs.one_value import FILE, definition_of
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
    Table,
    Update,
)  # fmt: skip
from tests.binlogs.segment_types import INT, VARCHAR
from tests.spark_jobs.binlog.rows.test_decoder import INSERT, PLAIN, content_of, decode


@pytest.mark.parametrize(
    "changes, message",
    [
        ([Insert("shop.t", (1, "a")), Rollback()], "with a ROLLBACK past them"),
        ([Insert("shop.t", (1, "a")), Query("", "ROLLBACK TO `s`"), Commit()], "with a ROLLBACK past them"),
        (
            [Insert("shop.t", (1, "a")), Query("", "XA END X'61',X'',1"), RawEvent(38, bytes(13), ends=True)],
            "XA transaction",
        ),
    ],
)
def test_rows_whose_fate_is_open_are_refused(changes: list[Change], message: str) -> None:
    with pytest.raises(Unsupported, match=rf"^log.000001:\d+: .*{message}"):
        decode(content_of(*changes), definition_of(INSERT))


def test_what_a_payload_holds_is_refused_as_outside() -> None:
    """XA and ROLLBACK inside decide about the rows of the whole payload."""
    for changes in ([Rollback()], [Query("", "XA END X'61',X'',1"), RawEvent(38, bytes(13), ends=True)]):
        spec = SegmentSpec((PLAIN,), [Insert("shop.t", (1, "a")), *changes], payload=lambda _: "zstd")
        with pytest.raises(Unsupported, match=rf"^log.000001:{spec.offsets()[3]}: shop.t: rows of a"):
            decode(spec.to_bytes(), definition_of(INSERT))


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("at_once", [150, 64 << 20])
def test_rows_are_counted_from_0_within_a_payload(monkeypatch: pytest.MonkeyPatch, rows: int, at_once: int) -> None:
    """Those of other tables too; a payload of several tables, in one part or in many."""
    monkeypatch.setattr(transaction_payload, "AT_ONCE", at_once)
    monkeypatch.setattr(compression, "AT_ONCE", at_once)
    second_table = Table("shop.o", key=["id"], id=INT, note=VARCHAR(400))
    changes: list[Change] = [
        Rows("shop.o", Insert, [(1, "x" * 100), (2, None)]),
        Rows("shop.t", Insert, [(1, "a"), (2, "b")]),
        Rows("shop.t", Delete, [(1, "a")]),
        Rows("shop.o", Update, [((1, "x" * 100), (1, "")), ((2, None), (3, "y" * 100))]),
        Rows("shop.t", Update, [((2, "b"), (3, None))]),
        Rows("shop.o", Delete, [(1, "")]),
        Commit(),
        Insert("shop.o", (7, None)),
        Insert("shop.t", (9, None)),
        Commit(),
        Insert("shop.t", (10, None)),
    ]
    spec = SegmentSpec((PLAIN, second_table), changes, payload=lambda number: None if number == 3 else "zstd")
    first, second, plain_one = (spec.offsets()[offset] for offset in (3, 5, 9))
    blocks = decode(spec.to_bytes(), definition_of(INSERT), rows=rows)
    columns = [(batch.offset.to_pylist(), batch.row.to_pylist()) for batch in blocks]
    offsets = [offset for pair in columns for offset in zip(*pair, strict=True)]
    assert offsets == [(first, 2), (first, 3), (first, 4), (first, 7), (second, 1), (plain_one, 0)]


def test_gtid_and_commit_time_of_a_slice_inside_a_transaction() -> None:
    spec = SegmentSpec(
        [PLAIN], [Insert("shop.t", (1, "a")), Insert("shop.t", (2, "b")), Commit(), Insert("shop.t", (3, "c"))]
    )
    events, offsets = spec.events(), spec.offsets()
    second = [number for number, event in enumerate(events) if event[4] == 19][1]
    decoder = Decoder(definition_of(spec.to_bytes()), gtids=True)
    changes = list(
        decoder.decode(
            FILE, offsets[second], events[0], b"".join(events[second:]),
            transaction_start=offsets[2], committed_us=1_000_000, gtid="given:1",
        )
    )  # fmt: skip
    [batch] = changes
    assert batch.gtid is not None
    assert batch.gtid.to_pylist() == ["given:1", f"{UUID}:2"]
    assert batch.committed_at.cast(pa.int64()).to_pylist() == [1_000_000, 1_700_000_001_250_000]
    assert batch.offset[0].as_py() == offsets[second + 1]
