"""Traces of rows in a lake. Put here: landing a log and reading its entries. Not here: what a test expects of them."""

import json
from typing import Any

import pytest

from spark_jobs.binlog import Slicer, TableName
from spark_jobs.row_history.trace import Selection, TableTrace
from spark_jobs.row_history.trace_lines import TraceView
from tests.binlogs.segment_spec import RawEvent
from tests.lakes.consumers import SOURCE, Shop

ORDERS = TableName("shop", "orders")


def rows_query_event(text: str) -> RawEvent:
    """The event in which MySQL tells a statement."""
    return RawEvent(29, bytes([min(len(text), 255)]) + text.encode(), transaction=True)


def traced(shop: Shop, name: TableName = ORDERS, *, is_whole: bool = False, **choice: Any) -> list[dict[str, Any]]:
    """The entries of a table as JSON has them."""
    trace = TableTrace.of(shop.pipeline, SOURCE, name, Selection(**choice))
    view = TraceView(SOURCE, is_whole=is_whole)
    return [json.loads(view.line(entry)) for entry in trace.entries()]


def summary(entries: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Of each entry its kind, and the rows before and after, or the statement."""
    return [
        ("ddl", entry["statement"]) if entry["op"] == "ddl" else (entry["op"], entry["before"], entry["after"])
        for entry in entries
    ]


def cut_at(monkeypatch: pytest.MonkeyPatch, target: int) -> None:
    """Slices have about so many bytes from here on; of 1 each event is one."""
    defaults = Slicer.__init__.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "target", target)
