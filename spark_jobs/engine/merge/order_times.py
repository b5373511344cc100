"""Order times of changes, as tasks of the engine read them.

Put here: the order time of rows of silver, by the late transactions of their source. Not here: finding these
(downstream/commit_clock.py), or what is merged by it (shared_merge.py).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile, Snapshot
from spark_jobs.log.position import Position
from spark_jobs.silver.positions import FIELDS

Micros = NDArray[np.int64]
_POSITION_COLUMNS = ("stretch", "number", "start")
_SPAN = (*_POSITION_COLUMNS, "stop", "order_at")


@dataclass(frozen=True, slots=True)
class OrderTimes:
    """A source's late transactions, and from where on its order times are known.

    path, schema: of their table. files: none where no transaction can be late.
    """

    path: str
    schema: TableSchema
    files: tuple[DataFile, ...]
    begin: Position

    @classmethod
    def at(cls, snapshot: Snapshot, begin: Position, *, has_late: bool) -> "OrderTimes":
        """The order times of a version of a source's table of late transactions."""
        return cls(snapshot.path, snapshot.schema, snapshot.files if has_late else (), begin)

    def of(self, rows: pa.Table) -> Micros:
        """The order times of rows with _position and _committed_at, in microseconds since 1970. Raises LakeError."""
        committed: Micros = rows.column("_committed_at").cast(pa.int64()).to_numpy()
        spans = self._spans()
        if not len(spans) or not len(rows):
            return committed
        # Spans and positions in the order of the log: before each position stands the span that it may lie in.
        positions = positions_of(rows)
        starts, ends = (
            np.stack([spans.column(name).to_numpy() for name in names]) for names in (_POSITION_COLUMNS, _SPAN[3:])
        )
        log_positions = np.concatenate([starts, positions[:3]], axis=1)
        is_row = np.concatenate([np.zeros(len(spans), np.bool_), np.ones(len(rows), np.bool_)])
        order = np.lexsort((is_row, *log_positions[::-1]))
        before = np.empty(len(order), np.int64)
        before[order] = np.maximum.accumulate(np.where(order < len(spans), order, -1))
        span = before[len(spans) :]
        is_late = (span >= 0) & (starts[:2, span] == positions[:2]).all(axis=0) & (positions[2] < ends[0, span])
        return np.where(is_late, np.maximum(committed, ends[1, span]), committed)

    def _spans(self) -> pa.Table:
        """Late transactions in the order of the log; times in microseconds."""
        names = list(_SPAN)
        tables = [data_files.read_columns(self.path, file, names, self.schema) for file in self.files]
        if not tables:
            return pa.table({name: pa.array([], pa.int64()) for name in names})
        rows = pa.concat_tables(tables).sort_by([(name, "ascending") for name in _POSITION_COLUMNS])
        return pa.table({name: rows.column(name).cast(pa.int64()) for name in names})


def positions_of(rows: pa.Table) -> Micros:
    """The fields of ``_position`` of each row, in the order of their weight: an array a field."""
    column = rows.column("_position")
    return np.stack([pc.struct_field(column, name).cast(pa.int64()).to_numpy() for name in FIELDS])
