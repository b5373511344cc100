"""Random logs whose images leave columns out, in tables with every change, beside a loop over the changes."""

import os
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.config.filters import TableFilters
from spark_jobs.config.modes import Mode
from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.changes.change_extent import Extent
from spark_jobs.engine.changes.row_completion import (
    KEY_NUMBER,
    EarlierRows,
    MergedChanges,
    completed_changes,
)
from spark_jobs.engine.jobs.spark_job import Capacity
from spark_jobs.engine.rows.restatement import SilverSource
from spark_jobs.engine.target.partial_merge import SilverLookup
from spark_jobs.errors import TableStopped
from spark_jobs.silver.row_overlay import ABSENT
from spark_jobs.silver.table import MOVED_FROM, Columns
from tests.spark_jobs.engine.changed_lakes import in_small_parts
from tests.spark_jobs.engine.lake_rows import MAPPED, at
from tests.spark_jobs.engine.partial_changed_lakes import COLUMNS, PartialLake, ignoring
from tests.spark_jobs.engine.partial_logs import NAME

MODES = (Mode.APPEND, Mode.HISTORY)
RULES = (TableFilters(), ignoring("update"), ignoring("delete"))
LAKES = int(os.environ.get("STRATALOG_LAKES", "60"))


@pytest.fixture(params=[False, True], ids=["one task", "buckets"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        in_small_parts(monkeypatch)


@pytest.mark.parametrize(
    "seed",
    [
        *(pytest.param(seed, marks=[] if seed == 1 else pytest.mark.thorough) for seed in range(3)),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, LAKES)),
    ],
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("parts")
def test_targets_have_every_change_as_whole_images_would_give_it(mode: Mode, seed: int, tmp_path: Path) -> None:
    """Whatever is merged at once, after replays, by other rules too, loads, statements that empty the table, resets."""
    chance = Random(seed)
    cuts = sorted(chance.sample(range(1, 12), chance.randrange(5)))
    lake = PartialLake(tmp_path, mode, cuts, seed, plain=chance.random() < 0.3)
    merged = 0
    while merged < lake.windows:
        merged += chance.randrange(1, lake.windows - merged + 1)
        lake.merge(merged, Capacity(2), [NAME])
        lake.require_same(merged)
    steps = [chance.choice(["again", "by rules", "load", "merged again", "reset"]) for _ in range(chance.randrange(5))]
    for step in [*steps, *(["truncate"] if chance.random() < 0.3 else [])]:
        match step:
            case "again":
                first, stop = sorted(chance.sample(range(lake.windows + 1), 2))
                lake.redone(first, stop)
            case "by rules":
                lake.redone(chance.randrange(lake.windows), lake.windows, chance.choice(RULES))
            case "load":
                lake.loaded(chance.randrange(lake.uniform_from, len(lake.log.ends)))
            case "merged again":
                first, stop = sorted(chance.sample(range(lake.windows + 1), 2))
                lake.merged_again(first, stop)
            case "reset":
                lake.reset()
            case "truncate":
                lake.truncate(NAME)
        lake.merge(lake.commits, Capacity(2), [NAME])
        lake.require_same(lake.windows)


@pytest.mark.parametrize("mode", [pytest.param(Mode.APPEND, marks=pytest.mark.thorough), Mode.HISTORY])
def test_a_load_completes_changes_after_it_that_are_merged_already(mode: Mode, tmp_path: Path) -> None:
    """Rows are older than the log, and some changes of them are in no image whole."""
    completed_changes = 0
    for seed in (2, 3, 5):
        lake = PartialLake(tmp_path / str(seed), mode, (3, 6), seed)
        lake.merge(3, Capacity(2), [NAME])
        lake.require_same(3)
        changes_before = len(lake.twin(3).changes)
        lake.loaded(0)
        lake.merge(lake.commits, Capacity(2), [NAME])
        lake.require_same(3)
        completed_changes += len(lake.twin(3).changes) - changes_before - len(lake.all_loads[0][1])
    assert completed_changes >= 3


@pytest.mark.parametrize("mode", MODES)
def test_changes_behind_other_rows_are_not_decoded_by_other_rules(mode: Mode, tmp_path: Path) -> None:
    lake = PartialLake(tmp_path, mode, (3, 6), 5, rules=ignoring("delete"))
    lake.merge(3, Capacity(2), [NAME])
    lake.rules = TableFilters()
    lake.loaded(2)
    with pytest.raises(TableStopped, match=r"rules about the table have changed since .* --from .*b\.000001:\d+ --to"):
        lake.merge(lake.commits, Capacity(2), [NAME])
    lake.redone(0, 3)
    lake.merge(lake.commits, Capacity(2), [NAME])
    lake.require_same(3)


def change(offset: int, op: str, key: int | None, **cells: int) -> dict[str, Any]:
    """A row of a merge. key: the number of the key that it is told apart by."""
    position = {"stretch": 1, "number": 1, "offset": offset, "row": 0}
    absent = [name for name in COLUMNS.types if name not in cells] if cells else None
    return cells | {"_op": op, "_position": position, ABSENT: absent or None, KEY_NUMBER: key}


def test_changes_are_told_apart_by_the_key_of_their_time(tmp_path: Path) -> None:
    """A statement at 30 made a the key, and left rows as of there."""
    table = new_table(str(tmp_path), COLUMNS.stored, MAPPED)
    fields = [table.schema.column(name).arrow(physical=False) for name in (*COLUMNS.types, "_op", "_position", "_raw")]
    texts = pa.list_(pa.string())
    partial = [pa.field(ABSENT, texts), pa.field(MOVED_FROM, texts)]
    schema = pa.schema([*fields, *partial, pa.field(KEY_NUMBER, pa.int32())])
    rows = [
        change(10, "insert", 1, id=1, a=5, b=7),
        change(11, "insert", 1, id=2, a=6, b=6),
        change(20, "update", 1, id=1, b=8),
        change(21, "delete", 1, id=2),
        change(31, "rename", None, id=1, a=5, b=8),
        change(40, "update", 0, a=5, b=9),
        change(41, "update", 0, a=6, b=9),
    ]
    statements = pa.Table.from_pylist([change(30, "truncate", None)], schema)
    source = SilverSource(table.path, table.schema, ("a",))
    earlier = EarlierRows(SilverLookup(source, (), None, at(30)))
    columns = Columns(COLUMNS.types, ("a",), has_partial=True)
    changes = MergedChanges(pa.Table.from_pylist(rows, schema), statements, Extent(is_all=True), (("a",), ("id",)))
    rows_completed = completed_changes(changes, earlier, columns, lambda keys: keys).complete
    whole_rows = [(row["_position"]["offset"], row["id"], row["a"], row["b"]) for row in rows_completed.to_pylist()]
    assert sorted(whole_rows) == [
        (10, 1, 5, 7),
        (11, 2, 6, 6),
        (20, 1, 5, 8),
        (21, 2, 6, 6),
        (31, 1, 5, 8),
        (40, 1, 5, 9),
    ]
    with pytest.raises(TableStopped, match="offset 20: a row image omits columns, and a later statement removed the"):
        completed_changes(replace(changes, keys=(("a",), None)), earlier, columns, lambda keys: keys)
