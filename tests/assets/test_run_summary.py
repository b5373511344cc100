"""A run's line in the list of runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from assets.run_summary import changes_summary, delivery_summary
from spark_jobs.binlog import TableName


def tables(*names: str, **values: Any) -> list[Any]:
    return [SimpleNamespace(name=TableName("shop", name), table=TableName("shop", name), **values) for name in names]


@pytest.mark.parametrize(
    "compacted, merged, text",
    [
        ([], [], "nothing new"),
        (tables("orders", changes=1), tables("orders"), "1 change in 1 table: shop.orders"),
        ([], tables("orders"), "0 changes in 1 table: shop.orders"),
        (
            tables("e", "d", "c", "b", "a", changes=1000),
            [],
            "5000 changes in 5 tables: shop.a, shop.b, shop.c and 2 more",
        ),
    ],
)
def test_a_run_says_how_many_changes_of_which_tables(compacted: list[Any], merged: list[Any], text: str) -> None:
    outcome: Any = SimpleNamespace(compacted=compacted, merged=merged)
    assert changes_summary(outcome) == text


def test_a_run_without_an_outcome_had_nothing_to_do() -> None:
    assert changes_summary(None) == "nothing new"


def test_a_delivery_says_how_many_rows_of_which_tables() -> None:
    delivered: Any = SimpleNamespace(tables=tables("a", rows=2) + tables("b", rows=0))
    assert delivery_summary(delivered) == "delivered 2 rows of 1 table: shop.a"
