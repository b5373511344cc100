"""What needs no Spark of a load. Whole loads: tests/pipeline/test_load.py."""

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.ddl.classify import classify
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.initial_load.landing import _changes_rows
from spark_jobs.silver.table_timeline import SchemaChange, TableState

NAME = TableName("shop", "t")
KEYED_BY_DAY = TableDefinition(NAME, (Column("day", 10), Column("v", 3)), (0,))


@pytest.mark.parametrize(
    "statement, after, changes",
    [
        ("TRUNCATE t", KEYED_BY_DAY, False),
        ("ALTER TABLE t ADD INDEX (v)", KEYED_BY_DAY, False),
        ("ALTER TABLE t ADD w INT", TableDefinition(NAME, (*KEYED_BY_DAY.columns, Column("w", 3)), (0,)), True),
        ("DROP TABLE t", None, True),
    ],
)
def test_what_a_statement_means_to_rows_that_were_read(
    statement: str, after: TableDefinition | None, changes: bool
) -> None:
    extent = Range(Position("b.000001", 5), Position("b.000001", 9))
    logged = LoggedStatement(extent.start, classify(statement, "shop"), extent.stop)
    assert _changes_rows(SchemaChange(extent, TableState(after), logged), KEYED_BY_DAY) is changes
