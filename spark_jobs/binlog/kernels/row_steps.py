"""Steps of decoding a row, for rows of all tables: each column's kind says what to do with its bytes.

Put here: the loop over rows and columns. Not here: what one value takes (row_values.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.intrinsics import (
    cell,
    copy_text,
    load8,
    load16,
    load32,
    load64,
    load64_big,
    memmove,
    store8,
    store16,
    store32,
    store64,
)
from spark_jobs.binlog.kernels.row_blocks import clear_before, mark_null, take_back
from spark_jobs.binlog.kernels.row_cells import (
    B_CAPACITY,
    B_COLUMNS,
    B_HAS_BEFORE,
    B_MARKED,
    B_NULLS,
    B_PARTIAL,
    B_STEPS,
    B_WORDS,
    BAD_VALUE,
    BIG_TO_64,
    BIG_TO_128,
    COPY_1,
    COPY_2,
    COPY_4,
    COPY_8,
    COPY_N,
    CUT_SHORT,
    DATE_TO_32,
    DATETIME_TO_64,
    DECIMAL_18,
    DECIMAL_38,
    DONE,
    INT24_TO_32,
    LITTLE_TO_64,
    PADDED,
    R_COLUMN,
    SKIP,
    SKIP_1,
    SKIP_2,
    SKIP_3,
    STEP_BYTES,
    STEP_KIND,
    STEP_PARAMETERS,
    STEP_SLOT,
    STEP_TEXT,
    STEP_USED,
    STEP_WIDTH,
    TEXT_1,
    TEXT_2,
    TEXT_3,
    TEXT_4,
    TIME_TO_64,
    TIMESTAMP_TO_64,
    UINT8_TO_16,
    UINT16_TO_32,
    UINT24_TO_32,
    UINT32_TO_64,
    UINT64_TO_128,
    YEAR_TO_16,
)
from spark_jobs.binlog.kernels.row_images import spread_masks
from spark_jobs.binlog.kernels.row_values import (
    read_date,
    read_datetime,
    read_decimal_18,
    read_decimal_38,
    read_time,
    read_timestamp,
    zero_slot,
)


@kernel
def decode_by_steps(
    block: int,
    n: int,
    limit: int,
    q: Any,
    end: int,
    is_update: Any,
    masks: int,
    fresh: Any,
    state: Array,
    month_start: int,
    month_length: int,
) -> Any:
    """Rows by their steps, whatever they are: (why the next cannot be, or DONE; how many there are; where that begins).

    n, limit: the first of the block's rows that they become, and how many there may be; [q, end): the bytes that are
    left of their event; masks, fresh: as decode_rows' R_MASKS and R_FRESH. Where a row cannot be, its text is taken
    back and ``state[R_COLUMN]`` says in which column.
    """
    reason = DONE
    column: Any = np.int64(-1)
    rows = cell(block, B_CAPACITY)
    columns = cell(block, B_COLUMNS)
    bitmap_bytes = (columns + 7) >> 3
    words = cell(block, B_WORDS)
    steps_at = cell(block, B_STEPS)
    nulls_at = cell(block, B_NULLS)
    marked_at = cell(block, B_MARKED)
    lacks_before = cell(block, B_HAS_BEFORE) and not is_update
    # An event without bytes of rows holds one row, of images without columns (log_event.cc, write_row).
    while n < limit and (q < end or (masks and fresh)):
        row_start = q
        program = 0
        passed: Any = np.int64(0)
        # An update has two images, the before image first, each by the steps of its program.
        for image in range(2 if is_update else 1):
            program = 1 if is_update and image == 0 else 0
            passed = np.int64(0)
            # The image begins with its bitmap of NULLs; a partial one is spread over all columns first.
            bitmap = q
            row_nulls = nulls_at + ((program * rows + n) * words) * 8
            if masks:
                bitmap = row_nulls
                q = spread_masks(masks + image * bitmap_bytes, q, end, columns, bitmap)
                store64(block + 8 * B_PARTIAL, np.uint64(1))
            else:
                q += bitmap_bytes
            column = np.int64(-1)
            if q > end:
                reason = CUT_SHORT
                break
            word = np.uint64(0)
            step = steps_at + program * columns * STEP_BYTES - STEP_BYTES
            # Each column by its step: a NULL is noted and leaves an empty cell, others are read by their kind.
            for c in range(columns):
                if c & 63 == 0:
                    word = load64(bitmap + (c >> 3))
                    store64(row_nulls + (c >> 3), word)
                step += STEP_BYTES
                kind = cell(step, STEP_KIND)
                slot = cell(step, STEP_SLOT)
                if (word >> np.uint64(c & 63)) & np.uint64(1):
                    if kind >= TEXT_1:
                        if kind <= PADDED:
                            store32(slot + 4 * n, np.uint32(cell(step, STEP_USED)))
                    elif kind != SKIP:
                        zero_slot(slot + cell(step, STEP_WIDTH) * n, cell(step, STEP_WIDTH))
                    continue
                # Numbers that are copied as they are, and short texts: the kinds of most columns, asked for first.
                if kind == COPY_8:
                    store64(slot + 8 * n, load64(q))
                    q += 8
                elif kind == COPY_4:
                    store32(slot + 4 * n, load32(q))
                    q += 4
                elif kind == COPY_2:
                    store16(slot + 2 * n, load16(q))
                    q += 2
                elif kind == COPY_1:
                    store8(slot + n, load8(q))
                    q += 1
                elif kind == TEXT_1 or kind == TEXT_2:  # noqa: PLR1714, SIM109 - ditto
                    length = np.int64(load8(q))
                    q += 1
                    if kind == TEXT_2:
                        length |= np.int64(load8(q)) << 8
                        q += 1
                    if q + length > end:
                        reason = CUT_SHORT
                        column = c
                        break
                    offset = cell(step, STEP_USED)
                    store32(slot + 4 * n, np.uint32(offset))
                    copy_text(cell(step, STEP_TEXT) + offset, q, length)
                    store64(step + 8 * STEP_USED, np.uint64(offset + length))
                    q += length
                # Columns that nobody reads: only their bytes are passed.
                elif kind == SKIP:
                    q += cell(step, STEP_PARAMETERS)
                elif kind == SKIP_1:
                    q += 1 + np.int64(load8(q))
                elif kind == SKIP_2:
                    q += 2 + np.int64(load16(q))
                # Integers for which Arrow has no type of the same width, or another sign.
                elif kind == UINT8_TO_16:
                    store16(slot + 2 * n, np.uint16(load8(q)))
                    q += 1
                elif kind == UINT16_TO_32:
                    store32(slot + 4 * n, np.uint32(load16(q)))
                    q += 2
                elif kind == UINT32_TO_64:
                    store64(slot + 8 * n, np.uint64(load32(q)))
                    q += 4
                elif kind == UINT64_TO_128:
                    store64(slot + 16 * n, load64(q))
                    store64(slot + 16 * n + 8, np.uint64(0))
                    q += 8
                elif kind == INT24_TO_32:
                    number = np.int64(load16(q)) | np.int64(load8(q + 2)) << 16
                    store32(slot + 4 * n, np.uint32((number ^ 0x800000) - 0x800000))
                    q += 3
                elif kind == UINT24_TO_32:
                    store32(slot + 4 * n, np.uint32(load16(q)) | np.uint32(load8(q + 2)) << np.uint32(16))
                    q += 3
                # Values in a form of their own. An impossible one ends the block; a zero date is a NULL that is marked.
                elif kind == DECIMAL_18 or kind == DECIMAL_38:  # noqa: PLR1714, SIM109 - ditto
                    if kind == DECIMAL_18:
                        good = read_decimal_18(
                            q,
                            slot + 16 * n,
                            cell(step, STEP_PARAMETERS + 1),
                            cell(step, STEP_PARAMETERS + 2),
                            cell(step, STEP_PARAMETERS + 3),
                            cell(step, STEP_PARAMETERS + 4),
                            cell(step, STEP_PARAMETERS + 5),
                        )
                    else:
                        good = read_decimal_38(
                            q,
                            slot + 16 * n,
                            cell(step, STEP_PARAMETERS + 1),
                            cell(step, STEP_PARAMETERS + 2),
                            cell(step, STEP_PARAMETERS + 3),
                            cell(step, STEP_PARAMETERS + 4),
                            cell(step, STEP_PARAMETERS + 5),
                        )
                    q += cell(step, STEP_PARAMETERS)
                    if not good:
                        reason = BAD_VALUE
                elif kind == DATETIME_TO_64 or kind == TIMESTAMP_TO_64:  # noqa: PLR1714, SIM109 - ditto
                    if kind == DATETIME_TO_64:
                        result = read_datetime(
                            q,
                            slot + 8 * n,
                            cell(step, STEP_PARAMETERS + 1),
                            cell(step, STEP_PARAMETERS + 2),
                            month_start,
                            month_length,
                        )
                    else:
                        result = read_timestamp(
                            q, slot + 8 * n, cell(step, STEP_PARAMETERS + 1), cell(step, STEP_PARAMETERS + 2)
                        )
                    q += cell(step, STEP_PARAMETERS)
                    if result == 1:
                        mark_null(row_nulls, marked_at + program * columns, c)
                    elif result == 2:
                        reason = BAD_VALUE
                elif kind == DATE_TO_32:
                    if not read_date(q, slot + 4 * n, month_start, month_length):
                        mark_null(row_nulls, marked_at + program * columns, c)
                    q += 3
                elif kind == TIME_TO_64:
                    if not read_time(
                        q,
                        slot + 8 * n,
                        cell(step, STEP_PARAMETERS),
                        cell(step, STEP_PARAMETERS + 1),
                        cell(step, STEP_PARAMETERS + 2),
                    ):
                        reason = BAD_VALUE
                    q += cell(step, STEP_PARAMETERS)
                # Integers and bytes of other widths: years, BIT, sets and fixed bytes.
                elif kind == YEAR_TO_16:
                    year = np.int64(load8(q))
                    store16(slot + 2 * n, np.uint16(1900 + year if year else 0))
                    q += 1
                elif kind == LITTLE_TO_64:
                    store64(
                        slot + 8 * n, load64(q) & (~np.uint64(0) >> np.uint64(64 - 8 * cell(step, STEP_PARAMETERS)))
                    )
                    q += cell(step, STEP_PARAMETERS)
                elif kind == BIG_TO_64:
                    store64(slot + 8 * n, load64_big(q) >> np.uint64(64 - 8 * cell(step, STEP_PARAMETERS)))
                    q += cell(step, STEP_PARAMETERS)
                elif kind == BIG_TO_128:
                    store64(slot + 16 * n, load64_big(q) >> np.uint64(64 - 8 * cell(step, STEP_PARAMETERS)))
                    store64(slot + 16 * n + 8, np.uint64(0))
                    q += cell(step, STEP_PARAMETERS)
                elif kind == COPY_N:
                    memmove(slot + cell(step, STEP_PARAMETERS) * n, q, cell(step, STEP_PARAMETERS))
                    q += cell(step, STEP_PARAMETERS)
                # Long texts, and texts of fixed width, whose zeros the log left out.
                elif kind == TEXT_3 or kind == TEXT_4:  # noqa: PLR1714, SIM109 - ditto
                    length = np.int64(load16(q)) | np.int64(load8(q + 2)) << 16
                    q += 3
                    if kind == TEXT_4:
                        length |= np.int64(load8(q)) << 24
                        q += 1
                    if q + length > end:
                        reason = CUT_SHORT
                        column = c
                        break
                    offset = cell(step, STEP_USED)
                    store32(slot + 4 * n, np.uint32(offset))
                    memmove(cell(step, STEP_TEXT) + offset, q, length)
                    store64(step + 8 * STEP_USED, np.uint64(offset + length))
                    q += length
                elif kind == PADDED:
                    length = np.int64(load8(q))
                    q += 1
                    if q + length > end or length > cell(step, STEP_PARAMETERS):
                        reason = CUT_SHORT if q + length > end else BAD_VALUE
                        column = c
                        break
                    offset = cell(step, STEP_USED)
                    store32(slot + 4 * n, np.uint32(offset))
                    memmove(cell(step, STEP_TEXT) + offset, q, length)
                    for k in range(length, cell(step, STEP_PARAMETERS)):
                        store8(cell(step, STEP_TEXT) + offset + k, np.uint8(0))
                    store64(step + 8 * STEP_USED, np.uint64(offset + cell(step, STEP_PARAMETERS)))
                    q += length
                # The remaining kinds: columns that nobody reads, behind a length of three or four bytes.
                elif kind == SKIP_3:
                    q += 3 + (np.int64(load16(q)) | np.int64(load8(q + 2)) << 16)
                else:
                    q += 4 + np.int64(load32(q))
                # A value that leads beyond the event ends the block, before its row counts.
                if q > end:
                    reason = CUT_SHORT
                if reason != DONE:
                    column = c
                    break
            # Number of columns that wrote something, which are taken back if the row cannot be.
            passed = column if column >= 0 else columns
            if reason != DONE:
                break
            if is_update and image == 0 and q == end and not masks:
                reason = CUT_SHORT  # an update ends in an after image
                column = np.int64(-1)
                break
        if masks and q == row_start and q < end:
            reason = CUT_SHORT  # bytes behind a row without any: no row would ever come to them
            column = np.int64(-1)
        # The row cannot be: all that its columns wrote is taken back, so that the block ends with the row before.
        if reason != DONE:
            if is_update and program == 0:
                take_back(block, n, 1, columns)
            take_back(block, n, program, passed)
            state[R_COLUMN] = column
            return reason, n, row_start
        if lacks_before:
            clear_before(block, n, n + 1)
        n += 1
        fresh = np.int64(0)
    return DONE, n, q
