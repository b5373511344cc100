import io
import logging
import re
import threading
import time

import pytest

from spark_jobs.text.progress import Activity, Heartbeat, StatusLine, current, doing, erased


def test_what_is_shown_is_the_newest_activity_that_has_not_ended() -> None:
    with doing("shop: run", is_verb=True) as verb:
        with doing("starting Spark"):
            assert (current() or verb).text == "starting Spark"
        assert current() is verb
    assert current() is None


def test_the_age_is_without_the_parts_that_this_thread_did_meanwhile() -> None:
    def begun_earlier(activity: Activity, seconds: float) -> None:
        activity.since -= seconds
        activity.began -= seconds

    with doing("shop: run", is_verb=True) as verb, doing("merging") as merging:
        begun_earlier(verb, 100)
        begun_earlier(merging, 90)
        with doing("starting Spark") as starting:
            begun_earlier(starting, 60)
            with doing("compiling") as compiling:
                begun_earlier(compiling, 20)
            assert starting.line(time.monotonic()) == "starting Spark (40 s)"
        assert merging.line(time.monotonic()) == "merging (30 s)"
        thread = threading.Thread(target=lambda: begun_and_ended("elsewhere"))
        thread.start()
        thread.join()
        assert merging.line(time.monotonic()) == "merging (30 s)"
    assert verb.line(time.monotonic()) == "shop: run (100 s)"


def begun_and_ended(text: str) -> None:
    with doing(text) as activity:
        activity.began -= 25


def test_an_activity_ends_with_an_error_too_and_in_any_order() -> None:
    with pytest.raises(ValueError, match="x"), doing("merging"):
        raise ValueError("x")
    first, second = doing("a"), doing("b")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (current() or Activity("")).text == "b"
    second.__exit__(None, None, None)
    assert current() is None


@pytest.mark.parametrize(
    "total, count, line, bar",
    [
        (0, 0, "merging (10 s)", ""),
        (4, 0, "merging: 0 of 4 (10 s)", "[--------------------] "),
        (4, 1, "merging: 1 of 4 (10 s, about 30 s to go)", "[#####---------------] "),
    ],
)
def test_a_line_has_an_age_and_of_a_total_an_estimate(total: int, count: int, line: str, bar: str) -> None:
    activity = Activity("merging", total)
    for _ in range(count):
        activity.add()
    assert (activity.line(activity.since + 10), activity.bar()) == (line, bar)


@pytest.mark.parametrize(
    "total, count, line",
    [
        (10_000, 0, "reading shop.t: 0 of about 10,000 rows (10 s)"),
        (10_000, 2_500, "reading shop.t: 2,500 of about 10,000 rows (10 s, 250 a second, about 30 s to go)"),
        (10_000, 12_000, "reading shop.t: 12,000 of about 10,000 rows (10 s, 1,200 a second)"),
        (0, 2_500, "reading shop.t: 2,500 rows (10 s, 250 a second)"),
    ],
)
def test_rows_have_a_rate_and_a_guess_of_their_number(total: int, count: int, line: str) -> None:
    activity = Activity("reading shop.t", total, unit="rows")
    activity.count = count
    assert activity.line(activity.since + 10) == line


class Terminal(io.StringIO):
    """A terminal, and an event for its first line."""

    def __init__(self) -> None:
        super().__init__()
        self.is_drawn = threading.Event()

    def write(self, text: str) -> int:
        size = super().write(text)
        if "Spark" in text:
            self.is_drawn.set()
        return size


def test_a_terminal_has_the_line_until_something_is_printed() -> None:
    terminal = Terminal()
    with StatusLine(terminal, interval=0.01), doing("starting \x1b[2JSpark"):
        assert terminal.is_drawn.wait(20)
        with erased():
            size = len(terminal.getvalue())
            assert terminal.getvalue().endswith("\r\x1b[2K")
            time.sleep(0.05)
            assert len(terminal.getvalue()) == size, "nothing is drawn over output"
    assert "\x1b[2Kstarting [2JSpark (0 s)" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_a_silent_run_says_what_it_is_doing_and_not_what_it_has_logged() -> None:
    lines: list[str] = []
    is_long = threading.Event()

    def write(line: str) -> None:
        lines.append(line)
        is_long.set()

    work = logging.getLogger("spark_jobs")
    level = work.level
    with Heartbeat(work, write, interval=0.01), doing("run", is_verb=True):
        logging.getLogger("spark_jobs.any").info("Spark is up")
        time.sleep(0.1)
        assert lines == [], "a verb alone is no news"
        with doing("merging 3 tables"):
            assert is_long.wait(20)
    assert re.fullmatch(r"… merging 3 tables \(\d+ s\)", lines[0])
    count = len(lines)
    assert (work.level, work.handlers, len(lines)) == (level, [], count)
