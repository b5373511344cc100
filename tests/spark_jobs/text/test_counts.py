"""Counts in sentences."""

import pytest

from spark_jobs.text.counts import counted


@pytest.mark.parametrize("count, text", [(0, "0 tables"), (1, "1 table"), (2, "2 tables")])
def test_a_noun_has_the_form_of_its_number(count: int, text: str) -> None:
    assert counted(count, "table") == text
