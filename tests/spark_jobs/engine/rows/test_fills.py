"""Columns that statements add with a default: which steps say so, and files written again with them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark_jobs.ddl.default_values import Fill
from spark_jobs.delta import schema_changes
from spark_jobs.delta.schema import column_of
from spark_jobs.delta.snapshot import new_table
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.fills import ColumnFill, rewritten_with_fills, with_fills
from spark_jobs.errors import LakeError
from spark_jobs.silver.schema_evolution import assignments, steps
from spark_jobs.text.sql import literal
from tests.fix_hypothesis import examples
from tests.spark_jobs.engine.lake_rows import MAPPED, Row, alive, stored, table_of

NASTY = st.lists(st.sampled_from(["'", "\\", "`", ", ", "` = CAST(", " AS STRING)", "ü", "\n", "a"]), max_size=5)
TEXTS = NASTY.map("".join)
NAMES = st.lists(TEXTS.filter(bool), min_size=1, max_size=3, unique_by=str.lower)


@examples(300)
@given(NAMES, st.data())
def test_assignments_are_the_inverse_of_steps(names: list[str], data: st.DataObject) -> None:
    values = {name: literal(data.draw(TEXTS)) for name in names}
    (*_, step) = steps(
        {"id": "INT"},
        {"id": "INT"} | dict.fromkeys(names, "STRING"),
        {"id": "id"} | dict.fromkeys(names, None),
        {name: Fill(sql) for name, sql in values.items()},
    )
    assert assignments(step) == {name: f"CAST({sql} AS STRING)" for name, sql in values.items()}


def test_steps_that_fill_are_told_from_the_others() -> None:
    adds = ["ADD COLUMN (`a` INT FIRST)", "UPDATE SET `a` = CAST(1 AS INT), `b` = CAST('x' AS STRING)", "DROP COLUMN c"]
    assert fills.split(adds) == ([adds[0], adds[2]], {"a": "CAST(1 AS INT)", "b": "CAST('x' AS STRING)"})
    exact = "UPDATE SET _raw = map_concat(_raw)"
    assert fills.split([exact]) == ([exact], {}), "an exact text is no value of a column"


def test_fills_are_of_columns_behind_the_statement() -> None:
    before = new_table("t", {"id": "INT"}, MAPPED)
    behind = schema_changes.apply(before, ["ADD COLUMN (`a` INT AFTER `id`)"])
    (fill,) = fills.fills_of(behind, {"a": "CAST(1 AS INT)"})
    assert (fill.column, fill.sql, fill.value) == (behind.schema.column("a"), "CAST(1 AS INT)", None)
    with pytest.raises(LakeError, match="no column 'a'"):
        fills.fills_of(before, {"a": "CAST(1 AS INT)"})


BEFORE = new_table("t", {"id": "INT", "v": "INT", "_raw": "MAP<STRING, STRING>"}, MAPPED)
BEHIND = schema_changes.apply(BEFORE, ["ADD COLUMN (`w` BIGINT AFTER `id`)", "ADD COLUMN (`d` DECIMAL(10,2) FIRST)"])
FILLS = (
    ColumnFill(BEHIND.schema.column("w"), "CAST(4 AS BIGINT)", pa.scalar(4, pa.int32())),
    ColumnFill(BEHIND.schema.column("d"), "NULL", pa.scalar(None, pa.decimal128(10, 2))),
)


@pytest.mark.parametrize(
    "cells_by_name, expected",
    [
        ({"id": [1, 2]}, {"id": [1, 2], "w": [4, 4], "d": [None, None]}),
        ({"w": [9, None], "id": [1, 2]}, {"w": [4, 4], "id": [1, 2], "d": [None, None]}),
        ({"id": []}, {"id": [], "w": [], "d": []}),
    ],
)
def test_rows_with_filled_columns(cells_by_name: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    filled = with_fills(pa.table({name: pa.array(cells, pa.int64()) for name, cells in cells_by_name.items()}), FILLS)
    assert filled.to_pydict() == expected
    assert (filled.schema.field("w").type, filled.schema.field("d").type) == (pa.int64(), pa.decimal128(10, 2))


def test_a_filled_column_may_have_the_name_of_one_that_is_dropped(tmp_path: Path) -> None:
    """Rows from before both statements keep their cells for versions in between, and have the new column's value."""
    before = table_at(tmp_path)
    dropped = schema_changes.apply(before, ["DROP COLUMN `v`"])
    behind = schema_changes.apply(dropped, ["ADD COLUMN (`v` INT AFTER `id`)"])
    fill = ColumnFill(behind.schema.column("v"), "7", pa.scalar(7))
    rows = table_of([Row((1,), 2, 3)], ("id",), before.schema)
    file = fills.write(before.path, rows, before.schema, before.configuration, (fill,))
    for design, value in ((before, 2), (behind, 7)):
        assert [row["v"] for row in alive(before.path, file, design.schema)] == [value]


def test_a_file_is_written_again_without_the_rows_that_a_vector_marks(tmp_path: Path) -> None:
    table = new_table(str(tmp_path), {"id": "INT", "v": "INT", "_raw": "MAP<STRING, STRING>"}, MAPPED)
    behind = schema_changes.apply(table, ["ADD COLUMN (`w` INT AFTER `id`)"])
    rows = [table_of([Row((key,), key * 2, key) for key in keys], ("id",), table.schema) for keys in ((1, 2, 3), (4,))]
    marked = stored(table, rows, {0: [1]})
    fill = ColumnFill(behind.schema.column("w"), "7", pa.scalar(7))
    all_rows = [
        row
        for file in marked.files
        for new in rewritten_with_fills(marked.path, file, marked.schema, marked.configuration, (fill,))
        for row in alive(marked.path, new, behind.schema)
    ]
    assert sorted((row["id"], row["w"], row["v"]) for row in all_rows) == [(1, 7, 2), (3, 7, 6), (4, 7, 8)]
    empty = stored(table_at(tmp_path / "other"), [rows[0]], {0: [0, 1]})
    assert len([*rewritten_with_fills(empty.path, empty.files[0], empty.schema, empty.configuration, (fill,))]) == 1


def table_at(folder: Path) -> Any:
    return new_table(str(folder), {"id": "INT", "v": "INT", "_raw": "MAP<STRING, STRING>"}, MAPPED)


LITERALS = {
    "STRING": ["'it\\'s'", "''", "' AS INT)'", "'a\\\\b\\u0024{c}\n'", "'-12:34:56.5'", "'CAST(1 AS INT)'"],
    "BINARY": ["X''", "X'00ff0a'"],
    "TINYINT": ["0", "-128"],
    "SMALLINT": ["2155"],
    "INT": ["4294967", "-1"],
    "BIGINT": ["-9223372036854775808"],
    "DECIMAL(20,0)": ["18446744073709551615"],
    "DECIMAL(10,2)": ["'1.50'", "'-0.05'", "'0.00'"],
    "DECIMAL(38,30)": ["'99999999.999999999999999999999999999999'"],
    "FLOAT": ["'1.1'", "'0'", "'3.4028235e+38'", "'1e-45'"],
    "DOUBLE": ["'0.1'", "'1.2389999999999999'", "'-2.5E+10'"],
    "DATE": ["'0001-01-01'", "'2026-02-28'", "'9999-12-31'", "NULL"],
    "TIMESTAMP_NTZ": ["'1000-01-01 00:00:00'", "'2026-01-01 10:00:00.125000'"],
    "TIMESTAMP": ["TIMESTAMP'2026-11-28 15:08:32.711318Z'", "TIMESTAMP'1970-01-01 00:00:01Z'"],
}
"""Defaults as ddl/default_values.py writes them, by the types that columns have."""
WIDENED = [
    "CAST(CAST('1.1' AS FLOAT) AS DOUBLE)",
    "CAST(CAST(7 AS TINYINT) AS BIGINT)",
    "CAST(CAST(7 AS INT) AS DECIMAL(20,0))",
    "CAST(CAST('1.50' AS DECIMAL(10,2)) AS DECIMAL(20,4))",
    "CAST(CAST('2026-02-28' AS DATE) AS TIMESTAMP_NTZ)",
]


@pytest.mark.spark
def test_values_are_those_that_spark_gives(spark: SparkSession) -> None:
    texts = [f"CAST({sql} AS {kind})" for kind, literals in LITERALS.items() for sql in literals] + WIDENED
    values = fills.values_by_expression([*texts, texts[0]])
    assert [*values] == texts
    row = spark.range(1).selectExpr(*(f"{sql} AS c{at}" for at, sql in enumerate(texts))).toArrow()
    for at, sql in enumerate(texts):
        kind = column_of("", sql[sql.rindex(" AS ") + 4 : -1]).arrow(physical=False).type
        assert values[sql].type == kind, sql
        assert values[sql] == row.column(at)[0].cast(kind), sql


@examples(300)
@given(TEXTS)
def test_a_text_is_its_own_value(text: str) -> None:
    sql = f"CAST({literal(text)} AS STRING)"
    assert fills.values_by_expression([sql])[sql].as_py() == text


def test_another_expression_is_refused() -> None:
    for sql in ("now()", "CAST(uuid('secret') AS STRING)", "'a' || 'b'"):
        with pytest.raises(LakeError, match="is no literal that is known") as refused:
            fills.values_by_expression([sql])
        assert "secret" not in str(refused.value)
