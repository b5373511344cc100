"""Handlers of signals that are there for a ``with`` block.

Put here: setting them, and putting back what was there. Not here: Ctrl-C while Spark works (interrupt.py).
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def handled_by(handler: Handler, *numbers: int, is_once: bool = False) -> Iterator[None]:
    """Context in which a function handles signals; then they do what they did before.

    Args:
        handler: the function. It is called in the main thread, which has to be the caller's.
        numbers: the signals.
        is_once: whether the signals do what they did before from the first one on.
    """
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, earlier in before.items():
            signal.signal(number, earlier)

    def handle(number: int, frame: FrameType | None) -> None:
        if is_once:
            restore()
        handler(number, frame)

    # What was there comes back however the block is left.
    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
