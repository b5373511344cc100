"""Routes decide whose asset a merge is told under; merging itself is tested in test_source.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.code_location import CodeLocation, location
from tests.segment_spec import Insert

ROUTES = [{"from": "shop.orders", "to": "sales.all_orders"}]


@pytest.fixture
def routed(tmp_path: Path, spark: SparkSession) -> Iterator[CodeLocation]:
    with location(tmp_path, spark, routes=ROUTES) as made:
        made.write(1, Insert("shop.orders", (1, "a")))
        yield made


@pytest.mark.dagster
@pytest.mark.spark
def test_a_routed_table_is_materialized_under_its_target(routed: CodeLocation) -> None:
    ran = routed.run()
    assert ran.success
    assert "downstream/sales/all_orders" in ran.materialized
    assert ran.materialized["downstream/sales/all_orders"]["rows/inserted"] == 1
    routed.write(2, Insert("shop.orders", (2, "b")))
    again = routed.run()
    assert again.checks["downstream/sales/all_orders"] == (True, None)
    assert routed.latest("downstream/sales/all_orders")["binlog/end"] == again.materialized["bronze/shop"]["binlog/end"]
