"""Progress of a demo on standard error while it is at work.

Put here: a line a step. Not here: results; they are the report's.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.logging import RichHandler

from spark_jobs.text.progress import doing


def _console() -> Console:
    """The console that log lines go to, so that they and a moving line do not write over one another."""
    handlers = logging.getLogger().handlers
    return next((handler.console for handler in handlers if isinstance(handler, RichHandler)), Console(stderr=True))


def note(text: str) -> None:
    """Print a line in the middle of a step."""
    _console().print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def step(text: str) -> Iterator[None]:
    """Print the step while the ``with`` block runs it, and afterwards its duration."""
    console, began = _console(), time.monotonic()
    with doing(text):
        yield
    console.print(f"{text}: {time.monotonic() - began:.1f} s", markup=False, highlight=False)
