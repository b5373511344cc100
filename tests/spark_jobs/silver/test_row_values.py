import pyarrow as pa
import pytest

from spark_jobs.binlog import Column, TableDefinition, TableName
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition
from spark_jobs.expressions.terms import Sort
from spark_jobs.silver.row_values import Image, fault_text, problem_of, sources_of, term_of
from tests.twins.expression_table import TABLE

COMPUTED = (Computed.parse("total", "price * n", "DECIMAL(21,2)"),)


def test_columns_as_parts_of_expressions() -> None:
    terms = {str(column.name): term_of(column) for column in TABLE.columns}
    assert [terms[name].sort for name in ("n", "ubig", "f", "state", "name", "blob_", "day", "at", "seen", "doc")] == [
        *(Sort.NUMBER, Sort.NUMBER, Sort.REAL, Sort.LABEL, Sort.TEXT),
        *(Sort.BYTES, Sort.DATE, Sort.DATETIME, Sort.MOMENT, Sort.OTHER),
    ]
    assert [(terms[name].digits, terms[name].scale) for name in ("n", "ubig", "price")] == [(10, 0), (20, 0), (10, 2)]
    assert [name for name, term in terms.items() if term.is_year] == ["y"]
    assert term_of(Column("uuid", 254, 16, charset=63, declared="uuid")).sort is Sort.OTHER
    assert term_of(Column("state", 247, 1)).sort is Sort.OTHER


def test_names_of_computed_columns_stand_for_those_of_their_expressions() -> None:
    assert sources_of({"total", "day"}, COMPUTED, {"price", "n", "day"}) == {"price", "n", "day"}
    assert sources_of({"total"}, COMPUTED, {"total"}) == {"total"}


@pytest.mark.parametrize(
    "text, problem",
    [
        ("total > 9.99", None),
        ("total = name", "`total = name` compares text by a collation"),
        ("gone = 1", "names column gone, which the table does not have"),
    ],
)
def test_what_is_wrong_with_a_condition_about_a_table(text: str, problem: str | None) -> None:
    message = problem_of(Condition.parse(text), TABLE, COMPUTED)
    assert message is None if problem is None else message and message.startswith(problem)


def test_a_cell_says_why_it_has_no_value() -> None:
    definition = TableDefinition(TableName("shop", "t"), (Column("id", 3), Column("Day", 10)))
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "Day": pa.nulls(3, pa.date32())})
    raw = pa.array([None, [("id", "x"), ("Day", "0000-00-00")], None], pa.map_(pa.string(), pa.string()))
    absent = pa.array([None, None, ["Day"]], pa.list_(pa.string()))
    cells = Image(rows, raw, absent).cells(definition, {"day"})["day"]
    assert cells.faults is not None
    assert cells.faults.tolist() == [0, 2, -2]
    assert fault_text(definition, 2).startswith("column Day: its type in the lake cannot hold the value of this row")
    assert fault_text(definition, -2).startswith("the row image leaves column Day out, a rule asks for it")
    assert Image(rows, raw.slice(0, 1)).cells(definition, {"day"})["day"].faults is None
