"""Masks of Arrow columns give what Spark's SQL gives: random rows, every kind of mask and of column."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.config.filters import ColumnRule, Mask
from spark_jobs.config.table_patterns import Scope
from spark_jobs.silver import masking
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import masks_of
from spark_jobs.text.sql import identifier
from tests.fix_hypothesis import examples

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


def by_sql(spark: SparkSession, rows: pa.Table, shape: masking.Shape) -> list[dict[str, Any]]:
    frame = spark.createDataFrame(rows).selectExpr("*", f"'{shape.salt or ''}' AS {masking.SALT}")
    cells = [f"{cell} AS {identifier(name)}" for name, cell in shape.cells.items()]
    return [row.asDict(recursive=True) for row in frame.selectExpr(*cells).collect()]


def plain(rows: pa.Table) -> Iterator[dict[str, Any]]:
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        yield {name: cell if not isinstance(cell, bytes) else bytearray(cell) for name, cell in row.items()}


@pytest.mark.spark
def test_columns_are_masked_as_spark_does(spark: SparkSession) -> None:
    @examples(30)
    @given(rows_and_rules())
    def check(case: tuple[pa.Table, ColumnRule]) -> None:
        rows, rule = case
        shape = masking.shape(TABLE, rule)
        masked = masks_of(TABLE, rule).apply(rows)
        assert set(masked.column_names) == {*shape.columns.types, "_raw"}
        by_names = masked.select([*shape.cells])
        if len(rows):
            assert list(plain(by_names)) == by_sql(spark, rows, shape)

    check()


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
