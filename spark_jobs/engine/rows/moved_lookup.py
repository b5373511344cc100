"""Completion of rows that came from another key without all columns, by silver's rows of the keys they had.

Put here: which rows of silver these are. Not here: the walk over them (silver/moved_rows.py), or reading rows of keys
(restatement.py).

Silver has all that is known of a key, whatever the target has. The keys are few: those that rows name, and those that
rows of these name in turn.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.engine.rows.locate import Keys
from spark_jobs.silver import moved_from_codec
from spark_jobs.silver import table as silver
from spark_jobs.silver.moved_rows import RowWalk, first_in, points_of
from spark_jobs.silver.positions import FIELDS, PositionKey, last_rows_by_key

NEEDED = ("_op", "_existed", "_position", "_window_start", "_window_stop", "_raw", silver.ABSENT, silver.MOVED_FROM)
"""Columns of silver that completing needs besides the source's."""
Reader = Callable[[pa.Table], pa.Table]
"""Function from keys to all rows of silver that have them, with the columns of the rows that are completed."""


def complete_moved_rows(
    rows: pa.Table, key: Sequence[str], names: Sequence[str], read: Reader, *, emptied: Sequence[PositionKey]
) -> pa.Table:
    """Rows of silver, those that came from other keys with what silver knows of the rows of these.

    rows: with the columns of these names, the source's, and NEEDED. emptied: where statements stand that emptied the
    table. Raises LakeError.
    """
    is_moved = rows.column(silver.MOVED_FROM).is_valid()
    if not pc.any(is_moved).as_py():
        return rows
    moved = rows.filter(is_moved)
    known = _rows_of_keys(moved, key, read)
    all_rows = pa.concat_tables([known, moved.select(known.column_names).cast(known.schema)])
    walked = _walk(all_rows, key, names, emptied).completed_rows().slice(len(known))
    numbers = np.arange(len(rows))
    numbers[np.flatnonzero(is_moved.to_numpy())] = len(rows) + np.arange(len(moved))
    return pa.concat_tables([rows, walked.select(rows.column_names).cast(rows.schema)]).take(pa.array(numbers))


def old_keys(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys that rows had before, with the key's columns and ``_raw``."""
    return moved_from_codec.keys_from_texts(rows.column(silver.MOVED_FROM), key, rows.schema)[0]


def _rows_of_keys(moved: pa.Table, key: Sequence[str], read: Reader) -> pa.Table:
    """All rows of silver of the keys of rows, of those that they had before, and so on."""
    cells = [*key, "_raw"]
    known_keys, parts = moved.select(cells).slice(0, 0), [moved.slice(0, 0)]
    wanted = pa.concat_tables([moved.select(cells), old_keys(moved, key).cast(known_keys.schema)])
    while len(wanted):
        wanted = last_rows_by_key(wanted, key)
        if len(known_keys):
            is_known = np.zeros(len(wanted), np.bool_)
            is_known[Keys(known_keys, key).ordinals_of(wanted)[0]] = True
            wanted = wanted.filter(pa.array(~is_known))
        if not len(wanted):
            break
        parts.append(read(wanted).select(moved.column_names).cast(moved.schema))
        known_keys = pa.concat_tables([known_keys, wanted])
        wanted = old_keys(parts[-1], key).cast(known_keys.schema)
    return pa.concat_tables(parts).combine_chunks()


def _walk(rows: pa.Table, key: Sequence[str], names: Sequence[str], emptied: Sequence[PositionKey]) -> RowWalk:
    """The rows in the order of their windows; what the server's rows say is there where they count from.

    A window's rows are there at its beginning, all at once. A row that the server gave in the middle of a window is
    there before them, and stays where the window's row of its key is older.
    """
    op = rows.column("_op")
    is_from_server = np.asarray(silver.is_from_server(op), np.bool_)
    positions, begins, ends = (_fields(rows, name) for name in ("_position", "_window_start", "_window_stop"))
    times = _walk_times(positions, begins, ends, is_from_server)
    order, starts = points_of(times)
    is_gone = np.asarray(silver.is_delete(op), np.bool_)
    # Which row is newer, a window's own position says, and not its beginning.
    ages = np.empty(len(rows), np.int64)
    ages[points_of(positions)[0]] = np.arange(len(rows))
    return RowWalk(
        rows,
        key,
        names,
        order,
        starts,
        is_gone,
        np.asarray(rows.column(silver.MOVED_FROM).is_valid(), np.bool_),
        is_from_server & ~is_gone,
        ~np.asarray(pc.fill_null(rows.column("_existed"), False), np.bool_),
        [_first_behind(statement, times, order) for statement in emptied],
        ages,
    )


_AS_OF, _AMID, _WINDOW = range(3)
"""Order of rows that are there at one position: the server's as of it, the server's of a later one, a window's."""


def _walk_times(
    positions: Sequence[NDArray[np.int64]],
    begins: Sequence[NDArray[np.int64]],
    ends: Sequence[NDArray[np.int64]],
    is_from_server: NDArray[np.bool_],
) -> list[NDArray[np.int64]]:
    """Fields of the position that each row is there from, and which comes first at it."""
    windows = [*map(tuple, np.unique(np.column_stack([*begins, *ends])[~is_from_server], axis=0).tolist())]
    starts = [window[: len(begins)] for window in windows]
    times = [*(values.copy() for values in begins), np.full(len(is_from_server), _WINDOW, np.int64)]
    for row in np.flatnonzero(is_from_server).tolist():
        position, kind = tuple(int(values[row]) for values in positions[: len(begins)]), _AS_OF
        # Windows do not overlap: the last one that begins before the position is the one that may hold it.
        at = bisect_left(starts, position) - 1
        if at >= 0 and position < windows[at][len(begins) :]:
            position, kind = starts[at], _AMID
        for values, value in zip(times, (*position, kind), strict=True):
            values[row] = value
    return times


def _fields(rows: pa.Table, column: str) -> list[NDArray[np.int64]]:
    """The fields of a column of positions, the most significant first; NULL, which statements have, is 0."""
    values = rows.column(column).combine_chunks()
    names = [name for name in FIELDS if values.type.get_field_index(name) >= 0]
    return [np.asarray(pc.fill_null(pc.struct_field(values, name), 0), np.int64) for name in names]


def _first_behind(emptied: PositionKey, times: Sequence[NDArray[np.int64]], order: NDArray[np.int64]) -> int:
    """Index in the order of the first row that counts after a statement; what a load read as of it is before it."""
    is_behind = np.zeros(len(order), np.bool_)
    for values, limit in zip(reversed(times), (0, *reversed(emptied)), strict=True):
        is_behind = (values > limit) | ((values == limit) & is_behind)
    return first_in(order, is_behind)
