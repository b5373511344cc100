import base64
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Slicer, TableName
from spark_jobs.changes import JsonChanges, _cut, changes_of_files, wanted_tables
from spark_jobs.errors import ConfigError, Truncated, Unsupported
from spark_jobs.position import Position
from tests import segment_types as t
from tests.segment_spec import (
    UUID,
    Change,
    Commit,
    Delete,
    Insert,
    Raw,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
    chunked,
)

ANY = wanted_tables([])
RECORDED = Path(__file__).parents[1] / "recorded"


def told(spec: SegmentSpec, *tables: str, size: int = 1 << 20) -> list[dict[str, Any]]:
    content = spec.to_bytes()
    lines = changes_of_files([("mysql-bin.000001", chunked(content, size))], wanted_tables(tables))
    return [json.loads(line) for line in lines]


def after(kind: t.ColumnType, value: Any, *, metadata: bool = True) -> Any:
    """What one value becomes: the second column of an inserted row."""
    table = Table("s.t", ["id"], metadata, id=t.TINYINT, v=kind)
    (change,) = told(SegmentSpec(tables=[table], changes=[Insert("s.t", (1, value))]))
    return change["after"]["v" if metadata else "@2"]


@pytest.mark.parametrize(
    "kind, value, shown",
    [
        (t.TINYINT, -128, -128),
        (t.TINYINT.UNSIGNED, 255, 255),
        (t.SMALLINT, -32768, -32768),
        (t.MEDIUMINT.UNSIGNED, 16777215, 16777215),
        (t.INT.UNSIGNED, 4294967295, 4294967295),
        (t.BIGINT, -(2**63), -(2**63)),
        (t.BIGINT.UNSIGNED, 2**64 - 1, 2**64 - 1),
        (t.YEAR, 2026, 2026),
        (t.YEAR, 0, 0),
        (t.BIT(1), 1, 1),
        (t.BIT(64), 2**64 - 1, 2**64 - 1),
        (t.FLOAT, 0.1, 0.1),
        (t.FLOAT, struct.unpack("<f", struct.pack("<f", 16777217.0))[0], 16777216.0),
        (t.FLOAT, 3.4028234663852886e38, 3.4028235e38),
        (t.FLOAT, -1.17549435e-38, -1.1754944e-38),
        (t.DOUBLE, 0.1, 0.1),
        (t.DOUBLE, 1.7976931348623157e308, 1.7976931348623157e308),
        (t.DOUBLE, 5e-324, 5e-324),
        (t.DECIMAL(10, 2), "-0.37", "-0.37"),
        (t.DECIMAL(10, 2), "5", "5.00"),
        (t.DECIMAL(20, 0), "12345678901234567890", "12345678901234567890"),
        (t.DECIMAL(20, 10), "0", "0.0000000000"),
        (t.DECIMAL(30, 20), "0.00000000000000000001", "0.00000000000000000001"),
        (t.DECIMAL(65, 30), "1" * 35 + "." + "2" * 30, "1" * 35 + "." + "2" * 30),
        (t.DATE, "2024-02-29", "2024-02-29"),
        (t.DATE, "0099-01-02", "0099-01-02"),
        (t.DATE, "0000-00-00", "0000-00-00"),
        (t.DATE, "2024-00-28", "2024-00-28"),
        (t.DATE, "2024-02-31", "2024-02-31"),
        (t.DATETIME(), "2024-02-29 12:00:00", "2024-02-29 12:00:00"),
        (t.DATETIME(1), "2024-02-29 12:00:00.5", "2024-02-29 12:00:00.5"),
        (t.DATETIME(6), "0999-12-31 23:59:59.000001", "0999-12-31 23:59:59.000001"),
        (t.DATETIME(3), "1969-12-31 23:59:59.999", "1969-12-31 23:59:59.999"),
        (t.DATETIME(2), "0000-00-00 00:00:00.00", "0000-00-00 00:00:00.00"),
        (t.TIMESTAMP(), "2038-01-19 03:14:07", "2038-01-19T03:14:07Z"),
        (t.TIMESTAMP(4), "1970-01-01 00:00:01.1234", "1970-01-01T00:00:01.1234Z"),
        (t.TIMESTAMP(), "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        (t.TIME(), "-838:59:59", "-838:59:59"),
        (t.TIME(2), "-00:00:01.50", "-00:00:01.50"),
        (t.TIME(6), "00:00:00.000001", "00:00:00.000001"),
        (t.CHAR(10), "ä€😀", "ä€😀"),
        (t.CHAR(10, t.LATIN1, 1), "Größe €", "Größe €"),
        (t.VARCHAR(300), 'quoted "text"\n', 'quoted "text"\n'),
        (t.TEXT, "", ""),
        (t.LONGTEXT, "x" * 70000, "x" * 70000),
        (t.VARCHAR(10), Raw(b"\x02\xff\xfe"), {"base64": "//4="}),
        (t.TEXT, Raw(b"\x01\x00\xc3"), {"base64": "ww=="}),
        (t.BINARY(4), b"\x01\x00\x02\x00", {"base64": "AQACAA=="}),
        (t.VARBINARY(10), b"", {"base64": ""}),
        (t.BLOB, b"\x00\xff", {"base64": "AP8="}),
        (t.ENUM("a", "b,c"), "b,c", "b,c"),
        (t.ENUM("a", "b,c"), 0, ""),
        (t.SET("a", "b", "c"), "a,c", "a,c"),
        (t.SET("a", "b", "c"), "", ""),
        (t.JSON_DOCUMENT, {"a": [1.0, None], "é": "\n"}, '{"a": [1.0, null], "é": "\\n"}'),
        (t.JSON_DOCUMENT, b"", "null"),
        (t.GEOMETRY, (4326, b"\x01\x02"), {"srid": 4326, "wkb": "AQI="}),
        (t.GEOMETRY, Raw(b"\0\0\0\0"), {"base64": ""}),
        (t.VECTOR, [1.5, 0.1], [1.5, 0.1]),
        (t.OLD_TIME, -123456, "-12:34:56"),
        (t.OLD_DATETIME, 20240229121314, "2024-02-29 12:13:14"),
        (t.OLD_TIMESTAMP, 1, "1970-01-01T00:00:01Z"),
        (t.INT, None, None),
        (t.BLOB, None, None),
        (t.TIMESTAMP(6), None, None),
    ],
)  # fmt: skip
def test_values_are_written_as_the_contract_says(kind: t.ColumnType, value: Any, shown: Any) -> None:
    found = after(kind, value)
    assert found == shown
    assert type(found) is type(shown)


@pytest.mark.parametrize(
    "kind, value, shown",
    [
        (t.ENUM("a", "b"), "b", 2),
        (t.SET("a", "b", "c"), "a,c", 5),
        (t.VARCHAR(10), "größe", "größe"),
        (t.VARCHAR(10), Raw(b"\x02\xff\xfe"), {"base64": "//4="}),
        (t.BLOB, b"\xff\x00", {"base64": "/wA="}),
        (t.DATE, "0000-00-00", "0000-00-00"),
    ],
)
def test_values_whose_meaning_the_log_leaves_out(kind: t.ColumnType, value: Any, shown: Any) -> None:
    """Without full metadata there are no names, no labels and no character sets."""
    table = Table("s.t", metadata=False, v=kind)
    (change,) = told(SegmentSpec(tables=[table], changes=[Insert("s.t", (value,))]))
    assert change["after"] == {"@1": shown}


ORDERS = Table("bench.orders", key=["id"], id=t.INT.NOT_NULL, price=t.DECIMAL(8, 2))
OTHER = Table("bench.other", key=["id"], id=t.INT.NOT_NULL)
CHANGES: Sequence[Change] = [
    Insert("bench.orders", (1, "0.37")),
    Rows("bench.orders", Update, [((1, "0.37"), (1, "0.42")), ((1, "0.42"), (2, None))]),
    Commit(),
    Insert("bench.other", (7,)),
    Delete("bench.orders", (2, None)),
    Commit(),
]
SPEC = SegmentSpec(tables=[ORDERS, OTHER], changes=CHANGES)


def row_events(spec: SegmentSpec) -> list[int]:
    return [offset for offset, event in zip(spec.offsets(), spec.events(), strict=False) if event[4] in (30, 31, 32)]


def test_a_line_is_the_contracts_object_with_its_keys_in_order() -> None:
    lines = list(changes_of_files([("mysql-bin.000003", iter([SPEC.to_bytes()]))], ANY))
    insert, update, moved, other, delete = row_events(SPEC)[:1] + row_events(SPEC)[1:2] * 2 + row_events(SPEC)[2:]
    first = f'"gtid": "{UUID}:1", "committed_at": "2023-11-14T22:13:20.250000Z", "schema": "bench"'
    second = f'"gtid": "{UUID}:2", "committed_at": "2023-11-14T22:13:21.250000Z", "schema": "bench"'
    head = '{"source": null, "file": "mysql-bin.000003", "offset": '
    assert lines == [
        (
            f'{head}{insert}, "row": 0, {first}, "table": "orders", "op": "insert", "before": null, '
            '"after": {"id": 1, "price": "0.37"}}'
        ),
        (
            f'{head}{update}, "row": 0, {first}, "table": "orders", "op": "update", '
            '"before": {"id": 1, "price": "0.37"}, "after": {"id": 1, "price": "0.42"}}'
        ),
        (
            f'{head}{moved}, "row": 1, {first}, "table": "orders", "op": "update", '
            '"before": {"id": 1, "price": "0.42"}, "after": {"id": 2, "price": null}}'
        ),
        f'{head}{other}, "row": 0, {second}, "table": "other", "op": "insert", "before": null, "after": {{"id": 7}}}}',
        (
            f'{head}{delete}, "row": 0, {second}, "table": "orders", "op": "delete", '
            '"before": {"id": 2, "price": null}, "after": null}'
        ),
    ]


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_chunks_may_end_anywhere(size: int) -> None:
    assert told(SPEC, size=size) == told(SPEC)


@pytest.mark.parametrize(
    "tables, rows", [([], 5), (["bench.orders"], 4), (["bench.o*"], 5), (["bench.other", "x.y"], 1), (["x.y"], 0)]
)
def test_tables_are_chosen_by_name_or_pattern(tables: list[str], rows: int) -> None:
    assert len(told(SPEC, *tables)) == rows


def test_a_bad_table_name_is_wrong_use() -> None:
    with pytest.raises(ConfigError, match="'orders' is not a table pattern"):
        wanted_tables(["orders"])
    assert wanted_tables(["a.b"])(TableName("a", "b"))


def test_without_gtids_and_commit_times_there_is_null_and_the_second() -> None:
    first = told(replace(SPEC, gtids=False, commit_times=False))[0]
    assert (first["gtid"], first["committed_at"]) == (None, "2023-11-14T22:13:20.000000Z")


def test_files_follow_each_other_in_the_order_given() -> None:
    two = [("b.000002", iter([SPEC.to_bytes()])), ("b.000001", iter([SPEC.to_bytes()]))]
    files = [json.loads(line)["file"] for line in changes_of_files(two, ANY)]
    assert files == ["b.000002"] * 5 + ["b.000001"] * 5


def test_statements_are_no_changes() -> None:
    spec = SegmentSpec(tables=[ORDERS], changes=[Statement("bench", "ALTER TABLE orders ADD x INT"), *CHANGES[:1]])
    assert [change["op"] for change in told(spec)] == ["insert"]


def test_a_table_that_is_not_wanted_may_have_types_that_are_not_read() -> None:
    strange = Table("bench.strange", key=["id"], id=t.INT.NOT_NULL, place=t.ColumnType(255, b"\4", bytes))
    spec = SegmentSpec(tables=[ORDERS, strange], changes=[*CHANGES[:1], Insert("bench.strange", (1, None))])
    assert len(told(spec, "bench.orders")) == 1


@pytest.mark.parametrize("cut", [1, 40, 80])
def test_a_cut_file_gives_what_is_whole_and_then_its_place(cut: int) -> None:
    content = replace(SPEC, rotate_to="").to_bytes()[:-cut]
    end = next(offset for offset, event in zip(SPEC.offsets()[1:], SPEC.events(), strict=True) if event[4] == 16)
    lines: list[str] = []
    with pytest.raises(Truncated) as refused:
        lines.extend(changes_of_files([("b.000001", iter([content]))], ANY))
    left = f"{len(content) - end} bytes at the end are no complete transaction"
    assert str(refused.value) == f"b.000001:{end}: {left}; copy the file again"


def recorded(name: str, table: str) -> Iterator[dict[str, Any]]:
    file = RECORDED / f"{name}.000001"
    for line in changes_of_files([(file.name, iter([file.read_bytes()]))], wanted_tables([table])):
        yield json.loads(line)


def test_a_recorded_log_tells_what_its_statements_did() -> None:
    told = [
        (one["offset"], one["op"], one["before"], one["after"]) for one in recorded("mysql-8.0-transactions", "*.b")
    ]
    assert told == [
        (1569, "insert", None, {"id": 10, "a_id": 1}),
        (1569, "insert", None, {"id": 11, "a_id": 2}),
        (1921, "update", {"id": 10, "a_id": 1}, {"id": 10, "a_id": 3}),
        (1921, "update", {"id": 11, "a_id": 2}, {"id": 11, "a_id": 3}),
    ]
    assert [one["after"] for one in recorded("mysql-8.0-transactions", "*.m")] == [{"id": 1}]


def test_rows_whose_fate_is_not_known_yet_are_refused_by_place() -> None:
    with pytest.raises(
        Unsupported, match=r"^mysql-8\.0-transactions\.000001:2267: recorded\.a: rows of an XA transaction"
    ):
        list(recorded("mysql-8.0-transactions", "*.a"))


def test_bytes_are_base64_that_reads_back() -> None:
    value = bytes(range(256))
    assert base64.b64decode(after(t.BLOB, value)["base64"]) == value


def _bronze_like(path: Path, target: int) -> list[pa.RecordBatch]:
    slicer = Slicer(path.name, 0, None, target=target)
    batches = [*slicer.feed(path.read_bytes()), *slicer.finish()]
    return [batch.slice(at, 1) for batch in batches for at in range(batch.num_rows)]


@pytest.mark.parametrize("target", [200, 1 << 20])
def test_a_range_is_snapped_outward_to_transactions(target: int) -> None:
    path = RECORDED / "mysql-8.0-types.000001"
    slices = [cells for cells in _bronze_like(path, target) if cells.column("kind")[0].as_py() == "rows"]
    everything = [json.loads(one.line) for cells in slices for one in JsonChanges(None, ANY).lines(cells)]
    assert everything
    size = path.stat().st_size
    for low, high in ((at, at + length) for at in range(4, size - 400, 97) for length in (1, 400)):
        begin, end = Position(path.name, low), Position(path.name, high)
        touched = {one["gtid"] for one in everything if low <= one["offset"] < high}
        got = [
            json.loads(one.line)
            for cells in slices
            if cells.column("stop")[0].as_py() > low and cells.column("transaction_start")[0].as_py() < high
            for part in _cut(cells, begin, end)
            for one in JsonChanges(None, ANY).lines(part)
        ]
        assert touched <= {one["gtid"] for one in got}
        if target > size:
            whole = [one for one in everything if one["gtid"] in {one["gtid"] for one in got}]
            assert got == whole, (low, high)
            assert len({one["gtid"] for one in got} - touched) <= 2, "no more than the transactions at both ends"
