"""Text made by Arrow, a column at once, against text made of Python objects, a value at a time."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Column
from spark_jobs.changes import json_encoding
from tests.fix_hypothesis import examples

VARCHAR, BIGINT, DECIMAL, DATE, TIMESTAMP, DATETIME = 15, 8, 246, 10, 17, 18


def decimals(digits: int, scale: int) -> Any:
    edge = 10**digits - 1
    return st.integers(-edge, edge).map(lambda number: Decimal(f"{number}e-{scale}"))


moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))  # noqa: DTZ001 - no zone
WRITTEN_BY_ARROW = [
    (Column("c", BIGINT, 0, False, True), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (Column("c", BIGINT, 0, True, True), pa.decimal128(20, 0), decimals(20, 0)),
    *(
        (Column("c", DECIMAL, digits << 8 | scale, False, True), pa.decimal128(digits, scale), decimals(digits, scale))
        for digits, scale in ((10, 2), (6, 6), (38, 0), (38, 6))
    ),
    (Column("c", DATE, 0, None, True), pa.date32(), st.dates(date(1, 1, 1))),
    *((Column("c", DATETIME, digits, None, True), pa.timestamp("us"), moments) for digits in range(7)),
    *(
        (
            Column("c", TIMESTAMP, digits, None, True),
            pa.timestamp("us", "UTC"),
            moments.map(lambda moment: moment.replace(tzinfo=UTC)),
        )
        for digits in (0, 3, 6)
    ),
    (
        Column("c", VARCHAR, 200, None, True, charset=255),
        pa.string(),
        st.text(alphabet='ab"\\/ü€😀\x7f\u2028', max_size=9),
    ),
]


@pytest.mark.parametrize("offset", range(len(WRITTEN_BY_ARROW)))
@examples(30)
@given(data=st.data())
def test_both_ways_write_the_same(offset: int, data: st.DataObject) -> None:
    column, kind, values = WRITTEN_BY_ARROW[offset]
    array = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=20)), kind)
    assert json_encoding._by_arrow(column, array) is not None
    assert json_encoding._column_text(column, array, {}).to_pylist() == json_encoding._json_cells(column, array, {})


@pytest.mark.parametrize(
    "column, kind, values",
    [
        (Column("c", VARCHAR, 200, None, True, charset=255), pa.string(), ["a\nb", "\x00", None]),
        (Column("c", DECIMAL, 10 << 8 | 7, False, True), pa.decimal128(10, 7), [Decimal("0.0000001"), Decimal(0)]),
        (Column("c", 5, 8, None, True), pa.float64(), [1e16, 0.1, -0.0, None]),
    ],
)
def test_what_arrow_writes_otherwise_is_left_to_python(column: Column, kind: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, kind)
    assert json_encoding._by_arrow(column, array) is None
    texts = json_encoding._column_text(column, array, {}).to_pylist()
    assert texts == json_encoding._json_cells(column, array, {})
    parsed = [json.loads(text) for text in texts]
    assert [value if value is None else type(value)(item) for item, value in zip(parsed, values, strict=True)] == values
