"""The files of a run: their order in several processes, and the share of them that a run has.

Files begin in the order of ``seconds.json``, so that no process is left with a long one at the end. It is a guess: what
it lacks comes last, and nothing is tested by it. ``pytest --store-seconds`` writes down what the files of a run took.

STRATALOG_SHARE=2/3 leaves a run the second third of the files with tests that are marked thorough, stores or cluster;
all other tests are in each run. Three runs, one with each share, have every test once.

Put here: which files a run has, and in which order. Not here: tests, or which share a commit has (.ci/run).
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("seconds.json")
_LEAST = 3
"""Seconds below which a file need not be remembered."""
_SHARED = ("thorough", "stores", "cluster")
"""Marks of the tests that runs with a share divide between them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store-seconds", action="store_true", help=f"write the seconds of the run's files to {FILE.name}"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The share of the run, in the order in which pytest-xdist hands out files."""
    share = os.environ.get("STRATALOG_SHARE")
    is_worker = hasattr(config, "workerinput")
    if not share and not is_worker:
        return
    seconds = json.loads(FILE.read_text())
    if share:
        number, count = map(int, share.split("/"))
        if not 1 <= number <= count:
            raise pytest.UsageError(f"STRATALOG_SHARE={share}: write it like 2/3")
        shared = {item for item in items if any(item.get_closest_marker(mark) for mark in _SHARED)}
        chosen = shares({file_of(item.nodeid) for item in shared}, seconds, count)[number - 1]
        left_out = [item for item in items if item in shared and file_of(item.nodeid) not in chosen]
        items[:] = [item for item in items if item not in shared or file_of(item.nodeid) in chosen]
        config.hook.pytest_deselected(items=left_out)
    if is_worker:
        items.sort(key=lambda item: -seconds.get(file_of(item.nodeid), 0))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A session of few files may have none of a share, which is no failure."""
    if os.environ.get("STRATALOG_SHARE") and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


def shares(files: Collection[str], seconds: Mapping[str, int], count: int) -> list[set[str]]:
    """Shares of files that take about as long as each other: the longest first, each to the share with least."""
    divided, totals = [set[str]() for _ in range(count)], [0] * count
    for file in sorted(files, key=lambda file: (-seconds.get(file, _LEAST), file)):
        shortest = totals.index(min(totals))
        divided[shortest].add(file)
        totals[shortest] += seconds.get(file, _LEAST)
    return divided


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
