"""A file read pass after pass by one kernel call, against the same bytes fed to the decoder."""

import io
import os
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Changes, FileDecoder, TableDefinition, TableName, kernels
from spark_jobs.binlog.events.redaction import blanked
from spark_jobs.binlog.rows import file_decoder
from spark_jobs.binlog.rows.bulk_passes import PlainPasses
from spark_jobs.errors import DecodeError
from tests import segment_types as types
from tests.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    Query,
    RawEvent,
    Rollback,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
)

FILE = "log.000001"
ORDERS = Table("shop.orders", key=["id"], id=types.INT, note=types.VARCHAR(40))
ITEMS = Table("shop.items", key=["id"], id=types.INT, note=types.VARCHAR(40))
LATE = Table("shop.late", key=["id"], id=types.INT)
RECORDED = sorted(Path("tests/recorded").glob("*.0*[0-9]"))

Outcome = tuple[dict[str, list[object]], str, int]
"""Rows by table, what was said against the file, and bytes that stay pending."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_decoder, "READ", 200)


def outcome(content: bytes, *, is_fed: bool, capacity: int = 1 << 20, **options: object) -> Outcome:
    rows: defaultdict[str, list[object]] = defaultdict(list)
    decoder = FileDecoder(FILE, before="all", **options)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_decoder, "HELD", capacity)
        try:
            for definition, changes in _in_chunks(decoder, content) if is_fed else _decoded_changes(decoder, content):
                changes.after.validate(full=True)
                scalars = (changes.op, changes.offset, changes.row, changes.committed_at.cast(pa.int64()))
                images = (changes.after.to_struct_array(), changes.before.to_struct_array())
                rows[str(definition.name)] += zip(*(column.to_pylist() for column in (*scalars, *images)), strict=True)
        except DecodeError as error:
            return rows, str(error), 0
    return rows, "", decoder.pending


def alike(actual: Outcome, expected: Outcome) -> bool:
    """Rows in front of an error are at least those of who was fed all at once, as rows that are not plain cost some."""
    if not expected[1]:
        return actual == expected
    rows = {table: actual[0][table][: len(expected_rows)] for table, expected_rows in expected[0].items()}
    return (rows, actual[1:]) == (expected[0], expected[1:])


def _in_chunks(decoder: FileDecoder, content: bytes) -> Iterator[tuple[TableDefinition, Changes]]:
    yield from decoder.feed(content)
    yield from decoder.finish()


def _decoded_changes(decoder: FileDecoder, content: bytes) -> Iterator[tuple[TableDefinition, Changes]]:
    descriptor = os.memfd_create("log")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    with io.FileIO(descriptor) as file:
        yield from decoder.read(file)


def small(count: int, first: int = 0) -> list[Change]:
    """Transactions of one row, by turns in two tables."""
    names = ("shop.orders", "shop.items")
    numbers = range(first, first + count)
    return [change for k in numbers for change in (Insert(names[k % 2], (k, "a" * (k % 40))), Commit())]


def spec(changes: Sequence[Change], **fields: object) -> SegmentSpec:
    return replace(SegmentSpec([ORDERS, ITEMS, LATE], list(changes)), **fields)  # type: ignore[arg-type]


MANY = [(k, "x" * (k % 40)) for k in range(300)]
EACH = [Insert("shop.orders", row) for row in MANY]
XA_START, XA_PREPARE = Statement("", "XA START X'61',X'',1"), RawEvent(38, bytes(13), ends=True)
CASES = {
    "small transactions": spec(small(90)),
    "no checksums": spec(small(90), checksum=False),
    "a table that comes late": spec([*small(60), Insert("shop.late", (1,)), Commit(), *small(60, 60)]),
    "events larger than a step": spec([*small(9), Rows("shop.orders", Insert, MANY), Commit(), *small(9, 9)]),
    "updates and deletes": spec(
        [
            *small(20),
            Update("shop.orders", (2, "a"), (2, "b")),
            Delete("shop.items", (1, "a")),
            Commit(),
            *small(20, 20),
        ]
    ),
    "statements between": spec([*small(20), Query("shop", "ALTER TABLE shop.orders COMMENT 'x'"), *small(20, 20)]),
    "a transaction without an end": spec([*small(20), Insert("shop.orders", (5, "a")), Insert("shop.items", (6, "b"))]),
    "a transaction of many events": spec([*small(9), *EACH, Commit(), *small(9)]),
    "compressed transactions later": spec(small(60), payload=lambda k: "zstd" if k > 40 else None),
    "a rollback": spec([*small(40), Insert("shop.orders", (5, "a")), Rollback(), *small(9)]),
    "a rollback of many events": spec([*small(9), *EACH, Rollback()]),
    "compressed rows later": spec(small(60), version="11.4.5-MariaDB", compressed_rows=30),
    "XA": spec([*small(40), XA_START, Insert("shop.orders", (5, "a")), XA_PREPARE, *small(9)]),
    "XA of many events": spec([*small(9), XA_START, *EACH, XA_PREPARE, *small(9)]),
    "XA without an end": spec([*small(40), XA_START, Insert("shop.orders", (5, "a"))]),
}


@pytest.mark.parametrize("capacity", [1, 2000, 1 << 20])
@pytest.mark.parametrize("name", CASES)
def test_same_as_fed(name: str, capacity: int) -> None:
    content = CASES[name].to_bytes()
    actual = outcome(content, is_fed=False, capacity=capacity)
    if "rollback" not in name or capacity == 1 << 20:  # whose rows may be handed out before it is seen
        assert alike(actual, outcome(content, is_fed=True))
    else:
        assert "ROLLBACK" in actual[1]


WHOLE = [name for name in CASES if not any(word in name for word in ("rollback", "without", "XA"))]


@pytest.mark.parametrize("name", WHOLE)
def test_every_row_comes(name: str) -> None:
    rows, message, pending = outcome(CASES[name].to_bytes(), is_fed=False)
    changes = CASES[name].changes
    row_count = sum(len(change.rows) if isinstance(change, Rows) else 0 for change in changes)
    assert sum(map(len, rows.values())) == row_count + sum(
        isinstance(change, Insert | Update | Delete) for change in changes
    )
    assert (message, pending) == ("", 0)


@pytest.mark.parametrize("full_name", ["shop.orders", "shop.items"])
def test_rows_that_were_left_out_when_the_log_was_extracted(full_name: str) -> None:
    """Whoever wants them is refused, the others read on."""
    log_spec = spec(small(60))
    events = log_spec.events()
    last = max(k for k, event in enumerate(events) if event[4] == 30)  # of shop.items
    events[last] = blanked(events[last], 4)
    content = log_spec.to_bytes()[: log_spec.offsets()[0]] + b"".join(events)

    def is_wanted(table: TableName) -> bool:
        return str(table) == full_name

    actual = outcome(content, is_fed=False, wanted=is_wanted)
    assert alike(actual, outcome(content, is_fed=True, wanted=is_wanted))
    assert bool(actual[1]) == (full_name == "shop.items")
    assert len(actual[0]["shop.orders"]) == (30 if full_name == "shop.orders" else 0)


@pytest.mark.parametrize("step", range(100, 1200, 100))
def test_a_table_that_comes_behind_a_statement_of_many_events(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The maps of a statement that began in an earlier pass are open again where a pass is left to the scan."""
    monkeypatch.setattr(file_decoder, "READ", step)
    parts = [Rows("shop.orders", Insert, [row], last=row == MANY[-1]) for row in MANY]
    log_spec = spec([*small(4), *parts, Insert("shop.items", (1, "a")), Insert("shop.late", (1,)), Commit()])
    events, maps = log_spec.events(), 0
    pieces = [log_spec.to_bytes()[: log_spec.offsets()[0]]]
    for event in events:
        maps += event[4] == 19
        if not (event[4] == 19 and 5 < maps <= 4 + len(parts)):  # the server writes one for all events of a statement
            pieces.append(event)
    content = b"".join(pieces)
    actual = outcome(content, is_fed=False, capacity=1)
    assert actual == outcome(content, is_fed=True)
    assert (len(actual[0]["shop.orders"]), len(actual[0]["shop.late"])) == (302, 1)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_same_as_fed_as_servers_write(path: Path) -> None:
    content = path.read_bytes()
    assert alike(outcome(content, is_fed=False), outcome(content, is_fed=True))


@pytest.mark.parametrize("name", ["small transactions", "a transaction of many events"])
def test_most_passes_are_the_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that is plain all but those with a table's first rows in them."""
    calls = []
    take = PlainPasses.take

    def counted(self: PlainPasses, *arguments: object) -> tuple[int, int]:
        code = take(self, *arguments)  # type: ignore[arg-type]
        calls.append((code[0], self._feed.base))
        return code

    monkeypatch.setattr(PlainPasses, "take", counted)
    content = CASES[name].to_bytes()
    assert outcome(content, is_fed=False, capacity=1000)[1:] == ("", 0)
    assert calls[-1] == (kernels.PASSES_OVER, len(content))
    counts = Counter(code for code, _ in calls)
    assert counts[kernels.PASSES_OVER] == 1
    assert counts[kernels.PASSES_NEWS] <= 2


def test_a_large_transaction_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_decoder, "HELD", 1000)
    monkeypatch.setattr(file_decoder, "GATHERED", 1)
    decoder = FileDecoder(FILE)
    content = spec(EACH).to_bytes()
    parts = [(len(changes), decoder.complete) for _, changes in _decoded_changes(decoder, content)]
    assert len(parts) > 10
    assert sum(count for count, _ in parts) > 290
    assert max(complete for _, complete in parts) == spec(EACH).offsets()[2]  # where the transaction begins


LARGE = [*[Insert("shop.items", row) for row in MANY], Commit()]


@pytest.mark.parametrize(
    "before", [[], LARGE, [Insert("shop.items", (1, "a")), Commit()], [Insert("shop.items", (1, "a"))]]
)
def test_a_rollback_of_rows_that_nobody_wants_is_passed_over(
    before: list[Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large they are, and whatever came before; not where rows that are wanted were handed out with them."""
    content = spec([*small(6), *before, *EACH, Rollback()]).to_bytes()
    rows, message, pending = outcome(content, is_fed=False, capacity=1, wanted=lambda name: name.table == "items")
    assert ("ROLLBACK" in message) == (len(before) == 1)
    assert (len(rows["shop.items"]), pending) == (3 + sum(isinstance(change, Insert) for change in before), 0)


@given(st.data())
def test_damage_is_told_as_when_fed(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([CASES["small transactions"], CASES["no checksums"]])).to_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    assert alike(outcome(bytes(content), is_fed=False), outcome(bytes(content), is_fed=True))


@given(st.data())
def test_damage_in_several_events_is_told_as_when_fed(data: st.DataObject) -> None:
    """Checksums of a pass are verified as one; the first that does not fit is named nevertheless."""
    content = bytearray(CASES["small transactions"].to_bytes())
    for offset in data.draw(st.sets(st.integers(200, len(content) - 1), min_size=2, max_size=30)):
        content[offset] ^= data.draw(st.integers(1, 255))
    actual = outcome(bytes(content), is_fed=False)
    assert actual[1] or actual[2]
    assert alike(actual, outcome(bytes(content), is_fed=True))


@given(end=st.integers(4, len(CASES["small transactions"].to_bytes())), capacity=st.sampled_from([1, 300, 1 << 20]))
def test_what_is_cut_stays_pending(end: int, capacity: int) -> None:
    content = CASES["small transactions"].to_bytes()[:end]
    actual, expected = (
        outcome(content, is_fed=False, capacity=capacity),
        outcome(content, is_fed=True, capacity=capacity),
    )
    assert actual == expected


def test_tables_not_wanted_are_passed_over() -> None:
    content = CASES["small transactions"].to_bytes()
    rows, message, pending = outcome(content, is_fed=False, wanted=lambda name: name.table == "items")
    assert (list(rows), len(rows["shop.items"]), message, pending) == (["shop.items"], 45, "", 0)


@pytest.mark.parametrize("gathered", [1, 1000])
def test_blocks_are_handed_out_every_so_many_bytes(gathered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = CASES["small transactions"].to_bytes()
    expected = outcome(content, is_fed=True)
    monkeypatch.setattr(file_decoder, "GATHERED", gathered)
    decoder = FileDecoder(FILE, before="all")
    lengths = [len(changes) for _, changes in _decoded_changes(decoder, content)]
    assert max(lengths) < 10
    assert outcome(content, is_fed=False) == expected


class Alarm(Exception):
    """What a signal's handler raises."""


def test_a_signal_is_heard_while_nothing_comes() -> None:
    """The kernel waits in a system call, which a signal ends; it must not begin another one."""

    def alarmed(_number: int, _frame: object) -> None:
        raise Alarm

    reader, writing = os.pipe()
    closing = threading.Timer(20, os.close, [writing])
    before = signal.signal(signal.SIGALRM, alarmed)
    content = CASES["small transactions"].to_bytes()
    outcome(content, is_fed=False)  # so that nothing is compiled when the signal comes
    os.write(writing, content[:-100])
    closing.start()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with io.FileIO(reader) as file, pytest.raises(Alarm):
            list(FileDecoder(FILE).read(file))
        assert not closing.finished.is_set()
    finally:
        signal.signal(signal.SIGALRM, before)
        closing.cancel()
        closing.join()
    os.close(writing)


def test_a_file_that_fails_is_an_error_of_the_system(tmp_path: Path) -> None:
    """What the kernel's own reading fails with is raised by the file's."""
    path = tmp_path / "log"
    path.write_bytes(CASES["small transactions"].to_bytes())
    with path.open("rb", buffering=0) as file:
        reading = FileDecoder(FILE, rows=5).read(file)
        next(reading)
        os.dup2(os.open(tmp_path, os.O_RDONLY), file.fileno())
        with pytest.raises(IsADirectoryError):
            list(reading)
