"""Reduction of net rows that may lack columns.

``needed_net_rows`` and ``one_row_per_key`` are what ``net_changes.first_and_last_rows`` and ``one_row_per_key`` are for
whole rows.

Put here: that reduction. Not here: laying rows over each other (row_overlay.py), how rows come to lack columns
(partial_images.py).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.errors import PartialWindow
from spark_jobs.silver import moved_from_codec, net_changes
from spark_jobs.silver.moved_rows import MOVED, within_window
from spark_jobs.silver.row_overlay import ABSENT, MOVED_FROM, KeyRuns, overlaid, telling_rows

_OF_CHANGES = {"_position", "_committed_at", "_raw", "_changes", "_micros"}
_OWN = {"_window", "_existed", "_exists", *_OF_CHANGES, ABSENT, MOVED_FROM, MOVED}


def needed_net_rows(rows: pa.Table, key: Sequence[str], *, is_all: bool = False) -> pa.Table:
    """Net rows without those that say nothing, of each window and key. The last one counts the changes of all.

    is_all: whether they are all that the log has up to where they end. Raises PartialWindow where they are not, and
    what a row lacks has to be asked of the key that it had before.
    """
    if ABSENT not in rows.column_names:
        return net_changes.first_and_last_rows(rows, key)
    rows = _with_old_rows(rows, key, is_all=is_all)
    runs = _runs(rows, key)
    numbers = telling_rows(rows, runs, _source_columns(rows))
    changes, micros = np.zeros(len(rows), np.int64), rows.column("_micros").to_numpy().copy()
    last_rows = runs.numbers[runs.lasts]
    changes[last_rows], micros[last_rows] = _totals(rows, runs)
    counted = {"_changes": pa.array(changes), "_micros": pa.array(micros)}
    return _with(rows, counted).take(pa.array(numbers))


def one_row_per_key(rows: pa.Table, key: Sequence[str], *, is_all: bool = False) -> pa.Table:
    """One row for each window and key, where these rows are all there are of it, in the order of the key.

    is_all: whether they are all of the windows. A row that lacks columns behind a row which was deleted has an empty
    MOVED_FROM: its INSERT is not known, so no older row of the key is its own. Raises as ``needed_net_rows``.
    """
    if ABSENT not in rows.column_names:
        return net_changes.one_row_per_key(rows, key)
    rows = _with_old_rows(rows, key, is_all=is_all)
    runs = _runs(rows, key)
    last_rows, is_ended = overlaid(rows, runs, _source_columns(rows))
    changes, micros = _totals(rows, runs)
    existed = rows.column("_existed").combine_chunks().take(pa.array(runs.numbers[runs.starts]))
    counted = {"_changes": pa.array(changes), "_micros": pa.array(micros), "_existed": existed}
    counted[MOVED_FROM] = moved_from_codec.with_unknown_inserts(last_rows.column(MOVED_FROM), is_ended)
    return net_changes.sorted_by_key(_with(last_rows, counted), key)


def _with_old_rows(rows: pa.Table, key: Sequence[str], *, is_all: bool) -> pa.Table:
    """Rows that changes gave their keys, completed by the rows of the keys that they had. Raises PartialWindow."""
    if is_all:
        return within_window(rows, key, _source_columns(rows))
    if pc.any(rows.column(MOVED)).as_py():
        raise PartialWindow("a change of the key whose row image omits columns")
    return rows


def _source_columns(rows: pa.Table) -> list[str]:
    """The source's columns."""
    return [name for name in rows.column_names if name not in _OWN]


def _runs(rows: pa.Table, key: Sequence[str]) -> KeyRuns:
    return KeyRuns.of(rows, key, pc.invert(rows.column("_exists")))


def _totals(rows: pa.Table, runs: KeyRuns) -> tuple[np.ndarray, np.ndarray]:
    """Number of changes of each key, and its latest time."""
    if not len(runs):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    changes, micros = (rows.column(name).to_numpy()[runs.numbers] for name in ("_changes", "_micros"))
    return np.add.reduceat(changes, runs.starts), np.maximum.reduceat(micros, runs.starts)


def _with(rows: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return rows
