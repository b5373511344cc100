"""``stratalog run --follow``: sources run by one process until a signal ends it.

Put here: the loop of runs, deliveries and maintenance in one Spark session, and what is printed of each. Not here:
which source is next, and when (operations/follow.py).
"""

import logging
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.cli.app import chosen_sources, echo, echo_json, spark_of
from spark_jobs.cli.deliveries import deliver_one
from spark_jobs.cli.group import ERRORS
from spark_jobs.cli.output import print_new
from spark_jobs.cli.run_report import RunReport
from spark_jobs.config.loader import load
from spark_jobs.config.model import Pipeline
from spark_jobs.delta.kept import keeping
from spark_jobs.errors import ConfigError, JvmEnded, StratalogError, about
from spark_jobs.operations.follow import Follower, Pace
from spark_jobs.operations.observation.failures import noted
from spark_jobs.operations.observation.run_telemetry import observed, source_observed
from spark_jobs.runtime.engine_errors import translated
from spark_jobs.runtime.interrupt import require_not_interrupted
from spark_jobs.runtime.signals import handled_by
from spark_jobs.source.kept_sessions import keeping_sessions
from spark_jobs.text.counts import counted
from spark_jobs.text.remedies import advised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.bronze.extract import Extracted
    from spark_jobs.pipeline.outcome import Outcome

log = logging.getLogger(__name__)

_VERB = "run"
JOB_BYTES = 4 << 20
"""``spark.job_bytes`` without a setting: some 10,000 small transactions, which take a core half a second or two."""
_FOREVER = float("inf")


def follow_sources(path: Path, source: str | None, *, interval: float, maintain_every: float, as_json: bool) -> None:
    """Runs sources as their logs grow, until SIGTERM or SIGINT; the second signal does not wait for the commit.

    Args:
        path: the configuration.
        source: only this one.
        interval: seconds, at least, between the beginnings of two runs of a source.
        maintain_every: seconds between two times of maintenance; 0 for never.
        as_json: the objects of ``run --json`` in place of lines.

    Raises ConfigError. What fails otherwise is printed and tried again.
    """
    pipeline = with_small_jobs_here(load(path))
    names = chosen_sources(pipeline, source)
    follower = Follower(pipeline, names, interval)
    work = _Work(pipeline, names, follower, maintain_every, as_json)
    with keeping(), keeping_sessions():
        follower.start()
        while not follower.is_stopped:
            try:
                with spark_of(pipeline, is_run=True, is_lazy=True) as spark, _stopped_by_signals(follower.stop):
                    work.go_on(spark)
            except JvmEnded as error:  # another session is started, as the next run would
                ERRORS.print(advised(error), style="red", markup=False, highlight=False)
                time.sleep(interval)
    log.info("ended by a signal, after a commit")


def with_small_jobs_here(pipeline: Pipeline) -> Pipeline:
    """The pipeline, with a size of jobs that Spark is worth for."""
    if pipeline.spark.job_bytes is not None:
        return pipeline
    return pipeline.model_copy(update={"spark": pipeline.spark.model_copy(update={"job_bytes": JOB_BYTES})})


def _stopped_by_signals(stop: Callable[[], None]) -> AbstractContextManager[None]:
    """Context: the first SIGTERM or SIGINT asks for the end; the second one works as before."""
    return handled_by(lambda *_: stop(), signal.SIGTERM, signal.SIGINT, is_once=True)


@dataclass(slots=True)
class _Work:
    """Work between two waits. stop_reasons: why tables have stopped, as it was printed last, by source."""

    pipeline: Pipeline
    names: list[str]
    follower: Follower
    maintain_every: float
    as_json: bool
    stop_reasons: dict[str, dict[str, str]] = field(default_factory=dict)
    last_maintenance: float = field(default_factory=time.monotonic)
    delivery_pace: Pace = field(default_factory=lambda: Pace(0.0))
    has_undelivered: bool = True
    """True if a delivery may have something to do."""

    def go_on(self, spark: "SparkSession") -> None:
        """Work until a stop. Raises ConfigError, JvmEnded."""
        while not self.follower.is_stopped:
            name = self.follower.next_source(min(self._maintenance_due(), self._delivery_due()))
            if name is not None:
                self._run_source(spark, name)
            if time.monotonic() >= self._delivery_due():
                self._deliver()
            if time.monotonic() >= self._maintenance_due():
                self._maintain(spark)

    def _maintenance_due(self) -> float:
        return self.last_maintenance + self.maintain_every if self.maintain_every else _FOREVER

    def _delivery_due(self) -> float:
        return self.delivery_pace.due if self.has_undelivered and self.pipeline.deliveries else _FOREVER

    def _run_source(self, spark: "SparkSession", name: str) -> None:
        """One run of a source, as ``stratalog run`` makes it. A failure is printed, and the source waits."""
        from spark_jobs.operations.catalog import update
        from spark_jobs.pipeline.run import run_source

        began = time.monotonic()
        try:
            with observed(self.pipeline, _VERB), source_observed(self.pipeline, name, _VERB) as observation:
                with about(name), translated(""), noted(self.pipeline.path, name, is_last=True):
                    # What comes from here on is the next run's: the wait for it begins before the merges.
                    extracted, outcome = run_source(spark, self.pipeline, name, partial(self.follower.arm, name))
                observation.note(outcome)
                catalog = update(spark, self.pipeline)
        except ConfigError:
            raise
        except JvmEnded:
            self.follower.record_failure(name)
            raise
        except StratalogError as error:
            require_not_interrupted(error)
            wait = self.follower.record_failure(name)
            ERRORS.print(f"{advised(error)}; tried again in {wait:.0f} s", style="red", markup=False, highlight=False)
            return
        # What the run did, and what waits because of it.
        has_news = bool(extracted.bytes or outcome.compacted or outcome.merged)
        self.follower.record_success(name, began, has_news=has_news)
        self.has_undelivered = self.has_undelivered or has_news
        if has_news and self.as_json:
            echo_json(RunReport(name, extracted.range.stop, extracted, outcome, catalog).to_json())
        elif has_news:
            echo(_line(name, extracted, outcome, time.monotonic() - began))
        self._print_stops(name, outcome)

    def _print_stops(self, name: str, outcome: "Outcome") -> None:
        """Reasons why tables have stopped, once; and that they continue."""
        stopped = {str(table): reason for table, reason in outcome.stopped.items()}
        before = self.stop_reasons.get(name, {})
        for table, reason in stopped.items():
            if before.get(table) != reason:
                ERRORS.print(f"stopped: {reason}", style="red", markup=False, highlight=False)
        for table in before.keys() - stopped.keys():
            echo(f"{name}: {table} continues")
        self.stop_reasons[name] = stopped
        print_new(outcome)

    def _deliver(self) -> None:
        successes = [
            deliver_one(self.pipeline, name, None, as_json=self.as_json, quiet=True)
            for name in self.pipeline.deliveries
        ]
        self.has_undelivered = not all(successes)
        if self.has_undelivered:
            self.delivery_pace.failed(time.monotonic())
        else:
            self.delivery_pace = Pace(0.0)

    def _maintain(self, spark: "SparkSession") -> None:
        """Maintenance of each source, as ``stratalog maintain`` does it.

        What fails is printed, and done the next time.
        """
        from spark_jobs.operations.retention.maintenance import maintain_source

        for name in self.names:
            try:
                with observed(self.pipeline, "maintain"), about(name), translated(""):
                    upkeep = maintain_source(spark, self.pipeline, name)
            except (ConfigError, JvmEnded):
                raise
            except StratalogError as error:
                require_not_interrupted(error)
                ERRORS.print(advised(error), style="red", markup=False, highlight=False)
                continue
            # How many files there were, and are.
            before, after = (
                sum(getattr(table, at) for table in upkeep.tables) for at in ("files_before", "files_after")
            )
            log.info("%s: maintained %s: %d files, now %d", name, counted(len(upkeep.tables), "table"), before, after)
        self.last_maintenance = time.monotonic()


def _line(name: str, extracted: "Extracted", outcome: "Outcome", seconds: float) -> str:
    """A run in one line."""
    changes = sum(table.changes for table in outcome.compacted)
    rows = sum(table.inserted + table.updated + table.deleted for table in outcome.merged)
    return (
        f"{name}: {extracted.range.stop}: {counted(extracted.transactions, 'transaction')}, "
        f"{counted(changes, 'change')}, {counted(rows, 'row')} of {counted(len(outcome.merged), 'table')} downstream, "
        f"{seconds:.1f} s"
    )
