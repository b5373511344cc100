"""Base of the units of merges: what tasks need of a downstream table, of any kind, and their result.

Put here: the fields that all units and results have. Not here: those of one kind (engine/merge/downstream_task.py,
engine/merge/shared_plan.py, engine/changes/change_units.py), or units of silver tables (engine/silver/silver_task.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.rows.exact_texts import ExactTextChange
from spark_jobs.engine.rows.fills import ColumnFill, fills_with_values
from spark_jobs.errors import TableStopped


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetUnit:
    """Merge into a downstream table, or the merge of one range of its keys."""

    number: int
    """Number of the unit in the job."""
    name: str
    """Source and table, for messages."""
    target: str
    """The target's path."""
    schema: TableSchema
    """The target's columns, with the source table's names where it is one part of the target."""
    configuration: Mapping[str, str]
    files: tuple[DataFile, ...]
    """The target's files, as far as their rows stay."""
    rewrites: bool
    """True if files are written again without dead rows (``compat: plain``); deletion vectors mark them else."""
    fills: tuple[ColumnFill, ...] = ()
    """Columns that statements added with a default, in their order: the target's files are written again with them."""
    exact: tuple[ExactTextChange, ...] = ()
    """Effects of statements on exact texts of the target's rows: files that have some are written again."""
    provenance: tuple[tuple[str, str], ...] = ()
    """Provenance columns with the values of this part of a table of several source tables; otherwise none."""
    has_feed: bool = False
    """True if the commit says which rows it changes (Delta's change data feed)."""

    @property
    def stored(self) -> list[str]:
        """The target's columns."""
        return self.schema.names

    @property
    def column_fills(self) -> Iterable[ColumnFill]:
        """All columns that rows get values in."""
        return self.fills

    def valued(self, values: Mapping[str, pa.Scalar]) -> Self:
        """Unit with the values of the SQL of its columns' fills, as ``fills.values_by_expression`` gives them."""
        return replace(self, fills=fills_with_values(self.fills, values))


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """Result of a task for a unit: the rows to take out of the target's files, by path, and files to add."""

    unit: int
    dead: dict[str, bytes]
    """Row numbers, as int64 in native byte order."""
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that were written again or have no row left."""
    changes: tuple[DataFile, ...] = ()
    """Files that say which rows changed, where the target has a change data feed."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    never_whole: int = 0
    """Growth of the number of keys that have no row, since no row image of theirs was whole."""
    needs_one_task: bool = False
    """True if rows depend on rows of other keys, so that a task has to take all of the unit."""
    seconds: float = 0.0
    error: str | None = None
    stopped: TableStopped | None = None
    """Stop of the table, by whichever method it is merged."""
