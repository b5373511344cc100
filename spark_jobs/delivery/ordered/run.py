"""Run of a delivery in order: the logs of its sources, one after the other, up to what is published.

Put here: from where to where a log is delivered, and what is said of its tables. Not here: windows (log_delivery.py),
or the first copies of tables (deliver.py).
"""

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pymysql

from spark_jobs.config.model import Pipeline
from spark_jobs.delivery import lake_table, target_table
from spark_jobs.delivery import progress as rows_of
from spark_jobs.delivery.lake_table import LakeTable, Origin
from spark_jobs.delivery.ordered.judgement import Judge
from spark_jobs.delivery.ordered.log_delivery import LogDelivery, log_id
from spark_jobs.delivery.ordered.log_tables import (
    Logged,
    OrderedTable,
    published_positions,
    require_log_alone,
    state_at,
)
from spark_jobs.delivery.ordered.target_state import TargetState
from spark_jobs.delivery.privileges import granting
from spark_jobs.delivery.progress import Names, Progress, TableId
from spark_jobs.delivery.table_delivery import Delivered
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_table import Dialect
from spark_jobs.delivery.transactions import TargetTransaction, commit, execute_alone
from spark_jobs.delivery.workers import Workers
from spark_jobs.delta.snapshot import snapshot_of
from spark_jobs.downstream.multi_source import PROVENANCE
from spark_jobs.errors import DeliveryError, StratalogError, about
from spark_jobs.lake.layout import lake_of
from spark_jobs.log.position import Position, Range

log = logging.getLogger(__name__)

Name = tuple[str, str]


def deliver_logs(
    pipeline: Pipeline,
    workers: Workers,
    tables: Sequence[LakeTable],
    copied: Sequence[Delivered],
) -> tuple[list[Delivered], dict[Name, StratalogError]]:
    """Deliver what the target lacks of the logs of all sources.

    Args:
        pipeline: the configuration.
        workers: the delivery's connections.
        tables: those of the delivery that do not stand still.
        copied: what was done with tables before: their first copies.

    Returns what was done with each table, and what stopped which tables, and which sources, by ("", source).
    """
    # What stops one source does not stop the next.
    with Connection(workers.name, workers.settings.mysql) as connection:
        run = _Run(pipeline, workers, tables, connection)
        stopped = run.stopped
        for source in pipeline.sources:
            try:
                with about(f"delivery {workers.name}"), granting(connection, workers.settings, tables):
                    _deliver_source(run, source)
            except StratalogError as error:
                stopped["", source] = error
    by_table = {table.table: table for table in copied}
    for table in run.delivered.values():
        before = by_table.get(table.table)
        by_table[table.table] = table if before is None else _sum(before, table)
    return list(by_table.values()), stopped


def _deliver_source(run: "_Run", source: str) -> None:
    """Deliver a source; what the target's server raises is a DeliveryError."""
    try:
        run.deliver(source)
    except (pymysql.MySQLError, OSError) as error:
        raise run.connection.error(error, source) from error


def _sum(first: Delivered, later: Delivered) -> Delivered:
    return Delivered(
        later.table,
        later.position,
        later.version,
        first.rows + later.rows,
        first.windows + later.windows,
        (*first.statements, *later.statements),
        first.seconds + later.seconds,
    )


@dataclass
class _Run:
    """Delivers one source after the other."""

    pipeline: Pipeline
    workers: Workers
    tables: Sequence[LakeTable]
    connection: Connection
    delivered: dict[TableId, Delivered] = field(default_factory=dict)
    ended: set[tuple[Origin, Name]] = field(default_factory=set)
    """Source tables of which the target has all that is published of them."""
    stopped: dict[Name, StratalogError] = field(default_factory=dict)
    """Tables that are not delivered with the others, with the reason."""

    def deliver(self, source: str) -> None:
        """Deliver a source. Raises DeliveryError, LakeError, DecodeError, TableStopped, LostRace, MySQLError."""
        is_delivered = False
        while not is_delivered:
            is_delivered = self._deliver_rest(source)

    def _deliver_rest(self, source: str) -> bool:
        """Deliver what the target lacks; False, with nothing delivered, where another run took the log meanwhile."""
        # The tables of which the target has a first copy, and all rows up to the position that is reached.
        lake, name, connection = lake_of(self.pipeline), self.workers.name, self.connection
        rows = {table: row for table, (row, _) in rows_of.progress_by_table(connection, name).items()}
        stored = rows.get(("", source), Progress(0))
        reached_position = stored.exit_position or stored.position
        tables = self._logged(source, rows)
        if reached_position:
            tables = self._complete_tables(source, rows, tables, Position.parse(reached_position))
        if not tables:
            return True
        # A first copy is noted at once: the table's next version says no more that it was complete up to the log's.
        is_new = stored.tables is not None and not _table_names(tables) <= stored.tables
        progress = self._claimed(source, stored, tables) if is_new else None
        if is_new and progress is None:
            return False
        # All tables end where the slowest does: rows of one transaction are delivered together.
        begin = Position.parse(stored.position) if stored.position else min(table.since for table in tables)
        end = max(begin, min(table.end for table in tables))
        is_behind = any(self._is_behind(rows, table, end) for table in tables)
        slowest, newest = min(tables, key=lambda table: table.end), max(table.end for table in tables)
        if slowest.end < newest:
            log.warning(
                "delivery %s: %s: ends at %s, where %s is published, since tables go together; the others are at %s",
                *(name, source, slowest.end, slowest.name, newest),
            )
        if begin == end and stored.exit_version is None and not is_behind:
            self.ended |= {_origin(source, table) for table in tables if table.end == end}
            return True
        # The log alone makes the rows of a range: what came into silver otherwise stops the delivery.
        for table in tables:
            row = rows[table.into.schema, table.into.name]
            assert row.version is not None
            version = lake_table.silver_version_at(table.into, row.version, (source, table.name))
            require_log_alone(lake, source, table, version)
        progress = progress or self._claimed(source, stored, tables)
        if progress is None:
            return False
        self._deliver_windows(source, tables, Range(begin, end), progress)
        return True

    def _deliver_windows(self, source: str, tables: Sequence[OrderedTable], within: Range, progress: Progress) -> None:
        """Deliver a range of the log, in two windows where one is open. Raises as ``deliver``."""
        # A window that is open is completed first, since its parts are planned by its own end.
        began, begin = time.monotonic(), within.start
        ends = [Position.parse(progress.exit_position)] if progress.exit_position else []
        slowest = min(tables, key=lambda table: table.end)
        if ends and slowest.end < ends[0]:
            raise DeliveryError(
                f"delivery {self.workers.name}: {source}: a window up to {ends[0]} is open at the target, and the lake "
                f"has {slowest.name} up to {slowest.end}; it is completed once the lake has it up to there"
            )
        delivery: LogDelivery | None = None
        for until in (*ends, max([within.stop, *ends])):
            planned = progress.plan.tables if progress.plan else _table_names(tables)
            members = [table for table in tables if _table_names([table]) <= planned]
            delivery = self._delivery(source, Range(begin, until), members, progress)
            delivery.tables = _table_names(tables)
            delivery.deliver()
            self._note_results(delivery, time.monotonic() - began)
            begin, progress = until, delivery.progress
        assert delivery
        # The tables whose end is reached, and the progress rows of all.
        self.ended |= {_origin(source, table) for table in tables if table.end == begin}
        delivery.commit_position(self._notes(source, tables, begin), begin)

    def _complete_tables(
        self, source: str, rows: dict[Name, Progress], tables: Sequence[OrderedTable], begin: Position
    ) -> list[OrderedTable]:
        """Tables that the target has all of up to the log's position; what stops the others is noted.

        begin: the position, or the end of an open window, from which on all tables go together.
        """
        complete_tables = []
        for table in tables:
            try:
                self._require_complete(source, rows, table, begin)
            except DeliveryError as error:
                self.stopped[table.into.schema, table.into.name] = error
            else:
                complete_tables.append(table)
        return complete_tables

    def _require_complete(self, source: str, rows: dict[Name, Progress], table: OrderedTable, begin: Position) -> None:
        log_row, row = rows["", source], rows[table.into.schema, table.into.name]
        # Of an open window the rows of its own tables alone come still, whatever the position was about before.
        followed = [log_row.tables, log_row.plan.tables if log_row.plan else None]
        is_followed = all(names is None or _table_names([table]) <= names for names in followed)
        is_current = row.version == table.into.version and table.end >= begin
        if is_followed or is_current or table.since >= begin:
            return
        raise DeliveryError(
            f"delivery {self.workers.name}: {table.into}: the log of {source} was delivered up to {begin} without it, "
            f"and the target has it up to {table.since}; leave it out, or deliver it from the beginning when it is "
            f"published up to there: stratalog deliver --reload --table {table.into} --yes"
        )

    def _claimed(self, source: str, stored: Progress, tables: Sequence[OrderedTable]) -> Progress | None:
        """The log's row, for this run and with its tables; None where another run had it since ``stored`` was read."""
        progress = rows_of.claim(self.connection, log_id(self.workers.name, source))
        return self._progress_with_tables(progress, source, tables) if progress.fence == stored.fence + 1 else None

    def _progress_with_tables(self, progress: Progress, source: str, tables: Sequence[OrderedTable]) -> Progress:
        """Notes tables that the log's position is about from here on; those that went stay until it moves."""
        names = _table_names(tables) | (progress.tables or frozenset())
        if names == progress.tables:
            return progress
        row = log_id(self.workers.name, source)
        work = TargetTransaction(
            row, (), rows_of.set_tables_sql(row, progress, names), lambda stored: stored.tables == names
        )
        commit(self.connection, work, progress.fence)
        return replace(progress, tables=names)

    def _logged(self, source: str, rows: dict[Name, Progress]) -> list[OrderedTable]:
        """The source's tables that the target has a first copy of."""
        tables = []
        for name, into, end in published_positions(lake_of(self.pipeline), source, self.tables):
            row = rows.get((into.schema, into.name))
            since = lake_table.positions_of(row.position, into).get((source, name)) if row else None
            if row and row.exit_version is None and since:
                tables.append(OrderedTable(name, into, since, end))
        return tables

    @staticmethod
    def _is_behind(rows: dict[Name, Progress], table: OrderedTable, end: Position) -> bool:
        version = rows[table.into.schema, table.into.name].version
        return table.end == end and version is not None and version < table.into.version

    def _delivery(self, source: str, within: Range, tables: Sequence[OrderedTable], progress: Progress) -> LogDelivery:
        """The delivery of a range. Raises DeliveryError, LakeError, DecodeError, TableStopped."""
        workers, lake = self.workers, lake_of(self.pipeline)
        # What commits by itself is executed under the fence of the log's own row.
        logged = Logged.of(self.pipeline, lake, source, within, tables)
        rows = rows_of.progress_by_table(self.connection, workers.name)
        targets = []
        for number, (table, job) in enumerate(zip(logged.tables, logged.jobs, strict=True)):
            into = (table.into.schema, table.into.name)
            owner = (source, table.name.schema, table.name.table)
            provenance = dict(zip(PROVENANCE, owner, strict=True)) if table.into.into.is_merged else {}
            targets.append(
                TargetState(
                    label=str(table.into),
                    settings=workers.settings,
                    number=number,
                    into=table.into,
                    judge=Judge(job, provenance),
                    connection=self.connection,
                    before=rows[into][0].columns,
                    state=state_at(job.table, max(within.start, table.since)),
                    is_helper=lambda name: self.pipeline.scope.why_helper(name.schema, name.table) is not None,
                    seed=_seed(into),
                    execute=partial(execute_alone, self.connection, log_id(workers.name, source), progress.fence),
                )
            )
        return LogDelivery(workers.name, workers.settings, logged, targets, progress, self.connection, workers.submit)

    def _note_results(self, delivery: LogDelivery, seconds: float) -> None:
        """Note the results of tables so far."""
        for number, target in enumerate(delivery.targets):
            table = TableId(self.workers.name, target.into.schema, target.into.name)
            delivered = Delivered(
                table,
                delivery.progress.position,
                target.into.version,
                delivery.counts.get(number, 0),
                delivery.windows,
                tuple(delivery.statements.get(number, ())),
                seconds,
            )
            before = self.delivered.get(table)
            if delivered.rows or delivered.statements or before:
                self.delivered[table] = delivered if before is None else _sum(before, delivered)

    def _notes(self, source: str, tables: Sequence[OrderedTable], position: Position) -> list[str]:
        """SQL: the versions that the target has now, of tables of which it has all that is published.

        position: up to where the source's log is delivered with it.
        """
        lake, dialect, notes = lake_of(self.pipeline), Dialect.of(self.connection), []
        rows = rows_of.progress_by_table(self.connection, self.workers.name)
        logs = {name: row.position for (schema, name), (row, _) in rows.items() if not schema and row.position}
        logs[source] = str(position)
        for table in {(table.into.schema, table.into.name): table.into for table in tables}.values():
            if not all((origin, (table.schema, table.name)) in self.ended for origin in table.origins):
                continue
            # The version is what verify compares with, and what another way of applying continues from.
            snapshot = snapshot_of(table.table.path, table.version)
            if snapshot is None:
                continue
            shape = lake_table.shape_of(lake, table, snapshot)
            columns, own_logs = (
                target_table.types_of(shape, dialect),
                {origin: logs[origin] for origin, _ in table.origins if origin in logs},
            )
            step = rows_of.Step(snapshot.metadata.id, table.version, shape.position, columns, logs=own_logs)
            notes.append(rows_of.set_version_sql(TableId(self.workers.name, table.schema, table.name), step))
        return notes


def _table_names(tables: Sequence[OrderedTable]) -> Names:
    return frozenset((table.name.schema, table.name.table) for table in tables)


def _seed(into: Name) -> int:
    """A number of a table of the target, whatever other tables there are; those merged into it have its keys."""
    return int.from_bytes(hashlib.sha256("\0".join(into).encode()).digest()[:8])


def _origin(source: str, table: OrderedTable) -> tuple[Origin, Name]:
    return (source, table.name), (table.into.schema, table.into.name)
