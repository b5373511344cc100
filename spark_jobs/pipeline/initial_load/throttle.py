"""Limit on a server's load while its tables are read: ``--max-load Threads_running=25,replica_lag=5``.

Put here: limits, what a server says of them, waiting. Not here: which ranges are read next (reading.py).

Limits are looked at between two jobs: what a job reads, it reads whole. ``replica_lag`` is that of the server that is
read, in seconds, where it is a replica; every other name is one of SHOW GLOBAL STATUS.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_jobs.errors import ConfigError
from spark_jobs.source.server import Server, seconds_behind
from spark_jobs.text.sql import literal

log = logging.getLogger(__name__)

LAG = "replica_lag"
_WAIT = 1.0
"""Seconds until the server is asked again."""
_QUIET = 30.0
"""Seconds between two lines about a server that is still over a limit."""


def parse(text: str) -> dict[str, float]:
    """Limits by name, of ``NAME=NUMBER,…``. Raises ConfigError."""
    limits = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, number = part.partition("=")
        try:
            limits[name.strip()] = float(number)
        except ValueError:
            raise ConfigError(f"max-load: {part!r} is no NAME=NUMBER, such as Threads_running=25") from None
        if not limits[name.strip()] > 0:
            raise ConfigError(f"max-load: {part!r}: a limit is above 0")
    return limits


@dataclass(frozen=True, slots=True)
class Throttle:
    """Waits while a server is over one of the limits; with none it asks nothing."""

    server: Server
    limits: Mapping[str, float] = field(default_factory=dict)

    def check(self) -> None:
        """Ask the server once for each limit. Raises ConfigError for an unknown name, SourceError."""
        if self.limits:
            self.over()

    def over(self) -> list[str]:
        """The limits that the server is over, with its values. Raises ConfigError, SourceError."""
        values: dict[str, float] = {}
        with self.server.connect() as connection:
            if LAG in self.limits:
                replication = self.server.replication(connection)
                if not replication:
                    raise ConfigError(f"max-load: {LAG}: {self.server.endpoint} is no replica")
                values[LAG] = seconds_behind(replication)
            names = [name for name in self.limits if name != LAG]
            if names:
                listed = ", ".join(map(literal, names))
                rows = self.server.ask(connection, f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed})")
                values |= _status_values({row["Variable_name"].lower(): row["Value"] for row in rows}, names)
        return [f"{name} is {values[name]:g}" for name, limit in self.limits.items() if values[name] > limit]

    def wait(self, label: str) -> None:
        """Return once the server is over no limit. ``label`` opens the lines that say why nothing is read."""
        line_at = -_QUIET
        while self.limits and (reasons := self.over()):
            if time.monotonic() - line_at >= _QUIET:
                log.info("%s: waits while %s (max-load)", label, ", ".join(reasons))
                line_at = time.monotonic()
            time.sleep(_WAIT)


def _status_values(status: Mapping[str, str], names: list[str]) -> dict[str, float]:
    """The values of the names; servers write names in their own case. Raises ConfigError."""
    values = {}
    for name in names:
        try:
            values[name] = float(status[name.lower()])
        except (KeyError, ValueError):
            raise ConfigError(f"max-load: the server has no number {name} in SHOW GLOBAL STATUS") from None
    return values
