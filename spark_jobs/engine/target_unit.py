"""Units of merges: what tasks need to know of a downstream table in a job, of whatever kind the merge is.

Put here: the fields that all units have. Not here: those of one kind (downstream_task.py, shared_plan.py,
change_units.py), or units of silver tables (silver_task.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa

from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.exact_texts import ExactTextChange
from spark_jobs.engine.fills import ColumnFill, fills_with_values


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
    """Of a part of a table of several source tables: columns that say whose a row is, with the part's values."""
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
        """With the values of the SQL of its columns' fills, as ``fills.values_by_expression`` gives them."""
        return replace(self, fills=fills_with_values(self.fills, values))
