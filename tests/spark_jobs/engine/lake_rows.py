"""Silver and downstream tables of a few rows, without Spark. Put here: how tests of the engine write and read them. Not
here: what is expected."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from spark_jobs.delta import commits, data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot, snapshot_of
from spark_jobs.log.position import Position

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
LOG = "b.000001"
Key = tuple[Any, ...]


def at(offset: int) -> Position:
    return Position(LOG, offset)


@dataclass(frozen=True)
class Row:
    """A row of a lake's table: a key, a value, and where its last change stands. op, window: of silver alone.

    A part of a key that begins with ! is one that only an exact text holds.
    """

    key: Key
    value: int | None
    position: int
    op: str = "insert"
    window: int = 0
    further: tuple[tuple[str, int], ...] = ()
    """Values of other columns, by name."""


def table_of(rows: Iterable[Row], key: Sequence[str], schema: TableSchema, value: str = "v") -> pa.Table:
    """Rows by logical names; columns that no row has are NULL. value: what the value's column is called."""
    cells = []
    for row in rows:
        parts = dict(zip(key, row.key, strict=True))
        exact = {name: part for name, part in parts.items() if isinstance(part, str) and part.startswith("!")}
        location = {"stretch": 1, "number": 1}
        cells.append(
            {name: None if name in exact else part for name, part in parts.items()}
            | {
                value: row.value,
                "_op": row.op,
                "_existed": row.op != "insert",
                "_position": location | {"offset": row.position, "row": 0},
                "_committed_at": datetime.fromtimestamp(row.position, UTC),
                "_window_start": location | {"offset": row.window},
                "_window_stop": location | {"offset": row.window + 100},
                "_raw": list(exact.items()) or None,
            }
            | dict(row.further)
        )
    fields = schema.arrow(physical=False)
    return pa.Table.from_pylist([{name: cell.get(name) for name in fields.names} for cell in cells], fields)


def stored(snapshot: Snapshot, files: Sequence[pa.Table], dead: Mapping[int, Sequence[int]] | None = None) -> Snapshot:
    """The snapshot with tables as data files, in one commit. dead: by table rows that a deletion vector marks."""
    path, configuration = snapshot.path, snapshot.configuration
    added = [data_files.write(path, rows, snapshot.schema, configuration) for rows in files if len(rows)]
    commits.commit(snapshot, adds=added)
    table_snapshot = newest(path)
    if dead:
        vectors = deletion_vectors.write(path, [BitMap64(numbers) for numbers in dead.values()], configuration)
        by_path = {file.path: file for file in table_snapshot.files}
        marked = [(by_path[added[at].path], descriptor) for at, descriptor in zip(dead, vectors, strict=True)]
        commits.commit(table_snapshot, dv_updates=marked)
    return newest(path)


def newest(path: str) -> Snapshot:
    snapshot = snapshot_of(path)
    assert snapshot is not None
    return snapshot


def alive(path: str, file: DataFile, schema: TableSchema, dead: Iterable[int] = ()) -> list[dict[str, Any]]:
    """The rows of a file that no deletion vector marks, and that are not gone otherwise."""
    rows = data_files.read_columns(path, file, schema.names, schema)
    is_alive = np.ones(len(rows), bool)
    if file.deletion_vector is not None:
        is_alive[np.asarray(deletion_vectors.read(path, file.deletion_vector).to_array(), np.int64)] = False
    is_alive[np.fromiter(dead, np.int64)] = False
    all_rows: list[dict[str, Any]] = rows.filter(pa.array(is_alive)).to_pylist()
    return all_rows


def rows_of(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [row for file in snapshot.files for row in alive(snapshot.path, file, snapshot.schema)]


def key_of(row: Mapping[str, Any], key: Sequence[str]) -> Key:
    """The key of a row as ``Row`` has it."""
    exact = dict(row["_raw"] or ())
    return tuple(exact.get(name, row[name]) for name in key)
