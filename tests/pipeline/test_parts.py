"""Two sources' tables in one downstream table, from written logs, without a server."""

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession

from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.downstream import merge_job, publication
from spark_jobs.downstream.commit import DownstreamCommit
from spark_jobs.downstream.multi_source import PROVENANCE, Owner, PartTable, parts_of
from spark_jobs.engine.changes.column_history import ChangedLog
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.merge.part_merge import PlannedTables
from spark_jobs.errors import LostRace
from spark_jobs.lake.commit import Checkpoint, new_batch
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.run import run_source
from spark_jobs.pipeline.table_merge import TableMerge
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, SegmentSpec, Statement, Update
from tests.binlogs.segment_spec import Table as Logged
from tests.binlogs.segment_types import DOUBLE, FLOAT, INT, VARCHAR
from tests.lakes.lake_tables import schema_of

pytestmark = pytest.mark.spark

ORDERS = Logged("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40))
MERGED = [{"from": "shop.*", "to": "world.{1}", "sources": ["*"]}]


class Two:
    """A lake of two sources."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.folder, self.spark = folder, spark

    def write(self, source: str, number: int, tables: list[Logged], *changes: Change) -> None:
        """One closed binlog file."""
        spec = SegmentSpec(tables, changes, rotate_to=f"mysql-bin.{number + 1:06d}", first_number=number * 100)
        (self.folder / source).mkdir(exist_ok=True)
        (self.folder / source / f"mysql-bin.{number:06d}").write_bytes(spec.to_bytes())

    def pipeline(self, *routes: dict[str, Any]) -> Pipeline:
        sources = {name: {"files": f"./{name}"} for name in ("eu", "us")}
        path = self.folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump({"lake": "./lake", "sources": sources, "routes": routes}), encoding="utf-8")
        return load(path, {})

    def run(self, pipeline: Pipeline, *sources: str) -> list[str]:
        """Reasons why tables stopped."""
        outcomes = [run_source(self.spark, pipeline, source)[1] for source in sources or ("eu", "us")]
        return [reason for outcome in outcomes for reason in outcome.stopped.values()]

    def rows(self, table: str = "orders", schema: str = "world") -> list[tuple[Any, ...]]:
        """Source first, the columns of sources behind it."""
        frame = lake_of(self.pipeline()).downstream(schema, table).read(self.spark)
        names = [name for name in frame.columns if name not in (*PROVENANCE, *merge_job.ADDED)]
        return sorted(map(tuple, frame.select("_source", *names).collect()), key=repr)


@pytest.fixture
def two(tmp_path: Path, spark: SparkSession) -> Two:
    return Two(tmp_path, spark)


@pytest.mark.long
def test_the_same_keys_of_two_sources_are_two_rows_and_each_goes_on_by_itself(two: Two) -> None:
    pipeline = two.pipeline(*MERGED)
    for name in ("eu", "us"):
        two.write(name, 1, [ORDERS], Insert("shop.orders", (1, name)), Insert("shop.orders", (2, name)))
    assert two.run(pipeline) == []
    assert two.rows() == [("eu", 1, "eu"), ("eu", 2, "eu"), ("us", 1, "us"), ("us", 2, "us")]
    two.write("us", 2, [ORDERS], Delete("shop.orders", (1, "us")), Update("shop.orders", (2, "us"), (3, "moved")))
    table = lake_of(pipeline).downstream("world", "orders")
    before = {part.owner: part for part in parts_of(_checkpoint(table))}
    maintain_source(two.spark, pipeline, "eu")
    assert two.run(pipeline) == []
    assert two.rows() == [("eu", 1, "eu"), ("eu", 2, "eu"), ("us", 3, "moved")]
    after = {part.owner: part for part in parts_of(_checkpoint(table))}
    assert after[EU] == before[EU]
    assert after[US].position > before[US].position


@pytest.mark.long
def test_parts_without_news_are_not_opened_and_are_published_with_the_table_s_version(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [Logged(f"shop.orders_{nth}", key=["id"], id=INT.NOT_NULL) for nth in range(4)]
    pipeline = two.pipeline({"from": "shop.orders_*", "to": "world.orders"})
    prepared: list[str] = []
    prepare = TableMerge.prepared

    def counting(
        merge: TableMerge, number: int, planned_tables: PlannedTables, log: ChangedLog | None
    ) -> PreparedMerge | str | None:
        prepared.append(merge.origin.table)
        return prepare(merge, number, planned_tables, log)

    monkeypatch.setattr(TableMerge, "prepared", counting)
    for number, changed in enumerate([shards, shards[:1], shards[1:2], shards[:2]], 1):
        inserts = (change for shard in changed for change in (Insert(shard.name, (number,)), Commit()))
        two.write("eu", number, changed, *inserts)
        assert two.run(pipeline, "eu") == []
        assert sorted(prepared) == [shard.name.partition(".")[2] for shard in changed]
        newest = deltalake.DeltaTable(lake_of(pipeline).downstream("world", "orders").path).version()
        entries = publication.read(lake_of(pipeline), "eu")
        assert [entry.downstream_version for entry in entries] == [newest] * 4
        assert len({entry.merged for entry in entries}) == 1
        prepared.clear()
    assert len(two.rows()) == 4 + 1 + 1 + 2


def test_a_table_of_one_and_one_of_several_are_not_made_of_each_other(two: Two) -> None:
    alone = two.pipeline({"from": "shop.orders", "to": "world.orders"})
    for name in ("eu", "us"):
        two.write(name, 1, [ORDERS], Insert("shop.orders", (1, name)))
    (reason,) = two.run(alone)
    assert "is merged from shop.orders of source eu, and by routes: it is of one" in reason
    pipeline = two.pipeline(*MERGED)
    two.write("eu", 2, [ORDERS], Insert("shop.orders", (2, "eu")))  # tables without changes are not looked at
    assert [reason.partition(" has the rows of ")[2].partition(",")[0] for reason in two.run(pipeline)] == [
        "shop.orders alone"
    ] * 2
    (Path(pipeline_path := lake_of(pipeline).downstream("world", "orders").path)).rename(f"{pipeline_path}_away")
    assert two.run(pipeline) == []
    assert two.rows() == [("eu", 1, "eu"), ("eu", 2, "eu"), ("us", 1, "us")]
    for name, number in (("eu", 3), ("us", 2)):
        two.write(name, number, [ORDERS], Insert("shop.orders", (9, name)))
    reasons = two.run(two.pipeline({"from": "shop.orders", "to": "world.orders"}))
    assert ["is merged from several source tables" in reason for reason in reasons] == [True, True]


@pytest.mark.long
def test_bags_of_other_widths_are_counted_apart(two: Two) -> None:
    pipeline = two.pipeline(*MERGED)
    narrow, wide = Logged("shop.bag", v=FLOAT), Logged("shop.bag", v=DOUBLE, more=INT)
    two.write("eu", 1, [narrow], Insert("shop.bag", (0.1,)), Insert("shop.bag", (0.1,)), Insert("shop.bag", (2.5,)))
    two.write("us", 1, [wide], Insert("shop.bag", (0.1, 1)), Insert("shop.bag", (2.5, 1)))
    assert two.run(pipeline) == []
    two.write("eu", 2, [narrow], Delete("shop.bag", (0.1,)), Insert("shop.bag", (2.5,)))
    two.write("us", 2, [wide], Delete("shop.bag", (2.5, 1)), Insert("shop.bag", (0.1, 1)))
    assert two.run(pipeline) == []
    tenth = 0.10000000149011612  # as a FLOAT has it
    assert two.rows("bag") == [
        ("eu", tenth, None), ("eu", 2.5, None), ("eu", 2.5, None), ("us", 0.1, 1), ("us", 0.1, 1)
    ]  # fmt: skip


@pytest.mark.long
def test_keys_in_common_live_through_ddl_and_are_not_set_apart_again(two: Two) -> None:
    pipeline = two.pipeline(MERGED[0] | {"keys": "shared"})
    two.write("eu", 1, [ORDERS], Insert("shop.orders", (1, "eu1")), Insert("shop.orders", (2, "eu2")))
    two.write("us", 1, [ORDERS], Insert("shop.orders", (2, "us2")), Insert("shop.orders", (3, "us3")))
    assert two.run(pipeline) == []
    assert two.rows() == [("eu", 1, "eu1"), ("us", 2, "us2"), ("us", 3, "us3")], "at the same time the later name's"
    wide = Logged("shop.orders", key=["id"], id=INT.NOT_NULL, note=VARCHAR(40), extra=INT.NOT_NULL)
    alter = Statement("shop", "ALTER TABLE orders ADD COLUMN extra INT NOT NULL DEFAULT 7")
    two.write("eu", 2, [wide], alter, Insert("shop.orders", (4, "eu4", 8)))
    assert two.run(pipeline, "eu") == []
    assert two.rows() == [
        ("eu", 1, "eu1", 7), ("eu", 4, "eu4", 8), ("us", 2, "us2", None), ("us", 3, "us3", None)
    ]  # fmt: skip
    two.write("eu", 3, [wide], Insert("shop.orders", (5, "eu5", 9)))
    two.write("us", 2, [ORDERS], Insert("shop.orders", (5, "us5")))
    apart = two.run(two.pipeline(*MERGED))
    assert ["with the keys of its source tables shared" in reason for reason in apart] == [True, True]


@pytest.mark.long
def test_keys_in_common_are_so_in_each_target(two: Two) -> None:
    route = MERGED[0] | {"to": ["world.{1}", "copy.{1}"], "keys": "shared"}
    pipeline = two.pipeline(route)
    two.write("eu", 1, [ORDERS], Insert("shop.orders", (1, "eu1")), Insert("shop.orders", (2, "eu2")))
    two.write("us", 1, [ORDERS], Insert("shop.orders", (2, "us2")))
    assert two.run(pipeline) == []
    two.write("eu", 2, [ORDERS], Delete("shop.orders", (1, "eu1")))
    assert two.run(pipeline) == []
    assert two.rows() == two.rows(schema="copy") == [("us", 2, "us2")]
    for source in ("eu", "us"):
        (table,) = status(pipeline, lake_of(pipeline), source).tables
        assert table.watermark
        assert [(target["table"], target["watermark"]) for target in table.targets or ()] == [
            ("world.orders", table.watermark), ("copy.orders", table.watermark)
        ]  # fmt: skip


EU: Owner = ("eu", "shop", "orders")
US: Owner = ("us", "shop", "orders")


def _checkpoint(table: Table) -> Checkpoint | None:
    head = table.head()
    return head.checkpoint if head else None


def test_of_two_writers_on_one_head_the_later_one_lands_nothing(spark: SparkSession, lake: Path) -> None:
    types = {"id": "INT"}

    def commit(part: PartTable, offset: int) -> DownstreamCommit:
        return DownstreamCommit(
            Position("bin.000001", offset),
            new_batch(),
            source=part.owner[0],
            table="shop.orders",
            silver_version=1,
            start=Position("bin.000001", 4),
            is_complete=True,
            columns=types,
        )

    def rows(part: PartTable) -> pa.Table:
        return pa.Table.from_pylist(
            [{"id": 0} | part.provenance], schema=schema_of(types | PROVENANCE | merge_job.ADDED)
        )

    eu, us = (PartTable(Table(str(lake / "t"), plain=False), owner) for owner in (EU, US))
    eu.append_rows(rows(eu), eu.unwritten_head(types | PROVENANCE | merge_job.ADDED, {}), commit(eu, 10))
    stale, head = us.head(), eu.head()
    assert stale
    assert head
    landed = eu.append_rows(rows(eu), head, commit(eu, 20))
    assert landed.position == Position("bin.000001", 20)
    with pytest.raises(LostRace):
        us.append_rows(rows(us), stale, commit(us, 99))
    current = us.head()
    assert current
    assert current.position is None
    us.append_rows(rows(us), current, commit(us, 99))
    assert {part.owner: part.position.offset for part in parts_of(_checkpoint(Table(eu.path, plain=False)))} == {
        EU: 20,
        US: 99,
    }
    assert (eu.read(spark).count(), us.read(spark).count()) == (2, 1)
