"""Boundaries of slices, by the marks of the scan.

Put here: the loop over marks. Not here: what becomes of a slice (slices/slicer.py).
"""

from typing import Any

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.event_cells import (
    MARK_BEGINS,
    MARK_ENDS,
    MARK_STATEMENT,
    SLICE_CONTROL,
    SLICE_ROWS,
    SLICE_STATEMENT,
    TX_FLAGS,
    TX_ROLLED_BACK,
    TX_START,
    TX_XA,
)


@kernel
def _reach(offsets: Array, lengths: Array, first: int, last: int) -> Any:
    """Bytes from the start of event ``first`` to the end of event ``last``."""
    return offsets[last] + lengths[last] - offsets[first]


@kernel
def _put(slices: Array, count: int, first: int, after: int, kind: int) -> Any:
    slices[count, 0] = first
    slices[count, 1] = after
    slices[count, 2] = kind
    return count + 1


@kernel
def cut(
    offsets: Array,
    lengths: Array,
    owners: Array,
    marks: Array,
    transactions: Array,
    base: int,
    target: int,
    undecided: int,
    final: int,
    slices: Array,
) -> Any:
    """Groups scanned events into slices [first event, event after the last, kind]; returns (slices, first event left).

    A small transaction is never split but around a statement; slices of whole ones grow until ``target`` bytes. One
    larger than that, or begun in an earlier slice, shares no slice with another. One that is not complete stays while
    it is not yet large, or ``undecided``: the next QUERY will tell what it is. So does the slice being filled, unless
    ``final``.
    """
    n = len(offsets)
    count = 0
    start = 0  # first event of the slice being filled
    kind = -1  # of the slice being filled; -1: there is none
    i = 0
    while i < n:
        # Events outside of transactions make slices of their own kind.
        owner = owners[i]
        if owner < 0:
            if kind >= 0 and kind != SLICE_CONTROL:
                count = _put(slices, count, start, i, kind)
                kind = -1
            if kind < 0:
                start = i
                kind = SLICE_CONTROL
            i += 1
            continue
        # The transaction's last event that is here, and whether it is small enough to share a slice.
        last = i
        while last < n - 1 and not marks[last] & MARK_ENDS:
            last += 1
        complete = marks[last] & MARK_ENDS != 0
        large = _reach(offsets, lengths, i, last) > target or transactions[owner, TX_START] < base + offsets[i]
        if not complete and (final or undecided or not large):
            break
        # XA transactions, rolled-back ones and single statements stand in slices of their own.
        ended_otherwise = transactions[owner, TX_FLAGS] & (TX_XA | TX_ROLLED_BACK) != 0
        standalone = complete and not ended_otherwise and marks[last] & MARK_STATEMENT != 0
        separate = ended_otherwise or standalone
        # The slice being filled ends before a transaction that it cannot take.
        if kind >= 0 and (large or separate or kind != SLICE_ROWS):
            count = _put(slices, count, start, i, kind)
            kind = -1
        if kind < 0:
            start = i
        kind = SLICE_STATEMENT if separate else SLICE_ROWS
        # Inside the transaction, statements are cut out, and a large one is cut at the target size.
        alone = large or separate
        for j in range(i, last + 1):
            if marks[j] & MARK_STATEMENT and not separate:
                if j > start:
                    count = _put(slices, count, start, j, kind)
                count = _put(slices, count, j, j + 1, SLICE_STATEMENT)
                start = j + 1
                alone = True
                continue
            may = large and not standalone and j < last and not marks[j] & MARK_BEGINS
            if may and _reach(offsets, lengths, start, j) >= target:
                count = _put(slices, count, start, j + 1, kind)
                start = j + 1
        # The end of the transaction ends a slice that is full, or that it shares with nothing.
        if not complete:
            return count, start
        i = last + 1
        if start < i and (alone or _reach(offsets, lengths, start, last) >= target):
            count = _put(slices, count, start, i, kind)
            start = i
        if start == i:
            kind = -1
    # At the end of the log the slice being filled is complete, too.
    if kind >= 0 and final:
        count = _put(slices, count, start, i, kind)
        start = i
    return count, start if kind >= 0 and not final else i
