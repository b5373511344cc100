"""When sensors ask for a run, and why they do not. No run is executed here, and there is no JVM."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import deltalake
import pyarrow as pa
import pytest

from dagster_project import sensors
from dagster_project.sensors import request_tags
from spark_jobs.config import known_tables
from spark_jobs.downstream import publication
from spark_jobs.errors import SourceError
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position
from spark_jobs.operations.observation.backlog import Backlog
from tests.binlogs.segment_spec import Insert
from tests.lakes.code_location import CodeLocation, location

pytestmark = pytest.mark.dagster

END = Position("mysql-bin.000001", 500)
NEXT = Position("mysql-bin.000002", 4)
ENDS = {
    dg.DagsterRunStatus.FAILURE: dg.DagsterEventType.RUN_FAILURE,
    dg.DagsterRunStatus.CANCELED: dg.DagsterEventType.RUN_CANCELED,
    dg.DagsterRunStatus.SUCCESS: dg.DagsterEventType.RUN_SUCCESS,
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[CodeLocation]:
    """A source with one file, of which no run has been made."""
    with location(tmp_path) as code_location:
        code_location.write(1, Insert("shop.orders", (1, "a")))
        yield code_location


def tick(shop: CodeLocation, name: str = "binlog_sensor_shop", cursor: str | None = None) -> dg.RunRequest | str:
    """What a tick asks for, or why it asks for nothing. cursor: what an earlier one left."""
    with dg.build_sensor_context(instance=shop.instance, cursor=cursor) as context:
        ticked = shop.defs().resolve_sensor_def(name).evaluate_tick(context)
    if not ticked.run_requests:
        return ticked.skip_message or "nothing was said"
    (request,) = ticked.run_requests
    return request


def started(shop: CodeLocation, job: str, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    """A run as the instance remembers it."""
    run = shop.instance.create_run_for_job(shop.defs().resolve_job_def(job), tags=tags)
    if status is not dg.DagsterRunStatus.NOT_STARTED:
        report(shop, run, dg.DagsterRunStatus.STARTED)
    if status in ENDS:
        report(shop, run, status)
    return run


def report(shop: CodeLocation, run: dg.DagsterRun, status: dg.DagsterRunStatus) -> None:
    """Notes that a run has come to a status."""
    kind = dg.DagsterEventType.RUN_START if status is dg.DagsterRunStatus.STARTED else ENDS[status]
    shop.instance.report_dagster_event(dg.DagsterEvent(kind.value, run.job_name), run_id=run.run_id)


def backlog_at(monkeypatch: pytest.MonkeyPatch, **positions: Any) -> None:
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
    "positions",
    [
        {"end": NEXT},
        pytest.param({"published": None}, marks=pytest.mark.thorough),
        pytest.param({"published": Position("mysql-bin.000001", 4)}, marks=pytest.mark.thorough),
    ],
)
def test_a_source_that_moved_or_was_left_behind_is_asked_for(
    shop: CodeLocation, monkeypatch: pytest.MonkeyPatch, positions: dict[str, Position | None]
) -> None:
    backlog_at(monkeypatch, **positions)
    assert isinstance(tick(shop), dg.RunRequest)


def test_a_source_that_has_not_moved_is_left_alone(shop: CodeLocation, monkeypatch: pytest.MonkeyPatch) -> None:
    backlog_at(monkeypatch)
    assert tick(shop) == f"shop has not moved: its log ends at {END}, and bronze holds it up to there"


@pytest.mark.parametrize("job", ["sync", pytest.param("sync_shop", marks=pytest.mark.thorough)])
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


@pytest.fixture
def delivering(shop: CodeLocation) -> CodeLocation:
    """The same with a delivery, of which something is published. Its target is not asked by a sensor."""
    mysql = {"host": "127.0.0.1", "user": "writer", "password": "writes"}
    shop.keys["deliveries"] = {"copy": {"mysql": mysql}}
    known_tables.add(shop.pipeline.tables_file, {("shop", "shop", "orders")})
    publish(shop)
    return shop


def publish(shop: CodeLocation) -> None:
    path = lake_of(shop.pipeline).published().path
    deltalake.write_deltalake(path, pa.Table.from_pylist([], schema=publication._SCHEMA), mode="append")


def delivery_tick(shop: CodeLocation) -> dg.RunRequest | str:
    """As behind a tick that asked for a run of the first version, which an earlier release noted."""
    return tick(shop, "delivery_sensor_copy", "0")


def test_a_delivery_is_asked_for_when_something_is_published(delivering: CodeLocation) -> None:
    request = delivery_tick(delivering)
    assert isinstance(request, dg.RunRequest)
    run = started(delivering, "deliver_copy", dg.DagsterRunStatus.STARTED, **request.tags)
    assert delivery_tick(delivering) == f"run {run.run_id} is started"
    report(delivering, run, dg.DagsterRunStatus.SUCCESS)
    assert delivery_tick(delivering) == "nothing was published since the last run"
    publish(delivering)
    assert isinstance(delivery_tick(delivering), dg.RunRequest)


@pytest.mark.parametrize(
    "status", [pytest.param(dg.DagsterRunStatus.FAILURE, marks=pytest.mark.thorough), dg.DagsterRunStatus.CANCELED]
)
def test_a_delivery_that_did_not_end_well_is_asked_for_again_after_a_while(
    delivering: CodeLocation, monkeypatch: pytest.MonkeyPatch, status: dg.DagsterRunStatus
) -> None:
    request = delivery_tick(delivering)
    assert isinstance(request, dg.RunRequest)
    started(delivering, "deliver_copy", status, **request.tags)
    assert delivery_tick(delivering) == (
        f"the last run is {status.value.lower()}; the next is asked for 300 s after its end"
    )
    monkeypatch.setattr(sensors, "_AFTER_FAILURE", 0)
    assert isinstance(delivery_tick(delivering), dg.RunRequest)


def test_a_delivery_whose_runs_nobody_remembers_is_asked_for(delivering: CodeLocation) -> None:
    """The history of runs was deleted, and what the sensor remembers was not."""
    request = delivery_tick(delivering)
    assert isinstance(request, dg.RunRequest)
    run = started(delivering, "deliver_copy", dg.DagsterRunStatus.STARTED, **request.tags)
    delivering.instance.delete_run(run.run_id)
    assert isinstance(delivery_tick(delivering), dg.RunRequest)
