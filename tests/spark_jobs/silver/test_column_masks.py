"""Masks of Arrow columns beside a twin in plain Python: random rows, every kind of mask and of column."""

import hashlib
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.config.table_patterns import Scope
from spark_jobs.errors import TableStopped
from spark_jobs.expressions.computed import Computed
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.silver.masking import columns_seen
from spark_jobs.silver.net_changes import SliceOrigin, image_rows
from spark_jobs.silver.partial_images import ImageContext, changes_and_absent_columns
from tests.binlogs import partial_changes
from tests.twins.plain_layers import RowChange

TABLE = TableDefinition(
    TableName("shop", "t"),
    (
        Column("id", 3),
        Column("big", 8, unsigned=True),
        Column("amount", 246, 38 << 8 | 30),
        Column("Born", 10),
        Column("name", 15, 80, charset=255),
        Column("photo", 252, 2, charset=63),
        Column("weight", 5, 8),
    ),
    key=(0,),
)
TYPES = {str(column.name): column.arrow for column in TABLE.columns}
TEXTS = pa.map_(pa.string(), pa.string())
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-(1 << 31), (1 << 31) - 1),
    "big": st.one_of(st.integers(0, (1 << 64) - 1), st.just(0)),
    "amount": st.one_of(st.integers(1 - 10**38, 10**38 - 1), st.sampled_from([0, 1, -1])).map(
        lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -30))
    ),
    "Born": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "name": st.text(st.characters(codec="utf-8"), max_size=6),
    "photo": st.binary(max_size=6),
    "weight": st.floats(allow_nan=False),
}
MASKS: dict[str, list[object]] = {
    "id": ["hash", 7, None],
    "big": ["hash", None],
    "amount": ["hash", None],
    "Born": ["hash", None],
    "name": ["hash", "truncate", "removed", 12, None],
    "photo": ["hash", "truncate", None],
    "weight": [None],
}


def mask_of(kind: object) -> Mask:
    match kind:
        case "hash":
            return Mask("hash", salt="pepper·")
        case "truncate":
            return Mask("truncate", length=2)
    return Mask("constant", constant=kind)  # type: ignore[arg-type]


@st.composite
def rows_and_rules(draw: st.DrawFn) -> tuple[pa.Table, ColumnRule]:
    count = draw(st.integers(0, 8))
    columns = {
        name: draw(st.lists(st.none() | values, min_size=count, max_size=count)) for name, values in VALUES.items()
    }
    # What a column does not hold, its exact text tells: the value is NULL then.
    raw = [
        [(name, draw(st.text("0-x", max_size=3))) for name, cells in columns.items() if cells[row] is None]
        if draw(st.booleans())
        else None
        for row in range(count)
    ]
    arrays = {name: pa.array(cells, TYPES[name]) for name, cells in columns.items()}
    rows = pa.table(arrays | {"_raw": pa.array([row or None for row in raw], TEXTS)})
    kinds_of: dict[str, list[object]] = {name: [*kinds, "no", "no"] for name, kinds in MASKS.items()}
    kinds_of["id"] = ["hash", "no"]  # a key
    masks = {
        name.casefold(): mask_of(kind) for name in TYPES if (kind := draw(st.sampled_from(kinds_of[name]))) != "no"
    }
    excluded = draw(st.sets(st.sampled_from([name.casefold() for name in TYPES if name != "id"]), max_size=2))
    return rows, ColumnRule("r", Scope(), exclude=frozenset(excluded), masks=masks)


def slowly(row: dict[str, Any], rule: ColumnRule) -> dict[str, Any]:
    """A row behind its masks, value by value."""
    raw = row["_raw"] or {}
    masked = {
        name: slow_mask(row[name], rule.mask(name), raw.get(name)) for name in TYPES if not rule.is_left_out(name)
    }
    visible = {name: text for name, text in raw.items() if name in masked and not rule.mask(name)}
    return {**masked, "_raw": visible or None}


def slow_mask(value: Any, mask: Mask | None, text: str | None) -> Any:
    if mask is None:
        return value
    if mask.kind == "truncate":
        return None if value is None else value[: mask.length]
    if mask.kind == "constant":
        return mask.constant
    # A value that only its text tells stands behind a zero byte.
    content = text_of(value) if value is not None else None if text is None else b"\0" + text.encode()
    return None if content is None else hashlib.sha256(mask.salt.encode() + content).hexdigest()


def text_of(value: Any) -> bytes | None:
    """What is hashed of a value: bytes as they are, of others their text."""
    if value is None or isinstance(value, bytes):
        return value
    return (format(value, "f") if isinstance(value, Decimal) else str(value)).encode()


@given(rows_and_rules())
def test_columns_are_masked_as_the_slow_twin_does(case: tuple[pa.Table, ColumnRule]) -> None:
    rows, rule = case
    masked = masks_of(TABLE, rule).apply(rows)
    assert {*masked.column_names} == {*columns_seen(TABLE, rule).types, "_raw"}
    slow_rows = [slowly(row, rule) for row in rows.to_pylist(maps_as_pydicts="strict")]
    for name in masked.column_names:
        constant = (mask := rule.mask(name)) and mask.kind == "constant" and mask.constant
        cells = [row[name] for row in slow_rows]
        expected = [str(cell) for cell in cells] if constant and TYPES[name] == pa.string() else cells
        assert masked.column(name).combine_chunks().to_pylist(maps_as_pydicts="strict") == expected, name


def test_without_a_rule_nothing_is_masked() -> None:
    assert not masks_of(TABLE, None)
    assert not masks_of(TABLE, ColumnRule("r", Scope()))


def test_a_value_that_only_its_exact_text_tells_is_hashed_by_it() -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "Born": pa.array([None], pa.date32())})
    rows = rows.append_column("_raw", pa.array([[("Born", "0000-00-00"), ("other", "x")]], TEXTS))
    rule = ColumnRule("r", Scope(), include=frozenset({"id", "born"}), masks={"born": mask_of("hash")})
    definition = TableDefinition(TABLE.name, (TABLE.columns[0], TABLE.columns[3]), (0,))
    masked = masks_of(definition, rule).apply(rows).to_pylist(maps_as_pydicts="strict")
    assert masked[0]["_raw"] == {"other": "x"}
    assert masked[0]["Born"] not in (None, "0000-00-00")
    assert silver.columns(definition).types["Born"] == "DATE"


COMPUTED = ColumnRule(
    "r",
    Scope(),
    exclude=frozenset({"amount"}),
    masks={"name": mask_of("truncate")},
    computed=(
        Computed.parse("year", "YEAR(born)", "INT"),
        Computed.parse("label", "CONCAT(name, '!')", "STRING"),
        Computed.parse("gone", "missing + 1", "BIGINT"),
    ),
)
DATED = pa.table(
    {name: pa.nulls(2, kind) for name, kind in TYPES.items()}
    | {"Born": pa.array([date(2024, 2, 29), None]), "name": ["abc", "d"]}
    | {
        "_raw": pa.array([None, [("Born", "0000-00-00")]], TEXTS),
        "_position": [{"stretch": 1, "number": 7, "offset": offset, "row": 0} for offset in (4, 90)],
    }
)


def test_columns_are_computed_from_what_masks_hide() -> None:
    rows = masks_of(TABLE, COMPUTED).apply(DATED.slice(0, 1)).to_pylist()
    assert [(row["name"], row["year"], row["label"], row["gone"]) for row in rows] == [("ab", 2024, "abc!", None)]
    assert "amount" not in rows[0]


def test_a_value_that_the_lake_does_not_hold_stops_its_table_at_its_place() -> None:
    reason = r"columns\.r\.computed\.year: column Born: its type in the lake cannot hold the value of a row"
    with pytest.raises(TableStopped, match=rf"^b\.000007:90: {reason}"):
        masks_of(TABLE, COMPUTED).apply(DATED, {(1, 7): "b.000007"})
    with pytest.raises(TableStopped, match=rf"^{reason}"):
        masks_of(TABLE, COMPUTED).apply(DATED)


def test_rows_without_a_key_are_masked_where_images_leave_columns_out() -> None:
    keyless = replace(partial_changes.TABLE, key=())
    rule = ColumnRule("r", Scope(), masks={"a": mask_of("hash")}, computed=(Computed.parse("more", "b + 1", "BIGINT"),))
    images = partial_changes.changes_of(
        [RowChange(None, {"id": 1, "a": 2}), RowChange({"id": 1, "a": 2, "b": 4}, None)]
    )
    changes, absent = changes_and_absent_columns(images, ImageContext(keyless, "b.000001", is_mariadb=False))
    rows = pa.concat_tables(image_rows(changes, SliceOrigin("b.000001", 1, 1, 0), partial_changes.NAMES, absent))
    masked = masks_of(keyless, rule).apply(rows).to_pylist()
    hashed = hashlib.sha256("pepper·2".encode()).hexdigest()
    names = ("id", "a", "b", "more", "_copies")
    assert [tuple(row[name] for name in names) for row in masked] == [
        (1, hashed, None, None, 1),
        (1, hashed, 4, 5, -1),
    ]


def test_old_keys_are_masked_and_unknown_ones_stay_unknown() -> None:
    rule = ColumnRule("r", Scope(), exclude=frozenset({"b"}), masks={"id": mask_of("hash")})
    absent, moved = [["a"], None, ["a", "b"], ["b"]], [["v1"], None, [], ["v1"]]
    rows = pa.table(
        {name: pa.nulls(4, pa.int32()) for name in partial_changes.NAMES}
        | {"_raw": pa.nulls(4, TEXTS)}
        | {"_absent": pa.array(absent), "_moved_from": pa.array(moved, pa.list_(pa.string()))}
    )
    masked = masks_of(partial_changes.TABLE, rule).apply(rows).column("_moved_from").to_pylist()
    assert masked == [["v" + hashlib.sha256("pepper·1".encode()).hexdigest()], None, [], None]
