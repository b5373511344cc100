import pickle

import pytest

from spark_jobs.errors import ConfigError
from spark_jobs.expressions.condition import Condition


def test_names_are_told_in_small_letters() -> None:
    assert Condition.parse("`N` = 1 AND Price > 2").columns == {"n", "price"}


def test_a_condition_names_a_column() -> None:
    with pytest.raises(ConfigError, match="'1 = 1' names no column, and so says nothing about a row"):
        Condition.parse("1 = 1")


def test_a_condition_goes_to_tasks() -> None:
    condition = Condition.parse("n = 1")
    assert pickle.loads(pickle.dumps(condition)) == condition  # noqa: S301 - our own bytes
