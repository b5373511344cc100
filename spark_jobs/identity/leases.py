"""Leases: what a service lends for some time is kept in this process, and asked for again before it expires.

Put here: keeping. Not here: asking (service.py), or what is lent.
"""

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.identity.errors import CredentialsError

_MARGIN = 300.0
"""Seconds before its end at which a lease is renewed; of a short one half its time."""


@dataclass(frozen=True, slots=True)
class TimedSecret:
    """A value until a time, in seconds since 1970; its text shows none of it."""

    value: Any = field(repr=False)
    end: float
    begin: float = field(default_factory=time.time)

    def is_fresh(self) -> bool:
        return time.time() < self.end - min(_MARGIN, (self.end - self.begin) / 2)


_leases: dict[Hashable, TimedSecret] = {}
_lock = threading.Lock()


def leased(key: Hashable, request: Callable[[], TimedSecret]) -> TimedSecret:
    """A lease that has not expired; threads that need the same one wait for one request.

    A service that does not answer now does no harm while the last lease has not ended. Raises CredentialsError.
    """
    with _lock:
        lease = _leases.get(key)
        if lease is None or not lease.is_fresh():
            try:
                lease = _leases[key] = request()
            except CredentialsError as error:
                if lease is None or not error.is_passing or time.time() >= lease.end:
                    raise
        return lease
