"""Receivers of telemetry, over real HTTP: an OTLP collector and an OpenLineage endpoint.

Put here: servers that keep and check what was sent. Not here: what a test expects of it.
"""

import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from referencing import Registry, Resource

_FACET = {
    "type": "object",
    "required": ["_producer", "_schemaURL"],
    "properties": {"_producer": {"type": "string", "format": "uri"}, "_schemaURL": {"type": "string", "format": "uri"}},
}
_FACETS = {"type": "object", "additionalProperties": _FACET}
_DATASET = {
    "type": "object",
    "required": ["namespace", "name"],
    "properties": {
        "namespace": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        "facets": _FACETS,
        "inputFacets": _FACETS,
        "outputFacets": _FACETS,
    },
}
EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"type": "string", "format": "uri"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": _FACETS},
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {"namespace": {"type": "string"}, "name": {"type": "string"}, "facets": _FACETS},
        },
        "inputs": {"type": "array", "items": _DATASET},
        "outputs": {"type": "array", "items": _DATASET},
    },
}
"""What OpenLineage 2-0-2 requires of a run event. STRATALOG_OPENLINEAGE_SPEC names a folder with the schemas
themselves, which then decide instead: OpenLineage.json and facets/."""


def _validator() -> Any:
    import jsonschema  # takes five seconds, which each process that collects tests would pay

    return jsonschema.Draft202012Validator


@cache
def event_validator() -> Any:
    """Validates an event; its formats (UUIDs, URIs, times) too."""
    validator = _validator()
    checker = validator.FORMAT_CHECKER
    folder = os.environ.get("STRATALOG_OPENLINEAGE_SPEC")
    if not folder:
        return validator(EVENT, format_checker=checker)
    schemas = [json.loads(path.read_text()) for path in Path(folder).rglob("*.json")]
    registry: Any = Registry().with_resources([(s["$id"], Resource.from_contents(s)) for s in schemas if "$id" in s])
    main = {"$ref": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"}
    return validator(main, registry=registry, format_checker=checker)


def validate_facets(event: dict[str, Any]) -> None:
    """Each facet by the schema that it names, where the specification is there."""
    folder = os.environ.get("STRATALOG_OPENLINEAGE_SPEC")
    if not folder:
        return
    schemas = [json.loads(path.read_text()) for path in Path(folder).rglob("*.json")]
    registry: Any = Registry().with_resources([(s["$id"], Resource.from_contents(s)) for s in schemas if "$id" in s])
    holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    for holder in holders:
        for facet in [*holder.get("facets", {}).values(), *holder.get("outputFacets", {}).values()]:
            _validator()({"$ref": facet["_schemaURL"]}, registry=registry).validate(facet)


@dataclass
class Received:
    """What a receiver was sent: requests to a collector, or events; and the headers of each request."""

    url: str
    status: int = 200
    spans: list[Any] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)
    resources: list[dict[str, str]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def take(self, path: str, body: bytes) -> bytes:
        """Keeps one request; the answer's body."""
        self.bodies.append(body)
        if path == "/v1/traces":
            traces = ExportTraceServiceRequest.FromString(body)
            for resource_spans in traces.resource_spans:
                self.resources.append({a.key: a.value.string_value for a in resource_spans.resource.attributes})
                self.spans += [span for scope in resource_spans.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            request: Any = ExportMetricsServiceRequest.FromString(body)
            scopes = (scope for part in request.resource_metrics for scope in part.scope_metrics)
            self.metrics += [metric for scope in scopes for metric in scope.metrics]
        elif path == "/api/v1/lineage":
            event = json.loads(body)
            self.problems += [problem.message for problem in event_validator().iter_errors(event)]
            validate_facets(event)
            self.events.append(event)
        else:
            self.problems.append(f"unknown path {path}")
        return b""


@contextmanager
def receiver(status: int = 200) -> Iterator[Received]:
    """A receiver on a port of its own, which answers each request with a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.headers.append(dict(self.headers))
            answer = received.take(self.path, body)
            self.send_response(received.status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Received(f"http://127.0.0.1:{server.server_port}", status)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
