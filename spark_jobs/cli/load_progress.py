"""Progress of ``stratalog load`` while it reads: rows so far, their total, and the remaining time.

Put here: the lines, and the estimate in them. Not here: how far a load has come (pipeline/initial_load/commit.py).
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.binlog import TableName
    from spark_jobs.pipeline.initial_load.commit import LoadCommit

log = logging.getLogger("spark_jobs")
_READING = "reading"


@dataclass(slots=True)
class LoadProgress:
    """Logs how far each table of a load is, and how long the rest takes at the rate so far."""

    clock: Callable[[], float] = time.monotonic
    _begins: dict["TableName", tuple[float, int]] = field(default_factory=dict)
    """Time when a table was first seen, and the rows that it had then."""

    def __call__(self, table: "TableName", commit: "LoadCommit") -> None:
        rest = self._rest(table, commit)
        log.info("%s: %s: %d rows%s in %d ranges", table, commit.state, commit.rows, rest, commit.chunks)

    def _rest(self, table: "TableName", commit: "LoadCommit") -> str:
        """The server's guess of all rows, and the time that the rest of them takes; nothing once all are read."""
        now = self.clock()
        since, rows = self._begins.setdefault(table, (now, commit.rows))
        if commit.state != _READING or not commit.estimate:
            return ""
        rate = (commit.rows - rows) / (now - since) if now > since else 0
        missing = max(commit.estimate - commit.rows, 0)
        remaining = f", {rate:,.0f} a second, about {timedelta(seconds=round(missing / rate))} to go" if rate else ""
        return f" of about {commit.estimate}{remaining}"
