"""Logs for tests of the change feed, and what it tells of them.

Put here: what several of its test files use. Not here: logs of other tests (tests/binlogs/segment_spec.py).
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.changes.feed import changes_of_files
from spark_jobs.changes.lines import wanted_tables
from tests.binlogs import segment_types as t
from tests.binlogs.segment_spec import (
    Change,
    Commit,
    Delete,
    Insert,
    Rows,
    SegmentSpec,
    Table,
    Update,
    chunked,
)

ANY = wanted_tables([])
RECORDED = Path(__file__).parents[2] / "recorded"


def changes_of(spec: SegmentSpec, *tables: str, size: int = 1 << 20) -> list[dict[str, Any]]:
    content = spec.to_bytes()
    pieces = changes_of_files([("mysql-bin.000001", chunked(content, size))], wanted_tables(tables))
    return [json.loads(line) for line in "".join(pieces).splitlines()]


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


def recorded(name: str, table: str) -> Iterator[dict[str, Any]]:
    file = RECORDED / f"{name}.000001"
    for line in changes_of_files([(file.name, iter([file.read_bytes()]))], wanted_tables([table])):
        yield json.loads(line)
