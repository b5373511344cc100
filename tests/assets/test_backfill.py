"""Ranges of files and of positions replayed from Dagster, and which files it knows."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from spark_jobs.lake.layout import lake_of
from spark_jobs.operations.retention.gc import gc_source
from tests.binlogs.segment_spec import Commit, Insert, Update
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster
PARTITIONS = "binlog_files_shop"
FILES = ["mysql-bin.000001", "mysql-bin.000002", "mysql-bin.000003"]
SILVER, DOWNSTREAM = "silver/shop/shop/orders", "downstream/shop/orders"


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[CodeLocation]:
    """Three files in two runs, so that silver has two windows."""
    with location(tmp_path, spark) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")), Insert("shop.lines", (1, 1)))
        code_location.run()
        code_location.write(2, Insert("shop.orders", (2, "b")), Commit(), Insert("shop.orders", (3, "c")))
        code_location.write(3, Update("shop.orders", (1, "a"), (1, "z")))
        code_location.run()
        yield code_location


def partitions_of(shop: CodeLocation) -> list[str]:
    return list(shop.instance.get_dynamic_partitions(PARTITIONS))


def spoil(shop: CodeLocation, layer: str) -> None:
    """Key 2 gets another note, by somebody else's hand."""
    lake = lake_of(shop.pipeline)
    table = lake.silver("shop", "shop", "orders") if layer == "silver" else lake.downstream("shop", "orders")
    assert shop.spark
    shop.spark.sql(f"UPDATE {table.sql} SET note = 'spoilt' WHERE id = 2")


def orders(shop: CodeLocation) -> list[tuple[Any, ...]]:
    assert shop.spark
    return sorted(
        tuple(row)[:2] for row in lake_of(shop.pipeline).downstream("shop", "orders").read(shop.spark).collect()
    )


@pytest.mark.spark
@pytest.mark.long
def test_three_ways_do_a_range_again_and_say_what_differed(shop: CodeLocation) -> None:
    assert partitions_of(shop) == FILES

    spoil(shop, "silver")
    ran = shop.backfill(FILES[1], FILES[2], layers=["silver"])
    assert ran.success, ran.failures
    assert set(ran.materialized) == {SILVER, "backfill/shop"}, "the merge is left to the next run"
    metadata = ran.materialized["backfill/shop"]
    assert (metadata["binlog/start"], metadata["backfill/files"]) == ("mysql-bin.000002:4", 2)
    assert metadata["binlog/end"] == shop.latest("bronze/shop")["binlog/end"]
    assert (metadata["backfill/tables"], metadata["backfill/windows"], metadata["backfill/tables_changed"]) == (1, 1, 1)
    assert (metadata["rows/touched"], metadata["rows/new"], metadata["rows/gone"]) == (3, 1, 1)
    assert (metadata["rows/inserted"], metadata["rows/updated"], metadata["rows/deleted"]) == (0, 0, 0)
    assert "windows: 1, rows: 3, 1 new, 1 gone" in metadata["backfill/changes"]
    assert ran.run.tags["stratalog/source"] == "shop"
    assert ran.run.tags["stratalog/from"] == "mysql-bin.000002:4"
    silver = ran.materialized[SILVER]
    assert (silver["backfill/from"], silver["binlog/end"]) == ("mysql-bin.000002:4", metadata["binlog/end"])
    assert ran.versions[SILVER] == f"{silver['binlog/end']} version {silver['delta/version']}"
    status = shop.instance.get_materialized_partitions(dg.AssetKey(["backfill", "shop"]))
    assert status == set(FILES[1:])

    spoil(shop, "downstream")
    assert (2, "spoilt") in orders(shop)
    form = {"source": "shop", "from": "mysql-bin.000002:4", "to": "mysql-bin.000003:4", "tables": ["shop.orders"]}
    second = shop.run_config("backfill_range", form | {"layers": ["downstream"]})
    assert second.success, second.failures
    observed_metadata = second.observed["backfill/shop"]
    assert (
        observed_metadata["backfill/windows"],
        observed_metadata["rows/updated"],
        observed_metadata["rows/new"],
    ) == (1, 1, 0)
    assert set(second.materialized) == {DOWNSTREAM}
    assert second.run.tags["stratalog/to"] == "mysql-bin.000003:4"
    assert orders(shop) == [(1, "z"), (2, "b"), (3, "c")]

    unchanged = shop.backfill(FILES[0], FILES[2], tables=["shop.*"])
    assert unchanged.success
    assert set(unchanged.materialized) == {"backfill/shop"}, "what decodes to the same is not written"
    assert unchanged.materialized["backfill/shop"]["rows/new"] == 0

    shop.instance.delete_dynamic_partition(PARTITIONS, FILES[1])  # a list of before it was read from an archive
    hole = shop.backfill(FILES[0], FILES[2])
    assert not hole.success
    (message,) = hole.failures.values()
    assert "between mysql-bin.000001 and mysql-bin.000003 bronze holds mysql-bin.000002 too" in message
    assert partitions_of(shop) == FILES, "registered again, in order"


@pytest.mark.spark
@pytest.mark.long
def test_files_that_only_the_archive_has_are_partitions_and_are_brought(tmp_path: Path, spark: SparkSession) -> None:
    sources = {"shop": {"files": "./binlogs", "archive": "./archive"}}
    with location(tmp_path, spark, sources=sources) as shop:
        for number in (1, 2, 3):
            shop.write(number, Insert("shop.orders", (number, "a")))
        shutil.copytree(tmp_path / "binlogs", tmp_path / "archive")
        shop.run()
        pipeline = shop.pipeline
        retention = pipeline.retention.model_copy(update={"bronze": timedelta(days=1)})
        gc_source(spark, pipeline.model_copy(update={"retention": retention}), "shop")
        for name in FILES[:2]:
            (tmp_path / "binlogs" / name).unlink()
        shop.run()
        assert partitions_of(shop) == FILES
        spoil(shop, "silver")
        size = sum((tmp_path / "archive" / name).stat().st_size for name in FILES[:2])

        ran = shop.backfill(FILES[1], FILES[1])
        assert ran.success, ran.failures
        metadata = ran.materialized["backfill/shop"]
        assert (metadata["binlog/start"], metadata["binlog/end"]) == ("mysql-bin.000002:4", "mysql-bin.000003:4")
        assert (metadata["rows/new"], metadata["brought/files"], metadata["brought/bytes"]) == (1, 2, size), (
            "its window began before"
        )
        assert metadata["brought/range"] == "[mysql-bin.000001:4, mysql-bin.000003:4)"
        assert metadata["brought/from"] == f"the archive {tmp_path / 'archive'}"
        assert partitions_of(shop) == FILES
        assert orders(shop) == [(1, "a"), (2, "a"), (3, "a")]
