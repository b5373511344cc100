from dataclasses import replace
from typing import Any

from spark_jobs.binlog import TableName
from spark_jobs.config.routes import Destination
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position
from spark_jobs.pipeline.table_merge import MergeSummary, TableMergeResult
from spark_jobs.silver.commit import SilverCommit

ORDERS = TableName("shop", "orders")
BEGIN, END = Position("b.000001", 4), Position("b.000003", 500)
HERE, THERE, NOWHERE = Destination("shop", "orders"), Destination("audit", "orders"), Destination("a/b", "orders")
OLD = Target("lake/downstream/audit/orders", str(BEGIN), 3)


def entry(**values: Any) -> Entry:
    return replace(Entry("s", ORDERS.schema, ORDERS.table, "current"), **values)


def merge_summary(destinations: list[Destination], stopped: dict[Destination, str], *legs: Destination) -> MergeSummary:
    """What merges of ORDERS did: silver was at version 5, downstream tables are at 7 now."""
    pinned, landed = Head(5, 2, SilverCommit(END, "batch", is_complete=True)), Head(7, 4, None)
    lake = Lake("lake")
    results = {
        (ORDERS, destination.name): TableMergeResult(
            (ORDERS, destination.name), lake.downstream(*destination.name), pinned, landed, None
        )
        for destination in destinations
    }
    reasons_into = {(ORDERS, destination.name): reason for destination, reason in stopped.items()}
    reasons = {ORDERS: "\n".join(stopped.values())} if stopped else {}
    return MergeSummary(lake, {ORDERS: legs}, results, reasons_into, reasons)


def at(table: Table | str, merged: Position | None, version: int | None, reason: str | None = None) -> Target:
    path = table if isinstance(table, str) else table.path
    return Target(path, str(merged) if merged else None, version, reason)


def test_a_table_with_one_target_is_where_it_was_merged_to() -> None:
    before = entry(position=str(END))
    after = merge_summary([HERE], {}, HERE).after(before)
    assert (after.state, after.merged, after.downstream_version, after.silver_version) == ("current", str(END), 7, 5)
    assert (after.downstream, after.targets, after.complete) == ("lake/downstream/shop/orders", (), True)
    for row in (before, after):
        assert merge_summary([], {HERE: "why"}, HERE).after(row) == replace(row, state="stopped", reason="why")


def test_of_several_targets_each_is_where_it_was_merged_to_and_the_least_counts() -> None:
    before = entry(position=str(END), downstream=OLD.path, merged=OLD.merged, downstream_version=3)
    here = at("lake/downstream/shop/orders", END, 7)
    merged = merge_summary([HERE, THERE], {}, HERE, THERE).after(before)
    assert merged.targets == (here, at(OLD.path, END, 7))
    assert merged.holds(str(END))
    stopped = merge_summary([HERE], {THERE: "why"}, HERE, THERE).after(before)
    assert (stopped.state, stopped.reason, stopped.merged) == ("stopped", "why", str(BEGIN))
    assert stopped.targets == (here, at(OLD.path, BEGIN, 3, "why"))
    part = merge_summary([HERE], {}, HERE, THERE).after(before)
    assert (part.state, part.targets, part.holds(str(END))) == ("current", (here, OLD), False)
    new = merge_summary([HERE], {}, HERE, THERE).after(entry(position=str(END)))
    assert (new.targets, new.merged) == ((here, at(OLD.path, None, None)), None)
    away = merge_summary([HERE], {}, HERE).after(merged)
    assert (away.targets, away.downstream) == ((), here.path)


def test_a_target_without_a_place_leaves_the_rest_as_it_was_and_a_silver_that_stopped_is_merged_up_to_there() -> None:
    before = entry(position=str(END), downstream=OLD.path, merged=OLD.merged, downstream_version=3)
    odd = merge_summary([THERE], {NOWHERE: "no place"}, THERE, NOWHERE).after(before)
    assert (odd.state, odd.merged, odd.downstream_version) == ("stopped", str(END), 7)
    assert merge_summary([], {NOWHERE: "no place"}, NOWHERE, Destination("a", "%")).after(before).downstream == OLD.path
    silver = replace(merge_summary([HERE, THERE], {}, HERE, THERE), stopped={ORDERS: "an ALTER"})
    after = silver.after(before)
    assert (after.state, after.reason, after.position, after.merged) == ("stopped", "an ALTER", str(END), str(END))
    assert [target.reason for target in after.targets] == [None, None]
    nowhere = replace(merge_summary([], {}, HERE, THERE), stopped={ORDERS: "an ALTER"})
    assert nowhere.after(before) == replace(before, state="stopped", reason="an ALTER")


def test_what_another_run_has_beyond_this_one_is_not_published() -> None:
    before = entry(position=str(BEGIN), silver_version=2)
    summary = merge_summary([HERE], {}, HERE)
    assert summary.after(before).silver_version == 2
    results = {name: replace(result, downstream=result.silver) for name, result in summary.results.items()}
    after = replace(summary, results=results).after(before)
    assert (after.silver_version, after.merged, after.downstream_version) == (2, None, None)
    assert replace(summary, results=results).after(entry(position=str(END))).downstream_version == 5
