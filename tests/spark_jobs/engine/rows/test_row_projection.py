"""Rows of older definitions in Arrow, held against a plain model that takes one statement after the other."""

from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.ddl.default_values import Fill
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.log.position import Range
from spark_jobs.silver.projection import projection_of
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.binlogs.timelines import NAME, at, steps
from tests.spark_jobs.silver.test_projection import carried_step_by_step

_RAW = pa.map_(pa.string(), pa.string())
_ADDED_COLUMNS = [("_raw", _RAW), ("_absent", pa.list_(pa.string())), ("_position", pa.int64())]


def random_statements(chance: Random, count: int) -> list[SchemaChange]:
    """Columns that come, go, are named anew and swap their names."""
    names, changes = ["id", "a", "b", "c"], []
    for nth in range(count):
        old = chance.sample(names[1:], chance.randrange(2, len(names)))
        origins: dict[str, str | None] = dict(zip(["id", *chance.sample(old, len(old))], ["id", *old], strict=True))
        origins |= {f"n{nth}": None} if len(origins) < 6 else {}
        fills = {f"n{nth}": Fill("NULL", "0000-00-00")} if nth % 2 and f"n{nth}" in origins else {}
        state = TableState(TableDefinition(NAME, tuple(Column(name, 3) for name in origins), key=(0,)))
        changes.append(SchemaChange(Range(at(nth), at(nth + 1)), state, origins=origins, fills=fills))
        names = list(origins)
    return changes


@pytest.mark.parametrize("count", [0, 1, 2, 7, 60])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_are_led_on_over_many_statements(count: int, seed: int) -> None:
    changes = random_statements(Random(100 * seed + count), count)
    rows: list[dict[str, Any]] = [
        {"values": {"id": 1, "a": 2, "b": 3, "c": 4}, "raw": {"a": "x", "c": "y"}, "absent": ["b"]},
        {"values": {"id": 2, "a": None, "b": 6, "c": 7}, "raw": None, "absent": None},
        {"values": {"id": 3, "a": 1, "b": None, "c": None}, "raw": {"b": "z"}, "absent": ["a", "b", "c"]},
    ]
    schema = pa.schema([*((name, pa.int32()) for name in ("id", "a", "b", "c")), *_ADDED_COLUMNS])
    cells = [
        row["values"] | {"_raw": row["raw"] and [*row["raw"].items()], "_absent": row["absent"], "_position": nth}
        for nth, row in enumerate(rows)
    ]
    projection = RowProjection.of(projection_of(dict.fromkeys(["id", "a", "b", "c"], "INT"), changes))
    valued = projection.valued({sql: pa.scalar(None, pa.int32()) for sql in projection.expressions()})
    projected = valued.apply(pa.Table.from_pylist(cells, schema)).to_pylist()
    for nth, (row, actual) in enumerate(zip(rows, projected, strict=True)):
        expected = carried_step_by_step(row, changes)
        values = {name: value for name, value in actual.items() if not name.startswith("_")}
        assert values == expected["values"]
        raw = actual["_raw"] and dict(actual["_raw"])
        assert (raw, actual["_absent"], actual["_position"]) == (expected["raw"], expected["absent"], nth)


def test_new_columns_have_their_defaults_and_wider_ones_their_values() -> None:
    timeline = steps(
        (500, "ALTER TABLE t ADD n INT NOT NULL DEFAULT 5, MODIFY v DECIMAL(12,2)"),
        (600, "ALTER TABLE t MODIFY n BIGINT FIRST, ADD note VARCHAR(9)"),
        last=400,
    )
    changes = [step for step in timeline if isinstance(step, SchemaChange)]
    projection = RowProjection.of(projection_of({"id": "INT", "v": "INT"}, changes))
    (sql,) = projection.expressions()
    assert sql == "CAST(CAST(5 AS INT) AS BIGINT)"
    types = [("id", pa.int32()), ("v", pa.int32()), *_ADDED_COLUMNS]
    rows = pa.Table.from_pylist([{"id": 1, "v": 7}, {"id": 2}], pa.schema(types))
    projected = projection.valued({sql: pa.scalar(5)}).apply(rows)
    assert projected.schema.names == ["n", "id", "v", "note", "_raw", "_absent", "_position"]
    assert projected.select(["n", "id", "v", "note"]).to_pylist() == [
        {"n": 5, "id": 1, "v": Decimal("7.00"), "note": None},
        {"n": 5, "id": 2, "v": None, "note": None},
    ]
