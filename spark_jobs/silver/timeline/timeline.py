"""Timeline of a table up to a position of a range of its log, as an immutable value.

Put here: what the modules of this package take and return, and the effects of statements on this one table. Not here:
the changes that an effect makes (changes.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement, RangeScan, TableExtent
from spark_jobs.ddl.classify import Effect
from spark_jobs.ddl.definitions import HistoryAnswer
from spark_jobs.ddl.effects import ChangeIndex, DropSchema, TableEffect, UnknownChange, effects
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.log.position import Position, Range
from spark_jobs.silver.table_timeline import (
    DataRange,
    SchemaChange,
    SilverSnapshot,
    TableContents,
    TableState,
    TimelineStep,
)
from spark_jobs.silver.timeline.inputs import TimelineInputs

DDL = (Effect.CREATES, Effect.CHANGES, Effect.INDEXES)
"""Statements that change tables, and no rows by themselves."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps of a table up to a position of a range, and the inputs from which the next ones follow.

    Functions of this package take one and return the one that follows; where they raise an error, the caller still has
    the one from before it.

    Attributes:
        scan: bronze's definitions, statements and XA transactions in the range.
        name: the table.
        extent: the range.
        inputs: inputs besides the scan.
        is_new: True if silver has no row of the table at the range's start.
        state: state of the table at the position.
        steps: steps up to the position.
        before: contents of the table before the one statement that is applied, where another table takes its name.
        history: answer of the schema history for the current part, with no statement between the two.
        later_history: its answer from a position after the part on.
        next_rows: the log's definition of the next rows, whichever statements are before them; None where
            there are none.
    """

    scan: RangeScan
    name: TableName
    extent: Range
    inputs: TimelineInputs
    is_new: bool
    state: TableState
    steps: tuple[TimelineStep, ...] = ()
    before: TableContents | None = None
    history: HistoryAnswer | None = None
    later_history: HistoryAnswer | None = None
    next_rows: TableDefinition | None = None

    @classmethod
    def begin(
        cls, scan: RangeScan, name: TableName, log_range: Range, inputs: TimelineInputs, state: TableState | None
    ) -> "Timeline":
        """Timeline without steps, at the start of a range. ``state``: of silver there; None: it has no row."""
        return cls(scan, name, log_range, inputs, state is None, state or TableState(None))

    def with_definition(self, definition: TableDefinition | None) -> "Timeline":
        """The timeline with another definition of the table, which no step of its own tells."""
        return replace(self, state=replace(self.state, definition=definition))

    def with_change(self, change: SchemaChange) -> "Timeline":
        """The timeline with one more step, a change of the table, and the table's state after it."""
        return replace(self, state=change.state, steps=(*self.steps, change))

    @property
    def rows(self) -> TableExtent | None:
        """Occurrence of the table's rows in the range; None where it has none."""
        return self.scan.tables.get(self.name)

    @property
    def skips(self) -> frozenset[Position]:
        """The quarantined events."""
        return self.inputs.filters.skipped(self.name.schema, self.name.table)

    def is_first(self) -> bool:
        """True if silver has no row of the table yet."""
        return self.is_new and not any(isinstance(step, DataRange) or step.inherited for step in self.steps)

    def is_before_rows(self, event: LoggedStatement) -> bool:
        """True if a statement stands before the first row that the lake has of the table."""
        return self.is_first() and (self.rows is None or event.position < self.rows.first)

    def is_early(self, event: LoggedStatement) -> bool:
        """True if DDL changes a table that the lake has no row of yet: then there is nothing to change but names."""
        return event.statement.effect in DDL and self.is_before_rows(event)

    def contents(self, base: SilverSnapshot | None) -> TableContents:
        """Contents of the table at the position, of ``base`` and the steps; size: of the rows in the range alone."""
        size = self.rows.size if self.rows else 0
        return TableContents(self.name, base, self.steps, self.state, self.extent.start, size, self.skips, self.scan.xa)

    def about(self) -> list[LoggedStatement]:
        """The statements of the range that name the table, without those about indexes alone."""
        return self.scan.about(self.name, self.extent.start)

    def indexes(self) -> list[LoggedStatement]:
        """The statements of the range that make or drop one of the table's indexes."""
        return self.scan.indexes(self.name, self.extent.start)

    def effects(self, event: LoggedStatement) -> list[TableEffect]:
        """Effects of a statement on the table. Raises TableStopped where they are not certain."""
        return self.own_effects(event, self.read(event))

    def read(self, event: LoggedStatement) -> tuple[TableEffect, ...]:
        """Effects of a statement on any table. Raises TableStopped where it cannot be read."""
        try:
            return effects(event.statement, event.database, event.session)
        except DecodeError as error:
            raise self.refusal(event, "changes the table, which is not applied: it cannot be read") from error

    def own_effects(self, event: LoggedStatement, table_effects: Sequence[TableEffect]) -> list[TableEffect]:
        """The effects on the table, of all that a statement has.

        Some servers store names in small letters and log statements as they were typed; which do is not in the log.
        Raises TableStopped for a name in other letters.
        """
        own_effects = [effect for effect in table_effects if self._is_own(event, effect)]
        names = [table for effect in table_effects for table in effect.tables]
        alike = [table for table in names if str(table).casefold() == str(self.name).casefold()]
        if not own_effects and alike and alike[0] not in self.scan.tables and str(self.name).islower():
            raise self.refusal(event, f"names {alike[0]}; whether that is {self.name} is not in the log")
        return own_effects

    def _is_own(self, event: LoggedStatement, effect: TableEffect) -> bool:
        match effect:
            case UnknownChange():
                raise self.refusal(event, "changes the table, which is not applied yet")
            case DropSchema(schema) if schema != self.name.schema:
                raise self.refusal(
                    event, f"names the schema {self.name.schema} in other letters; whether it is, is not in the log"
                )
            case DropSchema():
                return True
            case ChangeIndex(table):
                return str(table).casefold() == str(self.name).casefold()
            case _:
                return self.name in effect.tables

    def refusal(self, event: LoggedStatement, reason: str) -> TableStopped:
        """The error of a statement that stops the table, with its position."""
        return TableStopped(
            f"{event.statement.verb} at {event.position} {reason}: {event.statement.short}", event.boundary
        )
