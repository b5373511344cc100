"""Alerts for an operator: a source or a check has failed, or works again.

Put here: which conditions there are, and telling of each once. Not here: how a source is measured
(spark_jobs/operations/observation/alarms.py), or checks (assets/checks).
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import dagster as dg

from dagster_project.jobs import Jobs
from spark_jobs.errors import ConfigError, StratalogError

_INTERVAL = 60
_TIMEOUT = 10
_FAILED = dg.AssetCheckEvaluation
_ASKED_OF_SERVER = ("retention", "lag")
"""Conditions of a source that only its server can tell the end of."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that began, or is over.

    kind: a condition of ``stratalog status`` (``stopped``, ``differs``, ``unverified``, ``lag``, ``retention``,
    ``unreachable``, ``failed``, ``catalog``), or ``check``. subject: the source, or the check as ``asset key: check``.
    text: what is wrong, and what to do.
    """

    kind: str
    subject: str
    text: str
    is_over: bool = False

    def __str__(self) -> str:
        return f"{'Resolved' if self.is_over else 'Alert'}: {self.text}"


Notify = Callable[[Alert], None]


def alert_sensor(jobs: Jobs, checks: Sequence[dg.AssetCheckKey], notify: Notify | str) -> dg.SensorDefinition:
    """Calls ``notify``, or posts to that address, once where a condition begins, and once where it is over.

    On from the beginning. Its cursor is the conditions that were told: a call that fails fails the tick, and all that
    began since the last tick is told again.
    """
    send = webhook(notify) if isinstance(notify, str) else notify

    @dg.sensor(
        name=jobs.name("alert_sensor"),
        minimum_interval_seconds=_INTERVAL,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Alerts on stopped tables, lag, retention margin, unreachable sources, failed runs and checks.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        # A condition is told of when it begins, and when it is over.
        before: dict[str, str] = json.loads(context.cursor or "{}")
        found = conditions(context.instance, jobs, checks, before)
        now = {f"{alert.kind} {alert.subject}": alert for alert in found}
        raised = [alert for name, alert in now.items() if name not in before]
        ended = [_over(name, before[name]) for name in before.keys() - now.keys()]
        for alert in raised + ended:
            send(alert)
            context.log.info("sent: %s", alert)
        context.update_cursor(json.dumps({name: alert.text for name, alert in now.items()}))
        return dg.SkipReason("\n".join(str(alert) for alert in now.values()) or "all is well")

    return sensor


def _over(name: str, text: str) -> Alert:
    """The end of a condition, by its name and its text in the cursor."""
    kind, subject = name.split(" ", 1)
    return Alert(kind, subject, text, is_over=True)


def conditions(
    instance: dg.DagsterInstance, jobs: Jobs, checks: Sequence[dg.AssetCheckKey], before: Mapping[str, str]
) -> Iterator[Alert]:
    """Conditions that are not well now: alarms of each source, and checks whose last result is a failure.

    before: the texts of those that were told, by kind and subject. One that cannot be measured now is not over.
    """
    from spark_jobs.lake.layout import lake_of
    from spark_jobs.operations.observation.alarms import KINDS, alarms
    from spark_jobs.operations.observation.status import status

    # Sources first: what they say explains most failing checks.
    pipeline = jobs.catalog.pipeline
    for lineage in jobs.graph:
        source = lineage.source
        try:
            measured = status(pipeline, lake_of(pipeline), source)
            unmeasured: Sequence[str] = _ASKED_OF_SERVER if measured.error else ()
            raised = [Alert(alarm.kind, source, alarm.message) for alarm in alarms(pipeline, measured)]
        except StratalogError as error:
            unmeasured, raised = KINDS, [Alert("unreachable", source, str(error))]
        earlier = ((kind, before.get(f"{kind} {source}")) for kind in unmeasured)
        yield from (Alert(kind, source, text) for kind, text in earlier if text)
        yield from raised
    for key in checks:
        record = instance.get_latest_asset_check_evaluation_record(key)
        event = record.event.dagster_event if record and record.event else None
        evaluation = event.event_specific_data if event else None
        if isinstance(evaluation, _FAILED) and not evaluation.passed:
            name = f"{key.asset_key.to_user_string()}: {key.name}"
            yield Alert("check", name, f"{name} failed: {evaluation.description or 'see its metadata'}")


def webhook(address: str) -> Notify:
    """Post alerts as JSON with the keys text, kind, subject and is_over. Raises ConfigError for no http address."""
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ConfigError("on_alert: must be a function, or an address that begins with https://")

    def post(alert: Alert) -> None:
        body = json.dumps(asdict(alert) | {"text": str(alert)}).encode()
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310 - see above
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT):  # noqa: S310 - see above
                pass
        except OSError as error:
            # The address may hold a secret, so that only its host is named.
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            host = urllib.parse.urlsplit(address).hostname
            raise StratalogError(f"alerts: {host} did not take an alert: {error}; it is sent again") from None

    return post
