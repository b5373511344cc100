"""The schedules: off at first, and not on top of a run that is still going."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.build import build_defs
from dagster_project.schedules import TIMES
from spark_jobs.config.loader import from_keys
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[CodeLocation]:
    with location(tmp_path) as code_location:
        yield code_location


def tick(shop: CodeLocation, name: str) -> dg.ScheduleDefinition | str | int:
    """Number of runs that a tick asks for, or why none."""
    with dg.build_schedule_context(instance=shop.instance) as context:
        ticked = shop.defs().resolve_schedule_def(name).evaluate_tick(context)
    return ticked.skip_message or len(ticked.run_requests or [])


@pytest.mark.parametrize("name", TIMES)
def test_a_schedule_is_off_at_first_and_runs_everything(shop: CodeLocation, name: str) -> None:
    schedule = shop.defs().resolve_schedule_def(name)
    assert (schedule.default_status, schedule.job_name) == (dg.DefaultScheduleStatus.STOPPED, "sync")
    assert tick(shop, name) == 1


def test_maintenance_has_a_schedule_of_its_own_off_at_first(shop: CodeLocation) -> None:
    schedule = shop.defs().resolve_schedule_def("maintenance_daily")
    assert (schedule.default_status, schedule.job_name) == (dg.DefaultScheduleStatus.STOPPED, "maintenance")
    assert tick(shop, "maintenance_daily") == 1
    # A run of sync is asked for at the same minute; maintenance waits for it in its source's pool, not a day.
    shop.instance.create_run_for_job(shop.defs().resolve_job_def("sync"))
    shop.instance.create_run_for_job(shop.defs().resolve_job_def("sync_shop"))
    assert tick(shop, "maintenance_daily") == 1
    run = shop.instance.create_run_for_job(shop.defs().resolve_job_def("maintenance"))
    assert tick(shop, "maintenance_daily") == f"run {run.run_id} of maintenance is not_started"


def test_verify_waits_for_no_run_but_its_own(tmp_path: Path, shop: CodeLocation) -> None:
    keys = {"lake": "./lake", "sources": {"shop": {"mysql": {"user": "repl"}}}, "verify": True}
    defs = build_defs(from_keys(keys, tmp_path / "pipeline.yaml", {}), tables=[("shop", "shop", "orders")])
    schedule = defs.resolve_schedule_def("verify_weekly")
    with dg.build_schedule_context(instance=shop.instance) as context:
        shop.instance.create_run_for_job(defs.resolve_job_def("sync"))
        assert len(schedule.evaluate_tick(context).run_requests or []) == 1
        run = shop.instance.create_run_for_job(defs.resolve_job_def("verify"))
        assert schedule.evaluate_tick(context).skip_message == f"run {run.run_id} of verify is not_started"


@pytest.mark.parametrize("job", ["sync", "sync_shop"])
def test_a_schedule_passes_over_a_run_under_way(shop: CodeLocation, job: str) -> None:
    run = shop.instance.create_run_for_job(shop.defs().resolve_job_def(job))
    assert tick(shop, "sync_daily") == f"run {run.run_id} of {job} is not_started"
