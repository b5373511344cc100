"""Progress lines in the event log of a run: what a step logs, and its present work where it logs nothing.

Put here: how lines get there. Not here: when one is due (spark_jobs/text/progress.py), or what is logged.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import spark_jobs
from assets.steps import Sessions
from spark_jobs.runtime.interrupt import own_handler_kept
from spark_jobs.text.progress import Heartbeat, doing

if TYPE_CHECKING:  # imports pyspark
    from pyspark.sql import SparkSession

_EVERY = 5.0
"""Seconds without a line after which one is written."""
_ANNOUNCED: set[str] = set()
"""Runs of this process that have started Spark."""


class _RunLines(Heartbeat):
    """Passes what the work logs on to a run's log as well."""

    def __init__(self, log: Any, interval: float) -> None:
        super().__init__(logging.getLogger(spark_jobs.__name__), log.info, interval)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self._log.log(record.levelno, record.getMessage())


@contextmanager
def progress(context: Any, interval: float = _EVERY) -> Iterator[None]:
    """Send log lines of the work, and its activity while it is silent, to the run's events during the block."""
    with _RunLines(context.log, interval), doing(context.op_def.name):
        yield


class AnnouncedSessions:
    """Spark sessions whose start is a line of the run."""

    def __init__(self, sessions: Sessions, run_id: str) -> None:
        self._sessions, self._run_id = sessions, run_id

    def session(self) -> "SparkSession":
        """The session of the code location; its start is announced once a run."""
        if self._run_id in _ANNOUNCED:
            return self._sessions.session()
        log = logging.getLogger(spark_jobs.__name__)
        began = time.monotonic()
        log.info("starting Spark")
        with own_handler_kept(), doing("starting Spark"):
            session = self._sessions.session()
        log.info("Spark is up after %.1f s", time.monotonic() - began)
        _ANNOUNCED.add(self._run_id)
        return session


def sessions(context: Any, key: str) -> Sessions:
    """The resource of a run that gives Spark sessions."""
    return AnnouncedSessions(getattr(context.resources, key), context.run.run_id)
