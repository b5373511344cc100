"""Windows of a silver table, by the statistics of its data files.

Put here: finding them without a query over all rows. Not here: what a window is (compaction_job.py), or which of them a
backfill takes (pipeline/replay_windows.py).

A run writes the rows of a window into files of their own, whose statistics then say which window that is. Of a file
that maintenance wrote together the columns are read.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.lake.table import Table
from spark_jobs.silver.positions import FIELDS, PositionKey, bounds_of
from spark_jobs.silver.table import MENDED, Op

WindowKey = tuple[PositionKey, PositionKey]
"""Columns of a window's start and stop."""

_START, _STOP = "_window_start", "_window_stop"
OF_CHANGES = (Op.INSERT, Op.UPDATE, Op.DELETE)
"""Operations of rows that changes in the log left."""


def windows_at(table: Table, version: int, operations: Collection[Op] = OF_CHANGES) -> set[WindowKey]:
    """The windows that rows of some operations are of in a version of a table, as ``windows_of``. Raises LakeError."""
    snapshot = snapshot_of(table.path, version)
    assert snapshot is not None
    return windows_of(snapshot, operations)


def windows_of(table: Snapshot, operations: Collection[Op] = OF_CHANGES) -> set[WindowKey]:
    """The windows that rows of some operations are of; without these, those of changes in the log.

    Raises LakeError where a data file cannot be read.
    """
    windows: set[WindowKey] = set()
    for file in table.files:
        by_statistics = _by_statistics(file, table.schema, {*operations})
        windows |= {*_window_keys(table, file, operations)} if by_statistics is None else by_statistics
    return windows


def _by_statistics(file: DataFile, schema: TableSchema, operations: set[Op]) -> set[WindowKey] | None:
    """The windows of a file's rows of some operations; None where its statistics do not tell.

    Rows of two operations that have one window are changes in the log, or were mended: others have no window in common
    with them.
    """
    bounds = file.bounds(schema, "_op")
    lowest, highest = bounds.minimum, bounds.maximum
    if lowest is None or highest is None:
        return None
    if not any(lowest <= operation <= highest for operation in operations):
        return set()
    start, stop = _single_position(file, schema, _START), _single_position(file, schema, _STOP)
    if start is None or stop is None:
        return None
    possible = {Op(lowest)} if lowest == highest else {*(MENDED if lowest == Op.MEND else OF_CHANGES)}
    if possible <= operations:
        return {(start, stop)}
    return None if possible & operations else set()


def _single_position(file: DataFile, schema: TableSchema, name: str) -> PositionKey | None:
    """The position that all rows of a file have in a column."""
    lowest, highest = bounds_of(file, schema, name)
    return lowest if lowest == highest else None


def _window_keys(table: Snapshot, file: DataFile, operations: Collection[Op]) -> Iterator[WindowKey]:
    rows = data_files.read_living(table.path, file, ["_op", _START, _STOP], table.schema)
    rows = rows.filter(pc.is_in(rows.column("_op"), pa.array([str(operation) for operation in operations])))
    cells = [pc.struct_field(rows.column(name), field) for name in (_START, _STOP) for field in FIELDS[:3]]
    names = [str(at) for at in range(len(cells))]
    for row in pa.table(cells, names).group_by(names, use_threads=False).aggregate([]).to_pylist():
        positions = tuple(row.values())
        yield positions[:3], positions[3:]
