"""Schedules to switch on, for those who want runs by the clock rather than by a sensor.

Put here: times. Not here: what a run does (jobs.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from assets.keys import Lineage
from dagster_project.jobs import ALL, AUDIT, MAINTENANCE, VERIFY
from dagster_project.run_history import jobs_of, under_way

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

TIMES = {
    "sync_every_5_minutes": ("*/5 * * * *", "Every five minutes, all sources; not while a run is unfinished."),
    "sync_daily": ("0 3 * * *", "At three in the morning, UTC, all sources."),
}
MAINTENANCE_TIME = ("30 4 * * *", "At half past four in the morning, UTC; not while a run is unfinished.")
AUDIT_TIME = ("0 * * * *", "Every hour, the cheap checks of all sources; not while a run is unfinished.")
VERIFY_TIME = (
    "30 5 * * 0",
    "On Sundays at half past five in the morning, UTC; not while a run is unfinished.",
)


def schedules(lineages: Sequence[Lineage], job: "UnresolvedAssetJobDefinition") -> list[dg.ScheduleDefinition]:
    """Off until they are switched on."""
    jobs = _syncing(lineages)
    return [_schedule(name, cron, text, jobs, job) for name, (cron, text) in TIMES.items()]


def maintenance_schedule(lineages: Sequence[Lineage], job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Off until it is switched on."""
    return _schedule("maintenance_daily", *MAINTENANCE_TIME, [*_syncing(lineages), MAINTENANCE], job)


def verify_schedule(lineages: Sequence[Lineage], job: "UnresolvedAssetJobDefinition") -> dg.ScheduleDefinition:
    """Off until it is switched on."""
    return _schedule("verify_weekly", *VERIFY_TIME, [*_syncing(lineages), VERIFY], job)


def audit_schedule(job: "UnresolvedAssetJobDefinition") -> dg.ScheduleDefinition:
    """Off until it is switched on. It writes nothing, so it waits for no run but its own."""
    return _schedule("audit_hourly", *AUDIT_TIME, [AUDIT], job)


def _syncing(lineages: Sequence[Lineage]) -> list[str]:
    """The jobs that sync a source."""
    return sorted({name for lineage in lineages for name in jobs_of(lineage.source)} | {ALL})


def _schedule(
    name: str, cron: str, text: str, jobs: list[str], job: "UnresolvedAssetJobDefinition | dg.JobDefinition"
) -> dg.ScheduleDefinition:
    @dg.schedule(name=name, cron_schedule=cron, target=job, description=text, execution_timezone="UTC")
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        running = under_way(context.instance, jobs)
        if running:
            return dg.SkipReason(f"run {running.run_id} of {running.job_name} is {running.status.value.lower()}")
        return dg.RunRequest()

    return schedule
