"""What the instance remembers of earlier runs."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from dagster_project.run_history import active_run, wait_after_failures

pytestmark = pytest.mark.dagster


@dg.job
def sync_shop() -> None:
    pass


def finished(instance: dg.DagsterInstance, kind: dg.DagsterEventType) -> None:
    run = instance.create_run_for_job(sync_shop)
    for type_ in (dg.DagsterEventType.RUN_START, kind):
        instance.report_dagster_event(dg.DagsterEvent(type_.value, "sync_shop"), run_id=run.run_id)


def test_a_run_of_another_job_is_not_waited_for() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.create_run_for_job(sync_shop)
        assert active_run(instance, ["sync_other", "sync"]) is None
        assert active_run(instance, ["sync_shop", "sync"]) is not None


@pytest.mark.parametrize("failures, minutes", [(1, 1), (2, 2), (3, 4), (5, 16), (9, 16)])
def test_the_wait_doubles_up_to_a_quarter_of_an_hour(failures: int, minutes: int) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        finished(instance, dg.DagsterEventType.RUN_SUCCESS)
        for _ in range(failures):
            finished(instance, dg.DagsterEventType.RUN_FAILURE)
        waiting = wait_after_failures(instance, "sync_shop")
        assert waiting
        expected = datetime.now(UTC) + timedelta(minutes=minutes)
        assert abs(waiting[1] - expected) < timedelta(seconds=20)


def test_no_wait_after_a_success_or_without_runs() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert wait_after_failures(instance, "sync_shop") is None
        finished(instance, dg.DagsterEventType.RUN_FAILURE)
        finished(instance, dg.DagsterEventType.RUN_SUCCESS)
        assert wait_after_failures(instance, "sync_shop") is None
