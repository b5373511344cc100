"""Outcomes of foreign keys by described servers; a real one is asked in tests/spark_jobs/cli/test_check.py."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.cascades import CascadeAction
from spark_jobs.ddl.foreign_keys import ForeignKey
from spark_jobs.ddl.unlogged_changes import UnloggedChanges
from spark_jobs.pipeline.cascades.outlook import _logged_outlook, _outlook
from tests.spark_jobs.pipeline.cascades.test_unlogged_changes import pipeline

CHILD, PARENT = TableName("shop", "c"), TableName("shop", "p")
GAP = UnloggedChanges(CHILD, ForeignKey("f", PARENT, "CASCADE", columns=("pid",), parent_columns=("id",)))
INT, DATE = 3, 10


def outcome(
    folder: Path, kind: int = INT, refused: str | None = None, default: CascadeAction = "warn", **keys: Any
) -> tuple[str, bool]:
    definitions = {
        CHILD: TableDefinition(CHILD, (Column("id", INT), Column("pid", kind)), (0,)),
        PARENT: TableDefinition(PARENT, (Column("id", kind),), (0,)),
    }
    actions = replace(pipeline(folder, **keys).cascade_actions, default=default)
    outlook = _outlook(actions, GAP, {CHILD: refused} if refused else {}, definitions)
    return outlook.text.partition("to its rows; ")[2], outlook.remedy is None


def test_apply_is_derived_where_everything_is_known_and_stops_where_not(tmp_path: Path) -> None:
    assert outcome(tmp_path, on_cascade="apply") == ("apply: what it does is derived (on_cascade: apply)", True)
    stops = "stop: the table stops before the first change of the parent that may change its rows "
    reason = "(on_cascade: apply is not possible: shop.c.pid: dates and times are not compared)"
    assert outcome(tmp_path, kind=DATE, on_cascade="apply") == (stops + reason, False)
    reason = "(on_cascade: apply is not possible: a filter)"
    assert outcome(tmp_path, refused="a filter", on_cascade="apply") == (stops + reason, False)


@pytest.mark.parametrize(
    "kind, possible",
    [
        (INT, "apply is possible"),
        (DATE, "apply is not possible: shop.c.pid: dates and times are not compared"),
    ],
)
def test_warn_says_whether_apply_would_be_possible(tmp_path: Path, kind: int, possible: str) -> None:
    text = "warn: the table continues, and its rows may be wrong"
    assert outcome(tmp_path, kind=kind, on_cascade="warn") == (f"{text} (on_cascade: warn; {possible})", False)
    origin = "default of a lake that an earlier version began"
    assert outcome(tmp_path, kind=kind) == (f"{text} ({origin}; {possible})", False)


def test_a_new_lake_derives_where_everything_is_known_and_warns_where_not(tmp_path: Path) -> None:
    assert outcome(tmp_path, default="apply_known") == ("apply: what it does is derived (default)", True)
    text = "warn: the table continues, and its rows may be wrong (default; apply is not possible: "
    reason = "shop.c.pid: dates and times are not compared)"
    assert outcome(tmp_path, kind=DATE, default="apply_known") == (text + reason, False)


def test_the_line_that_decides_is_named(tmp_path: Path) -> None:
    lines = [{"tables": "shop.*", "action": "stop"}, {"tables": ["shop.c", "shop.d"], "action": "ignore"}]
    text = "ignored: its rows may be wrong, and nothing says so (on_cascade: ignore of the line shop.c)"
    assert outcome(tmp_path, on_cascade=lines) == (text, True)
    text, is_right = outcome(tmp_path, on_cascade=lines[:1])
    assert text.startswith("stop: the table stops before the first change")
    assert "(on_cascade: stop of the line shop.*; apply is possible" in text
    assert not is_right


def test_what_the_server_logs_needs_nothing() -> None:
    outlook = _logged_outlook(GAP)
    assert outlook.text == "shop.c: the foreign key f -> shop.p ON DELETE CASCADE is logged by the server"
    assert outlook.remedy is None
