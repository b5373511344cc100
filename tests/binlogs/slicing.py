"""A described file cut into slices, for tests that look at slices.

Put here: two tables, a file without changes, the cutting, and bronze of slices without Spark. Not here: what is
expected of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from spark_jobs.binlog.slices.slicer import SLICE_SCHEMA, Slicer
from spark_jobs.bronze import table as bronze
from spark_jobs.lake.table import Table as LakeTable
from spark_jobs.log.position import file_number
from tests.binlogs.segment_spec import SegmentSpec, Table, chunked
from tests.binlogs.segment_types import BIGINT, INT, VARCHAR

FILE = "mysql-bin.000001"
ORDERS = Table("shop.orders", key=["id"], id=INT, note=VARCHAR(40))
LINES = Table("shop.lines", key=["id"], id=BIGINT, amount=INT)
SPEC = SegmentSpec(tables=[ORDERS, LINES])


def sliced(content: bytes, *, target: int = 1 << 20, chunk: int = 1 << 20) -> tuple[list[dict[str, Any]], Slicer]:
    slicer = Slicer(FILE, 0, None, target=target)
    batches = [batch for piece in chunked(content, chunk) for batch in slicer.feed(piece)]
    batches += slicer.finish()
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches, SLICE_SCHEMA).to_pylist()
    return rows, slicer


def bronze_rows(file: str, content: bytes, *, target: int) -> pa.Table:
    """A file as bronze holds it, cut into slices of about ``target`` bytes."""
    slicer = Slicer(file, 0, None, target=target)
    slices = pa.Table.from_batches([*slicer.feed(content), *slicer.finish()])
    added = {"stretch": 1, "number": file_number(file), "server_uuid": None}
    columns = [
        pa.repeat(pa.scalar(added[field.name], field.type), len(slices)) if field.name in added else slices[field.name]
        for field in bronze.ARROW
    ]
    return pa.Table.from_arrays(columns, schema=bronze.ARROW)


def bronze_of(folder: Path, commits: Sequence[pa.Table], group: int = 4) -> tuple[LakeTable, int]:
    """A bronze table of a data file a commit, with so many slices in a row group."""
    table = LakeTable(str(folder), plain=False)
    writing = deltalake.WriterProperties(max_row_group_size=group, write_batch_size=group)
    for rows in commits:
        deltalake.write_deltalake(table.path, rows, mode="append", writer_properties=writing)
    return table, len(commits) - 1


def rows_at(slices: Sequence[tuple[int, str, str]]) -> pa.Table:
    """Rows of bronze, 10 bytes each, of which only positions, kind and table mean something: (start, kind, table)."""
    rows = [
        {
            **dict.fromkeys(("transaction_start", "server_id", "events", "transactions", "ignored"), 0),
            "stretch": 1,
            "number": 1,
            "file": "b.000001",
            "start": start,
            "stop": start + 10,
            "kind": kind,
            "tables": [{"schema": "shop", "table": table}],
            "maps": [],
            "context": b"context",
            "committed_at": start,
            "payload": f"{start:10}".encode(),
        }
        for start, kind, table in slices
    ]
    return pa.Table.from_pylist(rows, schema=bronze.ARROW)
