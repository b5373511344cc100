"""Sent to a receiver that reads OTLP by the official messages."""

import logging
import re
import sys
from pathlib import Path

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from spark_jobs.errors import ConfigError
from spark_jobs.telemetry import otlp
from spark_jobs.telemetry.spans import Span, annotate, recorded, span
from tests.services.otel_collector import built, collector
from tests.services.receivers import receiver
from tests.services.waiting import wait_for


@pytest.fixture
def run() -> Span:
    with recorded("stratalog run", verb="run") as root:
        with span("source", source="shop"), span("extract", layer="bronze"):
            annotate(bytes=5)
        with span("source", source="other") as failing:
            failing.error = "lost"
    return root


def families() -> list[Metric]:
    family = GaugeMetricFamily("stratalog_lag_bytes", "Log.", labels=("source", "table"))
    family.add_metric(("shop", ""), 7)
    return [family]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)


def test_spans_are_one_trace_and_metrics_have_their_labels(run: Span, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as received:
        monkeypatch.setenv(otlp.ENDPOINT, received.url)
        assert otlp.is_wanted()
        otlp.send(run, families)
    by_name = {recorded_span.name: recorded_span for recorded_span in received.spans}
    assert sorted(recorded_span.name for recorded_span in received.spans) == [
        "extract",
        "source",
        "source",
        "stratalog run",
    ]
    assert len({recorded_span.trace_id for recorded_span in received.spans}) == 1
    root, extract = by_name["stratalog run"], by_name["extract"]
    assert (root.parent_span_id, root.start_time_unix_nano, root.end_time_unix_nano) == (b"", run.started, run.ended)
    parents = {recorded_span.span_id: recorded_span.name for recorded_span in received.spans}
    assert parents[extract.parent_span_id] == "source"
    attributes = {a.key: a.value.string_value or a.value.int_value for a in extract.attributes}
    assert attributes == {"layer": "bronze", "bytes": 5}
    failed = [recorded_span for recorded_span in received.spans if recorded_span.status.code == 2]
    assert [(recorded_span.name, recorded_span.status.message) for recorded_span in failed] == [("source", "lost")]
    assert received.resources[0]["service.name"] == "stratalog"
    (metric,) = received.metrics
    (point,) = metric.gauge.data_points
    labels = {a.key: a.value.string_value for a in point.attributes}
    assert (metric.name, labels, point.as_double or point.as_int) == ("stratalog_lag_bytes", {"source": "shop"}, 7)
    assert received.problems == []


def test_headers_and_names_are_those_of_the_environment(run: Span, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as received:
        monkeypatch.setenv(otlp.ENDPOINT, received.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k1")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "lake")
        otlp.send(run, families)
    assert {headers.get("api-key") for headers in received.headers} == {"k1"}
    assert received.resources[0]["service.name"] == "lake"


def test_a_collector_that_is_away_is_one_warning(
    run: Span, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(otlp.ENDPOINT, "http://user:secret@127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with caplog.at_level(logging.INFO):
        otlp.send(run, lambda: pytest.fail("nothing is measured for a collector that is away"))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message.startswith("telemetry was not sent to http://127.0.0.1:1 (OTEL_EXPORTER_OTLP_ENDPOINT): ")
    assert "secret" not in caplog.text


@pytest.mark.parametrize("timeout", ["5s", "10000ms"])
def test_a_timeout_that_is_no_number_is_a_warning(
    timeout: str, run: Span, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with receiver() as received:
        monkeypatch.setenv(otlp.ENDPOINT, received.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", timeout)
        otlp.send(run, families)
    assert received.metrics
    assert [record.message for record in caplog.records] == [
        f"OTEL_EXPORTER_OTLP_TIMEOUT is {timeout}, and no number of seconds; telemetry is sent with 5"
    ]


def test_what_is_measured_may_fail(
    run: Span, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[Metric]:
        raise OSError("the lake is gone")

    with receiver() as received:
        monkeypatch.setenv(otlp.ENDPOINT, received.url)
        otlp.send(run, broken)
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "OSError: the lake is gone; the run is not affected"
    ]


def test_without_the_sdk_one_message_says_what_to_install(
    run: Span, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(otlp.ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    otlp.send(run, families)
    (record,) = caplog.records
    assert "pip install 'stratalog[otel]'" in record.message


@pytest.mark.parametrize(
    "variables, wanted_by_user",
    [
        ({}, False),
        ({otlp.ENDPOINT: "http://c:1"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:1"}, True),
        ({otlp.ENDPOINT: "http://c:1", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_environment_decides(
    variables: dict[str, str], wanted_by_user: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(otlp.ENDPOINT, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert otlp.is_wanted() is wanted_by_user


def test_another_protocol_is_named(
    run: Span, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    otlp.send(run, families)
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is grpc: only http/protobuf is sent" in caplog.text


@pytest.mark.long
def test_the_collector_takes_spans_and_metrics(run: Span, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        built()
    except ConfigError as error:
        pytest.skip(str(error))
    with collector(tmp_path) as received:
        monkeypatch.setenv(otlp.ENDPOINT, received.url)
        otlp.send(run, families)
        wait_for("the metrics arrive", lambda: "stratalog_lag_bytes" in received.text(), 60)
        text = received.text()
    names = re.findall(r"^ +Name +: (.+)$", text, re.MULTILINE)
    assert sorted(names) == ["extract", "source", "source", "stratalog run"]
    assert len(set(re.findall(r"^ +Trace ID +: (\w+)$", text, re.MULTILINE))) == 1
    assert "Status message : lost" in text
    assert "service.name: Str(stratalog)" in text
    assert "-> source: Str(shop)" in text
    assert re.search(r"^Value: 7", text, re.MULTILINE)
