"""Row numbers of some keys in a table's data files, without reading files that cannot hold them.

Put here: finding keys by statistics, key columns and hashes. Not here: what becomes of the rows
(engine/merge/downstream_task.py).

Files and row groups are skipped by the minima and maxima of the key's first column. In those that are left only the
key's columns are read, and of these most values are excluded by a table of bits over their hashes; what is left is
compared by the hash and then by the values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_jobs.delta import data_files, deletion_vectors, key_index
from spark_jobs.delta.index_files import Damaged
from spark_jobs.delta.log_files import directory
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.delta.statistics import Bounds
from spark_jobs.delta.value_hash import SECOND_SEED, Hashes, hashes_of
from spark_jobs.engine.rows.exact_texts import ExactTextChange, with_text_changes
from spark_jobs.engine.rows.fills import ColumnFill, with_fills
from spark_jobs.silver.keyless_rows import bounded_column, comparable_columns
from spark_jobs.silver.net_changes import identity_columns

Numbers = NDArray[np.int64]

_RAW = pa.map_(pa.string(), pa.string())
_INDEXED_ROWS = 1 << 17
"""Rows that a data file has at least for an index of its own; smaller ones are read as fast."""
_ROWS_A_KEY = 100
"""Rows that a data file has for each key that is looked for, at least, where its index is used."""
_BITS = 20
"""Bits of a hash by which the table of bits is addressed: 1 MiB, which a core's second cache holds."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Rows of one data file that have wanted keys: their numbers in the file, and which of the wanted keys each has."""

    file: DataFile
    rows: Numbers
    keys: Numbers


class Keys:
    """The keys that are looked for: rows with the key's columns and ``_raw``, a key at most once.

    is_keyless: whether the columns are all that rows have, and rows are looked for that are equal to the last byte.
    fills: columns of those that the table's files do not have yet. exact: what becomes of exact texts that they have.
    """

    def __init__(
        self,
        rows: pa.Table,
        key: Sequence[str],
        *,
        is_keyless: bool = False,
        fills: Sequence[ColumnFill] = (),
        exact: Sequence[ExactTextChange] = (),
    ) -> None:
        self.key = tuple(key)
        self.is_keyless, self.fills = is_keyless, tuple(fills)
        self.exact = [replace(change, absent={}) for change in exact if change.names or change.texts]
        self.values = self._identity(rows)
        self.hashes, self.checks = self.hashed(rows)
        self.order = np.argsort(self.hashes)
        self.sorted: Hashes = self.hashes[self.order]
        self.bits = np.zeros(1 << _BITS, np.bool_)
        self.bits[self.sorted >> np.uint64(64 - _BITS)] = True
        # Of rows without a key any column may have bounds.
        self.bounding = bounded_column(rows, self.key) if is_keyless else self.key[0]
        self.first = _KeyBounds(rows.column(self.bounding or self.key[0]).combine_chunks())

    def _identity(self, rows: pa.Table) -> list[pa.Array]:
        columns = comparable_columns(rows, self.key) if self.is_keyless else identity_columns(rows, self.key)
        return [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]

    def hashed(self, rows: pa.Table) -> tuple[Hashes, key_index.Checks]:
        """Two hashes of each row, by which an index finds it."""
        columns = self._identity(rows)
        return hashes_of(columns, len(rows)), hashes_of(columns, len(rows), SECOND_SEED).astype(np.uint32)

    def bounds_of(self, file: DataFile, schema: TableSchema) -> Bounds:
        """The bounds of a file's rows, in the column by which files are skipped."""
        return file.bounds(schema, self.bounding) if self.bounding else Bounds(None, None, None)

    def between(self, bounds: Bounds) -> Numbers:
        """Mask of the keys that may lie in a file with such bounds of the key's first column."""
        return self.first.between(bounds.minimum, bounds.maximum)

    def ordinals_of(self, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """Rows that have a wanted key, and the number of that key."""
        rows = with_text_changes(with_fills(rows, self.fills), self.exact)
        row_hashes = hashes_of(self._identity(rows), len(rows))
        maybe = np.flatnonzero(self.bits[row_hashes >> np.uint64(64 - _BITS)])
        at = np.searchsorted(self.sorted, row_hashes[maybe])
        at[at == len(self.sorted)] = 0
        is_same = self.sorted[at] == row_hashes[maybe]
        maybe, at = maybe[is_same], at[is_same]
        if not len(maybe):
            return maybe, maybe
        return self._verified(rows, maybe, at)

    def _verified(self, rows: pa.Table, maybe: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
        """Rows with the hash of a wanted key that have the key. at: the first of the keys with that hash."""
        candidate_rows = rows.take(pa.array(maybe))
        key_columns = self._identity(candidate_rows)
        result = np.full(len(maybe), -1, np.int64)
        pending = np.arange(len(maybe))
        while len(pending):
            candidates = self.order[at[pending]]
            is_same = np.ones(len(pending), np.bool_)
            for column, key_values in zip(key_columns, self.values, strict=True):
                is_same &= _equal(column.take(pa.array(pending)), key_values.take(pa.array(candidates)))
            result[pending[is_same]] = candidates[is_same]
            # two keys with one hash stand next to each other
            pending = pending[~is_same]
            at[pending] += 1
            inside = at[pending] < len(self.sorted)
            pending = pending[inside]
            pending = pending[self.sorted[at[pending]] == self.sorted[at[pending] - 1]]
        hit = result >= 0
        return maybe[hit], result[hit]


class _KeyBounds:
    """The values of the key's first column, to tell whether any lies between two bounds."""

    def __init__(self, values: pa.Array) -> None:
        self.has_null = bool(values.null_count)
        kind = values.type
        self.is_comparable = bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind))
        self.count = len(values)
        self.indexes: Numbers = np.zeros(0, np.int64)
        present = values.drop_null()
        self.values: list[Any] | NDArray[Any] = []
        if self.is_comparable:
            order = pc.sort_indices(present)
            self.indexes = np.asarray(pc.indices_nonzero(pc.is_valid(values)), np.int64)[np.asarray(order, np.int64)]
            ordered = present.take(order)
            self.values = ordered.to_numpy() if pa.types.is_integer(kind) else ordered.to_pylist()

    def between(self, lowest: Any, highest: Any) -> Numbers:
        """Positions of the values that may lie between two bounds, NULLs among them; unknown bounds are None."""
        if self.has_null or not self.is_comparable or lowest is None or highest is None:
            return np.arange(self.count)
        values = np.asarray(self.values, dtype=object) if isinstance(self.values, list) else self.values
        return self.indexes[np.searchsorted(values, lowest, "left") : np.searchsorted(values, highest, "right")]

    def meet(self, lowest: Any, highest: Any) -> bool:
        """True if rows between two bounds may have a wanted key; unknown bounds are None."""
        if self.has_null or not self.is_comparable or lowest is None or highest is None:
            return True
        values = np.asarray(self.values, dtype=object) if isinstance(self.values, list) else self.values
        begin = int(np.searchsorted(values, lowest))
        return begin < len(values) and bool(values[begin] <= highest)


def _equal(left_values: pa.Array, right_values: pa.Array) -> NDArray[np.bool_]:
    """Value by value; NULL is a value."""
    both_null = pc.and_(pc.is_null(left_values), pc.is_null(right_values))
    is_same = pc.or_(pc.fill_null(pc.equal(left_values, right_values), False), both_null)
    return np.asarray(is_same, np.bool_)


def hits(
    path: str, files: Sequence[DataFile], schema: TableSchema, keys: Keys, *, builds_index: bool = True
) -> Iterator[Hit]:
    """The rows of a table's files that have wanted keys and are not marked as deleted.

    path: the table's. builds_index: whether a large file without an index gets one; readers write nothing.
    """
    for file in files:
        bounds = keys.bounds_of(file, schema)
        if not keys.first.meet(bounds.minimum, bounds.maximum):
            continue
        rows, key_ordinals = _by_index(path, file, schema, keys, builds_index=builds_index)
        if len(rows) and file.deletion_vector is not None:
            alive = ~np.isin(rows, deletion_vectors.row_numbers(path, file.deletion_vector))
            rows, key_ordinals = rows[alive], key_ordinals[alive]
        if len(rows):
            yield Hit(file, rows, key_ordinals)


def _by_index(
    path: str, file: DataFile, schema: TableSchema, keys: Keys, *, builds_index: bool
) -> tuple[Numbers, Numbers]:
    """Rows by the file's index where it is large and the keys are few, else by reading its key columns."""
    near_keys, folder = keys.between(keys.bounds_of(file, schema)), directory(path)
    is_small = (file.num_records or 0) < max(_INDEXED_ROWS, _ROWS_A_KEY * len(near_keys))
    # An index is mapped into memory, which no object can be, and has the rows as they are in the file.
    if is_small or keys.fills or keys.exact or not isinstance(folder, Path):
        return _in_file(path, file, schema, keys)
    # a key of another type has other hashes
    physical = [f"{column.physical_name} {column.ddl}" for column in map(schema.column, keys.key)]
    physical += ["all bytes"] if keys.is_keyless else []
    index = key_index.stored_index(folder, file, physical)
    if index is None and builds_index:
        key_index.build(folder, file, physical, keys.hashed(_key_rows(path, file, schema, keys)))
        index = key_index.stored_index(folder, file, physical)
    if index is None:
        return _in_file(path, file, schema, keys)
    try:
        rows, key_ordinals = index.lookup(keys.hashes[near_keys], keys.checks[near_keys])
    except Damaged:
        return _in_file(path, file, schema, keys)
    return rows, near_keys[key_ordinals]


def _key_rows(path: str, file: DataFile, schema: TableSchema, keys: Keys) -> pa.Table:
    """The key's columns of all rows of a file, and ``_raw``, which is read only where a key's column has NULL."""
    rows = data_files.read_columns(path, file, list(keys.key), schema)
    if any(column.null_count for column in rows.columns):
        return data_files.read_columns(path, file, [*keys.key, "_raw"], schema)
    return rows.append_column("_raw", pa.nulls(len(rows), _RAW))


def _in_file(path: str, file: DataFile, schema: TableSchema, keys: Keys) -> tuple[Numbers, Numbers]:
    with data_files.reading(path, file):
        return _in_row_groups(data_files.open_file(path, file), schema, keys)


def _in_row_groups(opened: pq.ParquetFile, schema: TableSchema, keys: Keys) -> tuple[Numbers, Numbers]:
    begin, rows, key_ordinals = 0, list[Numbers](), list[Numbers]()
    first = data_files.leaf_of(opened, schema.column(keys.bounding).physical_name) if keys.bounding else None
    for number in range(opened.num_row_groups):
        group = opened.metadata.row_group(number)
        if first is None or keys.first.meet(*_bounds(group, first)):
            table = data_files.read_row_group(opened, number, keys.key, schema)
            raw = pa.nulls(len(table), _RAW)
            if keys.exact or any(table.column(name).null_count for name in keys.key):
                # Only rows of which the key's column is NULL have an exact text in its place.
                raw = data_files.read_row_group(opened, number, ["_raw"], schema).column(0)
            row_numbers, ordinals = keys.ordinals_of(table.append_column("_raw", raw))
            rows.append(row_numbers + begin)
            key_ordinals.append(ordinals)
        begin += group.num_rows
    return (
        (np.concatenate(rows), np.concatenate(key_ordinals)) if rows else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    )


def _bounds(group: pq.RowGroupMetaData, column: int) -> tuple[Any, Any]:
    """Least and greatest value of a column (a leaf) in a row group; None where they are not known."""
    statistics = group.column(column).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else (None, None)
