"""Changes of rows -> from when to when each version of a row was there: what a task makes of ``mode: history``.

Put here: the intervals of rows that have a key, in Arrow. Not here: which rows they are computed from (change_task.py),
or the same by Spark SQL, which has those of rows without a key too (downstream/history.py). Both give the same values;
tests compare them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.silver import table as silver
from spark_jobs.silver.net_changes import identity

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_FIELDS = ("row", "offset", "number", "stretch")
"""Fields of ``_position``, the least significant first."""
_NONE = -1


def with_intervals(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Changes with ``_valid_from``, ``_valid_to`` and ``_is_current``, those that are all there are of their keys.

    A version ends with the next change of its key, or with the next statement that emptied the table. Such statements
    are among the rows; they and deletes end where they stand.
    """
    op, committed = rows.column("_op"), rows.column("_committed_at").combine_chunks()
    is_marker = _equal(op, silver.Op.TRUNCATE)
    is_alive = ~(is_marker | _equal(op, silver.Op.DELETE))
    ranks = _ranks(rows.column("_position").combine_chunks())
    ends = np.where(is_alive, _ends(rows, key, ranks, (is_alive, is_marker)), np.arange(len(rows)))
    is_current = ends == _NONE
    return (
        rows.append_column("_valid_from", committed)
        .append_column("_valid_to", committed.take(pa.array(ends, mask=is_current)))
        .append_column("_is_current", pa.array(is_current))
    )


def _ends(rows: pa.Table, key: Sequence[str], ranks: Numbers, flags: tuple[Flags, Flags]) -> Numbers:
    """Of each row the one that ends it: the next of its key, or a statement before that. flags: alive, statements."""
    is_alive, is_marker = flags
    keys = _key_numbers(rows, key)
    order = np.lexsort((is_alive, ranks, keys))
    order = order[~is_marker[order]]
    following = np.full(len(rows), _NONE, np.int64)
    is_same_key = keys[order[1:]] == keys[order[:-1]]
    following[order[:-1][is_same_key]] = order[1:][is_same_key]
    # The first statement after each row.
    markers = np.flatnonzero(is_marker)
    markers = markers[np.argsort(ranks[markers], kind="stable")]
    statements = np.append(markers, _NONE)[np.searchsorted(ranks[markers], ranks, side="right")]
    is_first = (statements != _NONE) & ((following == _NONE) | (ranks[statements] < ranks[following]))
    return np.where(is_first, statements, following)


def _ranks(positions: pa.StructArray) -> Numbers:
    """A number of each position: equal for equal ones, and in their order."""
    fields = [positions.field(name).to_numpy(zero_copy_only=False) for name in _FIELDS]
    order = np.lexsort(fields)
    is_other = np.zeros(len(order), np.bool_)
    for values in fields:
        is_other[1:] |= values[order[1:]] != values[order[:-1]]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(is_other)
    return ranks


def _key_numbers(rows: pa.Table, key: Sequence[str]) -> Numbers:
    """A number of each row's key, NULL being a value."""
    numbers = np.zeros(len(rows), np.int64)
    for column in identity(rows, key):
        codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        numbers = np.unique(numbers * (len(rows) + 1) + codes, return_inverse=True)[1].reshape(-1)
    return numbers


def _equal(values: pa.ChunkedArray, value: str) -> Flags:
    flags: Any = pc.equal(values, value).to_numpy()
    return np.asarray(flags, np.bool_)
