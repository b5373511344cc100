"""Child tables of which ``on_cascade: apply`` derives nothing, by the configuration."""

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.binlog import TableName
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.config.cascades import CascadeActions
from spark_jobs.config.model import Pipeline
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.lake.layout import Lake
from spark_jobs.log.position import Position
from spark_jobs.pipeline.cascades.refusals import cascade_actions, refusals
from tests.spark_jobs.pipeline.cascades.test_unlogged_changes import pipeline

P, C, G = (TableName("shop", name) for name in ("p", "c", "g"))
KEYS = [UnloggedChanges(C, ForeignKey("f", P, "CASCADE")), UnloggedChanges(G, ForeignKey("h", C, "SET NULL"))]


def refused(settings: Pipeline, actions: CascadeActions | None = None) -> dict[TableName, str]:
    return refusals(settings, actions or settings.cascade_actions, "shop", KEYS)


SERVER = {"host": "h", "user": "u", "password": "p"}


@pytest.mark.parametrize(
    "keys, reason",
    [
        ({}, None),
        ({"tables": ["shop.c", "shop.g"]}, None),
        ({"row_filters": {"few": {"tables": ["shop.c"], "delete-value-expr": "id > 3"}}}, "filters leave out"),
        ({"columns": {"few": {"tables": ["shop.c"], "exclude": ["x"]}}}, "hides what the server has"),
        ({"columns": {"more": {"tables": ["shop.c"], "computed": {"y": {"sql": "id", "type": "INT"}}}}}, None),
        ({"downstream": [{"tables": "shop.c", "mode": "history"}]}, None),
        ({"downstream": [{"tables": "shop.c", "mode": "append"}]}, "no downstream table has its rows of now"),
        ({"routes": [{"from": "shop.c", "to": ["shop.d", "shop.e"]}]}, None),
        ({"routes": [{"from": "shop.?", "to": "shop.all"}]}, None),
        ({"routes": [{"from": "shop.?", "to": "shop.all", "keys": "shared"}]}, "no downstream table has its rows"),
        ({"deliveries": {"there": {"mysql": SERVER, "apply": "ordered"}}}, None),
    ],
)
def test_a_child_is_refused_with_the_reason_and_its_own_children_with_it(
    tmp_path: Path, keys: dict[str, Any], reason: str | None
) -> None:
    found = refused(pipeline(tmp_path, on_cascade="apply", **keys))
    assert (C in found) == (reason is not None)
    if reason:
        assert reason in found[C]
        assert G in found


def test_a_child_whose_parent_is_not_applied_is_refused(tmp_path: Path) -> None:
    rules = [{"tables": "shop.g", "action": "apply"}]
    assert refused(pipeline(tmp_path, on_cascade=rules)) == {
        G: "its parent shop.c is changed by foreign keys itself, and that is not applied"
    }
    assert refused(pipeline(tmp_path, on_cascade="apply", tables=["shop.g"])).keys() == {G}
    assert refused(pipeline(tmp_path, on_cascade="warn")) == {}


def test_without_a_choice_a_lake_decides_how_it_began(tmp_path: Path) -> None:
    settings, lake = pipeline(tmp_path, on_cascade=[{"tables": "shop.g", "action": "stop"}]), Lake(str(tmp_path / "l"))
    assert cascade_actions(settings, lake, "shop").of("shop", "c") == "apply_known", "it is not there yet"
    for derives, expected in ((True, "apply_known"), (False, "warn")):
        store_bronze(lake, derives=derives)
        actions = cascade_actions(settings, lake, "shop")
        assert [actions.of("shop", name) for name in ("c", "g")] == [expected, "stop"]
    masks = {"columns": {"few": {"tables": ["shop.c"], "exclude": ["x"]}}}
    hidden = refused(pipeline(tmp_path, **masks), CascadeActions(default="apply_known"))
    assert "hides what the server has" in hidden[C]


def store_bronze(lake: Lake, *, derives: bool) -> None:
    at = Position("mysql-bin.000001", 4)
    commit = BronzeCommit(at, "batch", begin=at, derives_cascades=derives)
    metadata = deltalake.CommitProperties(custom_metadata={"userMetadata": commit.to_json()})
    rows = pa.table({"number": [1]})
    deltalake.write_deltalake(lake.bronze("shop").path, rows, mode="overwrite", commit_properties=metadata)
