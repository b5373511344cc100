"""Delivery of one table: what the target lacks of it, in windows, each in as few transactions as possible.

Put here: the order of DDL, deletes, writes and progress. Not here: the tables of a delivery and its connections
(deliver.py), or the text of statements (statements.py, target_table.py).

A window of up to ten statements is one transaction, with the progress row. A larger one is opened in the progress row
with its exit point, and split into parts: deletes, then, when all of these are complete, writes. Each part is a
transaction that notes the span of its rows, so none is written twice; the last statement moves the position. A row
whose unique values change is deleted and written, so that no row of a part is in the way of another part's.
"""

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pymysql

from spark_jobs.config.deliveries import Delivery
from spark_jobs.delivery import changes, lake_table, target_table
from spark_jobs.delivery import progress as rows_of
from spark_jobs.delivery.changes import KeyedChanges, KeylessChanges, TableDelta
from spark_jobs.delivery.lake_table import LakeTable, LakeTableShape
from spark_jobs.delivery.progress import Progress, Step, TableId, WindowPlan
from spark_jobs.delivery.row_spans import ChangeKind, RemainingRows, RowSpan
from spark_jobs.delivery.statements import RowStatement, WriteMethod, Writer
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_table import Alterations, Dialect, TargetTable
from spark_jobs.delivery.transactions import TargetTransaction, commit, execute_alone
from spark_jobs.errors import DeliveryError
from spark_jobs.lake.layout import Lake
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)

STATEMENTS = 10
"""Statements of a transaction at limit, of ``batch_rows`` each."""
_PART_BYTES = 16 << 20
"""Bytes of Arrow's rows in a part at limit, but for one of a single row."""
_REPORT_SECONDS = 5.0
"""Seconds between two lines of progress."""
_SPANS = 1
"""Version of the order of a window's rows; raised where a change of it gives spans another meaning."""

Submit = Callable[[Callable[[Connection], int]], "Future[int]"]
"""Function that gives work to one of the delivery's connections."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Result of a delivery for one table."""

    table: TableId
    position: str | None
    version: int
    rows: int = 0
    """Rows written and deleted."""
    windows: int = 0
    statements: tuple[str, ...] = ()
    """DDL."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TransactionPart:
    """Rows of one transaction, as functions that make its statements."""

    span: RowSpan
    size: int
    """Bytes of them in Arrow."""
    statements: Callable[[], Iterator[RowStatement]]

    @property
    def rows(self) -> int:
        return self.span.end - self.span.begin

    @property
    def is_delete(self) -> bool:
        return self.span.kind.is_delete


@dataclass
class TableDelivery:
    """Delivers one table.

    connection: of the thread that calls; submit: to those of all tables. logs: by source how far its log is at the
    target, where a delivery in order follows it.
    """

    name: str
    settings: Delivery
    lake: Lake
    table: LakeTable
    connection: Connection
    submit: Submit
    logs: Mapping[str, str] = field(default_factory=dict)
    _reported_at: float = field(default=0.0, init=False)

    @property
    def id(self) -> TableId:
        return TableId(self.name, self.table.schema, self.table.name)

    @property
    def label(self) -> str:
        return f"delivery {self.name}: {self.table}"

    def deliver(self) -> Delivered:
        """Everything that the target lacks. Raises DeliveryError, LakeError, LostRace."""
        try:
            return self._deliver()
        except (pymysql.MySQLError, OSError) as error:
            raise self.connection.error(error, str(self.table)) from error

    def _deliver(self) -> Delivered:
        began = time.monotonic()
        progress = rows_of.claim(self.connection, self.id)
        result = Delivered(self.id, progress.position, progress.version if progress.version is not None else -1)
        if progress.version is not None and lake_table.is_restored(self.table, progress.version, progress.position):
            raise DeliveryError(
                f"{self.label}: the lake's table was restored to a state before version {progress.version}, which the "
                "target has; deliver it from the beginning: stratalog deliver --reload"
            )
        # A window that is open is completed first: its parts are planned by its own end.
        ends = [progress.exit_version] if progress.exit_version is not None else []
        for until in (*ends, self.table.version):
            if progress.version is not None and progress.version >= until:
                continue
            for window in changes.windows(self.table.table.path, progress.version, until):
                progress, result = self._window(progress, window, result)
        return replace(result, seconds=time.monotonic() - began)

    def _window(self, progress: Progress, window: TableDelta, result: Delivered) -> tuple[Progress, Delivered]:
        # The target's columns first: a window that is open has had its statements.
        self._require_same_table(progress, window)
        shape = lake_table.shape_of(self.lake, self.table, window.after)
        dialect = Dialect.of(self.connection)
        statements: list[str] = []
        if progress.exit_version is None:
            statements = self._alter(progress, shape, dialect)
        # A first copy goes into an empty table, unless rows are overwritten by their keys.
        target = target_table.target_table(self.connection, self.table.schema, self.table.name)
        if target is None:
            raise DeliveryError(f"{self.label}: the target has no such table; create it, or set ddl: apply")
        is_first = progress.version is None and progress.exit_version is None
        if is_first and self.settings.safe_mode != "on":  # which overwrites what is there
            self._require_empty()
        # The rows, in transactions that carry the progress row; then the window is closed.
        columns = target_table.types_of(shape, dialect)
        step = Step(window.after.metadata.id, window.after.version, shape.position, columns, logs=self.logs)
        rows = _Writing(self, progress, window, step, target, shape).write()
        position = f"{shape.position}, {rows} rows" if rows else shape.position
        log.info("%s: delivered up to %s", self.label, position)
        after = replace(
            progress,
            lake_id=step.lake_id,
            version=step.version,
            position=step.position,
            columns=step.columns,
            exit_version=None,
            exit_position=None,
            parts=frozenset(),
            plan=None,
        )
        return after, replace(
            result,
            position=step.position,
            version=step.version,
            rows=result.rows + rows,
            windows=result.windows + 1,
            statements=(*result.statements, *statements),
        )

    def _require_same_table(self, progress: Progress, window: TableDelta) -> None:
        if progress.lake_id not in (None, window.after.metadata.id):
            raise DeliveryError(
                f"{self.label}: the downstream table was made again since it was delivered; deliver it from the "
                "beginning: stratalog deliver --reload"
            )

    def _require_empty(self) -> None:
        name = f"{identifier(self.table.schema)}.{identifier(self.table.name)}"
        if self.connection.ask(f"SELECT 1 FROM {name} LIMIT 1"):
            raise DeliveryError(
                f"{self.label}: the target's table has rows that this delivery did not write; empty it, let stratalog "
                "deliver --reload do so, or overwrite rows of equal keys by safe_mode: on"
            )

    def _alter(self, progress: Progress, shape: LakeTableShape, dialect: Dialect) -> list[str]:
        """Make the target's columns those of a version; the statements that did. Raises DeliveryError."""
        # What an attempt altered, the next one finds altered.
        return self.connection.retried(lambda: self._altered(progress, shape, dialect), str(self.table))

    def _altered(self, progress: Progress, shape: LakeTableShape, dialect: Dialect) -> list[str]:
        statements = self._statements(progress, shape, dialect)
        if statements and self.settings.ddl == "stop":
            raise DeliveryError(
                f"{self.label}: its columns changed, and ddl is stop; run at the target what follows, then deliver "
                f"again: {'; '.join(statements)}"
            )
        for statement in statements:
            log.info("%s: %s", self.label, statement)
            execute_alone(self.connection, self.id, progress.fence, statement)
        return statements

    def _statements(self, progress: Progress, shape: LakeTableShape, dialect: Dialect) -> list[str]:
        target = target_table.target_table(self.connection, self.table.schema, self.table.name)
        if self.settings.ddl == "ignore":
            return []
        if target is None:
            for note in target_table.key_notes(shape, dialect):
                log.warning("%s: %s", self.label, note)
            return target_table.creation(self.table.schema, self.table.name, shape, dialect)
        is_checked = self.settings.ddl == "stop"
        clauses = Alterations(progress.columns, shape, target, dialect).clauses(is_checked=is_checked)
        name = f"{identifier(self.table.schema)}.{identifier(self.table.name)}"
        return dialect.altering(name, clauses)

    def log_progress(self, rows: int, total: int) -> None:
        """A line of progress, once in a while."""
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            log.info("%s: %s of %s rows", self.label, f"{rows:,}", f"{total:,}")


@dataclass(frozen=True, slots=True)
class _Writing:
    """Writes the rows of one window, and moves the progress row."""

    table: TableDelivery
    progress: Progress
    window: TableDelta
    step: Step
    target: TargetTable
    shape: LakeTableShape

    def write(self) -> int:
        """Number of rows that were written and deleted. Raises DeliveryError, LakeError, LostRace, MySQLError."""
        settings = self.table.settings
        part_rows = settings.batch_rows * STATEMENTS
        is_split = self.progress.exit_version is not None or self.window.rows > part_rows
        is_safe = settings.safe_mode == "on"
        # One transaction, unless its rows are large.
        if not is_split:
            parts = list(self.parts(part_rows, is_safe=is_safe))
            if sum(part.size for part in parts) <= 2 * _PART_BYTES:
                rows = sum(part.rows for part in parts)
                statements = list(chain.from_iterable(part.statements() for part in parts))
                self._commit_statements(statements, rows)
                return rows
        return self._opened_window().write_open(part_rows, is_safe=is_safe)

    def write_open(self, part_rows: int, *, is_safe: bool) -> int:
        """Write what remains of a window that is open, and close it; how many rows these were."""
        assert self.progress.plan
        is_safe = is_safe or self.progress.plan.is_repeated
        rows = self._write_parts(self.parts(part_rows, is_safe=is_safe))
        self._commit_statements([], 0)
        return rows

    def _opened_window(self) -> "_Writing":
        """Writing with a window that is open: begun now, to be completed, or to be written again as a whole."""
        writer, progress = self._writer(), self.progress
        digest = self._digest(writer)
        is_open, plan = progress.exit_version is not None, progress.plan
        is_same = plan is not None and plan.digest == digest
        if is_open and (plan is None or not is_same or plan.is_repeated):
            self._require_repeatable(writer)
        if is_open and is_same:
            return self
        # The names of other parts say nothing of these: all rows are written, over what is there of them.
        plan = WindowPlan(digest, is_repeated=is_open)
        statement = rows_of.open_window_sql(self.table.id, progress, self.step, plan)
        work = TargetTransaction(self.table.id, (), statement, lambda progress: progress.plan == plan)
        commit(self.table.connection, work, progress.fence)
        after = replace(progress, exit_version=self.step.version, plan=plan, parts=frozenset())
        return replace(self, progress=after)

    def _digest(self, writer: Writer) -> str:
        """Digest of what the spans of a window's rows depend on, beside its files, which never change."""
        columns = sorted(column.name for column in writer.columns)
        unique = [column.name for column in self.target.unique_columns(writer.columns)]
        versions = self.progress.version, self.step.version
        text = json.dumps([_SPANS, versions, columns, writer.key, unique, changes.KEYS_AT_ONCE])
        return hashlib.sha256(text.encode()).hexdigest()

    def _require_repeatable(self, writer: Writer) -> None:
        if writer.key and self.table.settings.safe_mode != "off":
            return
        method = (
            "set safe_mode: auto, by which it is written again as a whole"
            if writer.key
            else "deliver the table, whose rows have no key, from the beginning: stratalog deliver --reload"
        )
        raise DeliveryError(
            f"{self.table.label}: the window up to {self.progress.exit_position} was begun with other columns, "
            "another key or other unique indexes at the target, or by another release of Stratalog, so the rest of it "
            f"is not known; put that back until the window is complete, or {method}"
        )

    def _writer(self) -> Writer:
        columns = self.target.output_columns(self.shape)
        if not columns:
            raise DeliveryError(f"{self.table.label}: the target's table has no column of the lake's")
        return Writer(
            self.table.table.schema,
            self.table.table.name,
            columns,
            self.target.key(columns),
            self.table.settings.batch_rows,
            self.table.connection.facts.max_packet,
            self.shape.source_key(columns),
        )

    def parts(self, part_rows: int, *, is_safe: bool) -> Iterator[TransactionPart]:
        """The window's rows that remain, in parts: deletes of all keys first."""
        writer = self._writer()
        rows = self._keyed(writer, is_safe=is_safe) if writer.key else self._keyless(writer)
        statements = self._statements(writer, is_safe=is_safe)
        remaining, counts = RemainingRows(self.progress.parts), Counter[ChangeKind]()
        for table, kind in _gathered(rows, part_rows):
            begin = counts[kind]
            counts[kind] += len(table)
            for span in remaining.of(RowSpan(kind, begin, counts[kind])):
                rest = table.slice(span.begin - begin, span.end - span.begin)
                at = span.begin
                for log_slice in _bounded_parts(rest, part_rows):
                    part = RowSpan(kind, at, at + len(log_slice))
                    yield TransactionPart(part, log_slice.nbytes, partial(statements[kind], log_slice))
                    at = part.end

    def _statements(self, writer: Writer, *, is_safe: bool) -> "Mapping[ChangeKind, Statements]":
        """Makers of statements from rows, by kind of change."""
        if not writer.key:
            is_counted = bool(self.window.removed)
            insert = _inserts_of_copies(writer) if is_counted else _writes(writer, WriteMethod.INSERT)
            return {ChangeKind.DELETE: _deletes_of_copies(self._old_writer(writer)), ChangeKind.INSERT: insert}
        if not is_safe:
            update, insert = (_writes(writer, method) for method in (WriteMethod.UPDATE, WriteMethod.INSERT))
            return {ChangeKind.DELETE: writer.delete, ChangeKind.UPDATE: update, ChangeKind.INSERT: insert}
        # Under a second unique index a row that is there may have what another row's values are by now.
        delete, upsert = partial(writer.delete, is_again=True), _writes(writer, WriteMethod.UPSERT)
        insert = _replacements(writer) if self.target.unique > 1 else _writes(writer, WriteMethod.REPEATED_INSERT)
        kinds = (ChangeKind.DELETE, ChangeKind.CLEAR, ChangeKind.UPDATE, ChangeKind.INSERT)
        return dict(zip(kinds, (delete, delete, upsert, insert), strict=True))

    def _old_writer(self, writer: Writer) -> Writer:
        """A writer for rows of the version before, which are identified by the columns of that version.

        In a column that has come since, the target gave all of them one value, which need not be the lake's. No new row
        is there before all deletes are complete.
        """
        if not self.progress.columns:
            return writer
        old = {column.name for column in self.shape.columns if column.physical in self.progress.columns}
        return replace(writer, columns=tuple(column for column in writer.columns if column.name in old))

    def _keyed(self, writer: Writer, *, is_safe: bool) -> "Iterator[_Rows]":
        unique = self.target.unique_columns(writer.columns)
        if not writer.has_source_key:
            changes.require_different_keys(self.table.label, self.window, writer.key_columns, self.shape.key)
        all_shares = [
            KeyedChanges(self.window, writer.columns, writer.key_columns, unique, share, writer.identity_columns)
            for share in changes.key_shares(self.window)
        ]
        # All deletes go first: a write may bring a key in other letters back.
        for share in all_shares:
            for keys in share.deletes():
                yield keys, ChangeKind.DELETE
        # Of an open window it is stored whether it is written again, so spans mean the same for the next run.
        is_again = self.progress.plan.is_repeated if self.progress.plan else is_safe
        for share in all_shares if is_again and self.target.unique > 1 else ():
            for keys in share.inserts():
                yield keys, ChangeKind.CLEAR
        for share in all_shares:
            for rows, is_update in share.writes():
                yield rows, ChangeKind.UPDATE if is_update else ChangeKind.INSERT

    def _keyless(self, writer: Writer) -> "Iterator[_Rows]":
        if not self.window.removed:
            share = changes.key_shares(self.window)[0]
            for rows, _ in KeyedChanges(self.window, writer.columns, (), (), share).writes():
                yield rows, ChangeKind.INSERT
            return
        for share in changes.key_shares(self.window):
            rows, copies = KeylessChanges(self.window, writer.columns, share).net()
            counted = rows.append_column(_COPIES, pa.array(copies))
            yield counted.filter(pa.array(copies < 0)), ChangeKind.DELETE
            yield counted.filter(pa.array(copies > 0)), ChangeKind.INSERT

    def _commit_statements(self, statements: list[RowStatement], rows: int) -> None:
        statement = rows_of.complete_version_sql(self.table.id, self.progress, self.step, rows)
        work = TargetTransaction(
            self.table.id,
            statements,
            statement,
            lambda progress: progress.version == self.step.version and progress.exit_version is None,
        )
        commit(self.table.connection, work, self.progress.fence)

    def _write_parts(self, parts: Iterator[TransactionPart]) -> int:
        """Give the parts to the delivery's connections; all deletes are complete before the first write begins."""
        pending: set[Future[int]] = set()
        rows, is_deleting = 0, True
        total = self.window.rows
        try:
            # Deletes of all connections end before the first write: a write may bring a key in other letters back.
            for part in parts:
                if is_deleting and not part.is_delete:
                    rows += _drain(pending)
                    is_deleting = False
                pending.add(self.table.submit(partial(self._write_part, part)))
                if len(pending) >= 2 * self.table.settings.workers:
                    rows += _take_complete(pending)
                    self.table.log_progress(rows, total)
            return rows + _drain(pending)
        finally:
            _cancel(pending)

    def _write_part(self, part: TransactionPart, connection: Connection) -> int:
        version = self.step.version
        statement = rows_of.complete_part_sql(self.table.id, self.progress, version, str(part.span), part.rows)
        work = TargetTransaction(
            self.table.id,
            list(part.statements()),
            statement,
            lambda progress: str(part.span) in progress.parts or progress.version == version,
        )
        commit(connection, work, self.progress.fence)
        return part.rows


Statements = Callable[[pa.Table], Iterator[RowStatement]]
"""Makes statements of rows."""
_Rows = tuple[pa.Table, ChangeKind]


def _bounded_parts(rows: pa.Table, limit: int) -> Iterator[pa.Table]:
    """The rows in parts of so many, and of bounded size."""
    if not len(rows):
        return
    size = max(1, min(limit, _PART_BYTES * len(rows) // max(1, rows.nbytes)))
    for begin in range(0, len(rows), size):
        yield rows.slice(begin, size)


def _gathered(rows: "Iterator[_Rows]", limit: int) -> "Iterator[_Rows]":
    """Rows of one kind together, up to so many; all deletes before the first write."""
    gathered: dict[ChangeKind, list[pa.Table]] = {}
    is_deleting = True
    for table, kind in rows:
        if kind.is_delete != is_deleting:
            yield from ((pa.concat_tables(tables), kind_before) for kind_before, tables in gathered.items())
            gathered, is_deleting = {}, kind.is_delete
        gathered.setdefault(kind, []).append(table)
        if sum(map(len, gathered[kind])) >= limit:
            yield pa.concat_tables(gathered.pop(kind)), kind
    yield from ((pa.concat_tables(tables), kind) for kind, tables in gathered.items())


def _writes(writer: Writer, method: WriteMethod) -> Statements:
    return partial(writer.write, method=method)


def _replacements(writer: Writer) -> Statements:
    """Statements that delete rows of these keys, in the transaction in which the new rows come."""
    return lambda rows: chain(writer.delete(rows, is_again=True), writer.write(rows, WriteMethod.INSERT))


_COPIES = "\0copies"


def _deletes_of_copies(writer: Writer) -> Statements:
    return lambda rows: writer.delete_copies(rows, [-count for count in rows.column(_COPIES).to_pylist()])


def _inserts_of_copies(writer: Writer) -> Statements:
    def statements(rows: pa.Table) -> Iterator[RowStatement]:
        copies = rows.column(_COPIES).to_numpy()
        indexes = [index for index, count in enumerate(copies) for _ in range(count)]
        yield from writer.write(rows.take(pa.array(indexes, pa.int64())), WriteMethod.INSERT)

    return statements


def _cancel(pending: "set[Future[int]]") -> None:
    """End when none of them is carried out any more. One that a pool has dropped is never complete for ``wait``."""
    wait([future for future in pending if not future.cancel()])


def _take_complete(pending: "set[Future[int]]") -> int:
    """Wait for one of them, and take out all that are complete; how many rows they wrote."""
    complete, _ = wait(pending, return_when=FIRST_COMPLETED)
    pending -= complete
    return sum(future.result() for future in complete)


def _drain(pending: "set[Future[int]]") -> int:
    rows = sum(future.result() for future in pending)
    pending.clear()
    return rows
