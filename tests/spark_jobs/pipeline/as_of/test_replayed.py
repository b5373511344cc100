from pathlib import Path

from spark_jobs.binlog import TableName
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.filters import TableFilters
from spark_jobs.config.model import Pipeline
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.pipeline.as_of.bases import SilverVersions
from spark_jobs.pipeline.as_of.replayed import CompactedTable, Replay
from spark_jobs.pipeline.as_of.scratch import ScratchLake

ORDERS, STOPPED = TableName("shop", "orders"), TableName("shop", "logged_by_statement")


def test_a_table_is_compacted_upon_a_version(pipeline: Pipeline, tmp_path: Path) -> None:
    lake, at = lake_of(pipeline), Position("mysql-bin.000002", 1713)
    snapshot, silver = BronzeSnapshot.of(lake, "shop"), lake.silver("shop", "shop", "orders")
    base, before = SilverVersions.of(silver).base(at, TableFilters(), snapshot.oldest, is_raw=False), silver.head()
    assert base
    scratch = ScratchLake(lake, tmp_path / "scratch", [ORDERS])
    scratch.copy_silver(ORDERS, base.snapshot)
    replay = Replay(pipeline, scratch, snapshot, at)
    (orders,) = replay.compacted({ORDERS: base})
    assert isinstance(orders, CompactedTable)
    assert orders.head
    assert orders.head.position == at
    assert orders.has_one_shape
    replay.merge([orders])
    merged = scratch.merged(ORDERS).head()
    assert merged
    assert merged.position == at
    assert silver.head() == before


def test_a_table_that_stops_has_its_reason_without_a_code(pipeline: Pipeline, tmp_path: Path) -> None:
    lake, at = lake_of(pipeline), Position("mysql-bin.000002", 4320)
    scratch, snapshot = ScratchLake(lake, tmp_path / "scratch", [STOPPED]), BronzeSnapshot.of(lake, "shop")
    (refusal,) = Replay(pipeline, scratch, snapshot, at).compacted({STOPPED: None})
    assert not isinstance(refusal, CompactedTable)
    name, reason = refusal
    assert name == STOPPED
    assert "in statement format" in reason
    assert "SL-" not in reason
