import json
from pathlib import Path

from spark_jobs.changes.json_encoding import Cell
from spark_jobs.row_history.trace import Selection, TableTrace
from spark_jobs.row_history.trace_lines import TraceView, differing
from tests.binlogs.segment_spec import Commit, Insert, Statement
from tests.lakes.consumers import SOURCE, Shop, order
from tests.lakes.row_logs import ORDERS, rows_query_event


def test_what_differs_is_of_both_images_or_of_the_row_after() -> None:
    before: dict[str, Cell] = {"id": "1", "a": "2", "b": "null"}
    assert differing(before, {"id": "1", "a": "3", "b": "null"}) == ({"a": "2"}, {"a": "3"})
    assert differing({"id": "1"}, {"a": "3"}) == ({}, {"a": "3"})
    assert differing(before, {"a": "2"}) == ({}, {})


def test_literals_of_statements_can_be_hidden(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log(
        [rows_query_event("INSERT INTO orders VALUES (5, 'secret')"), Insert("shop.orders", (5, "secret")), Commit()]
    )
    trace = TableTrace.of(shop.pipeline, SOURCE, ORDERS, Selection())
    (entry,) = trace.changes()
    lines = [json.loads(TraceView(SOURCE, has_literals=has).line(entry))["statement"] for has in (True, False)]
    assert lines == ["INSERT INTO orders VALUES (5, 'secret')", "INSERT INTO orders VALUES (?, ?)"]


def test_a_statement_has_its_place_and_text(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.log([*order(1), Statement("shop", "TRUNCATE orders")])
    *_, entry = TableTrace.of(shop.pipeline, SOURCE, ORDERS, Selection()).entries()
    line = json.loads(TraceView(SOURCE).line(entry))
    assert (line["op"], line["statement"], line["database"], line["stretch"]) == ("ddl", "TRUNCATE orders", "shop", 1)
    assert line["gtid"].endswith(":2")
