import json
from dataclasses import replace

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.binlog.slices import slicer as transactions
from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from spark_jobs.errors import ChecksumMismatch, ConfigError, DecodeError, Truncated, Unsupported
from tests.binlogs import segment_types as t
from tests.binlogs.segment_spec import (
    UUID,
    Change,
    Commit,
    Delete,
    Insert,
    Query,
    Raw,
    Rollback,
    Rows,
    SegmentSpec,
    Statement,
    Table,
    Update,
    chunked,
)
from tests.spark_jobs.changes.feeds import ANY, CHANGES, ORDERS, OTHER, SPEC, changes_of, recorded


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
    positions = list(zip(SPEC.offsets(), SPEC.offsets()[1:], SPEC.events(), strict=False))
    end = next(after for _, after, event in positions if event[4] == 16)
    event, at = next((at, len(content) - at) for at, after, _ in positions if at < len(content) <= after)
    lines: list[str] = []
    with pytest.raises(Truncated) as refused:
        lines.extend(changes_of_files([("b.000001", iter([content]))], ANY))
    assert str(refused.value) == (
        f"b.000001:{event}: the file ends inside the event that begins there, {at} bytes after its start, of the "
        f"transaction that begins at {end}; copy the file again"
    )


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


@pytest.mark.parametrize("undo", [Rollback(), Query("", "ROLLBACK TO `s`")])
def test_a_rollback_past_rows_is_refused_by_place(undo: Change) -> None:
    """Rows that were of tables without transactions, and stay, is not in the log."""
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
    with pytest.raises(Truncated, match=rf"begins at {spec.offsets()[2]}; .*; rows of it were written already$"):
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
