from dataclasses import replace

import pytest

from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.statement_commits import _silver_only_steps, require_key_kept
from spark_jobs.silver.table_timeline import SchemaChange, TableState
from tests.binlogs.timelines import OLD, at

KEYED = silver.Columns({"id": "INT", "v": "INT"}, ("id",))
KEYLESS = replace(KEYED, key=())


@pytest.mark.parametrize(
    "before, after, expected",
    [
        (KEYED, KEYED, []),
        (KEYED, KEYLESS, [f"ADD COLUMN (`{silver.COPIES}` BIGINT)"]),
        (KEYLESS, KEYED, [f"DROP COLUMN `{silver.COPIES}`"]),
    ],
)
def test_copies_are_a_column_silver_only_steps(
    before: silver.Columns, after: silver.Columns, expected: list[str]
) -> None:
    assert _silver_only_steps(before, after, {name: name for name in after.types}) == expected


def test_absent_columns_follow_the_names_of_columns() -> None:
    before = replace(KEYED, has_partial=True)
    assert _silver_only_steps(before, before, {"id": "id", "v": "v"}) == []
    (step,) = _silver_only_steps(before, before, {"id": "id", "w": "v"})
    assert step.startswith(f"UPDATE SET {silver.ABSENT} = ")
    assert "'w'" in step


def test_rows_that_a_rule_keeps_need_their_key() -> None:
    keeping = SchemaChange(Range(at(500), at(510)), TableState(OLD), keeps=True)
    require_key_kept(KEYED, KEYED, keeping)
    with pytest.raises(TableStopped, match=r"created again at b\.000001:500 with another key"):
        require_key_kept(KEYED, KEYLESS, keeping)
