import logging

import pytest

from spark_jobs.text.progress import Progress


@pytest.mark.parametrize(
    "total, interval, expected",
    [
        (0, 0.0, []),
        (1, 60.0, ["shop: silver 1 of 1 tables"]),
        (3, 60.0, ["shop: silver 3 of 3 tables"]),
        (3, 0.0, ["shop: silver 1 of 3 tables", "shop: silver 2 of 3 tables", "shop: silver 3 of 3 tables"]),
    ],
)
def test_lines_are_due_at_the_end_and_after_some_seconds(
    total: int, interval: float, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    progress = Progress(logging.getLogger("spark_jobs.test"), "shop: silver", total, interval)
    for _ in range(total):
        progress.add()
    assert caplog.messages == expected
