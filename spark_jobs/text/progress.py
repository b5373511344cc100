"""Progress lines of a run: one every few seconds where it takes long, and one at its end.

Put here: when a line is due. Not here: what a run does (pipeline/tables_at_once.py).
"""

import logging
import threading
import time

_EVERY = 10.0
"""Seconds from one line to the next: a run over 1,000 tables prints dozens, not thousands."""


class Progress:
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
