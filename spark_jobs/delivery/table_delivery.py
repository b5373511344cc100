"""One table of a delivery: what the target lacks of it, in windows, each in as few transactions as it takes.

Put here: the order of DDL, deletes, writes and progress. Not here: the tables of a delivery and its connections
(deliver.py), or the text of statements (statements.py, target_table.py).

A window of up to ten statements is one transaction, with the progress row. A larger one is opened in the progress row
with its exit point, and split into parts: deletes, then, when all of these are complete, writes. Each part is a
transaction that notes its number; the last statement moves the position. Its statements are idempotent (safe mode), as
rows of a part may be in the way of another part's.
"""

import logging
import time
from collections.abc import Callable, Iterator
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
from spark_jobs.delivery.progress import Progress, Step, TableId
from spark_jobs.delivery.statements import Way, Writer
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.target_table import Alterations, Dialect, TargetTable
from spark_jobs.delivery.transactions import TargetTransaction, commit
from spark_jobs.errors import DeliveryError
from spark_jobs.lake.layout import Lake
from spark_jobs.text.sql import identifier

log = logging.getLogger(__name__)

STATEMENTS = 10
"""Statements of a transaction at limit, of ``batch_rows`` each."""
_PART_BYTES = 16 << 20
"""Bytes of Arrow's rows in a part at limit, but for one of a single row."""
_SAY_EVERY = 5.0
"""Seconds between two lines of progress."""

Submit = Callable[[Callable[[Connection], int]], "Future[int]"]
"""Gives work to one of the delivery's connections."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a delivery did with a table."""

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

    number: int
    is_delete: bool
    rows: int
    size: int
    """Bytes of them in Arrow."""
    statements: Callable[[], Iterator[bytes]]


@dataclass
class TableDelivery:
    """Delivers one table. connection: of the thread that calls; submit: to those of all tables."""

    name: str
    settings: Delivery
    lake: Lake
    table: LakeTable
    connection: Connection
    submit: Submit
    _reported_at: float = field(default=0.0, init=False)

    @property
    def id(self) -> TableId:
        return TableId(self.name, self.table.schema, self.table.name)

    @property
    def place(self) -> str:
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
        # A window that is open is completed first: its parts are planned by its own end.
        ends = [progress.exit_version] if progress.exit_version is not None else []
        for until in (*ends, self.table.version):
            if progress.version is not None and progress.version >= until:
                continue
            for window in changes.windows(self.table.table.path, progress.version, until):
                progress, result = self._window(progress, window, result)
        return replace(result, seconds=time.monotonic() - began)

    def _window(self, progress: Progress, window: TableDelta, result: Delivered) -> tuple[Progress, Delivered]:
        self._require_same_table(progress, window)
        shape = lake_table.shape_of(self.lake, self.table, window.after)
        dialect = Dialect.of(self.connection)
        statements: list[str] = []
        if progress.exit_version is None:
            statements = self._alter(progress, shape, dialect)
        target = target_table.target_table(self.connection, self.table.schema, self.table.name)
        if target is None:
            raise DeliveryError(f"{self.place}: the target has no such table; create it, or set ddl: apply")
        is_first = progress.version is None and progress.exit_version is None
        if is_first and self.settings.safe_mode != "on":  # which overwrites what is there
            self._require_empty()
        step = Step(
            window.after.metadata.id, window.after.version, shape.position, target_table.types_of(shape, dialect)
        )
        rows = _Writing(self, progress, window, step, target, shape).write()
        position = f"{shape.position}, {rows} rows" if rows else shape.position
        log.info("%s: delivered up to %s", self.place, position)
        after = replace(
            progress,
            lake_id=step.lake_id,
            version=step.version,
            position=step.position,
            columns=step.columns,
            exit_version=None,
            exit_position=None,
            part_rows=None,
            parts=frozenset(),
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
                f"{self.place}: the downstream table was made again since it was delivered; deliver it from the "
                "beginning: stratalog deliver --reload"
            )

    def _require_empty(self) -> None:
        name = f"{identifier(self.table.schema)}.{identifier(self.table.name)}"
        if self.connection.rows(f"SELECT 1 FROM {name} LIMIT 1"):
            raise DeliveryError(
                f"{self.place}: the target's table has rows that this delivery did not write; empty it, let stratalog "
                "deliver --reload do so, or overwrite rows of equal keys by safe_mode: on"
            )

    def _alter(self, progress: Progress, shape: LakeTableShape, dialect: Dialect) -> list[str]:
        """Makes the target's columns those of a version; the statements that did. Raises DeliveryError, MySQLError."""
        statements = self._statements(progress, shape, dialect)
        if statements and self.settings.ddl == "stop":
            raise DeliveryError(
                f"{self.place}: its columns changed, and ddl is stop; run at the target what follows, then deliver "
                f"again: {'; '.join(statements)}"
            )
        for statement in statements:
            log.info("%s: %s", self.place, statement)
            self.connection.execute(statement)
        return statements

    def _statements(self, progress: Progress, shape: LakeTableShape, dialect: Dialect) -> list[str]:
        target = target_table.target_table(self.connection, self.table.schema, self.table.name)
        if self.settings.ddl == "ignore":
            return []
        if target is None:
            return target_table.creation(self.table.schema, self.table.name, shape, dialect)
        is_checked = self.settings.ddl == "stop"
        clauses = Alterations(progress.columns, shape, target, dialect).clauses(is_checked=is_checked)
        name = f"{identifier(self.table.schema)}.{identifier(self.table.name)}"
        return dialect.altering(name, clauses)

    def say(self, rows: int, total: int) -> None:
        """A line of progress, once in a while."""
        now = time.monotonic()
        if now - self._reported_at >= _SAY_EVERY:
            self._reported_at = now
            log.info("%s: %s of %s rows", self.place, f"{rows:,}", f"{total:,}")


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
        """How many rows were written and deleted. Raises DeliveryError, LakeError, LostRace, MySQLError."""
        settings = self.table.settings
        part_rows = self.progress.part_rows or settings.batch_rows * STATEMENTS
        is_split = self.progress.exit_version is not None or self.window.rows > part_rows
        is_safe = settings.safe_mode == "on" or (settings.safe_mode == "auto" and is_split)
        # One transaction, unless its rows are large.
        if not is_split:
            parts = list(self.parts(part_rows, is_safe=is_safe, is_ordered=True))
            if sum(part.size for part in parts) <= 2 * _PART_BYTES:
                rows = sum(part.rows for part in parts)
                statements = list(chain.from_iterable(part.statements() for part in parts))
                self._commit(statements, rows)
                return rows
            is_safe = settings.safe_mode != "off"
        if self.progress.exit_version is None:
            self._open(part_rows)
        rows = self._write_parts(self.parts(part_rows, is_safe=is_safe))
        self._commit([], 0)
        return rows

    def parts(self, part_rows: int, *, is_safe: bool, is_ordered: bool = False) -> Iterator[TransactionPart]:
        """The window's rows in parts: deletes of all keys first. The same window gives the same parts.

        is_ordered: whether all updates go before all inserts, so that these may take what is free in unique indexes.
        """
        columns = self.target.output_columns(self.shape)
        if not columns:
            raise DeliveryError(f"{self.table.place}: the target's table has no column of the lake's")
        key = self.target.key(columns)
        packet = self.table.connection.facts.max_packet
        writer = Writer(
            self.table.table.schema,
            self.table.table.name,
            columns,
            key,
            self.table.settings.batch_rows,
            packet,
        )
        rows = self._keyed(writer, is_safe=is_safe, is_ordered=is_ordered) if key else self._keyless(writer)
        # Numbers follow the order of the window's files, so a second run gives the same parts the same numbers.
        number = 0
        for table, is_delete, statements in _gathered(rows, part_rows):
            for slice_ in _slices(table, part_rows):
                yield TransactionPart(number, is_delete, len(slice_), slice_.nbytes, partial(statements, slice_))
                number += 1

    def _keyed(self, writer: Writer, *, is_safe: bool, is_ordered: bool) -> "Iterator[_Rows]":
        all_shares = [
            KeyedChanges(self.window, writer.columns, writer.key_columns, share)
            for share in changes.shares(self.window)
        ]
        for share in all_shares:
            for keys in share.deletes():
                yield keys, True, writer.delete
        # Under a second unique index rows may be in each other's way, and only REPLACE removes them.
        overwrite = _writes(writer, Way.REPLACE if self.target.unique > 1 else Way.UPSERT)
        insert = _writes(writer, Way.INSERT)
        for share in all_shares:
            inserts: list[pa.Table] = []
            for rows, is_update in share.writes():
                if is_update or is_safe:
                    yield rows, False, overwrite
                elif is_ordered:
                    inserts.append(rows)
                else:
                    yield rows, False, insert
            for rows in inserts:
                yield rows, False, insert

    def _keyless(self, writer: Writer) -> "Iterator[_Rows]":
        if not self.window.removed:
            share = changes.shares(self.window)[0]
            insert = _writes(writer, Way.INSERT)
            for rows, _ in KeyedChanges(self.window, writer.columns, (), share).writes():
                yield rows, False, insert
            return
        for share in changes.shares(self.window):
            rows, copies = KeylessChanges(self.window, writer.columns, share).net()
            counted = rows.append_column(_COPIES, pa.array(copies))
            yield counted.filter(pa.array(copies < 0)), True, _deletes_of_copies(writer)
            yield counted.filter(pa.array(copies > 0)), False, _inserts_of_copies(writer)

    def _open(self, part_rows: int) -> None:
        statement = rows_of.opened(self.table.id, self.progress, self.step, part_rows)
        work = TargetTransaction(
            self.table.id, (), statement, lambda progress: progress.exit_version == self.step.version
        )
        commit(self.table.connection, work, self.progress.fence)

    def _commit(self, statements: list[bytes], rows: int) -> None:
        statement = rows_of.complete(self.table.id, self.progress, self.step, rows)
        work = TargetTransaction(
            self.table.id,
            statements,
            statement,
            lambda progress: progress.version == self.step.version and progress.exit_version is None,
        )
        commit(self.table.connection, work, self.progress.fence)

    def _write_parts(self, parts: Iterator[TransactionPart]) -> int:
        """Gives the parts to the delivery's connections; all deletes are complete before the first write begins."""
        pending: set[Future[int]] = set()
        rows, is_deleting = 0, True
        total = self.window.rows
        try:
            # Deletes of all connections end before the first write: a write may bring a key in other letters back.
            for part in parts:
                if is_deleting and not part.is_delete:
                    rows += _drain(pending)
                    is_deleting = False
                if part.number in self.progress.parts:
                    continue
                pending.add(self.table.submit(partial(self._part, part)))
                if len(pending) >= 2 * self.table.settings.workers:
                    rows += _first(pending)
                    self.table.say(rows, total)
            return rows + _drain(pending)
        finally:
            for future in pending:
                future.cancel()
            wait(pending)

    def _part(self, part: TransactionPart, connection: Connection) -> int:
        version = self.step.version
        statement = rows_of.part_complete(self.table.id, self.progress, version, part.number, part.rows)
        work = TargetTransaction(
            self.table.id,
            list(part.statements()),
            statement,
            lambda progress: part.number in progress.parts or progress.version == version,
        )
        commit(connection, work, self.progress.fence)
        return part.rows


Statements = Callable[[pa.Table], Iterator[bytes]]
"""Makes statements of rows."""
_Rows = tuple[pa.Table, bool, Statements]
"""Rows, whether they are deleted, and what makes statements of them."""


def _slices(rows: pa.Table, limit: int) -> Iterator[pa.Table]:
    """The rows in parts of so many, and of bounded size."""
    if not len(rows):
        return
    size = max(1, min(limit, _PART_BYTES * len(rows) // max(1, rows.nbytes)))
    for begin in range(0, len(rows), size):
        yield rows.slice(begin, size)


def _gathered(rows: "Iterator[_Rows]", limit: int) -> "Iterator[_Rows]":
    """Rows that are written in the same way together, up to so many; all deletes before the first write."""
    gathered: dict[Statements, list[pa.Table]] = {}
    kind = True
    for table, is_delete, statements in rows:
        if is_delete != kind:
            yield from ((pa.concat_tables(tables), kind, way) for way, tables in gathered.items())
            gathered, kind = {}, is_delete
        gathered.setdefault(statements, []).append(table)
        if sum(map(len, gathered[statements])) >= limit:
            yield pa.concat_tables(gathered.pop(statements)), kind, statements
    yield from ((pa.concat_tables(tables), kind, way) for way, tables in gathered.items())


def _writes(writer: Writer, way: Way) -> Statements:
    return partial(writer.write, way=way)


_COPIES = "\0copies"


def _deletes_of_copies(writer: Writer) -> Statements:
    return lambda rows: writer.delete_copies(rows, [-count for count in rows.column(_COPIES).to_pylist()])


def _inserts_of_copies(writer: Writer) -> Statements:
    def statements(rows: pa.Table) -> Iterator[bytes]:
        copies = rows.column(_COPIES).to_numpy()
        places = [place for place, count in enumerate(copies) for _ in range(count)]
        yield from writer.write(rows.take(pa.array(places, pa.int64())), Way.INSERT)

    return statements


def _first(pending: "set[Future[int]]") -> int:
    """Waits for one of them, and takes out all that are complete; how many rows they wrote."""
    complete, _ = wait(pending, return_when=FIRST_COMPLETED)
    pending -= complete
    return sum(future.result() for future in complete)


def _drain(pending: "set[Future[int]]") -> int:
    rows = sum(future.result() for future in pending)
    pending.clear()
    return rows
