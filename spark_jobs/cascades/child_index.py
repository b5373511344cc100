"""Rows of a child table's data files by the columns of its foreign keys, through an index.

An index (delta/key_index.py) is of one data file and the columns of one foreign key, and has hashes of their weights in
the place of a key's. It belongs to the bytes of that file, so neither deletion vectors nor commits make it stale, and
goes with the file. It is built where a file is searched for the first time.

Put here: which files are worth one, building it, and lookups. Not here: what is compared (key_columns.py), reading
files that have none (mirror_rows.py).
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.cascades.derivation import Weights
from spark_jobs.cascades.key_columns import KeyColumns
from spark_jobs.delta import key_index
from spark_jobs.delta.index_files import Damaged
from spark_jobs.delta.log_files import directory
from spark_jobs.delta.schema import DeltaColumn
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.delta.value_hash import SECOND_SEED, Hashes, hashes_of

_INDEXED_ROWS = 1 << 17
"""Rows that a data file has at least for an index; smaller ones are read as fast."""
_ROWS_A_WEIGHT = 10
"""Rows that a data file has for each value that is looked for, at least, where its index is used."""


def rows_with(
    snapshot: Snapshot,
    file: DataFile,
    columns: KeyColumns,
    wanted: Collection[Weights],
    read_cells: Callable[[], Sequence[pa.ChunkedArray] | None],
) -> NDArray[np.int64] | None:
    """Numbers of the rows of a data file whose columns weigh as one of some, deleted rows among them.

    None where the file has no index. read_cells: reads the columns of the whole file; None where some of their values
    are not typed. Raises TableStopped, LakeError.
    """
    folder = directory(snapshot.path)
    # An index is mapped into memory, which no object can be.
    if (file.num_records or 0) < max(_INDEXED_ROWS, _ROWS_A_WEIGHT * len(wanted)) or not isinstance(folder, Path):
        return None
    by_name = {column.name.casefold(): column for column in snapshot.schema.columns}
    stored = [by_name[name] for name in columns.names]
    key, qualifier = _key(stored, columns), _qualifier(stored)
    index = key_index.stored_index(folder, file, key, qualifier)
    if index is None:
        cells = read_cells()
        if cells is None:
            return None
        key_index.build(folder, file, key, _hashed([*columns.weighed(cells)]), qualifier)
        index = key_index.stored_index(folder, file, key, qualifier)
    if index is None:
        return None
    types = [column.arrow(physical=False).type for column in stored]
    try:
        rows, _ = index.lookup(*_hashed(columns.columns_of(wanted, types)))
    except Damaged:
        return None
    return np.unique(rows)


def _key(stored: Sequence[DeltaColumn], columns: KeyColumns) -> list[str]:
    """Texts that the hashes of a file follow from."""
    described = zip(stored, columns.comparisons, strict=True)
    return ["foreign key", *(f"{column.physical_name} {column.ddl} {comparison}" for column, comparison in described)]


def _qualifier(stored: Sequence[DeltaColumn]) -> str:
    """Qualifier by which indexes of several foreign keys stand beside each other; another definition replaces one."""
    names = "\0".join(column.physical_name for column in stored)
    return hashlib.blake2b(names.encode(), digest_size=8).hexdigest()


def _hashed(weights: Sequence[pa.Array]) -> tuple[Hashes, key_index.Checks]:
    count = len(weights[0])
    return hashes_of(weights, count), hashes_of(weights, count, SECOND_SEED).astype(np.uint32)
