from random import Random
from typing import Any

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.expressions.computed import Computed, type_text
from spark_jobs.expressions.condition import Condition
from spark_jobs.expressions.terms import Resolve
from tests.twins.expression_table import TABLE, evaluated, resolve, rows_of


def values(text: str, kind: str) -> list[Any]:
    """Of some rows of the table, none of them NULL."""
    computed = Computed.parse("c", text, kind)
    image, _ = rows_of(Random(3), 8, faults=False)
    evaluate = computed.compiled(resolve())
    assert evaluate(image.cells(TABLE, computed.columns)).over(8).type == computed.arrow
    return evaluated(evaluate, image, computed.columns, 8)


@pytest.mark.parametrize(
    "text, kind",
    [
        ("price * n", "DECIMAL(21,2)"),
        ("n + 1", "bigint"),
        ("f", "DOUBLE"),
        ("n % 7 = 0", "BOOLEAN"),
        ("name", "STRING"),
        ("state", "STRING"),
        ("blob_", "BINARY"),
        ("day", "DATE"),
        ("DATE(at)", "DATE"),
        ("seen", "TIMESTAMP"),
        ("MONTH(at)", "SMALLINT"),
        ("IF(n > 3, f, n)", "DOUBLE"),
        ("CASE WHEN n > 3 THEN n ELSE 0.5 END", "decimal(11, 1)"),
        ("CONCAT(LEFT(name, 1), RIGHT(name, 2), SUBSTRING(name, 2, 1), '''')", "STRING"),
        ("IF(n, NULL, NULL)", "INT"),
    ],
)
def test_types_that_hold_every_value(text: str, kind: str) -> None:
    assert Computed.parse("c", text, kind).type == type_text(kind)
    assert len(values(text, kind)) == 8


@pytest.mark.parametrize(
    "text, kind, refused",
    [
        ("price * n", "DECIMAL(20,2)", "is DECIMAL(21,2), which DECIMAL(20,2) does not hold"),
        ("price", "DECIMAL(20,1)", "does not hold"),
        ("n", "INT", "does not hold"),
        ("n", "STRING", "does not hold"),
        ("name", "INT", "is text, which INT does not hold"),
        ("doc", "STRING", "is of a type that is asked for NULL alone"),
        ("n", "NUMBER", "'NUMBER' is no type of a computed column"),
        ("n", "DECIMAL(39,0)", "is no type of a computed column"),
        ("1 + 1", "INT", "names no column"),
        ("UPPER(name)", "STRING", "`UPPER(name)` is no function"),
        ("RAND() * n", "DOUBLE", "`RAND()` is no function"),
        ("(SELECT n)", "INT", "is a subquery"),
        ("java_method('java.lang.System', 'exit', n)", "INT", "is no function"),
        ("CONCAT(name, n)", "STRING", "is made of text, and `n` is DECIMAL(10,0)"),
        ("IF(n, name, n)", "STRING", "is a whole number or a DECIMAL or text; write one of them"),
        ("CASE n WHEN 1 THEN 2 END", "INT", "write CASE WHEN with conditions"),
        ("SUBSTRING(name, 0)", "STRING", "begins at 0"),
        ("LEFT(name, n)", "STRING", "counts by what is not a whole number"),
        ("n / 2", "DOUBLE", "`n / 2` is not among"),
        ("DATE(seen)", "DATE", "is taken of what is a TIMESTAMP"),
    ],
)
def test_refused(text: str, kind: str, refused: str) -> None:
    with pytest.raises(ConfigError) as error:
        Computed.parse("c", text, kind).compiled(resolve())
    assert refused in str(error.value)


@pytest.mark.parametrize(
    "text, kind, condition",
    [
        ("price * n", "DECIMAL(21,2)", "c > 9.99 AND c * n < 100"),
        ("MONTH(at)", "SMALLINT", "c IN (1, 12)"),
        ("n + 1", "BIGINT", "c % 2 = 0"),
        ("f", "DOUBLE", "c < 1e3"),
        ("n % 7 = 0", "BOOLEAN", "c OR NOT n"),
        ("CONCAT(LEFT(name, 1))", "STRING", "c COLLATE utf8mb4_0900_bin = 'a'"),
        ("DATE(at)", "DATE", "c < '2024-02-29'"),
        ("seen", "TIMESTAMP", "c IS NULL OR c < '2024-02-29 12:00:00'"),
        ("blob_", "BINARY", "LENGTH(c) > 3"),
    ],
)
def test_a_condition_may_name_a_computed_column(text: str, kind: str, condition: str) -> None:
    computed, checked = Computed.parse("c", text, kind), Condition.parse(condition)
    image, _ = rows_of(Random(3), 8, faults=False)
    names = computed.columns | checked.columns - {"c"}
    assert {*evaluated(checked.compiled(computed_with(computed)), image, names, 8)} <= {True, False, None}


def computed_with(computed: Computed) -> Resolve:
    """The columns of the table, and a computed one."""
    of_table = resolve()
    return lambda name: computed.term(of_table) if name == "c" else of_table(name)


def test_text_that_is_computed_is_compared_by_its_characters_alone() -> None:
    with pytest.raises(ConfigError, match="compares text by a collation"):
        Condition.parse("c = 'a'").compiled(computed_with(Computed.parse("c", "CONCAT(name)", "STRING")))
