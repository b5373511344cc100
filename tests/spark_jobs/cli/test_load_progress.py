"""Lines about a load's progress: rows, the estimate, and the time that the rest takes."""

import logging

import pytest

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.cli.load_progress import LoadProgress
from spark_jobs.lake.commit import new_batch
from spark_jobs.log.position import Position
from spark_jobs.pipeline.initial_load.commit import READ, READING, LoadCommit

NAME = TableName("shop", "orders")


def commit(rows: int, state: str = READING) -> LoadCommit:
    position = Position("b.000001", 4)
    definition = TableDefinition(NAME, (), ())
    options = {"state": state, "read_from": position, "definition": definition, "chunk_rows": 5, "estimate": 1000}
    return LoadCommit(position, new_batch(), rows=rows, chunks=3, **options)  # type: ignore[arg-type]


def test_the_rest_is_estimated_by_the_rate_since_this_process_began(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_jobs")
    times = iter([10.0, 12.0, 14.0])
    print_line = LoadProgress(lambda: next(times))
    for new_commit in commit(400), commit(600), commit(1000, READ):
        print_line(NAME, new_commit)
    assert caplog.messages == [
        "shop.orders: reading: 400 rows of about 1000 in 3 ranges",
        "shop.orders: reading: 600 rows of about 1000, 100 a second, about 0:00:04 to go in 3 ranges",
        "shop.orders: read: 1000 rows in 3 ranges",
    ]
