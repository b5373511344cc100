"""A source's whole chain, on real binlog files, real Spark and real Delta tables."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets.chain import source_assets
from assets.lineage import lineages
from spark_jobs.config.model import Pipeline, SourceSettings
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation.backlog import backlog
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.pipeline.run import run_source
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Statement, Update
from tests.lakes.code_location import CodeLocation, location
from tests.lakes.lake_tables import table_rows

FIRST: list[Change] = [
    Insert("shop.orders", (1, "a")),
    Insert("shop.lines", (1, 2)),
    Commit(),
    Update("shop.orders", (1, "a"), (1, "b")),
]
BRONZE, PUBLISHED = "bronze/shop", "published/shop"
SILVER_ORDERS, SILVER_LINES = "silver/shop/shop/orders", "silver/shop/shop/lines"
ORDERS, LINES = "downstream/shop/orders", "downstream/shop/lines"


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[CodeLocation]:
    """One source with one file of it."""
    with location(tmp_path, spark) as code_location:
        code_location.write(1, *FIRST)
        yield code_location


def idle(shop: CodeLocation) -> CodeLocation:
    """The same, but whoever asks for Spark fails."""
    return CodeLocation(shop.folder, shop.instance, None, shop.keys)


def merged(shop: CodeLocation, table: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row)[:2] for row in table_rows(lake_of(shop.pipeline).downstream("shop", table)))


@pytest.mark.dagster
@pytest.mark.spark
def test_positions_and_numbers_are_published_and_an_idle_run_publishes_nothing(shop: CodeLocation) -> None:
    first = shop.run()
    assert first.success
    assert set(first.materialized) == {BRONZE, SILVER_ORDERS, SILVER_LINES, ORDERS, LINES, PUBLISHED}
    end = first.materialized[BRONZE]["binlog/end"]
    assert {metadata["binlog/end"] for metadata in first.materialized.values()} == {end}
    bronze = first.materialized[BRONZE]
    assert bronze["binlog/start"] == "mysql-bin.000001:4"
    assert bronze["binlog/bytes"] == (shop.folder / "binlogs" / "mysql-bin.000001").stat().st_size
    silver = first.materialized[SILVER_ORDERS]
    assert (silver["rows/changes"], silver["rows/inserted"], silver["rows/updated"]) == (2, 1, 0)
    assert [column.name for column in silver["dagster/column_schema"].columns][:2] == ["id", "note"]
    assert (silver["dagster/row_count"], first.materialized[ORDERS]["dagster/row_count"]) == (1, 1)
    added = [column for column in silver["dagster/column_schema"].columns if column.name.startswith("_")]
    assert all(column.description for column in added)
    page = shop.folder / "reports" / "shop.html"
    assert first.materialized[PUBLISHED]["source/report"] == str(page)
    assert "<h1>shop</h1>" in page.read_text()
    downstream = first.materialized[ORDERS]
    (came_from,) = downstream["dagster/column_lineage"].deps_by_column["note"]
    assert (came_from.asset_key.to_user_string(), came_from.column_name) == (SILVER_ORDERS, "note")
    assert silver["binlog/bytes"] > 0
    assert bronze["binlog/gtid"] == silver["binlog/gtid"] == downstream["binlog/gtid"]
    over = [first.materialized[key]["tables/quarantined_events"] for key in (SILVER_ORDERS, ORDERS, PUBLISHED)]
    assert over == [0, 0, 0]
    source = first.observed["source/shop"]
    assert (source["source/log_end"], source["source/bronze"], source["source/backlog_bytes"]) == (end, end, 0)
    assert first.run.tags["range/shop"] == f"[mysql-bin.000001:4, {end})"
    assert first.materialized[PUBLISHED]["tables/shown_after_reload"] == "shop.lines, shop.orders"
    assert first.run.tags["did/shop"] == "3 changes in 2 tables: shop.lines, shop.orders"
    assert merged(shop, "orders") == [(1, "b")]

    idle_run = idle(shop).run()
    assert idle_run.success
    assert (idle_run.materialized, idle_run.checks) == ({}, {})
    assert idle_run.observed["source/shop"]["source/backlog_bytes"] == 0
    assert idle_run.run.tags["did/shop"] == "nothing new"


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_only_tables_with_news_are_materialized_and_a_new_one_is_taken_at_once(shop: CodeLocation) -> None:
    shop.run()
    loaded = shop.defs()
    shop.write(2, Delete("shop.lines", (1, 2)), Insert("shop.later", (5,)))
    ran = shop.run(defs=loaded)
    assert ran.success
    later = {"silver/shop/shop/later", "downstream/shop/later"}
    assert set(ran.materialized) == {BRONZE, SILVER_LINES, LINES, PUBLISHED} | later
    assert ran.versions[BRONZE] == "mysql-bin.000001:4"
    assert {ran.versions[key] for key in (*later, LINES)} == {ran.materialized[BRONZE]["binlog/end"]}
    assert ran.checks == dict.fromkeys((BRONZE, SILVER_LINES, LINES), (True, None))
    assert ran.materialized[PUBLISHED]["tables/shown_after_reload"] == "shop.later"
    assert merged(shop, "lines") == []
    known_keys = {key.to_user_string() for key in shop.defs().resolve_asset_graph().get_all_asset_keys()}
    assert later <= known_keys
    assert not later & {key.to_user_string() for key in loaded.resolve_asset_graph().get_all_asset_keys()}


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_what_dagster_lost_or_has_wrong_is_written_again_and_marked(shop: CodeLocation) -> None:
    first = shop.run()
    shop.instance.wipe_assets([dg.AssetKey.from_user_string(key) for key in (BRONZE, SILVER_LINES)])
    ahead = {"binlog/end": "mysql-bin.000099:4"}
    shop.instance.report_runless_asset_event(dg.AssetMaterialization(LINES.split("/"), metadata=ahead))
    ran = idle(shop).run()
    assert ran.success
    assert set(ran.materialized) == {BRONZE, SILVER_LINES, LINES}
    end = first.materialized[BRONZE]["binlog/end"]
    assert {metadata["binlog/end"] for metadata in ran.materialized.values()} == {end}
    assert [ran.materialized[key]["checkpoint/adopted"] for key in (BRONZE, SILVER_LINES)] == [True, True]
    repaired = ran.materialized[LINES]
    assert (repaired["checkpoint/repaired"], repaired["checkpoint/lake_had"]) == (True, end)
    assert repaired["checkpoint/dagster_had"] == "mysql-bin.000099:4"
    assert idle(shop).run().materialized == {}


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_a_run_outside_dagster_is_published_as_such(shop: CodeLocation) -> None:
    before = shop.run()
    shop.write(2, Insert("shop.orders", (2, "c")))
    assert shop.spark
    extracted, _ = run_source(shop.spark, shop.pipeline, "shop")
    ran = idle(shop).run()
    assert ran.success
    assert set(ran.materialized) == {BRONZE, SILVER_ORDERS, ORDERS, PUBLISHED}
    for metadata in ran.materialized.values():
        assert metadata["checkpoint/advanced_outside_dagster"] is True
        assert metadata["checkpoint/dagster_had"] == before.materialized[BRONZE]["binlog/end"]
        assert metadata["checkpoint/lake_had"] == metadata["binlog/end"] == str(extracted.head.position)


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_a_stopped_table_fails_the_run_after_the_others_went_through(shop: CodeLocation) -> None:
    shop.run()
    shop.write(
        2,
        Statement("shop", "ALTER TABLE orders MODIFY id SMALLINT NOT NULL"),
        Insert("shop.orders", (2, "c")),
        Insert("shop.lines", (2, 5)),
    )
    ran = shop.run()
    assert not ran.success
    assert list(ran.failures) == ["source_shop.publish"]
    assert "shop.orders" in ran.failures["source_shop.publish"]
    assert ran.run.tags["stratalog/stopped_tables"] == "1"
    is_passed, reason = ran.checks[SILVER_ORDERS]
    assert not is_passed
    assert "ALTER TABLE" in (reason or "")
    assert ran.checks[SILVER_LINES] == ran.checks[LINES] == (True, None)
    assert ran.materialized[PUBLISHED]["tables/stopped"] == 1
    assert merged(shop, "lines") == [(1, 2), (2, 5)]
    second = shop.run()
    assert list(second.failures) == ["source_shop.publish"]
    assert second.materialized == {}  # no asset of a user's is asked for by tables that did not change


@pytest.mark.long
@pytest.mark.dagster
@pytest.mark.spark
def test_a_selection_does_what_is_selected_and_nothing_else(shop: CodeLocation) -> None:
    shop.run()
    shop.write(2, Insert("shop.orders", (2, "c")), Insert("shop.lines", (2, 5)))
    assert set(shop.run(assets=[BRONZE]).materialized) == {BRONZE}
    assert set(shop.run(assets=[SILVER_LINES]).materialized) == {SILVER_LINES}
    assert set(shop.run(assets=[LINES, PUBLISHED]).materialized) >= {LINES}
    assert (merged(shop, "lines"), merged(shop, "orders")) == ([(1, 2), (2, 5)], [(1, "b")])
    rest = shop.run()
    assert rest.success
    assert {SILVER_ORDERS, ORDERS, PUBLISHED} <= set(rest.materialized)
    assert merged(shop, "orders") == [(1, "b"), (2, "c")]


@pytest.mark.long
@pytest.mark.dagster
@pytest.mark.spark
def test_what_a_run_left_behind_is_done_by_the_next_although_the_log_has_not_moved(shop: CodeLocation) -> None:
    shop.run(assets=[BRONZE])
    ran = shop.run()
    assert BRONZE not in ran.materialized
    assert merged(shop, "orders") == [(1, "b")]


OWNERS = ("team:data", "ann@example.com")


def assets(name: str) -> dg.AssetsDefinition:
    pipeline = Pipeline(
        path=Path("pipeline.yaml"), lake="lake", sources={name: SourceSettings(files=Path("binlogs"))}, owners=OWNERS
    )
    (lineage,) = lineages(pipeline, [(name, "shop", "orders"), (name, "shop", "odd name")])
    return source_assets(pipeline, lineage)


@pytest.mark.dagster
def test_lineage_runs_from_the_log_to_what_is_published() -> None:
    asset_definition = assets("shop")
    arrows = {
        spec.key.to_user_string(): sorted(dep.asset_key.to_user_string() for dep in spec.deps)
        for spec in asset_definition.specs
    }
    assert arrows == {
        BRONZE: ["source/shop"],
        SILVER_ORDERS: [BRONZE],
        "silver/shop/shop/odd name": [BRONZE],
        ORDERS: [SILVER_ORDERS],
        "downstream/shop/odd name": ["silver/shop/shop/odd name"],
        PUBLISHED: ["downstream/shop/odd name", ORDERS],
    }
    assert {spec.key.to_user_string().split("/")[0]: spec.group_name for spec in asset_definition.specs} == {
        "bronze": "shop_bronze",
        "silver": "shop_silver",
        "downstream": "shop_downstream",
        "published": "shop_downstream",
    }
    assert all(spec.description and "deltalake" in spec.kinds for spec in asset_definition.specs)
    assert all(tuple(spec.owners) == OWNERS for spec in asset_definition.specs)
    chain = asset_definition.node_def
    assert isinstance(chain, dg.GraphDefinition)
    steps = chain.node_dict
    assert list(steps) == ["extract", "compact", "merge", "publish"]
    assert {node.definition.pool for node in steps.values()} == {"stratalog_source_shop"}  # type: ignore[attr-defined] # steps are ops


@pytest.mark.dagster
@pytest.mark.parametrize("name", ["input", "type", "str", "class", "_", "context", "x1"])
def test_a_source_may_have_any_name_that_the_configuration_takes(name: str) -> None:
    resources = {"spark": object(), "handed_on": dg.mem_io_manager}
    definitions = dg.Definitions([assets(name)], resources=resources)
    dg.Definitions.validate_loadable(definitions)
    assert dg.AssetKey(["bronze", name]) in definitions.resolve_all_asset_keys()


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_a_table_that_was_reset_is_done_over_by_a_run_that_finds_nothing_else(shop: CodeLocation) -> None:
    assert shop.spark
    shop.run()
    lake = lake_of(shop.pipeline)
    for table in (lake.silver("shop", "shop", "orders"), lake.downstream("shop", "orders")):
        shop.spark.sql(f"UPDATE {table.sql} SET note = 'spoilt'")
    assert not backlog(shop.pipeline, "shop").left_behind
    reset(shop.pipeline, "shop", plan_reset(shop.pipeline, "shop", "shop.orders"))
    assert backlog(shop.pipeline, "shop").left_behind, "the sensor asks for a run"
    second = shop.run()
    assert second.success
    assert set(second.materialized) == {SILVER_ORDERS, ORDERS, PUBLISHED}
    assert merged(shop, "orders") == [(1, "b")]
    assert not backlog(shop.pipeline, "shop").left_behind
    assert second.materialized[PUBLISHED]["tables/current"] == 2
