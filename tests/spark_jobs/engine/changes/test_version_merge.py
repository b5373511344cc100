"""Versions of keys that were replayed, and of all keys where a statement ends them."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.config.filters import EventFilter, TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.changes import change_job
from spark_jobs.engine.changes.change_rows import fields_of
from spark_jobs.engine.changes.change_units import ChangeUnit
from spark_jobs.engine.changes.row_completion import EarlierRows
from spark_jobs.engine.changes.version_merge import VersionChanges, located_schema, merged
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows.restatement import SilverSource
from spark_jobs.engine.target.partial_merge import SilverLookup
from tests.spark_jobs.engine.changed_lakes import ChangedLake, in_small_parts
from tests.spark_jobs.engine.lake_rows import newest
from tests.spark_jobs.engine.logs_of_rows import NAMES

ANY = Scope.parse(("shop.*",))
DELETES = TableFilters(events=(EventFilter("r", ANY, ("delete",), (), "ignore"),))


def without_deletes(*numbers: int) -> Callable[[int], tuple[str, ...]]:
    """What rules filter of each transaction: deletes, but in some."""
    return lambda number: () if number in numbers else ("delete",)


@pytest.mark.parametrize("in_buckets", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "seed",
    [
        0,
        *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 4)),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 8)),
    ],
)
@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.HISTORY])
def test_windows_that_were_replayed_have_what_the_log_says_now_and_others_stay(
    mode: Mode, seed: int, *, in_buckets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules filtered deletes, and do not any more: a replay of windows brings theirs, and no others."""
    if in_buckets:
        in_small_parts(monkeypatch)
    lake = ChangedLake(tmp_path, mode, (6, 12, 18), seed, count=24, plain=seed % 4 == 3, rules=DELETES)
    for windows in range(1, 5):
        lake.merge(windows, Capacity(2))
    lake.rules = TableFilters()
    before = {name: newest(lake.target(name).path) for name in NAMES}
    first, stop = ((0, 2), (1, 2), (1, 3), (2, 4))[seed % 4]
    for name in NAMES:
        lake.redo(name, first, stop)
    lake.merge(5, Capacity(2))
    for name in NAMES:
        assert lake.rows(name) == lake.expected(name, 4, without_deletes(*range(6 * first, 6 * stop)))
    # Of mode append each row that was there is equal to what the log says, so that all files are as they were.
    if mode is Mode.APPEND and not in_buckets:
        for name in NAMES:
            now = newest(lake.target(name).path)
            assert len({file.key for file in now.files} & {file.key for file in before[name].files}) == 4
    # Once more, nothing differs: of versions no row is written.
    for name in NAMES:
        lake.redo(name, first, stop)
    merged, _ = lake.merge(6, Capacity(2))
    counts = [(result.inserted, result.updated, result.deleted) for result in merged]
    assert mode is Mode.APPEND or counts == [(0, 0, 0)] * 2


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_statement_that_empties_a_large_table_ends_versions_in_buckets(
    plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_parts(monkeypatch)
    lake = ChangedLake(tmp_path, Mode.HISTORY, (20, 40, 60), seed=3, count=80, plain=plain)
    for windows in range(1, 4):
        lake.merge(windows, Capacity(2))
    for name in NAMES:
        lake.truncate(name)
    units = change_job.tasks_of(
        [(unit.work.name, unit.unit) for unit in lake.prepared(5) if isinstance(unit.unit, ChangeUnit)],
        lake.changed_log,
        Capacity(2),
    )
    assert units.buckets > 2
    lake.merge(5, Capacity(2))
    for name in NAMES:
        expected = [(op, cells, False) for op, cells, _ in lake.expected(name, 4)]
        assert lake.rows(name) == [*expected, ("truncate", (None, None), False)]


def test_a_version_that_ended_before_what_is_replayed_stays_so(tmp_path: Path) -> None:
    """It was ended by a change that is no row of the target: one of which columns are in no row before it."""
    lake = ChangedLake(tmp_path, Mode.HISTORY, (3, 6), 1, count=9)
    unit = next(table.unit for table in lake.prepared(1) if isinstance(table.unit, ChangeUnit))
    ended = {"nullCount": {unit.schema.column("_valid_to").physical_name: 0}}
    earlier = EarlierRows(SilverLookup(SilverSource(unit.origin, unit.schema, unit.columns.key), (), None, None))
    unit = replace(unit, files=(DataFile({"path": "a", "stats": json.dumps(ended)}),), earlier=earlier)
    schema = located_schema(unit)
    key = dict.fromkeys(unit.columns.key, 1)

    def at(second: int) -> datetime:
        return datetime.fromtimestamp(second, UTC)

    def version(second: int, valid_to: int | None, **flags: bool) -> dict[str, Any]:
        position = {"stretch": 1, "number": 1, "offset": second, "row": 0}
        times = {"_committed_at": at(second), "_valid_from": at(second), "_valid_to": valid_to and at(valid_to)}
        cells = {"_op": "update", "_position": position, "_is_current": valid_to is None, "\0file": 0, "\0row": second}
        return key | cells | times | {"\0replaced": False} | flags

    rows = [version(10, 20), version(30, 40), version(40, None, **{"\0replaced": True})]
    located = pa.Table.from_pylist(rows, schema)
    new = pa.Table.from_pylist([version(50, None)], schema).select(fields_of(unit).names)
    changes = VersionChanges(new, new.slice(0, 0), new.slice(0, 0))
    versions = merged(unit, changes, located, takes_statements=True)
    assert versions.ended.column("_valid_to").to_pylist() == [at(50)]  # that of 30
    assert versions.added.column("_is_current").to_pylist() == [True]
    assert {path: numbers.tolist() for path, numbers in versions.changed.items()} == {"a": [30]}
