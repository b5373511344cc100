"""Intervals of random changes beside a loop over them, one key after the other."""

import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.engine.changes.version_intervals import with_intervals
from spark_jobs.silver.table import Columns

POSITION_TYPE = pa.struct(
    [("stretch", pa.int32()), ("number", pa.int64()), ("offset", pa.int64()), ("row", pa.int32())]
)
SCHEMA = pa.schema(
    [
        ("id", pa.float64()),
        ("name", pa.string()),
        ("_op", pa.string()),
        ("_position", POSITION_TYPE),
        ("_committed_at", pa.timestamp("us", "UTC")),
        ("_raw", pa.map_(pa.string(), pa.string())),
    ]
)
COLUMNS = Columns({"id": "DOUBLE", "name": "STRING"}, ("id", "name"))
KEYLESS = Columns(COLUMNS.types, ())
KEYS = [(0.0, "a"), (-0.0, "a"), (1.0, None), (1.0, "b"), (1.0, "!b"), (2.0, "")]
"""0 and -0 are one, but not without a key; a name that begins with ! is one that only an exact text holds."""


def position(nth: int) -> dict[str, int]:
    """Positions in order, in which each field is the one that tells two apart now and then."""
    return {"stretch": nth // 24, "number": nth // 12 % 2, "offset": nth // 3 % 4, "row": nth % 3}


def rows_of(choose: random.Random, count: int) -> list[dict[str, Any]]:
    rows = []
    for nth in range(count):
        op = choose.choice(["insert", "update", "update", "delete", "truncate", "load"])
        key = (None, None) if op == "truncate" else choose.choice(KEYS)
        is_exact = bool(key[1]) and str(key[1]).startswith("!")
        rows.append(
            {
                "id": key[0],
                "name": None if is_exact else key[1],
                "_op": op,
                "_position": position(nth) | ({"row": -1} if op == "truncate" else {}),
                "_committed_at": datetime.fromtimestamp(choose.randrange(9), UTC),
                "_raw": [("name", str(key[1]))] if is_exact else None,
            }
        )
    return rows


def key_of(row: dict[str, Any], columns: Columns) -> tuple[Any, ...]:
    """What tells rows apart, as a dictionary does: with a key 0 is -0, without one it is not."""
    number = repr(row["id"]) if columns.is_keyless else row["id"]
    return number, row["name"], dict(row["_raw"] or ()).get("name")


def expected(rows: list[dict[str, Any]], columns: Columns) -> list[tuple[Any, Any, bool]]:
    """Of rows in order: from when, until when, whether current; a NULL time is a time like others."""
    ends: list[int | None] = [None] * len(rows)
    current: dict[tuple[Any, ...], list[int]] = {}
    for nth, row in enumerate(rows):
        if row["_op"] == "truncate":
            ends[nth] = nth
            for at in (at for copies in current.values() for at in copies):
                ends[at] = nth
            current.clear()
            continue
        # Every change ends the version of its key; of equal rows a delete ends the oldest.
        copies = current.setdefault(key_of(row, columns), [])
        if copies and (row["_op"] == "delete" or not columns.is_keyless):
            ends[copies.pop(0)] = nth
        if row["_op"] == "delete":
            ends[nth] = nth
        else:
            copies.append(nth)
    return [
        (row["_committed_at"], None if end is None else rows[end]["_committed_at"], end is None)
        for row, end in zip(rows, ends, strict=True)
    ]


@pytest.mark.parametrize("columns", [COLUMNS, KEYLESS], ids=["a key", "no key"])
@pytest.mark.parametrize("seed", range(30))
def test_versions_end_where_a_loop_over_the_changes_ends_them(seed: int, columns: Columns) -> None:
    choose = random.Random(seed)
    rows = rows_of(choose, choose.randrange(60))
    # One position has one statement, and nothing else.
    rows = [row for nth, row in enumerate(rows) if nth % 3 == 0 or row["_op"] != "truncate"]
    order = list(range(len(rows)))
    choose.shuffle(order)
    shuffled = pa.Table.from_pylist([rows[at] for at in order], SCHEMA)
    versions = with_intervals(shuffled, columns).to_pylist()
    actual = {
        at: (row["_valid_from"], row["_valid_to"], row["_is_current"]) for at, row in zip(order, versions, strict=True)
    }
    assert [actual[at] for at in range(len(rows))] == expected(rows, columns)


def test_a_delete_of_a_row_ends_before_the_row_that_comes_at_the_same_position() -> None:
    """An update that gives -0 for 0 is a delete of the old row and the new row, at one position."""
    cells = {"name": "a", "_position": position(5), "_committed_at": datetime.fromtimestamp(5, UTC), "_raw": None}
    rows = [
        cells | {"id": -0.0, "_op": "update"},
        cells | {"id": 0.0, "_op": "delete"},
        cells | {"id": 0.0, "_op": "insert", "_position": position(1), "_committed_at": datetime.fromtimestamp(1, UTC)},
    ]
    versions = with_intervals(pa.Table.from_pylist(rows, SCHEMA), COLUMNS).to_pylist()
    assert [row["_is_current"] for row in versions] == [True, False, False]
    assert versions[2]["_valid_to"] == datetime.fromtimestamp(5, UTC)
