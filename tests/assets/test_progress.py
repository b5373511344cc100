"""Lines among a run's events."""

import logging
import re
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from assets.progress import progress, sessions


class RunLog:
    """What a run's log gets, and an event for the third line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_long = threading.Event()

    def info(self, message: str) -> None:
        self.log(logging.INFO, message)

    def log(self, level: int, message: str) -> None:
        self.lines.append(f"{logging.getLevelName(level)} {message}")
        if len(self.lines) > 2:
            self.is_long.set()


def test_what_the_work_logs_is_in_the_run_and_where_it_is_silent_what_it_is_doing() -> None:
    log = RunLog()
    work = logging.getLogger("spark_jobs")
    level = work.level
    with progress(SimpleNamespace(log=log, op_def=SimpleNamespace(name="merge_shop")), interval=0.01):
        logging.getLogger("spark_jobs.bronze.extract").info("shop: reading %d bytes", 7)
        assert log.is_long.wait(20)
        work.warning("shop: too little log")
    assert log.lines[0] == "INFO shop: reading 7 bytes"
    assert re.fullmatch(r"INFO … merge_shop \(\d+ s\)", log.lines[1])
    assert "WARNING shop: too little log" in log.lines
    count = len(log.lines)
    work.info("after the step")
    assert (len(log.lines), work.level) == (count, level), "nothing stays behind"


def test_the_start_of_spark_is_said_once_a_run(caplog: pytest.LogCaptureFixture) -> None:
    resource: Any = SimpleNamespace(session=lambda: "a session")
    context = SimpleNamespace(resources=SimpleNamespace(erp_spark=resource), run=SimpleNamespace(run_id="run 1"))
    with caplog.at_level(logging.INFO, "spark_jobs"):
        assert {str(sessions(context, "erp_spark").session()) for _ in range(2)} == {"a session"}
    assert [record.getMessage().split(" after")[0] for record in caplog.records] == ["starting Spark", "Spark is up"]


def test_the_start_of_spark_takes_no_signal_for_itself() -> None:
    def session() -> str:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return "a session"

    resource: Any = SimpleNamespace(session=session)
    context = SimpleNamespace(resources=SimpleNamespace(spark=resource), run=SimpleNamespace(run_id="run 2"))
    before = signal.getsignal(signal.SIGINT)
    assert str(sessions(context, "spark").session()) == "a session"
    assert signal.getsignal(signal.SIGINT) is before
