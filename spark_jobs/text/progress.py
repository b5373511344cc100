"""Present work of the process, and how that is shown: a line on a terminal that is drawn again, lines in a log.

Work says what it does by ``doing``, from any thread. What is shown is the newest activity that has not ended, never one
that has, with its age, and with a count and an estimate where it has a total.

Put here: activities, and the two ways to show them. Not here: what a run does (pipeline/tables_at_once.py), or where
lines of a log go.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, Self

_EVERY = 10.0
"""Seconds without a line in a log after which one is written."""
_DRAWN_EVERY = 0.5
"""Seconds from one drawing of the line on a terminal to the next, and until the first."""
_BAR = 20
"""Columns of a bar."""
_ERASE = "\r\x1b[2K"


class Activity:
    """Work that has begun and not ended.

    text: what is done; verb and object. total: how many items it has; 0 where that is not known. unit: what many items
    are called; then the total is an estimate, and the line has their rate. is_verb: whether it is the verb itself,
    which says less than a line of a log.
    """

    def __init__(self, text: str, total: int = 0, *, unit: str = "", is_verb: bool = False) -> None:
        self.text, self.total, self.unit, self.is_verb = text, total, unit, is_verb
        self.count = 0
        self.began = time.monotonic()
        self.since = self.began
        """Second of time.monotonic() that the age counts from."""
        self.thread = threading.get_ident()
        self._lock = threading.Lock()

    def add(self, _: object = None) -> None:
        """Count an item."""
        with self._lock:
            self.count += 1

    def leave_out(self, part: "Activity") -> None:
        """Take the time of a part, which ends now, out of the age."""
        self.since += time.monotonic() - part.began

    def line(self, now: float) -> str:
        """The activity with its age and, where it has a total, its count and how long the rest takes as it went."""
        age, count = now - self.since, self.count
        missing = max(self.total - count, 0)
        rest = f", about {age / count * missing:.0f} s to go" if count and missing else ""
        if self.unit:
            total = f" of about {self.total:,}" if self.total else ""
            rate = f", {count / age:,.0f} a second" if count and age else ""
            return f"{self.text}: {count:,}{total} {self.unit} ({age:.0f} s{rate}{rest})"
        counted = f": {count} of {self.total}" if self.total else ""
        return f"{self.text}{counted} ({age:.0f} s{rest})"

    def bar(self) -> str:
        """Bar that shows the share of the total; nothing without a total."""
        if not self.total:
            return ""
        full = _BAR * min(self.count, self.total) // self.total
        return f"[{'#' * full}{'-' * (_BAR - full)}] "


_activities: list[Activity] = []
_lock = threading.Lock()
_output = threading.RLock()
"""Lock of the thread that writes to the terminal."""
_lines: "list[StatusLine]" = []


def current() -> Activity | None:
    """The newest activity that has not ended."""
    with _lock:
        return _activities[-1] if _activities else None


@contextmanager
def doing(text: str, total: int = 0, *, unit: str = "", is_verb: bool = False) -> Iterator[Activity]:
    """Report the activity while the ``with`` block runs."""
    activity = Activity(text, total, unit=unit, is_verb=is_verb)
    with _lock:
        _activities.append(activity)
    try:
        yield activity
    finally:
        with _lock:
            at = _activities.index(activity)
            del _activities[at]
            # A part is shown with an age of its own, which is not time of what it interrupted.
            outer = next((before for before in reversed(_activities[:at]) if before.thread == activity.thread), None)
            if outer and not outer.is_verb:
                outer.leave_out(activity)


@contextmanager
def erased() -> Iterator[None]:
    """Take the line away from the terminal, and let nothing be drawn inside: for output, pagers and questions."""
    with _output:
        for line in _lines:
            line.erase()
        yield


class StatusLine:
    """Draws the current activity on a terminal's last line until the ``with`` block ends."""

    def __init__(self, stream: IO[Any], interval: float = _DRAWN_EVERY) -> None:
        self._stream, self._interval = stream, interval
        self._is_over = threading.Event()
        self._is_drawn = False
        self._thread = threading.Thread(target=self._draw, name="stratalog-status", daemon=True)

    def __enter__(self) -> Self:
        _lines.append(self)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        with erased():
            _lines.remove(self)

    def erase(self) -> None:
        """Remove what is drawn, if anything is; by a thread that has the terminal."""
        if self._is_drawn:
            self._is_drawn = False
            self._put(_ERASE)

    def _draw(self) -> None:
        while not self._is_over.wait(self._interval):
            activity = current()
            if activity is None:
                continue
            text = f"{activity.bar()}{activity.line(time.monotonic())}"
            width = shutil.get_terminal_size().columns - 1
            with _output:
                self._is_drawn = True
                self._put(f"{_ERASE}{''.join(filter(str.isprintable, text))[:width]}")

    def _put(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # the terminal is gone, which what is printed next finds out as well
            self._is_over.set()


class Heartbeat(logging.Handler):
    """Writes what is being done, with its age, where no line of the work has come for a while.

    A context manager; meanwhile the lines of a logger and of those below it come here. The verb alone is not written: a
    verb that follows a log would write for ever.
    """

    def __init__(self, logger: logging.Logger, write: Callable[[str], None], interval: float = _EVERY) -> None:
        super().__init__(logging.INFO)
        self._logger, self._write, self._interval = logger, write, interval
        self._is_over = threading.Event()
        self._due = time.monotonic() + interval
        self._thread = threading.Thread(target=self._repeat, name="stratalog-progress", daemon=True)

    def emit(self, _: logging.LogRecord) -> None:
        self._due = time.monotonic() + self._interval

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
                now, activity = time.monotonic(), current()
                if activity and not activity.is_verb and now >= self._due:
                    self._due = now + self._interval
                    self._write(f"… {activity.line(now)}")
            finally:
                self.release()
