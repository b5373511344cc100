"""Rows by key, and names of absent columns behind a change of columns. Rows laid over each other are compared with
plain ones in test_partial_reduction.py."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.silver.positions import newest_by_key
from spark_jobs.silver.row_overlay import ABSENT, ENDED, KeyRuns, completed_rows_and_whole_flags, with_names
from tests.fix_hypothesis import examples

POSITION_TYPE = pa.struct(
    [("stretch", pa.int32()), ("number", pa.int64()), ("offset", pa.int64()), ("row", pa.int32())]
)
SCHEMA = pa.schema(
    [
        *(("id", pa.int32()), ("a", pa.string()), ("_op", pa.string()), ("_position", POSITION_TYPE)),
        *((ABSENT, pa.list_(pa.string())), ("_raw", pa.map_(pa.string(), pa.string()))),
    ]
)


def rows_of(*cells: tuple[int | None, str | None, str, int, list[str] | None, str | None]) -> pa.Table:
    """Rows of silver: key, value, operation, position, what is absent, the exact text of the key."""
    rows = [
        {"id": key, "a": value, "_op": op, "_position": {"stretch": 1, "number": 1, "offset": offset, "row": 0}}
        | {ABSENT: absent, "_raw": [("id", text)] if text else None}
        for key, value, op, offset, absent, text in cells
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def test_a_key_s_rows_stand_in_the_order_of_the_log() -> None:
    rows = rows_of(
        (2, "c", "insert", 30, None, None), (1, "a", "insert", 40, None, None), (2, "b", "delete", 10, None, None)
    )
    runs = KeyRuns.of(rows, ["id"], pa.array([False, False, True]))
    assert (runs.numbers.tolist(), runs.starts.tolist(), runs.lasts.tolist()) == ([2, 0, 1], [0, 2], [1, 2])
    assert (runs.is_gone.tolist(), runs.last_first.tolist()) == ([True, False, False], [1, 2])


def test_keys_that_only_exact_texts_hold_are_two() -> None:
    rows = rows_of(
        (None, "a", "update", 10, None, "0000-00-00"),
        (None, None, "update", 30, ["a"], "0000-00-00"),
        (None, "b", "update", 20, None, "0000-01-00"),
    )
    laid = newest_by_key(rows, ["id"]).select(["a", "_raw", ENDED]).to_pylist()
    assert sorted((row["a"], row["_raw"][0][1], row[ENDED]) for row in laid) == [
        ("a", "0000-00-00", False), ("b", "0000-01-00", False),
    ]  # fmt: skip


def test_no_rows_are_no_keys() -> None:
    assert newest_by_key(rows_of(), ["id"]).num_rows == 0


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


CELLS = st.tuples(
    st.integers(1, 3),
    st.sampled_from(["insert", "update", "delete"]),
    st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 9), max_size=2),
    st.integers(0, 1),
)
"""Of a row its key, operation, the columns that it holds, and whether a statement stands before it."""


@examples(60)
@given(st.lists(CELLS, max_size=12), st.randoms())
def test_each_row_takes_what_it_lacks_from_the_life_of_its_key(cells: list[Any], random: Random) -> None:
    """Beside a loop over the rows; odd values have exact texts."""
    periods = np.cumsum([step for *_, step in cells], dtype=np.int64)
    lives: dict[tuple[int, int], dict[str, int]] = {}
    rows, expected = [], []
    for nth, (key, op, cells_held, _) in enumerate(cells):
        life = lives.get((key, periods[nth]), {}) | cells_held
        expected.append((nth, life.get("a"), life.get("b"), len(life) == 2, _exact_texts(life)))
        lives[key, periods[nth]] = {} if op == "delete" else life
        absent = [name for name in ("a", "b") if name not in cells_held] or None
        position = {"stretch": 1, "number": 1, "offset": nth, "row": 0}
        row = {"id": key, "_op": op, "_position": position, ABSENT: absent, "_raw": _exact_texts(cells_held)}
        rows.append(row | {name: cells_held.get(name) for name in ("a", "b")})
    order = random.sample(range(len(rows)), len(rows))
    numbers = [("id", pa.int32()), ("a", pa.int32()), ("b", pa.int32())]
    schema = pa.schema([*numbers, *(SCHEMA.field(name) for name in ("_op", "_position", ABSENT, "_raw"))])
    shuffled = pa.Table.from_pylist([rows[at] for at in order], schema)
    runs = KeyRuns.of(shuffled, ["id"], pc.equal(shuffled.column("_op"), "delete"), periods[order])
    laid, is_whole = completed_rows_and_whole_flags(shuffled, runs, ["id", "a", "b"])
    assert laid.schema == shuffled.schema
    laid_rows = [
        (row["_position"]["offset"], row["a"], row["b"], is_row_whole, row["_raw"])
        for row, is_row_whole in zip(laid.to_pylist(), is_whole.tolist(), strict=True)
    ]
    assert sorted(laid_rows) == expected


def _exact_texts(cells: dict[str, int]) -> list[tuple[str, str]] | None:
    """Exact texts in the order of the columns."""
    return [(name, f"exact {cells[name]}") for name in ("a", "b") if cells.get(name, 0) % 2] or None
