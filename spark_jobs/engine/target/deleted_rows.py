"""Deleted rows that stay (``mode: soft_delete``): their columns, and statements that delete all rows at once.

Put here: marks of deletes, and rows before a statement that emptied the table as rows that it deleted. Not here: which
keys were deleted (engine/merge/downstream_task.py), or files written again for it (target_files.py).

A row has the values that its key had last, and says whether it was deleted, and when. TRUNCATE, and DROP with
``on_drop: drop``, delete the rows that are there, as deleting them one by one would: silver has a row of each such
statement. A key that is inserted again counts as deleted no more. Of equal rows without a key one stays when the last
copy was deleted (engine/merge/keyless_merge.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.config.modes import Mode
from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.downstream.merge_job import MergeJob
from spark_jobs.downstream.modes import MODE_COLUMNS
from spark_jobs.errors import TableStopped
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import by_position
from spark_jobs.silver.positions import FIELDS, PositionKey, bounds_of
from spark_jobs.silver.row_overlay import PERIOD

_NAMES = ["_op", "_position", "_committed_at"]


def with_deletion_state(rows: pa.Table) -> pa.Table:
    """Rows of silver with what a table in which deleted rows stay says of them now."""
    rows = rows.drop_columns([name for name in MODE_COLUMNS[Mode.SOFT_DELETE] if name in rows.column_names])
    return with_state(rows, silver.is_delete(rows.column("_op")))


def with_state(rows: pa.Table, is_deleted: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows with whether each is deleted, and when it was."""
    committed = rows.column("_committed_at")
    deleted_at = pc.if_else(is_deleted, committed, pa.scalar(None, committed.type))
    return rows.append_column("_deleted", is_deleted).append_column("_deleted_at", deleted_at)


def require_unfolded(work: MergeJob) -> None:
    """Check that silver still has its deletes, which folding removes. Raises TableStopped."""
    floor = silver.fold_floor(work.pinned)
    if floor:
        raise TableStopped(
            f"silver's windows before {floor} are folded into one, without the rows that were deleted (mode: "
            f"{work.mode}); restore the earlier log (stratalog extract --source {work.source} --archive DIR) "
            f"and rebuild it (stratalog reset --source {work.source} --table {work.name}), or set mode: mirror"
        )


@dataclass(frozen=True, slots=True)
class Truncations:
    """Statements that emptied a table, in the log's order: position and time of each. None: rows of it stay alive."""

    rows: pa.Table | None = None
    positions: tuple[NDArray[np.int64], ...] = field(default=())
    """The fields of each one's position."""

    @classmethod
    def read(cls, path: str, files: Sequence[DataFile], schema: TableSchema) -> "Truncations":
        """The statements that emptied a table, from files of silver. path: the silver table's. Raises LakeError."""
        parts: list[pa.Table] = []
        for file in files:
            rows = data_files.read_columns(path, file, _NAMES, schema)
            is_statement = pc.equal(rows.column("_op"), silver.Op.TRUNCATE)
            if file.deletion_vector is not None:
                is_alive = deletion_vectors.living_rows_mask(path, file.deletion_vector, len(rows))
                is_statement = pc.and_(is_statement, pa.array(is_alive))
            parts.append(rows.filter(is_statement))
        statements = pa.concat_tables(parts) if parts else None
        if not statements:
            return cls()
        ordered = by_position(statements)
        return cls(ordered, _position_columns(ordered))

    @property
    def orders(self) -> list[PositionKey]:
        """The positions in the log."""
        return [tuple(map(int, cells)) for cells in zip(*self.positions[:3], strict=True)]

    def may_delete(self, file: DataFile, schema: TableSchema) -> bool:
        """True if a file of the target may have rows from before the last of them."""
        if not self.rows:
            return False
        lowest, _ = bounds_of(file, schema, "_position")
        return lowest is None or lowest <= tuple(int(cells[-1]) for cells in self.positions[:3])

    def ended(self, rows: pa.Table) -> pa.Table:
        """Rows of silver with their PERIOD, so that no later row is laid over one before a statement.

        Those before a statement have its ``_op``. They stay where they are in the order of the log.
        """
        if not self.rows:
            return rows
        periods = self._first_after(rows)
        rows = rows.append_column(PERIOD, pa.array(periods))
        is_ended = pa.array(periods < len(self.rows))
        is_ended = pc.and_not(is_ended, silver.is_delete(rows.column("_op")))
        operations = pc.if_else(is_ended, pa.scalar(str(silver.Op.TRUNCATE)), rows.column("_op"))
        return rows.set_column(rows.schema.get_field_index("_op"), "_op", operations)

    def deleted(self, rows: pa.Table) -> pa.Table:
        """Rows of silver, one a key, of which those before a statement are deletes by it."""
        is_alive = pc.invert(silver.is_delete(rows.column("_op")))
        return self._with_first(rows, is_alive, {"_op": pa.scalar(str(silver.Op.DELETE))})

    def in_last_segment(self, rows: pa.Table, groups: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the rows after the last statement that has earlier rows of their group before it.

        groups: a number for each row.
        """
        if not self.rows or not len(rows):
            return np.ones(len(rows), np.bool_)
        segments = self._first_after(rows)
        last = np.zeros(groups.max() + 1, np.int64)
        np.maximum.at(last, groups, segments)
        is_last: NDArray[np.bool_] = segments == last[groups]
        return is_last

    def emptied(self, rows: pa.Table, copies: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
        """Distinct rows and their copies, of which those before a statement have none, and the place of it.

        Rows that had no copies before it stay where they are.
        """
        if not self.rows or not len(rows):
            return rows, copies
        is_ended = self._first_after(rows) < len(self.rows)
        return self._with_first(rows, pa.chunked_array([pa.array(copies > 0)]), {}), np.where(is_ended, 0, copies)

    def with_deletions(self, rows: pa.Table) -> pa.Table:
        """Rows of the target, of which those before a statement are marked as deleted by it."""
        is_alive = pc.invert(rows.column("_deleted"))
        changed = self._with_first(rows, is_alive, {"_deleted": pa.scalar(True)})
        deleted_at = pc.if_else(changed.column("_deleted"), changed.column("_committed_at"), None)
        return changed.set_column(changed.schema.get_field_index("_deleted_at"), "_deleted_at", deleted_at)

    def _with_first(self, rows: pa.Table, is_alive: pa.ChunkedArray, cells: dict[str, pa.Scalar]) -> pa.Table:
        """Living rows with the position and time of the first statement after them, and with cells."""
        if not self.rows or not len(rows):
            return rows
        first = self._first_after(rows)
        has_position = pc.and_(is_alive, pc.is_valid(rows.column("_position")))
        is_deleted = np.asarray(pc.fill_null(has_position, False).to_numpy(), np.bool_) & (first < len(self.rows))
        statements = self.rows.take(pa.array(np.where(is_deleted, first, 0)))
        flags = pa.chunked_array([pa.array(is_deleted)])
        for name in ("_position", "_committed_at"):
            values = _chosen_values(is_deleted, statements.column(name), rows.column(name))
            rows = rows.set_column(rows.schema.get_field_index(name), name, values)
        for name, value in cells.items():
            values = pc.if_else(flags, value, rows.column(name))
            rows = rows.set_column(rows.schema.get_field_index(name), name, values)
        return rows

    def _first_after(self, rows: pa.Table) -> NDArray[np.int64]:
        """The number of the first statement after each row; their count where none is."""
        row_positions = _position_columns(rows)
        low, high = np.zeros(len(rows), np.int64), np.full(len(rows), len(self.positions[0]), np.int64)
        while (is_open := low < high).any():
            middle = (low + high) // 2
            statement_positions = tuple(cells[np.minimum(middle, len(cells) - 1)] for cells in self.positions)
            # From the last field to the first, so that the first field that differs decides.
            is_before = np.zeros(len(rows), np.bool_)
            for row_cells, cells in zip(reversed(row_positions), reversed(statement_positions), strict=True):
                is_before = np.where(row_cells == cells, is_before, row_cells < cells)
            high = np.where(is_open & is_before, middle, high)
            low = np.where(is_open & ~is_before, middle + 1, low)
        return low


def _position_columns(rows: pa.Table) -> tuple[NDArray[np.int64], ...]:
    positions = rows.column("_position").combine_chunks()
    fields = (pc.fill_null(positions.field(name), 0) for name in FIELDS)
    return tuple(np.asarray(cells.to_numpy(zero_copy_only=False), np.int64) for cells in fields)


def _chosen_values(is_first: NDArray[np.bool_], first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Row by row the first value or the second one, of any type."""
    values = pa.chunked_array([*first.chunks, *second.cast(first.type).chunks], first.type)
    rows = np.arange(len(first))
    return values.take(pa.array(np.where(is_first, rows, rows + len(first))))
