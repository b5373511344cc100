"""Rows completed for rules by the changes of their keys before them, beside a plain model of the server's rows."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Changes
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.net_changes import AbsentColumns
from spark_jobs.silver.partial_images import ImageContext, changes_and_absent_columns
from spark_jobs.silver.rule_rows import RuleRows
from spark_jobs.silver.slice_runs import Runs
from tests.partial_changes import NAMES, ROW_CHANGES, TABLE, changes_of, op_of, texts_of
from tests.plain_layers import RowChange

ASKED = ("a", "b")
UNKNOWN = object()
RANGES = [Range(Position("b.000001", start), Position("b.000001", start + 100)) for start in (100, 200, 400)]
"""The second one continues the first, and the third does not continue the second."""


def completed(rule_rows: RuleRows, rows: Sequence[RowChange], window: int = 0) -> tuple[Changes, AbsentColumns]:
    changes, absent = changes_and_absent_columns(changes_of(rows), ImageContext(TABLE, "b.000001", is_mariadb=False))
    return rule_rows.completed(changes, absent, window)


def images(changes: Changes, absent: AbsentColumns) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Of each change the row after it and, of updates, the row before it, with UNKNOWN and the exact texts."""
    found = []
    for at, op in enumerate(changes.op.to_pylist()):
        pair = []
        for image, raw, lacking in (
            (changes.after, changes.raw, absent.after),
            (changes.before, changes.before_raw, absent.before),
        ):
            assert raw is not None
            cells = {name: image.column(name)[at].as_py() for name in NAMES}
            texts = sorted(text for text in raw[at].as_py() or () if text[0] not in (lacking[at].as_py() or ()))
            assert texts == (texts_of({k: v for k, v in cells.items() if k != "id"}) or [])
            pair.append(cells | dict.fromkeys(lacking[at].as_py() or (), UNKNOWN))
        found.append((pair[0], pair[1] if op == 2 else None))
    return found


class Server:
    """What is known of the server's rows, by key."""

    def __init__(self) -> None:
        self.rows: dict[Any, dict[str, Any]] = {}

    def step(self, change: RowChange) -> tuple[dict[str, Any], dict[str, Any] | None]:
        if op_of(change) == 1:
            row: dict[str, Any] = dict.fromkeys(NAMES) | dict(change.after or {})
            self.rows[row["id"]] = row
            return row, None
        assert change.before is not None
        before = dict.fromkeys(ASKED, UNKNOWN) | self.rows.pop(change.before["id"], {}) | dict(change.before)
        if op_of(change) == 3:
            return before, None
        row = before | dict(change.after or {})
        self.rows[row["id"]] = row
        return row, before


@given(st.lists(ROW_CHANGES, min_size=1, max_size=14), st.lists(st.integers(1, 5), max_size=3))
def test_rows_are_those_of_a_plain_model_in_any_blocks(rows: list[RowChange], sizes: list[int]) -> None:
    rule_rows, server, found, first = RuleRows(TABLE, ASKED, RANGES), Server(), [], 0
    for size in [*sizes, len(rows)]:
        block = rows[first : first + size]
        found += images(*completed(rule_rows, block)) if block else []
        first += size
    assert found == [server.step(row) for row in rows]


CREATED, CHANGED = RowChange(None, {"id": 1, "a": 2, "b": 4}), RowChange({"id": 1}, {"a": 6})


def test_what_is_known_holds_in_the_next_window_where_nothing_is_between() -> None:
    rule_rows = RuleRows(TABLE, ASKED, RANGES)
    completed(rule_rows, [CREATED])
    assert images(*completed(rule_rows, [CHANGED], 1)) == [({"id": 1, "a": 6, "b": 4}, {"id": 1, "a": 2, "b": 4})]
    lacking = {"id": 1, "a": 6, "b": UNKNOWN}, {"id": 1, "a": UNKNOWN, "b": UNKNOWN}
    assert images(*completed(rule_rows, [CHANGED], 2)) == [lacking]


def test_changes_that_are_tried_again_in_parts_begin_where_the_attempt_did() -> None:
    rule_rows = RuleRows(TABLE, ASKED, RANGES)
    completed(rule_rows, [CREATED])

    def work(_: Runs) -> None:
        completed(rule_rows, [RowChange({"id": 1}, None)])
        raise TableStopped("no")

    with pytest.raises(TableStopped):
        rule_rows.attempting(work)(iter(()))
    expected = {"id": 1, "a": 6, "b": 4}
    assert images(*completed(rule_rows, [CHANGED]))[0][0] == expected
    assert images(*completed(rule_rows.restarted(), [CHANGED]))[0][0] == expected | {"b": UNKNOWN}


def test_columns_that_no_rule_asks_for_are_as_they_were() -> None:
    rule_rows = RuleRows(TABLE, ("a",), RANGES)
    completed(rule_rows, [CREATED])
    changes, absent = completed(rule_rows, [RowChange({"id": 1}, {"b": 8})])
    assert changes.after.to_pylist() == [{"id": 1, "a": 2, "b": 8}]
    assert changes.before.to_pylist() == [{"id": 1, "a": 2, "b": None}]
    assert absent.after.to_pylist() == absent.before.to_pylist() == [None]


@pytest.mark.parametrize("names", [(), ("id",), ("other",)])
def test_rules_that_ask_for_no_column_that_may_be_left_out_need_nothing(names: tuple[str, ...]) -> None:
    assert not RuleRows(TABLE, names, RANGES)
