import base64
import json
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Slicer, TableDefinition, TableName, list_events
from spark_jobs.binlog.slices import slicer as transactions
from spark_jobs.bronze.extract import _bronze_rows
from spark_jobs.changes.feed import JsonChanges, _cut, changes_of_files, wanted_tables
from spark_jobs.errors import ChecksumMismatch, ConfigError, DecodeError, Truncated, Unsupported
from spark_jobs.log.position import Position, Range
from tests import giants
from tests import segment_types as t
from tests.segment_spec import (
    UUID,
    Change,
    Commit,
    Delete,
    Insert,
    Query,
    Raw,
    RawEvent,
    Rollback,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
    chunked,
)
from tests.xa import XA, XA_END, XA_START, prepared

ANY = wanted_tables([])
RECORDED = Path(__file__).parents[2] / "recorded"


def changes_of(spec: SegmentSpec, *tables: str, size: int = 1 << 20) -> list[dict[str, Any]]:
    content = spec.to_bytes()
    pieces = changes_of_files([("mysql-bin.000001", chunked(content, size))], wanted_tables(tables))
    return [json.loads(line) for line in "".join(pieces).splitlines()]


def after(kind: t.ColumnType, value: Any, *, metadata: bool = True) -> Any:
    """What one value becomes: the second column of an inserted row."""
    table = Table("s.t", ["id"], metadata, id=t.TINYINT, v=kind)
    (change,) = changes_of(SegmentSpec(tables=[table], changes=[Insert("s.t", (1, value))]))
    return change["after"]["v" if metadata else "@2"]


@pytest.mark.parametrize(
    "kind, value, expected",
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
def test_values_are_written_as_the_contract_says(kind: t.ColumnType, value: Any, expected: Any) -> None:
    value_ = after(kind, value)
    assert value_ == expected
    assert type(value_) is type(expected)


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        (t.ENUM("a", "b"), "b", 2),
        (t.SET("a", "b", "c"), "a,c", 5),
        (t.VARCHAR(10), "größe", "größe"),
        (t.VARCHAR(10), Raw(b"\x02\xff\xfe"), {"base64": "//4="}),
        (t.BLOB, b"\xff\x00", {"base64": "/wA="}),
        (t.DATE, "0000-00-00", "0000-00-00"),
    ],
)
def test_values_whose_meaning_the_log_leaves_out(kind: t.ColumnType, value: Any, expected: Any) -> None:
    """Without full metadata there are no names, no labels and no character sets."""
    table = Table("s.t", metadata=False, v=kind)
    (change,) = changes_of(SegmentSpec(tables=[table], changes=[Insert("s.t", (value,))]))
    assert change["after"] == {"@1": expected}


@pytest.mark.parametrize(
    "code, declared, wire, expected",
    [
        (7, "timestamp(1)", "0000000105", "1970-01-01T00:00:01.5Z"),
        (12, "datetime(6)", "01027abd25e0db10", "2024-02-29 12:13:14.250000"),
        (7, "timestamp", "01000000", "1970-01-01T00:00:01Z"),
    ],
)
def test_an_old_temporal_type_has_the_digits_of_its_definition(
    code: int, declared: str, wire: str, expected: str
) -> None:
    def complete(logged: TableDefinition) -> TableDefinition:
        return replace(logged, columns=(replace(logged.columns[0], declared=declared),))

    table = Table("s.t", v=t.ColumnType(code, b"", bytes))
    content = SegmentSpec(tables=[table], changes=[Insert("s.t", (Raw(bytes.fromhex(wire)),))]).to_bytes()
    (line,) = changes_of_files([("mysql-bin.000001", iter([content]))], ANY, complete)
    assert json.loads(line)["after"] == {"v": expected}


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
    stream = changes_of_files([("mysql-bin.000003", iter([SPEC.to_bytes()]))], ANY)
    lines = [line.removesuffix("\n") for line in stream]
    insert, update, moved, third, delete = row_events(SPEC)[:1] + row_events(SPEC)[1:2] * 2 + row_events(SPEC)[2:]
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
        f'{head}{third}, "row": 0, {second}, "table": "other", "op": "insert", "before": null, "after": {{"id": 7}}}}',
        (
            f'{head}{delete}, "row": 0, {second}, "table": "orders", "op": "delete", '
            '"before": {"id": 2, "price": null}, "after": null}'
        ),
    ]


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_chunks_may_end_anywhere(size: int) -> None:
    assert changes_of(SPEC, size=size) == changes_of(SPEC)


@pytest.mark.parametrize(
    "tables, rows", [([], 5), (["bench.orders"], 4), (["bench.o*"], 5), (["bench.other", "x.y"], 1), (["x.y"], 0)]
)
def test_tables_are_chosen_by_name_or_pattern(tables: list[str], rows: int) -> None:
    assert len(changes_of(SPEC, *tables)) == rows


def test_a_bad_table_name_is_wrong_use() -> None:
    with pytest.raises(ConfigError, match="'orders' is not a table pattern"):
        wanted_tables(["orders"])
    assert wanted_tables(["a.b"])(TableName("a", "b"))


def test_without_gtids_and_commit_times_there_is_null_and_the_second() -> None:
    first = changes_of(replace(SPEC, gtids=False, commit_times=False))[0]
    assert (first["gtid"], first["committed_at"]) == (None, "2023-11-14T22:13:20.000000Z")


def test_files_follow_each_other_in_the_order_given() -> None:
    two = [("b.000002", iter([SPEC.to_bytes()])), ("b.000001", iter([SPEC.to_bytes()]))]
    files = [json.loads(line)["file"] for line in changes_of_files(two, ANY)]
    assert files == ["b.000002"] * 5 + ["b.000001"] * 5


def test_statements_are_no_changes() -> None:
    spec = SegmentSpec(tables=[ORDERS], changes=[Statement("bench", "ALTER TABLE orders ADD x INT"), *CHANGES[:1]])
    assert [change["op"] for change in changes_of(spec)] == ["insert"]


def test_a_table_that_is_not_wanted_may_have_types_that_are_not_read() -> None:
    strange = Table("bench.strange", key=["id"], id=t.INT.NOT_NULL, place=t.ColumnType(255, b"\4", bytes))
    spec = SegmentSpec(tables=[ORDERS, strange], changes=[*CHANGES[:1], Insert("bench.strange", (1, None))])
    assert len(changes_of(spec, "bench.orders")) == 1


@pytest.mark.parametrize("cut", [1, 40, 80])
def test_a_cut_file_gives_what_is_whole_and_then_its_place(cut: int) -> None:
    content = replace(SPEC, rotate_to="").to_bytes()[:-cut]
    end = next(offset for offset, event in zip(SPEC.offsets()[1:], SPEC.events(), strict=True) if event[4] == 16)
    lines: list[str] = []
    with pytest.raises(Truncated) as refused:
        lines.extend(changes_of_files([("b.000001", iter([content]))], ANY))
    message = f"{len(content) - end} bytes at the end are no complete transaction"
    assert str(refused.value) == f"b.000001:{end}: {message}; copy the file again"


def recorded(name: str, table: str) -> Iterator[dict[str, Any]]:
    file = RECORDED / f"{name}.000001"
    for line in changes_of_files([(file.name, iter([file.read_bytes()]))], wanted_tables([table])):
        yield json.loads(line)


def test_a_recorded_log_tells_what_its_statements_did() -> None:
    changes = [
        (change["offset"], change["op"], change["before"], change["after"])
        for change in recorded("mysql-8.0-transactions", "*.b")
    ]
    assert changes == [
        (1569, "insert", None, {"id": 10, "a_id": 1}),
        (1569, "insert", None, {"id": 11, "a_id": 2}),
        (1921, "update", {"id": 10, "a_id": 1}, {"id": 10, "a_id": 3}),
        (1921, "update", {"id": 11, "a_id": 2}, {"id": 11, "a_id": 3}),
    ]
    assert [change["after"] for change in recorded("mysql-8.0-transactions", "*.m")] == [{"id": 1}]


def xa_told(*files: Sequence[Change], payload: str | None = None) -> list[tuple[Any, ...]]:
    """(file, offset, committed_at, gtid's number, after) of every change in files of these changes."""
    specs = [
        SegmentSpec(tables=[ORDERS, OTHER], changes=changes, first_number=10 * k, payload=lambda _: payload)
        for k, changes in enumerate(files)
    ]
    log_files = [(f"b.{k:06}", chunked(spec.to_bytes(), 1 << 20)) for k, spec in enumerate(specs, 1)]
    lines = [json.loads(line) for line in "".join(changes_of_files(log_files, ANY)).splitlines()]
    return [(c["file"], c["committed_at"][17:19], c["gtid"].rpartition(":")[2], c["after"]) for c in lines]


def test_rows_of_an_xa_transaction_come_with_its_commit() -> None:
    """In a later file: its offset, row and GTID are the rows' own, its time is the commit's."""
    first = [*prepared(Insert("bench.orders", (1, None))), Insert("bench.other", (7,)), Commit()]
    second: list[Change] = [
        Insert("bench.other", (8,)),
        Commit(),
        Statement("", f"XA COMMIT {XA}"),
        Insert("bench.other", (9,)),
    ]
    assert xa_told(first, second) == [
        ("b.000001", "21", "1", {"id": 7}),
        ("b.000002", "20", "10", {"id": 8}),
        ("b.000001", "21", "0", {"id": 1, "price": None}),
        ("b.000002", "22", "12", {"id": 9}),
    ]


@pytest.mark.parametrize("payload", [None, "zstd"])
def test_rows_of_an_xa_transaction_that_is_rolled_back_never_come(
    payload: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    rows = prepared(Insert("bench.orders", (1, None)))
    changes = [*rows, Statement("", f"XA ROLLBACK {XA}"), Insert("bench.other", (9,))]
    assert xa_told(changes, payload=payload) == [("b.000001", "22", "2", {"id": 9})]
    assert not caplog.records


def test_an_xa_transaction_committed_in_one_phase_is_like_any_other() -> None:
    changes = xa_told([*prepared(Insert("bench.other", (1,)), one_phase=True), Insert("bench.other", (2,))])
    assert [after for *_, after in changes] == [{"id": 1}, {"id": 2}]


def test_an_xid_may_be_used_again() -> None:
    commit = Statement("", f"XA COMMIT {XA}")
    rows = [*prepared(Insert("bench.other", (1,))), commit, *prepared(Insert("bench.other", (2,))), commit]
    assert [after for *_, after in xa_told(rows)] == [{"id": 1}, {"id": 2}]


def test_what_is_still_prepared_at_the_end_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert xa_told([*prepared(Insert("bench.other", (1,))), *prepared(name=b"y"), Insert("bench.other", (2,))])
    spec = SegmentSpec(tables=[OTHER], changes=prepared(Insert("bench.other", (1,))))
    start = spec.offsets()[2]
    assert caplog.messages[0].startswith(f"b.000001:{start}: rows of XA transaction {XA} are missing: it is prepared")
    assert "XA transaction X'79',X'',1 are left out" in caplog.messages[1]


def test_a_commit_of_an_xa_transaction_from_an_earlier_file_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert xa_told([Statement("", f"XA COMMIT {XA}")]) == []
    [message] = caplog.messages
    assert message.endswith(f"XA transaction {XA} is committed, but no file given has its rows")


def test_an_xid_prepared_twice_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    changes = xa_told([*prepared(Insert("bench.other", (1,))), *prepared(Insert("bench.other", (2,)))], [
        Statement("", f"XA COMMIT {XA}")
    ])  # fmt: skip
    assert [after for *_, after in changes] == [{"id": 2}]
    assert "no file given ends it" in caplog.messages[0]


@pytest.mark.slow
def test_a_large_xa_transaction_is_held_in_a_file() -> None:
    rows = [(number, "1.00") for number in range(20_000)]
    parts: list[Change] = [Rows("bench.orders", Insert, rows) for _ in range(10)]
    changes = xa_told([*prepared(*parts), Insert("bench.other", (7,)), Commit(), Statement("", f"XA COMMIT {XA}")])
    assert changes[0][3] == {"id": 7}
    assert [after["id"] for *_, after in changes[1:]] == [*range(20_000)] * 10


def test_recorded_xa_transactions_of_mysql() -> None:
    """x1 was committed, x2 rolled back."""
    inserted = [change["after"] for change in recorded("mysql-8.0-transactions", "*.a") if change["op"] == "insert"]
    assert [row["id"] for row in inserted] == [1, 2, 3, 4]


def test_recorded_xa_transactions_of_mariadb(caplog: pytest.LogCaptureFixture) -> None:
    """The GTID is marked, there is no XA START. Only the transaction of row 5 and its commit are left in the file."""
    file = RECORDED / "mariadb-11.4-transactions.000001"
    content = file.read_bytes()
    events = [
        event for event in list_events(iter([content]), file.name) if event.transaction in (None, "0-7-10", "0-7-11")
    ]
    pieces = [content[:4], *(content[event.offset : event.stop] for event in events)]
    committed, prepared = b"".join(pieces), b"".join(pieces[:-3])
    lines = list(changes_of_files([("b.000001", iter([committed]))], ANY))
    assert [json.loads(line)["after"] for line in lines] == [{"id": 5, "note": "prepared"}]
    assert list(changes_of_files([("b.000001", iter([prepared]))], ANY)) == []
    assert [message.partition(" XA")[2].partition(" is")[0] for message in caplog.messages]


@pytest.mark.parametrize("body", [b"", bytes(12), bytes(14), struct.pack("<BIII", 0, 1, 9, 9)])
def test_an_xa_prepare_that_does_not_fit(body: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^b\.000001:\d+: XA_prepare event: its parts do not fit"):
        xa_told([XA_START, Insert("bench.other", (1,)), XA_END, RawEvent(38, body, ends=True)])


@pytest.mark.parametrize("undo", [Rollback(), Query("", "ROLLBACK TO `s`")])
def test_a_rollback_past_rows_is_refused_by_place(undo: Change) -> None:
    """Which rows were of tables without transactions, and stay, is not in the log."""
    spec = SegmentSpec(
        tables=[ORDERS, OTHER], changes=[Insert("bench.other", (1,)), Commit(), Insert("bench.orders", (1, None)), undo]
    )
    lines: list[str] = []
    with pytest.raises(
        Unsupported, match=rf"^b\.000001:{row_events(spec)[1]}: bench\.orders: rows of a transaction with a ROLLBACK"
    ):
        lines.extend(changes_of_files([("b.000001", iter([spec.to_bytes()]))], ANY))
    assert len(lines) == 1
    assert list(changes_of_files([("b.000001", iter([spec.to_bytes()]))], wanted_tables(["bench.other"])))


@pytest.mark.parametrize(
    "text, refused",
    [
        ("insert into bench.orders values (1, 2)", True),
        ("update orders set price = 1", True),
        *((f"INSERT {words} orders VALUES (1, 2)", True) for words in ("IGNORE INTO", "LOW_PRIORITY", "DELAYED INTO")),
        *((f"REPLACE {words} orders VALUES (1, 2)", True) for words in ("INTO", "DELAYED", "LOW_PRIORITY INTO")),
        *(
            (f"UPDATE {words} orders SET price = 1", True)
            for words in ("IGNORE", "LOW_PRIORITY", "LOW_PRIORITY IGNORE")
        ),
        *((f"DELETE {words} FROM orders", True) for words in ("QUICK", "IGNORE", "LOW_PRIORITY QUICK IGNORE")),
        ("LOAD DATA LOCAL INFILE 'x' IGNORE INTO TABLE orders", True),
        ("WITH c AS (SELECT 1) DELETE FROM orders", True),
        ("CREATE TABLE orders AS SELECT 1", True),
        ("SELECT f(1)", True),
        ("INSERT IGNORE INTO elsewhere SELECT * FROM orders", False),
        ("CREATE TABLE orders (a INT)", False),
        ("delete from bench.elsewhere", False),
        ("drop table bench.orders", False),
    ],
)
def test_rows_logged_as_a_statement_are_refused(text: str, refused: bool) -> None:
    spec = SegmentSpec(tables=[ORDERS], changes=[Statement("bench", text)])
    stream = changes_of_files([("b.000001", iter([spec.to_bytes()]))], wanted_tables(["bench.orders"]))
    if not refused:
        assert list(stream) == []
        return
    with pytest.raises(Unsupported, match=rf"^b\.000001:{spec.offsets()[2]}: .* changes rows in statement format"):
        list(stream)


def test_a_table_that_is_altered_and_altered_back_is_read_by_each_definition() -> None:
    wider = Table("bench.other", key=["id"], id=t.INT.NOT_NULL, more=t.INT)
    parts = [
        replace(SPEC, tables=[table], changes=[Insert("bench.other", row), Commit()], rotate_to="")
        for table, row in ((OTHER, (1,)), (wider, (2, 3)), (OTHER, (4,)))
    ]
    head, bodies = (
        parts[0].to_bytes()[: parts[0].offsets()[2]],
        [part.to_bytes()[part.offsets()[2] :] for part in parts],
    )
    lines = changes_of_files([("b.000001", iter([head + b"".join(bodies)]))], ANY)
    assert [json.loads(line)["after"] for line in lines] == [{"id": 1}, {"id": 2, "more": 3}, {"id": 4}]


def test_a_map_with_names_and_one_without_are_two_definitions_of_one_table() -> None:
    """binlog_row_metadata was switched in between: every row comes once, under the names that were logged with it."""
    tables = [Table("bench.other", metadata=full, id=t.DATE) for full in (False, True, False)]
    parts = [
        replace(SPEC, tables=[table], changes=[Insert("bench.other", (f"200{k}-01-01",)), Commit()], rotate_to="")
        for k, table in enumerate(tables)
    ]
    head, bodies = (
        parts[0].to_bytes()[: parts[0].offsets()[2]],
        [part.to_bytes()[part.offsets()[2] :] for part in parts],
    )
    lines = changes_of_files([("b.000001", iter([head + b"".join(bodies)]))], ANY)
    assert [json.loads(line)["after"] for line in lines] == [
        {"@1": "2000-01-01"},
        {"id": "2001-01-01"},
        {"@1": "2002-01-01"},
    ]


def test_a_column_that_the_image_leaves_out_has_no_key() -> None:
    changes: list[Change] = [
        Rows("bench.orders", Update, [((1, ...), (..., None)), ((2, ...), (..., "5"))]),
        Delete("bench.orders", (3, ...)),
        Insert("bench.orders", (4, "1")),
    ]
    assert [
        (change["before"], change["after"]) for change in changes_of(SegmentSpec(tables=[ORDERS], changes=changes))
    ] == [
        ({"id": 1}, {"price": None}),
        ({"id": 2}, {"price": "5.00"}),
        ({"id": 3}, None),
        (None, {"id": 4, "price": "1.00"}),
    ]


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        (t.LONGTEXT, 'ä"\\\n€😀\x01' * 40_000, 'ä"\\\n€😀\x01' * 40_000),
        (t.LONGBLOB, bytes(range(256)) * 1000, {"base64": base64.b64encode(bytes(range(256)) * 1000).decode()}),
        (
            t.LONGTEXT,
            Raw(struct.pack("<I", 200_000) + b"\xff" * 200_000),
            {"base64": base64.b64encode(b"\xff" * 200_000).decode()},
        ),
    ],
)
def test_long_values_are_written_in_pieces(kind: t.ColumnType, value: Any, expected: Any) -> None:
    table = Table("s.t", ["id"], id=t.INT, v=kind, behind=t.VARCHAR(9))
    spec = SegmentSpec(tables=[table], changes=[Insert("s.t", (1, value, "é"))])
    pieces = list(changes_of_files([("b.000001", iter([spec.to_bytes()]))], ANY))
    assert json.loads("".join(pieces))["after"] == {"id": 1, "v": expected, "behind": "é"}
    assert max(map(len, pieces)) < 1 << 19 or isinstance(value, Raw)


def test_bytes_are_base64_that_reads_back() -> None:
    value = bytes(range(256))
    assert base64.b64decode(after(t.BLOB, value)["base64"]) == value


def _bronze_like(path: Path, target: int) -> list[pa.RecordBatch]:
    slicer = Slicer(path.name, 0, None, target=target)
    batches = [_bronze_rows(batch, 1, None) for batch in [*slicer.feed(path.read_bytes()), *slicer.finish()]]
    return [batch.slice(at, 1) for batch in batches for at in range(batch.num_rows)]


@pytest.mark.parametrize("target", [200, 1 << 20])
def test_a_range_is_snapped_outward_to_transactions(target: int) -> None:
    path = RECORDED / "mysql-8.0-types.000001"
    slices = [cells for cells in _bronze_like(path, target) if cells.column("kind")[0].as_py() == "rows"]
    expected = [json.loads("".join(line.pieces)) for cells in slices for line in JsonChanges(None, ANY).lines(cells)]
    assert expected
    size = path.stat().st_size
    for low, high in ((at, at + length) for at in range(4, size - 400, 293) for length in (1, 400)):
        begin, end = Position(path.name, low), Position(path.name, high)
        touched = {change["gtid"] for change in expected if low <= change["offset"] < high}
        lines = [
            json.loads("".join(line.pieces))
            for cells in slices
            if cells.column("stop")[0].as_py() > low and cells.column("transaction_start")[0].as_py() < high
            for part in _cut(cells, Range(begin, end))
            for line in JsonChanges(None, ANY).lines(part)
        ]
        assert touched <= {change["gtid"] for change in lines}
        if target > size:
            transactions = [change for change in expected if change["gtid"] in {change["gtid"] for change in lines}]
            assert lines == transactions, (low, high)
            assert len({change["gtid"] for change in lines} - touched) <= 2, (
                "no more than the transactions at both ends"
            )


def test_what_stands_before_damage_is_written_in_one_chunk_too() -> None:
    content = bytearray(SPEC.to_bytes())
    deleted = row_events(SPEC)[3]
    content[deleted + 30] ^= 1
    lines: list[str] = []
    with pytest.raises(ChecksumMismatch, match=rf"^b\.000001:{deleted}: Delete_rows event"):
        lines.extend(changes_of_files([("b.000001", iter([bytes(content)]))], ANY))
    assert [json.loads(line)["gtid"] for line in lines] == [f"{UUID}:1"] * 3, "the second transaction is not whole"


def test_rows_before_one_that_cannot_be_read_are_written_and_none_behind_it() -> None:
    """In one slice, and in the order of the log over all its tables."""
    broken = Insert("bench.orders", (1, Raw(b"\xff" * 4)))
    changes: list[Change] = [
        Insert("bench.orders", (1, None)),
        Insert("bench.other", (2,)),
        Rows("bench.orders", Insert, [(3, None), broken.row]),
        Insert("bench.other", (4,)),
        Insert("bench.orders", (5, None)),
    ]
    spec = SegmentSpec(tables=[ORDERS, OTHER], changes=changes)
    lines: list[str] = []
    with pytest.raises(DecodeError, match=rf"^b\.000001:{row_events(spec)[2]}: row 1 of bench\.orders: price"):
        lines.extend(changes_of_files([("b.000001", iter([spec.to_bytes()]))], ANY))
    assert [json.loads(line)["after"]["id"] for line in lines] == [1, 2, 3]


BODY = Table("bench.body", body=t.LONGTEXT)
MANY: list[Change] = [Rows("bench.body", Insert, [("x" * 60_000,)] * 10) for _ in range(10)]


@pytest.mark.parametrize("undo", [Rollback(), Query("", "ROLLBACK TO `s`")])
def test_a_large_transaction_that_is_rolled_back_says_that_rows_of_it_were_written(
    monkeypatch: pytest.MonkeyPatch, undo: Change
) -> None:
    monkeypatch.setattr(transactions, "LARGE", 2 << 20)
    spec = SegmentSpec(tables=[BODY], changes=[*MANY, undo])
    lines: list[str] = []
    with pytest.raises(Unsupported, match=r"^b\.000001:\d+: .*ROLLBACK past"):
        lines.extend(changes_of_files([("b.000001", chunked(spec.to_bytes(), 1 << 20))], ANY))
    assert lines


def test_a_large_transaction_that_is_cut_says_that_rows_of_it_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "LARGE", 2 << 20)
    spec = SegmentSpec(tables=[BODY], changes=MANY)
    lines: list[str] = []
    with pytest.raises(Truncated, match=rf"^b\.000001:{spec.offsets()[2]}: .*; rows of it were written already$"):
        lines.extend(changes_of_files([("b.000001", chunked(spec.to_bytes()[:-200], 1 << 20))], ANY))
    assert lines


def test_checksums_may_change_from_file_to_file() -> None:
    files = [(f"b.{k:06}", iter([replace(SPEC, checksum=on).to_bytes()])) for k, on in enumerate((True, False, True))]
    assert len(list(changes_of_files(files, ANY))) == 15


def test_a_table_id_is_used_again_for_another_table() -> None:
    """As after FLUSH TABLES: a map holds until its statement ends."""
    parts = [
        replace(SPEC, tables=[table], changes=[Insert(table.name, row), Commit()], rotate_to="", first_table_id=7)
        for table, row in ((ORDERS, (1, "2")), (OTHER, (3,)), (ORDERS, (4, None)))
    ]
    head = parts[0].to_bytes()[: parts[0].offsets()[2]]
    bodies = [part.to_bytes()[part.offsets()[2] :] for part in parts]
    lines = changes_of_files([("b.000001", iter([head + b"".join(bodies)]))], ANY)
    assert [(change["table"], change["after"]["id"]) for change in map(json.loads, lines)] == [
        ("orders", 1),
        ("other", 3),
        ("orders", 4),
    ]


@pytest.mark.parametrize("notes", [(None, "a", "b"), ("a", None, "b"), ("a", "b", None), (None, None, None)])
def test_nulls_anywhere_in_an_event(notes: tuple[str | None, ...]) -> None:
    table = Table("s.t", note=t.VARCHAR(9))
    changes = [Rows("s.t", Insert, [(note,) for note in notes])]
    assert (
        tuple(change["after"]["note"] for change in changes_of(SegmentSpec(tables=[table], changes=changes))) == notes
    )


MEASURED = """
import re, sys
from pathlib import Path
from spark_jobs.cli import main
try:
    main()
finally:
    print(int(re.search("VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10, file=sys.stderr)
"""
"""getrusage would tell of the process that this one was forked from."""


@pytest.mark.slow
@pytest.mark.parametrize("verb, lines, limit", [("changes", 2, 800), ("events", 9, 450)])
def test_a_row_of_100_megabytes_in_bounded_memory(verb: str, lines: int, limit: int) -> None:
    """limit: MiB of resident memory, of which the program itself takes 270 and 150."""
    output, resident = _piped(verb, giants.row(100_000_000))
    assert (output.count(b"\n"), resident < limit) == (lines, True), resident
    if verb == "changes":
        assert len(json.loads(output.splitlines()[0])["after"]["body"].encode()) > 99_999_900


@pytest.mark.slow
@pytest.mark.parametrize("size", [30_000_000, 90_000_000])
def test_a_transaction_of_any_size_in_bounded_memory(size: int) -> None:
    """Both are larger than what is held back of a transaction together with the program's own 270 MiB."""
    output, resident = _piped("changes", giants.transaction(size), "--table", "shop.none")
    assert (output, resident < 500) == (b"", True), resident


def _piped(verb: str, chunks: Iterator[bytes], *options: str) -> tuple[bytes, int]:
    """What a verb writes about a file on its standard input, and the MiB that it had in memory at most."""
    command = [sys.executable, "-c", MEASURED, verb, "-", *options]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin is not None
        feeder = threading.Thread(target=_feed, args=(process.stdin, chunks))
        feeder.start()
        assert process.stdout is not None
        assert process.stderr is not None
        out, errors = process.stdout.read(), process.stderr.read()
        feeder.join()
    assert process.returncode == 0, errors
    return out, int(errors.splitlines()[-1])


def _feed(pipe: IO[bytes], chunks: Iterator[bytes]) -> None:
    with pipe:
        pipe.writelines(chunks)
