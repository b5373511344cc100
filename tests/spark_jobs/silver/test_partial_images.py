from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Changes, Column, Presence, TableDefinition, TableName
from spark_jobs.errors import Unsupported
from spark_jobs.silver.net_changes import SliceOrigin, net_rows
from spark_jobs.silver.partial_images import ImageContext, completed

INSERT, UPDATE, DELETE = 1, 2, 3
NAMES = ["id", "a", "b"]
COLUMNS = tuple(Column(name, 3, default="NULL", computed=False) for name in NAMES)
TABLE = TableDefinition(TableName("shop", "t"), COLUMNS, (0,))
RAW = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True)
class Row:
    """A change as plain values: after and before by column, what is not in an image is not in the dict."""

    op: int
    after: Mapping[str, int | None]
    before: Mapping[str, int | None]


def changes_of(rows: list[Row]) -> Changes:
    """The changes as the decoder gives them, with every value's exact text in raw where it is odd."""

    def image(of: str) -> tuple[pa.RecordBatch, Presence, pa.Array]:
        dicts: list[dict[str, Any]] = [getattr(row, of) for row in rows]
        is_present = np.array([[name in dict_ for name in NAMES] for dict_ in dicts]).reshape(-1, len(NAMES))
        arrays = [pa.array([dict_.get(name) for dict_ in dicts], pa.int32()) for name in NAMES]
        odd = [[(n, f"{of} {dict_[n]}") for n in NAMES if (dict_.get(n) or 0) % 2] or None for dict_ in dicts]
        presence = Presence(is_present, np.arange(len(rows), dtype=np.int32))
        return pa.RecordBatch.from_arrays(arrays, NAMES), presence, pa.array(odd, RAW)

    (after, present, raw), (before, present_before, raw_before) = image("after"), image("before")
    return Changes(
        op=pa.array([row.op for row in rows], pa.uint8()),
        offset=pa.array(range(100, 100 + len(rows)), pa.int64()),
        row=pa.array([0] * len(rows), pa.int32()),
        committed_at=pa.array([0] * len(rows), pa.timestamp("us", "UTC")),
        gtid=None,
        after=after,
        before=before,
        raw=raw,
        before_raw=raw_before,
        present=present,
        before_present=present_before,
    )


NUMBERS = st.one_of(st.none(), st.integers(1, 9))
PARTS = st.fixed_dictionaries({}, optional={"a": NUMBERS, "b": NUMBERS})
KEYED = st.builds(lambda key, rest: {"id": key} | rest, st.integers(1, 9), PARTS)
ROWS = st.one_of(
    st.builds(lambda after: Row(INSERT, after, {}), KEYED),
    st.builds(lambda last: Row(DELETE, last, {}), KEYED),
    st.builds(lambda after, before: Row(UPDATE, after, before), PARTS, KEYED),
    st.builds(lambda after, before: Row(UPDATE, after, before), KEYED, KEYED),
)


@given(st.lists(ROWS, min_size=1, max_size=9))
def test_an_update_has_what_its_before_image_holds_and_the_rest_is_absent(rows: list[Row]) -> None:
    changes, absent, absent_before = completed(changes_of(rows), ImageContext(TABLE, "b.000001", is_mariadb=False))
    assert changes.present is None
    full_rows = [{**row.before, **row.after} if row.op == UPDATE else row.after for row in rows]
    assert changes.after.to_pylist() == [{name: row_.get(name) for name in NAMES} for row_ in full_rows]
    texts = []
    for row, full_row in zip(rows, full_rows, strict=True):
        texts_ = {
            n: f"{'after' if n in row.after else 'before'} {full_row[n]}" for n in NAMES if (full_row.get(n) or 0) % 2
        }
        texts.append(list(texts_.items()) or None)
    assert changes.raw is not None
    assert changes.raw.to_pylist() == texts
    assert absent.to_pylist() == [[name for name in NAMES if name not in row_] or None for row_ in full_rows]
    lacking = [[n for n in NAMES if n not in row.before] or None if row.op == UPDATE else None for row in rows]
    assert absent_before.to_pylist() == lacking


def refused(row: Row, table: TableDefinition = TABLE, *, is_mariadb: bool = False, unseen: str = "") -> str | None:
    try:
        completed(changes_of([row]), ImageContext(table, "b.000001", is_mariadb, frozenset(unseen.split())))
    except Unsupported as error:
        return str(error)
    return None


def with_column(name: str, **fields: Any) -> TableDefinition:
    columns = [replace(column, **fields) if column.name == name else column for column in COLUMNS]
    return replace(TABLE, columns=tuple(columns))


BAG = replace(TABLE, key=())
UNKNOWN = with_column("b", default=None)
COMPUTED, MAYBE = with_column("b", computed=True), with_column("b", computed=None)
WHOLE = {"id": 1, "a": 1, "b": 1}


@pytest.mark.parametrize(
    "row, table, reason",
    [
        (Row(UPDATE, {"a": 1}, {"a": 2}), TABLE, "column id is not in its row image: rows are told apart by it"),
        (Row(UPDATE, WHOLE, {"a": 2}), TABLE, "column id is not in its row image: rows are told apart by it"),
        (Row(INSERT, {"a": 1}, {}), TABLE, "column id is not in its row image: rows are told apart by it"),
        (Row(DELETE, {"a": 1}, {}), TABLE, "column id is not in its row image: rows are told apart by it"),
        (Row(INSERT, {"id": 1, "a": 1}, {}), UNKNOWN, "column b is not in its row image: the row was inserted with"),
        (Row(UPDATE, {"a": 1}, {"id": 1}), UNKNOWN, None),
        (Row(DELETE, {"id": 1}, {}), UNKNOWN, None),
        (Row(UPDATE, {"a": 1}, {"id": 1}), BAG, "column a is not in its row image: the table has no key"),
        (Row(UPDATE, WHOLE, {"id": 1}), BAG, "column a is not in its row image: the table has no key"),
        (Row(UPDATE, {"a": 1}, WHOLE), BAG, None),
        (Row(DELETE, {"id": 1}, {}), BAG, "the table has no key"),
        (Row(INSERT, {"id": 1}, {}), BAG, None),
    ],
)
def test_what_would_have_to_be_guessed_is_refused_with_its_place(
    row: Row, table: TableDefinition, reason: str | None
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
        (Row(UPDATE, {"a": 1}, {"id": 1}), TABLE, "", None),
        (Row(UPDATE, {"a": 1}, {"id": 1}), COMPUTED, "", "MariaDB leaves generated columns out"),
        (Row(UPDATE, {"a": 1}, WHOLE), COMPUTED, "", "MariaDB leaves generated columns out"),
        (Row(UPDATE, {"a": 1}, {"id": 1}), MAYBE, "", "this is one, or may be"),
        (Row(UPDATE, {"a": 1}, {"id": 1}), COMPUTED, "b", None),
        (Row(DELETE, {"id": 1}, {}), COMPUTED, "", None),
        (Row(UPDATE, {"id": 1, "a": 1}, {"id": 1}), TABLE, "", "as that of a REPLACE does"),
        (Row(UPDATE, {"id": 1, "a": 1}, WHOLE), TABLE, "", None),
        (Row(UPDATE, WHOLE, {"id": 1}), TABLE, "", None),
    ],
)
def test_what_mariadb_does_not_log_is_refused(
    row: Row, table: TableDefinition, unseen: str, reason: str | None
) -> None:
    error = refused(row, table, is_mariadb=True, unseen=unseen)
    assert (error is None) if reason is None else (error is not None and reason in error)
    if table is COMPUTED or reason is None or "REPLACE" in reason:
        assert refused(row, table, unseen=unseen) is None, "MySQL logs what changed"


def test_a_change_of_the_key_needs_a_whole_row_behind_it() -> None:
    changes = changes_of([Row(UPDATE, {"id": 2, "a": 1}, {"id": 1})])
    changes_, absent, _ = completed(changes, ImageContext(TABLE, "b.000001", is_mariadb=False))
    place = SliceOrigin("b.000001", 1, 1, 0)
    with pytest.raises(Unsupported, match=r"b\.000001:100: an update of the key whose row image leaves out b"):
        list(net_rows(changes_, place, NAMES, ["id"], absent))
    full_changes, absent, _ = completed(
        changes_of([Row(UPDATE, {"id": 2}, WHOLE)]), ImageContext(TABLE, "b.000001", is_mariadb=False)
    )
    new, old = net_rows(full_changes, place, NAMES, ["id"], absent)
    assert new.select([*NAMES, "_existed", "_absent"]).to_pylist() == [
        {"id": 2, "a": 1, "b": 1, "_existed": False, "_absent": None}
    ]
    assert old.schema == new.schema
