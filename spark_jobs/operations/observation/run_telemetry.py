"""Telemetry of a run: spans and metrics for OpenTelemetry, events for OpenLineage, the list of last runs.

Put here: when what is sent of a run, whoever started it. Not here: sending (spark_jobs/telemetry), what is measured
(metrics.py), which datasets (lineage.py), the list (runs.py). Nothing here fails a run.
"""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from spark_jobs.config.model import Pipeline
from spark_jobs.operations.observation import runs
from spark_jobs.operations.observation.failures import noted
from spark_jobs.telemetry import openlineage, otlp
from spark_jobs.telemetry.openlineage import Dataset, RunEvent
from spark_jobs.telemetry.spans import Span, annotate, recorded, span
from spark_jobs.text.counts import counted
from spark_jobs.text.disclosure import printable

if TYPE_CHECKING:  # these import pyspark
    from prometheus_client.metrics_core import Metric

    from spark_jobs.pipeline.outcome import Outcome

log = logging.getLogger(__name__)

WRITING = ("run", "extract", "compact", "merge", "load", "backfill", "mend")
"""Verbs whose runs have lineage."""
_SHOWN = 5
Lineage = tuple[list[Dataset], list[Dataset]]


@dataclass
class SourceRun:
    """The work of a run on one source. outcome: what it did to tables, once that is known."""

    pipeline: Pipeline
    source: str
    run: str
    outcome: "Outcome | None" = None
    is_unheard: bool = False
    """True if an event of it did not arrive, which the user was told."""

    def note(self, outcome: object) -> None:
        """Keep what a verb returned, if it says what was done to tables."""
        if hasattr(outcome, "compacted"):
            self.outcome = cast("Outcome", outcome)


@contextmanager
def observed(pipeline: Pipeline, verb: str, *, has_metrics: bool = True) -> Iterator[Span]:
    """One call of a verb, or one step of Dagster: a trace, sent with metrics at its end where that is wanted."""
    root: Span | None = None
    try:
        with recorded(f"stratalog {verb}", verb=verb) as root:
            yield root
    finally:
        if root is not None and otlp.is_wanted():
            otlp.send(root, (lambda: _families(pipeline)) if has_metrics else list)


@contextmanager
def source_observed(  # noqa: PLR0913 - a step of Dagster is a part of a run
    pipeline: Pipeline,
    source: str,
    verb: str,
    run: str | None = None,
    *,
    starts: bool = True,
    ends: bool = True,
    started: int | None = None,
) -> Iterator[SourceRun]:
    """The work of a verb, or of one of Dagster's steps, on one source.

    Args:
        pipeline: the configuration.
        source: the source's name.
        verb: what is done; a run of all layers is ``run``.
        run: a UUID; a new one without it.
        starts: whether the run begins here.
        ends: whether it ends here, unless it fails.
        started: when it began, in nanoseconds since 1970; now without it.
    """
    work = SourceRun(pipeline, source, run or str(uuid.uuid4()))
    if starts:
        _note_run(work, verb, "running", {})
        _post(work, verb, "START", None)
    part: Span | None = None
    try:
        with span("source", source=source) as part:
            part.started = started or part.started
            yield work
            annotate(stopped_tables=len(work.outcome.stopped) if work.outcome else 0)
    except BaseException as error:
        _note_run(work, verb, "failed", _seconds(part))
        _post(work, verb, "FAIL", _first_line(error))
        raise
    # What stopped is the end of a run as well, and is no failure of its own.
    reason = _why_stopped(work.outcome)
    _note_run(work, verb, ("stopped" if reason else "succeeded") if ends else "running", _seconds(part))
    if ends:
        _post(work, verb, "FAIL" if reason else "COMPLETE", reason)


@contextmanager
def step_observed(
    pipeline: Pipeline, source: str, run: str, *, starts: bool = False, ends: bool = False
) -> Iterator[SourceRun]:
    """One of Dagster's steps of a run on a source; steps may run in processes of their own.

    Its trace is the step's. Metrics are measured once a run, at its end.
    """
    with (
        observed(pipeline, "run", has_metrics=ends),
        source_observed(pipeline, source, "run", run, starts=starts, ends=ends) as work,
        noted(pipeline.path, source, is_last=ends),
    ):
        annotate(dagster_run=run)
        yield work


def _note_run(work: SourceRun, verb: str, status: runs.Status, seconds: dict[str, float]) -> None:
    if verb == "run":
        runs.note(work.pipeline.path, work.source, work.run, status, seconds)


def _seconds(part: Span | None) -> dict[str, float]:
    """The durations of a run's layers, whose own parts are among them already."""
    seconds: dict[str, float] = {}
    for child in part.parts if part else ():
        layer = str(child.attributes.get("layer", ""))
        if layer:
            seconds[layer] = round(seconds.get(layer, 0.0) + child.seconds, 3)
    return seconds


def _first_line(error: BaseException) -> str:
    """First line of a failure, without lists of what to do."""
    return printable(str(error).partition("\n")[0] or type(error).__name__)


def _why_stopped(outcome: "Outcome | None") -> str | None:
    if outcome is None or not outcome.stopped:
        return None
    listed = ", ".join(map(str, list(outcome.stopped)[:_SHOWN]))
    return f"{counted(len(outcome.stopped), 'table')} stopped: {listed}; the other tables went through"


def _post(work: SourceRun, verb: str, kind: openlineage.EventType, message: str | None) -> None:
    """Send one event, where events are wanted; a lake that cannot be read leaves its datasets out."""
    if verb not in WRITING or not openlineage.is_wanted():
        return
    try:
        inputs, outputs = _lineage(work, kind)
    except Exception as error:  # noqa: BLE001 -- telemetry never fails a run, whatever it meets
        log.warning("%s: datasets are left out of lineage: %s", work.source, _first_line(error))
        inputs, outputs = [], []
    event = RunEvent(kind, work.run, f"{work.source}.{verb}", inputs, outputs, message)
    work.is_unheard |= not openlineage.post(event, warns=not work.is_unheard)


def _lineage(work: SourceRun, kind: openlineage.EventType) -> Lineage:
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation.lineage import datasets_in_scope, datasets_of

    lake = lake_of(work.pipeline)
    if kind == "START" or (kind == "FAIL" and work.outcome is None):
        return datasets_in_scope(work.pipeline, lake, work.source)
    return datasets_of(work.pipeline, lake, work.source, work.outcome)


def _families(pipeline: Pipeline) -> "list[Metric]":
    from spark_jobs.operations.observation.metrics import families

    return families(pipeline)
