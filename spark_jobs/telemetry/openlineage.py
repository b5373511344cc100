"""Events of OpenLineage: a run of a job, the datasets that it reads and writes.

Put here: events as JSON, and posting one. Not here: which datasets a run has (operations/observation/lineage.py).
Source: OpenLineage's specification 2-0-2 and its naming conventions.

An event is one JSON document in one POST, so no client library is needed; ``OPENLINEAGE_*`` of the official Python
client are read: URL, ENDPOINT, API_KEY, NAMESPACE, DISABLED.
"""

import http.client
import json
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from spark_jobs.telemetry.endpoints import has_login, origin_of
from spark_jobs.telemetry.product import NAME, version

log = logging.getLogger(__name__)

URL = "OPENLINEAGE_URL"
_SPEC = "https://openlineage.io/spec"
_TIMEOUT = 5.0
EventType = Literal["START", "COMPLETE", "FAIL"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table, by OpenLineage's naming. columns: name and type; rows: that a run wrote. None: not told."""

    namespace: str
    name: str
    columns: Mapping[str, str] | None = None
    rows: int | None = None

    def to_json(self, *, is_output: bool) -> dict[str, Any]:
        """The dataset as an event has it."""
        document: dict[str, Any] = {"namespace": self.namespace, "name": self.name}
        if self.columns is not None:
            fields = [{"name": name, "type": kind} for name, kind in self.columns.items()]
            document["facets"] = {"schema": _facet("1-2-0/SchemaDatasetFacet", fields=fields)}
        if is_output and self.rows is not None:
            statistics = _facet("1-0-2/OutputStatisticsOutputDatasetFacet", rowCount=self.rows)
            document["outputFacets"] = {"outputStatistics": statistics}
        return document


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One event of a run. error: of a FAIL, why."""

    type: EventType
    run: str
    """A UUID."""
    job: str
    inputs: Sequence[Dataset] = ()
    outputs: Sequence[Dataset] = ()
    error: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_json(self) -> dict[str, Any]:
        """The document that is posted."""
        # What a consumer shows of the run besides its state, and why it failed.
        facets = {"processing_engine": _facet("1-1-1/ProcessingEngineRunFacet", name=NAME, version=version())}
        if self.error is not None:
            message = {"message": self.error, "programmingLanguage": "Python"}
            facets["errorMessage"] = _facet("1-0-1/ErrorMessageRunFacet", **message)
        kind = {"processingType": "BATCH", "integration": "STRATALOG", "jobType": "RUN"}
        return {
            "eventType": self.type,
            "eventTime": self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "run": {"runId": self.run, "facets": facets},
            "job": {
                "namespace": os.environ.get("OPENLINEAGE_NAMESPACE") or "stratalog",
                "name": self.job,
                "facets": {"jobType": _facet("2-0-4/JobTypeJobFacet", **kind)},
            },
            "inputs": [dataset.to_json(is_output=False) for dataset in self.inputs],
            "outputs": [dataset.to_json(is_output=True) for dataset in self.outputs],
            "producer": _producer(),
            "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        }


def is_wanted() -> bool:
    """True if the environment names an endpoint, and does not turn events off."""
    return bool(os.environ.get(URL)) and os.environ.get("OPENLINEAGE_DISABLED", "").lower() != "true"


def post(event: RunEvent, *, warns: bool = True) -> bool:
    """Post an event; False, with a warning unless the user has had it, where it did not arrive."""
    # The address and the key are the client's own settings; only the address without them is ever told.
    base, path = os.environ[URL], os.environ.get("OPENLINEAGE_ENDPOINT") or "api/v1/lineage"
    headers = {"Content-Type": "application/json", "User-Agent": f"stratalog/{version()}"}
    key = os.environ.get("OPENLINEAGE_API_KEY")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    problem = "it is no address of http or https, or has a user or a password (a key is OPENLINEAGE_API_KEY)"
    if has_login(base):
        base = origin_of(base)
    elif base.startswith(("http://", "https://")):
        address = f"{base.rstrip('/')}/{path.lstrip('/')}"
        try:
            request = urllib.request.Request(address, json.dumps(event.to_json()).encode(), headers)  # noqa: S310 - http
            with urllib.request.urlopen(request, timeout=_TIMEOUT):  # noqa: S310 - ditto
                return True
        except urllib.error.HTTPError as error:
            problem = f"it answers {error.code} {error.reason}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = str(error.reason) if isinstance(error, urllib.error.URLError) else str(error)
    level = logging.WARNING if warns else logging.DEBUG
    text = "an OpenLineage event was not sent to %s (%s): %s; the run is not affected"
    log.log(level, text, origin_of(base), URL, problem)
    return False


def _facet(schema: str, **members: Any) -> dict[str, Any]:
    """A facet of the specification, by the version and the name of its schema."""
    facet_name = schema.partition("/")[2]
    url = f"{_SPEC}/facets/{schema}.json#/$defs/{facet_name}"
    return {"_producer": _producer(), "_schemaURL": url} | members


def _producer() -> str:
    return f"urn:stratalog:{version()}"
