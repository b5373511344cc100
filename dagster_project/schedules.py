"""Schedules of runs at fixed times, in place of sensors; each is off until it is switched on.

Put here: times. Not here: what a run does (jobs.py).
"""

from typing import TYPE_CHECKING

import dagster as dg

from dagster_project.jobs import AUDIT, MAINTENANCE, VERIFY, Jobs
from dagster_project.run_history import active_run

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    AnyJob = UnresolvedAssetJobDefinition | dg.JobDefinition

TIMES = {
    "sync_every_5_minutes": ("*/5 * * * *", "Every five minutes, all sources; not while a run is unfinished."),
    "sync_daily": ("0 3 * * *", "At three in the morning, UTC, all sources."),
}
MAINTENANCE_TIME = (
    "30 4 * * *",
    "At half past four in the morning, UTC; not while an earlier run of it is unfinished.",
)
AUDIT_TIME = (
    "0 * * * *",
    "Every hour, the cheap checks of all sources; not while an earlier run of them is unfinished.",
)
VERIFY_TIME = (
    "30 5 * * 0",
    "On Sundays at half past five in the morning, UTC; not while an earlier run of it is unfinished.",
)


def schedules(jobs: Jobs, job: "AnyJob", running: str = "") -> list[dg.ScheduleDefinition]:
    """Schedules that are off until they are switched on; ``running`` names the one that is on from the beginning."""
    waited_for = jobs.syncing()
    return [
        _schedule(jobs.name(name), (cron, text), waited_for, job, is_running=name == running)
        for name, (cron, text) in TIMES.items()
    ]


def maintenance_schedule(jobs: Jobs, job: "AnyJob") -> dg.ScheduleDefinition:
    """Daily schedule of maintenance, off until it is switched on.

    It waits for no run but its own: its steps wait in their sources' pools, where a tick would wait a day.
    """
    return _schedule(jobs.name("maintenance_daily"), MAINTENANCE_TIME, [jobs.name(MAINTENANCE)], job)


def verify_schedule(jobs: Jobs, job: "AnyJob") -> dg.ScheduleDefinition:
    """Weekly schedule of verify, off until it is switched on; it waits for no run but its own, as maintenance does."""
    return _schedule(jobs.name("verify_weekly"), VERIFY_TIME, [jobs.name(VERIFY)], job)


def audit_schedule(jobs: Jobs, job: "AnyJob") -> dg.ScheduleDefinition:
    """Hourly schedule of the audit, off until switched on. It writes nothing, so it waits for no run but its own."""
    return _schedule(jobs.name("audit_hourly"), AUDIT_TIME, [jobs.name(AUDIT)], job)


def _schedule(
    name: str, time: tuple[str, str], waited_for: list[str], job: "AnyJob", *, is_running: bool = False
) -> dg.ScheduleDefinition:
    cron, text = time
    status = dg.DefaultScheduleStatus.RUNNING if is_running else dg.DefaultScheduleStatus.STOPPED

    @dg.schedule(
        name=name, cron_schedule=cron, target=job, description=text, execution_timezone="UTC", default_status=status
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        running = active_run(context.instance, waited_for)
        if running:
            return dg.SkipReason(f"run {running.run_id} of {running.job_name} is {running.status.value.lower()}")
        return dg.RunRequest()

    return schedule
