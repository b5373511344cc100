"""Tables that a merge need not open, by what is published: and every reason why one is opened all the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.routes import Destination
from spark_jobs.downstream.publication import Entry, Target
from spark_jobs.lake.commit import Checkpoint
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.pipeline.unchanged_targets import DestinationLeg, targets_without_new_rows

NAME = TableName("shop", "orders")
INTO = ("shop", "orders")
ROWS = pa.table({"id": [1]})


def commit(path: str, times: int = 1) -> None:
    for _ in range(times):
        deltalake.write_deltalake(path, ROWS, mode="append")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Silver at version 2, downstream at version 1."""
    empty_lake = Lake(str(tmp_path))
    commit(empty_lake.silver("source", NAME.schema, NAME.table).path, 3)
    commit(empty_lake.downstream(*INTO).path, 2)
    return empty_lake


def published(lake: Lake, **keys: Any) -> Entry:
    entry = Entry(
        "source", NAME.schema, NAME.table, "current", position="b.000001:90", silver_version=2, merged="b.000001:90"
    )
    return replace(entry, downstream=lake.downstream(*INTO).path, downstream_version=1, **keys)


def unchanged_targets(lake: Lake, before: Entry, **now: Any) -> set[tuple[TableName, tuple[str, str]]]:
    entry = replace(before, position="b.000002:4", **now)
    return set(targets_without_new_rows(lake, "source", [DestinationLeg(entry, Destination(*INTO))], [before]))


def test_a_table_of_which_no_layer_moved_is_not_opened(lake: Lake) -> None:
    assert unchanged_targets(lake, published(lake)) == {(NAME, INTO)}


@pytest.mark.parametrize(
    "before, now",
    [
        ({"state": "stopped"}, {"state": "current"}),
        ({}, {"state": "stopped"}),
        ({}, {"silver_version": 3}),
        ({"merged": "b.000001:80"}, {}),
        ({"merged": None}, {}),
        ({"silver_version": None}, {}),
        ({"silver_version": 1}, {}),
        ({"silver_version": 3}, {}),
        ({"targets": (Target("elsewhere/shop/orders", "b.000001:90", 1),)}, {}),
        ({"targets": (Target("x/shop/other", "b.000001:90", 1),)}, {}),
    ],
    ids=str,
)
def test_one_is_opened_where_what_is_published_says_less(
    lake: Lake, before: dict[str, Any], now: dict[str, Any]
) -> None:
    assert unchanged_targets(lake, published(lake, **before), **now) == set()


@pytest.mark.parametrize("layer", ["silver", "downstream"])
@pytest.mark.parametrize("change", ["commit", "cleaned"])
def test_one_is_opened_where_a_layer_moved_or_its_log_does_not_say(lake: Lake, layer: str, change: str) -> None:
    table = lake.silver("source", NAME.schema, NAME.table) if layer == "silver" else lake.downstream(*INTO)
    newest = deltalake.DeltaTable(table.path).version()
    if change == "cleaned":  # a checkpoint covers its commit: later ones may be gone as well
        (Path(table.path) / "_delta_log" / f"{newest:020}.json").unlink()
    else:
        commit(table.path)
    assert unchanged_targets(lake, published(lake)) == set()


def test_of_several_into_one_table_those_are_opened_that_have_something_to_merge(lake: Lake) -> None:
    entries = [published(lake), published(lake, merged=None, table="archive")]
    commit(lake.silver("source", "shop", "archive").path, 3)
    into: Callable[[Entry], DestinationLeg] = lambda entry: DestinationLeg(entry, Destination(*INTO))  # noqa: E731
    assert set(targets_without_new_rows(lake, "source", map(into, entries), entries)) == {(NAME, INTO)}


@pytest.mark.parametrize("offset, is_unchanged", [(80, True), (90, True), (120, False)])
def test_one_is_opened_whose_silver_was_restored_and_has_the_same_number_again(
    lake: Lake, offset: int, is_unchanged: bool
) -> None:
    checkpoint = Checkpoint(Position("b.000001", offset), "batch")
    properties = deltalake.CommitProperties(custom_metadata={"userMetadata": checkpoint.to_json()})
    path = lake.silver("source", NAME.schema, NAME.table).path
    deltalake.write_deltalake(path, ROWS, mode="append", commit_properties=properties)
    before = published(lake, silver_version=3)
    assert bool(unchanged_targets(lake, before)) == is_unchanged
