"""The fast decoder against tests/twins/slow_decoder.py, on random tables and on what a server wrote."""

# ruff: noqa: DTZ001 - the texts of these moments have no zone

import dataclasses
import datetime as dt
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.events.scanner import TableMaps, open_slice
from spark_jobs.binlog.events.table_map import Column, TableDefinition, parse_table_map
from spark_jobs.binlog.events.transaction_payload import Payloads
from spark_jobs.binlog.rows.changes import Changes, Presence
from spark_jobs.binlog.rows.decoder import Decoder
from spark_jobs.binlog.slices.slicer import Slicer
from tests.binlogs import segment_types as types
from tests.binlogs.segment_spec import Commit, Delete, Insert, Rows, SegmentSpec, Table, Update
from tests.fix_hypothesis import examples
from tests.twins import slow_decoder


def definitions_of(content: bytes) -> list[TableDefinition]:
    maps = TableMaps()
    scanner, scan = open_slice("log.000001", 0, None, content, maps)
    for _ in Payloads("log.000001", scanner.format, maps).open(scan):
        pass
    return [parse_table_map(event, scanner.format, "log.000001") for event in maps.events]


def definition_of(content: bytes, table: str) -> TableDefinition:
    return next(definition for definition in definitions_of(content) if str(definition.name) == table)


def listed(changes: Changes) -> list[slow_decoder.Row]:
    """The batch as the slow decoder would have it."""
    changes.after.validate(full=True)
    changes.before.validate(full=True)
    after = list(zip(*(array.to_pylist() for array in changes.after.columns), strict=True))
    before = list(zip(*(array.to_pylist() for array in changes.before.columns), strict=True))
    nulls: list[Any] = [None] * len(changes)
    raw, old_raw = (nulls if array is None else array.to_pylist() for array in (changes.raw, changes.before_raw))
    assert changes.gtid is not None
    rows = []
    for offset, op in enumerate(changes.op.to_pylist()):
        rows.append(
            slow_decoder.Row(
                op,
                changes.offset[offset].as_py(),
                changes.row[offset].as_py(),
                changes.committed_at.cast(pa.int64())[offset].as_py(),
                changes.gtid[offset].as_py(),
                present_values(after[offset], changes.present, offset),
                present_values(before[offset], changes.before_present, offset) if op == 2 else None,
                dict(raw[offset] or []),
                dict(old_raw[offset] or []),
            )
        )
        assert op == 2 or all(value is None for value in before[offset])
    return rows


def present_values(row: Sequence[Any], presence: Presence | None, offset: int) -> list[Any]:
    """The row's values, ``...`` for columns that its image leaves out, which are null in the batch."""
    if presence is None:
        return list(row)
    present = presence.sets[presence.index[offset]].tolist()
    assert all(value is None for value, is_present in zip(row, present, strict=True) if not is_present)
    return [value if is_present else ... for value, is_present in zip(row, present, strict=True)]


def comparable(rows: list[slow_decoder.Row]) -> list[Any]:
    """NaN equals itself here; -0.0 and 0.0 differ."""

    def plain(value: Any) -> Any:
        return repr(value) if isinstance(value, float) else value

    return [
        dataclasses.replace(
            row,
            after=[plain(value) for value in row.after],
            before=None if row.before is None else [plain(value) for value in row.before],
        )
        for row in rows
    ]


def fast(content: bytes, definition: TableDefinition, rows: int) -> list[slow_decoder.Row]:
    decoder = Decoder(definition, before="all", rows=rows, gtids=True, partial=True)
    return [row for changes in decoder.decode("log.000001", 0, None, content) for row in listed(changes)]


def fast_by_slices(content: bytes, definition: TableDefinition, target: int) -> list[slow_decoder.Row]:
    """Through slices of about ``target`` bytes, as they lie in bronze."""
    decoder = Decoder(definition, before="all", gtids=True, partial=True)
    slicer = Slicer("log.000001", 0, None, target=target)
    slices = [*slicer.feed(content), *slicer.finish()]
    all_rows = []
    for batch in slices:
        for log_slice in batch.to_pylist():
            changes = decoder.decode(
                log_slice["file"],
                log_slice["start"],
                log_slice["context"],
                log_slice["payload"],
                transaction_start=log_slice["transaction_start"],
                committed_us=int(log_slice["committed_at"].timestamp() * 1_000_000 + 0.5),
                gtid=log_slice["gtid"],
            )
            all_rows += [row for batch in changes for row in listed(batch)]
    return all_rows


def integers(kind: types.ColumnType, bits: int) -> list[Any]:
    signed = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return [(kind, signed), (kind.UNSIGNED, st.integers(0, 2**bits - 1)), (kind.NOT_NULL, signed)]


def decimals(precision: int, scale: int) -> Any:
    edge = 10**precision - 1
    numbers = st.integers(-edge, edge) | st.sampled_from([0, 1, -1, edge, -edge, 10 ** (precision - 1)])
    return types.DECIMAL(precision, scale), numbers.map(lambda number: _decimal_text(number, scale))


def _decimal_text(number: int, scale: int) -> str:
    digits = str(abs(number)).zfill(scale + 1)
    return f"{'-' if number < 0 else ''}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}"


def fractions(digits: int) -> Any:
    return st.integers(0, 10**digits - 1).map(lambda number: f".{number:0{digits}}" if digits else "")


def number(minimum: int, maximum: int, digits: int = 2) -> Any:
    return st.integers(minimum, maximum).map(lambda value: f"{value:0{digits}}")


dates = st.tuples(number(0, 9999, 4), number(0, 12), number(0, 31)).map("-".join)
clocks = st.tuples(number(0, 23), number(0, 59), number(0, 59)).map(":".join)
moments = st.datetimes(dt.datetime(1970, 1, 2), dt.datetime(2105, 1, 1)).map(
    lambda moment: moment.isoformat(" ", "seconds")
)
times = st.tuples(st.sampled_from(["", "-"]), number(0, 838), number(0, 59), number(0, 59)).map(
    lambda parts: f"{parts[0]}{parts[1]}:{parts[2]}:{parts[3]}"
)


def temporal(kind: Any, digits: int, texts: Any) -> Any:
    return kind(digits), st.tuples(texts, fractions(digits)).map("".join)


day_numbers = st.tuples(number(0, 9999, 4), number(0, 12), number(0, 31)).map("".join)
clock_numbers = st.tuples(number(0, 23), number(0, 59), number(0, 59)).map("".join)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
documents = st.recursive(
    scalars | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
any_text = st.text(max_size=60).map(str.encode) | st.binary(max_size=40)
latin = st.binary(max_size=40)
COLUMNS: list[tuple[types.ColumnType, Any]] = [
    *integers(types.TINYINT, 8),
    *integers(types.SMALLINT, 16),
    *integers(types.MEDIUMINT, 24),
    *integers(types.INT, 32),
    *integers(types.BIGINT, 64),
    (types.FLOAT, st.floats(width=32)),
    (types.DOUBLE, st.floats()),
    *(decimals(*shape) for shape in ((1, 0), (1, 1), (9, 9), (10, 2), (18, 9), (19, 1), (38, 20), (30, 30), (39, 4))),
    *(decimals(*shape) for shape in ((65, 30), (65, 0), (27, 18), (18, 0), (38, 0))),
    *((types.BIT(bits), st.integers(0, 2**bits - 1)) for bits in (1, 9, 32, 63, 64)),
    (types.DATE, dates),
    *(temporal(types.DATETIME, digits, st.tuples(dates, clocks).map(" ".join)) for digits in (0, 1, 3, 6)),
    *(temporal(types.TIMESTAMP, digits, moments | st.just("0000-00-00 00:00:00")) for digits in (0, 2, 5)),
    *(temporal(types.TIME, digits, times) for digits in range(7)),
    (types.VARCHAR(20), any_text),
    (types.VARCHAR(200), any_text),
    (types.VARCHAR(50, types.LATIN1, 1), latin),
    (types.VARCHAR(50, 11, 1), latin),
    (types.CHAR(10), any_text),
    (types.CHAR(200), any_text),
    (types.VARBINARY(300), st.binary(max_size=300)),
    (types.BINARY(9), st.binary(min_size=9, max_size=9)),
    (types.BINARY(255), st.binary(max_size=255).map(lambda value: value.ljust(255, b"\0"))),
    *((kind, any_text) for kind in (types.TINYTEXT, types.TEXT, types.MEDIUMTEXT, types.LONGTEXT)),
    *((kind, st.binary(max_size=200)) for kind in (types.TINYBLOB, types.BLOB, types.MEDIUMBLOB, types.LONGBLOB)),
    (types.ENUM("a", "b,c", "ü"), st.sampled_from([0, 1, 2, 3])),
    (types.ENUM(*(f"m{k}" for k in range(300))), st.integers(0, 300)),
    (types.SET("x", "yy", "ü"), st.integers(0, 7)),
    (types.SET(*(f"m{k}" for k in range(64))), st.integers(0, 2**64 - 1)),
    (types.YEAR, st.sampled_from([0, 1901, 1999, 2155])),
    (types.JSON_DOCUMENT, documents | st.just(b"")),
    (types.GEOMETRY, st.tuples(st.sampled_from([0, 4326, 2**31 - 1, 2**31]), st.binary(max_size=40))),
    (types.VECTOR, st.lists(st.floats(width=32, allow_nan=False), max_size=5)),
    (types.OLD_TIMESTAMP, st.integers(0, 2**32 - 1) | st.just(0)),
    (types.OLD_TIME, clock_numbers.map(lambda number: int(number) % 10**6) | st.sampled_from([0, -1, -8385959])),
    (types.OLD_DATETIME, st.tuples(day_numbers, clock_numbers).map("".join)),
]


PACKINGS: list[dict[str, Any]] = [
    {},
    {},
    {"payload": lambda _: "zstd"},
    {"payload": lambda number: ("zstd", None, "none")[number % 3]},
    {"payload": lambda _: "zstd", "partial": 1, "rows_version": 2},
    {"partial": 0, "rows_version": 2},
    {"compressed_rows": 0},
    {"compressed_rows": 60},
]
"""How the same changes may be written."""


@st.composite
def specs(draw: st.DrawFn) -> SegmentSpec:
    """A file about two tables, the first of 1 to 80 random columns."""
    width = draw(st.integers(1, 6) | st.sampled_from([8, 9, 64, 65, 80]))
    columns = [draw(st.sampled_from(COLUMNS)) for _ in range(width)]
    table = Table("shop.random", key=["c0"], **{f"c{offset}": kind for offset, (kind, _) in enumerate(columns)})
    second_table = Table("shop.other", key=["id"], id=types.INT, note=types.VARCHAR(300))
    row = st.tuples(*(values if not kind.nullable else st.none() | values for kind, values in columns))
    pair = st.tuples(row, row)
    extra = st.binary(max_size=9)
    masks = st.just([True] * width) | st.lists(st.booleans(), min_size=width, max_size=width)
    strategy = st.one_of(
        st.builds(_rows_event, st.just(Insert), st.lists(row, min_size=1, max_size=4), masks, masks, extra),
        st.builds(_rows_event, st.just(Update), st.lists(pair, min_size=1, max_size=3), masks, masks, extra),
        st.builds(_rows_event, st.just(Delete), st.lists(row, min_size=1, max_size=3), masks, masks, extra),
        st.sampled_from(
            [
                Insert("shop.other", (7, None)),
                Rows("shop.other", Update, [((7, "x"), (8, "y" * 300))] * 2),
                Rows("shop.other", Insert, [(1, "a"), (2, None), (3, "")], last=False),
            ]
        ),
        st.just(Commit()),
    )
    changes: list[Any] = draw(st.lists(strategy, min_size=1, max_size=8))
    if not any(isinstance(change, Rows) and change.table == "shop.random" for change in changes):
        changes = [Insert("shop.random", [None] * width)]
    return SegmentSpec(
        [table, second_table], changes, checksum=draw(st.booleans()), rows_version=draw(st.sampled_from([1, 2]))
    )


def _rows_event(
    kind: type[Insert] | type[Update], rows: list[Any], mask: list[bool], after_mask: list[bool], extra: bytes
) -> Rows:
    """One event whose images leave out what the masks do; without any column there is one row at most."""

    def masked(row: Sequence[Any], mask: list[bool]) -> list[Any]:
        return [value if is_present else ... for value, is_present in zip(row, mask, strict=True)]

    if kind is not Update:
        return Rows(
            "shop.random", kind, [masked(row, mask) for row in rows[: len(rows) if any(mask) else 1]], extra=extra
        )
    pairs = [(masked(before, mask), masked(after, after_mask)) for before, after in rows]
    return Rows("shop.random", Update, pairs[: len(rows) if any(mask + after_mask) else 1], extra=extra)


def content_of(spec: SegmentSpec, packing: dict[str, Any]) -> bytes:
    if "partial" in packing and not _may_be_partial(spec):
        packing = {}
    return dataclasses.replace(spec, **packing).to_bytes()


def _may_be_partial(spec: SegmentSpec) -> bool:
    """Without JSON, whose diffs are tested elsewhere, and with a column at least in every image."""
    updates = [change for change in spec.changes if isinstance(change, Rows) and change.kind is Update]
    images = [image for change in updates for pair in change.rows for image in pair]
    with_json = any(column.code == 245 for table in spec.tables for column in table.columns.values())
    return not with_json and all(any(value is not ... for value in image) for image in images)


contents = st.builds(content_of, specs(), st.sampled_from(PACKINGS))


def slow(content: bytes, definition: TableDefinition) -> list[Any]:
    return comparable(list(slow_decoder.decode(content, definition, definitions_of(content))))


@examples(60)
@given(contents, st.sampled_from([1, 2, 3, 16384]))
def test_random_rows_decode_as_the_slow_decoder_has_them(content: bytes, rows: int) -> None:
    definition = definition_of(content, "shop.random")
    assert comparable(fast(content, definition, rows)) == slow(content, definition)


@examples(25)
@given(contents, st.sampled_from([1, 200, 1 << 20]))
def test_slices_hold_the_same_rows(content: bytes, target: int) -> None:
    definition = definition_of(content, "shop.random")
    assert comparable(fast_by_slices(content, definition, target)) == slow(content, definition)


@examples(25)
@given(specs(), st.sampled_from(PACKINGS[2:]))
def test_packed_and_plain_files_tell_the_same_changes(spec: SegmentSpec, packing: dict[str, Any]) -> None:
    """Save for positions. And each position names one change."""
    decoded = []
    for content in (spec.to_bytes(), content_of(spec, packing)):
        rows = fast(content, definition_of(content, "shop.random"), 3)
        assert len({(row.offset, row.row) for row in rows}) == len(rows)
        decoded.append(comparable([dataclasses.replace(row, offset=0, row=0) for row in rows]))
    assert decoded[0] == decoded[1]


RECORDED = sorted(Path("tests/recorded").glob("mysql-8.0-[tw][yi]*.000001"))


def labels_of(column: Column) -> tuple[str, ...]:
    """Labels whose character set the log does not name are UTF-8 in the recorded tables."""
    return column.labels or tuple(label.decode() for label in column.label_bytes or ()) or ("?",) * 64


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_recorded_rows_decode_as_the_slow_decoder_has_them(file: Path) -> None:
    content = file.read_bytes()
    maps = TableMaps()
    scanner, _ = open_slice(file.name, 0, None, content, maps)
    for event in maps.events:
        definition = parse_table_map(event, scanner.format, file.name)
        columns = [
            dataclasses.replace(c, labels=labels_of(c) if c.type.has_labels else None) for c in definition.columns
        ]
        definition = dataclasses.replace(definition, columns=tuple(columns))
        expected = comparable(list(slow_decoder.decode(content, definition)))
        assert expected
        assert comparable(fast(content, definition, 2)) == expected
        assert comparable(fast_by_slices(content, definition, 100)) == expected


def test_not_a_number_is_kept() -> None:
    spec = SegmentSpec([Table("shop.random", d=types.DOUBLE)], [Insert("shop.random", (math.nan,))])
    content = spec.to_bytes()
    [row] = fast(content, definition_of(content, "shop.random"), 1)
    assert math.isnan(row.after[0])
