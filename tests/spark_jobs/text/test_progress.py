import logging
import re
import threading

import pytest

from spark_jobs.text.progress import Heartbeat, ProgressLog


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
    progress = ProgressLog(logging.getLogger("spark_jobs.test"), "shop: silver", total, interval)
    for _ in range(total):
        progress.add()
    assert caplog.messages == expected


def test_a_silent_run_repeats_its_last_line_with_its_age() -> None:
    lines: list[str] = []
    is_long = threading.Event()

    def write(line: str) -> None:
        lines.append(line)
        is_long.set()

    work = logging.getLogger("spark_jobs")
    level = work.level
    with Heartbeat(work, write, interval=0.01):
        assert lines == [], "nothing is repeated before the first line"
        logging.getLogger("spark_jobs.any").info("starting %s", "Spark")
        assert is_long.wait(20)
    assert re.fullmatch(r"… starting Spark \(\d+ s\)", lines[0])
    count = len(lines)
    assert (work.level, work.handlers, len(lines)) == (level, [], count)
