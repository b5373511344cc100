"""Rows of a child table in its downstream mirror, by the columns of its foreign keys.

Files that statistics leave out are not opened, large ones are searched by an index, and of the others the key's columns
alone are read. Whole rows are read of what is found. Callers ask for many values at once.

Put here: lookups. Not here: indexes (child_index.py), or what becomes of the rows (derivation.py).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.cascades import child_index
from spark_jobs.cascades.derivation import Row, Weights
from spark_jobs.cascades.key_columns import KeyColumns, rows_of
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.errors import TableStopped

_STORED_RAW = "_raw"
_ADDED = ("_position", "_committed_at")
"""Columns that a mirror has besides the source's, and besides the exact texts."""


@dataclass(slots=True)
class MirrorRows:
    """Rows of a version of a child table's mirror; none where it is not there yet.

    Attributes:
        current: of a table that has more rows than the child has now, the values that these have in added columns.
    """

    snapshot: Snapshot | None
    current: Mapping[str, object] = field(default_factory=dict)
    is_empty: bool = field(init=False)
    _found: dict[tuple[str, ...], dict[Weights, list[Row]]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        self.is_empty = self.snapshot is None or all(file.num_rows == 0 for file in self.snapshot.files)

    def has_columns(self, names: Collection[str]) -> bool:
        """True if the mirror has columns of these names, in small letters."""
        return self.snapshot is not None and {*names} <= {name.casefold() for name in self.snapshot.schema.names}

    def located(self, columns: KeyColumns, weights: Weights) -> Iterable[Row]:
        """The rows whose columns weigh so. Raises TableStopped, LakeError."""
        if weights not in self._found[columns.names]:
            self.find(columns, [weights])
        return self._found[columns.names][weights]

    def find(self, columns: KeyColumns, wanted: Collection[Weights]) -> list[Row]:
        """Read the rows whose columns weigh as one of some; those that are found for the first time.

        Raises TableStopped, LakeError.
        """
        known = self._found[columns.names]
        missing = {weights: list[Row]() for weights in wanted if weights not in known}
        if not missing:
            return []
        for file in self.snapshot.files if self.snapshot else ():
            for weights, row in self._rows_in(file, columns, missing.keys()):
                missing[weights].append(row)
        known.update(missing)
        return [row for rows in missing.values() for row in rows]

    def _rows_in(self, file: DataFile, columns: KeyColumns, wanted: Collection[Weights]) -> list[tuple[Weights, Row]]:
        """The rows of a file whose columns weigh as one of some, each with its weights."""
        assert self.snapshot is not None
        schema = self.snapshot.schema
        by_name = {name.casefold(): name for name in schema.names}
        names = [by_name[name] for name in columns.names]
        parts = [{weights[at] for weights in wanted} for at in range(len(names))]
        if not all(
            is_text or _may_hold(file, self.snapshot, name, part)
            for name, part, is_text in zip(names, parts, columns.is_text, strict=True)
        ):
            return []
        numbers = self._numbers_in(file, columns, wanted, names)
        if not len(numbers):
            return []
        # Whole rows of what may be meant.
        stored = [name for name in schema.names if name not in _ADDED]
        cells = data_files.read_rows(self.snapshot.path, file, numbers, stored, schema)
        raws = cells.column(_STORED_RAW).to_pylist()
        rows = rows_of([name for name in stored if name != _STORED_RAW], cells.drop_columns(_STORED_RAW), raws)
        if self.current:
            rows = [row for row in rows if self._is_current(row)]
        pairs = zip(columns.weights_of_rows(rows), rows, strict=True)
        return [(weights, row) for weights, row in pairs if weights is not None and weights in wanted]

    def _is_current(self, row: Row) -> bool:
        return all(row[name] == value for name, value in self.current.items())

    def _numbers_in(
        self, file: DataFile, columns: KeyColumns, wanted: Collection[Weights], names: Sequence[str]
    ) -> NDArray[np.int64]:
        """Numbers of the living rows of a file that may weigh so. names: of the columns, as the file has them."""
        assert self.snapshot is not None
        path, schema = self.snapshot.path, self.snapshot.schema
        cells: list[pa.ChunkedArray] = []
        raw: pa.ChunkedArray | None = None

        # The columns are read once, for a new index or in its place.
        def read_cells() -> list[pa.ChunkedArray] | None:
            nonlocal raw
            has_raw = file.may_have_values(schema, _STORED_RAW)
            keys = data_files.read_columns(path, file, [*names, *([_STORED_RAW] if has_raw else [])], schema)
            cells[:] = [keys.column(name) for name in names]
            raw = keys.column(_STORED_RAW) if has_raw else None
            return cells if raw is None or not _has_exact_texts(raw, columns) else None

        numbers = child_index.rows_with(self.snapshot, file, columns, wanted, read_cells)
        if numbers is not None:
            dead = deletion_vectors.row_numbers(path, file.deletion_vector)
            return numbers[~np.isin(numbers, dead)] if len(numbers) else numbers
        if not cells:
            read_cells()
        mask = deletion_vectors.living_rows_mask(path, file.deletion_vector, len(cells[0]))
        if raw is not None and _has_exact_texts(raw.filter(pa.array(mask)), columns):
            raise TableStopped(
                f"{columns.table}: it has values of {', '.join(columns.names)} that no typed column holds"
            )
        # Columns that weigh so one by one need not do it together.
        values = columns.columns_of(wanted, [column.type for column in cells])
        for at, weights in enumerate(columns.weighed(cells)):
            mask &= pc.is_in(weights, value_set=values[at].unique()).to_numpy(zero_copy_only=False)
        return np.flatnonzero(mask)


def _may_hold(file: DataFile, snapshot: Snapshot, name: str, values: Collection[Any]) -> bool:
    """False if a file's statistics leave out that a column has one of some values."""
    bounds = file.bounds(snapshot.schema, name)
    if not isinstance(bounds.minimum, int) or not isinstance(bounds.maximum, int):
        return True
    return any(bounds.minimum <= value <= bounds.maximum for value in values)


def _has_exact_texts(raw: pa.ChunkedArray, columns: KeyColumns) -> bool:
    """True if a row has an exact text in the place of a value of the columns."""
    names = {name.casefold() for texts in raw.drop_null().to_pylist() for name, _ in texts}
    return bool(names & {*columns.names})
