import json
from pathlib import Path

import pytest

from spark_jobs.cli.trace_text import TraceText, has_colours
from spark_jobs.row_history.trace import Selection, TableTrace
from spark_jobs.row_history.trace_lines import TraceView
from tests.binlogs.segment_spec import UUID, Commit, Delete, Insert, Rows, SegmentSpec, Statement, Table, Update
from tests.binlogs.segment_types import INT, VARCHAR
from tests.lakes.consumers import SOURCE, Shop
from tests.lakes.row_logs import ORDERS, rows_query_event

SPEC = SegmentSpec([Table("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(400))])


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.log([
        Insert("shop.orders", (1, "n1")),
        Commit(),
        rows_query_event("UPDATE orders SET id = 12, note = 'x'"),
        Rows("shop.orders", Update, [((1, "n1"), (12, "a\x1b[31mb"))]),
        Commit(),
        Update("shop.orders", (12, ...), (..., "y" * 300)),
        Delete("shop.orders", (12, "y" * 300)),
        Commit(),
        Statement("shop", "TRUNCATE orders"),
    ], SPEC)  # fmt: skip
    return shop


def text(shop: Shop, *, is_coloured: bool = False) -> list[list[str]]:
    """The lines of each entry."""
    writer = TraceText(TraceView(SOURCE), is_coloured)
    entries = TableTrace.of(shop.pipeline, SOURCE, ORDERS, Selection()).entries()
    return ["".join(writer.lines(entry)).splitlines() for entry in entries]


def test_entries_are_aligned(shop: Shop) -> None:
    insert, update, partial, delete, ddl = text(shop)
    assert insert[0] == "2023-11-14T22:15:00.250000Z  insert  shop.orders  id=1".replace("T", " ")
    assert insert[1].startswith("  b.000001:")
    assert insert[1].endswith("  server 1  connection 7")
    assert f"gtid {UUID}:1  transaction b.000001:" in insert[1]
    assert insert[2:] == ["    id    1", '    note  "n1"', ""]
    assert update[2:] == [
        "  UPDATE orders SET id = 12, note = 'x'",
        "    id    1     →  12",
        '    note  "n1"  →  "a\\u001b[31mb"',
        "",
    ]
    # What the log leaves out is a question mark, and a long value its beginning.
    assert partial[2] == f'    note  ?  →  "{"y" * 199}… (302 characters)'
    assert delete[3] == f'    note  "{"y" * 199}… (302 characters)'
    assert ddl[0].endswith("  ddl")
    assert ddl[2] == "  TRUNCATE orders"


def test_colours_are_for_terminals_that_want_them(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[32minsert\x1b[0m" in text(shop, is_coloured=True)[0][0]
    assert not any("\x1b" in line for entry in text(shop) for line in entry)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert has_colours()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colours()


def test_a_statement_of_several_lines_is_indented(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    content_text = "UPDATE orders\r\n\t  SET note = 'a\x1b[2Jb'\n\t  WHERE id = 1\n"
    shop.log([
        rows_query_event(content_text), Insert("shop.orders", (1, "n1")), Commit(),
        Statement("shop", "ALTER TABLE orders\n  ADD a INT,\n    ADD b INT"),
    ], SPEC)  # fmt: skip
    change, ddl = text(shop)
    assert change[2:5] == ["  UPDATE orders", "    SET note = 'a\\u001b[2Jb'", "    WHERE id = 1"]
    assert ddl[2:] == ["  ALTER TABLE orders", "    ADD a INT,", "      ADD b INT", ""]
    # JSON has the text as it is.
    entries = TableTrace.of(shop.pipeline, SOURCE, ORDERS, Selection()).entries()
    lines = [json.loads(TraceView(SOURCE).line(entry)) for entry in entries]
    assert lines[0]["statement"] == content_text
