"""Which columns a query's rows can have. Values: tests/spark_jobs/binlog/kernels/test_result_rows.py."""

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.binlog.kernels import result_rows
from spark_jobs.errors import SourceError, TableStopped
from spark_jobs.pipeline.initial_load.row_images import as_selected, fields_of


def one_column(column: Column) -> TableDefinition:
    return TableDefinition(TableName("shop", "t"), (column,), (0,))


def test_a_type_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(TableStopped, match=r"shop\.t: the type of its column c"):
        as_selected(one_column(Column("c", -1)))


def test_numbers_have_the_size_that_the_result_says() -> None:
    (field,) = fields_of(one_column(Column("c", 247, 2)), [3])
    assert field.tolist() == [result_rows.FIELD_FIXED, 4, 2, 0, 0]


@pytest.mark.parametrize("column, wire", [(Column("c", 3), 253), (Column("c", 10), 253), (Column("c", 15, 20), 3)])
def test_a_type_that_a_column_cannot_be_sent_by_is_refused_by_name(column: Column, wire: int) -> None:
    with pytest.raises(SourceError, match=rf"shop\.t: the server sends column c as type {wire}"):
        fields_of(one_column(column), [wire])
