"""Slices put in the place of others. Whole forgets: tests/pipeline/test_forget.py."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from spark_jobs.binlog import ErasedSlice
from spark_jobs.bronze.table import REDACTED_ARROW
from spark_jobs.operations.forgetting.logged_rows import ErasedSlices

NEW = ErasedSlice(b"after", events=2, size=70, added=1, tables=frozenset({("shop", "people")}))


def slice_at(start: int, redacted: dict[str, Any] | None = None) -> dict[str, Any]:
    cells: dict[str, Any] = dict.fromkeys(REDACTED_ARROW.names)
    cells |= {"stretch": 1, "number": 7, "file": "bin.000007", "start": start, "stop": start + 6, "maps": []}
    cells |= {"transaction_start": start, "server_id": 1, "kind": "rows", "events": 4, "transactions": 1, "ignored": 0}
    return cells | {"committed_at": datetime(2026, 1, 1, tzinfo=UTC), "payload": b"before", "redacted": redacted}


def test_a_slice_gets_its_new_bytes_and_says_what_is_not_the_servers_own() -> None:
    before = {"events": 1, "bytes": 30, "tables": [{"schema": "shop", "table": "cards"}]}
    rows = pa.Table.from_pylist([slice_at(4), slice_at(10), slice_at(16, before)], schema=REDACTED_ARROW)
    edit = ErasedSlices({(1, 7, 10): NEW, (1, 7, 16): NEW})
    plain, erased, redacted_before = edit(rows).to_pylist()
    assert plain == slice_at(4)
    noted = {"events": 2, "bytes": 70, "tables": [{"schema": "shop", "table": "people"}]}
    assert erased == slice_at(10) | {"payload": b"after", "events": 5, "ignored": 1, "redacted": noted}
    assert redacted_before["redacted"] == {
        "events": 3,
        "bytes": 100,
        "tables": [{"schema": "shop", "table": "cards"}, {"schema": "shop", "table": "people"}],
    }
    assert (edit.events, edit.bytes) == (4, 140)
    assert edit(rows.slice(0, 1)) == rows.slice(0, 1)
