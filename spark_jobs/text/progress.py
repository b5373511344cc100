"""Progress lines of a run: one every few seconds where it takes long, and one at its end.

Put here: when a line is due. Not here: what a run does (pipeline/tables_at_once.py), or where lines go.
"""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

_EVERY = 10.0
"""Seconds from one line to the next: a run over 1,000 tables prints dozens, not thousands."""


class ProgressLog:
    """Counts tables that are done in one layer, from several threads."""

    def __init__(self, log: logging.Logger, layer: str, total: int, interval: float = _EVERY) -> None:
        self._log, self._layer, self._total, self._interval = log, layer, total, interval
        self._lock = threading.Lock()
        self._count = 0
        self._due = time.monotonic() + interval

    def add(self, _: object = None) -> None:
        """Counts a table, and prints where it is the last, or where the last line is some seconds old."""
        with self._lock:
            self._count += 1
            now = time.monotonic()
            if self._count < self._total and now < self._due:
                return
            self._due = now + self._interval
            self._log.info("%s %d of %d tables", self._layer, self._count, self._total)


class Heartbeat(logging.Handler):
    """Repeats the last line of the work, with its age, where no line has come for a while.

    A context manager; meanwhile the lines of a logger and of those below it come here.
    """

    def __init__(self, logger: logging.Logger, write: Callable[[str], None], interval: float = _EVERY) -> None:
        super().__init__(logging.INFO)
        self._logger, self._write, self._interval = logger, write, interval
        self._is_over = threading.Event()
        self._line, self._since = "", time.monotonic()
        self._due = self._since + interval
        self._thread = threading.Thread(target=self._repeat, name="stratalog-progress", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        self._line, self._since = record.getMessage(), time.monotonic()
        self._due = self._since + self._interval

    def __enter__(self) -> Self:
        self._level = self._logger.level
        self._logger.setLevel(min(self._level or logging.INFO, logging.INFO))
        self._logger.addHandler(self)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def _repeat(self) -> None:
        while not self._is_over.wait(self._interval / 5):
            self.acquire()
            try:
                now = time.monotonic()
                if self._line and now >= self._due:
                    self._due = now + self._interval
                    self._write(f"… {self._line} ({now - self._since:.0f} s)")
            finally:
                self.release()
