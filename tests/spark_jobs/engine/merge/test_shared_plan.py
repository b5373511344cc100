"""Which part of a table with shared keys is planned when, and upon what."""

import random
from pathlib import Path

import pytest

from spark_jobs.engine.merge.part_merge import PlannedTables
from spark_jobs.errors import LakeError, LostRace
from tests.spark_jobs.engine.merge.test_shared_merge import merge, plan, rows, sources_in
from tests.spark_jobs.engine.shared_logs import truth


def test_a_part_that_was_planned_before_another_one_landed_is_planned_again(tmp_path: Path) -> None:
    first, second = sources_in(tmp_path, random.Random(2), 20)[::2]
    for source in (first, second):
        source.grow(1000)
        merge(source)
        source.grow(1000)
    tables: PlannedTables = {}
    unit = plan(first, tables)
    assert plan(second, tables) is None, "what the first leaves decides about it"
    merge(second)
    before = rows(first.lake)
    with pytest.raises(LostRace):
        merge(first, unit)
    assert rows(first.lake) == before
    merge(first)
    assert rows(first.lake) == truth([*first.silver_changes, *second.silver_changes])


def test_silver_that_another_part_was_merged_of_has_to_be_there(tmp_path: Path) -> None:
    first, second = sources_in(tmp_path, random.Random(2), 20)[::2]
    first.grow(1000)
    merge(first)
    second.grow(1000)
    path = Path(first.lake.silver(*first.owner).path, "_delta_log")
    for file in path.iterdir():
        file.unlink()
    with pytest.raises(LakeError, match=r"version 0, which was merged of it, cannot be read any more"):
        plan(second)
