import re

import pytest

from spark_jobs.binlog import EventAt, TableName
from spark_jobs.ddl.classify import classify
from spark_jobs.downstream.publication import Entry
from spark_jobs.errors import ConfigError
from spark_jobs.log.position import Position
from spark_jobs.operations.repair import _entry_of, _nearest, _refusal_of_skip, _StoppingEvent
from spark_jobs.silver.quarantine import Skip

HERE, LATER = Position("mysql-bin.000042", 1337), Position("mysql-bin.000042", 9000)
ORDERS, CARTS = TableName("shop", "orders"), TableName("shop", "carts")
ROWS = _StoppingEvent(HERE, "Write_rows event", frozenset([ORDERS]))


def entry(name: TableName, at: Position | None, state: str) -> Entry:
    return Entry("shop", name.schema, name.table, state, position=str(at) if at else None)


@pytest.mark.parametrize(
    "published_entry, pattern",
    [
        (entry(ORDERS, HERE, "stopped"), "None"),
        (entry(ORDERS, None, "stopped"), "None"),
        (entry(CARTS, HERE, "stopped"), r".*\(Write_rows event\) is not about it, but about shop\.orders"),
        (entry(ORDERS, LATER, "stopped"), r"has passed .*:1337 already, and is at .*:9000"),
        (entry(ORDERS, HERE, "current"), r"has not stopped \(it is current\); .*"),
    ],
)
def test_an_event_is_passed_over_for_a_table_that_stopped_before_it(published_entry: Entry, pattern: str) -> None:
    assert re.fullmatch(pattern, str(_refusal_of_skip(published_entry, ROWS, [])))


def test_an_event_is_passed_over_once() -> None:
    skips = [Skip("shop", "orders", str(HERE), "Write_rows event")]
    assert _refusal_of_skip(entry(ORDERS, HERE, "stopped"), ROWS, skips) == f"{HERE} is quarantined already"


@pytest.mark.parametrize(
    "event, tables",
    [
        (ROWS, {ORDERS}),
        (_StoppingEvent(HERE, "Transaction_payload event"), {ORDERS, CARTS}),
        (_StoppingEvent(HERE, "DROP", statement=classify("DROP TABLE carts", "shop")), {CARTS}),
        (_StoppingEvent(HERE, "GRANT", statement=classify("GRANT SELECT ON carts TO me", "shop")), set()),
    ],
    ids=lambda value: value.summary if isinstance(value, _StoppingEvent) else "",
)
def test_whom_an_event_is_about(event: _StoppingEvent, tables: set[TableName]) -> None:
    assert {name for name in (ORDERS, CARTS) if event.is_about(name)} == tables


def test_a_table_that_no_run_has_seen_is_named_beside_those_that_are_known() -> None:
    entries = [entry(TableName("shop", f"t{n:02}"), HERE, "current") for n in range(22)]
    assert _entry_of(entries, "shop", "shop.t07") == entries[7]
    with pytest.raises(ConfigError, match=r"shop\.nosuch is no table of shop .*shop\.t00, .*shop\.t19 and 2 more"):
        _entry_of(entries, "shop", "shop.nosuch")


def test_the_nearest_events_are_named_in_their_order() -> None:
    events = [EventAt(at, kind, may_stop=True) for at, kind in [(1300, "Gtid"), (1340, "Xid"), (9000, "Query")]]
    assert _nearest(HERE, events) == "nearest are mysql-bin.000042:1300 (Gtid) and mysql-bin.000042:1340 (Xid)"
    assert _nearest(HERE, []) == "none is near"
