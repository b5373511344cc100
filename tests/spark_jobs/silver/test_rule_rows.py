"""Rows completed for rules by the changes of their keys before them, beside a plain model of the server's rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Changes
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.net_changes import AbsentColumns, SliceOrigin
from spark_jobs.silver.partial_images import ImageContext, changes_and_absent_columns
from spark_jobs.silver.rule_rows import RowsOfLoad, RuleRows
from spark_jobs.silver.slice_runs import Runs
from tests.binlogs.partial_changes import NAMES, ROW_CHANGES, TABLE, changes_of, op_of, texts_of
from tests.twins.plain_layers import RowChange

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


@dataclass
class Log:
    """A server's changes with partial images, the whole rows that they are of, and the table after each of them."""

    table: dict[int, dict[str, Any]]
    changes: list[RowChange] = field(default_factory=list)
    rows: list[tuple[dict[str, Any], dict[str, Any] | None]] = field(default_factory=list)
    tables: list[dict[int, dict[str, Any]]] = field(default_factory=list)
    moves: list[tuple[int, int] | None] = field(default_factory=list)

    def step(self, key: int, new_key: int, cells: dict[str, Any], *, is_delete: bool) -> None:
        """The next change of a key: it is inserted, deleted, or updated, and perhaps gets another key."""
        row, move = self.table.get(key), None
        if row is None:
            after: dict[str, Any] = dict.fromkeys(NAMES) | cells | {"id": key}
            change, before = RowChange(None, after), None
        elif is_delete:
            change, after, before = RowChange({"id": key}, None), row, None
        else:
            move = (key, new_key) if new_key != key and new_key not in self.table else None
            changed = cells | ({"id": new_key} if move else {})
            change, after, before = RowChange({"id": key}, changed), row | changed, row
        self.changes.append(change)
        self.rows.append((after, before))
        self.moves.append(move)
        self.table = {at: kept for at, kept in self.table.items() if at != key}
        if change.after is not None:
            self.table[after["id"]] = after
        self.tables.append(self.table)


STEPS = st.lists(
    st.tuples(
        st.integers(1, 4),
        st.sampled_from([None, None, None, 1, 2, 3, 4]),
        st.fixed_dictionaries({}, optional={"a": st.integers(1, 9), "b": st.integers(1, 9)}),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=16,
)
OLDER = {key: {"id": key, "a": key + 1, "b": key} for key in (1, 2, 3)}
IN_LOG = SliceOrigin("b.000001", 1, 1, 0)


def loaded_rows(log: Log, since: int, until: int, moments: Sequence[int | None]) -> RowsOfLoad:
    """The rows of a load that reads each key at a moment of its own while the log is written.

    None: a rule filters the row.
    """
    tables, rows = [OLDER, *log.tables], dict[int, dict[str, Any]]()
    for key, moment in enumerate(moments, 1):
        row = None if moment is None else tables[since + moment % (until - since + 1)].get(key)
        if row is not None:
            rows[key] = row

    def read(wanted: pa.Table, names: Sequence[str]) -> tuple[Any, pa.Table]:
        keys = wanted.column("id").to_pylist()
        assert len({*keys}) == len(keys)
        found = [(at, rows[key]) for at, key in enumerate(keys) if key in rows]
        texts = pa.array([texts_of(row) for _, row in found], pa.map_(pa.string(), pa.string()))
        cells = {name: pa.array([row[name] for _, row in found], pa.int32()) for name in names}
        return np.array([at for at, _ in found], np.int64), pa.table(cells | {"_raw": texts})

    return RowsOfLoad(Position("b.000001", 100 + since), Position("b.000001", 100 + until), frozenset(ASKED), read)


def blocks(rule_rows: RuleRows, changes: Sequence[RowChange], sizes: Sequence[int]) -> Iterator[Any]:
    """What is made of changes in blocks of some sizes."""
    first = 0
    for size in [*sizes, len(changes)]:
        block = changes[first : first + size]
        if not block:
            continue
        decoded = changes_of(block, 100 + first)
        for part in rule_rows.in_parts(decoded, IN_LOG):
            context = ImageContext(TABLE, "b.000001", is_mariadb=False)
            yield from images(*rule_rows.completed(*changes_and_absent_columns(part, context), 0))
        first += size


def is_moved_during(log: Log, at: int, since: int, until: int) -> bool:
    """Whether the key of a change's row is one that it got while the load read."""
    key = (log.rows[at][1] or log.rows[at][0])["id"]
    for number, move in reversed([*enumerate(log.moves[:at])]):
        if move and move[1] == key:
            if since <= number < until:
                return True
            key = move[0]
    return False


@given(STEPS, st.data())
def test_a_loaded_row_tells_what_the_log_behind_the_load_does_not(steps: list[Any], data: st.DataObject) -> None:
    log = Log(OLDER)
    for key, new_key, cells, is_delete in steps:
        log.step(key, new_key or key, cells, is_delete=is_delete)
    ends, moment = st.integers(0, len(log.changes)), st.integers(0, 20)
    loads = data.draw(st.lists(st.tuples(ends, ends, st.lists(moment, min_size=4, max_size=4)), max_size=2))
    sizes = data.draw(st.lists(st.integers(1, 5), max_size=3))
    ranges = [Range(Position("b.000001", 100), Position("b.000001", 200))]
    parts = [(min(ends), max(ends)) for *ends, _ in loads]
    loaded = [loaded_rows(log, *part, moments) for part, (*_, moments) in zip(parts, loads, strict=True)]
    rule_rows = RuleRows(TABLE, ASKED, ranges, loads=loaded)
    for at, found in enumerate(blocks(rule_rows, log.changes, sizes)):
        for image, row in zip(found, log.rows[at], strict=True):
            known = {name: cell for name, cell in (image or {}).items() if cell is not UNKNOWN}
            assert row is None or known == {name: row[name] for name in known}, (at, found)
        if any(at >= until and not is_moved_during(log, at, since, until) for since, until in parts):
            assert found == log.rows[at], at


@pytest.mark.parametrize(
    "since, until, moments",
    [
        pytest.param(0, 2, (0, 0, 0, 0), id="the row of its key was another one when that was read"),
        pytest.param(0, 0, (None, 0, 0, 0), id="its row was filtered, and it got the key of another one"),
    ],
)
def test_a_row_takes_nothing_from_the_loaded_row_of_another(
    since: int, until: int, moments: tuple[int | None, ...]
) -> None:
    log = Log(OLDER)
    log.step(2, 4, {}, is_delete=False)
    log.step(1, 2, {}, is_delete=False)
    log.step(2, 2, {"b": 9}, is_delete=False)
    ranges = [Range(Position("b.000001", 100), Position("b.000001", 200))]
    rule_rows = RuleRows(TABLE, ASKED, ranges, loads=[loaded_rows(log, since, until, moments)])
    (after, _), *_ = reversed([*blocks(rule_rows, log.changes, [1, 1, 1])])
    assert after == {"id": 2, "a": UNKNOWN, "b": 9}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([(2, 2)], id="after its changes"),
        pytest.param([(0, 2), (2, 2)], id="again after one that read while its key changed"),
    ],
)
def test_a_row_that_changed_before_a_load_takes_what_that_read(parts: list[tuple[int, int]]) -> None:
    log = Log(OLDER)
    log.step(1, 4, {}, is_delete=False)
    log.step(2, 2, {"b": 9}, is_delete=False)
    for key in (4, 2):
        log.step(key, key, {"b": 8}, is_delete=False)
    ranges = [Range(Position("b.000001", 100), Position("b.000001", 200))]
    loads = [loaded_rows(log, *part, (0, 0, 0, 0)) for part in parts]
    found = [*blocks(RuleRows(TABLE, ASKED, ranges, loads=loads), log.changes, [])]
    assert [after for after, _ in found[2:]] == [{"id": 4, "a": 2, "b": 8}, {"id": 2, "a": 3, "b": 8}]


SKIPPED = Position("b.000001", 101)


@pytest.mark.parametrize(
    "start, skips, is_known",
    [(100, [], True), (101, [], False), (100, [SKIPPED], False), (100, [Position("b.000001", 99)], True)],
)
def test_a_loaded_row_tells_nothing_where_log_behind_it_is_missing(
    start: int, skips: list[Position], is_known: bool
) -> None:
    log = Log(OLDER)
    for key in (3, 1, 2):
        log.step(key, key, {"b": 9}, is_delete=False)
    ranges = [Range(Position("b.000001", start), Position("b.000001", 200))]
    rule_rows = RuleRows(TABLE, ASKED, ranges, skips, [loaded_rows(log, 0, 0, (0, 0, 0, 0))])
    (after, _), *_ = reversed([*blocks(rule_rows, log.changes, [])])
    assert after == {"id": 2, "a": 3 if is_known else UNKNOWN, "b": 9}
