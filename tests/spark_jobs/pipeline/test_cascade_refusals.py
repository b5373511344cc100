"""Child tables of which ``on_cascade: apply`` derives nothing, by the configuration."""

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.pipeline.cascade_refusals import refusals
from tests.spark_jobs.pipeline.test_unlogged_changes import pipeline

P, C, G = (TableName("shop", name) for name in ("p", "c", "g"))
KEYS = [UnloggedChanges(C, ForeignKey("f", P, "CASCADE")), UnloggedChanges(G, ForeignKey("h", C, "SET NULL"))]
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
    found = refusals(pipeline(tmp_path, on_cascade="apply", **keys), "shop", KEYS)
    assert (C in found) == (reason is not None)
    if reason:
        assert reason in found[C]
        assert G in found


def test_a_child_whose_parent_is_not_applied_is_refused(tmp_path: Path) -> None:
    rules = [{"tables": "shop.g", "action": "apply"}]
    assert refusals(pipeline(tmp_path, on_cascade=rules), "shop", KEYS) == {
        G: "its parent shop.c is changed by foreign keys itself, and that is not applied"
    }
    assert refusals(pipeline(tmp_path, on_cascade="apply", tables=["shop.g"]), "shop", KEYS).keys() == {G}
    assert refusals(pipeline(tmp_path, on_cascade="warn"), "shop", KEYS) == {}
