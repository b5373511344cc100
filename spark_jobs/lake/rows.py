"""Rows of a Delta table, read in this process, and counts of rows.

Put here: reading rows that satisfy a condition file after file, and counting rows by the log. Not here: scans of large
tables on a file system, which Arrow's datasets read faster (table.py).

On an object store Arrow would call Python from threads of its own, and abort the process where it ends meanwhile.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.log_files import UnsupportedTable
from spark_jobs.delta.snapshot import Snapshot, snapshot_of
from spark_jobs.errors import LakeError


def rows_of(
    path: str, version: int, columns: Sequence[str], condition: pc.Expression | None, *, rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows of one version that satisfy a condition, at most so many in a batch. Raises LakeError.

    The condition may use all columns.
    """
    snapshot = snapshot_of(path, version)
    if snapshot is None:
        raise LakeError(f"{path}: has no version {version} any more")
    yield from rows_in(snapshot, columns, condition, rows=rows)


def rows_in(
    snapshot: Snapshot, columns: Sequence[str], condition: pc.Expression | None, *, rows: int
) -> Iterator[pa.RecordBatch]:
    """As ``rows_of``, of a version that is open."""
    names = list(columns) if condition is None else snapshot.schema.names
    for file in snapshot.files:
        table = data_files.read_columns(snapshot.path, file, names, snapshot.schema)
        if file.deletion_vector:
            living = deletion_vectors.living(snapshot.path, file.deletion_vector, table.num_rows)
            table = table.filter(pa.array(living))
        if condition is not None:
            table = table.filter(condition)
        yield from table.select(list(columns)).to_batches(rows)


def row_count(path: str, version: int) -> int | None:
    """The rows of one version by its log; None where a file has no statistics, or the log is not read."""
    try:
        snapshot = snapshot_of(path, version)
    except UnsupportedTable:
        return None
    counts = [file.num_rows for file in snapshot.files] if snapshot else [None]
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if len(numbers) == len(counts) else None


def all_of(cells: Sequence[tuple[str, str, Any]]) -> pc.Expression | None:
    """The condition that columns have values, each as (column, "=", value); None without any."""
    conditions = [pc.field(name) == value for name, _, value in cells]
    return reduce(and_, conditions) if conditions else None
