import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError
from spark_jobs.pipeline.initial_load.selection import is_named, require_each

NAMES = [TableName("shop", "orders"), TableName("shop", "lines")]


@pytest.mark.parametrize("pattern, expected", [("shop.orders", NAMES[:1]), ("shop.*", NAMES), ("other.*", [])])
def test_tables_are_named_by_patterns(pattern: str, expected: list[TableName]) -> None:
    assert [name for name in NAMES if is_named(name, [Pattern.parse(pattern)])] == expected


def test_every_pattern_has_to_name_a_table() -> None:
    require_each("shop", [Pattern.parse("shop.orders"), Pattern.parse("*.l*")], NAMES)
    with pytest.raises(ConfigError, match=r"^shop: the server has no table shop\.gone, or the user may not see it"):
        require_each("shop", [Pattern.parse("shop.orders"), Pattern.parse("shop.gone")], NAMES)
