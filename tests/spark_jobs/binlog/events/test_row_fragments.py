"""Row events in fragments: the same rows as in whole events, whichever way a log is read, and what is damaged."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.binlog import MAGIC
from spark_jobs.binlog.events.redaction import original, same_but_redacted
from spark_jobs.binlog.events.skip import events_of as events_at
from spark_jobs.binlog.events.skip import passed_over
from spark_jobs.binlog.rows.file_decoder import FileDecoder
from spark_jobs.binlog.slices.listing import list_events, summarize
from spark_jobs.binlog.slices.slicer import Slicer
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated, Unsupported
from tests.binlogs.fragments import FRAGMENT, Fragmenter, events_of
from tests.binlogs.segment_spec import Commit, Insert, RawEvent, Rows, SegmentSpec, Table, Update, chunked
from tests.binlogs.segment_types import INT, VARCHAR
from tests.binlogs.slicing import sliced

RECORDED = Path("tests/recorded")
LOGS = [RECORDED / f"mariadb-11.4-{name}.000001" for name in ("full-metadata", "compressed-events")]
LOGS += [RECORDED / "mysql-9.7-full-metadata.000001", RECORDED / "mysql-8.0-wide.000001"]
METHODS = [Fragmenter(100), Fragmenter(27, number_first=True), Fragmenter(200, own_checksum=True)]

ORDERS = Table("shop.orders", key=["id"], id=INT, note=VARCHAR(4000))
MANY = Rows("shop.orders", Insert, [(k, "x" * 50) for k in range(20)])
SPEC = SegmentSpec([ORDERS], [MANY, Commit(), Insert("shop.orders", (99, "small")), Commit(), MANY])


def changes_in(content: bytes, chunk: int = 1 << 20) -> list[dict[str, object]]:
    """The lines of ``stratalog changes`` without their offsets, which fragments move."""
    text = "".join(changes_of_files([("log", chunked(content, chunk))], wanted_tables(["shop.*"])))
    lines = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in line.items() if key != "offset"} for line in lines]


def rows_of(content: bytes) -> list[list[object]]:
    """The rows of all tables by the decoder of files, read at one go."""
    decoder = FileDecoder("log")
    with_offsets = [(str(definition.name), changes) for definition, changes in decoder.read(io.BytesIO(content))]
    return sorted(
        ([name, *map(str, values)] for name, changes in with_offsets for values in _values(changes.after)),
        key=repr,
    )


def _values(columns: pa.RecordBatch) -> Iterator[tuple[object, ...]]:
    return zip(*(column.to_pylist() for column in columns.columns), strict=True)


@pytest.mark.parametrize("fragmenter", METHODS, ids=["count first", "number first", "own checksum"])
@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_recorded_rows_are_the_same_in_fragments(log: Path, fragmenter: Fragmenter) -> None:
    content = log.read_bytes()
    fragmented = fragmenter.log(content)
    assert sum(event[4] == FRAGMENT for event in events_of(fragmented)) > 3
    assert rows_of(fragmented) == rows_of(content)
    assert rows_of(content)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 20])
def test_fragments_that_come_in_chunks(checksum: bool, chunk: int) -> None:
    content = replace(SPEC, checksum=checksum).to_bytes()
    fragmented = Fragmenter(60, checksum=checksum).log(content)
    assert changes_in(fragmented, chunk) == changes_in(content)
    assert len(changes_in(fragmented, chunk)) == 41


def test_rows_of_a_real_file_go_through_the_fast_path_first(tmp_path: Path) -> None:
    """The kernel that reads and decodes by itself stops at the first fragment."""
    spec = replace(SPEC, changes=[Insert("shop.orders", (1, "plain")), Commit(), *SPEC.changes] * 50)
    rows = []
    for name, content in (("whole", spec.to_bytes()), ("parts", Fragmenter(300).log(spec.to_bytes()))):
        (tmp_path / name).write_bytes(content)
        with (tmp_path / name).open("rb", buffering=0) as file:
            rows.append([str(row) for _, changes in FileDecoder("log").read(file) for row in changes.after.to_pylist()])
    assert rows[0] == rows[1]
    assert len(rows[0]) == 50 * 42


def test_a_slice_never_ends_between_fragments() -> None:
    content = Fragmenter(60).log(SPEC.to_bytes())
    slices, _ = sliced(content, target=1)
    assert b"".join(piece["payload"] for piece in slices)[30:] == content[30:]
    counts = [len(events_at("log", piece["start"], piece["context"], piece["payload"])) for piece in slices]
    assert sum(counts) == sum(piece["events"] for piece in slices)
    assert [piece["tables"] for piece in slices].count([{"schema": "shop", "table": "orders"}]) >= 3


def test_every_fragment_is_listed_and_counted() -> None:
    content = Fragmenter(500).log(SPEC.to_bytes())
    listed = list(list_events(chunked(content, 100), "log"))
    sizes = [len(event) for event in events_of(content)]
    assert [event.stop - event.offset for event in listed] == sizes
    assert listed[-1].stop == len(content)
    parts = [event for event in listed if event.type == "Partial_rows"]
    assert [event.note for event in parts[:3]] == [
        "table_id: 100 flags: STMT_END_F, fragment 1 of 3", "fragment 2 of 3", "fragment 3 of 3"
    ]  # fmt: skip
    assert {event.table for event in parts} == {"shop.orders"}
    summary = summarize(chunked(content, 100), "log")
    assert summary.error is None
    [count] = [count for count in summary.types if count.type == "Partial_rows"]
    assert (count.events, count.treatment) == (len(parts), "decoded")


FIRST = Fragmenter(60)


def without(index: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda bodies: bodies[:index] + bodies[index + 1 :]


def with_size(size: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda bodies: [bodies[0][:9] + size.to_bytes(8, "little") + bodies[0][17:], *bodies[1:]]


def with_code(bodies: list[bytes]) -> list[bytes]:
    return [bodies[0][:21] + b"\x02" + bodies[0][22:], *bodies[1:]]


@pytest.mark.parametrize(
    "change, kind, message",
    [
        (without(0), DecodeError, "its first fragment is missing, this is one of 20 and 2"),
        (without(1), DecodeError, "fragment 2 of 20 is missing: fragment 3 of 20 is in its place"),
        (without(19), DecodeError, "fragment 20 of 20 is missing: a Xid event is in its place"),
        (lambda bodies: [*bodies[:2], *bodies], DecodeError, "fragment 3 of 20 is missing: fragment 1 of 20 is in its"),
        (with_size(100), DecodeError, "100 bytes announced, at least 120 found"),
        (with_size(5000), DecodeError, "5000 bytes announced, 1171 found"),
        (with_size(2 << 30), Unsupported, "more than 1 GiB is not read"),
        (with_code, DecodeError, "does not begin with a row event's head"),
        (lambda bodies: [bodies[0][:20], *bodies[1:]], DecodeError, "bytes announced"),
        (lambda bodies: [b"\1\0", *bodies[1:]], DecodeError, "a fragment of 25 bytes, whose parts do not fit"),
    ],
)
def test_what_is_wrong_with_fragments(change: Callable[[list[bytes]], list[bytes]], kind: type, message: str) -> None:
    content = replace(FIRST, change=change).log(SPEC.to_bytes())
    offset = SPEC.offsets()[5]
    with pytest.raises(DecodeError) as info:
        changes_in(content)
    assert type(info.value) is kind
    assert str(info.value).startswith(f"log:{offset}: a row event in fragments (PARTIAL_ROW_DATA)")
    assert message in str(info.value)


def test_a_flipped_byte_in_any_fragment_is_named() -> None:
    content = bytearray(FIRST.log(SPEC.to_bytes()))
    for at in (SPEC.offsets()[5] + 19, SPEC.offsets()[5] + 60, SPEC.offsets()[5] + 500):
        damaged = bytearray(content)
        damaged[at] ^= 4
        with pytest.raises(ChecksumMismatch, match=r"^log:\d+: a row event in fragments.*CRC32"):
            changes_in(bytes(damaged))


def test_a_file_that_ends_between_fragments_is_cut() -> None:
    content = FIRST.log(SPEC.to_bytes())
    offset = SPEC.offsets()[5]
    with pytest.raises(Truncated, match=f"log:{offset}: the file ends inside the event that begins there"):
        list(list_events(iter([content[: offset + 200]]), "log"))


def test_a_quarantined_group_is_one_event() -> None:
    """Whole, with every fragment of it."""
    content = FIRST.log(SPEC.to_bytes())
    [piece] = [piece for piece in sliced(content)[0] if piece["kind"] == "rows"]
    offset = next(event.offset for event in events_at("log", piece["start"], piece["context"], piece["payload"])
                  if event.type == "Partial_rows")  # fmt: skip
    payload = passed_over("log", piece["start"], piece["payload"], [offset])
    types = [event.type for event in events_at("log", piece["start"], piece["context"], payload)]
    assert len(payload) == len(piece["payload"])
    assert types.count("Partial_rows") == 1
    assert types.count("Ignorable") == 1


class HideOrders:
    """A rule that redacts one table."""

    def holds(self, schema: str, table: str) -> bool:
        return (schema, table) == ("shop", "orders")

    def refusal(self, text: str, database: str) -> str | None:
        return None


@pytest.mark.parametrize("checksum", [True, False])
def test_a_redacted_group_is_one_event_without_its_rows(checksum: bool) -> None:
    content = Fragmenter(60, checksum=checksum).log(replace(SPEC, checksum=checksum).to_bytes())
    slicer = Slicer("log", 0, None, redact=HideOrders())
    batches = [*slicer.feed(content), *slicer.finish()]
    slices = pa.Table.from_batches(batches).to_pylist()
    slices_bytes = b"".join(piece["payload"] for piece in slices)
    assert b"xxx" not in slices_bytes
    assert b"small" not in slices_bytes
    assert len(slices_bytes) == len(content)
    footer = 4 if checksum else 0
    assert [original(event, footer) for event in events_of(slices_bytes) if event[4] == 28] == [172, 30, 172]
    assert same_but_redacted(slices_bytes[len(MAGIC) :], content[len(MAGIC) :], footer)
    assert not same_but_redacted(
        slices_bytes[len(MAGIC) :], content[len(MAGIC) :].replace(b"\1\0\0\0\0\0", b"\2\0\0\0\0\0"), 4
    )
    assert [piece["redacted"]["events"] for piece in slices if piece["redacted"]] == [3]


def test_a_large_transaction_header_is_counted() -> None:
    """MySQL after 9.7, type 43: where the transaction ends that follows, and padding. Made from its source."""
    body = b"\1" + (4096).to_bytes(8, "little") + b"\x10" + bytes(100)
    spec = replace(SPEC, changes=[RawEvent(43, body), Insert("shop.orders", (1, "a")), Commit()])
    [event] = [event for event in list_events(iter([spec.to_bytes()]), "log") if event.type.startswith("Large")]
    assert (event.type, event.note) == ("Large_transaction_header", "terminating event offset 4096")
    assert len(changes_in(spec.to_bytes())) == 1


def test_updates_in_fragments() -> None:
    changes = [Rows("shop.orders", Update, [((1, "a" * 99), (1, "b" * 99)), ((2, "c" * 99), (3, None))])]
    spec = replace(SPEC, changes=changes)
    lines = changes_in(Fragmenter(50).log(spec.to_bytes()))
    assert lines == changes_in(spec.to_bytes())
    assert [line["op"] for line in lines] == ["update", "update"]
