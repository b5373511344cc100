"""Hashes of rows: equal where both sides have the same, and different where one value is."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.checks.verify.bucket_sums import (
    DIGEST,
    RAW,
    BucketRowsTask,
    HashedColumns,
    IsWanted,
    bucket_rows,
    sums,
)

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("word", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        (RAW, pa.map_(pa.string(), pa.string())),
    ]
)
COLUMNS = HashedColumns(SCHEMA, ("id",), 8)
ROW = {"id": 1, "word": "a", "price": Decimal("1.10"), "ratio": 0.5, RAW: None}
ROWS = st.lists(
    st.tuples(st.integers(0, 50), st.none() | st.text(max_size=3), st.none() | st.integers(-999, 999)), max_size=30
)


@dataclass(frozen=True, slots=True)
class Parts:
    """A task whose rows are there."""

    parts: tuple[pa.Table, ...]
    columns: HashedColumns = COLUMNS

    def tables(self) -> Iterator[pa.Table]:
        yield from self.parts

    def tables_where(self, is_wanted: IsWanted) -> Iterator[pa.Table]:
        for rows in self.parts:
            yield rows.filter(pa.array(is_wanted(self.columns.key_hashes(rows))))


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def digest(row: dict[str, Any]) -> int:
    return int(COLUMNS.digests_of(table(row))[0])


@pytest.mark.parametrize(
    "changed",
    [{"id": 2}, {"word": None}, {"word": ""}, {"price": Decimal("1.11")}, {"ratio": -0.5}, {RAW: [("ratio", "x")]}],
    ids=str,
)
def test_another_value_is_another_hash(changed: dict[str, Any]) -> None:
    assert digest(ROW) == digest(dict(ROW))
    assert digest(ROW) != digest(ROW | changed)


def test_a_value_does_not_move_to_the_next_column() -> None:
    assert digest(ROW | {"word": None, "price": None}) != digest(ROW | {"word": None, "ratio": None})


@given(ROWS, st.integers(1, 10))
def test_sums_do_not_depend_on_how_rows_are_divided(rows: list[tuple[int, str | None, int | None]], size: int) -> None:
    values = [ROW | {"id": key, "word": word, "ratio": ratio} for key, word, ratio in rows]
    parts = tuple(table(*values[at : at + size]) for at in range(0, len(values), size))
    (divided,), (reversed_order,) = sums(Parts(parts)), sums(Parts((table(*values[::-1]),)))
    assert divided.rows.sum() == len(values)
    assert list(divided.unlike(reversed_order)) == []


def test_rows_of_chosen_buckets_have_their_keys_and_hashes() -> None:
    rows = table(*(ROW | {"id": key} for key in range(40)))
    buckets = COLUMNS.buckets_of(rows)
    chosen = [*bucket_rows(BucketRowsTask(Parts((rows.slice(0, 25), rows.slice(25))), (2, 5)))]
    found = pa.concat_tables(chosen).to_pylist()
    assert {row["id"] for row in found} == {key for key in range(40) if buckets[key] in (2, 5)}
    assert all(row[DIGEST] == digest(ROW | {"id": row["id"]}) for row in found)


def test_types_of_the_server_become_those_of_the_lake() -> None:
    narrow = table(ROW).set_column(0, "id", pa.array([1], pa.int16()))
    assert list(COLUMNS.digests_of(COLUMNS.converted(narrow))) == [digest(ROW)]


def test_a_value_that_the_lake_s_type_cannot_hold_is_another_hash() -> None:
    wide = table(ROW).set_column(2, "price", pa.array([Decimal("12345678901.10")], pa.decimal128(20, 2)))
    assert list(COLUMNS.digests_of(COLUMNS.converted(wide))) != [digest(ROW)]
