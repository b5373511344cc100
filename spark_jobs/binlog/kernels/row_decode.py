"""The row kernel: from row events to the slots, offsets and text of blocks.

Put here: the loop over events. Not here: rows and columns (row_steps.py), what blocks have beside values
(row_blocks.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.event_cells import (
    E_ADDRESS,
    E_BYTES,
    E_CELLS,
    E_COMMIT,
    E_GROUP,
    E_LEAD,
    E_LENGTH,
    E_OFFSET,
)
from spark_jobs.binlog.kernels.intrinsics import cell, load8, load16, prefetch, store64
from spark_jobs.binlog.kernels.row_blocks import clear_before, put_row_cells, text_room
from spark_jobs.binlog.kernels.row_cells import (
    B_CAPACITY,
    B_COLUMNS,
    B_HAS_BEFORE,
    B_KEPTS,
    B_ROOM,
    B_ROWS,
    B_TAKES_PARTIAL,
    BLOCK_FULL,
    CUT_SHORT,
    DONE,
    OTHER_COLUMN_COUNT,
    PARTIAL_IMAGE,
    R_COLUMN,
    R_EVENT,
    R_FRESH,
    R_MASKS,
    R_OFFSET,
    R_ORDINAL,
)
from spark_jobs.binlog.kernels.row_images import is_full
from spark_jobs.binlog.kernels.row_steps import decode_by_steps

_AHEAD = 8
"""Events between the one that is read and the one whose first and last bytes are asked for. Those of one table lie
apart, by the other tables' and by what a transaction has besides rows, and no processor guesses where the next one is;
how a long one continues it sees by itself."""


@kernel
def decode_rows(
    events: int,
    count: int,
    blocks: Array,
    state: Array,
    month_start: int,
    month_length: int,
) -> Any:
    """Fills blocks from row events, those of one table after the other or of many by turns, and says why it came back.

    Program 0 (first index of steps, marked, nulls) is the row: the after image, or a delete's. Program 1 is the before
    image of updates. A value's bytes are read up to 64 beyond the event's end, never further: lengths are checked
    before they are followed.

    events, count: address of E_CELLS cells an event, one after the other, and how many there are. E_GROUP: which of
        ``blocks`` its rows go into; E_LEAD: of two events with one E_OFFSET row ordinals continue from the first.
    blocks: addresses of B_CELLS cells each.
    state: next R_EVENT, R_OFFSET: address inside it (0: at its start), R_ORDINAL of the row inside it, R_COLUMN of a
        failure, R_MASKS: address of the event's column masks where an image is partial (0: all are full), R_FRESH: 1
        where no row of the event was read yet. It carries over to the next call, which BLOCK_FULL asks for: with
        another block for the group of R_EVENT.
    month_start, month_length: addresses of these tables.
    """
    event = state[R_EVENT]
    q = state[R_OFFSET]
    ordinal = state[R_ORDINAL]
    masks = state[R_MASKS]
    fresh = state[R_FRESH]
    reason = DONE
    state[R_COLUMN] = -1
    while event < count and reason == DONE:
        # The event, and the block of its table, which may be full already.
        at = events + E_BYTES * event
        header = cell(at, E_ADDRESS)
        code = load8(header + 4)
        end = header + cell(at, E_LENGTH)
        block = blocks[np.uintp(cell(at, E_GROUP))]
        n = cell(block, B_ROWS)
        rows = cell(block, B_CAPACITY)
        if n == rows:
            reason = BLOCK_FULL
            break
        columns = cell(block, B_COLUMNS)
        bitmap_bytes = (columns + 7) >> 3
        # Bytes of a later event are fetched into the cache meanwhile.
        if event + _AHEAD < count:
            ahead = cell(at, E_CELLS * _AHEAD + E_ADDRESS)
            prefetch(ahead)
            prefetch(ahead + cell(at, E_CELLS * _AHEAD + E_LENGTH) - 1)
        # The head of an event that begins: where its rows start, and whether it has the table's columns.
        is_update = code == 31 or code == 24  # noqa: PLR1714 - numba is slow at tuples
        if q == 0:
            if event == 0 or cell(at, E_OFFSET) != cell(at, E_OFFSET - E_CELLS):
                ordinal = np.int64(0)
            ordinal += cell(at, E_LEAD)
            q = header + 27
            if code >= 30:
                q += np.int64(load16(q))  # extra row information; the length counts its own two bytes
            if q >= end or (code >= 30 and q < header + 29):
                reason = CUT_SHORT
                q = np.int64(0)
                break
            columns_there = np.int64(load8(q))
            q += 1
            if columns_there > 250:
                columns_there = np.int64(load16(q))
                q += 2
            if columns_there != columns:
                reason = OTHER_COLUMN_COUNT
                q = np.int64(0)
                break
            images = 2 if is_update else 1
            if q + images * bitmap_bytes > end:
                reason = CUT_SHORT
                break
            # Images without all columns have their masks read row by row; only some blocks take them.
            masks = np.int64(0)
            for image in range(images):
                if not is_full(q + image * bitmap_bytes, columns):
                    masks = q
            q += images * bitmap_bytes
            if masks and not cell(block, B_TAKES_PARTIAL):
                reason = PARTIAL_IMAGE
                break
            fresh = np.int64(1)
        # Texts of the event must fit: no more than its own bytes, so that no row checks for room.
        room = cell(block, B_ROOM) - (end - q)
        if room < 32:
            room = text_room(block) - (end - q)
            if room < 32:
                reason = BLOCK_FULL
                break
        store64(block + 8 * B_ROOM, np.uint64(room))
        # The first update of a block makes room for before images of the rows before it.
        if is_update and not cell(block, B_HAS_BEFORE) and cell(block, B_KEPTS):
            store64(block + 8 * B_HAS_BEFORE, np.uint64(1))
            clear_before(block, 0, n)
        # Rows are decoded until the event or the block ends.
        op = np.uint8(1)
        if is_update:
            op = np.uint8(2)
        elif code == 32 or code == 25:  # noqa: PLR1714 - numba is slow at tuples
            op = np.uint8(3)
        first = n
        while q < end or (masks and fresh):
            if n == rows:
                reason = BLOCK_FULL
                break
            reason, n, q = decode_by_steps(
                block, n, rows, q, end, is_update, masks, fresh, state, month_start, month_length
            )
            if reason != DONE:
                break
            fresh = np.int64(0)
        # What the rows have in common with their event is written for all of them at once.
        if n > first:
            ordinal += n - first
            fresh = np.int64(0)
        store64(block + 8 * B_ROWS, np.uint64(n))
        put_row_cells(block, first, n, op, cell(at, E_OFFSET), cell(at, E_COMMIT), event, ordinal - n + first)
        if reason != DONE:
            break
        event += 1
        q = np.int64(0)
    # Where the next call continues.
    state[R_EVENT] = event
    state[R_OFFSET] = q
    state[R_ORDINAL] = ordinal
    state[R_MASKS] = masks
    state[R_FRESH] = fresh
    return reason
