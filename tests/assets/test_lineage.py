"""The graph of a source, from the configuration and the tables seen."""

from pathlib import Path

import dagster as dg
import pytest

from assets.lineage import Lineage, TableAsset, lineages
from spark_jobs.config.known_tables import SeenTable
from spark_jobs.config.model import Pipeline, RouteRule, SourceSettings

FILES = SourceSettings(files=Path("binlogs"))
SHOP, LINES = ("shop", "orders"), ("shop", "lines")


def graph(*tables: SeenTable, scope: tuple[str, ...] = (), routes: tuple[RouteRule, ...] = ()) -> list[Lineage]:
    sources = {"one": FILES, "two": FILES}
    pipeline = Pipeline(path=Path("pipeline.yaml"), lake="lake", sources=sources, tables=scope, routes=routes)
    return lineages(pipeline, tables)


def names(tables: tuple[TableAsset, ...]) -> list[tuple[str, str]]:
    return [table.name for table in tables]


def test_a_table_has_a_silver_asset_and_a_downstream_asset() -> None:
    first, two = graph(("one", *SHOP))
    (silver,), (downstream,) = first.silver, first.downstream
    assert [key.to_user_string() for key in first.keys] == [
        "bronze/one",
        "silver/one/shop/orders",
        "downstream/shop/orders",
        "published/one",
    ]
    assert (silver.output, downstream.output) == ("silver__shop__orders", "downstream__shop__orders")
    assert silver.origins == downstream.origins == (SHOP,)
    assert [key.to_user_string() for key in two.keys] == ["bronze/two", "published/two"]


def test_tables_out_of_scope_and_of_sources_that_are_gone_are_not_shown() -> None:
    lineage, _ = graph(("one", *SHOP), ("one", "shop", "audit"), ("gone", *SHOP), scope=("shop.*", "!shop.audit"))
    assert names(lineage.silver) == [SHOP]


def test_a_route_joins_tables_in_one_downstream_asset() -> None:
    routes = (RouteRule.model_validate({"from": "shop.orders_*", "to": "shop.orders"}),)
    lineage, _ = graph(("one", "shop", "orders_1"), ("one", "shop", "orders_2"), routes=routes)
    (joined,) = lineage.downstream
    assert (joined.name, joined.origins) == (SHOP, (("shop", "orders_1"), ("shop", "orders_2")))


def test_a_route_to_several_tables_makes_an_asset_of_each() -> None:
    routes = (RouteRule.model_validate({"from": "shop.orders*", "to": ["{schema}.{table}", "audit.all"]}),)
    lineage, _ = graph(("one", "shop", "orders_1"), ("one", "shop", "orders_2"), routes=routes)
    first, second = ("shop", "orders_1"), ("shop", "orders_2")
    assert {asset.name: asset.origins for asset in lineage.downstream} == {
        first: (first,),
        second: (second,),
        ("audit", "all"): (first, second),
    }
    assert len({asset.output for asset in lineage.downstream}) == len(lineage.downstream)


def test_a_downstream_table_of_two_sources_stands_with_the_first() -> None:
    first, two = graph(("two", *SHOP), ("one", *SHOP), ("two", *LINES))
    assert names(first.downstream) == [SHOP]
    assert names(two.downstream) == [LINES]
    assert sorted(names(two.silver)) == [LINES, SHOP]


ODD = [
    ("a__b", "c"),
    ("a", "b__c"),
    ("a_", "b"),
    ("a", "_b"),
    ("a", "b c"),
    ("a", "b-c"),
    ("a", "b.c"),
    ("a", "b/c"),
    ("a", "b%2Fc"),
    ("a", "ü"),
    ("a", "ö"),
]


def test_odd_names_have_keys_and_outputs_of_their_own() -> None:
    tables = graph(*(("one", *name) for name in [*ODD, ("a", "b")]))[0].silver
    assert len({table.key for table in tables}) == len({table.output for table in tables}) == len(ODD) + 1
    assert all(table.output.isascii() and table.output.isidentifier() for table in tables)


@pytest.mark.parametrize("name, has_check", [(SHOP, True), (("shop", "odd name"), False), (("shop", "a-b"), False)])
def test_a_check_stands_where_dagster_can_name_it(name: tuple[str, str], has_check: bool) -> None:
    (table,) = graph(("one", *name))[0].silver
    expected = dg.AssetCheckKey(table.key, "replicating") if has_check else None
    assert (table.check.key if table.check else None) == expected


def test_an_output_is_named_after_its_table_alone() -> None:
    alone = graph(("one", "shop", "odd name"))[0].silver[0].output
    among = {
        asset.name: asset.output for asset in graph(("one", "shop", "a name"), ("one", "shop", "odd name"))[0].silver
    }
    assert among["shop", "odd name"] == alone
