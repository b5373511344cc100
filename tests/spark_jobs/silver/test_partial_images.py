from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import TableDefinition
from spark_jobs.errors import Unsupported
from spark_jobs.silver.net_changes import SliceOrigin, net_rows
from spark_jobs.silver.partial_images import ImageContext, changes_and_absent_columns
from tests.binlogs.partial_changes import COLUMNS, NAMES, PARTS, ROW_CHANGES, TABLE, changes_of, texts_of
from tests.twins.plain_layers import RowChange

PARTIAL_CHANGES = st.one_of(ROW_CHANGES, st.builds(lambda rest: RowChange({"id": 1} | rest, rest), PARTS))


@given(st.lists(PARTIAL_CHANGES, min_size=1, max_size=9))
def test_an_update_has_what_its_before_image_holds_and_the_rest_is_absent(rows: list[RowChange]) -> None:
    changes, absent = changes_and_absent_columns(changes_of(rows), ImageContext(TABLE, "b.000001", is_mariadb=False))
    assert changes.present is None
    full_rows = [{**(row.before or {}), **(row.after or {})} for row in rows]
    assert changes.after.to_pylist() == [
        {name: one_row_cells.get(name) for name in NAMES} for one_row_cells in full_rows
    ]
    assert changes.raw is not None
    assert changes.raw.to_pylist() == [texts_of(one_row_cells) for one_row_cells in full_rows]
    assert absent.after.to_pylist() == [
        [name for name in NAMES if row.before is not None and name not in one_row_cells] or None
        for row, one_row_cells in zip(rows, full_rows, strict=True)
    ]
    befores = [row.before if row.after is not None else None for row in rows]
    lacking = [None if before is None else [n for n in NAMES if n not in before] or None for before in befores]
    assert absent.before.to_pylist() == lacking


def refused(
    row: RowChange, table: TableDefinition = TABLE, *, is_mariadb: bool = False, unseen: str = ""
) -> str | None:
    try:
        changes_and_absent_columns(
            changes_of([row]), ImageContext(table, "b.000001", is_mariadb, frozenset(unseen.split()))
        )
    except Unsupported as error:
        return str(error)
    return None


def with_column(name: str, **fields: Any) -> TableDefinition:
    columns = [replace(column, **fields) if column.name == name else column for column in COLUMNS]
    return replace(TABLE, columns=tuple(columns))


KEYLESS = replace(TABLE, key=())
UNKNOWN, NUMBERED = with_column("b", default=None), with_column("id", default="7")
COMPUTED, MAYBE = with_column("b", computed=True), with_column("b", computed=None)
WHOLE = {"id": 1, "a": 1, "b": 1}


@pytest.mark.parametrize(
    "row, table, reason",
    [
        (RowChange({"a": 2}, {"a": 1}), TABLE, "column id is not in its row image: rows are identified by it"),
        (RowChange({"a": 2}, WHOLE), TABLE, "column id is not in its row image: rows are identified by it"),
        (RowChange(None, {"a": 1}), TABLE, "column id is not in its row image: rows are identified by it"),
        (RowChange({"a": 1}, None), TABLE, "column id is not in its row image: rows are identified by it"),
        (RowChange(None, {"id": 1, "a": 1}), UNKNOWN, "column b is not in its row image: the row was inserted with"),
        (RowChange(None, {"a": 1}), NUMBERED, None),
        (RowChange({"a": 1}, None), NUMBERED, "column id is not in its row image: rows are identified by it"),
        (RowChange({"a": 2}, {"a": 1}), NUMBERED, "column id is not in its row image: rows are identified by it"),
        (RowChange({"id": 1}, {"a": 1}), UNKNOWN, None),
        (RowChange({"id": 1}, None), UNKNOWN, None),
        (RowChange({"id": 1}, {"a": 1}), KEYLESS, "column a is not in its row image: the table has no key"),
        (RowChange({"id": 1}, WHOLE), KEYLESS, "column a is not in its row image: the table has no key"),
        (RowChange(WHOLE, {"a": 1}), KEYLESS, None),
        (RowChange({"id": 1}, None), KEYLESS, "the table has no key"),
        (RowChange(None, {"id": 1}), KEYLESS, None),
    ],
)
def test_what_would_have_to_be_guessed_is_refused_with_its_place(
    row: RowChange, table: TableDefinition, reason: str | None
) -> None:
    error = refused(row, table)
    if reason is None:
        assert error is None
    else:
        assert error is not None
        assert error.startswith("b.000001:100: row 0 of shop.t: ")
        assert reason in error


@pytest.mark.parametrize(
    "row, table, unseen, reason",
    [
        (RowChange({"id": 1}, {"a": 1}), TABLE, "", None),
        (RowChange({"id": 1}, {"a": 1}), COMPUTED, "", "MariaDB leaves generated columns out"),
        (RowChange(WHOLE, {"a": 1}), COMPUTED, "", "MariaDB leaves generated columns out"),
        (RowChange({"id": 1}, {"a": 1}), MAYBE, "", "this is one, or may be"),
        (RowChange({"id": 1}, {"a": 1}), COMPUTED, "b", None),
        (RowChange({"id": 1}, None), COMPUTED, "", None),
        (RowChange({"id": 1}, {"id": 1, "a": 1}), TABLE, "", "as that of a REPLACE does"),
        (RowChange(WHOLE, {"id": 1, "a": 1}), TABLE, "", None),
        (RowChange({"id": 1}, WHOLE), TABLE, "", None),
    ],
)
def test_what_mariadb_does_not_log_is_refused(
    row: RowChange, table: TableDefinition, unseen: str, reason: str | None
) -> None:
    error = refused(row, table, is_mariadb=True, unseen=unseen)
    assert (error is None) if reason is None else (error is not None and reason in error)
    if table is COMPUTED or reason is None or "REPLACE" in reason:
        assert refused(row, table, unseen=unseen) is None, "MySQL logs what changed"


def test_an_insert_has_the_defaults_of_what_it_leaves_out() -> None:
    table = replace(TABLE, columns=(*COLUMNS[:2], replace(COLUMNS[2], default="7")))
    rows = [RowChange(None, {"id": 1}), RowChange(None, {"id": 2, "b": 3}), RowChange({"id": 3}, {"a": 4})]
    changes, absent = changes_and_absent_columns(changes_of(rows), ImageContext(table, "b.000001", is_mariadb=False))
    assert changes.after.to_pylist() == [
        {"id": 1, "a": None, "b": 7}, {"id": 2, "a": None, "b": 3}, {"id": 3, "a": 4, "b": None},
    ]  # fmt: skip
    assert absent.after.to_pylist() == [None, None, ["b"]]


def test_a_change_of_the_key_names_the_old_key_where_its_image_lacks_columns() -> None:
    changes = changes_of([RowChange({"id": 1}, {"id": 2, "a": 1}), RowChange(WHOLE, {"id": 2})])
    decoded, absent = changes_and_absent_columns(changes, ImageContext(TABLE, "b.000001", is_mariadb=False))
    new, old = net_rows(decoded, SliceOrigin("b.000001", 1, 1, 0), NAMES, ["id"], absent)
    assert new.select([*NAMES, "_existed", "_absent", "_moved_from", "_moved"]).to_pylist() == [
        {"id": 2, "a": 1, "b": None, "_existed": False, "_absent": ["b"], "_moved_from": ["v1"], "_moved": True},
        {"id": 2, "a": 1, "b": 1, "_existed": False, "_absent": None, "_moved_from": None, "_moved": False},
    ]
    assert old.schema == new.schema
    assert old.select(["_absent", "_moved_from"]).to_pylist() == [
        {"_absent": ["a", "b"], "_moved_from": None},
        {"_absent": None, "_moved_from": None},
    ]


def test_the_old_key_of_a_row_lacks_what_its_image_leaves_out() -> None:
    changes = changes_of([RowChange({"id": 1, "b": 3}, WHOLE | {"id": 2})])
    whole_changes, absent = changes_and_absent_columns(changes, ImageContext(TABLE, "b.000001", is_mariadb=False))
    _, old = net_rows(whole_changes, SliceOrigin("b.000001", 1, 1, 0), NAMES, ["id"], absent)
    assert old.select([*NAMES, "_exists", "_absent"]).to_pylist() == [
        {"id": 1, "a": None, "b": 3, "_exists": False, "_absent": ["a"]}
    ]
