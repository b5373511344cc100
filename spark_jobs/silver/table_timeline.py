"""Timeline of a table through a range of its log, as a value: rows, and the statements that change the table.

Put here: how a table stands at a position, its steps, and what it holds. Not here: how a timeline is built (timeline/),
how statements are read (ddl/effects.py), carrying anything out (engine/silver/silver_plan.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.bronze.scan import LoggedStatement
from spark_jobs.bronze.xa import NO_XA, Xa
from spark_jobs.ddl.default_values import Fill
from spark_jobs.errors import DecodeError, TableStopped
from spark_jobs.lake.table import Table
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.commit import SilverCommit
from spark_jobs.silver.retired_columns import RetiredColumn, types_of


@dataclass(frozen=True, slots=True)
class TableState:
    """State of a table at a position of its log."""

    definition: TableDefinition | None
    """None where it is not known before the next row."""
    is_dropped: bool = False
    """The table is gone."""
    emptied: Position | None = None
    """Position where its last TRUNCATE stands, or the CREATE that recreated it: earlier rows do not count."""
    is_complete: bool = False
    """True if all rows that the table has are known: since it was made or emptied in the log, or because what it held
    before was loaded."""
    is_kept: bool = False
    """A rule left its DROP out, so that its rows stay when it is created again."""
    was_numbered: bool = False
    """True if the table is dropped, and its rows are of a definition with positional columns."""
    retired: tuple[RetiredColumn, ...] = ()
    """Retired columns that the lake keeps."""

    @property
    def is_numbered(self) -> bool:
        """True if the columns that its rows have are numbered."""
        return self.was_numbered if self.definition is None else self.definition.numbered

    def in_commit(self, commit: SilverCommit) -> SilverCommit:
        """A silver commit that says so."""
        return replace(
            commit,
            definition=self.definition,
            is_dropped=self.is_dropped,
            emptied_at=self.emptied,
            is_complete=self.is_complete,
            keeps_dropped_rows=self.is_kept,
            is_numbered=self.is_numbered,
            retired_columns=self.retired,
        )

    @classmethod
    def of(cls, commit: SilverCommit) -> "TableState":
        """State of the table as a silver commit says it."""
        return cls(
            commit.definition,
            commit.is_dropped,
            commit.emptied_at,
            commit.emptied_at is not None if commit.is_complete is None else commit.is_complete,
            commit.keeps_dropped_rows,
            commit.is_numbered and commit.definition is None,
            commit.retired_columns,
        )

    @property
    def columns(self) -> silver.Columns:
        """The columns that silver has, where no rule is about them. Raises TableStopped."""
        assert self.definition is not None
        return silver.columns(self.definition, retired=types_of(self.retired))


@dataclass(frozen=True, slots=True)
class DataRange:
    """A part of the log without a statement that changes the table, and the definition of its rows."""

    range: Range
    state: TableState

    @property
    def definition(self) -> TableDefinition:
        assert self.state.definition is not None
        return self.state.definition


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A change of the table: where it stands, and how the table stands after it."""

    range: Range
    state: TableState
    statement: LoggedStatement | None = None
    empties: bool = False
    """True if no row that was there counts any more."""
    origins: dict[str, str | None] | None = None
    """Origin of each column of the definition by name, None for new ones; no origins at all where the table is another
    one."""
    fills: dict[str, Fill] = field(default_factory=dict)
    """Values of existing rows in new columns; absent for NULL."""
    inherited: "TableContents | None" = None
    """Inherited contents: those of the table that takes this name, under its earlier name; with ``origins``, its own,
    where its key changed."""
    left_out_by: str | None = None
    """The rule that leaves the statement out."""
    keeps: bool = False
    """The table was recreated, and a rule keeps the rows that it had."""
    restart_reason: str | None = None
    """Columns that restart, with both definitions, for messages; None where none does."""


TimelineStep = DataRange | SchemaChange


def schema_changes_in(steps: Sequence[TimelineStep]) -> list[SchemaChange]:
    """The statements among the steps, in order."""
    return [step for step in steps if isinstance(step, SchemaChange)]


@dataclass(frozen=True, slots=True)
class SilverSnapshot:
    """Silver of a table at one Delta version, without what stands before ``emptied``."""

    table: Table
    version: int
    columns: silver.Columns
    emptied: Position | None


@dataclass(frozen=True, slots=True)
class TableContents:
    """Contents of a table at a position of its log: silver's rows, and the steps of its course from there on.

    base: None where the steps begin with the first row that is known. since: where the steps begin, or the first that
    they take rows from does. size: bytes, about, that it is made of.
    """

    name: TableName
    base: SilverSnapshot | None
    steps: Sequence[TimelineStep]
    state: TableState
    since: Position
    size: int = 0
    skips: frozenset[Position] = frozenset()
    """Events of its log that are quarantined."""
    xa: Xa = NO_XA
    """The XA transactions that its log commits."""

    @property
    def alive(self) -> "TableContents":
        """The same, without what was there before the table was emptied for the last time."""
        last = max(
            (at for at, step in enumerate(self.steps) if isinstance(step, SchemaChange) and step.empties), default=None
        )
        return self if last is None else replace(self, base=None, steps=self.steps[last:])

    @property
    def is_empty(self) -> bool:
        """True if no row is known to be there."""
        rest = self.alive
        return rest.base is None and not any(isinstance(step, DataRange) or step.inherited for step in rest.steps)


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a table's timeline before its range ends, and the reason.

    at: the boundary of transactions before the statement or the row that stops it.
    """

    at: Position
    error: TableStopped | DecodeError

    @property
    def reason(self) -> str:
        return str(self.error)
