"""Copies of rows without a key, against Counters of the rows as Python has them."""

import math
import struct
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.silver.keyless_rows import (
    comparable_columns,
    distinct,
    numbers_of_equal_rows,
    sorted_by_bounded_column,
    summed_copies,
)

_RAW = pa.map_(pa.string(), pa.string())
_POSITION = pa.struct({"stretch": pa.int32(), "number": pa.int64(), "offset": pa.int64(), "row": pa.int32()})
_GEOMETRY = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
FIELDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int32(), [0, 1]),
    "s": (pa.string(), ["", "a", "A", "a "]),
    "f": (pa.float32(), [0.0, -0.0, 1.5]),
    "d": (pa.float64(), [0.0, -0.0, 2.5e-300]),
    "m": (pa.decimal128(20, 2), [Decimal("0.00"), Decimal("-1.50")]),
    "b": (pa.binary(), [b"", b"\0", b"\0\0"]),
    "g": (_GEOMETRY, [{"srid": 0, "wkb": b"x"}, {"srid": 1, "wkb": b"x"}]),
    "e": (pa.list_(pa.float32()), [[], [0.0], [-0.0], [0.0, 0.0]]),
}
_CELLS = [(name, value) for name, (_, values) in FIELDS.items() for value in values]
"""Most columns of a row are NULL, so that rows are equal by chance."""
_TEXTS = st.none() | st.none() | st.sampled_from([{"n": "1"}, {"n": "2"}, {"n": "1", "s": "2"}, {"s": "2", "n": "1"}])
ROWS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([-1, 1, 3]),
        st.lists(st.sampled_from(_CELLS), max_size=1).map(lambda cells: dict.fromkeys(FIELDS) | dict(cells)),
        _TEXTS,
    ),
    max_size=30,
)
Drawn = list[tuple[int, int, dict[str, Any], dict[str, str] | None]]


def table_of(rows: Drawn) -> pa.Table:
    """Rows of changes in two chunks, the second of which begins inside of its buffers."""
    cells: dict[str, pa.Array] = {
        name: pa.array([row[2][name] for row in rows], kind) for name, (kind, _) in FIELDS.items()
    }
    table = pa.table(
        cells
        | {
            "_window": pa.array([row[0] for row in rows], pa.int32()),
            "_copies": pa.array([row[1] for row in rows], pa.int64()),
            "_position": pa.array(
                [{"stretch": 1, "number": 1, "offset": at * 7 % 31, "row": at} for at in range(len(rows))], _POSITION
            ),
            "_committed_at": pa.array([datetime.fromtimestamp(at, UTC) for at in range(len(rows))], pa.timestamp("us")),
            "_raw": pa.array([None if row[3] is None else list(row[3].items()) for row in rows], _RAW),
            "_changes": pa.array([1] * len(rows), pa.int64()),
            "_micros": pa.array([at * 5 % 13 for at in range(len(rows))], pa.int64()),
        }
    )
    half = len(rows) // 2
    return pa.concat_tables([table.slice(0, half), table.slice(half)])


def identity(row: tuple[int, int, dict[str, Any], dict[str, str] | None]) -> tuple[Any, ...]:
    """What makes a row, where 0 and -0 are two numbers and texts have no order."""
    return (*(_bits(row[2][name]) for name in FIELDS), tuple(sorted((row[3] or {}).items())))


def _bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list):
        return tuple(map(_bits, value))
    return tuple(value.items()) if isinstance(value, dict) else value


@given(ROWS)
def test_copies_are_counted_by_window_and_content(rows: Drawn) -> None:
    table = table_of(rows)
    result = summed_copies(table, list(FIELDS))
    copies, changes, micros = Counter[Any](), Counter[Any](), dict[Any, int]()
    last: dict[Any, tuple[int, int]] = {}
    for at, row in enumerate(rows):
        key = row[0], identity(row)
        copies[key] += row[1]
        changes[key] += 1
        micros[key] = max(micros.get(key, 0), at * 5 % 13)
        last[key] = max(last.get(key, (-1, -1)), (at * 7 % 31, at))
    actual = {}
    for row in result.to_pylist():
        texts = dict(row["_raw"]) if row["_raw"] is not None else None
        key = row["_window"], identity((0, 0, {name: row[name] for name in FIELDS}, texts))
        assert key not in actual
        position = row["_position"]
        actual[key] = row["_copies"], row["_changes"], row["_micros"], (position["offset"], position["row"])
    assert actual == {key: (copies[key], changes[key], micros[key], last[key]) for key in last}


@given(ROWS, st.integers(0, 30))
def test_sums_of_parts_are_the_sum_of_all(rows: Drawn, at: int) -> None:
    table, names = table_of(rows), list(FIELDS)
    parts = pa.concat_tables([summed_copies(table.slice(0, at), names), summed_copies(table.slice(at), names)])
    assert _sorted(summed_copies(parts, names)) == _sorted(summed_copies(table, names))


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(repr(row) for row in rows.to_pylist())


@given(ROWS)
def test_equal_rows_have_one_number(rows: Drawn) -> None:
    table = table_of([(0, *row[1:]) for row in rows])
    numbers = numbers_of_equal_rows(table, list(FIELDS))
    identities = [identity(row) for row in rows]
    for first in range(len(rows)):
        for second in range(first):
            assert (numbers[first] == numbers[second]) == (identities[first] == identities[second])
    assert len(distinct(table, list(FIELDS))) == len(set(identities))


def test_rows_of_nulls_alone_are_equal() -> None:
    rows = table_of([(0, 1, dict.fromkeys(FIELDS), None)] * 3)
    (row,) = summed_copies(rows, list(FIELDS)).to_pylist()
    assert row["_copies"] == 3


def test_rows_are_put_into_the_order_of_the_first_column_with_bounds() -> None:
    rows = pa.table({"f": [1.0, 2.0, 3.0], "n": [3, None, 1]})
    assert sorted_by_bounded_column(rows, ["f", "n"]).column("n").to_pylist() == [1, 3, None]
    assert sorted_by_bounded_column(rows, ["f"]).column("f").to_pylist() == [1.0, 2.0, 3.0]


def test_a_slice_of_lists_is_compared_by_its_own_items() -> None:
    lists = pa.array([[9.0], [1.0, 2.0], None, [], [1.0, 2.0]], pa.list_(pa.float32()))
    rows = pa.table({"e": lists.slice(1), "_raw": pa.nulls(4, _RAW)})
    column, _ = comparable_columns(rows, ["e"])
    packed = struct.pack("<ff", 1.0, 2.0)
    assert column.to_pylist() == [packed, None, b"", packed]


def test_not_a_number_is_equal_to_itself() -> None:
    rows = pa.table({"f": pa.array([math.nan, math.nan]), "_raw": pa.nulls(2, _RAW)})
    assert np.array_equal(numbers_of_equal_rows(rows, ["f"]), [0, 0])
