"""How assets appear: keys, groups, and what Dagster knows by convention."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.catalog import AssetCatalog, AssetOf
from assets.lineage import lineages
from spark_jobs.config.known_tables import SeenTable
from spark_jobs.config.model import Pipeline, SourceSettings
from spark_jobs.errors import ConfigError

SOURCES = {"shop": SourceSettings(files=Path("binlogs"))}
ORDERS = AssetOf("downstream", "", "shop", "orders")
SEEN = [("shop", "shop", "orders"), ("shop", "shop", "lines")]


def pipeline(**keys: Any) -> Pipeline:
    return Pipeline(path=Path("pipeline.yaml"), lake="s3a://lake/cdc", sources=SOURCES, **keys)


def test_a_table_has_the_name_the_kind_and_the_address_that_dagster_knows() -> None:
    spec = AssetCatalog(pipeline()).spec(ORDERS)
    assert spec.metadata == {
        "dagster/table_name": "downstream.shop.orders",
        "dagster/storage_kind": "deltalake",
        "dagster/uri": "s3a://lake/cdc/downstream/shop/orders",
    }


def test_a_lake_on_a_file_system_has_an_address_too() -> None:
    local = Pipeline(path=Path("pipeline.yaml"), lake="/data/lake", sources=SOURCES)
    assert (
        AssetCatalog(local).spec(AssetOf("bronze", "shop")).metadata["dagster/uri"] == "file:///data/lake/bronze/shop"
    )


@pytest.mark.parametrize(
    "max_lag, window", [(None, None), (timedelta(minutes=30), 1800.0), (timedelta(seconds=5), 60.0)]
)
def test_bronze_is_fresh_for_as_long_as_max_lag(max_lag: timedelta | None, window: float | None) -> None:
    catalog = AssetCatalog(pipeline(max_lag=max_lag))
    policy = catalog.spec(AssetOf("bronze", "shop")).freshness_policy
    seconds = policy.fail_window.to_timedelta().total_seconds() if policy else None  # type: ignore[attr-defined] # of its kind
    assert seconds == window
    assert catalog.spec(ORDERS).freshness_policy is None, "a table without changes is not materialized"


def test_a_table_that_has_to_change_is_fresh_for_as_long_as_that() -> None:
    rules = [{"tables": "shop.*", "changes_within": "1d"}, {"tables": "shop.orders", "changes_within": "15m"}]
    catalog = AssetCatalog(pipeline(downstream=rules))
    windows = {
        table: catalog.spec(AssetOf("downstream", "", schema, table)).freshness_policy
        for schema, table in (("shop", "orders"), ("shop", "lines"), ("crm", "people"))
    }
    assert windows == {
        "orders": dg.FreshnessPolicy.time_window(timedelta(minutes=15)),
        "lines": dg.FreshnessPolicy.time_window(timedelta(days=1)),
        "people": None,
    }
    assert catalog.spec(AssetOf("silver", "shop", "shop", "orders")).freshness_policy is None


def described(*seen: SeenTable, **keys: Any) -> str | None:
    """Description of the downstream table shop.orders, of tables that runs have seen."""
    return AssetCatalog(pipeline(**keys), tables=seen).spec(ORDERS).description


AT_CHECKPOINT = "complete up to its checkpoint (binlog/end)."


@pytest.mark.parametrize(
    "mode, rows",
    [
        ("mirror", "Current rows"),
        ("soft_delete", "Current and deleted rows"),
        ("append", "Every change"),
        ("history", "Every version of each row"),
    ],
)
def test_a_downstream_table_says_what_it_has_of_which_table(mode: str, rows: str) -> None:
    rule = {"tables": "shop.*", "mode": mode}
    text = f"{rows} of shop.orders from source shop; mode: {mode}; {AT_CHECKPOINT}"
    assert described(*SEEN, downstream=[rule]) == text
    assert described() == f"Current rows; mode: mirror; {AT_CHECKPOINT}", "no run has seen a table"


def test_a_downstream_table_of_several_names_them() -> None:
    seen = [(source, "shop", f"orders_{part}") for source in ("archive", "shop") for part in range(3)]
    sources = {"shop": SOURCES["shop"], "archive": SOURCES["shop"]}
    routed = Pipeline(
        path=Path("pipeline.yaml"), lake="l", sources=sources, routes=[{"from": "shop.orders_*", "to": "shop.orders"}]
    )
    assert AssetCatalog(routed, tables=seen).spec(ORDERS).description == (
        "Current rows of shop.orders_0, shop.orders_1, shop.orders_2 from source archive and of shop.orders_0, "
        f"shop.orders_1, shop.orders_2 from source shop; mode: mirror; {AT_CHECKPOINT}"
    )
    twenty = [("shop", "shop", f"orders_{part:02}") for part in range(20)]
    assert "shop.orders_00, shop.orders_01, shop.orders_02 and 17 more from source shop;" in str(
        AssetCatalog(routed, tables=twenty).spec(ORDERS).description
    )


def test_a_table_has_what_it_comes_from_and_where_it_is_made_as_kinds() -> None:
    catalog = AssetCatalog(pipeline())
    assert catalog.spec(ORDERS).kinds == {"mysql", "spark", "deltalake"}
    assert catalog.spec(AssetOf("source", "shop")).kinds == {"source", "mysql"}
    mariadb = AssetCatalog(pipeline(), servers={"shop": "mariadb", "gone": "mysql"})
    assert mariadb.spec(ORDERS).kinds == {"mariadb", "spark", "deltalake"}
    assert mariadb.spec(AssetOf("bronze", "shop")).kinds == {"bronze", "mariadb", "deltalake"}


@pytest.mark.parametrize(
    "asset, tags",
    [
        (AssetOf("bronze", "shop"), {"layer": "bronze", "source": "shop"}),
        (ORDERS, {"layer": "downstream", "schema": "shop", "table": "orders"}),
        (AssetOf("silver", "shop", "größe", "t" * 64), {"layer": "silver", "source": "shop"}),  # Dagster refuses them
    ],
)
def test_an_asset_is_tagged_by_what_it_stands_for(asset: AssetOf, tags: dict[str, str]) -> None:
    spec = AssetCatalog(pipeline()).spec(asset)
    assert {key: value for key, value in spec.tags.items() if key.startswith("stratalog/")} == {
        f"stratalog/{name}": value for name, value in tags.items()
    }


def test_a_prefix_and_a_translation_change_keys_everywhere() -> None:
    def translation(spec: dg.AssetSpec, asset: AssetOf) -> dg.AssetSpec:
        if asset.layer != "downstream":
            return spec
        return spec.replace_attributes(key=dg.AssetKey(["lake", asset.table]), group_name="tables")

    (lineage,) = lineages(pipeline(), SEEN, AssetCatalog(pipeline(), key_prefix=["a", "b"], translation=translation))
    assert [key.to_user_string() for key in lineage.keys] == [
        *("a/b/bronze/shop", "a/b/silver/shop/shop/lines", "a/b/silver/shop/shop/orders"),
        *("lake/lines", "lake/orders", "a/b/published/shop"),
    ]
    assert lineage.catalog.spec(ORDERS).group_name == "tables"
    assert lineage.assets_by_key()[dg.AssetKey(["lake", "orders"])] == ORDERS


@pytest.mark.parametrize(
    "options, message",
    [
        ({"key_prefix": "a b"}, "key_prefix: 'a b' is not a name of letters, digits and _"),
        ({"job_prefix": "erp-"}, "job_prefix: 'erp-' is not"),
        ({"group": "my group"}, "group: 'my group' is not"),
        ({"resource_key": "s!"}, "resource_key: 's!' is not"),
        ({"translation": lambda spec, _: spec.replace_attributes(key="same")}, "several assets the key same"),
        ({"translation": lambda *_: None}, "returned NoneType, not an AssetSpec"),
    ],
)
def test_what_dagster_would_refuse_is_one_message(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lineages(pipeline(), SEEN, AssetCatalog(pipeline(), **options))


def test_names_of_jobs_pools_and_partitions_have_the_prefix() -> None:
    (lineage,) = lineages(pipeline(), [], AssetCatalog(pipeline(), job_prefix="erp_"))
    assert lineage.catalog.name("sync") == "erp_sync"
    assert (lineage.pool, lineage.partitions) == ("stratalog_source_erp_shop", "binlog_files_erp_shop")
    assert lineage.catalog.spark == "erp_spark"
