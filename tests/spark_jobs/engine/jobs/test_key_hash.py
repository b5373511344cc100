from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.engine.jobs.key_hash import hashes, row_hashes
from spark_jobs.silver.table import Columns
from tests.fix_hypothesis import examples
from tests.spark_jobs.silver.test_keyless_rows import FIELDS, ROWS, Drawn, identity, table_of

RAW = pa.map_(pa.string(), pa.string())
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.decimal128(20, 0), st.integers(0, 10**20 - 1).map(Decimal)),
    (pa.string(), st.text(max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.bool_(), st.booleans()),
]


def rows(columns: dict[str, pa.Array], raw: Sequence[dict[str, str] | None] | None = None) -> pa.Table:
    length = len(next(iter(columns.values())))
    raw_column = (
        pa.nulls(length, RAW) if raw is None else pa.array([texts and list(texts.items()) for texts in raw], RAW)
    )
    return pa.table({**columns, "_raw": raw_column})


@pytest.mark.parametrize("kind, values", VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_keys_have_one_hash_where_they_are_equal_and_others_where_not(
    kind: pa.DataType, values: st.SearchStrategy[Any]
) -> None:
    @examples(30)
    @given(st.lists(st.tuples(values, values), min_size=1, max_size=30), st.integers(0, 5))
    def check(pairs: list[tuple[Any, Any]], skipped: int) -> None:
        first, second = (pa.array([pair[at] for pair in pairs], kind) for at in (0, 1))
        table = rows({"one": first, "other": second})
        row_hashes = hashes(table, ["one", "other"])
        by_hash: dict[int, tuple[Any, Any]] = {}
        for key, pair in zip(row_hashes.tolist(), zip(first.to_pylist(), second.to_pylist(), strict=True), strict=True):
            assert by_hash.setdefault(key, pair) == pair
        assert len(by_hash) == len(set(zip(first.to_pylist(), second.to_pylist(), strict=True)))
        # by the values alone, wherever they lie in memory
        assert np.array_equal(hashes(table.slice(skipped), ["one", "other"]), row_hashes[skipped:])

    check()


def test_minus_zero_is_zero() -> None:
    row_hashes = hashes(rows({"id": pa.array([0.0, -0.0, 1.0])}), ["id"])
    assert row_hashes[0] == row_hashes[1] != row_hashes[2]


def test_a_key_that_only_a_text_holds_is_told_by_the_text() -> None:
    table = rows(
        {"id": pa.array([None, None, None, date(2026, 1, 1)], pa.date32())},
        [{"id": "0000-00-00"}, {"id": "2026-00-01"}, {"id": "0000-00-00", "other": "x"}, None],
    )
    row_hashes = hashes(table, ["id"])
    assert row_hashes[0] == row_hashes[2]
    assert len(set(row_hashes.tolist())) == 3


def test_columns_of_a_key_do_not_run_together() -> None:
    row_hashes = hashes(rows({"a": pa.array(["ab", "a"]), "b": pa.array(["c", "bc"])}), ["a", "b"])
    assert row_hashes[0] != row_hashes[1]


def test_a_value_that_is_the_number_of_its_length_is_not_an_empty_one() -> None:
    values = [b"", b"\x01", b"\x02\x00", b"\x08" + bytes(7)]
    assert len(set(hashes(rows({"id": pa.array(values)}), ["id"]).tolist())) == len(values)


def test_no_rows_have_no_hashes() -> None:
    assert len(hashes(rows({"id": pa.array([], pa.string())}), ["id"])) == 0


@given(ROWS)
def test_rows_without_a_key_have_one_hash_where_they_are_equal(rows: Drawn) -> None:
    table = table_of(rows)
    all_hashes = row_hashes(table, Columns(dict.fromkeys(FIELDS, "INT"), ()))
    by_row = dict(zip(map(identity, rows), all_hashes.tolist(), strict=True))
    assert [by_row[identity(row)] for row in rows] == all_hashes.tolist()
    assert len(set(by_row.values())) == len(by_row)
