"""Spans and metrics by OpenTelemetry's SDK, over OTLP (HTTP, protobuf).

Put here: the SDK's values of ours, and one attempt to send them. Not here: recording (spans.py), measuring
(operations/observation/metrics.py). The SDK reads ``OTEL_*`` itself: endpoints, headers, certificates, resource
attributes.

The SDK is the extra ``stratalog[otel]``. Its exporters are called once and directly, so that a collector that is away
costs a run ``OTEL_EXPORTER_OTLP_TIMEOUT`` (5 seconds by default here) and one warning.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_jobs.telemetry.endpoints import origin_of
from spark_jobs.telemetry.spans import Span
from spark_jobs.text.disclosure import foreign

if TYPE_CHECKING:  # comes with an extra
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from prometheus_client.metrics_core import Metric

log = logging.getLogger(__name__)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SIGNALS = (ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
_TIMEOUT = ("OTEL_EXPORTER_OTLP_TIMEOUT", 5.0)
_PROTOCOL = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
_SERVICE = "OTEL_SERVICE_NAME"


def is_wanted() -> bool:
    """True if the environment names a collector, and does not turn the SDK off."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not is_disabled and any(os.environ.get(name) for name in _SIGNALS)


def send(root: Span, families: "Callable[[], Iterable[Metric]]") -> None:
    """Send a run's spans and the metrics after it; what keeps them from being sent is one warning.

    families: measures them; called where the collector took the spans.
    """
    # What cannot be sent at all is known before anything is measured.
    protocol = os.environ.get(*_PROTOCOL)
    if protocol != _PROTOCOL[1]:
        log.warning("%s is %s: only %s is sent; nothing is sent now", _PROTOCOL[0], protocol, _PROTOCOL[1])
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics.export import MetricExportResult
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        log.warning(
            "%s is set, and OpenTelemetry's SDK is not installed (%s): pip install 'stratalog[otel]'; nothing is sent",
            *(ENDPOINT, error.name),
        )
        return
    # The exporters log each attempt; the user gets one line.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    timeout = _timeout()
    try:
        resource = _resource()
        is_sent = OTLPSpanExporter(timeout=timeout).export(_spans(root, resource)) is SpanExportResult.SUCCESS
        if is_sent:
            data = _metrics_data(families(), resource)
            is_sent = OTLPMetricExporter(timeout=timeout).export(data) is MetricExportResult.SUCCESS
        problem = "it does not answer, or refuses" if not is_sent else None
    except Exception as error:  # noqa: BLE001 -- whatever the SDK meets: a run does not fail by it
        problem = f"{type(error).__name__}: {foreign(str(error))}"
    if problem:
        path = origin_of(next(os.environ[name] for name in _SIGNALS if os.environ.get(name)))
        log.warning("telemetry was not sent to %s (%s): %s; the run is not affected", path, ENDPOINT, problem)


def _timeout() -> float:
    """Seconds that a collector has to answer."""
    name, default = _TIMEOUT
    text = os.environ.get(name) or str(default)
    try:
        return float(text)
    except ValueError:
        log.warning("%s is %s, and no number of seconds; telemetry is sent with %g", name, text, default)
        return default


def _resource() -> "Resource":
    """Resource of the data: service ``stratalog``, unless the environment has another name for it."""
    from opentelemetry.sdk.resources import Resource

    is_named = os.environ.get(_SERVICE) or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return Resource.create({} if is_named else {"service.name": "stratalog"})


def _spans(root: Span, resource: "Resource") -> Sequence["ReadableSpan"]:
    """A run as the SDK's spans: one trace, whose root is the run."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    collected = InMemorySpanExporter()
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(collected))
    _add_span(provider.get_tracer("stratalog"), root, None)
    return collected.get_finished_spans()


def _add_span(tracer: Any, part: Span, parent: Any) -> None:
    from opentelemetry.context import Context
    from opentelemetry.trace import Status, StatusCode, set_span_in_context

    context = Context() if parent is None else set_span_in_context(parent, Context())
    sdk_span = tracer.start_span(part.name, context, start_time=part.started, attributes=part.attributes)
    for child in part.parts:
        _add_span(tracer, child, sdk_span)
    sdk_span.set_status(Status(StatusCode.ERROR, part.error) if part.error else Status(StatusCode.OK))
    sdk_span.end(part.ended)


def _metrics_data(families: "Iterable[Metric]", resource: "Resource") -> Any:
    """Metrics as one collection of the SDK."""
    from opentelemetry.metrics import Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    # A gauge a family, which is observed once; empty labels mean that they do not apply.
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], resource, shutdown_on_exit=False)
    meter = provider.get_meter("stratalog")
    for family in families:
        observations = [
            Observation(sample.value, {name: value for name, value in sample.labels.items() if value})
            for sample in family.samples
        ]
        observe = partial(_as_measured, observations)
        meter.create_observable_gauge(family.name, [observe], description=family.documentation)
    return reader.get_metrics_data()


def _as_measured(observations: Sequence["Observation"], _: "CallbackOptions") -> Sequence["Observation"]:
    """Observation of a gauge, as the SDK asks for it."""
    return observations
