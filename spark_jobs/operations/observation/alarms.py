"""Conditions that make ``stratalog status`` end with exit status 1.

Put here: the conditions, and what to do about each. Not here: how a source is measured (status.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from spark_jobs.config.model import Pipeline
from spark_jobs.operations.observation import failures
from spark_jobs.operations.observation.status import SourceStatus, TableStatus
from spark_jobs.operations.observation.verified import NOT_COMPARED
from spark_jobs.pipeline import iceberg_catalog
from spark_jobs.text.counts import counted

KINDS = ("unreachable", "stopped", "differs", "unverified", "retention", "lag", "failed", "catalog")
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Alarm:
    """One condition of a source. kind: one of ``KINDS``."""

    kind: str
    message: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def alarms(pipeline: Pipeline, status: SourceStatus) -> list[Alarm]:
    """The conditions of a source, none where all is well; each message ends with what to do."""
    return [Alarm(kind, f"{status.source}: {text}") for kind, text in _alarms(pipeline, status)]


def _alarms(pipeline: Pipeline, status: SourceStatus) -> Iterator[tuple[str, str]]:
    if status.error:
        connect = f"stratalog check -c {pipeline.path.name} --connect"
        yield "unreachable", f"the source cannot be read; {connect} lists what is wrong with it"
    stopped = [table.table for table in status.tables if table.state == "stopped"]
    if stopped:
        yield "stopped", _stopped_text(stopped, len(status.tables))
    # What comparisons with the server have found, and which of them are missing.
    current = [table for table in status.tables if table.state == "current"]
    differing = [table.table for table in current if table.differs]
    if differing:
        yield "differs", _differing(differing, status.source)
    unverified = _unverified(pipeline, status.source, current)
    if unverified and pipeline.max_verify_age:
        yield "unverified", _not_verified(unverified, len(current), pipeline.max_verify_age, status.source)
    if status.warning:
        yield "retention", _RETENTION
    lag, limit = status.lag_seconds or 0, pipeline.max_lag
    if limit and lag > limit.total_seconds():
        yield "lag", f"bronze is {_minutes(lag)} behind, more than max_lag, {_minutes(limit.total_seconds())}; {_RUN}"
    failure = failures.read(pipeline.path).get(status.source)
    if failure:
        times = "the last run failed" if failure.runs == 1 else f"the last {failure.runs} runs failed"
        yield "failed", f"{times}, since {failure.since}: {failure.message}"
    refusal = iceberg_catalog.refusal(pipeline, status.source)
    if refusal:
        yield "catalog", f"Iceberg tables are behind in the catalog, since {refusal.since}: {refusal.reason}; {_ASK}"


_RUN = "stratalog run reads on; let it run more often"
_ASK = "stratalog check --connect asks the catalog, and the next run registers them"
_RETENTION = (
    "less log is left at the source than retention.margin asks for; run more often, or have the server keep its log "
    "longer (stratalog docs howto/purge)"
)


def _unverified(pipeline: Pipeline, source: str, tables: Sequence[TableStatus]) -> list[str]:
    """Tables of a server that were not compared within ``max_verify_age``; without those that cannot be compared."""
    limit = pipeline.max_verify_age
    if limit is None or pipeline.sources[source].files is not None:
        return []
    return [
        table.table
        for table in tables
        if not (table.verified and table.verified["state"] == NOT_COMPARED)
        and (table.verified_at is None or datetime.now(UTC) - datetime.fromisoformat(table.verified_at) > limit)
    ]


def _differing(names: list[str], source: str) -> str:
    return (
        f"rows of {counted(len(names), 'table')} are not the server's, as verify found: {_names_text(names)}; put the "
        f"server's in their place: stratalog mend --source {source}"
    )


def _not_verified(names: list[str], tables: int, limit: timedelta, source: str) -> str:
    hours = f"{limit.total_seconds() / 3600:,.0f} hours"
    return (
        f"{len(names)} of {tables} tables were not compared with the server for max_verify_age, {hours}: "
        f"{_names_text(names)}; compare them: stratalog verify --source {source}"
    )


def _names_text(names: list[str]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    return f"{', '.join(names[:_SHOWN])}{rest}"


def _stopped_text(names: list[str], tables: int) -> str:
    return (
        f"{len(names)} of {tables} tables stopped: {_names_text(names)}; do what the reason of each says "
        "(stratalog docs howto/broken-table), then stratalog run"
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:,.0f} minutes"
