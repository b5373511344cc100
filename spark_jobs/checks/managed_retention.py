"""Log retention of managed services, which the server's own variables do not show.

Amazon RDS and Aurora purge files as soon as they can unless a procedure of theirs has set hours; what they were set to
is in a table of theirs. Azure and Cloud SQL have server parameters. Which service it is, the server's variables tell.
None of this was run against a service: the facts are from their documentation (docs/managed-servers.md).

Put here: telling services, and what they say of retention. Not here: servers of one's own (server.py).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from spark_jobs.checks import Check, ok, problem, warning
from spark_jobs.errors import SourceError

Ask = Callable[[str], list[dict[str, Any]]]
_BRIEF = timedelta(days=1)
_HOURS = "binlog retention hours"
_ASK_HOURS = f"SELECT value FROM mysql.rds_configuration WHERE name = '{_HOURS}'"
_MOST_HOURS = 168


@dataclass(frozen=True, slots=True)
class Service:
    """A managed service. call: how retention is set there, with {hours} and {seconds}; has_hours: by RDS's table."""

    name: str
    call: str
    has_hours: bool = False


_CALL = f"CALL mysql.rds_set_configuration('{_HOURS}', {{hours}})"
RDS = Service("Amazon RDS", _CALL, has_hours=True)
AURORA = Service("Amazon Aurora", _CALL, has_hours=True)
AZURE = Service(
    "Azure Database for MySQL",
    "az mysql flexible-server parameter set --name binlog_expire_logs_seconds --value {seconds}",
)
CLOUD_SQL = Service(
    "Google Cloud SQL",
    "gcloud sql instances patch INSTANCE --database-flags=binlog_expire_logs_seconds={seconds}, with all other flags",
)


def service_of(variables: Mapping[str, str], ask: Ask) -> Service | None:
    """The service that a server belongs to; None for one of one's own. Raises nothing."""
    comment, basedir = variables.get("version_comment", "").lower(), variables.get("basedir", "").lower()
    version = variables.get("version", "").lower()
    # Each says so in another place; RDS has its table also where its comment is the distribution's.
    if "aurora_version" in variables:
        return AURORA
    if basedir.startswith("/rdsdbbin") or variables.get("datadir", "").lower().startswith("/rdsdbdata"):
        return AURORA if "aurora" in basedir else RDS
    if "azure" in comment or "-azure" in version:
        return AZURE
    if "google" in comment or version.endswith("-google"):
        return CLOUD_SQL
    return RDS if _has_table(ask) else None


def _has_table(ask: Ask) -> bool:
    statement = (
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'rds_configuration'"
    )
    try:
        return bool(ask(statement))
    except SourceError:
        return False


def service_retention(
    service: Service, ask: Ask, margin: timedelta | None, name: str, expiry: timedelta | None
) -> Iterator[Check]:
    """Retention of a service's log. name, expiry: by the server's own variables."""
    # By RDS's hours where it has them, elsewhere by the server's own variable.
    value, retention = f"{service.name}, {name}: {days(expiry) if expiry else 0}", expiry
    if service.has_hours:
        try:
            rows = ask(_ASK_HOURS)
        except SourceError as error:
            yield warning(
                "log retention",
                f"{service.name}; its setting cannot be read: {error}",
                f"see it by CALL mysql.rds_show_configuration; set it by {_call(service, margin)}",
            )
            return
        hours = rows[0]["value"] if rows else None
        retention = timedelta(hours=float(hours)) if hours else None
        value = f"{service.name}, {_HOURS}: {hours or 'not set'}"
    # Nothing set means as soon as possible.
    if retention is None:
        yield problem(
            "log retention",
            f"{value}: the service removes log files as soon as it can, before a run has read them",
            _call(service, margin),
        )
    elif margin and retention < margin:
        remedy = f"{_call(service, margin)}, or lower retention.margin"
        yield problem("log retention", f"{value}, less than retention.margin, {days(margin)}", remedy)
    elif retention < (margin or _BRIEF):
        yield warning("log retention", value, f"a day without runs loses log: {_call(service, margin)}")
    else:
        yield ok("log retention", value)


def _call(service: Service, margin: timedelta | None) -> str:
    """Call that sets what the margin wants, or three days."""
    span = margin or timedelta(days=3)
    hours = -(-int(span.total_seconds()) // 3600)
    return service.call.format(hours=min(hours, _MOST_HOURS), seconds=int(span.total_seconds()))


def days(span: timedelta) -> str:
    """A span for messages: in days, or in hours below one."""
    count = span / timedelta(days=1)
    return f"{count:g} days" if count >= 1 else f"{span / timedelta(hours=1):g} hours"
