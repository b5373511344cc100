"""Follower: one process that runs each source when its log has grown or the lake has work for it, until a stop.

A thread a source waits for news: of a server by a dump connection, of a folder by looking at it. The caller's thread
runs one source after another, at most once an interval each; a source that failed waits, twice as long each time.

Put here: waiting, and which source is next. Not here: what a run does (pipeline/run.py), or what is printed of it
(cli/follow.py).
"""

import logging
import threading
import time
from dataclasses import dataclass, field

from spark_jobs.bronze.source_endpoints import endpoints_of
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import StratalogError
from spark_jobs.operations.observation.backlog import backlog, bronze_position, has_pending_work
from spark_jobs.source.binlog_dump import FARTHEST
from spark_jobs.source.log_watch import LogWatch
from spark_jobs.source.server import Server

log = logging.getLogger(__name__)

LOOK = 30.0
"""Seconds without news after which the lake is asked whether another process left work, such as a reset."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds that a source waits after its first failure in a row, and at most."""
_LEAST_PAUSE = 1.0
"""Seconds between two runs of which the first found nothing, and between two looks at a folder."""
_FAR_PAUSE = 5.0
"""Seconds between two looks at a server's log where no dump can wait: behind 4 GiB of a file."""
_STEP = 0.5
"""Seconds after which a wait looks whether it was stopped: a signal's handler must not touch the event's lock."""


@dataclass(slots=True)
class Pace:
    """Times of the runs of a source, by the monotonic clock.

    interval: seconds from the beginning of a run to that of the next, at least. due: when it may be run.
    """

    interval: float
    failures: int = 0
    due: float = 0.0

    def succeeded(self, began: float, ended: float, *, has_news: bool) -> None:
        """Set when the next run is due, after one that succeeded. has_news: whether there was anything to do."""
        self.failures = 0
        self.due = max(began + self.interval, 0.0 if has_news else ended + _LEAST_PAUSE)

    def failed(self, ended: float) -> float:
        """Set when the next run is due, after one that failed, and return the seconds until then."""
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0**self.failures)
        self.failures += 1
        self.due = max(self.due, ended + wait)
        return wait


@dataclass
class _Watch:
    """The thread that waits for one source's news. is_armed: whether it waits; news: whether some has come."""

    pipeline: Pipeline
    name: str
    wake: threading.Event
    is_armed: threading.Event = field(default_factory=threading.Event)
    news: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin with news: nobody has looked yet."""
        self.news.set()
        threading.Thread(target=self._watch, name=f"watch {self.name}", daemon=True).start()

    def arm(self) -> None:
        """Start waiting for what comes after bronze's end."""
        self.news.clear()
        self.is_armed.set()

    def _watch(self) -> None:
        while True:
            self.is_armed.wait()
            self.is_armed.clear()
            # What keeps it from waiting is met by the run as well, which says it; so the source is run in any case.
            try:
                self._await_news()
            except StratalogError as error:
                log.debug("%s: the log is not watched: %s", self.name, error)
            except Exception:
                log.warning("%s: the log is not watched", self.name, exc_info=True)
            finally:
                self.news.set()
                self.wake.set()

    def _await_news(self) -> None:
        source, position = endpoints_of(self.pipeline, self.name).current(), bronze_position(self.pipeline, self.name)
        if position is None:
            return
        if not isinstance(source, Server) or position.offset > FARTHEST:
            pause = _FAR_PAUSE if isinstance(source, Server) else _LEAST_PAUSE
            while not self._has_grown():
                time.sleep(pause)
            return
        with LogWatch(self.name, source.settings, position, LOOK) as watch:
            while not watch.grows():
                if has_pending_work(self.pipeline, self.name):
                    return

    def _has_grown(self) -> bool:
        ahead = backlog(self.pipeline, self.name)
        return ahead.moved or ahead.left_behind


class Follower:
    """Chooser of the next source to run. ``stop`` may be called from any thread, and by a signal's handler."""

    def __init__(self, pipeline: Pipeline, names: list[str], interval: float) -> None:
        """interval: seconds, at least, between the beginnings of two runs of a source."""
        self._wake = threading.Event()
        self._watches = {name: _Watch(pipeline, name, self._wake) for name in names}
        self._paces = {name: Pace(interval) for name in names}
        self.is_stopped = False
        """True if ``stop`` was called."""

    def start(self) -> None:
        """Start a thread a source; each source has news at first, since nobody has looked yet."""
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        """End ``next_source``. Takes no lock, which the thread that a signal interrupts might hold."""
        self.is_stopped = True

    def next_source(self, deadline: float) -> str | None:
        """Wait for a source with news, of several the one that has waited longest; None at the deadline or a stop.

        deadline: by the monotonic clock. Call ``arm`` once a run of the source has its log in bronze, and
        ``record_success`` or ``record_failure`` when the run ends.
        """
        while not self.is_stopped:
            self._wake.clear()
            now = time.monotonic()
            due = {name: self._paces[name].due for name, watch in self._watches.items() if watch.news.is_set()}
            name = min(due, key=lambda source: due[source], default=None)
            if name is not None and due[name] <= now:
                return name
            if deadline <= now:
                return None
            self._wake.wait(min(deadline - now, due[name] - now if name else _STEP, _STEP))
        return None

    def arm(self, name: str) -> None:
        """Wait for news of a source from here on: a run has all of its log up to now in bronze."""
        self._watches[name].arm()

    def record_success(self, name: str, began: float, *, has_news: bool) -> None:
        """Schedule the next run of a source after one that succeeded.

        began: second of the monotonic clock; has_news: whether there was anything to do.
        """
        self._paces[name].succeeded(began, time.monotonic(), has_news=has_news)

    def record_failure(self, name: str) -> float:
        """Schedule the next run of a source after one that failed; returns the seconds until then."""
        self._watches[name].news.set()
        return self._paces[name].failed(time.monotonic())
