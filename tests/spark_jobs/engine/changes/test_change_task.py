"""Every change of random logs, in tasks of this process, beside a loop over the changes."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.filters import ColumnRule, EventFilter, Mask, TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.config.table_patterns import Scope
from spark_jobs.engine.changes.version_merge import may_have_current
from spark_jobs.engine.jobs.spark_job import Capacity
from tests.spark_jobs.engine.changed_lakes import ChangedLake, in_small_parts
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.logs_of_rows import NAMES
from tests.spark_jobs.engine.target.test_feed import rows_of_feed

ANY = Scope.parse(("shop.*",))
CUTS = (3, 4, 8)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(at, marks=pytest.mark.thorough) for at in range(3, 12))])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_targets_have_every_change_whatever_is_merged_at_once(mode: Mode, seed: int, tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, mode, CUTS, seed, plain=seed % 4 == 3)
    for windows in ((4,), (1, 2, 3, 4), (2, 4), (1, 4))[seed % 4]:
        lake.merge(windows, Capacity(2))
        for name in NAMES:
            assert lake.rows(name) == lake.expected(name, windows)
    assert lake.prepared(4) == []


def test_versions_that_end_are_marked_and_a_file_of_ended_ones_is_not_read_again(tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, Mode.HISTORY, (36, 37, 38), seed=5, count=40)
    for windows in range(1, 5):
        lake.merge(windows, Capacity(2))
    (name, _) = NAMES
    assert lake.deleted_count(name) > 0
    table = newest(lake.target(name).path)
    current = [file for file in table.files if may_have_current(file, table.schema)]
    assert 0 < len(current) < len(table.files)
    keys = [row["id"] for row in rows_of(table) if row["_is_current"]]
    assert len(keys) == len({*keys}) > 0


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_rows_that_a_replay_leaves_as_they_are_are_not_written(mode: Mode, *, plain: bool, tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, mode, CUTS, seed=1, count=30, plain=plain)
    lake.merge(4, Capacity(2))
    before = {name: newest(lake.target(name).path) for name in NAMES}
    for name in NAMES:
        lake.redo(name, 1, 3)
    merged, _ = lake.merge(5, Capacity(2))
    assert [(table.inserted, table.updated, table.deleted) for table in merged] == [(0, 0, 0), (0, 0, 0)]
    for name in NAMES:
        after = newest(lake.target(name).path)
        assert after.version > before[name].version
        assert {file.key for file in after.files} == {file.key for file in before[name].files}
        assert lake.rows(name) == lake.expected(name, 4)


def test_times_positions_and_gtids_are_those_of_the_changes(tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, Mode.APPEND, ())
    lake.merge(1, Capacity(2))
    rows = rows_of(newest(lake.target(NAMES[0]).path))
    assert all(row["_committed_at"] and row["_gtid"] for row in rows)
    assert len({tuple(row["_position"].values()) for row in rows}) == len(rows)


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_kinds_of_changes_that_rules_filter_are_in_no_row(mode: Mode, tmp_path: Path) -> None:
    rules = TableFilters(events=(EventFilter("r", ANY, ("delete",), (), "ignore"),))
    lake = ChangedLake(tmp_path, mode, CUTS, seed=1, count=30, rules=rules)
    lake.merge(4, Capacity(2))
    for name in NAMES:
        assert lake.rows(name) == lake.expected(name, 4)
        # The delete of an old key is no change of its own.
        assert mode is Mode.HISTORY or all(op != "delete" for op, *_ in lake.rows(name))


def test_masked_columns_have_what_the_mask_makes_of_them(tmp_path: Path) -> None:
    lake = ChangedLake(tmp_path, Mode.HISTORY, CUTS, seed=2)
    lake.rules = TableFilters(columns=ColumnRule("c", ANY, masks={"v": Mask("constant", constant=7)}))
    lake.merge(4, Capacity(2))
    assert {row["v"] for row in rows_of(newest(lake.target(NAMES[0]).path))} == {7}


@pytest.mark.parametrize(
    "first", [0, pytest.param(2, marks=pytest.mark.thorough), pytest.param(4, marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_a_statement_that_empties_the_table_is_a_row_and_ends_all_versions(
    mode: Mode, first: int, tmp_path: Path
) -> None:
    (name, second) = NAMES
    lake = ChangedLake(tmp_path, mode, CUTS, seed=4, count=20)
    if first:
        lake.merge(first, Capacity(2))
    for table in NAMES:
        lake.truncate(table)
    before = lake.expected(name, 4)
    assert mode is Mode.APPEND or any(is_current for *_, is_current in before)
    lake.merge(5, Capacity(2))
    rows = lake.rows(name)
    marker = ("truncate", (None, None))
    if mode is Mode.APPEND:
        assert rows == [*before, marker]
        return
    assert rows == [*((op, cells, False) for op, cells, _ in before), (*marker, False)]
    versions = rows_of(newest(lake.target(second).path))
    assert {row["_valid_to"] for row in versions if row["_op"] == "truncate"} == {datetime.fromtimestamp(9, UTC)}


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_the_row_of_a_statement_has_the_defaults_of_later_columns_as_silvers_row_has(
    mode: Mode, tmp_path: Path
) -> None:
    lake = ChangedLake(tmp_path, mode, CUTS)
    lake.truncate(NAMES[0], v=7)
    lake.truncate(NAMES[1])
    lake.merge(5, Capacity(2))
    assert [lake.rows(name)[-1][:2] for name in NAMES] == [("truncate", (None, 7)), ("truncate", (None, None))]


@pytest.mark.parametrize("in_buckets", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_another_mode_makes_all_of_the_table_again(
    plain: bool, in_buckets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_buckets:
        in_small_parts(monkeypatch)
    lake = ChangedLake(tmp_path, Mode.APPEND, CUTS, seed=6, count=20, plain=plain)
    for name in NAMES:
        lake.load(name, 2, [(key, 100 + key) for key in range(9)])
    lake.merge(3, Capacity(2))
    old = {file.path for file in newest(lake.target(NAMES[0]).path).files}
    for mode in (Mode.HISTORY, Mode.APPEND):
        lake.mode = mode
        lake.merge(5, Capacity(2))
        for name in NAMES:
            assert lake.rows(name) == lake.expected(name, 4)
        table = newest(lake.target(NAMES[0]).path)
        assert not old & {file.path for file in table.files}
        assert "_is_current" in table.schema.names or mode is Mode.APPEND


@pytest.mark.parametrize("in_buckets", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "seed",
    [0, pytest.param(1, marks=pytest.mark.thorough), *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))],
)
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_a_feed_is_the_difference_between_two_versions(
    mode: Mode, seed: int, *, in_buckets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of live merges, a replay, a load, and a statement that empties the tables; with rewritten files and without."""
    if in_buckets:
        in_small_parts(monkeypatch)
    rules = TableFilters(events=(EventFilter("r", ANY, ("delete",), (), "ignore"),))
    lake = ChangedLake(tmp_path, mode, (6, 12, 18), seed, 24, rules, plain=seed % 2 == 1, has_feed=True)
    lake.merge(1, Capacity(2))

    def contents(name: TableName) -> Counter[str]:
        return Counter(map(repr, rows_of(newest(lake.target(name).path))))

    def merge(windows: int) -> set[str]:
        before, kinds = {name: contents(name) for name in NAMES}, set[str]()
        lake.merge(windows, Capacity(2))
        for name in NAMES:
            feed = rows_of_feed(newest(lake.target(name).path))
            after = before[name].copy()
            for row in feed:
                kind = row.pop("_change_type")
                kinds.add(kind)
                after[repr(row)] += 1 if kind in ("insert", "update_postimage") else -1
            assert +after == contents(name)
            assert min(after.values()) >= 0
        return kinds

    assert merge(2) >= {"insert"}
    merge(3)
    merge(4)
    lake.rules = TableFilters()
    for name in NAMES:
        lake.redo(name, 1, 3)
    assert merge(5) >= {"insert"}
    for name in NAMES:
        lake.load(name, 9, [(key, 100 + key) for key in range(9)])
    merge(6)
    for name in NAMES:
        lake.truncate(name)
    assert merge(7) == ({"insert"} if mode is Mode.APPEND else {"insert", "update_preimage", "update_postimage"})
