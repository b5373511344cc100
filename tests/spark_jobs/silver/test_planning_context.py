from pathlib import Path
from typing import Any

import pytest

from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.bronze.table import BronzeSnapshot
from spark_jobs.config.loader import from_keys
from spark_jobs.lake.commit import Head
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.silver.planning_context import PlanningContext

BEGIN, END = Position("b.000001", 4), Position("b.000009", 4)


def context(folder: Path, keys: dict[str, Any], oldest: Position | None = None) -> PlanningContext:
    source: dict[str, Any] = {"files": "./logs", "system_time_zone": "Europe/Berlin"}
    pipeline = from_keys({"lake": "./lake", "sources": {"shop": source}} | keys, folder / "pipeline.yaml")
    lake = lake_of(pipeline)
    commit = BronzeCommit(END, "b", begin=BEGIN, oldest=oldest)
    return PlanningContext.of(pipeline, lake, BronzeSnapshot("shop", lake.bronze("shop"), Head(3, 3, commit), commit))


RULE = {"filters": {"r": {"tables": ["shop.t"], "events": ["delete"]}}}


@pytest.mark.parametrize(
    "keys, choices",
    [
        ({}, (False, False, False)),
        ({"on_unnamed": "number"}, (True, False, False)),
        ({"on_drop": "drop"}, (False, True, False)),
        ({"on_incompatible": "new_column"}, (False, False, True)),
    ],
)
def test_it_has_what_the_configuration_chooses(
    tmp_path: Path, keys: dict[str, str], choices: tuple[bool, bool, bool]
) -> None:
    planning = context(tmp_path, keys)
    assert (planning.numbers, planning.on_drop_empties, planning.begins_anew) == choices
    assert (planning.source, planning.system_zone, planning.by_log) == ("shop", "Europe/Berlin", False)


@pytest.mark.parametrize("oldest, is_older", [(None, False), (BEGIN, False), (Position("b.000004", 4), True)])
def test_it_knows_where_bronze_begins(tmp_path: Path, oldest: Position | None, is_older: bool) -> None:
    planning = context(tmp_path, {}, oldest)
    assert (planning.snapshot.oldest, planning.has_older_log) == (oldest or BEGIN, is_older)


def test_rows_of_a_load_go_by_rules_and_by_names_alone(tmp_path: Path) -> None:
    keys = RULE | {"on_unnamed": "number", "on_incompatible": "new_column", "on_drop": "drop"}
    planning = context(tmp_path, keys)
    assert planning.filters.events
    loaded = planning.for_load()
    assert (loaded.filters, loaded.numbers, loaded.begins_anew) == (planning.filters, False, False)
    assert (loaded.on_drop_empties, loaded.system_zone, loaded.snapshot) == (True, "Europe/Berlin", planning.snapshot)
