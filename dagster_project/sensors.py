"""Sensors: one a source, which starts a run when the source's log has moved.

Put here: when a run is asked for and what it is tagged with. Not here: where the run begins; it reads that from the
lake.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg

from assets.keys import Lineage
from assets.partitions import register_files
from assets.steps import FROM_TAG, SOURCE_TAG, TO_TAG
from dagster_project.run_history import jobs_of, under_way, wait_after_failures
from spark_jobs.config.model import Pipeline
from spark_jobs.operations.backlog import Backlog, backlog

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_INTERVAL = 30


def binlog_sensor(pipeline: Pipeline, lineage: Lineage, job: "UnresolvedAssetJobDefinition") -> dg.SensorDefinition:
    """Off until it is switched on. A source that cannot be asked fails the tick with its message.

    No run key: Dagster would remember it even where the run fails, and never try that range again.
    """
    source = lineage.source

    @dg.sensor(
        name=f"binlog_sensor_{source}",
        target=job,
        minimum_interval_seconds=_INTERVAL,
        description=f"Starts a run when the log of {source} has moved, or when a run left something behind.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        now = backlog(pipeline, source)
        if not now.moved and not now.left_behind:
            register_files(context.instance, pipeline, source)  # runs of the command line may have brought some
            return dg.SkipReason(f"{source} has not moved: its log ends at {now.end}, and bronze holds it up to there")
        reason = not_now(context.instance, source)
        return reason or dg.RunRequest(tags=request_tags(source, now))

    return sensor


def not_now(instance: dg.DagsterInstance, source: str) -> dg.SkipReason | None:
    """Why no run is to be started although there is something to do."""
    running = under_way(instance, jobs_of(source))
    if running:
        return dg.SkipReason(f"run {running.run_id} of {running.job_name} is {running.status.value.lower()}")
    failures = wait_after_failures(instance, source)
    if failures and datetime.now(UTC) < failures[1]:
        count, moment = failures
        return dg.SkipReason(f"runs that failed in a row: {count}; the next is asked for after {moment:%H:%M:%S} UTC")
    return None


def request_tags(source: str, now: Backlog) -> dict[str, str]:
    """For reading, not for steering: a run goes from the lake's head to the end of the log as it is when it runs."""
    return {SOURCE_TAG: source, FROM_TAG: str(now.bronze or "the start"), TO_TAG: str(now.end)}
