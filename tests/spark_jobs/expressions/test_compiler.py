"""Conditions and values of random rows, beside the twin that evaluates row by row; and what conditions may not say.

The same expressions on servers: tests/differential/test_expressions.py.
"""

from random import Random
from typing import Any

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.expressions.compiler import Compiler
from spark_jobs.expressions.condition import Condition
from spark_jobs.expressions.terms import Sort
from spark_jobs.expressions.tree import names_in, tree_of
from spark_jobs.expressions.value_compiler import ValueCompiler
from tests.twins.expression_table import evaluated, resolve, rows_of
from tests.twins.random_expressions import Writer
from tests.twins.slow_expressions import FAULT, FaultError, truth_of, value_of

ROWS = 12


def slow(tree: Any, row: dict[str, Any], sort: Sort, *, is_condition: bool) -> Any:
    try:
        value = truth_of(tree, row) if is_condition else value_of(tree, row)
    except FaultError:
        return FAULT
    return float(value) if sort is Sort.REAL and value is not None else value


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(4, 12))]
)
def test_values_are_those_of_the_slow_twin(seed: int) -> None:
    random = Random(seed)
    writer, count = Writer(random), 0
    image, rows = rows_of(random, ROWS, faults=bool(seed % 2))
    for number in range(120):
        is_condition = number % 2 == 0
        text = writer.truth(3) if is_condition else writer.value(2)
        try:
            tree = tree_of(text)
            term = Compiler(resolve()).truth(tree) if is_condition else ValueCompiler(resolve()).value(tree)
        except ConfigError:
            continue
        if term.sort is Sort.NULL:
            continue
        values = evaluated(term.evaluate, image, names_in(tree), ROWS)
        expected = [slow(tree, row, term.sort, is_condition=is_condition) for row in rows]
        assert values == expected, text
        count += len(values)
    assert count > 500


@pytest.mark.parametrize(
    "text, refused",
    [
        ("n = (SELECT 1)", "`(SELECT 1)` is a subquery, and a filter looks at its row alone"),
        ("n IN (SELECT 1)", "`n IN (SELECT 1)` is a subquery, and a filter looks at its row alone"),
        ("EXISTS (SELECT 1) OR n", "`EXISTS(SELECT 1)` is a subquery, and a filter looks at its row alone"),
        ("NOW() > at", "`NOW()` is no function that a filter may use"),
        ("RAND() < n", "`RAND()` is no function that a filter may use"),
        ("SLEEP(n)", "`SLEEP(n)` is no function that a filter may use"),
        ("java_method('java.lang.System', 'exit', n)", "is no function that a filter may use"),
        ("@x = n", "`@x` is not among what a filter may say"),
        ("n = ?", "`?` is not among what a filter may say"),
        ("n := 1", "is not among what a filter may say"),
        ("t.n = 1", "`t.n` names a table; a filter names columns of its row alone"),
        ("n / 2 = 1", "`n / 2` is not among what a filter may say"),
        ("n DIV 2 = 1", "`n DIV 2` is not among what a filter may say"),
        ("n & 1", "`n & 1` is not among what a filter may say"),
        ("n XOR f", "`n XOR f` is no function that a filter may use"),
        ("name REGEXP 'a'", "is no function that a filter may use"),
        ("name COLLATE utf8mb4_0900_bin LIKE 'a' ESCAPE 'b'", "is not among what a filter may say"),
        ("(n, f) = (1, 2)", "is not among what a filter may say"),
        ("BINARY name = 'x'", "is no function that a filter may use"),
        ("name COLLATE utf8mb4_general_ci = 'x'", "names a collation that the lake does not know"),
        ("n = 1e", "`1e` is no number"),
        ("f < 1e999", "is larger than any DOUBLE"),
        ("fine * 0.1 = 0", "may have more than 30 digits after the point, where servers round"),
        ("wide * n > 0", "may have more than 38 digits, which the lake does not hold"),
        ("f + 1 > 0", "counts with what is a FLOAT or a DOUBLE, not a whole number or a DECIMAL"),
        ("LENGTH(name) > 1", "counts bytes of text"),
        ("CHAR_LENGTH(n) > 1", "counts characters of what is a whole number or a DECIMAL"),
        ("YEAR(name) = 1", "is taken of what is text"),
        ("name LIKE 'x%'", "write it COLLATE utf8mb4_0900_bin"),
        ("name COLLATE utf8mb4_0900_bin LIKE 'a\\\\%'", "has a backslash in its pattern"),
        ("name", "`name` is text, and no condition"),
    ],
)
def test_refused(text: str, refused: str) -> None:
    with pytest.raises(ConfigError) as error:
        Condition.parse(text).compiled(resolve())
    assert refused in str(error.value)


@pytest.mark.parametrize(
    "text", ["name COLLATE utf8mb4_0900_bin NOT LIKE 'a%'", "NOT name COLLATE utf8mb4_0900_bin LIKE 'a%'"]
)
def test_not_like_is_the_opposite_of_like(text: str) -> None:
    image, rows = rows_of(Random(1), ROWS, faults=False)
    condition = Condition.parse(text)
    values = evaluated(condition.compiled(resolve()), image, condition.columns, ROWS)
    assert values == [None if row["name"] is None else not row["name"].startswith("a") for row in rows]
    assert {*values} >= {True, False}
