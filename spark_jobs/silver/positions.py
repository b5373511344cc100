"""Positions in Arrow columns and in files' statistics.

Put here: comparing stored positions, and the newest row of a key by them. Not here: positions in the log
(log/position.py).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.delta.schema import TableSchema
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.log.position import Position, Range
from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import by_position, identity_columns
from spark_jobs.silver.row_overlay import ABSENT, ENDED, MOVED_FROM, PERIOD, KeyRuns, overlaid

FIELDS = ("stretch", "number", "offset", "row")
"""Fields of ``_position``, in order of weight; ``_window_start`` has the first three."""
_ADDED = ("_op", "_position", "_committed_at", "_window_start", "_raw", ABSENT, MOVED_FROM, PERIOD)
"""Columns that rows of silver have beside the source's, as far as they are read here."""
GONE = pa.array(["delete", "mend_delete", "cascade_delete", "truncate"])
"""``_op`` of rows that end their key: truncate is that of rows which a statement ends."""
LOADED_ROW, STATEMENT_ROW = -2, -1
"""Row numbers in ``_position`` of what stands before all changes there: rows that a load read, then a statement."""
_AT = "\0at"
_BEYOND = np.iinfo(np.int64).max
"""Offset behind every other one."""
PositionKey = tuple[int, ...]
"""Stretch, number and offset of a position."""


def at_or_after(positions: pa.ChunkedArray, position: Position) -> pa.Array:
    """Mask of the positions, stored as structures, that are not before one."""
    stretch, number, offset = (pc.struct_field(positions, name) for name in FIELDS[:3])
    begin = position.order
    here = pc.and_(pc.equal(number, begin[1]), pc.greater_equal(offset, begin[2]))
    in_file = pc.or_(pc.greater(number, begin[1]), here)
    return pc.or_(pc.greater(stretch, begin[0]), pc.and_(pc.equal(stretch, begin[0]), in_file))


def within(positions: pa.ChunkedArray, ranges: Sequence[Range]) -> pa.Array:
    """Mask of the positions, stored as structures, that lie in one of some ranges; NULL lies in none.

    Its time follows the positions, and the ranges between their first and their last in each file of the log: a
    backfill of a follower's table replays thousands of windows.

    Args:
        positions: ``_position`` or ``_window_start``.
        ranges: in order and apart, as ``lake.ranges.joined`` leaves them.
    """
    mask = np.zeros(len(positions), np.bool_)
    stretches, numbers, offsets = (
        np.asarray(pc.fill_null(pc.struct_field(positions, name), -1), np.int64) for name in FIELDS[:3]
    )
    files = np.unique(np.stack([stretches, numbers], axis=1), axis=0) if ranges else ()
    for stretch, number in files:
        is_here = (stretches == stretch) & (numbers == number)
        in_file = offsets[is_here]
        spans = _spans_in_file(ranges, (int(stretch), int(number)), int(in_file.min()), int(in_file.max()))
        if len(spans):
            at = np.searchsorted(spans[:, 0], in_file, "right") - 1
            mask[is_here] = (at >= 0) & (in_file < spans[at, 1])
    return pa.array(mask)


def _spans_in_file(ranges: Sequence[Range], file: tuple[int, int], first: int, last: int) -> NDArray[np.int64]:
    """Parts of a file of the log, as offsets where each begins and ends, that ranges have between two offsets of it."""
    spans = []
    for log_range in ranges[bisect_right(ranges, (*file, first), key=_stop) :]:
        start, stop = log_range.start.order, log_range.stop.order
        if start > (*file, last):
            break
        spans.append((start[2] if start[:2] == file else 0, stop[2] if stop[:2] == file else _BEYOND))
    return np.array(spans, np.int64)


def _stop(log_range: Range) -> tuple[int, int, int]:
    return log_range.stop.order


def may_overlap(file: DataFile, schema: TableSchema, name: str, ranges: Sequence[Range]) -> bool:
    """True if a data file may have positions in one of some ranges, by its statistics.

    name: the column of positions. ranges: as of ``within``.
    """
    lowest, highest = bounds_of(file, schema, name)
    at = bisect_right(ranges, lowest, key=_stop) if lowest else 0
    return at < len(ranges) and (highest is None or highest >= ranges[at].start.order)


def since_emptied(positions: pa.ChunkedArray, emptied: Position) -> pa.Array:
    """Positions of rows that are not before the statement that emptied the table, at ``emptied``.

    Rows that a load read as of just that position are before it.
    """
    is_change = pc.greater_equal(pc.struct_field(positions, "row"), 0)
    is_later = at_or_after(positions, replace(emptied, offset=emptied.offset + 1))
    return pc.or_(is_later, pc.and_(at_or_after(positions, emptied), is_change))


def bounds_of(file: DataFile, schema: TableSchema, name: str) -> tuple[PositionKey | None, PositionKey | None]:
    """Positions that no row of a file has an earlier or a later one than; None: not known.

    name: the column, a structure.
    """
    bounds = [file.field_bounds(schema, name, field) for field in FIELDS[:3]]
    lowest, highest = tuple(field.minimum for field in bounds), tuple(field.maximum for field in bounds)
    return None if None in lowest else lowest, None if None in highest else highest


def newest_by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The row with the last position of each key.

    Rows that may lack columns (ABSENT), with ``_op``, are laid over each other, those of one PERIOD where they have it;
    the result says besides which keys lack some behind an end (ENDED).
    """
    if ABSENT not in rows.column_names:
        return last_rows_by_key(by_position(rows), key)
    periods = np.asarray(rows.column(PERIOD).to_numpy(), np.int64) if PERIOD in rows.column_names else None
    # A statement that emptied the table is no row of a key: the period tells where it stands.
    runs = KeyRuns.of(rows, key, silver.is_delete(rows.column("_op")), periods)
    overlaid_rows, is_ended = overlaid(rows, runs, [name for name in rows.column_names if name not in _ADDED])
    return overlaid_rows.append_column(ENDED, pa.array(is_ended))


def last_rows_by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of ``rows``."""
    if not len(rows):
        return rows
    columns = identity_columns(rows, key)
    names = [f"\0{at}" for at in range(len(columns))]
    indexes = pa.table([*columns, pa.array(np.arange(len(rows)))], names=[*names, _AT])
    last = indexes.group_by(names, use_threads=False).aggregate([(_AT, "max")])
    return rows.take(last.column(f"{_AT}_max"))
