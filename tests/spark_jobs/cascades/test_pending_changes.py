"""Derived changes that a later change of the same event takes the place of."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.derived_slices import FIRST_DERIVED_ROW
from spark_jobs.bronze.index import SliceIndex
from spark_jobs.cascades.derivation import DerivedChange, ImagePair, Reference, Row
from spark_jobs.cascades.logged_rows import LoggedRow, LoggedSlice
from spark_jobs.cascades.pending_changes import PendingChanges
from spark_jobs.ddl.foreign_keys import declared_keys
from spark_jobs.log.position import Position

CHILD = TableName("shop", "c")
(KEY,) = declared_keys("ALTER TABLE c ADD FOREIGN KEY (up) REFERENCES p (id) ON UPDATE CASCADE", "shop")
COMMIT = Position("log.1", 900)
PART = LoggedSlice(0, COMMIT, is_moved=True, definitions=(), rows=())
NO_INDEX: SliceIndex = np.zeros(0)  # type: ignore[assignment] # an XA transaction's slice has one boundary


def pending() -> PendingChanges:
    return PendingChanges(lambda _table, row: (row["id"],), {})


def derived(before: Row, after: Row | None) -> DerivedChange:
    return DerivedChange(Reference(CHILD, KEY), (before["id"],), before, after)


def logged(offset: int) -> LoggedRow:
    at = Position("log.1", offset)
    change = ImagePair(TableName("shop", "p"), None, None)
    return LoggedRow(at, datetime(2026, 1, 1, tzinfo=UTC), at, 0, change, cascades=True)


def rows_of(changes: PendingChanges, end: Position | None = None) -> list[tuple[int, int, Any, Any]]:
    """Offset, number from the first, and the row before and after, of all that is left."""
    grouped = changes.take(PART, NO_INDEX, end)
    return [
        (offset, number - FIRST_DERIVED_ROW, before["id"], after and after["id"])
        for columns in grouped.values()
        for offset, number, before, after in zip(
            columns.offsets, columns.numbers, columns.before, columns.after, strict=True
        )
    ]


@pytest.mark.parametrize(
    "after, later, left",
    [
        ({"id": 1, "up": 2}, 1, []),
        ({"id": 1, "up": 2}, 9, [(10, 0, 1, 1)]),
        (None, 1, []),
        ({"id": 5, "up": 2}, 1, [(10, 0, 5, 5)]),
        ({"id": 5, "up": 2}, 5, [(10, 0, 1, None)]),
    ],
    ids=["same row", "another row", "deleted", "old identity", "new identity"],
)
def test_a_later_change_of_the_event_is_what_its_row_is(after: Row | None, later: int, left: list[Any]) -> None:
    changes = pending()
    changes.begin_event()
    changes.add(logged(10), [derived({"id": 1, "up": 1}, after)])
    changes.supersede(CHILD, (later,))
    assert rows_of(changes) == left


def test_both_identities_of_a_moved_row_may_be_taken_over() -> None:
    changes = pending()
    changes.begin_event()
    changes.add(logged(10), [derived({"id": 1, "up": 1}, {"id": 5, "up": 2})])
    changes.supersede(CHILD, (1,))
    changes.supersede(CHILD, (5,))
    assert rows_of(changes) == []


def test_changes_of_events_before_stay_and_numbers_begin_with_each_event() -> None:
    changes = pending()
    for offset in (10, 20):
        changes.begin_event()
        assert not changes.has_of_event
        changes.add(logged(offset), [derived({"id": 1, "up": 1}, None), derived({"id": 2, "up": 1}, None)])
    changes.add(logged(20), [derived({"id": 3, "up": 1}, None)])
    changes.supersede(CHILD, (1,))
    assert rows_of(changes) == [(10, 0, 1, None), (10, 1, 2, None), (20, 1, 2, None), (20, 2, 3, None)]
    assert rows_of(changes) == [], "they are taken once"


def test_changes_before_an_end_are_taken() -> None:
    changes = pending()
    for offset in (10, 20):
        changes.begin_event()
        changes.add(logged(offset), [derived({"id": offset, "up": 1}, None)])
    assert rows_of(changes, Position("log.1", 20)) == [(10, 0, 10, None)]
