"""Sensors: one a source, which starts a run when the source's log has moved.

Put here: when a run is asked for and what it is tagged with. Not here: where the run begins; it reads that from the
lake.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg

from assets.catalog import AssetCatalog
from assets.lineage import Lineage
from assets.partitions import register_files
from assets.steps import DELIVERY_TAG, FROM_TAG, PUBLISHED_TAG, SOURCE_TAG, TO_TAG
from dagster_project.jobs import Jobs
from dagster_project.run_history import active_run, wait_after_failures
from spark_jobs.operations.observation.backlog import Backlog, backlog

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_INTERVAL = 30
_AFTER_FAILURE = 300
"""Seconds after a delivery that failed or was terminated until the next one."""


def binlog_sensor(
    jobs: Jobs, lineage: Lineage, job: "UnresolvedAssetJobDefinition", *, is_running: bool = False
) -> dg.SensorDefinition:
    """Sensor of a source's log, off until switched on. A source that cannot be asked fails the tick with its message.

    No run key: Dagster would remember it even where the run fails, and never try that range again.
    """
    source, pipeline = lineage.source, lineage.catalog.pipeline
    status = dg.DefaultSensorStatus.RUNNING if is_running else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        name=jobs.name(f"binlog_sensor_{source}"),
        default_status=status,
        target=job,
        minimum_interval_seconds=_INTERVAL,
        description=f"Starts a run when the log of {source} has moved, or when a run left work.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        now = backlog(pipeline, source)
        if not now.moved and not now.left_behind:
            register_files(context.instance, lineage)  # runs of the command line may have brought some
            return dg.SkipReason(f"{source} has not moved: its log ends at {now.end}, and bronze holds it up to there")
        reason = not_now(context.instance, jobs, source)
        return reason or dg.RunRequest(tags=request_tags(source, now))

    return sensor


def delivery_sensor(catalog: AssetCatalog, name: str, job: "UnresolvedAssetJobDefinition") -> dg.SensorDefinition:
    """Sensor, off until switched on, that starts a delivery until one of what is published has ended well.

    No cursor: what the last run was asked for, and how it ended, is in the run. Where no run is known any more, as
    after a loss of Dagster's storage, one more is started, which finds what the target lacks.
    """

    @dg.sensor(
        name=catalog.name(f"delivery_sensor_{name}"),
        target=job,
        minimum_interval_seconds=_INTERVAL,
        description=f"Starts delivery {name} when tables were published since, and again where the last run failed.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        from spark_jobs.lake.layout import lake_of

        head = lake_of(catalog.pipeline).published().head()
        if head is None:
            return dg.SkipReason("nothing is published yet")
        version = str(head.version)
        records = context.instance.get_run_records(dg.RunsFilter(job_name=job.name), limit=1)
        reason = _no_delivery_now(records[0], version) if records else None
        return reason or dg.RunRequest(tags={DELIVERY_TAG: name, PUBLISHED_TAG: version})

    return sensor


def _no_delivery_now(record: dg.RunRecord, version: str) -> dg.SkipReason | None:
    """Reason why a delivery is not started. record: of its last run. version: of what is published."""
    last, status = record.dagster_run, record.dagster_run.status
    if not last.is_finished:
        return dg.SkipReason(f"run {last.run_id} is {status.value.lower()}")
    if status is dg.DagsterRunStatus.SUCCESS:
        is_new = last.tags.get(PUBLISHED_TAG) != version
        return None if is_new else dg.SkipReason("nothing was published since the last run")
    # One that failed or was terminated may have left something behind, whatever it was asked for.
    if (record.end_time or 0.0) > datetime.now(UTC).timestamp() - _AFTER_FAILURE:
        return dg.SkipReason(
            f"the last run is {status.value.lower()}; the next is asked for {_AFTER_FAILURE} s after its end"
        )
    return None


def not_now(instance: dg.DagsterInstance, jobs: Jobs, source: str) -> dg.SkipReason | None:
    """Reason why no run is to be started although there is something to do."""
    running = active_run(instance, jobs.job_names(source))
    if running:
        return dg.SkipReason(f"run {running.run_id} of {running.job_name} is {running.status.value.lower()}")
    failures = wait_after_failures(instance, jobs.sync_name(source))
    if failures and datetime.now(UTC) < failures[1]:
        count, moment = failures
        return dg.SkipReason(f"runs that failed in a row: {count}; the next is asked for after {moment:%H:%M:%S} UTC")
    return None


def request_tags(source: str, now: Backlog) -> dict[str, str]:
    """Tags of a requested run, for people: the run goes from the lake's head to the end of the log as it is then."""
    return {SOURCE_TAG: source, FROM_TAG: str(now.bronze or "the start"), TO_TAG: str(now.end)}
