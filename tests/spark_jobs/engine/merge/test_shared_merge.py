"""What is merged where sources write the same keys, against a dict that all changes are applied to in order."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.downstream.shared_keys import SharedSources
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.merge import downstream_job
from spark_jobs.engine.merge.downstream_job import PreparedMerge
from spark_jobs.engine.merge.part_merge import PlannedTables
from spark_jobs.errors import LostRace, TableStopped
from spark_jobs.lake.layout import Lake
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine import shared_logs
from tests.spark_jobs.engine.lake_rows import newest, rows_of
from tests.spark_jobs.engine.shared_logs import (
    KEYS,
    OWNERS,
    Change,
    Rows,
    SharedSource,
    late_transactions,
    log_of,
    truth,
)

SPARK: Any = None
"""No session: whatever asks one for something fails."""
numbers = count()


def plan(source: SharedSource, tables: PlannedTables | None = None) -> PreparedMerge | None:
    unit = downstream_job.prepared(0, source.work, tables, sources=SharedSources(SPARK, source.lake))
    assert not isinstance(unit, str)
    return unit


def merge(source: SharedSource, unit: PreparedMerge | None = None) -> None:
    """Merges what silver has of a source table, in several tasks."""
    unit = unit or plan(source)
    assert unit
    tasks = downstream_job.tasks_of([unit], Capacity(1, 1500))
    results = [result for task in tasks for result in downstream_job.work(task)]
    for result in results:
        assert not result.error
        if result.stopped:
            raise result.stopped
    downstream_job.commit(unit, results)
    source.merged_changes = source.silver_changes


def rows(lake: Lake) -> Rows:
    """The rows of the downstream table."""
    listed = [
        {name.casefold(): value for name, value in row.items()}
        for row in rows_of(newest(lake.downstream("world", "t").path))
    ]
    by_key = {row["id"]: (row["v"], row["_source"], row["_schema"], row["_table"]) for row in listed}
    assert len(by_key) == len(listed), "a key is there twice"
    return by_key


def sources_in(folder: Path, generator: random.Random, length: int) -> list[SharedSource]:
    """Source tables whose logs are there, with order times."""
    lake = Lake(str(folder), plain=generator.random() < 0.2)
    logs = {source: log_of(generator, source, length) for source in ("eu", "us")}
    for source, changes in logs.items():
        late_transactions(lake, source, changes)
    return [
        SharedSource(lake, owner, [change for change in logs[owner[0]] if change.owner == owner]) for owner in OWNERS
    ]


def hiding(sources: Sequence[SharedSource]) -> Iterator[tuple[SharedSource, tuple[int, int], int]]:
    """Windows and keys whose changes hide what another source table has of the key."""
    merged = [change for source in sources for change in source.merged_changes]
    for source in sources:
        for window in source.windows:
            for key in range(KEYS):
                hidden = {*source.windows[window]} - {*source.without(window, key)}
                before, after = truth(merged), truth([change for change in merged if change not in hidden])
                if key in after and after[key][1:] != source.owner and before.get(key) != after[key]:
                    yield source, window, key


@pytest.mark.thorough
def test_in_whatever_order_sources_are_merged_a_key_is_as_it_was_written_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream_job, "_LEAST_TASK_BYTES", 1)
    cases: Counter[str] = Counter()

    @examples(32)
    @given(st.integers(0, 1 << 30))
    def check(seed: int) -> None:
        generator = random.Random(seed)
        sources = sources_in(tmp_path / str(next(numbers)), generator, 60)
        for step in range(10):
            source = generator.choice(sources)
            case = "grow"
            if source.windows:
                case = generator.choices(["grow", "redo", "both", "rebuild"], [6, 2, 1, 1])[0]
            if step == 9 and (hidden := next(hiding(sources), None)):
                source, window, key = hidden  # a rule leaves out what hid another one's row, which comes back
                source.redo(window, key)
                case = "hidden"
            cases[case] += 1
            if case in ("redo", "both"):
                source.redo(generator.choice(sorted(source.windows)), generator.randrange(KEYS))
            if case == "rebuild":
                source.rebuild(generator.randrange(KEYS))
            if case in ("grow", "both"):
                source.grow(100 * generator.randrange(3, 15))
            merge(source)
            assert rows(source.lake) == truth([change for side in sources for change in side.merged_changes])
            assert plan(source) is None, "it is up to date"

    check()
    assert {*cases} == {"grow", "redo", "both", "rebuild", "hidden"}


def test_a_merge_that_was_planned_before_that_of_another_source_loses(tmp_path: Path) -> None:
    """Neither of the merges touches a file of the other, and both write new keys that the other one writes too."""
    first, second, *_ = sources_in(tmp_path, random.Random(2), 60)
    for source in (first, second):
        source.grow(200)
        if plan(source):
            merge(source)
    for source in (first, second):
        source.grow(600)
    planned = plan(second)
    merge(first)
    with pytest.raises(LostRace):
        merge(second, planned)
    merge(second)
    assert rows(first.lake) == truth([*first.merged_changes, *second.merged_changes])


@pytest.mark.parametrize(
    "op, begin, reason",
    [
        ("load", 4, "it has rows that were loaded"),
        ("rename", 4, "it has rows that came with its name, or with a change of its key"),
        ("update", 200, r"known from b.000001:200 on \(.*clock/eu\), and it has rows from before that"),
    ],
)
def test_a_row_that_no_time_is_known_of_stops_its_table(
    op: str, begin: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    late_transactions(lake, "eu", [], begin)
    source = SharedSource(lake, OWNERS[0], [Change(OWNERS[0], 100, 1, 1, "put", 1, 1)])
    row_of = shared_logs.row_of
    monkeypatch.setattr(shared_logs, "row_of", lambda *arguments: row_of(*arguments) | {"_op": op})
    source.grow(500)
    with pytest.raises(TableStopped, match=f"^eu: shop_1.t: .*{reason}.*, and keys: shared has to know when"):
        merge(source)
