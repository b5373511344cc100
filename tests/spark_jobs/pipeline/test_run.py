from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.scan import Survey
from spark_jobs.bronze.table import Held
from spark_jobs.config.loader import from_keys, load
from spark_jobs.config.model import Pipeline
from spark_jobs.config.routes import Destination
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.errors import DecodeError, LostRace, TableStopped
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.pipeline.run import Brought, Plan, Planner, _Arrivals, each_table, why_not_anew
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.compact import Compacted
from spark_jobs.silver.timeline.inputs import Rules
from spark_jobs.text.remedies import advised

ORDERS, LINES, AUDIT = (TableName("shop", table) for table in ("orders", "lines", "audit"))
BEGIN, END = Position("b.000001", 4), Position("b.000003", 500)


@dataclass(frozen=True)
class Item:
    name: TableName


def pipeline(folder: Path) -> Pipeline:
    path = folder / "pipeline.yaml"
    path.write_text(
        "lake: ./lake\nsources: {s: {files: ./logs}}\ntables: ['shop.*', '!shop.audit']\n", encoding="utf-8"
    )
    return load(path)


FIRST = BronzeCommit(END, "batch", begin=BEGIN)


def planner(folder: Path, tables: frozenset[TableName] | None = None, commit: BronzeCommit = FIRST) -> Planner:
    lake = lake_of(pipeline(folder))
    return Planner(pipeline(folder), lake, Held("s", lake.bronze("s"), Head(7, 3, commit), commit), tables)


def entry(name: TableName, **values: Any) -> Entry:
    return replace(Entry("s", name.schema, name.table, "current"), **values)


def compacted(name: TableName) -> Compacted:
    return Compacted("s", name, Range(BEGIN, END), Head(9, 4, None))


def test_what_one_table_raises_stops_that_table_alone() -> None:
    def work(item: Item) -> str:
        if item.name == LINES:
            raise TableStopped("no key")
        if item.name == AUDIT:
            raise DecodeError("bad bytes")
        return item.name.table

    stopped: dict[TableName, str] = {}
    assert each_table([Item(LINES), Item(ORDERS), Item(AUDIT)], work, stopped) == ["orders"]
    assert stopped == {
        LINES: advised(TableStopped("no key"), table=LINES),
        AUDIT: advised(DecodeError("bad bytes"), table=AUDIT),
    }
    assert f"--table {AUDIT} (" in stopped[AUDIT]


def test_a_lost_race_is_raised_when_the_others_are_done() -> None:
    done: list[TableName] = []

    def work(item: Item) -> None:
        if item.name == LINES:
            raise LostRace("another run was first")
        done.append(item.name)

    stopped: dict[TableName, str] = {}
    with pytest.raises(LostRace, match="another run was first"):
        each_table([Item(LINES), Item(ORDERS)], work, stopped)
    assert (done, stopped) == ([ORDERS], {}), "nothing is wrong with the table"


def test_an_error_of_ours_is_not_taken_for_a_table_s() -> None:
    def work(_: Item) -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        each_table([Item(ORDERS)], work, {})


def test_after_a_run_done_and_idle_tables_stand_at_the_end_and_a_stopped_one_where_it_was(tmp_path: Path) -> None:
    before = [entry(ORDERS), entry(LINES, position=str(BEGIN)), entry(AUDIT)]
    planned = Plan(before, [], {LINES: "ALTER TABLE"})
    orders, lines, audit = planner(tmp_path).after(planned, [compacted(ORDERS)])
    assert (orders.state, orders.position, orders.silver_version) == ("current", str(END), 9)
    assert (lines.state, lines.position, lines.reason) == ("stopped", str(BEGIN), "ALTER TABLE")
    assert (audit.state, audit.position) == ("ignored", None)
    assert {one.surveyed for one in (orders, lines, audit)} == {str(END)}


@pytest.mark.parametrize("known, position", [({}, None), ({"silver_version": 3}, str(END)), ({"resets": 1}, None)])
def test_a_table_that_stopped_stands_where_it_stopped_once_silver_has_it(
    tmp_path: Path, known: dict[str, int], position: str | None
) -> None:
    planned = Plan([entry(ORDERS, **known)], [], {ORDERS: "why"}, places={ORDERS: END})
    (one,) = planner(tmp_path).after(planned, [])
    assert (one.state, one.reason, one.position) == ("stopped", "why", position)


RULES = Rules(lambda logged, _: logged, lambda *_: {})
P1, P2, P3 = (Position(f"b.{number:06d}", 4) for number in (1, 2, 3))


@pytest.mark.parametrize(
    "position, published, surveyed, oldest, since",
    [
        pytest.param(None, False, None, None, P1, id="the first run"),
        pytest.param(None, False, P3, P3, P3, id="a table that comes after gc has nothing before it"),
        pytest.param(None, False, P2, P3, None, id="it may have had something where nobody had looked"),
        pytest.param(None, False, None, P3, None, id="nobody has looked anywhere"),
        pytest.param(None, True, P3, P3, None, id="a table that was out of scope until now"),
        pytest.param(P2, True, P3, P3, None, id="gc went past it"),
        pytest.param(P3, True, P3, P3, P3, id="gc went up to it"),
    ],
)
def test_a_table_stops_where_gc_removed_what_it_needs(
    tmp_path: Path,
    position: Position | None,
    published: bool,
    surveyed: Position | None,
    oldest: Position | None,
    since: Position | None,
) -> None:
    commit = BronzeCommit(END, "batch", begin=P1, oldest=oldest)
    made = replace(planner(tmp_path, commit=commit), surveyed=surveyed)
    known = entry(ORDERS, position=position and str(position), surveyed=str(P3) if published else None)
    if since is None:
        with pytest.raises(TableStopped, match=r"^s: shop\.orders: bronze no longer holds \[.*, b\.000003:4\);"):
            made._work(Survey({}, ()), known, RULES)
    else:
        assert made._work(Survey({}, ()), known, RULES) is None
        assert made._since(known) == since


@pytest.mark.parametrize("oldest", [None, P3])
def test_a_table_that_was_reset_begins_where_bronze_does(tmp_path: Path, oldest: Position | None) -> None:
    commit = BronzeCommit(END, "batch", begin=P1, oldest=oldest)
    made = replace(planner(tmp_path, commit=commit), surveyed=END)
    known = entry(ORDERS, state="reset", surveyed=str(END), resets=1)
    assert made._since(known) == (oldest or P1)
    assert made._since(replace(known, position=str(P2))) == P2, "it has been done over"
    assert made._since(replace(known, state="stopped")) == (oldest or P1), "it stopped while it was"
    (done,) = made.after(Plan([known], [], {ORDERS: "why"}), [])
    assert (done.state, done.is_reset) == ("stopped", True)
    (done,) = made.after(Plan([known], [], {}), [compacted(ORDERS)])
    assert (done.state, done.position, done.resets, done.is_reset) == ("current", str(END), 1, False)


def test_tables_that_were_not_chosen_stay_where_they_were(tmp_path: Path) -> None:
    before = [entry(ORDERS), entry(LINES, position=str(BEGIN))]
    orders, lines = planner(tmp_path, frozenset({ORDERS})).after(Plan(before, [], {}), [compacted(ORDERS)])
    assert orders.position == str(END)
    assert lines == replace(before[1], surveyed=str(END))


HERE, THERE, NOWHERE = Destination("shop", "orders"), Destination("audit", "orders"), Destination("a/b", "orders")
OLD = Target("lake/downstream/audit/orders", str(BEGIN), 3)


def arrivals(brought: list[Destination], stopped: dict[Destination, str], *legs: Destination) -> _Arrivals:
    """What merges of ORDERS did: silver was at version 5, downstream tables are at 7 now."""
    pinned, landed = Head(5, 2, SilverCommit(END, "batch", is_complete=True)), Head(7, 4, None)
    lake = Lake("lake")
    came = {
        (ORDERS, one.name): Brought((ORDERS, one.name), lake.downstream(*one.name), pinned, landed, None)
        for one in brought
    }
    why = {(ORDERS, one.name): said for one, said in stopped.items()}
    reasons = {ORDERS: "\n".join(stopped.values())} if stopped else {}
    return _Arrivals(lake, {ORDERS: legs}, came, why, reasons)


def at(table: Table | str, merged: Position | None, version: int | None, reason: str | None = None) -> Target:
    path = table if isinstance(table, str) else table.path
    return Target(path, str(merged) if merged else None, version, reason)


def test_a_table_with_one_target_is_where_it_was_merged_to() -> None:
    before = entry(ORDERS, position=str(END))
    after = arrivals([HERE], {}, HERE).after(before)
    assert (after.state, after.merged, after.downstream_version, after.silver_version) == ("current", str(END), 7, 5)
    assert (after.downstream, after.targets, after.complete) == ("lake/downstream/shop/orders", (), True)
    for one in (before, after):
        assert arrivals([], {HERE: "why"}, HERE).after(one) == replace(one, state="stopped", reason="why")


def test_of_several_targets_each_is_where_it_was_merged_to_and_the_least_counts() -> None:
    before = entry(ORDERS, position=str(END), downstream=OLD.path, merged=OLD.merged, downstream_version=3)
    here = at("lake/downstream/shop/orders", END, 7)
    both = arrivals([HERE, THERE], {}, HERE, THERE).after(before)
    assert both.targets == (here, at(OLD.path, END, 7))
    assert both.holds(str(END))
    stopped = arrivals([HERE], {THERE: "why"}, HERE, THERE).after(before)
    assert (stopped.state, stopped.reason, stopped.merged) == ("stopped", "why", str(BEGIN))
    assert stopped.targets == (here, at(OLD.path, BEGIN, 3, "why"))
    chosen = arrivals([HERE], {}, HERE, THERE).after(before)
    assert (chosen.state, chosen.targets, chosen.holds(str(END))) == ("current", (here, OLD), False)
    new = arrivals([HERE], {}, HERE, THERE).after(entry(ORDERS, position=str(END)))
    assert (new.targets, new.merged) == ((here, at(OLD.path, None, None)), None)
    away = arrivals([HERE], {}, HERE).after(both)
    assert (away.targets, away.downstream) == ((), here.path)


def test_a_target_without_a_place_leaves_the_rest_as_it_was_and_a_silver_that_stopped_is_merged_up_to_there() -> None:
    before = entry(ORDERS, position=str(END), downstream=OLD.path, merged=OLD.merged, downstream_version=3)
    odd = arrivals([THERE], {NOWHERE: "no place"}, THERE, NOWHERE).after(before)
    assert (odd.state, odd.merged, odd.downstream_version) == ("stopped", str(END), 7)
    assert arrivals([], {NOWHERE: "no place"}, NOWHERE, Destination("a", "%")).after(before).downstream == OLD.path
    silver = replace(arrivals([HERE, THERE], {}, HERE, THERE), stopped={ORDERS: "an ALTER"})
    after = silver.after(before)
    assert (after.state, after.reason, after.position, after.merged) == ("stopped", "an ALTER", str(END), str(END))
    assert [one.reason for one in after.targets] == [None, None]
    nowhere = replace(arrivals([], {}, HERE, THERE), stopped={ORDERS: "an ALTER"})
    assert nowhere.after(before) == replace(before, state="stopped", reason="an ALTER")


def test_a_table_that_routes_merge_with_others_begins_no_column_anew(tmp_path: Path) -> None:
    keys = {"lake": str(tmp_path), "sources": {"shop": {"files": str(tmp_path)}}}
    merging = from_keys(keys | {"routes": [{"from": "shop.a_*", "to": "shop.a"}]}, tmp_path / "pipeline.yaml")
    found = [why_not_anew(merging, "shop", TableName("shop", name)) for name in ("a_1", "b")]
    assert found == ["routes merge it with others into shop.a", None]
