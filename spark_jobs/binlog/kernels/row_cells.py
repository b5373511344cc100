"""Cells and codes of the row kernel: kinds of columns, its state, blocks, steps, and the calendar that dates need.

What the row kernel does with a column is its kind; types/ chooses it. Fixed kinds fill slots of a fixed width, kinds
of variable length fill int32 offsets and bytes.

Put here: constants and tables of rows. Not here: loops; cells of events (event_cells.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.addresses import address_of

SKIP = 0  # parameter 0: size on the wire
COPY_1, COPY_2, COPY_4, COPY_8 = 1, 2, 3, 4
UINT8_TO_16, UINT16_TO_32, UINT32_TO_64, UINT64_TO_128 = 5, 6, 7, 8
INT24_TO_32, UINT24_TO_32 = 9, 10
LITTLE_TO_64, BIG_TO_64, BIG_TO_128 = 11, 12, 13  # parameter 0: size on the wire, 1 to 8
# parameters: size, bytes of the fraction, microseconds in one unit of it
YEAR_TO_16, DATE_TO_32, DATETIME_TO_64, TIMESTAMP_TO_64, TIME_TO_64 = 14, 15, 16, 17, 18
# parameters: size, bytes of the lead, whole groups, bytes of the tail, 10 ^ digits of the tail, 10 ^ digits of the lead
DECIMAL_18, DECIMAL_38 = 19, 20
COPY_N = 21  # parameter 0: size on the wire and of the slot
TEXT_1, TEXT_2, TEXT_3, TEXT_4 = 24, 25, 26, 27  # a length of 1 to 4 bytes, then bytes
PADDED = 28  # a length of 1 byte, then bytes; parameter 0: the length to which zero bytes are added
SKIP_1, SKIP_2, SKIP_3, SKIP_4 = 32, 33, 34, 35  # lengths as above, nothing kept

DONE, BLOCK_FULL, CUT_SHORT, BAD_VALUE, PARTIAL_IMAGE, OTHER_COLUMN_COUNT = 0, 1, 2, 3, 4, 5
"""Reason why decode_rows came back. CUT_SHORT and BAD_VALUE name a column in ``state[R_COLUMN]`` (-1: the row's null
bitmap)."""

R_EVENT, R_OFFSET, R_ORDINAL, R_COLUMN, R_MASKS, R_FRESH = range(6)
"""Cells of decode_rows' state: see there."""
R_CELLS = 6

(
    B_ROWS,  # rows filled
    B_CAPACITY,  # rows that there is room for; 0 where no block is open
    B_COLUMNS,
    B_WORDS,  # of null bits a row and image
    B_STEPS,  # address of steps[program, column, STEP_CELLS]
    B_NULLS,  # address of nulls[program, row of capacity, word], a set bit for a null
    B_VARIABLE,  # address of the steps' numbers whose text nothing bounds but the events: their room is looked after
    B_VARIABLES,  # how many they are
    B_KEPT,  # address of the steps' numbers of program 1 that keep values
    B_KEPTS,  # how many they are
    B_HAS_BEFORE,  # 1 once a row of the block has a before image that is kept
    B_ROOM,  # bytes of text there is room for at least; below 32: to be counted
    B_MARKED,  # address of marked[program, column]: 1 where slots hold marks
    B_OPS,  # addresses of what each row has beside its columns
    B_OFFSETS,
    B_ORDINALS,
    B_COMMITTED,
    B_SOURCES,  # the row's event; 0 where nobody asks for it
    B_TAKES_PARTIAL,  # 1: images without all columns are read; a column that is left out counts as null
    B_PARTIAL,  # 1 once a row of the block has such an image
) = range(20)
"""Cells of int64 that describe the block which one table's rows go into."""
B_CELLS = 20

STEP_KIND, STEP_SLOT, STEP_WIDTH, STEP_TEXT, STEP_USED, STEP_CAPACITY, STEP_PARAMETERS = range(7)
"""Action of the row kernel on one column, cells of int64: its kind, the address of its slots and their width, the
address of its text, bytes of it used, bytes there are; then six parameters of the kind."""
STEP_CELLS = 12
STEP_BYTES = 8 * STEP_CELLS

DATE_MARK = -(1 << 31)
TIME_MARK = -(1 << 63)
"""A date that no calendar has is stored in its slot as mark + packed bits, under a null; no real one is that small."""


def _calendar() -> tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.uint8]]]:
    """Days since 1970-01-01 before a month's first day, and the month's length, by ``year * 13 + month``.

    The length is 0 where year or month is 0: no date there has a place in a calendar.
    """
    year, month = np.divmod(np.arange(1 << 17), 13)
    starts = np.zeros(1 << 17, np.int32)
    lengths = np.zeros(1 << 17, np.uint8)
    real = (year >= 1) & (year <= 9999) & (month >= 1)
    first = (year[real] - 1970).astype("M8[Y]").astype("M8[M]") + (month[real] - 1)
    starts[real] = first.astype("M8[D]").astype(np.int64) - 1
    lengths[real] = ((first + 1).astype("M8[D]") - first.astype("M8[D]")).astype(np.int64)
    return starts, lengths


MONTH_START, MONTH_LENGTH = _calendar()
CALENDAR: tuple[int, int] = address_of(MONTH_START), address_of(MONTH_LENGTH)
"""Addresses of both."""
