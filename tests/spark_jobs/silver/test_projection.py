from typing import Any

from spark_jobs.log.position import Range
from spark_jobs.silver.projection import ProjectedColumn, Projection, column_origins, projection_of
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.binlogs.timelines import BEGINNING, ID, NOTE, at, definition, steps


def test_old_rows_are_led_on_to_the_present_columns() -> None:
    timeline = steps(
        (500, "ALTER TABLE t ADD note CHAR(3) NOT NULL DEFAULT 'abc', RENAME COLUMN v TO w"),
        (600, "ALTER TABLE t MODIFY w BIGINT FIRST"),
        (700, "TRUNCATE t"),
        last=400,
    )
    changes = [step for step in timeline if isinstance(step, SchemaChange)]
    assert projection_of({"id": "INT", "v": "INT"}, changes) == Projection(
        {"id": "INT", "v": "INT"},
        {
            "w": ProjectedColumn("BIGINT", "v"),
            "id": ProjectedColumn("INT", "id"),
            "note": ProjectedColumn("STRING", fill="CAST('abc' AS STRING)"),
        },
        {"id": "id", "v": "w"},
        {},
    )
    dated = steps((500, "ALTER TABLE t ADD day DATE NOT NULL"), last=400)
    changes = [step for step in dated if isinstance(step, SchemaChange)]
    projection = projection_of({"id": "INT", "v": "INT"}, changes)
    assert projection.columns["day"].origin is None
    assert projection.texts == {"day": "0000-00-00"}
    unchanged = projection_of({"id": "INT"}, [])
    assert unchanged == Projection({"id": "INT"}, {"id": ProjectedColumn("INT", "id")}, {"id": "id"}, {})


def carried_step_by_step(row: dict[str, Any], changes: list[SchemaChange]) -> dict[str, Any]:
    """The plain twin of ``projection_of``: values, exact texts and absent columns after each statement in turn."""
    values, raw, absent = row["values"], row["raw"], row["absent"]
    for change in changes:
        origins = change.origins or {}
        new_names = {old: new for new, old in origins.items() if old}
        values = {name: None if old is None else values[old] for name, old in origins.items()}
        if raw is not None:
            raw = {new_names[name]: text for name, text in raw.items() if name in new_names} or None
        if absent is not None:
            absent = [new_names[name] for name in absent if name in new_names] or None
        texts = {name: fill.exact for name, fill in change.fills.items() if fill.exact}
        raw = (raw or {}) | texts if texts else raw
    return {"values": values, "raw": raw, "absent": absent}


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
    changes = [step for step in (first, second) if isinstance(step, SchemaChange)]
    columns = projection_of({"id": "INT", "v": "INT"}, changes).columns
    assert [columns[name].origin for name in ("v", "_v_until_1_500", "_v_until_1_600")] == [None, "v", None]
    assert [columns[name].type for name in ("v", "_v_until_1_600")] == ["TINYINT", "SMALLINT"]
    between = projection_of(first.state.columns.types, changes[1:]).columns
    assert {name: between[name].origin for name in ("_v_until_1_500", "_v_until_1_600")} == {
        "_v_until_1_500": "_v_until_1_500",
        "_v_until_1_600": "v",
    }
