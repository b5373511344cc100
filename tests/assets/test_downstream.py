"""Routes decide whose asset a merge is told under; merging itself is tested in test_chain.py."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets.catalog import AssetCatalog
from assets.downstream import _stopped
from assets.keys import downstream_key
from assets.lineage import Lineage, TableAsset
from spark_jobs.binlog import TableName
from spark_jobs.config.model import Pipeline, SourceSettings
from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.observation import backlog as backlog_module
from spark_jobs.operations.observation.verified import DIFFERS, Verified, note
from spark_jobs.pipeline.outcome import Outcome
from tests.binlogs.segment_spec import Insert, Statement
from tests.lakes.code_location import CodeLocation, location

ROUTES = [{"from": "shop.orders", "to": "sales.all_orders"}]


@pytest.fixture
def routed(tmp_path: Path, spark: SparkSession) -> Iterator[CodeLocation]:
    with location(tmp_path, spark, routes=ROUTES) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")))
        yield code_location


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_a_routed_table_is_materialized_under_its_target(routed: CodeLocation) -> None:
    ran = routed.run()
    assert ran.success
    assert "downstream/sales/all_orders" in ran.materialized
    assert ran.materialized["downstream/sales/all_orders"]["rows/inserted"] == 1
    routed.write(2, Insert("shop.orders", (2, "b")))
    second = routed.run()
    assert second.checks["downstream/sales/all_orders"] == (True, None)
    assert (
        routed.latest("downstream/sales/all_orders")["binlog/end"] == second.materialized["bronze/shop"]["binlog/end"]
    )


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_a_table_that_a_foreign_key_changes_unlogged_has_a_warning(tmp_path: Path, spark: SparkSession) -> None:
    rule = "ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES customers (id) ON DELETE CASCADE"
    with location(tmp_path, spark, on_cascade="warn") as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")))
        assert code_location.run().success
        code_location.write(2, Statement("shop", rule))
        last = Verified("shop", "orders", DIFFERS, "b.000001:4", "2026-11-28T10:00:00+00:00", missing=2)
        note(lake_of(code_location.pipeline), "shop", [last])
        ran = code_location.run()
        assert ran.success
        is_passed, description = ran.checks["downstream/shop/orders"]
        assert not is_passed
        by_key, by_comparison = str(description).splitlines()
        assert by_key.startswith("shop.orders: is changed by the foreign key f -> shop.customers ON DELETE")
        assert by_comparison.startswith("shop.orders: 2 rows differed from the server's at 2026-11-28T10:00:00+00:00; ")
        # A table without news is not materialized; one with news says it too.
        code_location.write(3, Insert("shop.orders", (2, "b")))
        materialized = code_location.run().materialized["downstream/shop/orders"]
        assert materialized["table/verified"] == "differs"
        assert materialized["table/verified_at"] == "2026-11-28T10:00:00+00:00"


def test_what_stopped_a_table_in_silver_stops_its_downstream_tables_too() -> None:
    names = {("sales", "all"): (("shop", "eu"), ("shop", "us")), ("shop", "t"): (("shop", "t"),)}
    tables = tuple(TableAsset(into, downstream_key(into), "_".join(into), origins) for into, origins in names.items())
    pipeline = Pipeline(path=Path("pipeline.yaml"), lake="lake", sources={"shop": SourceSettings(files=Path())})
    lineage = Lineage("shop", (), tables, AssetCatalog(pipeline))
    compacted = Outcome([], None, stopped={TableName("shop", "us"): "an ALTER"})
    here = {(TableName("shop", "t"), ("shop", "t")): "a route"}
    merged = Outcome([], None, stopped={}, stopped_into=here)
    stopped = {downstream_key(("sales", "all")): ["an ALTER"]}
    assert _stopped(lineage, None, compacted) == stopped
    assert _stopped(lineage, merged, compacted) == stopped | {downstream_key(("shop", "t")): ["a route"]}
    assert _stopped(lineage, None, None) == {}


FAN = [{"from": "shop.orders", "to": ["sales.orders", "audit.orders"]}]


@pytest.mark.thorough
@pytest.mark.dagster
@pytest.mark.spark
def test_a_table_that_goes_to_two_is_an_asset_a_downstream_table(tmp_path: Path, spark: SparkSession) -> None:
    keys = ["downstream/sales/orders", "downstream/audit/orders"]
    with location(tmp_path, spark, routes=FAN[:0]) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")))
        assert code_location.run().success
        # Routes that were changed are news, though the log has none.
        code_location.keys["routes"] = FAN
        assert backlog_module.backlog(code_location.pipeline, "shop").left_behind
        ran = code_location.run()
        assert ran.success
        assert {key: ran.materialized[key]["rows/inserted"] for key in keys} == dict.fromkeys(keys, 1)
        assert [ran.checks[key] for key in keys] == [(True, None)] * 2
        assert not backlog_module.backlog(code_location.pipeline, "shop").left_behind
        # One of them alone; the other one follows in the next whole run.
        code_location.write(2, Insert("shop.orders", (2, "b")))
        alone = code_location.run(assets=["bronze/shop", "silver/shop/shop/orders", keys[0]])
        assert alone.success
        assert keys[0] in alone.materialized
        assert keys[1] not in alone.materialized
        after = code_location.run()
        assert after.materialized[keys[1]]["rows/inserted"] == 1
        assert {code_location.latest(key)["binlog/end"] for key in keys} == {
            code_location.latest("bronze/shop")["binlog/end"]
        }
        graph = code_location.defs().resolve_asset_graph()
        for key in keys:
            parents = graph.get(dg.AssetKey(key.split("/"))).parent_keys
            assert parents == {dg.AssetKey(["silver", "shop", "shop", "orders"])}
        # What stops one of them fails its check alone.
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/lake/downstream/audit/orders` ADD COLUMN mine INT")
        code_location.write(3, Insert("shop.orders", (3, "c")))
        stopped = code_location.run()
        assert not stopped.success
        assert stopped.checks[keys[0]] == (True, None)
        assert stopped.checks[keys[1]][0] is False
        assert keys[0] in stopped.materialized
        assert keys[1] not in stopped.materialized


TWO_SOURCES = {
    "sources": {name: {"files": "./binlogs"} for name in ("shop", "twin")},
    "routes": [{"from": "shop.l*", "to": "world.all", "sources": ["*"]}],
}


@pytest.mark.dagster
@pytest.mark.spark
@pytest.mark.long
def test_a_table_of_several_sources_keeps_the_first_one_s_position(tmp_path: Path, spark: SparkSession) -> None:
    with location(tmp_path, spark, **TWO_SOURCES) as code_location:
        code_location.write(1, Insert("shop.lines", (1, 10)), Insert("shop.later", (1,)))
        assert code_location.run().success
        code_location.write(2, Insert("shop.lines", (2, 20)), Insert("shop.later", (2,)))
        second = code_location.run()
        assert second.success
        latest = code_location.latest("downstream/world/all")
        end = second.materialized["bronze/shop"]["binlog/end"]
        assert {latest[key] for key in ("binlog/end", "binlog/watermark/shop", "binlog/watermark/twin")} == {end}
        assert latest["rows/inserted"] == 2, "of both tables of the source that wrote last"
        assert not {"checkpoint/repaired", "checkpoint/advanced_outside_dagster"} & latest.keys()
        rows = spark.read.format("delta").load(str(tmp_path / "lake/downstream/world/all"))
        assert {tuple(row) for row in rows.groupBy("_source", "_table").count().collect()} == {
            (source, table, 2) for source in ("shop", "twin") for table in ("later", "lines")
        }


SHARED = {
    "sources": {name: {"files": "./binlogs"} for name in ("shop", "twin")},
    "routes": [{"from": "shop.lines", "to": "world.lines", "sources": ["*"], "keys": "shared"}],
}


@pytest.mark.dagster
@pytest.mark.spark
@pytest.mark.long
def test_a_table_of_sources_with_keys_in_common_says_up_to_when_it_is_complete(
    tmp_path: Path, spark: SparkSession
) -> None:
    with location(tmp_path, spark, **SHARED) as code_location:
        code_location.write(1, Insert("shop.lines", (1, 10)), Insert("shop.lines", (2, 20)))
        assert code_location.run().success
        code_location.write(2, Insert("shop.lines", (3, 30)))
        assert code_location.run().success
        latest = code_location.latest("downstream/world/lines")
        rows = spark.read.format("delta").load(str(tmp_path / "lake/downstream/world/lines"))
        assert {tuple(row) for row in rows.groupBy("_source").count().collect()} == {("twin", 3)}, "the later name"
        times = {row["id"]: row["_committed_at"].timestamp() for row in rows.collect()}
        assert times[2] <= latest["binlog/watermark"] <= times[3], "the other source may not have published yet"
