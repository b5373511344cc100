"""What is known of committed XA transactions, without Spark.

By table, by position, how far back they are looked for.
"""

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.xa import HELD, NO_XA, Xa, _starts
from spark_jobs.log.position import Position, Range

ORDERS, LINES, NEW = (TableName("shop", name) for name in ("orders", "lines", "new"))


def at(offset: int, number: int = 1, stretch: int = 1) -> Position:
    return Position(f"b.{number:06d}", offset, stretch)


def xa_of(*rows: tuple[TableName | None, Position, Position]) -> Xa:
    """Transactions of 100 bytes: the table, where the rows begin, where they are committed."""
    listed: list[dict[str, Any]] = [
        {
            "schema": name and name.schema,
            "table": name and name.table,
            "size": 100,
            "stretch": position.stretch,
            "number": position.number,
            "file": position.file,
            "begun": position.offset,
            "at_stretch": end.stretch,
            "at_number": end.number,
            "at_file": end.file,
            "at_start": end.offset,
        }
        for name, position, end in rows
    ]
    return Xa(pa.Table.from_pylist(listed, HELD), (("x", at(5)),))


FOUND = xa_of((ORDERS, at(10), at(50)), (LINES, at(10), at(50)), (ORDERS, at(90), at(7, 12)), (None, at(95), at(99)))


def test_by_table() -> None:
    assert FOUND.commits() == {ORDERS: (at(50), at(7, 12), 200), LINES: (at(50), at(50), 100)}
    assert FOUND.of(ORDERS).row_ranges() == [Range(at(10), at(50)), Range(at(90), at(7, 12))]
    assert FOUND.extent() == Range(at(10), at(7, 12))
    assert (NO_XA.extent(), NO_XA.commits(), NO_XA.of(ORDERS).row_ranges()) == (None, {}, [])


@pytest.mark.parametrize(
    "position, rows_left, unknown",
    [
        (at(50), 1, 1),
        (at(10), 1, 1),
        (at(50, 2), 2, 1),
        (at(50, 1, 2), 2, 1),
        (at(5), 2, 0),
    ],
)
def test_a_transaction_is_passed_over_by_its_beginning_or_its_commit(
    position: Position, rows_left: int, unknown: int
) -> None:
    table_xa = FOUND.of(ORDERS, [position])
    assert (len(table_xa.rows), len(table_xa.unknown)) == (rows_left, unknown)


@pytest.mark.parametrize("since, spans", [(at(40), 1), (at(10), 0), (at(50), 0), (at(3, 9), 1), (at(60), 0)])
def test_a_name_that_is_given_to_a_table_between_rows_and_commit(since: Position, spans: int) -> None:
    assert len(FOUND.also(NEW, ORDERS, since).of(NEW).row_ranges()) == spans


@pytest.mark.parametrize(
    "start, oldest, positions",
    [
        (at(900, 7), at(4), [at(900, 7), at(0, 7), at(0, 6), at(0, 4), at(4)]),
        (at(100 << 20, 3), at(4, 2), [at(100 << 20, 3), at(36 << 20, 3), at(0, 3), at(4, 2)]),
        (at(900, 2, 2), at(4, 8), [at(900, 2, 2), at(0, 2, 2), at(0, 1, 2), at(4, 8)]),
        (at(4), at(4), [at(4)]),
    ],
)
def test_they_are_looked_for_further_and_further_back(
    start: Position, oldest: Position, positions: list[Position]
) -> None:
    assert list(_starts(start, oldest)) == positions
