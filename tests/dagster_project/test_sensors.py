"""When a source's sensor asks for a run, and why it does not. No run is executed here, and there is no JVM."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project import sensors
from dagster_project.sensors import request_tags
from spark_jobs.errors import SourceError
from spark_jobs.log.position import Position
from spark_jobs.operations.backlog import Backlog
from tests.code_location import CodeLocation, location
from tests.segment_spec import Insert

pytestmark = pytest.mark.dagster

END = Position("mysql-bin.000001", 500)
NEXT = Position("mysql-bin.000002", 4)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[CodeLocation]:
    """A source with one file, of which no run has been made."""
    with location(tmp_path) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")))
        yield code_location


def tick(shop: CodeLocation) -> dg.RunRequest | str:
    """What a tick asks for, or why it asks for nothing."""
    with dg.build_sensor_context(instance=shop.instance) as context:
        ticked = shop.defs().resolve_sensor_def("binlog_sensor_shop").evaluate_tick(context)
    if not ticked.run_requests:
        return ticked.skip_message or "nothing was said"
    (request,) = ticked.run_requests
    return request


def started(shop: CodeLocation, job: str, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    """A run as the instance remembers it."""
    run = shop.instance.create_run_for_job(shop.defs().resolve_job_def(job), tags=tags)
    events = {
        dg.DagsterRunStatus.STARTED: [dg.DagsterEventType.RUN_START],
        dg.DagsterRunStatus.FAILURE: [dg.DagsterEventType.RUN_START, dg.DagsterEventType.RUN_FAILURE],
        dg.DagsterRunStatus.NOT_STARTED: [],
        dg.DagsterRunStatus.CANCELED: [dg.DagsterEventType.RUN_START, dg.DagsterEventType.RUN_CANCELED],
        dg.DagsterRunStatus.SUCCESS: [dg.DagsterEventType.RUN_START, dg.DagsterEventType.RUN_SUCCESS],
    }
    for kind in events[status]:
        shop.instance.report_dagster_event(dg.DagsterEvent(kind.value, job), run_id=run.run_id)
    return run


def standing(monkeypatch: pytest.MonkeyPatch, **positions: Any) -> None:
    """The lake and the source stand where the test says."""
    backlog = replace(Backlog(END, END, END, 0), **positions)
    monkeypatch.setattr(sensors, "backlog", lambda *_: backlog)


def test_a_source_never_read_is_asked_for(shop: CodeLocation) -> None:
    request = tick(shop)
    assert isinstance(request, dg.RunRequest)
    size = (shop.folder / "binlogs" / "mysql-bin.000001").stat().st_size
    tags = {"stratalog/source": "shop", "stratalog/from": "the start", "stratalog/to": f"mysql-bin.000001:{size}"}
    assert tags.items() <= request.tags.items()
    assert request.run_key is None


@pytest.mark.parametrize(
    "positions", [{"end": NEXT}, {"published": None}, {"published": Position("mysql-bin.000001", 4)}]
)
def test_a_source_that_moved_or_was_left_behind_is_asked_for(
    shop: CodeLocation, monkeypatch: pytest.MonkeyPatch, positions: dict[str, Position | None]
) -> None:
    standing(monkeypatch, **positions)
    assert isinstance(tick(shop), dg.RunRequest)


def test_a_source_that_has_not_moved_is_left_alone(shop: CodeLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    standing(monkeypatch)
    assert tick(shop) == f"shop has not moved: its log ends at {END}, and bronze holds it up to there"


@pytest.mark.parametrize("job", ["sync", "sync_shop"])
def test_a_run_under_way_is_waited_for(shop: CodeLocation, job: str) -> None:
    run = started(shop, job, dg.DagsterRunStatus.STARTED)
    assert tick(shop) == f"run {run.run_id} of {job} is started"


def test_a_run_that_was_asked_for_and_not_begun_is_waited_for(shop: CodeLocation) -> None:
    run = started(shop, "sync_shop", dg.DagsterRunStatus.NOT_STARTED)
    assert tick(shop) == f"run {run.run_id} of sync_shop is not_started"


def test_a_run_that_was_cancelled_left_its_range_to_the_next(shop: CodeLocation) -> None:
    started(shop, "sync_shop", dg.DagsterRunStatus.CANCELED)
    assert isinstance(tick(shop), dg.RunRequest)


def test_runs_that_fail_are_tried_again_less_and_less_often(shop: CodeLocation) -> None:
    started(shop, "sync_shop", dg.DagsterRunStatus.FAILURE)
    started(shop, "sync_shop", dg.DagsterRunStatus.FAILURE)
    assert str(tick(shop)).startswith("runs that failed in a row: 2; the next is asked for after ")
    started(shop, "sync_shop", dg.DagsterRunStatus.SUCCESS)
    assert isinstance(tick(shop), dg.RunRequest)


def test_a_stopped_table_does_not_hold_up_the_others(shop: CodeLocation) -> None:
    started(shop, "sync_shop", dg.DagsterRunStatus.FAILURE, **{"stratalog/stopped_tables": "1"})
    assert isinstance(tick(shop), dg.RunRequest)


def test_a_source_that_cannot_be_asked_fails_the_tick(shop: CodeLocation) -> None:
    (shop.folder / "binlogs" / "mysql-bin.000001").unlink()
    with pytest.raises(SourceError, match="holds no binlog files"):
        tick(shop)


def test_tags_name_both_ends() -> None:
    tags = request_tags("shop", Backlog(NEXT, END, END, 9))
    assert tags == {"stratalog/source": "shop", "stratalog/from": str(END), "stratalog/to": str(NEXT)}


def test_sensors_are_off_until_switched_on(shop: CodeLocation) -> None:
    sensor = shop.defs().resolve_sensor_def("binlog_sensor_shop")
    assert sensor.default_status == dg.DefaultSensorStatus.STOPPED
    assert sensor.job_name == "sync_shop"
