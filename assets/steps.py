"""Context that all steps share: tags of the run, its Spark session, and the user's code around steps.

Put here: names and protocols that more than one step needs. Not here: failing and trying again (failures.py), what is
selected (selection.py), or what is materialized (materialize.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

import dagster as dg

from assets import checkpoint

if TYPE_CHECKING:  # these import pyspark
    from pyspark.sql import SparkSession


SOURCE_TAG = "stratalog/source"
DELIVERY_TAG = "stratalog/delivery"
PUBLISHED_TAG = "stratalog/published"
"""Tags of a run that a sensor asked for: its delivery, and the version of what was published then."""
FROM_TAG = "stratalog/from"
TO_TAG = "stratalog/to"
"""Tags of a run: its source, and the part of the log that it is about."""

StepEvents = Iterator[Any]
"""Materializations, check results and outputs, as a step yields them."""


class Sessions(Protocol):
    """Part of the Spark resource that a step needs."""

    def session(self) -> "SparkSession":
        """The run's session, started when it is first asked for."""
        ...


@dataclass(frozen=True, slots=True)
class SourceStep:
    """One step of a source in a run.

    name: ``extract``, ``compact``, ``merge`` or ``publish``. source: the source's name. events: what the step does;
    iterate it to run the step, and yield each event.
    """

    name: str
    source: str
    events: StepEvents


Execute = Callable[[dg.OpExecutionContext, SourceStep], StepEvents]
"""Runs a step: code before and after it, or other metadata on its events."""


def around(
    execute: Execute | None, name: str, source: str, patterns: Sequence[str] = ("*",)
) -> Callable[[Callable[..., StepEvents]], Callable[..., StepEvents]]:
    """Let ``execute``, if it is given, run a step's function; ``patterns``: of the metadata keys that stay."""

    def decorate(compute: Callable[..., StepEvents]) -> Callable[..., StepEvents]:
        @wraps(compute)
        def step(context: dg.OpExecutionContext, **inputs: Any) -> StepEvents:
            events = compute(context, **inputs)
            for event in execute(context, SourceStep(name, source, events)) if execute else events:
                yield _reduced(event, patterns) if isinstance(event, dg.MaterializeResult) else event

        return step

    return decorate


def _reduced(result: dg.MaterializeResult[Any], patterns: Sequence[str]) -> dg.MaterializeResult[Any]:
    """A materialization with the metadata that is wanted, and what Stratalog itself reads of it."""
    kept_patterns = (*_READ_BACK, *patterns)
    metadata = {
        key: value
        for key, value in (result.metadata or {}).items()
        if any(fnmatchcase(key, pattern) for pattern in kept_patterns)
    }
    return result._replace(metadata=metadata)


_READ_BACK = (checkpoint.END, "checkpoint/*")
