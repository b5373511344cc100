"""What rules leave of changes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.filters import ColumnRule, EventFilter, Mask, RowFilter, TableFilters
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delivery.ordered.judgement import Judge, SeenChanges
from spark_jobs.delivery.ordered.log_changes import Portion, TableChanges, steps
from spark_jobs.errors import TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition
from spark_jobs.silver.retired_columns import RetiredColumn
from tests.binlogs.segment_spec import Change, Commit, Delete, Insert, Update
from tests.spark_jobs.delivery.ordered.logged import LoggedLake, at

SCOPE = Scope.parse(["shop.*"])
LOG: list[Change] = [
    Insert("shop.orders", (1, "a")),
    Update("shop.orders", (1, "a"), (1, "b")),
    Delete("shop.orders", (1, "b")),
    Insert("shop.orders", (2, "c")),
    Commit(),
]


@pytest.fixture
def changes(tmp_path: Path) -> tuple[Judge, TableChanges]:
    """The changes of one table, and a judge without rules."""
    logged = LoggedLake.of(tmp_path, LOG).logged()
    [portion] = steps(logged, 1000)
    assert isinstance(portion, Portion)
    return Judge(logged.jobs[0], {}), portion.tables[0]


def judged(
    changes: tuple[Judge, TableChanges], filters: TableFilters, provenance: Mapping[str, str] | None = None
) -> SeenChanges:
    judge, of_table = changes
    ruled = replace(judge, job=replace(judge.job, filters=filters), provenance=provenance or {})
    return ruled.judged(of_table)


def leaving_out(*events: str) -> TableFilters:
    return TableFilters(events=(EventFilter("f", SCOPE, events, (), "ignore"),))


@pytest.mark.parametrize(
    "filters, rows",
    [
        (TableFilters(), [0, 1, 2, 3]),
        (leaving_out("insert"), [1, 2]),
        (leaving_out("update"), [0, 2, 3]),
        (leaving_out("delete"), [0, 1, 3]),
        (leaving_out("all dml"), []),
        (leaving_out("truncate table"), [0, 1, 2, 3]),
    ],
)
def test_kinds_of_changes_are_left_out(
    changes: tuple[Judge, TableChanges], filters: TableFilters, rows: list[int]
) -> None:
    seen_changes = judged(changes, filters)
    assert seen_changes.rows.tolist() == rows
    assert seen_changes.op.tolist() == [[1, 2, 3, 1][row] for row in rows]
    assert seen_changes.after.column("note").to_pylist() == [["a", "b", "b", "c"][row] for row in rows]
    assert seen_changes.before.column("note").to_pylist() == [[None, "a", None, None][row] for row in rows]


@pytest.mark.parametrize(
    "rule, provenance, columns",
    [
        ({}, {}, ["id", "note", "_raw"]),
        ({"exclude": frozenset({"note"})}, {}, ["id", "_raw"]),
        ({"include": frozenset({"id"})}, {}, ["id", "_raw"]),
        ({}, {"_source": "shop", "_table": "orders"}, ["id", "note", "_raw", "_source", "_table"]),
    ],
)
def test_columns_that_are_seen(
    changes: tuple[Judge, TableChanges], rule: dict[str, Any], provenance: dict[str, str], columns: list[str]
) -> None:
    seen_changes = judged(changes, TableFilters(columns=ColumnRule("c", SCOPE, **rule) if rule else None), provenance)
    assert seen_changes.after.column_names == seen_changes.before.column_names == columns
    assert all({*seen_changes.after.column(name).to_pylist()} == {value} for name, value in provenance.items())


def test_conditions_and_masks(changes: tuple[Judge, TableChanges]) -> None:
    condition = Condition.parse("id = 1 AND note COLLATE utf8mb4_0900_bin = 'a'")
    filters = TableFilters(
        rows=(RowFilter("r", SCOPE, insert=condition, update_old=condition),),
        columns=ColumnRule(
            "c",
            SCOPE,
            masks={"note": Mask("constant", constant="x")},
            computed=(Computed.parse("text", "CONCAT(note, '!')", "STRING"),),
        ),
    )
    seen_changes = judged(changes, filters)
    assert seen_changes.rows.tolist() == [2, 3]
    assert seen_changes.after.select(["note", "text"]).to_pylist() == [
        {"note": "x", "text": "b!"},
        {"note": "x", "text": "c!"},
    ]


def test_a_column_that_was_begun_again_stops_the_table(changes: tuple[Judge, TableChanges]) -> None:
    judge, of_table = changes
    retired = RetiredColumn("_note_until_1_4", "STRING", "note", at(4))
    with pytest.raises(TableStopped, match="apply: net"):
        judge.columns(replace(of_table.state, retired=(retired,)))
