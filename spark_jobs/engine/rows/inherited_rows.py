"""Inherited rows in a task: by a rename, from the table itself where its key changed, or from a load.

Put here: rows of the log and of data files brought into one form, and what is there of them in the end. Not here: where
they lie (engine/silver/inherited_plan.py), decoding or writing them (engine/silver/silver_task.py).

The parts of what a table held (its silver, and windows of log after that) are projected to its last columns, sent to
the bucket of their keys, and reduced there. A change of the key comes after that, row by row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema, from_spark_types
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.rows.row_projection import RowProjection
from spark_jobs.errors import TableStopped
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.keyless_rows import sorted_by_bounded_column, summed_copies
from spark_jobs.silver.net_changes import by_position, exact_texts, identity_columns, sorted_by_key
from spark_jobs.silver.positions import LOADED_ROW, last_rows_by_key, since_emptied
from spark_jobs.silver.row_overlay import ABSENT, KeyRuns, overlaid

_GONE = "_gone"
_ADDED_COLUMNS = ("_position", "_committed_at", "_raw", _GONE)


@dataclass(frozen=True, slots=True)
class InheritedRows:
    """Rows that a statement or a load brings, with these columns, as of its position.

    columns: those that the parts are projected to, with the key that they are reduced by. rekeyed: where the statement
    changed the key, from those columns to the ones after it. lacks_older: whether copies may be deleted of rows that
    are older than the log. is_loaded: whether a load read them; they are older than all changes at the position.
    """

    columns: silver.Columns
    start: Position
    rekeyed: RowProjection | None = None
    lacks_older: bool = False
    is_loaded: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows of all parts."""
        types = {name: silver.ADDED[name] for name in ("_position", "_committed_at", "_raw")}
        types |= {_GONE: "BOOLEAN"} | {name: kind for name, kind in self.columns.added.items() if name not in types}
        names = [*self.columns.types, *_ADDED_COLUMNS, *self._optional]
        schema = from_spark_types(self.columns.types | types, column_mapping=False).arrow(physical=False)
        return pa.schema([schema.field(name) for name in names])

    def valued(self, values: Mapping[str, pa.Scalar]) -> "InheritedRows":
        """Inherited rows with these values, as ``fills.values_by_expression`` gives them."""
        return replace(self, rekeyed=self.rekeyed and self.rekeyed.valued(values))

    @property
    def _optional(self) -> list[str]:
        return [silver.COPIES] * self.columns.is_keyless + [*silver.LACKING] * self.columns.has_partial


@dataclass(frozen=True, slots=True)
class InheritedFiles:
    """Data files whose rows a statement brings, of silver, or a load, as they wait.

    window: of the unit, the one that they go to. emptied: rows before it do not count. result_of: the window whose
    results the files are, which are written by an earlier job.
    """

    window: int
    path: str
    schema: TableSchema
    projection: RowProjection
    files: tuple[DataFile, ...] = ()
    emptied: Position | None = None
    result_of: int | None = None

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def part_from_log(rows: pa.Table, projection: RowProjection, into: InheritedRows) -> pa.Table:
    """Reduced rows of a window as a part. rows: as ``net_changes.first_and_last_rows`` gives them, or counted ones."""
    is_gone = pc.invert(rows.column("_exists")) if "_exists" in rows.column_names else pa.repeat(False, len(rows))
    return _projected_rows(rows.append_column(_GONE, is_gone), projection, into)


def parts_from_files(source: InheritedFiles, into: InheritedRows) -> Iterator[pa.Table]:
    """The rows of data files as parts, a row group at a time. Raises LakeError."""
    for file in source.files:
        for _, living, rows in row_groups(source.path, source.schema, file):
            if into.is_loaded:
                yield _projected_rows(_as_copies(rows, into).filter(pa.array(living)), source.projection, into)
                continue
            is_counted = pc.and_(counted_mask(rows, source.emptied), pa.array(living))
            is_gone = silver.is_delete(rows.column("_op"))
            yield _projected_rows(rows.append_column(_GONE, is_gone).filter(is_counted), source.projection, into)


def row_groups(
    path: str, schema: TableSchema, file: DataFile, names: Sequence[str] | None = None
) -> Iterator[tuple[int, NDArray[np.bool_], pa.Table]]:
    """A file by its row groups: the first row's number, which rows are alive, and all. Raises LakeError.

    names: of the columns to read; all by default.
    """
    begin = 0
    with data_files.reading(path, file):
        opened = data_files.open_file(path, file)
        living = deletion_vectors.living_rows_mask(path, file.deletion_vector, opened.metadata.num_rows)
        for group in range(opened.num_row_groups):
            rows = data_files.read_row_group(opened, group, names or schema.names, schema)
            yield begin, living[begin : begin + len(rows)], rows
            begin += len(rows)


def _as_copies(rows: pa.Table, into: InheritedRows) -> pa.Table:
    """Rows that a load read, each of which is one copy."""
    position = dict(zip(("stretch", "number", "offset"), into.start.order, strict=True)) | {"row": LOADED_ROW}
    cells = {
        "_position": pa.scalar(position, into.schema.field("_position").type),
        silver.COPIES: pa.scalar(1, pa.int64()),
        _GONE: pa.scalar(False),
    }
    for name, cell in cells.items():
        rows = rows.append_column(name, pa.repeat(cell, len(rows)))
    return rows


def counted_mask(rows: pa.Table, emptied: Position | None) -> pa.Array:
    """Mask of the rows of silver that count: those of no statement, and not before one that emptied the table."""
    is_row = pc.not_equal(rows.column("_op"), silver.Op.TRUNCATE)
    if emptied is None:
        return is_row.combine_chunks()
    return pc.and_(is_row, since_emptied(rows.column("_position"), emptied)).combine_chunks()


def _projected_rows(rows: pa.Table, projection: RowProjection, into: InheritedRows) -> pa.Table:
    projected, schema = projection.apply(rows), into.schema
    cells = [
        projected.column(item.name) if item.name in projected.column_names else pa.nulls(len(rows), item.type)
        for item in schema
    ]
    return pa.table([cell.cast(item.type) for cell, item in zip(cells, schema, strict=True)], schema)


def inherited(rows: pa.Table, into: InheritedRows, after: silver.Columns) -> pa.Table:
    """The rows of some keys that exist after all parts, with the columns after the statement.

    rows: with the columns of ``InheritedRows.schema``. after: the columns of silver. Raises TableStopped.
    """
    present = (_present_copies if into.columns.is_keyless else _present)(rows, into)
    if into.rekeyed is not None:
        present = into.rekeyed.apply(_single(present, into) if into.columns.is_keyless else present)
    if after.is_keyless:
        if silver.COPIES not in present.column_names:
            present = present.append_column(silver.COPIES, pa.repeat(pa.scalar(1, pa.int64()), len(present)))
        return sorted_by_bounded_column(present, list(after.types))
    if into.rekeyed is not None:
        _require_key(present, into, after.key)
    return sorted_by_key(present, after.key)


def _present(rows: pa.Table, into: InheritedRows) -> pa.Table:
    """The last row of each key, or all rows of it laid over each other, where the key is not gone."""
    key = into.columns.key
    if not into.columns.has_partial:
        last = last_rows_by_key(by_position(rows), key)
        return last.filter(pc.invert(last.column(_GONE)))
    runs = KeyRuns.of(rows, key, rows.column(_GONE))
    overlaid_rows, _ = overlaid(rows, runs, list(into.columns.types))
    overlaid_rows = overlaid_rows.filter(pc.invert(overlaid_rows.column(_GONE)))
    if overlaid_rows.column(ABSENT).null_count < len(overlaid_rows):
        raise TableStopped(
            "it was renamed, or its key changed, and its row images left columns out of rows that the log never held "
            "whole; load it first"
        )
    return overlaid_rows.drop_columns([*silver.LACKING])


def _present_copies(rows: pa.Table, into: InheritedRows) -> pa.Table:
    """A row for each distinct one of which there are copies."""
    all_rows = summed_copies(rows, list(into.columns.types))
    copies = all_rows.column(silver.COPIES)
    if not into.lacks_older and pc.any(pc.less(copies, 0)).as_py():
        raise TableStopped(silver.MORE_DELETED)
    return all_rows.filter(pc.greater(copies, 0))


def _single(rows: pa.Table, into: InheritedRows) -> pa.Table:
    """Rows that get a key, without their numbers of copies. Raises TableStopped where two would be one."""
    if pc.any(pc.not_equal(rows.column(silver.COPIES), 1)).as_py():
        raise TableStopped(
            f"its rows are counted, and get a key at {into.start}, by which two would be one; what the lake has of it "
            "is not what the server had (stratalog verify)"
        )
    return rows.drop_columns([silver.COPIES])


def _require_key(rows: pa.Table, into: InheritedRows, key: Sequence[str]) -> None:
    """Check that a new key tells the rows of a bucket apart, each by a value. Raises TableStopped."""
    raw = rows.column("_raw").combine_chunks()
    for name in key:
        if pc.any(pc.and_(pc.is_null(rows.column(name)), pc.is_null(exact_texts(raw, [name])))).as_py():
            raise TableStopped(
                f"it gets a key at {into.start}, and rows have NULL in column {name} of it; what the lake has of it is "
                "not what the server had (stratalog verify)"
            )
    columns = {f"\0{at}": column for at, column in enumerate(identity_columns(rows, key))}
    if len(pa.table(columns).group_by([*columns], use_threads=False).aggregate([])) < len(rows):
        raise TableStopped(
            f"it gets a key at {into.start}, by which two rows would be one; what the lake has of it is not what the "
            "server had (stratalog verify)"
        )


def stored_cells(
    rows: pa.Table, columns: silver.Columns, positions: Sequence[pa.Scalar], op: silver.Op
) -> dict[str, pa.Array]:
    """Cells of such rows in silver besides their own columns.

    positions: ``_position``, and where the window of the statement, or the load, begins and ends.
    """
    count = len(rows)
    existed = pa.nulls(count, pa.bool_()) if columns.is_keyless else pa.repeat(pa.scalar(False), count)
    names = ("_position", "_window_start", "_window_stop")
    cells = {name: pa.repeat(position, count) for name, position in zip(names, positions, strict=True)}
    return cells | {"_op": pa.repeat(pa.scalar(str(op)), count), "_existed": existed}
