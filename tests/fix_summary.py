"""What a run prints at its end. Put here: lines that tests hand in, and why some were skipped. Not here: tests."""

from collections import Counter
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

_SUMMARIES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def summary(pytestconfig: pytest.Config) -> list[str]:
    """Lines that the run prints at its end, whatever its verbosity."""
    return pytestconfig.stash.setdefault(_SUMMARIES, [])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One process of several hands its lines to the one that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["summaries"] = session.config.stash.get(_SUMMARIES, [])


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node: Any) -> None:
    handed_on = getattr(node, "workeroutput", {}).get("summaries", [])
    node.config.stash.setdefault(_SUMMARIES, []).extend(handed_on)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    _write_section(terminalreporter, "compared with real servers", config.stash.get(_SUMMARIES, []))
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    _write_section(terminalreporter, "skipped", [f"{times} × {reason}" for reason, times in reasons.most_common()])


def _write_section(terminalreporter: TerminalReporter, title: str, lines: list[str]) -> None:
    if lines:
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)
