"""Choices and texts by example; random ones are in test_compiler.py."""

from typing import Any

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.expressions.tree import tree_of
from spark_jobs.expressions.value_compiler import ValueCompiler
from tests.twins.expression_table import named, resolve


@pytest.mark.parametrize(
    "text, value",
    [
        ("LEFT(name, 0)", ""),
        ("LEFT(name, 9)", "ä𝄞x"),
        ("RIGHT(name, 0)", ""),
        ("RIGHT(name, 2)", "𝄞x"),
        ("RIGHT(name, 9)", "ä𝄞x"),
        ("SUBSTRING(name, 2)", "𝄞x"),
        ("SUBSTRING(name, 2, 1)", "𝄞"),
        ("SUBSTRING(name, 9)", ""),
        ("CONCAT(name, '!', LEFT(name, 1))", "ä𝄞x!ä"),
        ("CONCAT(name, NULL)", None),
        ("IF(n = 8, 'a', name)", "ä𝄞x"),
        ("IF(NULL, 'a', 'b')", "b"),
        ("CASE WHEN n IS NULL THEN 1 WHEN n > 7 THEN 2 END", None),
    ],
)
def test_values(text: str, value: Any) -> None:
    row = named(name="ä𝄞x", n=7)
    assert ValueCompiler(resolve()).value(tree_of(text)).evaluate(row).over(1).to_pylist() == [value]


def test_what_is_asked_for_null_alone_has_no_value() -> None:
    with pytest.raises(ConfigError, match="is of a type that is asked for NULL alone"):
        ValueCompiler(resolve()).value(tree_of("doc"))
