from dataclasses import replace

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.ddl.sequences import is_sequence, may_be_sequence

NAMES = (
    *("next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size"),
    *("cycle_option", "cycle_count"),
)
SEQUENCE = TableDefinition(
    TableName("shop", "s"),
    tuple(Column(name, 1 if name == "cycle_option" else 8, nullable=False) for name in NAMES),
    (),
)


def test_a_sequence_is_told_by_its_columns() -> None:
    assert is_sequence(SEQUENCE)


@pytest.mark.parametrize("change", [{"name": "x"}, {"name": None}])
def test_other_names_make_no_sequence_and_the_same_types_leave_it_open(change: dict[str, str | None]) -> None:
    first, *rest = SEQUENCE.columns
    changed = replace(SEQUENCE, columns=(replace(first, **change), *rest))  # type: ignore[arg-type]
    assert not is_sequence(changed)
    assert may_be_sequence(changed)


def test_other_types_are_no_sequence() -> None:
    first, *rest = SEQUENCE.columns
    for column in (replace(first, type_code=3), replace(first, nullable=True)):
        assert not may_be_sequence(replace(SEQUENCE, columns=(column, *rest)))
    assert not may_be_sequence(replace(SEQUENCE, columns=SEQUENCE.columns[:-1]))
