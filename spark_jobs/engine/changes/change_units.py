"""Units of a merge of every change (``mode: append``, ``history``), as tasks need them.

Put here: units, their windows, and the parts of units that tasks take. Not here: which windows these are
(column_history.py), how units are divided (change_job.py), or the work (change_task.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import pyarrow as pa

from spark_jobs.binlog import TableDefinition
from spark_jobs.config.modes import Mode
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import ADDED
from spark_jobs.downstream.modes import MODE_COLUMNS
from spark_jobs.engine.changes.change_extent import Extent
from spark_jobs.engine.changes.row_completion import EarlierRows
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.engine.rows.loaded_rows import LoadedFiles
from spark_jobs.engine.target.partial_merge import SilverLookup
from spark_jobs.engine.target.target_files import RowChanges
from spark_jobs.engine.target.target_unit import TargetUnit
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import ColumnMasks
from spark_jobs.silver.row_filters import ChangeFilters


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """Ranges of the log between two statements about a table, and the target's columns there."""

    definition: TableDefinition
    ranges: tuple[Range, ...]
    schema: TableSchema
    fills: tuple[ColumnFill, ...] = ()
    """Columns that later statements added with a default: its rows get them."""
    exact: tuple[ExactTextChange, ...] = ()
    """Effects of later statements on exact texts (``_raw``)."""
    masks: ColumnMasks | None = None
    """Effects of a rule on the definition's columns."""
    filters: ChangeFilters | None = None
    """The rules that filter changes of rows."""
    earlier: tuple[Range, ...] = ()
    """Log before its ranges and between them, as in SilverWindow."""
    loads: tuple[LoadedFiles, ...] = ()
    """Loaded rows, as there."""

    def key_in(self, target: TableSchema) -> tuple[str, ...] | None:
        """Key columns of its rows by the target's present names; None where the target lacks one of them."""
        ordinals, columns = self.definition.key or (), self.definition.columns
        names_now = {column.physical_name: column.name for column in target.columns}
        physical = [self.schema.column(str(columns[at].name)).physical_name for at in ordinals]
        return tuple(names_now[name] for name in physical) if names_now.keys() >= {*physical} else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeUnit(TargetUnit):
    """A downstream table that is made of every change, in a job: what a task needs to know of it."""

    mode: Mode
    columns: silver.Columns
    windows: tuple[ChangeWindow, ...]
    extent: Extent
    skips: frozenset[Position] = frozenset()
    origin: str = ""
    """The silver table's path."""
    origin_schema: TableSchema | None = None
    earlier: EarlierRows | None = None
    """Source that completes rows without all columns; None where no row lacks one."""
    statements: tuple[DataFile, ...] = ()
    """Silver's files that may have rows of statements, or rows that were loaded."""
    statement_gtids: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    """GTIDs of statements, by where they stand."""
    is_older_unread: bool = True
    """True if there may be log before the windows that rules know columns by which row images leave out."""
    ends_all: bool = False
    """True if a new statement emptied the table, so that all current versions end."""
    buckets: tuple[int, ...] = ()
    """The buckets of its keys, where the versions of its rows are more than one task takes."""

    @property
    def keys(self) -> tuple[tuple[str, ...] | None, ...]:
        """Key columns of the table: the present ones, and others that it had in a window."""
        return tuple(dict.fromkeys([self.columns.key, *(window.key_in(self.schema) for window in self.windows)]))

    @property
    def lookup(self) -> SilverLookup | None:
        """Lookup that completes rows without all columns, as a unit of silver's rows has it."""
        return self.earlier.lookup if self.earlier else None

    @property
    def is_by_key(self) -> bool:
        """True if a row depends on others of its key, so that one task takes all of a key."""
        return self.mode is Mode.HISTORY or self.earlier is not None

    @property
    def stored(self) -> list[str]:
        """The target's columns."""
        return [*self.columns.types, *ADDED, *MODE_COLUMNS[self.mode]]

    @property
    def row_changes(self) -> RowChanges:
        """Effects of statements on rows of the target that stay."""
        return RowChanges(self.fills, self.exact)

    @property
    def rewritten(self) -> tuple[DataFile, ...]:
        """The target's files that are written again whatever becomes of their rows."""
        return tuple(file for file in self.files if self.row_changes.may_change(file, self.schema))

    @property
    def defers(self) -> bool:
        """True if files are written again behind other tasks: several may have rows of one file."""
        return bool(self.buckets)

    @property
    def column_fills(self) -> Iterator[ColumnFill]:
        """All columns that rows get values in."""
        yield from self.fills
        for window in self.windows:
            yield from window.fills

    def valued(self, values: Mapping[str, pa.Scalar]) -> Self:
        """Unit with the values of the SQL of its columns' fills, as ``fills.values_by_expression`` gives them."""
        windows = tuple(replace(window, fills=fills.fills_with_values(window.fills, values)) for window in self.windows)
        return replace(self, windows=windows, fills=fills.fills_with_values(self.fills, values))


@dataclass(frozen=True, slots=True)
class UnitPart:
    """Part of a unit that a task takes.

    slices: by window rows of ``bronze.index.OF_TABLE``, in the order in which they take effect. statements: silver's
    files that it reads. files: the target's files that it looks through for rows that go or end.
    """

    unit: ChangeUnit
    slices: Mapping[int, pa.Table] = field(default_factory=dict)
    statements: tuple[DataFile, ...] = ()
    files: tuple[DataFile, ...] = ()
    is_first: bool = True
    """True for one alone of the parts of a unit: it tells every bucket that the unit is there."""


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Parts of units, and bronze's path and version, which their slices lie in."""

    bronze: str
    version: int
    parts: tuple[UnitPart, ...]
