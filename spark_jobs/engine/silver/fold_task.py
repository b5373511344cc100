"""Task of folding old rows of a silver table into one window: a row per key, or an image with its copies.

Put here: what old rows there are, their way to buckets, and what is left of a bucket. Not here: which tables are folded
and when (operations/retention/fold_windows.py), or the job and the commit (fold_job.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from spark_jobs.delta import data_files, deletion_vectors
from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.jobs import shuffle_blocks
from spark_jobs.engine.jobs.spark_job import ShuffleBlock
from spark_jobs.engine.rows import moved_lookup
from spark_jobs.engine.rows.inherited_rows import counted_mask, row_groups
from spark_jobs.engine.rows.locate import Keys
from spark_jobs.engine.rows.restatement import SilverSource, StatementEffects, living_rows
from spark_jobs.engine.silver.replay_task import FailedReplay, ReplacedRows
from spark_jobs.errors import StratalogError
from spark_jobs.log.position import Position
from spark_jobs.silver import table as silver
from spark_jobs.silver.keyless_rows import sorted_by_bounded_column, summed_copies
from spark_jobs.silver.net_changes import sorted_by_key
from spark_jobs.silver.positions import FIELDS, PositionKey, at_or_after
from spark_jobs.silver.row_overlay import KeyRuns, overlaid


@dataclass(frozen=True, slots=True)
class OldFiles:
    """Data files of silver, and the position up to which windows may be folded.

    folded_to: up to where they are folded already.
    """

    path: str
    files: tuple[DataFile, ...]
    schema: TableSchema
    oldest: Position
    folded_to: Position | None


@dataclass(frozen=True, slots=True)
class OldRows:
    """Rows of a file in windows that end at a position at the latest.

    windows: where they begin and end. rows: of all of them; folded_rows: of those that an earlier fold left. emptied:
    the last statement that emptied the table.
    """

    windows: frozenset[tuple[PositionKey, PositionKey]]
    rows: int
    folded_rows: int
    emptied: PositionKey | None


@dataclass(frozen=True, slots=True)
class FoldedFiles:
    """Data files whose old rows go to buckets. floor: where the last window ends that is folded.

    emptied: rows before it do not count.
    """

    path: str
    files: tuple[DataFile, ...]
    schema: TableSchema
    columns: silver.Columns
    floor: Position
    emptied: Position | None
    buckets: int
    all_files: tuple[DataFile, ...] = ()
    """All files that have old rows: rows that came from other keys are completed by these."""


@dataclass(frozen=True, slots=True)
class FoldTarget:
    """Target of a fold's rows: the table, and the window that they are of."""

    path: str
    schema: TableSchema
    configuration: Mapping[str, str]
    columns: silver.Columns
    window: tuple[PositionKey, PositionKey]


def measured_windows(task: OldFiles) -> Iterator[OldRows | FailedReplay]:
    """Old windows of files, measured."""
    try:
        for file in task.files:
            yield _measured(task, file)
    except StratalogError as error:
        yield FailedReplay(error)


def _measured(task: OldFiles, file: DataFile) -> OldRows:
    names = ["_op", "_position", "_window_start", "_window_stop"]
    rows = data_files.read_columns(task.path, file, names, task.schema)
    living = deletion_vectors.living_rows_mask(task.path, file.deletion_vector, len(rows))
    old = rows.filter(pa.array(living & _ends_by(rows, task.oldest)))
    # Windows are few, and rows of one lie together.
    cells = [_fields(old, name) for name in ("_window_start", "_window_stop")]
    bounds = np.unique(np.concatenate(cells, axis=1), axis=0).tolist()
    markers = _fields(old.filter(pc.equal(old.column("_op"), silver.Op.TRUNCATE)), "_position").tolist()
    folded_rows = int(_ends_by(old, task.folded_to).sum()) if task.folded_to else 0
    windows = frozenset((tuple(bound[:3]), tuple(bound[3:])) for bound in bounds)
    return OldRows(windows, len(old), folded_rows, max(map(tuple, markers), default=None))


def _fields(rows: pa.Table, name: str) -> NDArray[np.int64]:
    """Positions as rows of three numbers."""
    fields = [pc.struct_field(rows.column(name), field) for field in FIELDS[:3]]
    return np.stack([np.asarray(field, np.int64) for field in fields], axis=1)


def _ends_by(rows: pa.Table, position: Position) -> NDArray[np.bool_]:
    """Mask of the rows of windows that end at a position at the latest."""
    stops = rows.column("_window_stop")
    positions = _fields(rows, "_window_stop")
    is_at = (positions == np.array(position.order, np.int64)).all(axis=1)
    is_before = np.asarray(pc.invert(at_or_after(stops, position)), np.bool_)
    ends: NDArray[np.bool_] = is_before | is_at
    return ends


def work(task: FoldedFiles) -> Iterator[ShuffleBlock | ReplacedRows | FailedReplay]:
    """Send the old rows that count to the buckets of what tells them apart, and say which rows are old."""
    try:
        for file in task.files:
            yield from _old_rows(task, file)
    except StratalogError as error:
        yield FailedReplay(error)


def _old_rows(task: FoldedFiles, file: DataFile) -> Iterator[ShuffleBlock | ReplacedRows]:
    numbers, living_rows = BitMap64(), 0
    for begin, living, rows in row_groups(task.path, task.schema, file):
        is_old = living & _ends_by(rows, task.floor)
        numbers |= BitMap64(begin + np.flatnonzero(is_old))
        living_rows += int(living.sum())
        counted_rows = rows.filter(pc.and_(pa.array(is_old), counted_mask(rows, task.emptied)))
        if task.columns.has_partial and silver.MOVED_FROM in counted_rows.column_names:
            counted_rows = _with_moved(task, counted_rows)
        yield from shuffle_blocks.blocks(0, range(task.buckets), 0, counted_rows, task.columns)
    if numbers:
        yield ReplacedRows(file, numbers.serialize(), len(numbers) == living_rows)


def _with_moved(task: FoldedFiles, rows: pa.Table) -> pa.Table:
    """Old rows, those that came from other keys with what the rows of these tell: they are in no bucket of theirs."""
    origin = SilverSource(task.path, task.schema, task.columns.key)
    emptied = [task.emptied.order] if task.emptied else []

    def read(keys: pa.Table) -> pa.Table:
        wanted, effects = Keys(keys, task.columns.key), StatementEffects(emptied)
        return living_rows(origin, task.all_files, wanted, rows.column_names, None, statements=effects)

    return moved_lookup.complete_moved_rows(rows, task.columns.key, [*task.columns.types], read, emptied=emptied)


def finish(target: FoldTarget) -> Callable[[Iterable[ShuffleBlock]], Iterator[DataFile | FailedReplay]]:
    """The step that folds a bucket, and writes what is left of it."""

    def finish_bucket(blocks: Iterable[ShuffleBlock]) -> Iterator[DataFile | FailedReplay]:
        batches = [shuffle_blocks.rows_of(block)[1] for block in blocks]
        if not batches:
            return
        try:
            rows = rows_of_one_window(pa.Table.from_batches(batches), target.columns, target.window)
            if len(rows):
                yield data_files.write(target.path, rows, target.schema, target.configuration)
        except StratalogError as error:
            yield FailedReplay(error)

    return finish_bucket


def rows_of_one_window(rows: pa.Table, columns: silver.Columns, window: tuple[PositionKey, PositionKey]) -> pa.Table:
    """Rows of silver as those of one window; keys and images of which nothing is left have no row.

    rows: all that count of their keys, with silver's columns.
    """
    remaining = _copies(rows, columns) if columns.is_keyless else _last(rows, columns)
    fields = rows.schema
    for name, position in zip(("_window_start", "_window_stop"), window, strict=True):
        kind = fields.field(name).type
        value = pa.scalar(dict(zip(FIELDS[:3], position, strict=True)), kind)
        remaining = remaining.set_column(fields.get_field_index(name), name, pa.repeat(value, len(remaining)))
    return remaining


def _last(rows: pa.Table, columns: silver.Columns) -> pa.Table:
    """Last row of each key, or all of its rows laid over each other; what a key lacks after all stays absent."""
    is_gone = silver.is_delete(rows.column("_op"))
    runs = KeyRuns.of(rows, columns.key, is_gone)
    first_rows = pa.array(runs.numbers[runs.starts])
    # Whether a key was there before its first row, what was read from the server does not tell.
    existed = pc.fill_null(rows.column("_existed").take(first_rows), False).combine_chunks()
    if columns.has_partial:
        last, _ = overlaid(rows, runs, list(columns.types))
    else:
        last = rows.take(pa.array(runs.numbers[runs.lasts]))
    op = pc.if_else(existed, str(silver.Op.UPDATE), str(silver.Op.INSERT))
    is_present = pc.invert(silver.is_delete(last.column("_op")))
    return sorted_by_key(_with(last, {"_op": op, "_existed": existed}).filter(is_present), columns.key)


def _copies(rows: pa.Table, columns: silver.Columns) -> pa.Table:
    """Number of copies of each image that are left; fewer than none where it was there before the log."""
    names = list(columns.types)
    summed = summed_copies(rows, names)
    summed = summed.filter(pc.not_equal(summed.column(silver.COPIES), 0))
    is_more = pc.greater(summed.column(silver.COPIES), 0)
    op = pc.if_else(is_more, str(silver.Op.INSERT), str(silver.Op.DELETE))
    return sorted_by_bounded_column(_with(summed, {"_op": op, "_existed": pa.nulls(len(summed), pa.bool_())}), names)


def _with(rows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)
    return rows
