"""The order of a run in several processes. Put here: the longest files first, and their seconds. Not here: tests.

Files begin in the order of ``seconds.json``, so that no process is left with a long one at the end. It is a guess: what
it lacks comes last, and nothing is tested by it. ``pytest --store-seconds`` writes down what the files of a run took.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("seconds.json")
_LEAST = 3
"""Seconds below which a file need not be remembered."""
_SECONDS = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store-seconds", action="store_true", help=f"write the seconds of the run's files to {FILE.name}"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the processes of a run by pytest-xdist, which hands out files as they are collected."""
    if hasattr(config, "workerinput"):
        seconds = json.loads(FILE.read_text())
        items.sort(key=lambda item: -seconds.get(file_of(item.nodeid), 0))


def file_of(test: str) -> str:
    return test.partition("::")[0]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--store-seconds"):
        config.pluginmanager.register(_Clock(), "seconds-of-files")


class _Clock:
    """Adds up what the files of a run take."""

    def __init__(self) -> None:
        self._seconds = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Files that the run did not have stay as they are, those that are gone go."""
        if not hasattr(session.config, "workerinput"):
            measured = {file: round(seconds) for file, seconds in self._seconds.items()}
            seconds = {**json.loads(FILE.read_text()), **measured}
            files = [file for file in sorted(seconds) if seconds[file] >= _LEAST and (FILE.parents[1] / file).is_file()]
            listed = {file: seconds[file] for file in files}
            FILE.write_text(f"{json.dumps(listed, indent=2)}\n")
