import pickle

import pytest
import sqlglot

from spark_jobs.errors import ConfigError
from spark_jobs.expressions.computed import Computed
from spark_jobs.expressions.condition import Condition


def test_names_are_told_in_small_letters() -> None:
    assert Condition.parse("`N` = 1 AND Price > 2").columns == {"n", "price"}


def test_a_condition_names_a_column() -> None:
    with pytest.raises(ConfigError, match="'1 = 1' names no column, and so says nothing about a row"):
        Condition.parse("1 = 1")


def test_a_condition_goes_to_tasks() -> None:
    condition = Condition.parse("n = 1")
    assert pickle.loads(pickle.dumps(condition)) == condition  # noqa: S301 - our own bytes


def test_a_text_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each table asks for the rules of its pipeline, and there may be thousands of tables."""
    parsed, parse = list[str](), sqlglot.parse

    def counting(text: str, read: str) -> object:
        parsed.append(text)
        return parse(text, read=read)

    monkeypatch.setattr(sqlglot, "parse", counting)
    for _ in range(3):
        Condition.parse("parsed_once > 2")
        Computed.parse("c", "parsed_once + 2", "int")
    assert parsed == ["parsed_once > 2", "parsed_once + 2"]
