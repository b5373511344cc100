"""Spans of a run: which part of it took how long.

Put here: recording them, in memory. Not here: sending them (otlp.py), or what durations are kept
(operations/observation/runs.py).

A span that is opened while no run is recorded costs nothing. Spans are opened by the thread that the run began in.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

AttributeValue = str | int | float | bool


@dataclass(slots=True)
class Span:
    """A part of a run: nanoseconds since 1970, attributes, and the parts that it consists of."""

    name: str
    started: int
    ended: int | None = None
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    error: str | None = None
    """Reason why it failed; None where it did not."""
    parts: list["Span"] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The span's duration in seconds; 0 while it is open."""
        return ((self.ended or self.started) - self.started) / 1e9


_open: ContextVar[Span | None] = ContextVar("span", default=None)


@contextmanager
def recorded(name: str, **attributes: AttributeValue) -> Iterator[Span]:
    """Record a run and the spans that are opened inside."""
    root = Span(name, time.time_ns(), attributes=attributes)
    with _running(root):
        yield root


@contextmanager
def span(name: str, **attributes: AttributeValue) -> Iterator[Span]:
    """A part of the run that is recorded; where none is, nobody sees it."""
    part, parent = Span(name, time.time_ns(), attributes=attributes), _open.get()
    if parent is None:
        yield part
        return
    parent.parts.append(part)
    with _running(part):
        yield part


def annotate(**attributes: AttributeValue) -> None:
    """Add attributes to the innermost span that is open."""
    innermost = _open.get()
    if innermost is not None:
        innermost.attributes |= attributes


@contextmanager
def _running(part: Span) -> Iterator[None]:
    token = _open.set(part)
    try:
        yield
    except BaseException as error:
        part.error = str(error) or type(error).__name__
        raise
    finally:
        part.ended = time.time_ns()
        _open.reset(token)
