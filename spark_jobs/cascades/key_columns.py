"""Columns of a foreign key, and what is compared in the place of their values.

Put here: weights of rows, and of Arrow columns. Not here: when values are equal (weights.py), or rows that have them
(mirror_rows.py).
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.cascades.derivation import Row, Weights
from spark_jobs.cascades.weights import comparison_of, weigher_of
from spark_jobs.errors import TableStopped, Unsupported

RAW = "\0raw"
"""Key in a row of its exact texts, a list of pairs; no column of a server has a zero byte in its name."""
_DATES = {7, 10, 12, 14, 17, 18}
"""Type codes of dates and times of day, of which a server has some that no typed column holds."""


def row_of(names: Sequence[str], cells: Row, raw: Any) -> dict[str, Any]:
    """A row by its columns in small letters, as the derivation has it. raw: its exact texts."""
    return {name.casefold(): cells[name] for name in names} | {RAW: raw}


def rows_of(names: Sequence[str], cells: pa.Table | pa.RecordBatch, raws: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows as ``row_of`` has them. cells: their columns, in the order of the names."""
    keys = (*(name.casefold() for name in names), RAW)
    columns = [column.to_pylist() for column in cells.columns]
    return [dict(zip(keys, row, strict=True)) for row in zip(*columns, raws, strict=True)]


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Columns of a table that a foreign key is of, with what is compared in the place of their values.

    Attributes:
        names: in small letters.
        comparisons: what the weights of each column follow from, besides its values.
    """

    table: TableName
    names: tuple[str, ...]
    weighers: tuple[Callable[[Any], Hashable], ...]
    is_text: tuple[bool, ...]
    comparisons: tuple[str, ...]
    _has_text: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_has_text", any(self.is_text))

    @classmethod
    def of(cls, definition: TableDefinition, names: Sequence[str]) -> "KeyColumns":
        """The key columns of these names. Raises TableStopped if it is not known when values of a column are equal."""
        by_name = {name.casefold(): at for at, name in enumerate(definition.column_names())}
        # Columns are found by names in any letters, as the server finds them.
        weighers, texts, comparisons = [], [], []
        for name in names:
            if name.casefold() not in by_name:
                raise TableStopped(f"{definition.name}: it has no column {name}, which a foreign key is of")
            column = definition.columns[by_name[name.casefold()]]
            if column.type_code in _DATES:
                raise TableStopped(f"{definition.name}.{name}: dates and times are not compared")
            try:
                weighers.append(weigher_of(column))
                comparisons.append(comparison_of(column))
                texts.append(pa.types.is_string(column.arrow))
            except Unsupported as error:
                raise TableStopped(f"{definition.name}.{name}: {error}") from error
        small_names = tuple(name.casefold() for name in names)
        return cls(definition.name, small_names, tuple(weighers), tuple(texts), tuple(comparisons))

    def weights(self, row: Row) -> Weights | None:
        """Weights of a row's values; None where one is NULL. Raises TableStopped."""
        if row[RAW] and {name.casefold() for name, _ in row[RAW]} & {*self.names}:
            raise TableStopped(f"{self.table}: a value of {', '.join(self.names)} is one that no typed column holds")
        values = tuple([row[name] for name in self.names])
        if None in values:
            return None
        if not self._has_text:
            return values
        try:
            return tuple(weigh(value) for weigh, value in zip(self.weighers, values, strict=True))
        except Unsupported as error:
            raise TableStopped(f"{self.table}: {', '.join(self.names)}: {error}") from error

    def weights_of_rows(self, rows: Sequence[Row]) -> list[Weights | None]:
        """Weights of each row's values, as ``weights`` gives them; None where one is NULL. Raises TableStopped."""
        if self._has_text or any(row[RAW] for row in rows):
            return [self.weights(row) for row in rows]
        columns = [[row[name] for row in rows] for name in self.names]
        return [None if None in values else values for values in zip(*columns, strict=True)]

    def weighed(self, cells: Sequence[pa.ChunkedArray]) -> Iterator[pa.Array]:
        """The weights of each column's cells, whose bytes are equal where the weights are. Raises TableStopped."""
        for at, column in enumerate(cells):
            array = column.combine_chunks()
            if not self.is_text[at]:
                yield _comparable_cells(array)
                continue
            texts = array.dictionary_encode()
            try:
                weights = [self.weighers[at](text) for text in texts.dictionary.to_pylist()]
            except Unsupported as error:
                raise TableStopped(f"{self.table}.{self.names[at]}: {error}") from error
            yield pa.array(weights, pa.string()).take(texts.indices)

    def columns_of(self, weights: Collection[Weights], types: Sequence[pa.DataType]) -> list[pa.Array]:
        """Weights as columns, as ``weighed`` has those of cells. types: of the cells."""
        return [_comparable_cells(pa.array([values[at] for values in weights], kind)) for at, kind in enumerate(types)]


def _comparable_cells(values: pa.Array) -> pa.Array:
    """0 and -0 are one number."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
