"""Endpoints of a source: several servers that have the same log, and which of them is read.

A run takes the first one that works, in the order of the strategy. One that did not answer, or lacks the log after
bronze's end, is skipped for a while: 30 seconds at first, twice as long after each further try, half an hour at most.
Where all of them are waiting, all are tried: no run fails for a wait.

What was found is kept in a small file beside pipeline.yaml, for the next run and for ``status``. It is a hint: without
it every endpoint counts as available.

Put here: strategies, and health from run to run. Not here: what a server is asked (server.py), or whether another log
may be taken up (bronze/resume.py).
"""

import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeVar

from spark_jobs.config import model as config
from spark_jobs.errors import AccessDenied, AnotherLog, SourceError
from spark_jobs.source.open import open_sources
from spark_jobs.source.protocol import Source
from spark_jobs.source.server import Server
from spark_jobs.text.replaced import replace_text

log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(minutes=30)
BETTER = 60.0
"""Difference by which an endpoint's score has to be better than that of the one in use: each move opens a stretch."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Health:
    """An endpoint that was found unavailable: since when, how often it was tried, when it is tried next, and why."""

    since: datetime
    tries: int
    next_try: datetime
    reason: str

    def after_failure(self, now: datetime, reason: str) -> "Health":
        """Health after a further try."""
        wait = min(FIRST_WAIT * 2**self.tries, LONGEST_WAIT)
        return Health(self.since, self.tries + 1, now + wait, reason)

    @classmethod
    def of(cls, note: dict[str, str]) -> "Health":
        since, next_try = (datetime.fromisoformat(note[key]) for key in ("since", "next_try"))
        return cls(since, int(note["tries"]), next_try, note["reason"])


@dataclass(frozen=True)
class Endpoints:
    """The endpoints of one source. in_use: the address of the one that bronze's end comes from."""

    name: str
    sources: Sequence[Source]
    choose: Literal["listed", "hash", "score"] = "listed"
    path: Path | None = None
    in_use: str | None = None
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def first(self, work: Callable[[Source], Result], *, proves: bool = True) -> Result:
        """Result of work on the first endpoint that does not fail by a SourceError.

        proves: whether an endpoint that did not fail in it can be read, and counts as available again. Raises
        SourceError with what each of them said, and at once AnotherLog, or what is not about the endpoint.
        """
        # A single endpoint has no alternative, so its error is the answer.
        if len(self.sources) == 1:
            return work(self.sources[0])
        failures: list[str] = []
        kinds: set[type[SourceError]] = set()
        for source in self._by_health():
            try:
                result = work(source)
            # A log that is another one is an answer, not a failure of the endpoint.
            except AnotherLog:
                raise
            except SourceError as error:
                reason = str(error).removeprefix(f"{self.name}: ").removeprefix(f"{source.endpoint} ")
                self._note_state(source, reason)
                failures.append(f"{source.endpoint}: {reason}")
                kinds.add(type(error))
                log.warning("%s: endpoint %s is skipped: %s", self.name, source.endpoint, reason)
            else:
                if proves:
                    self._note_state(source, None)
                return result
        # Where all deny access, another try does not help; one that is down may be back, and let the user in.
        kind = AccessDenied if kinds == {AccessDenied} else SourceError
        raise kind("\n".join([f"{self.name}: none of its endpoints can be read", *failures]))

    def current(self) -> Source:
        """The one that bronze's end comes from, or where that is none of them, the one that is preferred."""
        return next((source for source in self.sources if source.endpoint == self.in_use), None) or self.ordered()[0]

    def health(self) -> dict[str, Health]:
        """State of endpoints that were unavailable, by address."""
        return _read_notes(self.path).get(self.name, {})

    def ordered(self) -> list[Source]:
        """The endpoints as the strategy prefers them."""
        if self.choose == "hash":
            return sorted(self.sources, key=lambda source: sha256(f"{self.name} {source.endpoint}".encode()).digest())
        return self._by_score() if self.choose == "score" else list(self.sources)

    def _by_score(self) -> list[Source]:
        """Sources by load, those first that answer; the one in use before others that are hardly better."""
        with ThreadPoolExecutor(len(self.sources)) as pool:
            loads = dict(zip(self.sources, pool.map(_load, self.sources), strict=True))
        handicap = {source: 0.0 if source.endpoint == self.in_use else BETTER for source in self.sources}
        return sorted(self.sources, key=lambda source: loads[source] + handicap[source])

    def _by_health(self) -> list[Source]:
        """Sources that are not waiting, then those that are."""
        now, states = self.clock(), self.health()
        # One that is to wait for longer than any does was noted before the clock was set back.
        waiting = {address for address, health in states.items() if now < health.next_try <= now + LONGEST_WAIT}
        return sorted(self.ordered(), key=lambda source: source.endpoint in waiting)

    def _note_state(self, source: Source, reason: str | None) -> None:
        """Keep that an endpoint is unavailable, or (reason None) that it is not any more."""
        assert source.endpoint is not None
        notes = _read_notes(self.path)
        states = notes.get(self.name, {})
        before = states.pop(source.endpoint, None)
        if reason is None and before is None:
            return
        if reason is not None:
            now = self.clock()
            states[source.endpoint] = (before or Health(now, 0, now, reason)).after_failure(now, reason)
        _write_notes(self.path, notes | {self.name: states})


def open_endpoints(
    name: str, settings: config.SourceSettings, path: Path | None, in_use: str | None = None
) -> Endpoints:
    """The endpoints of a configured source; one for a directory. Nothing is connected yet. path: of the kept health."""
    return Endpoints(name, open_sources(name, settings), settings.choose, path, in_use)


def _load(source: Source) -> float:
    try:
        return source.load() if isinstance(source, Server) else 0.0
    except SourceError as error:
        log.info("%s; it comes last", error)
        return float("inf")


def _read_notes(path: Path | None) -> dict[str, dict[str, Health]]:
    if path is None or not path.exists():
        return {}
    try:
        notes = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: {full_path: Health.of(note) for full_path, note in states.items()} for name, states in notes.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s: not a list of endpoints, and left alone: %s", path, error)
        return {}


def _write_notes(path: Path | None, notes: dict[str, dict[str, Health]]) -> None:
    """Replace the file whole. One that cannot be written costs a try more in the next run, and nothing else."""
    if path is None:
        return
    document = {
        name: {full_path: asdict(health) for full_path, health in states.items()}
        for name, states in notes.items()
        if states
    }
    try:
        replace_text(path, json.dumps(document, indent=1, default=datetime.isoformat) + "\n")
    except OSError as error:
        log.warning("%s: cannot be written: %s", path, error.strerror)
