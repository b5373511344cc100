"""Validity intervals of the versions of rows, from changes: a task's work for ``mode: history``.

Put here: the intervals, in Arrow. Not here: which rows they are computed from (version_merge.py).

A row of a table without a key ends with a delete of an equal row: each delete ends the oldest copy that is there.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.silver import table as silver
from spark_jobs.silver.keyless_rows import numbers_of_equal_rows
from spark_jobs.silver.net_changes import identity_columns

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
_FIELDS = ("row", "offset", "number", "stretch")
"""Fields of ``_position``, the least significant first."""
_NONE = -1


def with_intervals(rows: pa.Table, columns: silver.Columns) -> pa.Table:
    """Changes with ``_valid_from``, ``_valid_to`` and ``_is_current``, those that are all there are of their keys.

    columns: the source's, which say what tells rows apart.

    A version ends with the next change of its key, or with the next statement that emptied the table. Such statements
    are among the rows; they and deletes end where they stand.
    """
    op, committed = rows.column("_op"), rows.column("_committed_at").combine_chunks()
    is_marker = _equal(op, silver.Op.TRUNCATE)
    is_alive = ~(is_marker | np.asarray(silver.is_delete(op).to_numpy(), np.bool_))
    ranks = ranks_of(rows.column("_position").combine_chunks())
    ends = np.where(is_alive, _ends(rows, columns, ranks, (is_alive, is_marker)), np.arange(len(rows)))
    is_current = ends == _NONE
    return (
        rows.append_column("_valid_from", committed)
        .append_column("_valid_to", committed.take(pa.array(ends, mask=is_current)))
        .append_column("_is_current", pa.array(is_current))
    )


def _ends(rows: pa.Table, columns: silver.Columns, ranks: Numbers, flags: tuple[Flags, Flags]) -> Numbers:
    """Row that ends each row, or a statement before that. flags: alive, statements."""
    is_marker = flags[1]
    if columns.is_keyless:
        following = _deletes_of_copies(numbers_of_equal_rows(rows, [*columns.types]), ranks, flags)
    else:
        following = _next_rows(numbers_of_keys(rows, columns.key), ranks, flags)
    # The first statement after each row.
    markers = np.flatnonzero(is_marker)
    markers = markers[np.argsort(ranks[markers], kind="stable")]
    statements = np.append(markers, _NONE)[np.searchsorted(ranks[markers], ranks, side="right")]
    is_first = (statements != _NONE) & ((following == _NONE) | (ranks[statements] < ranks[following]))
    return np.where(is_first, statements, following)


def _next_rows(keys: Numbers, ranks: Numbers, flags: tuple[Flags, Flags]) -> Numbers:
    """Next row of the key of each row."""
    is_alive, is_marker = flags
    order = np.lexsort((is_alive, ranks, keys))
    order = order[~is_marker[order]]
    following = np.full(len(keys), _NONE, np.int64)
    is_same_key = keys[order[1:]] == keys[order[:-1]]
    following[order[:-1][is_same_key]] = order[1:][is_same_key]
    return following


def _deletes_of_copies(contents: Numbers, ranks: Numbers, flags: tuple[Flags, Flags]) -> Numbers:
    """Delete that takes each row: of equal rows between two statements the nth that finds one takes the nth.

    A delete finds none where the table is older than its log. contents: a number of each row, equal for equal ones.
    """
    is_alive, is_marker = flags
    following = np.full(len(contents), _NONE, np.int64)
    periods = np.searchsorted(np.sort(ranks[is_marker]), ranks, side="right")
    order = np.lexsort((is_alive, ranks, periods, contents))
    order = order[~is_marker[order]]
    if not len(order):
        return following
    # Inserted rows and deletes, counted from the first of equal rows of a period on.
    alive, limit = is_alive[order], len(order) + 1
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (contents[order[1:]] != contents[order[:-1]]) | (periods[order[1:]] != periods[order[:-1]])
    groups = np.cumsum(is_first)
    starts = np.flatnonzero(is_first)[groups - 1]
    inserted, deleted = _counted_from(starts, alive), _counted_from(starts, ~alive)
    # Deletes that found nothing so far: the greatest lead that deletes ever had over rows.
    unmatched = np.maximum.accumulate(np.maximum(deleted - inserted, 0) + groups * limit) - groups * limit
    before = np.where(is_first, 0, np.roll(unmatched, 1))
    is_match = ~alive & (unmatched == before)
    # The nth delete that found one, and the nth row of its group.
    row_numbers, delete_numbers = (groups * limit + number for number in (inserted, deleted - unmatched))
    at = np.searchsorted(row_numbers[alive], delete_numbers[is_match])
    following[order[alive][at]] = order[is_match]
    return following


def ranks_of(positions: pa.StructArray) -> Numbers:
    """A number of each position: equal for equal ones, and in their order."""
    fields = [positions.field(name).to_numpy(zero_copy_only=False) for name in _FIELDS]
    order = np.lexsort(fields)
    is_other = np.zeros(len(order), np.bool_)
    for values in fields:
        is_other[1:] |= values[order[1:]] != values[order[:-1]]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(is_other)
    return ranks


def numbers_of_keys(rows: pa.Table, key: Sequence[str]) -> Numbers:
    """A number of each row's key, NULL being a value."""
    numbers = np.zeros(len(rows), np.int64)
    for column in identity_columns(rows, key):
        codes = column.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        numbers = np.unique(numbers * (len(rows) + 1) + codes, return_inverse=True)[1].reshape(-1)
    return numbers


def _equal(values: pa.ChunkedArray, value: str) -> Flags:
    flags: Any = pc.equal(values, value).to_numpy()
    return np.asarray(flags, np.bool_)


def _counted_from(starts: NDArray[np.int64], flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number of flags that are set up to each position. starts: of each position the one that its count begins at."""
    counts = np.cumsum(flags)
    return counts - (counts - flags)[starts]
