"""Where the rows of some keys stand in a table's data files: row numbers, without scanning what cannot hold them.

Put here: finding keys by statistics, key columns and hashes. Not here: what becomes of the rows (downstream_task.py).

Files and row groups are skipped by the minima and maxima of the key's first column. In those that are left only the
key's columns are read, and of these most values are told apart by a table of bits over their hashes; what is left is
compared by the hash and then by the values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.log_files import directory
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.delta.statistics import Bounds
from spark_jobs.engine import key_index
from spark_jobs.engine.key_hash import SECOND_SEED, Hashes, hashes
from spark_jobs.silver.net_changes import identity

Numbers = NDArray[np.int64]

_RAW = pa.map_(pa.string(), pa.string())
_INDEXED_ROWS = 1 << 17
"""Rows that a data file has at least for an index of its own; smaller ones are read as fast."""
_ROWS_A_KEY = 100
"""Rows that a data file has for each key that is looked for, at least, where its index is used."""
_BITS = 20
"""Of a hash, which the table of bits is addressed by: 1 MiB, which a core's second cache holds."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Rows of one data file that have wanted keys: their numbers in the file, and which of the wanted keys each has."""

    file: DataFile
    rows: Numbers
    wanted: Numbers


class Keys:
    """The keys that are looked for: rows with the key's columns and ``_raw``, a key at most once."""

    def __init__(self, rows: pa.Table, key: Sequence[str]) -> None:
        self.key = tuple(key)
        self.values = [column.combine_chunks() for column in identity(rows, key)]
        found = hashes(rows, key)
        self.hashes = found
        self.checks = hashes(rows, key, SECOND_SEED).astype(np.uint32)
        self.order = np.argsort(found)
        self.sorted: Hashes = found[self.order]
        self.bits = np.zeros(1 << _BITS, np.bool_)
        self.bits[self.sorted >> np.uint64(64 - _BITS)] = True
        self.first = _Bounds(rows.column(key[0]).combine_chunks())

    def between(self, bounds: Bounds) -> Numbers:
        """Which keys may lie in a file with such bounds of the key's first column."""
        return self.first.between(bounds.minimum, bounds.maximum)

    def found(self, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """Which rows have a wanted key, and which one."""
        given = hashes(rows, self.key)
        maybe = np.flatnonzero(self.bits[given >> np.uint64(64 - _BITS)])
        at = np.searchsorted(self.sorted, given[maybe])
        at[at == len(self.sorted)] = 0
        same = self.sorted[at] == given[maybe]
        maybe, at = maybe[same], at[same]
        if not len(maybe):
            return maybe, maybe
        return self._verified(rows, maybe, at)

    def _verified(self, rows: pa.Table, maybe: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
        """Of rows with the hash of a wanted key, those that have the key. at: the first of the keys with that hash."""
        chosen = rows.take(pa.array(maybe))
        given = [column.combine_chunks() for column in identity(chosen, self.key)]
        result = np.full(len(maybe), -1, np.int64)
        left = np.arange(len(maybe))
        while len(left):
            candidates = self.order[at[left]]
            same = np.ones(len(left), np.bool_)
            for column, wanted in zip(given, self.values, strict=True):
                same &= _equal(column.take(pa.array(left)), wanted.take(pa.array(candidates)))
            result[left[same]] = candidates[same]
            # two keys with one hash stand next to each other
            left = left[~same]
            at[left] += 1
            inside = at[left] < len(self.sorted)
            left = left[inside]
            left = left[self.sorted[at[left]] == self.sorted[at[left] - 1]]
        hit = result >= 0
        return maybe[hit], result[hit]


class _Bounds:
    """The values of the key's first column, to tell whether any lies between two bounds."""

    def __init__(self, values: pa.Array) -> None:
        self.has_null = bool(values.null_count)
        kind = values.type
        self.is_comparable = bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind))
        self.count = len(values)
        self.places: Numbers = np.zeros(0, np.int64)
        present = values.drop_null()
        self.values: list[Any] | NDArray[Any] = []
        if self.is_comparable:
            order = pc.sort_indices(present)
            self.places = np.asarray(pc.indices_nonzero(pc.is_valid(values)), np.int64)[np.asarray(order, np.int64)]
            ordered = present.take(order)
            self.values = ordered.to_numpy() if pa.types.is_integer(kind) else ordered.to_pylist()

    def between(self, least: Any, most: Any) -> Numbers:
        """Places of the values that may lie between two bounds, NULLs among them; unknown bounds are None."""
        if self.has_null or not self.is_comparable or least is None or most is None:
            return np.arange(self.count)
        values = np.asarray(self.values, dtype=object) if isinstance(self.values, list) else self.values
        return self.places[np.searchsorted(values, least, "left") : np.searchsorted(values, most, "right")]

    def meet(self, least: Any, most: Any) -> bool:
        """Whether rows between two bounds may have a wanted key; unknown bounds are None."""
        if self.has_null or not self.is_comparable or least is None or most is None:
            return True
        values = np.asarray(self.values, dtype=object) if isinstance(self.values, list) else self.values
        begin = int(np.searchsorted(values, least))
        return begin < len(values) and bool(values[begin] <= most)


def _equal(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Value by value; NULL is a value."""
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    same = pc.or_(pc.fill_null(pc.equal(one, other), False), both_null)
    return np.asarray(same, np.bool_)


def hits(path: str, files: Sequence[DataFile], schema: TableSchema, keys: Keys) -> Iterator[Hit]:
    """The rows of a table's files that have wanted keys and are not marked as deleted. path: the table's."""
    for file in files:
        bounds = file.bounds(schema, keys.key[0])
        if not keys.first.meet(bounds.minimum, bounds.maximum):
            continue
        rows, wanted = _by_index(path, file, schema, keys)
        if len(rows) and file.deletion_vector is not None:
            alive = ~np.isin(rows, deletion_vectors.row_numbers(path, file.deletion_vector))
            rows, wanted = rows[alive], wanted[alive]
        if len(rows):
            yield Hit(file, rows, wanted)


def _by_index(path: str, file: DataFile, schema: TableSchema, keys: Keys) -> tuple[Numbers, Numbers]:
    """By the file's index where it is large and the keys are few, else by reading its key columns."""
    few, folder = keys.between(file.bounds(schema, keys.key[0])), directory(path)
    is_small = (file.num_records or 0) < max(_INDEXED_ROWS, _ROWS_A_KEY * len(few))
    if is_small or not isinstance(folder, Path):  # an index is mapped into memory, which no object can be
        return _in_file(path, file, schema, keys)
    # a key of another type has other hashes
    physical = [f"{column.physical_name} {column.ddl}" for column in map(schema.column, keys.key)]
    index = key_index.opened(folder, file, physical)
    if index is None:
        key_index.build(folder, file, physical, key_index.key_hashes(_key_rows(path, file, schema, keys), keys.key))
        index = key_index.opened(folder, file, physical)
    if index is None:
        return _in_file(path, file, schema, keys)
    try:
        rows, wanted = index.lookup(keys.hashes[few], keys.checks[few])
    except key_index.Damaged:
        return _in_file(path, file, schema, keys)
    return rows, few[wanted]


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
    begin, rows, wanted = 0, list[Numbers](), list[Numbers]()
    physical = schema.column(keys.key[0]).physical_name
    leaves = [opened.metadata.schema.column(at).path for at in range(opened.metadata.num_columns)]
    first = leaves.index(physical) if physical in leaves else None
    for number in range(opened.num_row_groups):
        group = opened.metadata.row_group(number)
        if first is None or keys.first.meet(*_bounds(group, first)):
            table = data_files.read_row_group(opened, number, keys.key, schema)
            raw = pa.nulls(len(table), _RAW)
            if any(table.column(name).null_count for name in keys.key):
                # Only rows of which the key's column is NULL have an exact text in its place.
                raw = data_files.read_row_group(opened, number, ["_raw"], schema).column(0)
            own, found = keys.found(table.append_column("_raw", raw))
            rows.append(own + begin)
            wanted.append(found)
        begin += group.num_rows
    return (np.concatenate(rows), np.concatenate(wanted)) if rows else (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _bounds(group: pq.RowGroupMetaData, column: int) -> tuple[Any, Any]:
    """Least and greatest value of a column (a leaf) in a row group; None where they are not known."""
    statistics = group.column(column).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else (None, None)
