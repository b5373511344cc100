"""Delivery of a source's log into a target, window by window: ``apply: ordered``.

Put here: what a target lacks of the log, executing windows, statements in their positions, and progress. Not here: what
a window is (plan.py), or the first copy of a table (table_delivery.py).

The progress row of a log is in ``stratalog.checkpoint`` under the source's name without a schema, and counts
windows. A window of one part is one transaction, with that row. One of several is opened in the row first; each part
notes its number, the last statement moves the position, and nothing behind it is begun before.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from spark_jobs.bronze.commit import stretches
from spark_jobs.config.deliveries import Delivery
from spark_jobs.delivery import progress as rows_of
from spark_jobs.delivery.ordered.log_changes import Statements, Step, steps
from spark_jobs.delivery.ordered.log_tables import Logged
from spark_jobs.delivery.ordered.plan import LogWindow, Sizes, planned, windows
from spark_jobs.delivery.ordered.target_state import Columns, TargetState
from spark_jobs.delivery.progress import Names, Progress, TableId, WindowPlan
from spark_jobs.delivery.progress import Step as RowStep
from spark_jobs.delivery.statements import RowStatement
from spark_jobs.delivery.table_delivery import Submit
from spark_jobs.delivery.target import Connection
from spark_jobs.delivery.transactions import TargetTransaction, commit
from spark_jobs.errors import DeliveryError
from spark_jobs.log.position import Position

log = logging.getLogger(__name__)

_REPORT_SECONDS = 5.0
"""Seconds between two lines of progress."""


def log_id(delivery: str, source: str) -> TableId:
    """The key of a log's progress row."""
    return TableId(delivery, "", source)


@dataclass
class LogDelivery:
    """Delivers the log of one source.

    logged: the range that the target lacks. connection: of the thread that calls. tables: the source tables whose
    position is after the range; of an open window only those that it was begun with are in ``logged``.
    """

    delivery: str
    settings: Delivery
    logged: Logged
    targets: list[TargetState]
    progress: Progress
    connection: Connection
    submit: Submit
    tables: Names = frozenset()
    statements: dict[int, list[str]] = field(default_factory=dict)
    """DDL by table."""
    counts: dict[int, int] = field(default_factory=dict, init=False)
    """Changes that were written, by table."""
    windows: int = field(default=0, init=False)
    _reported_at: float = field(default=0.0, init=False)

    @property
    def source(self) -> str:
        return self.logged.snapshot.source

    @property
    def id(self) -> TableId:
        return log_id(self.delivery, self.source)

    def deliver(self) -> None:
        """The whole range. Raises DeliveryError, LakeError, DecodeError, TableStopped, LostRace, MySQLError."""
        is_again = self.progress.exit_version is not None
        sizes, plan = Sizes.of(self.settings), self.progress.plan
        sizes = Sizes.for_open_window(plan.part_rows if plan else sizes.part) if is_again else sizes
        pending: Callable[[], None] = _no_window
        files = {stretch.number: stretch.file for stretch in stretches(self.logged.snapshot.checkpoint)}
        with ThreadPoolExecutor(1, thread_name_prefix="decode") as decoding:
            for step in _ahead(steps(self.logged, sizes.window), decoding):
                if isinstance(step, Statements):
                    pending()
                    pending = _no_window
                    self._apply(step)
                    continue
                # A window is planned while the one before it is written.
                portion = planned(step, self.targets, lambda stretch, number: files[stretch](number))
                for window in windows(portion, sizes):
                    pending()
                    pending = self._begin_window(window)
        pending()

    def commit_position(self, notes: list[str], end: Position, fills: Sequence[str] = ()) -> None:
        """Move the row to the end of what was delivered, with what is noted of tables, in one transaction."""
        rows = [RowStatement(fill.encode(), self.source, "filled", None) for fill in fills]
        rows += [RowStatement(note.encode(), rows_of.TABLE, "found", 1) for note in notes]
        self._commit_statements(rows, self._next(end), 0)

    def _next(self, position: Position) -> RowStep:
        return RowStep("", (self.progress.version or 0) + 1, str(position), {}, self.tables)

    def _begin_window(self, window: LogWindow) -> Callable[[], None]:
        """Begin to write a window; what is returned waits for its end."""
        is_again = self.progress.exit_version is not None
        if not window.rows and not is_again:
            return _no_window
        # One part is one transaction, with the progress row.
        is_safe = self.settings.safe_mode == "on"
        if len(window.parts) == 1 and not is_again:
            step = self._next(window.end)
            writing = self.submit(partial(self._one_part, window, step, is_safe=is_safe))
            return partial(self._end_one_part, writing, window, step)
        step = self._next(window.end)
        if is_again:
            is_safe = self._resumed(window, step) or is_safe
        else:
            self._open(step, self._plan(window))
        pending = [
            self.submit(partial(self._write_part, window, number, step, is_safe=is_safe))
            for number in range(len(window.parts))
            if str(number) not in self.progress.parts
        ]
        return partial(self._end_parts, pending, window, step)

    def _resumed(self, window: LogWindow, step: RowStep) -> bool:
        """True if an open window is written by statements that may be repeated; where its parts are others, wholly."""
        plan = self._plan(window)
        is_same = self.progress.plan is not None and self.progress.plan.digest == plan.digest
        if is_same and self.progress.plan and not self.progress.plan.is_repeated:
            return False  # its parts were committed with their numbers, or not at all
        # Which rows its parts had is not known any more; where none remain, there is nothing to be repeated.
        if window.rows and not (window.is_keyed and self.settings.safe_mode != "off"):
            cause, method = self._cause_and_remedy(window)
            raise DeliveryError(
                f"delivery {self.delivery}: {self.source}: the window up to {self.progress.exit_position} was begun "
                f"{cause}, so the rest of it is not known; put that back until the window is complete, or {method}"
            )
        if not is_same:
            self._open(step, replace(plan, is_repeated=True))
        return True

    def _cause_and_remedy(self, window: LogWindow) -> tuple[str, str]:
        """Reason why the parts of an open window differ, and what to do where it cannot be written again as a whole."""
        present = {(table.name.schema, table.name.table) for table in self.logged.tables}
        missing = sorted(self.progress.plan.tables - present) if self.progress.plan else []
        listed = ", ".join(f"{schema}.{name}" for schema, name in missing)
        cause = f"with {listed}, which the delivery does not have any more" if missing else (
            "under other rules, with other keys at the target, or by another release of Stratalog"
        )  # fmt: skip
        method = (
            "set safe_mode: auto, by which it is written again as a whole"
            if window.is_keyed
            else "deliver the tables without a key from the beginning: stratalog deliver --reload"
        )
        return cause, method

    def _plan(self, window: LogWindow) -> WindowPlan:
        names = frozenset((table.name.schema, table.name.table) for table in self.logged.tables)
        return WindowPlan(window.digest, part_rows=window.part_rows, tables=names)

    def _open(self, step: RowStep, plan: WindowPlan) -> None:
        """Open a window, or one that is open from its beginning again."""
        statement = rows_of.open_window_sql(self.id, self.progress, step, plan)
        work = TargetTransaction(self.id, (), statement, lambda progress: progress.plan == plan)
        commit(self.connection, work, self.progress.fence)
        self.progress = replace(self.progress, parts=frozenset())

    def _write_part(
        self, window: LogWindow, number: int, step: RowStep, connection: Connection, *, is_safe: bool
    ) -> int:
        rows = len(window.parts[number])
        statement = rows_of.complete_part_sql(self.id, self.progress, step.version, str(number), rows)
        work = TargetTransaction(
            self.id,
            list(window.statements(number, is_safe=is_safe)),
            statement,
            lambda progress: str(number) in progress.parts or progress.version == step.version,
        )
        commit(connection, work, self.progress.fence)
        return rows

    def _one_part(self, window: LogWindow, step: RowStep, connection: Connection, *, is_safe: bool) -> int:
        statements = list(window.statements(0, is_safe=is_safe))
        self._commit_by(connection, statements, step, window.rows)
        return window.rows

    def _end_one_part(self, writing: "Future[int]", window: LogWindow, step: RowStep) -> None:
        writing.result()
        self._complete(window, step)

    def _end_parts(self, pending: "list[Future[int]]", window: LogWindow, step: RowStep) -> None:
        # All of them end before one's failure is raised: none may commit once the run has given up.
        failures = [failure for writing in pending if (failure := writing.exception())]
        if failures:
            raise failures[0]
        self._commit_by(self.connection, [], step, 0)
        self._complete(window, step)

    def _commit_statements(self, statements: list[RowStatement], step: RowStep, rows: int) -> None:
        self._commit_by(self.connection, statements, step, rows)
        self._moved(step)

    def _commit_by(self, connection: Connection, statements: list[RowStatement], step: RowStep, rows: int) -> None:
        statement = rows_of.complete_version_sql(self.id, self.progress, step, rows)
        work = TargetTransaction(
            self.id,
            statements,
            statement,
            lambda progress: progress.version == step.version and progress.exit_version is None,
        )
        commit(connection, work, self.progress.fence)

    def _complete(self, window: LogWindow, step: RowStep) -> None:
        self._moved(step)
        self.windows += 1
        for table, rows in window.counts().items():
            self.counts[table] = self.counts.get(table, 0) + rows
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            log.info(
                "delivery %s: %s: %s changes, up to %s",
                self.delivery,
                self.source,
                f"{sum(self.counts.values()):,}",
                window.end,
            )

    def _moved(self, step: RowStep) -> None:
        self.progress = Progress(self.progress.fence, None, step.version, step.position, tables=step.tables)

    def _apply(self, step: Statements) -> None:
        """Carry out statements where they stand: all rows before them are at the target, and none behind."""
        fills, notes = [], []
        for statement in step.statements:
            applied = self.targets[statement.table].apply(statement.step)
            self.statements.setdefault(statement.table, []).extend([*applied.executed, *applied.fills])
            into = self.targets[statement.table].into
            fills += applied.fills
            notes.append(noted_columns(TableId(self.delivery, into.schema, into.name), applied.columns))
        for fill in fills:
            log.info("delivery %s: %s", self.delivery, fill)
        self.commit_position(notes, step.end, fills)


def noted_columns(table: TableId, columns: Columns) -> str:
    """SQL: the columns that a table has from here on."""
    return f"UPDATE {rows_of.TABLE} SET columns_json = {rows_of.columns_literal(columns)} WHERE {table.condition()}"


def _no_window() -> None:
    """Do nothing: no window is being written."""


def _ahead(all_steps: Iterator[Step], decoding: ThreadPoolExecutor) -> Iterator[Step]:
    """The steps, each decoded while the one before it is worked on."""
    following = decoding.submit(next, all_steps, None)
    while (step := following.result()) is not None:
        following = decoding.submit(next, all_steps, None)
        yield step
