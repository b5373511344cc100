"""What makes ``stratalog status`` end with exit status 1.

Put here: the conditions, and what to do about each. Not here: how a source is measured (status.py).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from spark_jobs.config.model import Pipeline
from spark_jobs.operations import failures
from spark_jobs.operations.status import SourceStatus

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Alarm:
    """One condition of a source. kind: ``unreachable``, ``stopped``, ``retention``, ``lag`` or ``failed``."""

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
        yield "stopped", _stopped(stopped, len(status.tables))
    if status.warning:
        yield "retention", _RETENTION
    lag, limit = status.lag_seconds or 0, pipeline.max_lag
    if limit and lag > limit.total_seconds():
        yield "lag", f"bronze is {_minutes(lag)} behind, more than max_lag, {_minutes(limit.total_seconds())}; {_RUN}"
    failure = failures.read(pipeline.path).get(status.source)
    if failure:
        times = "the last run failed" if failure.runs == 1 else f"the last {failure.runs} runs failed"
        yield "failed", f"{times}, since {failure.since}: {failure.message}"


_RUN = "stratalog run reads on; let it run more often"
_RETENTION = (
    "less log is left at the source than retention.margin asks for; run more often, or have the server keep its log "
    "longer (stratalog docs howto/purge)"
)


def _stopped(names: list[str], tables: int) -> str:
    rest = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    return (
        f"{len(names)} of {tables} tables stopped: {', '.join(names[:_SHOWN])}{rest}; do what the reason of each says "
        "(stratalog docs howto/broken-table), then stratalog run"
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:,.0f} minutes"
