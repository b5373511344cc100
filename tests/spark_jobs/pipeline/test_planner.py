from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.lake.commit import Head
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.planner import Plan
from spark_jobs.silver.compaction_job import Compacted
from tests.spark_jobs.pipeline.plans import AUDIT, BEGIN, END, LINES, ORDERS, entry, planner


def compacted(name: TableName) -> Compacted:
    return Compacted("s", name, Range(BEGIN, END), Head(9, 4, None))


def test_after_a_run_done_and_idle_tables_stand_at_the_end_and_a_stopped_one_where_it_was(tmp_path: Path) -> None:
    before = [entry(ORDERS), entry(LINES, position=str(BEGIN)), entry(AUDIT)]
    planned = Plan(before, [], {LINES: "ALTER TABLE"})
    orders, lines, audit = planner(tmp_path).after(planned, [compacted(ORDERS)])
    assert (orders.state, orders.position, orders.silver_version) == ("current", str(END), 9)
    assert (lines.state, lines.position, lines.reason) == ("stopped", str(BEGIN), "ALTER TABLE")
    assert (audit.state, audit.position) == ("ignored", None)
    assert {published_entry.surveyed for published_entry in (orders, lines, audit)} == {str(END)}


@pytest.mark.parametrize("fields, position", [({}, None), ({"silver_version": 3}, str(END)), ({"resets": 1}, None)])
def test_a_table_that_stopped_stands_where_it_stopped_once_silver_has_it(
    tmp_path: Path, fields: dict[str, int], position: str | None
) -> None:
    planned = Plan([entry(ORDERS, **fields)], [], {ORDERS: "why"}, stopped_positions={ORDERS: END})
    (published_entry,) = planner(tmp_path).after(planned, [])
    assert (published_entry.state, published_entry.reason, published_entry.position) == ("stopped", "why", position)


P1, P2, P3 = (Position(f"b.{number:06d}", 4) for number in (1, 2, 3))


@pytest.mark.parametrize("oldest", [None, P3])
def test_a_table_that_was_reset_begins_where_bronze_does(tmp_path: Path, oldest: Position | None) -> None:
    commit = BronzeCommit(END, "batch", begin=P1, oldest=oldest)
    source_planner = replace(planner(tmp_path, commit=commit), surveyed=END)
    before = entry(ORDERS, state="reset", surveyed=str(END), resets=1)
    assert source_planner._since(before) == (oldest or P1)
    assert source_planner._since(replace(before, position=str(P2))) == P2, "it has been done over"
    assert source_planner._since(replace(before, state="stopped")) == (oldest or P1), "it stopped while it was"
    (after,) = source_planner.after(Plan([before], [], {ORDERS: "why"}), [])
    assert (after.state, after.is_reset) == ("stopped", True)
    (after,) = source_planner.after(Plan([before], [], {}), [compacted(ORDERS)])
    assert (after.state, after.position, after.resets, after.is_reset) == ("current", str(END), 1, False)


def test_tables_that_were_not_chosen_stay_where_they_were(tmp_path: Path) -> None:
    before = [entry(ORDERS), entry(LINES, position=str(BEGIN))]
    orders, lines = planner(tmp_path, frozenset({ORDERS})).after(Plan(before, [], {}), [compacted(ORDERS)])
    assert orders.position == str(END)
    assert lines == replace(before[1], surveyed=str(END))
