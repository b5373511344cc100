"""Run history that Dagster keeps: whether a run is active, and how often the last ones failed.

Put here: questions to the instance about runs. Not here: what follows from the answers (sensors.py, schedules.py).
"""

from datetime import UTC, datetime, timedelta

import dagster as dg

from assets.published import STOPPED_TAG

_ACTIVE_STATUSES = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_FIRST_WAIT = timedelta(minutes=1)
_LONGEST_WAIT = timedelta(minutes=16)
_LOOKED_AT = 6


def active_run(instance: dg.DagsterInstance, jobs: list[str]) -> dg.DagsterRun | None:
    """A queued or running run of one of the jobs."""
    for job in jobs:
        runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=_ACTIVE_STATUSES), limit=1)
        if runs:
            return runs[0]
    return None


def wait_after_failures(instance: dg.DagsterInstance, job: str) -> tuple[int, datetime] | None:
    """Number of a job's last runs that failed in a row, and the time of the next try; None where the last succeeded.

    The wait doubles with every failure. A run that failed for nothing but stopped tables is none: the others went on.
    """
    records = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_FINISHED), limit=_LOOKED_AT)
    failed = 0
    for record in records:
        if record.dagster_run.status != dg.DagsterRunStatus.FAILURE or STOPPED_TAG in record.dagster_run.tags:
            break
        failed += 1
    if not failed or records[0].end_time is None:
        return None
    wait = min(_FIRST_WAIT * 2 ** (failed - 1), _LONGEST_WAIT)
    return failed, datetime.fromtimestamp(records[0].end_time, UTC) + wait
