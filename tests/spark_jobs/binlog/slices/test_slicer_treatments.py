"""What each kind of event does to extraction: it is kept, counted, or stops the run by name. Nothing is passed over."""

import struct
from dataclasses import replace

import pymysql
import pytest

from spark_jobs.binlog import FormatDescription, parse_table_map
from spark_jobs.errors import DecodeError, Unsupported
from tests.binlogs.segment_spec import Change, Commit, Insert, Query, RawEvent, Rollback, Rows, Statement
from tests.binlogs.slicing import FILE, SPEC, sliced
from tests.fix_servers import Servers


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ([RawEvent(26, b"\1\0\0")], Unsupported, "Incident event (type 26): the server says that changes are missing"),
        ([RawEvent(164, bytes(17))], Unsupported, "Start_encryption event (type 164): a MariaDB log encrypted"),
        ([RawEvent(20, bytes(20))], Unsupported, "Write_rows_event_old event (type 20): logs this old are not read"),
        ([RawEvent(99, b"x")], Unsupported, "event type 99 is not known"),
        ([RawEvent(30, bytes(12), transaction=True)], DecodeError, "of a table id that no TABLE_MAP"),
        (
            [Insert("shop.orders", (1, "a")), RawEvent(33, bytes(42))],
            DecodeError,
            "inside the transaction begun at 158",
        ),
        ([Insert("shop.orders", (1, "a")), RawEvent(4, bytes(8))], DecodeError, "Rotate event (type 4) inside"),
        ([Commit(), RawEvent(15, bytes(100))], DecodeError, "is this a relay log?"),
        ([RawEvent(33, bytes(20))], DecodeError, "Gtid event (type 33) of 43 bytes"),
        ([RawEvent(2, bytes(12))], DecodeError, "Query event (type 2) of 35 bytes"),
        ([RawEvent(2, bytes(11) + b"\xff\xff" + bytes(9))], DecodeError, "Query event (type 2)"),
        ([RawEvent(19, bytes(9), transaction=True)], DecodeError, "Table_map event (type 19) of 32 bytes"),
        (
            [RawEvent(19, bytes(8) + b"\x09abc" + bytes(4), transaction=True)],
            DecodeError,
            "TABLE_MAP: no schema and table",
        ),
        ([RawEvent(42, b"\x02\x20" + bytes(30))], DecodeError, "Gtid_tagged_log_event event (type 42)"),
    ],
)
def test_what_stops(changes: list[Change], error: type[Exception], message: str) -> None:
    spec = replace(SPEC, changes=changes)
    offset = spec.offsets()[[event[4] for event in spec.events()].index(_code(changes), _skipped(changes))]
    with pytest.raises(error) as info:
        sliced(spec.to_bytes())
    assert type(info.value) is error
    assert str(info.value).startswith(f"{FILE}:{offset}: ")
    assert message in str(info.value)


def _skipped(changes: list[Change]) -> int:
    """Events before the first that may be the broken one: the file head, and the transaction put before it."""
    return 2 if isinstance(changes[0], RawEvent) else 5


def _code(changes: list[Change]) -> int:
    return next(change.code for change in changes if isinstance(change, RawEvent))


def test_what_a_server_has_decrypted_is_read() -> None:
    """Its dump of an encrypted file has the event that begins the encryption, marked as ignorable."""
    inserted: list[Change] = [Insert("shop.orders", (1, "a")), Commit()]
    rows, slicer = sliced(replace(SPEC, changes=[RawEvent(164, bytes(17), flags=0x80), *inserted]).to_bytes())
    assert [(row["kind"], row["transactions"], row["ignored"]) for row in rows] == [
        ("control", 0, 1),
        ("rows", 1, 0),
        ("control", 0, 0),
    ]
    assert not slicer.pending


def test_an_ignorable_event_is_counted() -> None:
    unknown = RawEvent(99, b"x", flags=0x80)
    content = replace(SPEC, changes=[unknown, Insert("shop.orders", (1, "a")), unknown, Commit()]).to_bytes()
    rows, _ = sliced(content)
    assert [(row["kind"], row["ignored"]) for row in rows] == [("control", 1), ("rows", 1), ("control", 0)]


def test_slices_name_the_tables_inside_payloads_and_give_their_maps() -> None:
    """Those of the transactions in the slice, and each map once, where it is first seen: outside or inside."""
    two_tables: list[Change] = [Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, 2)), Commit()]
    changes: list[Change] = [
        Insert("shop.lines", (1, 2)),
        Commit(),
        *two_tables,
        Insert("shop.orders", (2, "b")),
        Commit(),
    ]
    for payload in (
        lambda _: "zstd",
        lambda number: "zstd" if number < 3 else None,
        lambda number: None if number == 1 else "none",
    ):
        spec = replace(SPEC, changes=changes, payload=payload)
        rows, _ = sliced(spec.to_bytes(), target=1)
        tables: dict[int, set[str]] = {}
        for row in rows[1:-1]:
            tables.setdefault(row["transaction_start"], set()).update(table["table"] for table in row["tables"])
        assert list(tables.values()) == [{"lines"}, {"lines", "orders"}, {"orders"}]
        assert {row["kind"] for row in rows[1:-1]} == {"rows"}
        head = FormatDescription.parse(spec.events()[0], "f:4")
        maps = [(str(parse_table_map(event, head, "f").name), row) for row in rows for event in row["maps"]]
        assert [name for name, _ in maps] == ["shop.lines", "shop.orders"]
        assert [list(tables).index(row["transaction_start"]) for _, row in maps] == [0, 1]
        assert all(name.partition(".")[2] in str(row["tables"]) for name, row in maps)


def test_payloads_in_one_slice() -> None:
    spec = replace(SPEC, changes=[Insert("shop.orders", (1, "a")), Commit()] * 5, payload=lambda _: "zstd")
    for chunk in (7, 100, 1 << 20):
        rows, _ = sliced(spec.to_bytes(), chunk=chunk)
        assert b"".join(row["payload"] for row in rows) == spec.to_bytes()
        assert [(row["kind"], row["transactions"], len(row["maps"])) for row in rows[1:-1]] == [("rows", 5, 1)]


@pytest.mark.parametrize(
    "changes, statement",
    [
        ([Insert("shop.orders", (1, "a")), Rollback()], ("", "ROLLBACK")),
        (
            [
                Statement("", "XA START X'61',X'',1"),
                Insert("shop.orders", (1, "a")),
                Query("", "XA END X'61',X'',1"),
                RawEvent(38, bytes(13), ends=True),
            ],
            ("", "XA START X'61',X'',1"),
        ),
    ],
)
def test_what_decides_about_a_payload_makes_it_a_statement(changes: list[Change], statement: tuple[str, str]) -> None:
    spec = replace(SPEC, changes=[Insert("shop.lines", (1, 2)), Commit(), *changes], payload=lambda _: "zstd")
    rows, _ = sliced(spec.to_bytes())
    assert [(row["kind"], row["database"], row["statement"]) for row in rows[1:-1]] == [
        ("rows", None, None),
        ("statement", *statement),
    ]
    assert rows[2]["tables"] == [{"schema": "shop", "table": "orders"}]


def test_packed_rows_are_kept_as_they_are() -> None:
    """PARTIAL_UPDATE_ROWS and MariaDB's compressed rows: slicing does not look into them."""
    for code in (39, 166, 171):
        body = struct.pack("<IHH", 100, 0, 1) + b"anything"
        first_rows = Rows("shop.orders", Insert, [(1, "a")], last=False)
        rows, _ = sliced(replace(SPEC, changes=[first_rows, RawEvent(code, body), Commit()]).to_bytes())
        assert [(row["kind"], row["tables"]) for row in rows[1:-1]] == [
            ("rows", [{"schema": "shop", "table": "orders"}])
        ]


def test_a_dummy_row_event_closes_the_maps() -> None:
    dummy = RawEvent(30, struct.pack("<IHH", 0xFFFFFF, 0, 1) + bytes(3), transaction=True)
    content = replace(SPEC, changes=[Rows("shop.orders", Insert, [(1, "a")], last=False), dummy, Commit()]).to_bytes()
    rows, _ = sliced(content)
    assert (rows[1]["events"], rows[1]["ignored"]) == (6, 1)


@pytest.mark.mysql
def test_an_alter_in_two_phases_is_one_statement_where_it_is_committed(servers: Servers) -> None:
    """MariaDB's binlog_alter_two_phase: an ALTER that fails has its beginning in the log, and its rollback."""
    server = servers.get("mariadb-11.4")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE phases")
        cursor.execute("CREATE TABLE phases.t (id INT PRIMARY KEY, a INT, b INT)")
        cursor.execute("INSERT INTO phases.t VALUES (1, 1, 1), (2, 1, 2)")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW MASTER STATUS")
        ((file, *_),) = cursor.fetchall()
        cursor.execute("SET SESSION binlog_alter_two_phase = ON")
        cursor.execute("ALTER TABLE phases.t CHANGE a b INT, CHANGE b a INT")
        with pytest.raises(pymysql.MySQLError, match="Duplicate entry"):
            cursor.execute("ALTER TABLE phases.t ADD UNIQUE KEY (b)")
        cursor.execute("INSERT INTO phases.t VALUES (3, 3, 3)")
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("DROP DATABASE phases")
    rows, _ = sliced((server.data / file).read_bytes())
    assert [row["statement"] for row in rows if row["kind"] == "statement"] == [
        "ALTER TABLE phases.t CHANGE a b INT, CHANGE b a INT"
    ]
    assert sum(row["transactions"] for row in rows) == 5
