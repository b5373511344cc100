"""What the compacting step takes out of an outcome; the step itself is tested in test_chain.py."""

import pytest

from assets.silver import reasons_by_stopped_table
from spark_jobs.binlog import TableName
from spark_jobs.pipeline.outcome import Outcome


@pytest.mark.parametrize(
    "outcome, expected",
    [
        (None, {}),
        (Outcome([], None), {}),
        (Outcome([], None, stopped={TableName("shop", "orders"): "why"}), {("shop", "orders"): "why"}),
    ],
)
def test_stopped_tables_by_name(outcome: Outcome | None, expected: dict[tuple[str, str], str]) -> None:
    assert reasons_by_stopped_table(outcome) == expected
