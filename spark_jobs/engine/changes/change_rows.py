"""Rows of every change in a part of a unit, with the target's columns.

Put here: decoding windows and projecting their rows, and the rows of silver that no change in the log says. Not here:
decoding itself (silver/decode_task.py), or what becomes of the rows (change_task.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.bronze.table import committed_before
from spark_jobs.delta import data_files
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.changes.change_extent import has_operation
from spark_jobs.engine.changes.change_units import ChangeUnit, ChangeWindow
from spark_jobs.engine.changes.row_completion import KEY_NUMBER
from spark_jobs.engine.rows.exact_texts import with_text_changes
from spark_jobs.engine.rows.fills import with_fills
from spark_jobs.engine.rows.loaded_rows import rows_of_loads
from spark_jobs.engine.silver.silver_task import OpenSlices
from spark_jobs.lake.table import Table
from spark_jobs.silver import table as silver
from spark_jobs.silver.decode_task import WindowLog, WindowRules, changes_task, noting_files
from spark_jobs.silver.moved_from_codec import TEXTS
from spark_jobs.silver.partial_images import ABSENT as ABSENT_TYPE
from spark_jobs.silver.positions import FIELDS
from spark_jobs.silver.row_overlay import with_names
from spark_jobs.silver.slice_runs import gathered

_OF_CHANGES = ("_op", "_gtid", "_position", "_committed_at", "_raw")
"""Columns of decoded changes besides the source's."""
IS_CHANGE = "\0change"
"""Column of rows that may lack columns: true for a change by itself, false for the delete of a key that an update
left."""
_OPERATIONS = pa.array([str(kind) for kind in (silver.Op.TRUNCATE, silver.Op.RENAME, *silver.FROM_SERVER)])
PositionCells = tuple[int, ...]
"""Stretch, number and offset of a position."""


def fields_of(unit: ChangeUnit) -> pa.Schema:
    """The target's columns that changes have."""
    names = {*unit.columns.types, *_OF_CHANGES}
    return pa.schema([unit.schema.column(name).arrow(physical=False) for name in unit.stored if name in names])


_OF_LACKING = [
    pa.field(silver.ABSENT, ABSENT_TYPE),
    pa.field(silver.MOVED_FROM, TEXTS),
    pa.field(KEY_NUMBER, pa.int32()),
    pa.field(IS_CHANGE, pa.bool_()),
]


def change_fields_of(unit: ChangeUnit) -> pa.Schema:
    """The columns of changes until they are completed: those of the target; where rows may lack some, what says so."""
    fields = fields_of(unit)
    if unit.earlier is None:
        return fields
    return pa.schema([*fields, *_OF_LACKING])


def logged_changes(unit: ChangeUnit, slices: Mapping[int, pa.Table], opened: OpenSlices) -> pa.Table:
    """Every change of a unit's slices, by window. Raises TableStopped, DecodeError, LakeError."""
    fields = change_fields_of(unit)
    parts = [fields.empty_table()]
    for number, window in enumerate(unit.windows):
        of_window = slices.get(number)
        if of_window is not None:
            parts += (rows.select(fields.names) for rows in _window_changes(unit, window, of_window, opened))
    return pa.concat_tables(parts)


def _window_changes(unit: ChangeUnit, window: ChangeWindow, slices: pa.Table, opened: OpenSlices) -> Iterator[pa.Table]:
    """The changes of a window, with the columns that the target has now."""
    # Every change of the windows as the log has it, by the rules about them, and then as later statements left it.
    loads = rows_of_loads(window.loads, silver.columns(window.definition).key, window.masks)
    log = WindowLog(window.ranges, window.earlier, unit.skips, loads)
    rules = WindowRules.of(window.definition, log, window.filters, window.masks, is_alone=not unit.buckets)
    columns = rules.columns_of(window.definition, has_partial=unit.columns.has_partial)
    task = changes_task(window.definition, columns, splits=unit.is_by_key, scans=opened.scans, rules=rules)
    files: dict[tuple[int, int], str] = {}
    batches = list(task(noting_files(gathered(opened.runs(slices), unit.skips), files)))
    if not batches:
        return
    rows = pa.Table.from_batches(batches)
    rows = window.masks.apply(rows, files) if window.masks else rows
    projected = with_text_changes(with_fills(_projected(rows, window.schema, unit.schema), window.fills), window.exact)
    yield projected if unit.earlier is None else _with_absent(projected, rows, unit, window)


def _projected(rows: pa.Table, schema: TableSchema, target: TableSchema) -> pa.Table:
    """Rows with a table's columns, of rows with those that it had: by physical names, as a reader of its files does."""
    names = {column.physical_name: column.name for column in schema.columns}
    fields, arrays = [], []
    for column in target.columns:
        to = column.arrow(physical=False)
        name = names.get(column.physical_name)
        cells = rows.column(name) if name in rows.column_names else pa.chunked_array([pa.nulls(len(rows), to.type)])
        fields.append(to)
        arrays.append(cells if cells.type == to.type else cells.cast(to.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _with_absent(projected: pa.Table, rows: pa.Table, unit: ChangeUnit, window: ChangeWindow) -> pa.Table:
    """Projected rows with what the rows that they were made of lack, by the names that the columns have now."""
    names_now = {column.physical_name: column.name for column in unit.schema.columns}
    names = {column.name: names_now.get(column.physical_name) for column in window.schema.columns}
    lacking = with_names(rows.select([silver.ABSENT]), names).column(silver.ABSENT)
    key_number = unit.keys.index(window.key_in(unit.schema))
    of_rows = lacking, rows.column(silver.MOVED_FROM)
    return _with_lacking(projected, of_rows, key_number, pc.greater(rows.column("_changes"), 0))


def _as_changes(rows: pa.Table) -> pa.Table:
    """Rows of silver that may lack columns as ``logged`` has changes."""
    of_rows = rows.column(silver.ABSENT), pa.nulls(len(rows), TEXTS)  # none of them came from another key
    return _with_lacking(rows.drop_columns([silver.ABSENT]), of_rows, None, pa.scalar(True))


def _with_lacking(
    rows: pa.Table,
    lacking: tuple[pa.ChunkedArray, pa.ChunkedArray | pa.Array],
    key_number: int | None,
    is_change: pa.ChunkedArray | pa.Scalar,
) -> pa.Table:
    """Rows with what says what they lack. lacking: the absent columns, and the keys that rows had before."""
    if isinstance(is_change, pa.Scalar):
        is_change = pa.repeat(is_change, len(rows))
    numbers = pa.repeat(pa.scalar(key_number, pa.int32()), len(rows))
    absent, moved_from = lacking
    cells_of = (absent.cast(ABSENT_TYPE), moved_from.cast(TEXTS), numbers, is_change)
    for field, cells in zip(_OF_LACKING, cells_of, strict=True):
        rows = rows.append_column(field, cells)
    return rows


def silver_rows(unit: ChangeUnit, files: Iterable[DataFile], bronze: Table, version: int) -> pa.Table:
    """The rows of silver that no change in the log says: of statements, and those that were read from the server.

    Where rows depend on others of their keys, statements besides that emptied the table at any time, as
    ``new_statements`` tells. Raises LakeError.
    """
    fields = change_fields_of(unit)
    names = [name for name in fields.names if name not in ("_gtid", silver.MOVED_FROM, KEY_NUMBER, IS_CHANGE)]
    copies = [silver.COPIES] if unit.columns.is_keyless else []
    parts = [fields.empty_table()]
    times: dict[PositionCells, datetime] | None = None
    for file in files:
        # Few files have such a row: the other columns are read of those.
        if not _is_taken(unit, _living(unit, file, ["_op", "_window_start"])).true_count:
            continue
        rows = _living(unit, file, [*names, "_window_start", *copies])
        rows = rows.filter(_is_taken(unit, rows))
        if copies:
            counts = pc.fill_null(rows.column(silver.COPIES), 1).combine_chunks().to_pylist()
            rows = rows.take(pa.array([at for at, count in enumerate(counts) for _ in range(count)], pa.int64()))
        # Rows that came with a name are of the time of its statement, loaded ones of the last transaction before.
        times = _statement_times(unit) if times is None else times
        rows = _dated(unit, rows, times, (bronze, version))
        rows = rows if unit.earlier is None else _as_changes(rows)
        parts.append(rows.select(fields.names))
    return pa.concat_tables(parts)


def _is_taken(unit: ChangeUnit, rows: pa.Table) -> pa.BooleanArray:
    """Mask of the rows of silver that a merge takes, or ends versions by. rows: ``_op`` and ``_window_start``."""
    is_taken = unit.extent.silver_mask(rows)
    if unit.is_by_key:
        is_taken = pc.or_(is_taken, pc.equal(rows.column("_op"), silver.Op.TRUNCATE))
    return is_taken.combine_chunks() if isinstance(is_taken, pa.ChunkedArray) else is_taken


def _living(unit: ChangeUnit, file: DataFile, names: Sequence[str]) -> pa.Table:
    """The rows of a file of silver that are there."""
    assert unit.origin_schema is not None
    return data_files.read_living(unit.origin, file, names, unit.origin_schema)


def _dated(
    unit: ChangeUnit, rows: pa.Table, times: Mapping[PositionCells, datetime], log: tuple[Table, int]
) -> pa.Table:
    """Rows with ``_gtid``, and the times at which they came. log: bronze and its version."""
    op, start = rows.column("_op"), rows.column("_window_start")
    cells = [pc.struct_field(start, name).to_numpy() for name in FIELDS[:3]]
    positions, numbers = np.unique(
        np.stack([*cells, pc.index_in(op, _OPERATIONS).to_numpy()]), axis=1, return_inverse=True
    )
    # Few places have many rows: each is looked up once.
    commit_times, gtids, is_dated = list[datetime | None](), list[str | None](), list[bool]()
    for *position_cells, kind in positions.T.tolist():
        position, operation = tuple(position_cells), _OPERATIONS[kind].as_py()
        is_loaded = operation == silver.Op.LOAD
        commit_times.append(committed_before(*log, position) if is_loaded else times.get(position))
        is_dated.append(is_loaded or (operation == silver.Op.RENAME and position in times))
        gtids.append(unit.statement_gtids.get(position) if operation == silver.Op.TRUNCATE else None)
    at, committed = pa.array(numbers.reshape(-1)), rows.column("_committed_at")
    positions_and_times = pa.array(commit_times, committed.type).take(at)
    dated = pc.if_else(pa.array(is_dated).take(at), positions_and_times, committed.combine_chunks())
    rows = rows.set_column(rows.schema.get_field_index("_committed_at"), "_committed_at", dated)
    return rows.append_column("_gtid", pa.array(gtids, pa.string()).take(at))


def _statement_times(unit: ChangeUnit) -> dict[PositionCells, datetime]:
    """Times when statements emptied the table, by their positions."""
    times: dict[PositionCells, datetime] = {}
    for file in unit.statements:
        assert unit.origin_schema is not None
        if has_operation(file, unit.origin_schema, silver.Op.TRUNCATE):
            rows = _living(unit, file, ["_op", "_window_start", "_committed_at"])
            for row in rows.filter(pc.equal(rows.column("_op"), silver.Op.TRUNCATE)).to_pylist():
                if row["_committed_at"]:
                    times[tuple(row["_window_start"].values())[:3]] = row["_committed_at"]
    return times


def new_statements(unit: ChangeUnit, rows: pa.Table) -> pa.Array:
    """Mask of the rows of statements that emptied the table which the merge takes; others end versions alone."""
    return unit.extent.silver_mask(rows.append_column("_window_start", rows.column("_position")))
