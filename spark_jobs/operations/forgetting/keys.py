"""The keys whose rows are forgotten, as rows of the lake's tables have them.

Put here: which rows of a file have one of the keys. Not here: keys as users write them (text/key_values.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.errors import LakeError


@dataclass(frozen=True, slots=True)
class ForgottenKeys:
    """Keys of one table.

    columns: those of the key. rows: the values of each key in their order. provenance: columns, and their values, by
    which a downstream table distinguishes the rows of its source tables.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    provenance: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, keys: pa.Table, columns: Sequence[str]) -> "ForgottenKeys":
        """Keys in a table of Arrow with the columns of the key, in silver's types."""
        cells = [keys.column(name).to_pylist() for name in columns]
        return cls(tuple(columns), tuple(zip(*cells, strict=True)))

    def marked(self, provenance: Mapping[str, str]) -> "ForgottenKeys":
        """The same keys, of rows with these values alone."""
        return replace(self, provenance=tuple(provenance.items()))

    @property
    def names(self) -> list[str]:
        """The columns that tell the rows."""
        return [*self.columns, *(name for name, _ in self.provenance)]

    def has(self, rows: pa.Table) -> pa.ChunkedArray:
        """Rows that have one of the keys."""
        is_one: Any = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
        for key in self.rows:
            pairs = [*zip(self.columns, key, strict=True), *self.provenance]
            is_key: Any = pa.scalar(True)
            for name, value in pairs:
                is_key = pc.and_(is_key, _equal_cells(rows.column(name), value))
            is_one = pc.or_(is_one, is_key)
        return is_one

    def without(self, rows: pa.Table) -> pa.Table:
        """The rows that have none of the keys."""
        return rows.filter(pc.invert(self.has(rows)))

    def may_be_in(self, file: DataFile, schema: TableSchema) -> bool:
        """True if a file may have one of the keys, as far as its statistics tell."""
        try:
            bounds = [file.bounds(schema, name) for name in self.columns]
            return any(
                all(
                    (bound.minimum is None or bound.minimum <= value)
                    and (bound.maximum is None or value <= bound.maximum)
                    for bound, value in zip(bounds, key, strict=True)
                )
                for key in self.rows
            )
        except (TypeError, LakeError):  # bounds of another type than the values tell nothing
            return True


def _equal_cells(cells: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    """Cells that are a value; none where their type does not hold it."""
    try:
        scalar = pa.scalar(value, cells.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.chunked_array([pa.array([False] * len(cells), pa.bool_())])
    return pc.fill_null(pc.equal(cells, scalar), False)
