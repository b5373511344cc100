"""Blocks of rows beside their values: nulls, before images, room for text, positions and commit times.

Put here: what is done to a block's rows, whatever their columns. Not here: reading rows (row_steps.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel, part
from spark_jobs.binlog.kernels.intrinsics import (
    bit_count,
    cell,
    load32,
    load64,
    store8,
    store8_at,
    store32,
    store32_at,
    store64,
    store64_at,
    without,
)
from spark_jobs.binlog.kernels.row_cells import (
    B_CAPACITY,
    B_COLUMNS,
    B_COMMITTED,
    B_KEPT,
    B_KEPTS,
    B_NULLS,
    B_OFFSETS,
    B_OPS,
    B_ORDINALS,
    B_ROWS,
    B_SOURCES,
    B_STEPS,
    B_VARIABLE,
    B_VARIABLES,
    B_WORDS,
    PADDED,
    STEP_BYTES,
    STEP_CAPACITY,
    STEP_KIND,
    STEP_SLOT,
    STEP_USED,
    STEP_WIDTH,
    TEXT_1,
)
from spark_jobs.binlog.kernels.row_values import zero_slot


@part
def mark_null(nulls: int, marked: int, column: int) -> None:
    """Record that a slot holds a mark under a null."""
    offset = nulls + 8 * (column >> 6)
    store64(offset, load64(offset) | np.uint64(1) << np.uint64(column & 63))
    store8(marked + column, np.uint8(1))


@part
def clear_before(block: int, first: int, after: int) -> None:
    """Record that rows have no before image; their slots hold no mark or label, though nobody asks for them."""
    words = cell(block, B_WORDS)
    nulls = cell(block, B_NULLS) + (cell(block, B_CAPACITY) + first) * words * 8
    # All columns are NULL in the images that are not there.
    for k in range((after - first) * words):
        store64_at(nulls, k, ~np.uint64(0))
    for k in range(cell(block, B_KEPTS)):
        step = cell(block, B_STEPS) + np.int64(load64(cell(block, B_KEPT) + 8 * k)) * STEP_BYTES
        slot = cell(step, STEP_SLOT)
        width = cell(step, STEP_WIDTH)
        # A text ends where it begins.
        if cell(step, STEP_KIND) >= TEXT_1:
            text_end = np.uint32(cell(step, STEP_USED))
            for row in range(first, after):
                store32_at(slot, row, text_end)
        elif after == first + 1:
            zero_slot(slot + width * first, width)
        else:
            for offset in range(width * first, width * after):
                store8_at(slot, offset, np.uint8(0))


@part
def take_back(block: int, row: int, program: int, columns: int) -> None:
    """Forgets the text of a row that failed, in columns that it had come through: their slots say where it began."""
    for k in range(columns):
        step = cell(block, B_STEPS) + (program * cell(block, B_COLUMNS) + k) * STEP_BYTES
        if TEXT_1 <= cell(step, STEP_KIND) <= PADDED:
            store64(step + 8 * STEP_USED, np.uint64(load32(cell(step, STEP_SLOT) + 4 * row)))


@part
def text_room(block: int) -> Any:
    """Bytes of text that every column still has room for."""
    room = np.int64(1) << 62
    for k in range(cell(block, B_VARIABLES)):
        step = cell(block, B_STEPS) + np.int64(load64(cell(block, B_VARIABLE) + 8 * k)) * STEP_BYTES
        room = min(room, cell(step, STEP_CAPACITY) - cell(step, STEP_USED))
    return room


@part
def put_row_cells(
    block: int, first: int, after: int, op: Any, offset: int, commit: int, event: int, ordinal: int
) -> None:
    """Cells of each of an event's rows besides its columns; ordinal: of row ``first`` within the event."""
    ops = cell(block, B_OPS)
    offsets = cell(block, B_OFFSETS)
    committed = cell(block, B_COMMITTED)
    sources = cell(block, B_SOURCES)
    ordinals = cell(block, B_ORDINALS)
    if after == first + 1:  # a loop's vectors are for more
        store8(ops + first, op)
        store64(offsets + 8 * first, np.uint64(offset))
        store64(committed + 8 * first, np.uint64(commit))
        if sources:
            store32(sources + 4 * first, np.uint32(event))
        store32(ordinals + 4 * first, np.uint32(ordinal))
        return
    for k in range(first, after):
        store8_at(ops, k, op)
    for k in range(first, after):
        store64_at(offsets, k, np.uint64(offset))
    for k in range(first, after):
        store64_at(committed, k, np.uint64(commit))
    if sources:
        for k in range(first, after):
            store32_at(sources, k, np.uint32(event))
    for k in range(first, after):
        store32_at(ordinals, k, np.uint32(ordinal + k - first))


@kernel
def end_texts(block: int) -> None:
    """Writes where the text of a block's last row ends, in each column that has text: the block is complete."""
    for k in range(2 * cell(block, B_COLUMNS)):
        step = cell(block, B_STEPS) + k * STEP_BYTES
        if TEXT_1 <= cell(step, STEP_KIND) <= PADDED:
            store32(cell(step, STEP_SLOT) + 4 * cell(block, B_ROWS), np.uint32(cell(step, STEP_USED)))


@kernel
def validities(nulls: Array, rows: int, columns: Array, bitmaps: int, size: int, counts: Array) -> None:
    """Arrow's validity bitmaps of some columns from ``nulls[row, word]``, each at ``size`` bytes from the one before.

    counts: the number of nulls in each.
    """
    aligned = rows & ~7 if nulls.shape[1] == 1 else 0  # eight rows at once, where a row has one word
    for j in range(len(columns)):
        word = columns[j] >> 6
        shift = np.uint64(columns[j] & 63)
        bitmap = bitmaps + j * size
        count = np.int64(0)
        for first in range(0, aligned, 8):
            bits = without(nulls.ctypes.data + 8 * first, np.uint64(1) << shift)
            store8(bitmap + (first >> 3), bits)
            count += 8 - bit_count(bits)
        for first in range(aligned, rows, 8):
            bits = np.uint8(0xFF)
            for k in range(min(8, rows - first)):
                if (nulls[first + k, word] >> shift) & np.uint64(1):
                    bits &= ~(np.uint8(1) << np.uint8(k))
                    count += 1
            store8(bitmap + (first >> 3), bits)
        counts[j] = count
