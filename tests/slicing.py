"""A described file cut into slices, for tests that look at slices.

Put here: two tables, a file without changes, and the cutting. Not here: what is expected of it.
"""

from typing import Any

import pyarrow as pa

from spark_jobs.binlog.slices.slicer import SLICE_SCHEMA, Slicer
from tests.segment_spec import SegmentSpec, Table, chunked
from tests.segment_types import BIGINT, INT, VARCHAR

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
