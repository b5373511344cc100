import ctypes
import json
import mmap
import os
import re
import resource
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog.events.scanner import Bytes, TableMaps, open_slice
from spark_jobs.binlog.events.table_map import Column, TableDefinition, TableName, parse_table_map
from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.binlog.slices.slicer import Slicer
from spark_jobs.errors import DecodeError, Truncated, Unsupported
from tests.binlogs.one_value import FILE, definition_of
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    Rows,
    SegmentSpec,
    Table,
    Update,
    reframed,
)  # fmt: skip
from tests.binlogs.segment_types import BIGINT, DATE, INT, LATIN1, LONGTEXT, VARCHAR, ColumnType

RECORDED = Path("tests/recorded")


def definitions(file: Path) -> dict[str, TableDefinition]:
    maps = TableMaps()
    scanner, _ = open_slice(file.name, 0, None, file.read_bytes(), maps)
    parsed = [parse_table_map(event, scanner.format, file.name) for event in maps.events]
    return {str(definition.name): labelled(definition, file) for definition in parsed}


LABELS: dict[str, dict[str, tuple[str, ...]]] = {
    "kinds.strings": {"e": ("a,b", "c'd", "", "ü"), "s": ("x", "y", "ü", "z")},
    "small.t": {"@8": ("a", "b")},
}


def labelled(definition: TableDefinition, file: Path) -> TableDefinition:
    """With the labels of the SQL: MySQL 8.0.12 does not log their character set, so those beyond ASCII are not told."""
    statement = re.search(rf"create table {definition.name} .*", file.with_suffix(".sql").read_text())
    assert statement
    labels_text = re.findall(r"(\w+) (?:enum|set)\(([^)]*)\)", statement[0])
    labels: dict[str, tuple[str, ...]] = {
        name: tuple(text.strip("'").split("','")) for name, text in labels_text
    } | LABELS.get(str(definition.name), {})
    names = definition.column_names()
    columns = [replace(column, labels=labels.get(name)) for name, column in zip(names, definition.columns, strict=True)]
    return replace(definition, columns=tuple(columns))


def decoded(file: Path, definition: TableDefinition, rows: int) -> list[Changes]:
    return list(Decoder(definition, before="all", rows=rows).decode(file.name, 0, None, file.read_bytes()))


def printed(column: Column, array: pa.Array) -> list[Any]:
    """The values as the server prints them, its time zone UTC."""
    if pa.types.is_binary(array.type):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if pa.types.is_floating(array.type):
        return list(array.to_pylist())
    if pa.types.is_decimal(array.type):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    texts = array.cast(pa.timestamp("us")) if pa.types.is_timestamp(array.type) else array
    texts = texts.cast(pa.string()).to_pylist()
    if pa.types.is_timestamp(array.type):
        end = 20 + column.meta if column.meta else 19
        return [None if text is None else text[:end] for text in texts]
    return list(texts)


def rows_of(definition: TableDefinition, batch: pa.RecordBatch, raw: pa.Array | None) -> list[list[object]]:
    columns = [printed(column, array) for column, array in zip(definition.columns, batch.columns, strict=True)]
    rows = [list(row) for row in zip(*columns, strict=True)]
    for row, exact in zip(rows, [None] * len(rows) if raw is None else raw.to_pylist(), strict=True):
        for name, text in exact or []:
            offset = definition.column_names().index(name)
            assert row[offset] is None, name
            row[offset] = text
    return rows


def replayed(definition: TableDefinition, batches: list[Changes]) -> list[list[object]]:
    """The table's rows after the changes, in the order of its first column."""
    table: dict[tuple[object, ...], list[object]] = {}
    for changes in batches:
        after = rows_of(definition, changes.after, changes.raw)
        before = rows_of(definition, changes.before, changes.before_raw)
        for op, new, old in zip(changes.op.to_pylist(), after, before, strict=True):
            if op == 1:
                assert all(value is None for value in old)
                table[key(definition, new)] = new
            else:
                removed = table.pop(key(definition, old if op == 2 else new))
                assert removed == (old if op == 2 else new)
            if op == 2:
                table[key(definition, new)] = new
    return sorted(table.values(), key=lambda row: int(str(row[0])))


def key(definition: TableDefinition, row: list[object]) -> tuple[object, ...]:
    return tuple(row[ordinal] for ordinal in definition.key or (0,))


def recorded_tables() -> list[object]:
    return [
        pytest.param(file, table, id=f"{file.stem}-{table}")
        for file in sorted(RECORDED.glob("*.rows.json"))
        for table in json.loads(file.read_text())
    ]


@pytest.mark.parametrize("rows", [16384, 1])
@pytest.mark.parametrize("file, table", recorded_tables())
def test_recorded_rows_are_what_the_server_selected(file: Path, table: str, rows: int) -> None:
    expected = json.loads(file.read_text())[table]
    file = file.with_name(file.name.replace(".rows.json", ".000001"))
    definition = definitions(file)[table]
    if definition.has_names():
        assert definition.column_names() == expected["columns"]
    all_rows = replayed(definition, decoded(file, definition, rows))
    for column, offset in zip(definition.columns, range(len(definition.columns)), strict=True):
        expected_column = [row[offset] for row in expected["rows"]]
        if pa.types.is_floating(column.arrow):
            expected_column = [None if value is None else float(value) for value in expected_column]
        assert [row[offset] for row in all_rows] == expected_column, (column.name, column.sql_type)


PLAIN = Table("shop.t", key=["id"], id=INT, note=VARCHAR(40))


def content_of(*changes: Change, tables: tuple[Table, ...] = (PLAIN,)) -> bytes:
    return SegmentSpec(tables, changes).to_bytes()


def decode(content: Bytes, definition: TableDefinition | None = None, **options: Any) -> list[Changes]:
    return list(Decoder(definition or definition_of(bytes(content)), **options).decode(FILE, 0, None, content))


def test_the_key_is_all_that_is_kept_of_an_update_by_default() -> None:
    [changes] = decode(
        content_of(Update("shop.t", (1, "a"), (2, "b")), Insert("shop.t", (3, "c")), Delete("shop.t", (2, "b")))
    )
    assert changes.op.to_pylist() == [2, 1, 3]
    assert changes.after.to_pylist() == [{"id": 2, "note": "b"}, {"id": 3, "note": "c"}, {"id": 2, "note": "b"}]
    assert changes.before.to_pylist() == [{"id": 1}, {"id": None}, {"id": None}]
    assert changes.gtid is changes.raw is changes.before_raw is None


@pytest.mark.parametrize("key", [None, ()])
def test_without_a_key_nothing_is_kept_of_it(key: tuple[int, ...] | None) -> None:
    content = content_of(Update("shop.t", (1, "a"), (2, "b")))
    [changes] = decode(content, replace(definition_of(content), key=key))
    assert changes.before.num_columns == 0


def test_exact_text_of_both_images() -> None:
    table = Table("shop.t", key=["day"], day=DATE, text=VARCHAR(9), id=INT)
    update = Update("shop.t", ("0000-00-00", b"\xff", 1), ("2024-00-01", "ok", 2))
    [changes] = decode(content_of(update, Insert("shop.t", ("2024-02-30", b"\xfe", 3)), tables=(table,)))
    assert changes.raw is not None
    assert changes.before_raw is not None
    assert changes.raw.to_pylist() == [[("day", "2024-00-01")], [("day", "2024-02-30"), ("text", "fe")]]
    assert changes.before_raw.to_pylist() == [[("day", "0000-00-00")], None]
    assert changes.before.to_pylist() == [{"day": None}] * 2


def test_other_tables_are_passed_over() -> None:
    second_table = Table("shop.other", key=["id"], id=INT)
    content = content_of(Insert("shop.other", (1,)), Insert("shop.t", (2, "x")), tables=(PLAIN, second_table))
    definition = replace(definition_of(content), name=TableName("shop", "nothing"))
    assert decode(content, definition) == []


def test_a_block_ends_inside_an_event_and_goes_on() -> None:
    rows = [(number, "x" * (number % 40)) for number in range(1000)]
    batches = decode(content_of(Rows("shop.t", Insert, rows)), rows=7)
    assert [len(batch) for batch in batches] == [7] * 142 + [6]
    assert [row for batch in batches for row in batch.row.to_pylist()] == list(range(1000))
    assert [tuple(row.values()) for batch in batches for row in batch.after.to_pylist()] == rows


def test_a_value_larger_than_a_block_expects() -> None:
    table = Table("shop.t", key=["id"], id=INT, note=LONGTEXT, more=LONGTEXT)
    long = ["ü" * 100_000, "b" * 3_000_000, "", "c" * 70_000]
    batches = decode(content_of(*(Insert("shop.t", (1, text, text[:9])) for text in long), tables=(table,)))
    assert [text for batch in batches for text in batch.after["note"].to_pylist()] == long


@pytest.mark.parametrize("rows_version", [1, 2])
@pytest.mark.parametrize("checksum", [True, False])
def test_nothing_behind_the_slice_is_read(rows_version: int, checksum: bool) -> None:
    """The slice ends by its row event, and in memory by a page that may not be touched."""
    spec = SegmentSpec(
        [PLAIN], [Insert("shop.t", (1, "a"))], checksum=checksum, rows_version=rows_version, rotate_to=""
    )
    content = spec.to_bytes()[: spec.offsets()[-2]]
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + page), page, 0)
    pages[page - len(content) : page] = content
    [changes] = decode(np.frombuffer(pages, np.uint8)[page - len(content) : page], definition_of(content))
    assert changes.after.to_pylist() == [{"id": 1, "note": "a"}]


def replaced(content: bytes, code: int, change: Callable[[bytearray], object]) -> bytes:
    """The file with the body of its first event of a type changed."""
    spec_events, offset = [], 4
    while offset < len(content):
        length = int.from_bytes(content[offset + 9 : offset + 13], "little")
        spec_events.append(content[offset : offset + length])
        offset += length
    file_number = next(number for number, event in enumerate(spec_events) if event[4] == code)
    body = bytearray(spec_events[file_number][19:-4])
    change(body)
    spec_events[file_number] = reframed(spec_events[file_number], body=bytes(body))
    return content[:4] + b"".join(spec_events)


def cut(count: int) -> Callable[[bytearray], object]:
    return lambda body: body.__delitem__(slice(len(body) - count, None))


def put(offset: int, value: int) -> Callable[[bytearray], object]:
    return lambda body: body.__setitem__(offset, value)


INSERT = content_of(Insert("shop.t", (1, "abc")))
UPDATE = content_of(Update("shop.t", (1, "abc"), (1, "d")))


@pytest.mark.parametrize(
    "content, code, change, error, message",
    [
        (INSERT, 30, cut(1), Truncated, r"row 0 of shop.t: note varchar\(40\): the row ends beyond its event"),
        (INSERT, 30, cut(6), Truncated, "row 0 of shop.t: id int: the row ends"),
        (INSERT, 30, cut(10), Truncated, "shop.t"),
        (UPDATE, 31, cut(7), Truncated, "row 0 of shop.t: its null bits"),
        (UPDATE, 31, cut(8), Truncated, "row 0 of shop.t: note varchar"),
        (INSERT, 30, put(11, 1), Unsupported, "shop.t: a row image without all columns; set binlog_row_image=FULL"),
        (UPDATE, 31, put(12, 1), Unsupported, "binlog_row_image"),
        (INSERT, 30, put(10, 3), DecodeError, "column count"),
        (INSERT, 30, put(8, 200), Truncated, "shop.t"),
        (INSERT, 30, lambda body: body.append(0), Truncated, "row 1 of shop.t"),
    ],
)
def test_rows_that_do_not_fit_their_event(
    content: bytes, code: int, change: Callable[[bytearray], object], error: type[DecodeError], message: str
) -> None:
    broken = replaced(content, code, change)
    with pytest.raises(error, match=rf"^log.000001:\d+: .*{message}"):
        decode(broken, before="all")


WIDE = Table("shop.t", ["c0"], True, **{f"c{k}": INT for k in range(20)})


def partial(*changes: Change, table: Table = WIDE, version: int = 2) -> tuple[Changes, list[Any], list[Any]]:
    """The only batch of a file, and its rows and before images as dicts without the columns that are left out."""
    content = SegmentSpec((table,), changes, rows_version=version).to_bytes()
    [decoded] = Decoder(definition_of(content), before="all", partial=True).decode(FILE, 0, None, content)
    assert decoded.present is not None
    assert decoded.before_present is not None
    images = [(decoded.after, decoded.present), (decoded.before, decoded.before_present)]
    after, before = (
        [
            {name: value for (name, value), is_present in zip(row.items(), mask, strict=True) if is_present}
            for row, mask in zip(batch.to_pylist(), presence.sets[presence.index].tolist(), strict=True)
        ]
        for batch, presence in images
    )
    return decoded, after, before


def wide(**values: Any) -> list[Any]:
    """A row of WIDE without the columns that are not named."""
    return [values.get(f"c{k}", ...) for k in range(20)]


def test_more_than_eight_columns_of_many_have_null_bits_of_two_bytes() -> None:
    values = {f"c{k}": None if k % 3 else k for k in (0, 1, 2, 3, 4, 5, 6, 7, 12, 18)}
    _, after, _ = partial(Rows("shop.t", Insert, [wide(**values), wide(**dict.fromkeys(values, 5))]))
    assert after == [values, dict.fromkeys(values, 5)]


@pytest.mark.parametrize("rows", [1, 2, 16384])
def test_an_event_without_a_column_is_one_row(rows: int) -> None:
    """Such an event has no bytes of rows; the server carries it out once (log_event.cc, write_row)."""
    content = content_of(Insert("shop.t", (..., ...)), Insert("shop.t", (2, "b")))
    blocks = list(Decoder(definition_of(content), partial=True, rows=rows).decode(FILE, 0, None, content))
    assert [row for changes in blocks for row in changes.after.to_pylist()] == [
        {"id": None, "note": None},
        {"id": 2, "note": "b"},
    ]


@pytest.mark.parametrize("extra", [b"", b"\1\2\3\4\5\6", bytes(300)])
def test_extra_row_information_is_passed_over_by_its_length(extra: bytes) -> None:
    """A partition's number, NDB's own; the length counts itself (rows_event.h, Rows_event)."""
    content = content_of(Rows("shop.t", Insert, [(1, "a"), (2, "b")], extra=extra))
    [changes] = decode(content, definition_of(content))
    assert changes.after["id"].to_pylist() == [1, 2]


PARTIAL = content_of(Insert("shop.t", (..., ...)))


@pytest.mark.parametrize(
    "content, change, message",
    [
        (PARTIAL, lambda body: body.extend(b"ab"), "row 0 of shop.t: its null bits"),
        (content_of(Insert("shop.t", (1, ...))), cut(1), "row 0 of shop.t: id int"),
        (content_of(Insert("shop.t", (1, ...))), cut(5), "row 0 of shop.t: its null bits"),
        (content_of(Insert("shop.t", (1, ...))), lambda body: body.extend(b"\0b"), "row 1 of shop.t: id int"),
        (INSERT, put(8, 1), "shop.t"),
        (INSERT, put(8, 0), "shop.t"),
    ],
)
def test_partial_rows_that_do_not_fit_their_event(
    content: bytes, change: Callable[[bytearray], object], message: str
) -> None:
    with pytest.raises(Truncated, match=rf"^log.000001:\d+: .*{message}"):
        list(Decoder(definition_of(content), partial=True).decode(FILE, 0, None, replaced(content, 30, change)))


def test_one_flipped_byte_anywhere_is_an_error() -> None:
    definition = definition_of(INSERT)
    for offset in range(len(INSERT)):
        if offset == 4 + 17:
            continue  # the file's in-use flag stands there
        broken = bytearray(INSERT)
        broken[offset] ^= 0x10
        with pytest.raises(DecodeError, match=r"^log.000001"):
            decode(bytes(broken), definition)


def test_a_file_cut_anywhere_is_an_error_or_holds_fewer_events() -> None:
    definition = definition_of(INSERT)
    ends = set(SegmentSpec((PLAIN,), [Insert("shop.t", (1, "abc"))]).offsets())
    for length in range(len(INSERT)):
        if length in ends and length > 4:
            assert len(decode(INSERT[:length], definition)) <= 1
        else:
            with pytest.raises(DecodeError, match=r"^log.000001"):
                decode(INSERT[:length], definition)


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"id": BIGINT, "note": VARCHAR(40)}, "not the one expected: .*id int.* instead of .*id bigint"),
        ({"id": INT}, "not the one expected"),
        ({"id": INT.UNSIGNED, "note": VARCHAR(40)}, "shop.t.id: UNSIGNED False in the log, True expected"),
        (
            {"id": INT, "note": VARCHAR(160, LATIN1, 1)},
            "shop.t.note: character set utf8mb4 in the log, latin1 expected",
        ),
        ({"number": INT, "note": VARCHAR(40)}, "shop.t.number: name id in the log, number expected"),
    ],
)
def test_the_log_must_agree_with_the_definition(columns: dict[str, ColumnType], message: str) -> None:
    table = Table("shop.t", **columns)  # type: ignore[arg-type]  # columns by name
    definition = definition_of(content_of(Insert("shop.t", [None] * len(columns)), tables=(table,)))
    with pytest.raises(DecodeError, match=rf"^log.000001:\d+: .*{message}"):
        decode(INSERT, definition)


def test_a_collation_that_is_not_known_is_none_of_the_logs() -> None:
    definition = definition_of(INSERT)
    unknown_charset = replace(definition, columns=(definition.columns[0], replace(definition.columns[1], charset=9999)))
    with pytest.raises(
        DecodeError, match=r"^log.000001:\d+: shop.t.note: character set utf8mb4 in the log, collation 9999"
    ):
        decode(INSERT, unknown_charset)


def test_the_log_fills_in_what_the_definition_leaves_open() -> None:
    definition = definition_of(INSERT)
    open_columns = tuple(Column(None, column.type_code, column.meta, None) for column in definition.columns)
    [changes] = decode(INSERT, replace(definition, columns=open_columns))
    assert changes.after.to_pylist() == [{"id": 1, "note": "abc"}]


@pytest.mark.parametrize("values", [(1, 2, None), (1, None, 2), (None, None, 1)])
def test_a_null_in_any_row_of_an_event(values: tuple[int | None, ...]) -> None:
    table = Table("shop.t", id=INT)
    [changes] = decode(content_of(Rows("shop.t", Insert, [(value,) for value in values]), tables=(table,)))
    assert changes.after["id"].to_pylist() == list(values)


def test_checksums_may_change_from_file_to_file() -> None:
    files = [
        SegmentSpec([PLAIN], [Insert("shop.t", (number, "a"))], checksum=checksum).to_bytes()
        for number, checksum in enumerate([True, False, True])
    ]
    decoder = Decoder(definition_of(files[0]))
    ids = [changes.after["id"].to_pylist() for content in files for changes in decoder.decode(FILE, 0, None, content)]
    assert ids == [[0], [1], [2]]


def test_a_table_id_may_mean_another_table_later() -> None:
    """As after FLUSH TABLES or a restart: the map in force is the last one of the statement."""
    second_table = Table("shop.u", id=INT, note=VARCHAR(40))
    spec = SegmentSpec([PLAIN], [Insert("shop.t", (1, "a"))], rotate_to="")
    two = SegmentSpec([second_table, PLAIN], [Insert("shop.u", (2, "b")), Insert("shop.t", (3, "c"))])
    content = spec.to_bytes() + b"".join(two.events()[2:])
    assert spec.first_table_id == two.first_table_id
    blocks = decode(content, definition_of(spec.to_bytes()))
    assert [changes.after["id"].to_pylist() for changes in blocks] == [[1, 3]]


def test_a_collation_that_is_not_known_is_refused_by_place() -> None:
    table = Table("shop.t", id=INT, note=VARCHAR(10, 65023))
    content = content_of(Insert("shop.t", (1, None)), tables=(table,))
    with pytest.raises(Unsupported, match=r"^log.000001:\d+: shop.t.note: collation 65023 belongs to no known"):
        decode(content)
    column = replace(definition_of(content).columns[1], charset=LATIN1)
    definition = replace(definition_of(content), columns=(definition_of(content).columns[0], column))
    with pytest.raises(DecodeError, match="character set collation 65023 in the log, latin1 expected"):
        decode(content, definition)


def test_a_type_that_is_not_read_names_its_column() -> None:
    table = Table("shop.t", id=INT, doc=ColumnType(0, b"", bytes))
    with pytest.raises(Unsupported, match=r"^log.000001:\d+: shop.t.doc: type decimal before MySQL 5.0 is not read"):
        decode(content_of(Insert("shop.t", (1, None)), tables=(table,)))


@pytest.mark.slow
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="is of compiled kernels")
def test_two_hundred_megabytes_decode_in_bounded_memory() -> None:
    """Whole transactions over and over, cut into slices and decoded one by one, as they come."""
    rows = [(number, "x" * 40) for number in range(20_000)]
    spec = SegmentSpec([PLAIN], [Rows("shop.t", Insert, rows), Commit()], rotate_to="")
    content, indexes = spec.to_bytes(), spec.offsets()
    head, transaction = content[: indexes[2]], content[indexes[2] :]
    times = 200_000_000 // len(transaction)
    slicer = Slicer(FILE, 0, None)
    batches = (batch for chunk in (head, *[transaction] * times) for batch in slicer.feed(chunk))
    decoder = Decoder(definition_of(content))
    count, before = 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for batch in chain(batches, (batch for last in [slicer] for batch in last.finish())):
        for log_slice in batch.select(["start", "context", "payload"]).to_pylist():
            changes = decoder.decode(FILE, log_slice["start"], log_slice["context"], log_slice["payload"])
            count += sum(len(rows) for rows in changes)
    assert count == 20_000 * times
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@pytest.mark.parametrize("change", [Insert, Delete])
def test_text_of_a_row_that_fails_is_in_no_row_before_it(change: type[Insert | Delete]) -> None:
    table = Table("shop.t", key=["a"], a=VARCHAR(20), b=VARCHAR(20), c=VARCHAR(20))
    spec = SegmentSpec([table], [Rows("shop.t", change, [("x", "y", "z"), ("foo", None, "bar")])], checksum=False)
    content = bytearray(spec.to_bytes())
    offset = content.index(b"\x03bar")
    content[offset] = 200
    blocks: list[Changes] = []
    with pytest.raises(Truncated, match=r"row 1 of shop\.t: c"):
        blocks.extend(Decoder(definition_of(bytes(content)), before="all").decode(FILE, 0, None, bytes(content)))
    assert [row for changes in blocks for row in changes.after.to_pylist()] == [{"a": "x", "b": "y", "c": "z"}]


def test_text_of_an_update_that_fails_is_in_no_row_before_it() -> None:
    table = Table("shop.t", key=["a"], a=VARCHAR(20), b=VARCHAR(20))
    pairs = [(("x", "y"), ("v", "w")), (("foo", "foo"), ("foo", "bar"))]
    spec = SegmentSpec([table], [Rows("shop.t", Update, pairs)], checksum=False)
    content = bytearray(spec.to_bytes())
    content[content.index(b"\x03bar")] = 200
    blocks: list[Changes] = []
    with pytest.raises(Truncated, match=r"row 1 of shop\.t: b"):
        blocks.extend(Decoder(definition_of(bytes(content)), before="all").decode(FILE, 0, None, bytes(content)))
    [changes] = blocks
    assert changes.before.to_pylist() == [{"a": "x", "b": "y"}]
    assert changes.after.to_pylist() == [{"a": "v", "b": "w"}]
