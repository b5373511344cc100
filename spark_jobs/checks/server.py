"""Checks of one live server.

Put here: what a server is asked, and what is wanted of its answers. Not here: tables (tables.py).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from spark_jobs.checks import Check, failed, ok, problem, run_checks, warning
from spark_jobs.checks.managed_retention import days, service_of, service_retention
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import SYSTEM_SCHEMAS, Pattern
from spark_jobs.errors import SourceError
from spark_jobs.pipeline.cascades.outlook import outlooks
from spark_jobs.source.binlog_dump import DumpReading
from spark_jobs.source.grants import Grants, current_account, current_grants
from spark_jobs.source.server import Server, is_mariadb
from spark_jobs.text.sql import identifier

_VARIABLES = (
    *("version", "version_comment", "server_id", "server_uuid"),
    *("log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "binlog_checksum"),
    *("gtid_mode", "gtid_domain_id", "log_slave_updates", "log_replica_updates"),
    *("binlog_expire_logs_seconds", "expire_logs_days", "binlog_storage_engine"),
    *("basedir", "datadir", "aurora_version"),
)
_OLDEST = {"MySQL": (5, 5), "MariaDB": (5, 5)}
_LOCAL = ("127.0.0.1", "::1", "localhost")
_BRIEF = timedelta(days=1)
"""Least time for which a server should keep its log: less is lost by one day without runs."""


@dataclass
class ServerView:
    """One server with a connection, and what it was asked already."""

    pipeline: Pipeline
    server: Server
    connection: Any

    def ask(self, statement: str) -> list[dict[str, Any]]:
        """The rows of a statement's result, as column name to value. Raises SourceError."""
        return self.server.ask(self.connection, statement)

    @cached_property
    def variables(self) -> Mapping[str, str]:
        names = ", ".join(f"'{name}'" for name in _VARIABLES)
        rows = self.ask(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        return {row["Variable_name"]: row["Value"] for row in rows}

    @cached_property
    def log_status(self) -> dict[str, Any]:
        """The row of SHOW MASTER STATUS."""
        return self.server.log_status(self.connection)

    @cached_property
    def grants(self) -> Grants:
        """The privileges of the user, with those of its active roles."""
        return current_grants(self.ask, has_roles=not self.is_mariadb and self.version >= (8, 0))

    @cached_property
    def account(self) -> str:
        """The user as statements name it: 'repl'@'%'."""
        return current_account(self.ask)

    @property
    def is_mariadb(self) -> bool:
        return is_mariadb(self.variables)

    @property
    def product(self) -> str:
        return "MariaDB" if self.is_mariadb else "MySQL"

    @property
    def version(self) -> tuple[int, ...]:
        matched = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", self.variables.get("version", ""))
        return tuple(int(part or 0) for part in matched.groups()) if matched else (0,)

    @property
    def logs(self) -> bool:
        """True if it writes a binary log."""
        return self.variables.get("log_bin", "OFF").upper() in ("ON", "1")

    @property
    def monitor(self) -> tuple[str, ...]:
        """Privileges of which one lets a user ask for the log's files and end; the first is the one to grant."""
        if self.is_mariadb and self.version >= (10, 5):
            return ("BINLOG MONITOR", "REPLICATION CLIENT", "SUPER")
        return ("REPLICATION CLIENT", "SUPER")

    @property
    def may_monitor(self) -> bool:
        return self.grants.on_server(*self.monitor)


def check_server(pipeline: Pipeline, server: Server) -> Iterator[Check]:
    """The results of one server; where it cannot be connected to, that alone."""
    try:
        connection = server.connect()
    except SourceError as error:
        yield failed("connection", error, server.name)
        return
    with connection:
        yield from check_view(ServerView(pipeline, server, connection))


def check_view(view: ServerView) -> Iterator[Check]:
    """The results of a server that is connected to."""
    return run_checks(view, CHECKS, view.server.name)


def connection(view: ServerView) -> Iterator[Check]:
    """The address, the user, and whether the connection is encrypted and verified."""
    settings = view.server.settings
    rows = view.ask("SHOW STATUS LIKE 'Ssl_version'")
    tls = rows[0]["Value"] if rows else ""
    label = f"{settings.host}:{settings.port} as {settings.user}"
    if tls:
        verified = bool(settings.tls and settings.tls.verify)
        yield ok("connection", f"{label}, {tls}, certificate {'verified' if verified else 'not verified'}")
    elif settings.host in _LOCAL:
        yield ok("connection", f"{label}, not encrypted")
    else:
        yield warning(
            "connection",
            f"{label}, not encrypted",
            "rows and passwords can be read on the way: turn TLS on at the server, and set mysql.tls",
        )


def server_version(view: ServerView) -> Iterator[Check]:
    value = f"{view.product} {view.variables.get('version', 'unknown')}"
    if view.version[:2] < _OLDEST[view.product]:
        yield warning("server version", value, "versions from 5.5 on are tested: compare the tables (stratalog verify)")
    else:
        yield ok("server version", value)


def log_bin(view: ServerView) -> Iterator[Check]:
    value = view.variables.get("log_bin", "OFF")
    engine = view.variables.get("binlog_storage_engine")
    if engine:
        yield problem("log_bin", f"{value}, binlog_storage_engine {engine}", "a log in InnoDB pages is not read")
    elif view.logs:
        yield ok("log_bin", value)
    else:
        yield problem("log_bin", value, "the server writes no binary log; start it with log_bin")


def binlog_format(view: ServerView) -> Iterator[Check]:
    value = view.variables.get("binlog_format", "ROW")
    if value.upper() == "ROW":
        yield ok("binlog_format", value)
    else:
        yield problem("binlog_format", value, "SET GLOBAL binlog_format = 'ROW' and let the applications connect again")


def binlog_row_image(view: ServerView) -> Iterator[Check]:
    value = view.variables.get("binlog_row_image", "FULL")
    if value.upper() == "FULL":
        yield ok("binlog_row_image", value)
    else:
        yield warning(
            "binlog_row_image",
            value,
            "SET GLOBAL binlog_row_image = 'FULL': where row images leave columns out, some statements stop tables",
        )


def binlog_row_metadata(view: ServerView) -> Iterator[Check]:
    """Check whether the log names columns and keys itself.

    MariaDB and MySQL before 8.0 have other defaults, or nothing.
    """
    value = view.variables.get("binlog_row_metadata")
    if value is None:
        yield ok("binlog_row_metadata", "the server has none: columns are named by statements and the server")
    elif value.upper() == "FULL":
        yield ok("binlog_row_metadata", value)
    else:
        yield warning(
            "binlog_row_metadata",
            value,
            "SET GLOBAL binlog_row_metadata = 'FULL': the log then names its columns itself",
        )


def binlog_checksum(view: ServerView) -> Iterator[Check]:
    value = view.variables.get("binlog_checksum", "NONE")
    if value.upper() != "NONE":
        yield ok("binlog_checksum", value)
    else:
        yield warning(
            "binlog_checksum", value, "SET GLOBAL binlog_checksum = 'CRC32': without it damaged bytes are not noticed"
        )


def gtid_mode(view: ServerView) -> Iterator[Check]:
    """Check whether positions can be GTIDs, which a source with several endpoints needs."""
    if view.is_mariadb:
        yield ok("GTID mode", f"MariaDB has GTIDs always; domain {view.variables.get('gtid_domain_id', '0')}")
        return
    value = view.variables.get("gtid_mode", "OFF")
    if value.upper() == "ON":
        yield ok("GTID mode", value)
    elif view.server.switch.has_several:
        yield problem("GTID mode", value, "a source moves between endpoints by GTID: turn gtid_mode on on all of them")
    else:
        yield ok("GTID mode", f"{value}; positions are files and offsets, and other endpoints cannot be taken up")


def server_id(view: ServerView) -> Iterator[Check]:
    uuid = view.variables.get("server_uuid")
    yield ok("server_id", view.variables.get("server_id", "unknown") + (f", server_uuid {uuid}" if uuid else ""))


def replicated_changes(view: ServerView) -> Iterator[Check]:
    """A replica that does not log what it replicates has a log without these changes."""
    name = next((name for name in ("log_replica_updates", "log_slave_updates") if name in view.variables), None)
    if name is None or view.variables[name].upper() in ("ON", "1"):
        return
    remedy = f"what this server replicates is not in its log: start it with {name} ON"
    if view.server.switch.has_several:
        yield problem(name, view.variables[name], remedy)
        return
    if _is_replica(view):
        yield problem(name, f"{view.variables[name]}, and the server is a replica", remedy)


def privileges(view: ServerView) -> Iterator[Check]:
    needed_privileges = {"REPLICATION SLAVE": ("REPLICATION SLAVE",), view.monitor[0]: view.monitor}
    for name, any_of in needed_privileges.items():
        if view.grants.on_server(*any_of):
            yield ok(name, "granted")
        else:
            yield problem(name, "not granted", f"GRANT {name} ON *.* TO {view.account}")


def select(view: ServerView) -> Iterator[Check]:
    """SELECT shows a table's definition, and is needed for load and verify."""
    # A grant on everything needs no comparison with the scope.
    patterns = view.grants.of("SELECT")
    if Pattern("*", "*") in patterns:
        yield ok("SELECT", "granted on *.*")
        return
    scope_patterns = [pattern for pattern, is_wanted in view.pipeline.scope.rules if is_wanted] or [Pattern("*", "*")]
    missing = [pattern for pattern in scope_patterns if not any(grant.covers(pattern) for grant in patterns)]
    listed = ", ".join(f"{grant.schema}.{grant.table}" for grant in patterns)
    value = f"granted on {listed}" if patterns else "not granted"
    if not missing:
        yield ok("SELECT", value)
        return
    # One GRANT for each pattern of the scope that no grant covers; some of its tables may be visible.
    remedy = "; ".join(f"GRANT SELECT ON {_object(pattern)} TO {view.account}" for pattern in missing)
    if all(any(grant.meets(pattern) for grant in patterns) for pattern in missing):
        yield warning("SELECT", value, f"other tables are not seen: {remedy}")
    else:
        yield problem("SELECT", value, remedy)


def retention(view: ServerView) -> Iterator[Check]:
    """Retention of the server's log, beside the margin that the configuration wants."""
    # The name of the variable is part of the answer: versions have different ones.
    name, retention_time = _expiry(view.variables)
    margin = view.pipeline.retention.margin
    if service := service_of(view.variables, view.ask):
        yield from service_retention(service, view.ask, margin, name, retention_time)
        return
    if retention_time is None:
        yield ok("log retention", "no limit")
        return
    value = f"{name}: {days(retention_time)}"
    if margin and retention_time < margin:
        yield problem(
            "log retention",
            f"{value}, less than retention.margin, {days(margin)}",
            f"SET GLOBAL binlog_expire_logs_seconds = {int(margin.total_seconds())} (expire_logs_days in MySQL 5.7), "
            "or lower retention.margin",
        )
    elif retention_time < _BRIEF:
        yield warning("log retention", value, "a day without runs loses log: have the server keep it for some days")
    else:
        yield ok("log retention", value)


def binlog_filters(view: ServerView) -> Iterator[Check]:
    """Schemas that the server does not log."""
    if not view.logs or not view.may_monitor:
        return
    # The columns of SHOW MASTER STATUS, by the options that they show.
    rules = {"binlog-do-db": "Binlog_Do_DB", "binlog-ignore-db": "Binlog_Ignore_DB"}
    listed = {option: str(view.log_status.get(column) or "") for option, column in rules.items()}
    filters = ", ".join(f"{option}={value}" for option, value in listed.items() if value)
    if not filters:
        yield ok("binlog filters", "none")
        return
    # A pattern with wildcards is resolved by the tables that the server has.
    logged = set(filter(None, listed["binlog-do-db"].split(",")))
    left_out = set(filter(None, listed["binlog-ignore-db"].split(",")))
    patterns = [pattern for pattern, is_wanted in view.pipeline.scope.rules if is_wanted]
    schemas = {pattern.schema for pattern in patterns if not set(pattern.schema) & set("*?")}
    affected = sorted(schemas & left_out | (schemas - logged if logged else set())) or [
        f"{row['name']}.{row['table']}"
        for row in view.ask(_ASK_TABLES)
        if row["name"] not in SYSTEM_SCHEMAS
        and view.pipeline.scope.holds(row["name"], row["table"])
        and (row["name"] not in logged if logged else row["name"] in left_out)
    ]
    # Tables in scope without log are a problem, others a warning.
    if affected:
        yield problem(
            "binlog filters",
            filters,
            f"changes in {', '.join(affected[:_SHOWN])}{' …' if affected[_SHOWN:] else ''} are not logged: take the "
            "filter out of the server's options, or leave the tables out (tables:)",
        )
    else:
        yield warning(
            "binlog filters", filters, "changes in schemas that these leave out are not logged: name others in tables:"
        )


def unlogged_changes(view: ServerView) -> Iterator[Check]:
    """Changes that the server declares for tables in scope and its log does not tell."""
    if not view.logs or not view.may_monitor:
        return
    found = outlooks(view.pipeline, view.server)
    for outlook in found:
        if outlook.remedy:
            yield warning("unlogged changes", outlook.text, outlook.remedy)
        else:
            yield ok("unlogged changes", outlook.text)
    if not found:
        yield ok("unlogged changes", "none: no cascading foreign key, no system-versioned table")
    if any(outlook.remedy for outlook in found):
        yield from lock_tables(view)


def lock_tables(view: ServerView) -> Iterator[Check]:
    """MySQL names no position of a snapshot, so a mend locks a table for a moment. MariaDB does."""
    if view.is_mariadb:
        return
    patterns = [pattern for pattern, is_wanted in view.pipeline.scope.rules if is_wanted] or [Pattern("*", "*")]
    granted = view.grants.of("LOCK TABLES")
    missing = [pattern for pattern in patterns if not any(grant.covers(_whole_schema(pattern)) for grant in granted)]
    if not missing:
        yield ok("LOCK TABLES", "granted")
        return
    objects = dict.fromkeys(_object(_whole_schema(pattern)) for pattern in missing)
    remedy = "; ".join(f"GRANT LOCK TABLES ON {name} TO {view.account}" for name in objects)
    yield warning("LOCK TABLES", "not granted", f"stratalog mend needs it: {remedy}")


def _whole_schema(pattern: Pattern) -> Pattern:
    """All tables of its schema: there is no GRANT LOCK TABLES on one."""
    return Pattern(pattern.schema, "*")


_SHOWN = 5
_ASK_TABLES = """
SELECT TABLE_SCHEMA name, TABLE_NAME `table` FROM information_schema.TABLES WHERE TABLE_TYPE <> 'VIEW'
ORDER BY TABLE_SCHEMA, TABLE_NAME
"""


def log_stream(view: ServerView) -> Iterator[Check]:
    """Check whether the server sends its log, by asking it to."""
    if not view.logs or not view.may_monitor or not view.grants.on_server("REPLICATION SLAVE"):
        return
    end = view.server.end(view.connection)
    DumpReading(view.server.name, view.server.settings).probe(end)
    yield ok("log stream", f"can be read; ends at {end}")


CHECKS: tuple[Callable[[ServerView], Iterator[Check]], ...] = (
    connection,
    server_version,
    server_id,
    privileges,
    select,
    log_bin,
    binlog_format,
    binlog_row_image,
    binlog_row_metadata,
    binlog_checksum,
    binlog_filters,
    gtid_mode,
    replicated_changes,
    retention,
    unlogged_changes,
    log_stream,
)


def _is_replica(view: ServerView) -> bool:
    """MariaDB wants a privilege of its own for SHOW REPLICA STATUS, and tells everybody how many replications run."""
    if view.is_mariadb:
        return any(int(row["Value"]) for row in view.ask("SHOW GLOBAL STATUS LIKE 'Slaves_running'"))
    return bool(view.may_monitor and view.server.replication(view.connection))


def _expiry(variables: Mapping[str, str]) -> tuple[str, timedelta | None]:
    """The setting by which the server purges its log, and after how long; None where it does not by time."""
    seconds = float(variables.get("binlog_expire_logs_seconds") or 0)
    if seconds:
        return "binlog_expire_logs_seconds", timedelta(seconds=seconds)
    days = float(variables.get("expire_logs_days") or 0)
    return "expire_logs_days", timedelta(days=days) if days else None


def _object(pattern: Pattern) -> str:
    """Object of a GRANT that shows the tables of a pattern: one table, or a schema's."""
    if set(pattern.schema) & set("*?"):
        return "*.*"
    schema = identifier(pattern.schema)
    return f"{schema}.*" if set(pattern.table) & set("*?") else f"{schema}.{identifier(pattern.table)}"
