"""Which changes by foreign keys statements take back; with servers they are in tests/pipeline/test_undo_cascades.py."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.errors import Unsupported
from spark_jobs.log.position import Position
from spark_jobs.row_history.log_facts import LogFacts
from spark_jobs.row_history.row_choice import RowChange
from spark_jobs.row_history.trace import TracedChange
from spark_jobs.row_history.undo_children import ChildRules, event_of, require_parents, require_whole_events

FILE = "b.000001"
AT = 100


def key(child: str, parent: str) -> UnloggedChanges:
    reference = ForeignKey(
        f"{child}_{parent}", TableName("shop", parent), "CASCADE", "CASCADE", columns=("up",), parent_columns=("id",)
    )
    return UnloggedChanges(TableName("shop", child), reference)


def change(table: str, number: int, after: dict[str, str] | None = None, *, row: int = 0) -> TracedChange:
    """A delete or an update of the row with a number, by the event at AT."""
    name, before = TableName("shop", table), {"id": str(number), "up": "1"}
    no_changes: Any = ()
    op, new_key = ("delete", None) if after is None else ("update", str(number))
    times = (None, datetime(2026, 1, 1, tzinfo=UTC))
    shown = RowChange(
        TableDefinition(name, ()), FILE, AT, row, op, *times, str(number), new_key, before, after, no_changes
    )
    position = Position(FILE, AT)
    return TracedChange((*position.order, row), position.stretch, shown, LogFacts(position, 1))


def tables(changes: list[TracedChange]) -> list[str]:
    return [traced.change.definition.name.table for traced in changes]


def test_deleted_children_come_back_behind_their_parents() -> None:
    rules = ChildRules("crm", [key("c", "p"), key("g", "c")])
    parent, derived = change("p", 1), [change("g", 5, row=2), change("c", 3, row=1)]
    (restored,) = rules.restored([parent], derived).values()
    assert tables(restored) == ["c", "g"]


def test_a_moved_child_moves_back_with_its_parent() -> None:
    rules = ChildRules("crm", [key("c", "p")])
    parent = change("p", 1, {"id": "9", "up": "1"})
    assert rules.restored([parent], [change("c", 3, {"id": "3", "up": "9"}, row=1)]) == {event_of(parent): []}
    with pytest.raises(Unsupported, match=r"changed up of shop\.c, and it is not there any more"):
        ChildRules("crm", []).restored([parent], [change("c", 3, {"id": "3", "up": "9"}, row=1)])


def test_what_is_not_decided_is_refused() -> None:
    circle = ChildRules("crm", [key("c", "p"), key("g", "c"), key("c", "g")])
    with pytest.raises(Unsupported, match=r"^b\.000001:100: the foreign keys of shop\.c, shop\.g refer to each other"):
        circle.restored([change("p", 1)], [change("c", 3, row=1), change("g", 5, row=2)])
    with pytest.raises(Unsupported, match=r"several foreign keys changed the same row of shop\.c"):
        ChildRules("crm", [key("c", "p")]).restored([change("p", 1)], [change("c", 3, row=1), change("c", 3, row=2)])


def test_a_refusal_has_the_command_that_shows_the_rows() -> None:
    command = "as they were before (stratalog at b.000001:100 --source crm --table shop.c), and leave the change out by"
    with pytest.raises(Unsupported, match=re.escape(f"restore the rows by hand {command} --from, --to, --key or")):
        ChildRules("crm", [key("c", "p")]).restored([change("p", 1)], [change("c", 3, row=1), change("c", 3, row=2)])


def test_children_come_back_with_their_parent_alone_and_with_all_of_its_event() -> None:
    rules, parent, derived = ChildRules("crm", [key("c", "p")]), change("p", 1), [change("c", 3, row=1)]
    require_parents(derived, {event_of(parent)}, rules)
    with pytest.raises(Unsupported, match=r"rows of shop\.c, which come back .* name it too \(shop\.p\)"):
        require_parents(derived, set(), rules)
    second = change("p", 2, row=1)
    require_whole_events("crm", [parent, second], [parent, second], {event_of(parent)})
    require_whole_events("crm", [parent], [parent, second], set())
    with pytest.raises(Unsupported, match="choose all of its rows"):
        require_whole_events("crm", [parent], [parent, second], {event_of(parent)})
