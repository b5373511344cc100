"""A run by the command line, as a collector, an OpenLineage endpoint and Prometheus see it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fix_cli import Stratalog
from tests.services.receivers import receiver
from tests.spark_jobs.operations.observation.test_metrics import key, values

pytestmark = [pytest.mark.spark, pytest.mark.by_spark]


@pytest.fixture(autouse=True)
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs take the session of all tests, and leave it."""
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", lambda _: spark)
    monkeypatch.setattr("spark_jobs.cli.app._stop", lambda _: None)


def test_a_run_is_seen_by_all(stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pipeline_file.parent
    with receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OPENLINEAGE_URL", received.url)
        runs = [stratalog("run", "-c", pipeline_file) for _ in range(2)]
    assert [(ran.status, "telemetry" in ran.err) for ran in runs] == [(0, False)] * 2
    assert received.problems == []
    # Two traces: a run, and one that found nothing new.
    parents = {span.span_id: span.name for span in received.spans}
    tree = {(parents.get(span.parent_span_id), span.name) for span in received.spans}
    assert tree >= {
        (None, "stratalog run"),
        ("stratalog run", "source"),
        *(("source", name) for name in ("extract", "compact", "merge", "publish")),
        ("compact", "commits"),
        ("merge", "commits"),
    }
    assert len({span.trace_id for span in received.spans}) == 2
    # Lineage: what was read and written, and nothing of the second run.
    kinds = [event["eventType"] for event in received.events]
    assert kinds == ["START", "COMPLETE"] * 2
    complete = received.events[1]
    assert [dataset["name"] for dataset in complete["inputs"]] == [str(folder / "binlogs")]
    outputs = {dataset["name"].removeprefix(f"{folder}/lake/"): dataset for dataset in complete["outputs"]}
    assert set(outputs) == {"silver/shop/shop/t", "downstream/shop/t"}
    assert received.events[3]["outputs"] == []
    columns = [field["name"] for field in outputs["downstream/shop/t"]["facets"]["schema"]["fields"]]
    assert columns[:2] == ["id", "note"]
    # The same metrics from the lake alone.
    by_key = values(stratalog("status", "-c", pipeline_file, "--format", "prometheus").out)
    assert by_key[key("lag_bytes", source="shop", layer="bronze")] == 0
    assert by_key[key("last_run_success", source="shop")] == 1
    assert by_key[key("files", source="shop", layer="bronze")] >= 1
    assert key("rows", source="shop", table="shop.t", layer="downstream") in by_key
    pushed = {metric.name for metric in received.metrics}
    assert {name for name, _ in by_key} - pushed == set()


def test_endpoints_that_are_away_fail_no_run(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OPENLINEAGE_URL"):
        monkeypatch.setenv(name, "http://user:secret@127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    ran = stratalog("run", "-c", pipeline_file)
    assert ran.status == 0
    assert (ran.err.count("was not sent to http://127.0.0.1:1"), "secret" in ran.err) == (2, False)
