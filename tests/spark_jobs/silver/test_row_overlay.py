"""Rows by key, and names of absent columns behind a change of columns. Rows laid over each other are compared with
plain ones in test_partial_reduction.py."""

import pyarrow as pa
import pytest

from spark_jobs.silver.positions import newest
from spark_jobs.silver.row_overlay import ABSENT, ENDED, KeyRuns, with_names

PLACE = pa.struct([("stretch", pa.int32()), ("number", pa.int64()), ("offset", pa.int64()), ("row", pa.int32())])
SCHEMA = pa.schema(
    [
        *(("id", pa.int32()), ("a", pa.string()), ("_op", pa.string()), ("_position", PLACE)),
        *((ABSENT, pa.list_(pa.string())), ("_raw", pa.map_(pa.string(), pa.string()))),
    ]
)


def rows_of(*cells: tuple[int | None, str | None, str, int, list[str] | None, str | None]) -> pa.Table:
    """Rows of silver: key, value, operation, place, what is absent, the exact text of the key."""
    rows = [
        {"id": key, "a": value, "_op": op, "_position": {"stretch": 1, "number": 1, "offset": place, "row": 0}}
        | {ABSENT: absent, "_raw": [("id", text)] if text else None}
        for key, value, op, place, absent, text in cells
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def test_a_key_s_rows_stand_in_the_order_of_the_log() -> None:
    rows = rows_of(
        (2, "c", "insert", 30, None, None), (1, "a", "insert", 40, None, None), (2, "b", "delete", 10, None, None)
    )
    runs = KeyRuns.of(rows, ["id"], pa.array([False, False, True]))
    assert (runs.numbers.tolist(), runs.starts.tolist(), runs.lasts.tolist()) == ([2, 0, 1], [0, 2], [1, 2])
    assert (runs.is_gone.tolist(), runs.last_gone.tolist()) == ([True, False, False], [0, -1])


def test_keys_that_only_exact_texts_hold_are_two() -> None:
    rows = rows_of(
        (None, "a", "update", 10, None, "0000-00-00"),
        (None, None, "update", 30, ["a"], "0000-00-00"),
        (None, "b", "update", 20, None, "0000-01-00"),
    )
    laid = newest(rows, ["id"]).select(["a", "_raw", ENDED]).to_pylist()
    assert sorted((row["a"], row["_raw"][0][1], row[ENDED]) for row in laid) == [
        ("a", "0000-00-00", False), ("b", "0000-01-00", False),
    ]  # fmt: skip


def test_no_rows_are_no_keys() -> None:
    assert newest(rows_of(), ["id"]).num_rows == 0


@pytest.mark.parametrize(
    "absent, expected",
    [(None, None), (["a"], ["b"]), (["b"], ["a"]), (["c"], None), (["c", "x", "a"], ["x", "b"])],
)
def test_absent_columns_have_the_names_behind_a_statement(absent: list[str] | None, expected: list[str] | None) -> None:
    rows = with_names(rows_of((1, None, "update", 1, absent, None)), {"a": "b", "b": "a", "c": None})
    assert rows.column(ABSENT).to_pylist() == [expected]
    assert rows.schema == SCHEMA


def test_a_table_whose_rows_are_whole_keeps_its_rows() -> None:
    rows = rows_of((1, "a", "insert", 1, None, None)).drop_columns([ABSENT])
    assert with_names(rows, {"a": None}) is rows
