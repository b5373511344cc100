"""Rows of a child table in its downstream mirror, found by the columns of its foreign keys.

The files of the mirror are read by the key's columns alone, those that statistics leave out are not opened, and whole
rows are read of what is found. So a lookup costs the key's columns of the child table: callers ask for many values at
once.

Put here: lookups. Not here: what becomes of the rows (derivation.py).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.binlog import TableDefinition, TableName
from spark_jobs.cascades.derivation import Row, Weights
from spark_jobs.cascades.weights import weigher_of
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.errors import TableStopped, Unsupported

RAW = "\0raw"
"""Of a row its exact texts, as a list of pairs; no column of a server has a zero byte in its name."""
_STORED_RAW = "_raw"
_ADDED = ("_position", "_committed_at")
"""Columns that a mirror has besides the source's, and besides the exact texts."""
_DATES = {7, 10, 12, 14, 17, 18}
"""Type codes of dates and times of day, of which a server has some that no typed column holds."""


def row_of(names: Sequence[str], cells: Row, raw: Any) -> dict[str, Any]:
    """A row by its columns in small letters, as the derivation has it. raw: its exact texts."""
    return {name.casefold(): cells[name] for name in names} | {RAW: raw}


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Columns of a table that a foreign key is of, with what is compared in the place of their values."""

    table: TableName
    names: tuple[str, ...]
    """In small letters."""
    weighers: tuple[Callable[[Any], Hashable], ...]
    is_text: tuple[bool, ...]

    @classmethod
    def of(cls, definition: TableDefinition, names: Sequence[str]) -> "KeyColumns":
        """Raises TableStopped where it is not known when values of a column are equal."""
        by_name = {name.casefold(): at for at, name in enumerate(definition.column_names())}
        weighers, texts = [], []
        for name in names:
            if name.casefold() not in by_name:
                raise TableStopped(f"{definition.name}: it has no column {name}, which a foreign key is of")
            column = definition.columns[by_name[name.casefold()]]
            if column.type_code in _DATES:
                raise TableStopped(f"{definition.name}.{name}: dates and times are not compared")
            try:
                weighers.append(weigher_of(column))
                texts.append(pa.types.is_string(column.arrow))
            except Unsupported as error:
                raise TableStopped(f"{definition.name}.{name}: {error}") from error
        return cls(definition.name, tuple(name.casefold() for name in names), tuple(weighers), tuple(texts))

    def weights(self, row: Row) -> Weights | None:
        """Weights of a row's values; None where one is NULL. Raises TableStopped."""
        if row[RAW] and {name.casefold() for name, _ in row[RAW]} & {*self.names}:
            raise TableStopped(f"{self.table}: a value of {', '.join(self.names)} is one that no typed column holds")
        values = [row[name] for name in self.names]
        if any(value is None for value in values):
            return None
        try:
            return tuple(weigh(value) for weigh, value in zip(self.weighers, values, strict=True))
        except Unsupported as error:
            raise TableStopped(f"{self.table}: {', '.join(self.names)}: {error}") from error


@dataclass(slots=True)
class MirrorRows:
    """Rows of a version of a child table's mirror; none where it is not there yet.

    Attributes:
        current: of a table that has more rows than the child has now, the values that these have in added columns.
    """

    snapshot: Snapshot | None
    current: Mapping[str, object] = field(default_factory=dict)
    _found: dict[tuple[str, ...], dict[Weights, list[Row]]] = field(default_factory=lambda: defaultdict(dict))

    @property
    def is_empty(self) -> bool:
        return self.snapshot is None or all(file.num_rows == 0 for file in self.snapshot.files)

    def located(self, columns: KeyColumns, weights: Weights) -> Iterable[Row]:
        """The rows whose columns weigh so. Raises TableStopped, LakeError."""
        if weights not in self._found[columns.names]:
            self.find(columns, [weights])
        return self._found[columns.names][weights]

    def find(self, columns: KeyColumns, wanted: Collection[Weights]) -> list[Row]:
        """Reads the rows whose columns weigh as one of some; those that are found for the first time.

        Raises TableStopped, LakeError.
        """
        known = self._found[columns.names]
        missing = {weights: list[Row]() for weights in wanted if weights not in known}
        if not missing:
            return []
        for file in self.snapshot.files if self.snapshot else ():
            for row in self._rows_in(file, columns, missing.keys()):
                missing[columns.weights(row) or ()].append(row)
        known.update(missing)
        return [row for rows in missing.values() for row in rows]

    def _rows_in(self, file: DataFile, columns: KeyColumns, wanted: Collection[Weights]) -> list[Row]:
        assert self.snapshot is not None
        schema = self.snapshot.schema
        by_name = {name.casefold(): name for name in schema.names}
        names = [by_name[name] for name in columns.names]
        # What statistics leave out is not read, and of the rest the key's columns alone.
        parts = [{weights[at] for weights in wanted} for at in range(len(names))]
        if not all(
            is_text or _may_hold(file, self.snapshot, name, part)
            for name, part, is_text in zip(names, parts, columns.is_text, strict=True)
        ):
            return []
        has_raw = file.may_have_values(schema, _STORED_RAW)
        keys = data_files.read_columns(self.snapshot.path, file, [*names, *([_STORED_RAW] if has_raw else [])], schema)
        mask = deletion_vectors.living(self.snapshot.path, file.deletion_vector, len(keys))
        if has_raw:
            _require_typed(keys.column(_STORED_RAW).filter(pa.array(mask)), columns)
        for at, name in enumerate(names):
            mask &= _weighing(keys.column(name), parts[at], columns, at)
        numbers = np.flatnonzero(mask)
        if not len(numbers):
            return []
        # Whole rows of what may be meant: columns that weigh so one by one need not do it together.
        stored = [name for name in schema.names if name not in _ADDED]
        rows = data_files.read_rows(self.snapshot.path, file, numbers, stored, schema).to_pylist()
        cells = [row_of([name for name in stored if name != _STORED_RAW], row, row[_STORED_RAW]) for row in rows]
        return [row for row in cells if self._is_current(row) and columns.weights(row) in wanted]

    def _is_current(self, row: Row) -> bool:
        return all(row[name] == value for name, value in self.current.items())


def _may_hold(file: DataFile, snapshot: Snapshot, name: str, values: Collection[Any]) -> bool:
    """False if a file's statistics leave out that a column has one of some values."""
    bounds = file.bounds(snapshot.schema, name)
    if not isinstance(bounds.minimum, int) or not isinstance(bounds.maximum, int):
        return True
    return any(bounds.minimum <= value <= bounds.maximum for value in values)


def _require_typed(raw: pa.ChunkedArray, columns: KeyColumns) -> None:
    """Raises TableStopped where a row has a value of the columns that no typed column holds."""
    names = {name.casefold() for texts in raw.drop_null().to_pylist() for name, _ in texts}
    if names & {*columns.names}:
        raise TableStopped(f"{columns.table}: it has values of {', '.join(columns.names)} that no typed column holds")


def _weighing(cells: pa.ChunkedArray, wanted: Collection[Any], columns: KeyColumns, at: int) -> NDArray[np.bool_]:
    """Mask of the cells that weigh as one of some does. Raises TableStopped."""
    if not columns.is_text[at]:
        value_set = pa.array(list(wanted), cells.type)
        flags: NDArray[np.bool_] = pc.is_in(cells, value_set=value_set).to_numpy()
        return flags
    texts = cells.combine_chunks().dictionary_encode()
    try:
        equal = [columns.weighers[at](text) in wanted for text in texts.dictionary.to_pylist()]
    except Unsupported as error:
        raise TableStopped(f"{columns.table}.{columns.names[at]}: {error}") from error
    hits = pa.array(equal, pa.bool_()).take(texts.indices) if equal else pa.nulls(len(texts), pa.bool_())
    mask: NDArray[np.bool_] = pc.fill_null(hits, False).to_numpy(zero_copy_only=False)
    return mask
