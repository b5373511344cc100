"""The asset of tables as they were, and what is said of one."""

from pathlib import Path

import dagster as dg

from assets.table_at import materialization, table_at_asset
from spark_jobs.pipeline.as_of.request import TablesRequest
from tests.lakes.recorded_lake import lineage_of, recorded


def test_the_asset_comes_from_bronze_and_is_with_the_tables(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, _):
        spec = table_at_asset(lineage_of(pipeline))
    assert (spec.key, spec.group_name) == (dg.AssetKey(["table_at", "shop"]), "shop_downstream")
    assert [dep.asset_key for dep in spec.deps] == [dg.AssetKey(["bronze", "shop"])]
    assert spec.description
    assert "The job table_at makes them" in spec.description


def test_keys_are_counted_and_no_value_of_them_is_shown(tmp_path: Path) -> None:
    with recorded(tmp_path) as (pipeline, _):
        request = TablesRequest("shop", "mysql-bin.000002:4320", ("shop.goods",), "then", keys=("3", "1"))
        with request.answered(pipeline) as source_at:
            event = materialization(lineage_of(pipeline), request, source_at.tables[0], Path("then/x"), 2)
    assert event.metadata["table_at/keys"].value == 2
    assert event.metadata["dagster/row_count"].value == 2
    assert event.description == "shop.goods at mysql-bin.000002:4320: 2 rows in then/x"
    assert event.tags == {"dagster/data_version": "shop.goods at mysql-bin.000002:4320 in then/x"}
    assert not {"table_at/where", "table_at/raw", "rows/keys_never_whole"} & event.metadata.keys()
