import dataclasses

import pyarrow as pa
import pytest

from spark_jobs.delta.schema import column_of
from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.target.target_unit import TargetUnit


def test_a_unit_has_the_values_of_the_sql_of_its_fills() -> None:
    schema = new_table("/lake/t", {"id": "BIGINT", "state": "STRING"}, {}).schema
    fill = ColumnFill(column_of("state", "STRING"), "CAST('new' AS STRING)")
    unit = TargetUnit(
        number=0, name="s.t", target="/lake/t", schema=schema, configuration={}, files=(), rewrites=False, fills=(fill,)
    )
    assert unit.stored == ["id", "state"]
    assert [*unit.column_fills] == [fill]
    valued = unit.valued({fill.sql: pa.scalar("new"), "1": pa.scalar(1)})
    assert [filled.value for filled in valued.column_fills] == [pa.scalar("new")]
    with pytest.raises(dataclasses.FrozenInstanceError):
        unit.number = 1  # type: ignore[misc]
