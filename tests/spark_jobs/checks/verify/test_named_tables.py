"""Names of tables against those that there are. With a server: tests/spark_jobs/cli/test_check.py."""

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify.named_tables import named_tables
from spark_jobs.errors import ConfigError

ORDERS, LINES = TableName("shop", "orders"), TableName("shop", "lines")


def test_tables_are_named_by_name_and_pattern() -> None:
    assert named_tables([LINES, ORDERS], [], "shop") == [LINES, ORDERS]
    assert named_tables([LINES, ORDERS], ["shop.orders"], "shop") == [ORDERS]
    assert named_tables([LINES, ORDERS], ["shop.o*", "shop.lines"], "shop") == [LINES, ORDERS]


def test_each_name_that_no_table_has_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        named_tables([LINES, ORDERS], ["shop.ordres", "shop.lines", "crm.*"], "a source")
    assert str(refused.value) == (
        "--table: neither a source nor the lake has a table like shop.ordres, crm.* in scope; did you mean shop.orders?"
    )
