"""Rows of silver that a load read, from which rules get columns of rows that are older than the log.

Put here: the files that have them, and the rows of some keys. Not here: which changes they tell of
(silver/rule_rows.py), or which load it is (earlier_log.py).

They have what the load put into silver: no row that a rule filtered, and of masked and excluded columns nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.engine.rows.locate import Keys, hits
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.column_masks import ColumnMasks
from spark_jobs.silver.positions import FIELDS, bounds_of
from spark_jobs.silver.row_overlay import RAW
from spark_jobs.silver.rule_rows import RowsOfLoad


def rows_of_loads(
    loads: Sequence["LoadedFiles"], key: Sequence[str], masks: ColumnMasks | None
) -> tuple[RowsOfLoad, ...]:
    """The rows of loads; none where they cannot be found by the key, since it is masked."""
    hidden = masks.excluded | masks.masks.keys() if masks else frozenset[str]()
    return () if hidden & {*key} else tuple(files.rows(key, hidden) for files in loads)


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """Files of silver with the rows of a load. since, until: as in RowsOfLoad."""

    path: str
    schema: TableSchema
    files: tuple[DataFile, ...]
    since: Position
    until: Position

    @classmethod
    def of(cls, snapshot: Snapshot, since: Position, until: Position) -> Self:
        """The files of silver that may have rows which count from a position."""
        files = tuple(file for file in snapshot.files if _may_have(file, snapshot.schema, since))
        return cls(snapshot.path, snapshot.schema, files, since, until)

    def rows(self, key: Sequence[str], hidden: Collection[str]) -> RowsOfLoad:
        """The files' rows, found by a key. hidden: columns of which they do not have the server's value."""
        names = frozenset(self.schema.names) - silver.ADDED.keys() - {*hidden}

        def read(wanted: pa.Table, asked: Sequence[str]) -> tuple[NDArray[np.int64], pa.Table]:
            return self._rows_of_keys(wanted, key, asked)

        return RowsOfLoad(self.since, self.until, names, read)

    def _rows_of_keys(
        self, wanted: pa.Table, key: Sequence[str], names: Sequence[str]
    ) -> tuple[NDArray[np.int64], pa.Table]:
        """The rows of wanted keys, and which of them each has. Raises LakeError."""
        fields = [self.schema.column(name).arrow(physical=False) for name in (*key, RAW)]
        keys = Keys(wanted.cast(pa.schema(fields)), key)
        columns = [*names, RAW, "_op", "_position"]
        numbers = [np.zeros(0, np.int64)]
        rows = [pa.schema([self.schema.column(name).arrow(physical=False) for name in columns]).empty_table()]
        for hit in hits(self.path, self.files, self.schema, keys):
            found = data_files.read_rows(self.path, hit.file, hit.rows, columns, self.schema)
            is_loaded = np.asarray(pc.fill_null(_is_loaded(found, self.since), False), np.bool_)
            numbers.append(hit.keys[is_loaded])
            rows.append(found.filter(pa.array(is_loaded)))
        return np.concatenate(numbers), pa.concat_tables(rows).select([*names, RAW])


def _may_have(file: DataFile, schema: TableSchema, since: Position) -> bool:
    """True if a file may have rows that count from a position, where the window that they are in begins and ends."""
    lowest, highest = bounds_of(file, schema, "_window_start")
    return (lowest is None or lowest <= since.order) and (highest is None or since.order <= highest)


def _is_loaded(rows: pa.Table, since: Position) -> Any:
    is_loaded, position = pc.equal(rows.column("_op"), silver.Op.LOAD), rows.column("_position")
    for name, number in zip(FIELDS, since.order, strict=False):
        is_loaded = pc.and_(is_loaded, pc.equal(pc.struct_field(position, name), number))
    return is_loaded
