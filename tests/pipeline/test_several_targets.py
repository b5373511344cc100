"""One source table in several downstream tables (``to: [..]``): each is what the server has, and goes on by itself."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.checks.verify import verify_source
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.snapshot import Snapshot
from spark_jobs.downstream.publication import Entry, consistent, read
from spark_jobs.errors import LakeError
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.lake.table import Table
from spark_jobs.operations.observation.report import report
from spark_jobs.operations.observation.status import status
from spark_jobs.operations.repair import plan_reset, reset
from spark_jobs.operations.retention.gc import gc_source
from spark_jobs.operations.retention.maintenance import maintain_source
from spark_jobs.pipeline.backfill.request import DOWNSTREAM, BackfillRequest
from spark_jobs.pipeline.backfill.run import backfill
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.silver import table as silver
from tests.fix_pipeline import SOURCE, Shop, rows

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.long]

PLAIN, AUDIT, ALL = ("plain", "orders"), ("audit", "orders"), ("all", "rows")
"""Downstream tables: of orders alone, the second of these, and one in which orders and returns meet."""


@dataclass(frozen=True, slots=True)
class Fan:
    """Two tables, orders and returns; orders goes to three downstream tables, returns to one of these."""

    shop: Shop

    def pipeline(self, *targets: tuple[str, str], **keys: Any) -> Pipeline:
        """targets: where orders goes, all without any; returns goes to the table of several where orders does."""
        base, used_targets = self.shop.database.name, targets or (PLAIN, AUDIT, ALL)
        routes: list[dict[str, Any]] = [{"from": f"{base}.orders", "to": [".".join(target) for target in used_targets]}]
        routes += [{"from": f"{base}.returns", "to": ".".join(ALL)}] if ALL in used_targets else []
        return self.shop.pipeline(live=True, routes=routes, **keys)

    def run(self, *targets: tuple[str, str], **keys: Any) -> Outcome:
        return self.shop.run(self.pipeline(*targets, **keys))[1]

    def table(self, name: tuple[str, str]) -> Table:
        return lake_of(self.pipeline()).downstream(*name)

    def head(self, name: tuple[str, str]) -> Head:
        head = self.table(name).head()
        assert head
        assert head.checkpoint
        return head

    def counters(self) -> list[int]:
        return [self.head(name).counter for name in (PLAIN, AUDIT, ALL)]

    def entry(self) -> Entry:
        (match,) = (candidate for candidate in read(lake_of(self.pipeline()), SOURCE) if candidate.table == "orders")
        return match

    def require_same(self, *without: tuple[str, str]) -> None:
        """All downstream tables have the server's rows and columns."""
        spark = self.shop.spark
        for name in {PLAIN, AUDIT} - set(without):
            assert rows(self.table(name).read(spark)) == self.shop.truth("orders"), name
        if ALL not in without:
            orders = self.table(ALL).read(spark).where("_table = 'orders'").drop("refund")
            assert rows(orders) == self.shop.truth("orders")


@pytest.fixture
def fan(shop: Shop) -> Fan:
    shop.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE returns (id INT PRIMARY KEY, refund INT)",
        "INSERT INTO orders VALUES (1,'a'),(2,'b'),(3,'c')",
        "INSERT INTO returns VALUES (1,10),(7,70)",
    )
    return Fan(shop)


def test_each_target_has_the_table_and_its_own_position_columns_and_commits(fan: Fan) -> None:
    shop, pipeline = fan.shop, fan.pipeline()
    base = shop.database.name
    outcome = fan.run()
    assert outcome.stopped == {}
    assert sorted(merge.into or "" for merge in outcome.merged) == ["", "all.rows", "audit.orders", "plain.orders"]
    fan.require_same()
    assert set(fan.table(PLAIN).columns()) == {"id", "name", "_position", "_committed_at", "_raw"}
    assert {"_source", "_schema", "_table", "refund"} < set(fan.table(ALL).columns())

    # Changes, DDL and TRUNCATE come to each; the part of the other table stays.
    shop.execute(
        "UPDATE orders SET name = 'changed', id = 9 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "ALTER TABLE orders ADD COLUMN note VARCHAR(10) NOT NULL DEFAULT 'old', RENAME COLUMN name TO title",
        "INSERT INTO orders VALUES (4,'d','new')",
    )
    assert fan.run().stopped == {}
    fan.require_same()
    shop.execute("TRUNCATE TABLE orders", "INSERT INTO orders VALUES (5,'e','after')")
    assert fan.run().stopped == {}
    fan.require_same()
    assert fan.table(ALL).read(shop.spark).where("_table = 'returns'").count() == 2

    # A run without news commits nothing; a range done again changes nothing, whichever layer it is about.
    before = fan.counters()
    assert fan.run().merged == []
    replayed = backfill(shop.spark, pipeline, BackfillRequest(SOURCE, shop.start, shop.end()))
    assert (replayed.stopped, replayed.merged) == ({}, [])
    assert fan.counters() == before
    request = BackfillRequest(SOURCE, shop.start, shop.end(), layers=(DOWNSTREAM,))
    replayed = backfill(shop.spark, pipeline, request)
    assert [(merge.inserted, merge.updated, merge.deleted) for merge in replayed.merged] == [(0, 0, 0)] * 4

    # What is published, shown and compared names each of them.
    fan.run()
    entry = fan.entry()
    end = entry.position
    assert [(target.name, target.merged, target.reason) for target in entry.targets] == [
        (target, end, None) for target in (PLAIN, AUDIT, ALL)
    ]
    assert [target.version for target in entry.targets] == [fan.head(name).version for name in (PLAIN, AUDIT, ALL)]
    assert (entry.merged, entry.downstream) == (end, fan.table(PLAIN).path)
    table = consistent(shop.spark, lake_of(pipeline), SOURCE).tables[base, "orders"]
    assert {name: rows.count() for name, rows in table.targets.items()} == dict.fromkeys((PLAIN, AUDIT, ALL), 1)
    assert table.rows is not None
    tables_shown = status(pipeline, lake_of(pipeline), SOURCE)
    orders, returns = (table for table in tables_shown.tables if table.table.startswith(f"{base}."))
    assert orders.targets == [
        {"table": ".".join(target), "downstream": end, "reason": None, "watermark": None}
        for target in (PLAIN, AUDIT, ALL)
    ]
    assert (orders.downstream, returns.targets) == (end, None)
    json.dumps(tables_shown.to_json())
    assert "into audit.orders" in report(pipeline, lake_of(pipeline), SOURCE).html()
    verdicts = {verdict.label: verdict.state for verdict in verify_source(shop.spark, pipeline, SOURCE)}
    assert verdicts == {
        **{f"{base}.orders into {'.'.join(target)}": "equal" for target in (PLAIN, AUDIT, ALL)},
        f"{base}.returns": "equal",
    }
    shop.spark.sql(f"DELETE FROM {fan.table(AUDIT).sql}")
    (wrong,) = (verdict for verdict in verify_source(shop.spark, pipeline, SOURCE) if verdict.state != "equal")
    assert (wrong.into, wrong.state, wrong.missing) == ("audit.orders", "differs", 1)
    assert asdict(wrong)["into"] == "audit.orders"


def test_a_target_that_is_added_is_made_whole_and_one_that_is_taken_off_stays(fan: Fan) -> None:
    shop = fan.shop
    fan.run(PLAIN)
    shop.execute("DELETE FROM orders WHERE id = 1", "INSERT INTO orders VALUES (8,'h')")
    fan.run(PLAIN)
    assert (fan.entry().targets, fan.entry().downstream) == ((), fan.table(PLAIN).path)
    version = fan.head(PLAIN).version

    # Without anything new in the log.
    outcome = fan.run()
    assert outcome.stopped == {}
    fan.require_same()
    assert fan.head(PLAIN).version == version
    assert [target.name for target in fan.entry().targets] == [PLAIN, AUDIT, ALL]

    shop.execute("INSERT INTO orders VALUES (10,'j')")
    fan.run(PLAIN, ALL)
    fan.require_same(AUDIT)
    assert 10 not in [row[0] for row in rows(fan.table(AUDIT).read(shop.spark))]
    assert [target.name for target in fan.entry().targets] == [PLAIN, ALL]

    # While it is off, its silver is folded; put back it is whole again.
    shop.execute("UPDATE orders SET name = 'later'", "DELETE FROM orders WHERE id = 3")
    fan.run(PLAIN, ALL)
    shop.execute("FLUSH LOGS", "INSERT INTO orders VALUES (11,'k')")
    fan.run(PLAIN, ALL)
    pipeline = fan.pipeline(PLAIN, ALL, retention={"bronze": "1d", "fold": True})
    gc_source(shop.spark, pipeline, SOURCE, now=datetime.now(UTC) + timedelta(days=9))
    upkeep = maintain_source(shop.spark, pipeline, SOURCE)
    assert (upkeep.stopped, upkeep.unfolded) == ({}, {})
    floor = silver.fold_floor(lake_of(pipeline).silver(SOURCE, shop.database.name, "orders").head())
    stood = fan.head(AUDIT).position
    assert floor
    assert stood
    assert floor > stood
    assert fan.table(AUDIT).path not in [table.path for table in upkeep.tables]
    assert {fan.table(PLAIN).path, fan.table(ALL).path} <= {table.path for table in upkeep.tables}
    assert [target.version for target in fan.entry().targets] == [fan.head(name).version for name in (PLAIN, ALL)]
    assert fan.run().stopped == {}
    fan.require_same()


def test_one_that_stops_does_not_stop_the_others(fan: Fan) -> None:
    shop, base = fan.shop, fan.shop.database.name
    fan.run()
    shop.execute(
        "ALTER TABLE orders ADD COLUMN refund DATE",
        "INSERT INTO orders VALUES (20,'n','2024-01-01')",
        "INSERT INTO returns VALUES (30,300)",
    )
    outcome = fan.run()
    (reason,) = outcome.stopped.values()
    assert outcome.stopped_into == {(TableName(base, "orders"), ALL): reason}
    assert reason.startswith(f"shop: {base}.orders into all.rows: ")
    assert "refund" in reason
    fan.require_same(ALL)
    assert fan.table(ALL).read(shop.spark).where("refund = 300").count() == 1
    entry = fan.entry()
    end = entry.position
    assert (entry.state, entry.reason) == ("stopped", reason)
    assert [(target.merged == end, target.reason) for target in entry.targets] == [
        (True, None),
        (True, None),
        (False, reason),
    ]
    assert entry.merged == entry.targets[2].merged
    assert [entry.is_stopped_in(target) for target in (PLAIN, AUDIT, ALL)] == [False, False, True]
    states = {
        verdict.into: verdict.state for verdict in verify_source(shop.spark, fan.pipeline(), SOURCE) if verdict.into
    }
    assert states == {"plain.orders": "equal", "audit.orders": "equal", "all.rows": "not compared"}
    # Nothing of silver is folded that one of them has not got.
    folding = fan.pipeline(retention={"bronze": "1d", "fold": True})
    gc_source(shop.spark, folding, SOURCE, now=datetime.now(UTC) + timedelta(days=9))
    unfolded = maintain_source(shop.spark, folding, SOURCE).unfolded
    assert unfolded[TableName(base, "orders")] == "downstream has not got all of it yet"
    shop.execute("ALTER TABLE orders DROP COLUMN refund", "DELETE FROM orders WHERE id = 20")
    assert fan.run().stopped == {}
    fan.require_same()
    assert all(target.reason is None for target in fan.entry().targets)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_that_dies_at_one_targets_commit_is_finished_by_the_next(
    fan: Fan, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Each counter moves by one for the news, however often the run dies."""
    shop = fan.shop
    fan.run()
    before = fan.counters()
    shop.execute("UPDATE orders SET name = 'news' WHERE id = 2", "INSERT INTO orders VALUES (4,'d')")
    land = Table.land

    def fatal(self: Table, upon: Snapshot, head: Head, checkpoint: Any, **changes: Any) -> Head:
        if not self.path.endswith("audit/orders"):
            return land(self, upon, head, checkpoint, **changes)
        if moment == "after":
            land(self, upon, head, checkpoint, **changes)
        raise KeyError("dies here")

    with monkeypatch.context() as patched:
        patched.setattr(Table, "land", fatal)
        for _ in range(2 if moment == "before" else 1):
            with pytest.raises(KeyError, match="dies here"):
                fan.run()
    assert fan.run().stopped == {}
    assert fan.counters() == [counter + 1 for counter in before]
    fan.require_same()
    fan.run()
    assert fan.counters() == [counter + 1 for counter in before]


def test_a_target_that_cannot_be_committed_to_is_named(fan: Fan, monkeypatch: pytest.MonkeyPatch) -> None:
    fan.run()
    fan.shop.execute("INSERT INTO orders VALUES (4,'d')")
    land = Table.land

    def full(self: Table, upon: Snapshot, head: Head, checkpoint: Any, **changes: Any) -> Head:
        if self.path.endswith("audit/orders"):
            raise LakeError(f"{self.path}: no space left")
        return land(self, upon, head, checkpoint, **changes)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "land", full)
        stopped = fan.run().stopped_into
    name = TableName(fan.shop.database.name, "orders")
    assert list(stopped) == [(name, AUDIT)]
    assert f"{SOURCE}: {name} into audit.orders: " in stopped[name, AUDIT]
    fan.require_same(AUDIT)
    assert fan.run().stopped == {}
    fan.require_same()


def test_a_reset_does_each_over(fan: Fan) -> None:
    shop, pipeline = fan.shop, fan.pipeline()
    fan.run()
    shop.execute("INSERT INTO orders VALUES (4,'d')")
    fan.run()
    planned = plan_reset(pipeline, SOURCE, f"{shop.database.name}.orders")
    assert planned.rows == 12, "four rows in each of three"
    reset(pipeline, SOURCE, planned)
    shop.spark.sql(f"DELETE FROM {fan.table(AUDIT).sql}")
    assert fan.run().stopped == {}
    fan.require_same()
