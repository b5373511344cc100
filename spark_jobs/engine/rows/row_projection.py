"""Projection of rows of an older definition to a table's present columns, in Arrow.

Put here: a projection as tasks carry it, and rows under it. Not here: which column comes from which
(silver/projection.py), or what a default means (ddl/default_values.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from spark_jobs.delta.schema import DeltaColumn, column_of
from spark_jobs.engine.rows import fills
from spark_jobs.engine.rows.exact_texts import ExactTextChange, with_text_changes
from spark_jobs.engine.rows.fills import ColumnFill
from spark_jobs.silver.projection import Projection


@dataclass(frozen=True, slots=True)
class RowProjection:
    """Present columns in order, the older column that each was, and values that rows have in new ones.

    names: by an older name the present one, None where the column went.
    """

    columns: tuple[DeltaColumn, ...]
    origins: Mapping[str, str]
    fills: tuple[ColumnFill, ...]
    names: Mapping[str, str | None]
    texts: Mapping[str, str]

    @classmethod
    def of(cls, projection: Projection) -> "RowProjection":
        columns = {name: column_of(name, column.type) for name, column in projection.columns.items()}
        origins = {name: column.origin for name, column in projection.columns.items() if column.origin is not None}
        filled = tuple(
            ColumnFill(columns[name], column.fill)
            for name, column in projection.columns.items()
            if column.fill is not None
        )
        return cls(tuple(columns.values()), origins, filled, projection.names, projection.texts)

    def expressions(self) -> Iterator[str]:
        """SQL of the values that rows have in new columns."""
        yield from (fill.sql for fill in self.fills)

    def valued(self, values: Mapping[str, pa.Scalar]) -> "RowProjection":
        """Projection with these values, as ``fills.values_by_expression`` gives them."""
        return replace(self, fills=fills.fills_with_values(self.fills, values))

    def apply(self, rows: pa.Table) -> pa.Table:
        """Rows with the present columns; columns that are not of the table stay behind them."""
        values = {fill.column.name: fill.value for fill in self.fills}
        cells: dict[str, pa.Array | pa.ChunkedArray] = {}
        for column in self.columns:
            name, kind = column.name, column.arrow(physical=False).type
            origin = self.origins.get(name)
            if origin is not None and origin in rows.column_names:
                cells[name] = _as_type(rows.column(origin), kind)
            else:
                value = values.get(name)
                cells[name] = pa.nulls(len(rows), kind) if value is None else pa.repeat(value.cast(kind), len(rows))
        rest = {name: rows.column(name) for name in rows.column_names if name not in self.names}
        # Names of columns are keys of exact texts, and items of what rows lack.
        moved = {old: new for old, new in self.names.items() if new != old}
        return with_text_changes(pa.table(cells | rest), [ExactTextChange(moved, self.texts, moved)])


def _as_type(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return values if values.type == kind else values.cast(kind)
