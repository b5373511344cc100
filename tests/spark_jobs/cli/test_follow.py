import os
import signal
from collections.abc import Iterator

import pytest

from spark_jobs.cli.follow import _stopped_by_signals
from tests.fix_cli import Stratalog

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture
def received() -> Iterator[list[int]]:
    """Signals that came to the handlers from before the block under test."""
    numbers: list[int] = []
    before = {number: signal.signal(number, lambda received, _: numbers.append(received)) for number in NUMBERS}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize("second", NUMBERS)
def test_the_first_signal_asks_for_the_end_and_the_second_works_as_before(
    first: signal.Signals, second: signal.Signals, received: list[int]
) -> None:
    stops: list[str] = []
    with _stopped_by_signals(lambda: stops.append("stop")):
        os.kill(os.getpid(), first)
        assert (stops, received) == (["stop"], [])
        os.kill(os.getpid(), second)
        assert (stops, received) == (["stop"], [second])
    os.kill(os.getpid(), signal.SIGTERM)
    assert (stops, received) == (["stop"], [second, signal.SIGTERM])


@pytest.mark.parametrize(
    "words, message",
    [
        (["--interval", "-1"], "Invalid value for '--interval'"),
        (["--interval", "soon"], "Invalid value for '--interval'"),
        (["--maintain-every", "-1"], "Invalid value for '--maintain-every'"),
        (["--source", "nobody"], "no source 'nobody'; it has shop"),
    ],
)
def test_wrong_use_is_said_before_anything_starts(
    stratalog: Stratalog, pipeline_file: object, words: list[str], message: str
) -> None:
    ran = stratalog("run", "-c", pipeline_file, "--follow", *words)
    assert ran.status == 2
    assert message in ran.err
