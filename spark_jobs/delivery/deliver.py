"""Run of a delivery: all of its tables, side by side over its connections.

Put here: which tables are delivered, the connections, what stops one table and not the others. Not here: one table
(table_delivery.py).
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from spark_jobs.config.deliveries import Delivery
from spark_jobs.config.model import Pipeline
from spark_jobs.config.table_patterns import Scope
from spark_jobs.delivery import lake_table, progress
from spark_jobs.delivery.lake_table import LakeTable
from spark_jobs.delivery.ordered.log_tables import require_ordered
from spark_jobs.delivery.ordered.run import deliver_logs
from spark_jobs.delivery.privileges import granting
from spark_jobs.delivery.progress import Progress, TableId
from spark_jobs.delivery.table_delivery import Delivered, TableDelivery
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.transactions import execute_alone
from spark_jobs.delivery.workers import Workers
from spark_jobs.errors import ConfigError, DeliveryDenied, DeliveryError, StratalogError, about
from spark_jobs.lake.layout import Lake, lake_of
from spark_jobs.runtime.interrupt import dropping
from spark_jobs.telemetry.spans import annotate, span
from spark_jobs.text.progress import doing
from spark_jobs.text.remedies import advised
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)

Name = tuple[str, str]
"""Schema and table."""


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """Result of a delivery, and why which tables stopped."""

    delivery: str
    tables: list[Delivered] = field(default_factory=list)
    stopped: dict[Name, str] = field(default_factory=dict)
    denied: set[Name] = field(default_factory=set)
    """Stopped tables, and sources in order, that the user may not write at the target until somebody grants it."""

    def stop(self, name: Name, error: StratalogError) -> None:
        """Note what stopped a table, or with an empty schema a source in order, and say it."""
        self.stopped[name] = advised(error)
        if isinstance(error, DeliveryDenied):
            self.denied.add(name)
        log.error("%s", self.stopped[name])


def chosen_tables(pipeline: Pipeline, lake: Lake, name: str, only: Scope | None = None) -> list[LakeTable]:
    """The published tables of a delivery that are in a scope as well. Raises ConfigError where it leaves none."""
    scope = pipeline.deliveries[name].scope
    tables = [table for table in lake_table.published(pipeline, lake) if scope.holds(table.schema, table.name)]
    selected = [table for table in tables if only is None or only.holds(table.schema, table.name)]
    if only is not None and not selected:
        listed = ", ".join(map(str, tables)) or "none: nothing is published yet"
        raise ConfigError(f"delivery {name} has no such table; it has {listed}")
    return selected


@span("deliver", layer="delivery")
def deliver(pipeline: Pipeline, name: str, only: Scope | None = None) -> DeliveryOutcome:
    """Write what the target lacks of a delivery's tables. What stops one table does not stop the others.

    In order (``apply: ordered``) all tables of a source go together, and stop together.

    Args:
        pipeline: the configuration.
        name: the delivery's.
        only: which of its tables; all without it.

    Raises ConfigError, DeliveryError where the target cannot be reached or used at all, DeliveryDenied where its user
    may not.
    """
    settings, lake = pipeline.deliveries[name], lake_of(pipeline)
    is_ordered = settings.apply == "ordered"
    if is_ordered and only is not None:
        raise ConfigError(f"delivery {name} has apply: ordered, by which its tables go together; leave --table out")
    tables = chosen_tables(pipeline, lake, name, only)
    outcome = DeliveryOutcome(name)
    if is_ordered:
        require_ordered(tables, f"delivery {name}")
    rows = _progress_rows(name, settings) if tables else {}
    pending = _pending(settings, tables, rows)
    if not is_ordered:
        _stop_amid_logs(outcome, pending, rows)
        pending = [table for table in pending if (table.schema, table.name) not in outcome.stopped]
    annotate(delivery=name, tables=len(pending))
    if not pending and not (is_ordered and tables):
        return outcome
    with Connection(name, settings.mysql) as connection, granting(connection, settings, tables):
        progress.create(connection)
    # Tables share the connections that write; each has one of its own for what goes before and after its rows.
    with Workers(name, settings) as workers:
        if pending:
            logs = {source: row.position for (schema, source), row in rows.items() if not schema and row.position}
            _deliver_tables(workers, lake, pending, logs, outcome)
        if is_ordered:
            ordered = [table for table in tables if (table.schema, table.name) not in outcome.stopped]
            outcome.tables[:], stopped = deliver_logs(pipeline, workers, ordered, outcome.tables)
            for stopped_name, error in stopped.items():
                outcome.stop(stopped_name, error)
    return outcome


def _deliver_tables(
    workers: Workers, lake: Lake, tables: list[LakeTable], logs: Mapping[str, str], outcome: DeliveryOutcome
) -> None:
    """Deliver the changes of versions of tables, side by side. logs: by source how far its log is at the target."""
    threads = min(workers.settings.workers, len(tables))
    with (
        doing(f"delivery {outcome.delivery}: writing tables", len(tables)) as activity,
        ThreadPoolExecutor(threads) as pool,
        dropping(pool, workers.pool),
    ):
        futures = {pool.submit(_deliver_table, workers, lake, table, logs): table for table in tables}
        for future in futures:
            future.add_done_callback(activity.add)
        for future, table in futures.items():
            try:
                outcome.tables.append(future.result())
            except StratalogError as error:
                outcome.stop((table.schema, table.name), error)


def _progress_rows(name: str, settings: Delivery) -> dict[Name, Progress]:
    """The rows of progress of a delivery. Raises DeliveryError."""
    with Connection(name, settings.mysql) as connection:
        rows = progress.progress_by_table(connection, name) if progress.exists(connection) else {}
    return {table: row for table, (row, _) in rows.items()}


def _pending(settings: Delivery, tables: list[LakeTable], rows: Mapping[Name, Progress]) -> list[LakeTable]:
    """Tables that the target lacks something of; of a delivery in order, those that it does not have yet."""
    # A table that was restored from a backup may have the version's number again, and other rows under it.
    reached = {table: row for table, row in rows.items() if row.exit_version is None and row.version is not None}
    if settings.apply == "ordered":
        return [table for table in tables if reached.get((table.schema, table.name)) is None]
    return [table for table in tables if not _is_reached(table, reached.get((table.schema, table.name)))]


def _is_reached(table: LakeTable, row: Progress | None) -> bool:
    """True if the target has the version that a table has now."""
    if row is None or row.version != table.version:
        return False
    return not lake_table.is_restored(table, table.version, row.position)


def _stop_amid_logs(outcome: DeliveryOutcome, tables: Sequence[LakeTable], rows: Mapping[Name, Progress]) -> None:
    """Stop tables at no version of the lake: their logs were delivered in order, and not to the end."""
    for table in tables:
        try:
            _require_version(outcome.delivery, table, rows)
        except DeliveryError as error:
            outcome.stop((table.schema, table.name), error)


def _require_version(name: str, table: LakeTable, rows: Mapping[Name, Progress]) -> None:
    row = rows.get((table.schema, table.name))
    for source, origin in table.origins:
        log_row = rows.get(("", source))
        if row is None or row.version is None or log_row is None:
            continue
        if not _is_at_version(row, log_row, source, (origin.schema, origin.table)):
            raise DeliveryError(
                f"delivery {name}: {table}: the log of {source} was delivered in order up to "
                f"{log_row.exit_position or log_row.position}, where the table is not as a version of the lake has it; "
                "set apply: ordered until a run has delivered all that is published, or deliver it from the "
                f"beginning: stratalog deliver --reload --table {table} --yes"
            )


def _is_at_version(row: Progress, log_row: Progress, source: str, origin: Name) -> bool:
    """True if it is certain that a log wrote nothing into a table since it had the version of its row.

    Where a table left the log is not kept: it may have been between two versions.
    """
    is_in_log = log_row.tables is None or origin in log_row.tables
    if is_in_log and log_row.exit_position is not None:
        return False
    return log_row.tables is None or (row.logs or {}).get(source) == log_row.position


def _deliver_table(workers: Workers, lake: Lake, table: LakeTable, logs: Mapping[str, str]) -> Delivered:
    own_logs = {source: logs[source] for source, _ in table.origins if source in logs}
    with Connection(workers.name, workers.settings.mysql) as connection:
        delivery = TableDelivery(workers.name, workers.settings, lake, table, connection, workers.submit, own_logs)
        with about(delivery.label), granting(connection, workers.settings, [table]):
            return delivery.deliver()


def reload_tables(pipeline: Pipeline, name: str, tables: list[LakeTable]) -> None:
    """Empty tables of the target and forget their progress, so that they are delivered from the beginning.

    Raises DeliveryError.
    """
    settings = pipeline.deliveries[name]
    with Connection(name, settings.mysql) as connection, granting(connection, settings, tables, is_reload=True):
        progress.create(connection)
        for table in tables:
            row = TableId(name, table.schema, table.name)
            # First the progress: nobody delivers into the table from here on. A run that has read it and is about to
            # claim a log restarts, also where that log had no row.
            progress.claim(connection, row)
            rows = progress.progress_by_table(connection, name)
            is_ordered = settings.apply == "ordered"
            sources = [source for source, _ in table.origins if is_ordered or ("", source) in rows]
            logs = {source: TableId(name, "", source) for source in sources}
            for log_row in logs.values():
                progress.claim(connection, log_row)
            connection.retried(partial(_forget_progress, connection, row, table, logs), str(table))
            # Whoever delivered a log until now may still execute a statement.
            for log_row in logs.values():
                progress.claim(connection, log_row)
            fence = progress.claim(connection, row).fence
            connection.retried(partial(_empty, connection, row, fence), str(table))


def _forget_progress(connection: Connection, row: TableId, table: LakeTable, logs: Mapping[str, TableId]) -> None:
    """Forget a table's progress, and that its logs are followed for it, in one transaction; it may be repeated.

    Where the lake was put back, the next copy is of an earlier position than the log's. logs: their claimed rows, by
    source.
    """
    connection.execute("START TRANSACTION")
    for source, log_row in logs.items():
        stored = progress.stored_progress(connection, log_row)
        names = frozenset((origin.schema, origin.table) for owner, origin in table.origins if owner == source)
        assert stored is not None, "it was claimed"
        connection.execute(progress.leave_log_sql(log_row, stored, names))
    connection.execute(progress.restart_sql(row))
    connection.execute("COMMIT")


def _empty(connection: Connection, row: TableId, fence: int) -> None:
    if connection.ask(_IS_THERE, (row.schema, row.table)):
        statement = f"TRUNCATE TABLE {identifier(row.schema)}.{identifier(row.table)}"
        execute_alone(connection, row, fence, statement)


_IS_THERE = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
