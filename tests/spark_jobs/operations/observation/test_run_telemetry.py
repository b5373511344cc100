"""Runs as receivers see them: what is sent, when, and what fails nothing."""

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import TableName
from spark_jobs.config.loader import from_keys
from spark_jobs.config.model import Pipeline
from spark_jobs.errors import SourceError
from spark_jobs.operations.observation import runs
from spark_jobs.operations.observation.run_telemetry import observed, source_observed, step_observed
from spark_jobs.pipeline.outcome import Outcome
from spark_jobs.telemetry.spans import span
from tests.services.receivers import Received, receiver


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    keys = {"lake": "./lake", "sources": {"shop": {"mysql": {"host": "db", "user": "u", "password": "hidden"}}}}
    return from_keys(keys, tmp_path / "pipeline.yaml")


def run(pipeline: Pipeline, outcome: object = None, *, error: Exception | None = None) -> None:
    with observed(pipeline, "run"), source_observed(pipeline, "shop", "run") as work:
        with span("extract", layer="bronze"):
            pass
        if error:
            raise error
        work.note(outcome)


def events(received: Received) -> list[tuple[str, str | None]]:
    assert received.problems == []
    assert len({event["run"]["runId"] for event in received.events}) == 1
    return [
        (event["eventType"], event["run"]["facets"].get("errorMessage", {}).get("message")) for event in received.events
    ]


STOPPED = Outcome([], None, stopped={TableName("shop", "t"): "shop: shop.t: no"})


@pytest.mark.parametrize(
    "outcome, kind, status, message",
    [
        (Outcome([], None), "COMPLETE", "succeeded", None),
        (None, "COMPLETE", "succeeded", None),
        (STOPPED, "FAIL", "stopped", "1 table stopped: shop.t; the other tables went through"),
    ],
)
def test_a_run_is_an_event_at_each_end(
    outcome: Any, kind: str, status: str, message: str | None, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as received:
        monkeypatch.setenv("OPENLINEAGE_URL", received.url)
        run(pipeline, outcome)
    assert events(received) == [("START", None), (kind, message)]
    last = runs.read(pipeline.path)["shop"]
    assert (last.status, list(last.seconds)) == (status, ["bronze"])


def test_a_run_that_fails_says_why_without_secrets(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as received:
        monkeypatch.setenv("OPENLINEAGE_URL", received.url)
        with pytest.raises(SourceError):
            run(pipeline, error=SourceError("shop: cannot be reached\nmore"))
    assert events(received) == [("START", None), ("FAIL", "shop: cannot be reached")]
    assert runs.read(pipeline.path)["shop"].status == "failed"
    assert b"hidden" not in b"".join(received.bodies)


def test_verbs_that_write_no_tables_have_no_lineage(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as received:
        monkeypatch.setenv("OPENLINEAGE_URL", received.url)
        with observed(pipeline, "gc"), source_observed(pipeline, "shop", "gc"):
            pass
    assert (received.events, runs.read(pipeline.path)) == ([], {})


def test_steps_are_one_run(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = "5f3a9a44-7f2c-4b8e-9d47-0d3f3f0f3a11"
    with receiver() as received:
        monkeypatch.setenv("OPENLINEAGE_URL", received.url)
        with step_observed(pipeline, "shop", run_id, starts=True), span("extract", layer="bronze"):
            pass
        assert runs.read(pipeline.path)["shop"].status == "running"
        with step_observed(pipeline, "shop", run_id), span("compact", layer="silver"):
            pass
        with step_observed(pipeline, "shop", run_id, ends=True):
            pass
    assert events(received) == [("START", None), ("COMPLETE", None)]
    assert received.events[0]["run"]["runId"] == run_id
    last = runs.read(pipeline.path)["shop"]
    assert (last.status, list(last.seconds)) == ("succeeded", ["bronze", "silver"])


def test_spans_and_metrics_of_a_run_reach_a_collector(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        run(pipeline)
    assert {part.name for part in received.spans} == {"stratalog run", "source", "extract"}
    values = {metric.name: metric.gauge.data_points[0].as_double for metric in received.metrics}
    assert values["stratalog_source_up"] == 0, "nobody is called db"
    assert values["stratalog_last_run_success"] == 1
    assert b"hidden" not in b"".join(received.bodies)


def test_endpoints_that_are_away_fail_nothing(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    run(pipeline)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2, (
        "one of OpenLineage, one of OpenTelemetry"
    )
    assert runs.read(pipeline.path)["shop"].status == "succeeded"
