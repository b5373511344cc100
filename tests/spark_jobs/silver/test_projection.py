from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.binlog import Column, TableDefinition
from spark_jobs.ddl.default_values import Fill
from spark_jobs.log.position import Range
from spark_jobs.silver.projection import column_origins, projection_of
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.timelines import BEGINNING, ID, NAME, NOTE, at, definition, steps


def test_old_rows_are_led_on_to_the_present_columns() -> None:
    timeline = steps(
        (500, "ALTER TABLE t ADD note CHAR(3) NOT NULL DEFAULT 'abc', RENAME COLUMN v TO w"),
        (600, "ALTER TABLE t MODIFY w BIGINT FIRST"),
        (700, "TRUNCATE t"),
        last=400,
    )
    turns = [step for step in timeline if isinstance(step, SchemaChange)]
    assert projection_of({"id": "INT", "v": "INT"}, turns).sql() == {
        "w": "CAST(`v` AS BIGINT)",
        "id": "`id`",
        "note": "CAST('abc' AS STRING)",
        "_raw": "transform_keys(_raw, (k, v) -> CASE k WHEN 'v' THEN 'w' ELSE k END)",
        "_absent": "transform(_absent, name -> CASE name WHEN 'v' THEN 'w' ELSE name END)",
    }
    dated = steps((500, "ALTER TABLE t ADD day DATE NOT NULL"), last=400)
    turns = [step for step in dated if isinstance(step, SchemaChange)]
    assert projection_of({"id": "INT", "v": "INT"}, turns).sql() == {
        "id": "`id`",
        "v": "`v`",
        "day": "CAST(NULL AS DATE)",
        "_raw": "map_concat(coalesce(_raw, CAST(map() AS MAP<STRING, STRING>)), map('day', '0000-00-00'))",
        "_absent": "_absent",
    }
    assert projection_of({"id": "INT"}, []).sql() == {"id": "`id`", "_raw": "_raw", "_absent": "_absent"}


def carried_step_by_step(row: dict[str, Any], turns: list[SchemaChange]) -> dict[str, Any]:
    """The plain twin of ``projection_of``: values, exact texts and absent columns after each statement in turn."""
    values, raw, absent = row["values"], row["raw"], row["absent"]
    for turn in turns:
        origins = turn.origins or {}
        new_names = {old: new for new, old in origins.items() if old}
        values = {name: None if old is None else values[old] for name, old in origins.items()}
        if raw is not None:
            raw = {new_names[name]: text for name, text in raw.items() if name in new_names} or None
        if absent is not None:
            absent = [new_names[name] for name in absent if name in new_names] or None
        texts = {name: fill.exact for name, fill in turn.fills.items() if fill.exact}
        raw = (raw or {}) | texts if texts else raw
    return {"values": values, "raw": raw, "absent": absent}


@pytest.mark.spark
@pytest.mark.parametrize("number", [1, 7, 300])
def test_rows_are_led_on_over_many_statements_at_once(spark: SparkSession, number: int) -> None:
    """Columns that come, go, are named anew and swap their names; each drop used to double the text."""
    chance, names, turns = Random(number), ["id", "a", "b", "c"], []
    for nth in range(number):
        old = chance.sample(names[1:], chance.randrange(2, len(names)))
        origins: dict[str, str | None] = dict(zip(["id", *chance.sample(old, len(old))], ["id", *old], strict=True))
        origins |= {f"n{nth}": None} if len(origins) < 6 else {}
        fills = {f"n{nth}": Fill("NULL", "0000-00-00")} if nth % 2 and f"n{nth}" in origins else {}
        columns = [Column(name, 3) for name in origins]
        standing = TableState(TableDefinition(NAME, tuple(columns), key=(0,)))
        turns.append(SchemaChange(Range(at(nth), at(nth + 1)), standing, origins=origins, fills=fills))
        names = list(origins)
    rows: list[dict[str, Any]] = [
        {"values": {"id": 1, "a": 2, "b": 3, "c": 4}, "raw": {"a": "x", "c": "y"}, "absent": ["b"]},
        {"values": {"id": 2, "a": None, "b": 6, "c": 7}, "raw": None, "absent": None},
        {"values": {"id": 3, "a": 1, "b": None, "c": None}, "raw": {"b": "z"}, "absent": ["a", "b", "c"]},
    ]
    projection = projection_of(dict.fromkeys(["id", "a", "b", "c"], "INT"), turns).sql()
    assert sum(map(len, projection.values())) < 5_000
    cells = [(*row["values"].values(), row["raw"], row["absent"]) for row in rows]
    frame = spark.createDataFrame(cells, "id INT, a INT, b INT, c INT, _raw MAP<STRING, STRING>, _absent ARRAY<STRING>")
    projected = frame.selectExpr(*(f"{text} AS `{name}`" for name, text in projection.items())).collect()
    for row, projected_row in zip(rows, projected, strict=True):
        expected = carried_step_by_step(row, turns)
        assert {name: projected_row[name] for name in names} == expected["values"]
        assert (projected_row["_raw"], projected_row["_absent"]) == (expected["raw"], expected["absent"])


def test_a_table_made_anew_keeps_columns_of_the_same_name_and_type() -> None:
    change = SchemaChange(Range(at(5), at(9)), TableState(definition(ID, NOTE)), empties=True)
    assert column_origins(change, {"id": "INT", "note": "INT"}, {"id": "INT", "note": "STRING"}) == {
        "id": "id",
        "note": None,
    }


def test_rows_are_led_through_a_beginning() -> None:
    _, first, second = steps(
        (500, "ALTER TABLE t MODIFY v SMALLINT"), (600, "ALTER TABLE t MODIFY v TINYINT"), last=400, rules=BEGINNING
    )
    turns = [step for step in (first, second) if isinstance(step, SchemaChange)]
    projection = projection_of({"id": "INT", "v": "INT"}, turns).sql()
    assert (projection["v"], projection["_v_until_1_500"], projection["_v_until_1_600"]) == (
        "CAST(NULL AS TINYINT)",
        "`v`",
        "CAST(NULL AS SMALLINT)",
    )
    between = projection_of(first.standing.columns.types, turns[1:]).sql()
    assert (between["_v_until_1_500"], between["_v_until_1_600"]) == ("`_v_until_1_500`", "`v`")
