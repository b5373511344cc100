"""Waiting for what other processes do. Put here: how it is asked again. Not here: what is asked."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
_PATIENCE = 180
"""Seconds for a process to answer on a busy machine."""


def wait_for(
    subject: str,
    check: Callable[[], T | None],
    seconds: float = _PATIENCE,
    *,
    pause: float = 0.5,
    retried: tuple[type[Exception], ...] = (),
) -> T:
    """The first answer that is true.

    Args:
        subject: what it is that is waited for.
        check: asked until then.
        seconds: for how long at most.
        pause: seconds between one question and the next.
        retried: errors that are no answer.
    """
    until = time.monotonic() + seconds
    while True:
        with suppress(*retried):
            if answer := check():
                return answer
        assert time.monotonic() < until, f"not within {seconds:g} s: {subject}"
        time.sleep(pause)
