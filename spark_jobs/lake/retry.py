"""Retry of work that lost a commit conflict: it is planned again.

Put here: how often and how long to wait. Not here: how a lost race is noticed (delta/commits.py).
"""

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from spark_jobs.errors import LostRace

log = logging.getLogger(__name__)

CONFLICT_WAIT = 2.0
"""Seconds, at most, of the random pause after work on a source lost its first race."""
_TRIES = 5
Result = TypeVar("Result")


def retry_on_conflict(do: Callable[[], Result], *, wait: float = 0.0) -> Result:
    """Result of planning and committing; planned again upon the new head where another writer came first.

    wait: upper bound, in seconds, of the random pause after the first lost race; the second is twice that, and so on.
    Raises LostRace where others win every time.
    """
    for tries in range(1, _TRIES):
        try:
            return do()
        except LostRace as error:
            log.info("%s; planned again", error)
            time.sleep(random.uniform(0, tries * wait))  # noqa: S311 - no secret
    return do()
