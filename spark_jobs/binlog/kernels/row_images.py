"""Row images read without decoding: which columns are present, how many rows there are, partial JSON updates.

Put here: bitmaps of columns, sizes of values on the wire. Not here: values themselves (row_values.py, row_steps.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel, part
from spark_jobs.binlog.kernels.intrinsics import load8, load16, load64, memmove, store8, store32, store64
from spark_jobs.binlog.kernels.packed_events import lenenc, rows_head


@kernel
def _is_set(bitmap: int, bit: int) -> Any:
    return (load8(bitmap + (bit >> 3)) >> np.uint8(bit & 7)) & np.uint8(1) != 0


@kernel
def _count_set(bitmap: int, bits: int) -> Any:
    count: Any = np.int64(0)
    for k in range(bits):
        count += _is_set(bitmap, k)
    return count


@kernel
def _past_field(q: Any, end: int, size: int) -> Any:
    """The address after a value; size: its bytes, or below zero those of the length before it. -1 beyond ``end``."""
    if size < 0:
        if q - size > end:
            return np.int64(-1)
        length = np.int64(0)
        for k in range(-size):
            length |= np.int64(load8(q + k)) << (8 * k)
        q += length - size
    else:
        q += size
    return q if q <= end else np.int64(-1)


@kernel
def _past_image(q: int, end: int, present: int, columns: int, sizes: Array, spots: Array) -> Any:
    """The address after a row image, -1 beyond ``end``. spots[column]: where its value lies; 0 absent, -1 NULL."""
    bits = q
    q += (_count_set(present, columns) + 7) >> 3
    if q > end:
        return np.int64(-1)
    # Null bits are of present columns alone.
    offset = 0
    for c in range(columns):
        spots[c] = 0
        if _is_set(present, c):
            if _is_set(bits, offset):
                spots[c] = -1
            else:
                spots[c] = q
                q = _past_field(q, end, sizes[c])
                if q < 0:
                    return q
            offset += 1
    return q


@kernel
def count_rows(
    addresses: Array, lengths: Array, columns: int, sizes: Array, documents: Array, spots: Array, counts: Array
) -> Any:
    """Fills ``counts`` with the rows of each event of one table; returns the first event that is cut, or n.

    lengths: without a checksum. sizes: per column the bytes of a value, or below zero those of the length before it.
    documents: 1 for JSON columns, which partial updates tell apart. spots: room for a number a column.
    """
    bitmap_bytes = (columns + 7) >> 3
    for event in range(len(addresses)):
        header = addresses[event]
        end = header + lengths[event]
        code = load8(header + 4)
        is_update = code == 31 or code == 24 or code == 39  # noqa: PLR1714 - numba is slow at tuples
        first = rows_head(header, end, columns)
        q = first + (2 if is_update else 1) * bitmap_bytes
        if first < 0 or q > end or code > 39:
            return event
        counts[event] = 0
        all_columns = is_full(first, columns) and (not is_update or is_full(first + bitmap_bytes, columns))
        while q < end or (counts[event] == 0 and not all_columns):  # one row without bytes, of images without columns
            start = q
            q = _past_image(q, end, first, columns, sizes, spots)
            if q >= 0 and code == 39:
                q, _partial = _past_shared(q, end, documents)
            if q >= 0 and is_update:
                q = _past_image(q, end, first + bitmap_bytes, columns, sizes, spots)
            if q < 0 or start == q < end:  # cut, or rows of no columns, which could be any number
                return event
            counts[event] += 1
    return len(addresses)


@kernel
def _past_shared(q: int, end: int, documents: Array) -> Any:
    """(address after what stands between the images of a partial update, address of its bits or 0); -1 beyond ``end``.

    Value options: 0, or 1 with a bit for each JSON column of the table after it (sql/rpl_record.cc).
    """
    options, q = lenenc(q, end)
    if q < 0 or options > 1:
        return np.int64(-1), np.int64(0)
    if options == 0:
        return q, np.int64(0)
    count: Any = np.int64(0)
    for k in range(len(documents)):
        count += documents[k]
    bits = q
    q += (count + 7) >> 3
    return (q if q <= end else np.int64(-1)), bits


CELL_EVENT, CELL_ROW, CELL_COLUMN, CELL_BEFORE, CELL_DIFFS = range(5)
CELL_COLUMNS = 5


@kernel
def _put_bytes(out: int, offset: int, source: int, count: int) -> Any:
    """Copies to ``out + place`` unless ``out`` is 0, and returns the offset after it."""
    if out:
        memmove(out + offset, source, count)
    return offset + count


@kernel
def plain_updates(
    addresses: Array,
    lengths: Array,
    columns: int,
    sizes: Array,
    documents: Array,
    cells: Array,
    contents: Array,
    starts: Array,
    before: Array,
    after: Array,
    out: int,
    failed: Array,
) -> Any:
    """Rewrites PARTIAL_UPDATE_ROWS events as UPDATE_ROWS events at ``out``; returns how many cells hold diffs, or -1.

    A first run with out = 0 finds the cells and counts the bytes without their documents; the second, with the
    documents (contents: [n, 2] address and length, by cell), writes. starts[event]: bytes before it, one more than
    events. cells: [n, CELL_COLUMNS], the first n found; CELL_BEFORE is the address of the document before (of the
    length in front of it), 0 absent, -1 NULL; CELL_DIFFS that of the diffs, their length of 4 bytes in front.
    failed: event and row where -1 is returned. before, after: room for a number a column.
    """
    bitmap_bytes = (columns + 7) >> 3
    cell = np.int64(0)
    offset = np.int64(0)
    # Each event gets the head of the partial one; its type code changes at the end.
    for event in range(len(addresses)):
        failed[0], failed[1] = event, -1
        starts[event] = offset
        header = addresses[event]
        end = header + lengths[event]
        first = rows_head(header, end, columns)
        q = first + 2 * bitmap_bytes
        if first < 0 or q > end:
            return np.int64(-1)
        event_start = offset
        offset = _put_bytes(out, offset, header, q - header)
        row = np.int64(0)
        # A row: the before image as it is, then the after image with whole documents in the place of diffs.
        while q < end:
            failed[1] = row
            start = q
            q = _past_image(q, end, first, columns, sizes, before)
            if q < 0:
                return np.int64(-1)
            offset = _put_bytes(out, offset, start, q - start)
            q, bits = _past_shared(q, end, documents)
            if q < 0:
                return np.int64(-1)
            start = q
            q = _past_image(q, end, first + bitmap_bytes, columns, sizes, after)
            if q < 0:
                return np.int64(-1)
            # Each document that the row holds as diffs is a cell, and the bytes between cells are copied.
            document = 0
            for c in range(columns):
                if not documents[c]:
                    continue
                if bits and _is_set(bits, document) and after[c] > 0:
                    if cell < len(cells):
                        cells[cell, CELL_EVENT] = event
                        cells[cell, CELL_ROW] = row
                        cells[cell, CELL_COLUMN] = c
                        cells[cell, CELL_BEFORE] = before[c]
                        cells[cell, CELL_DIFFS] = after[c]
                    offset = _put_bytes(out, offset, start, after[c] - start)
                    start = _past_field(after[c], end, sizes[c])
                    if cell < len(contents):
                        if out:
                            store32(out + offset, np.uint32(contents[cell, 1]))
                        offset = _put_bytes(out, offset + 4, contents[cell, 0], contents[cell, 1])
                    cell += 1
                document += 1
            offset = _put_bytes(out, offset, start, q - start)
            row += 1
        # Type UPDATE_ROWS, and the length that the event has now.
        if out:
            store8(out + event_start + 4, np.uint8(31))
            store32(out + event_start + 9, np.uint32(offset - event_start))
    starts[len(addresses)] = offset
    return cell


@part
def is_full(bitmap: int, columns: int) -> Any:
    """True if all of the first ``columns`` bits are set."""
    while columns >= 64:
        if load64(bitmap) != ~np.uint64(0):
            return False
        bitmap += 8
        columns -= 64
    rest = (np.uint64(1) << np.uint64(columns)) - np.uint64(1)
    return load64(bitmap) & rest == rest


@kernel
def spread_masks(mask: int, bits: int, end: int, columns: int, target: int) -> Any:
    """Null bits of a partial image's columns into null bits of all: a column that the mask leaves out counts as null.

    Returns the offset after ``bits``, beyond ``end`` where they are cut. ``target`` has whole words of 8 bytes.
    """
    position = 0
    word = np.uint64(0)
    for c in range(columns):
        null = np.uint8(1)
        if (load8(mask + (c >> 3)) >> np.uint8(c & 7)) & np.uint8(1):
            if position & 7 == 0 and bits + (position >> 3) >= end:
                return end + 1
            null = (load8(bits + (position >> 3)) >> np.uint8(position & 7)) & np.uint8(1)
            position += 1
        word |= np.uint64(null) << np.uint64(c & 63)
        if c & 63 == 63 or c == columns - 1:
            store64(target + 8 * (c >> 6), word)
            word = np.uint64(0)
    return bits + ((position + 7) >> 3)


@kernel
def image_masks(addresses: Array, columns: int, masks: Array) -> None:
    """Columns in the images of row events, a set bit for each, from events that decode_rows has been through.

    masks: uint64[event, 2, word], zeroed; 0: the row's image, 1: an update's before image.
    """
    size = (columns + 7) >> 3
    for k in range(len(addresses)):
        code = load8(addresses[k] + 4)
        offset = addresses[k] + 27
        if code >= 30:
            offset += np.int64(load16(offset))
        offset += 3 if load8(offset) > 250 else 1
        is_update = code == 31 or code == 24  # noqa: PLR1714 - numba is slow at tuples
        for image in range(2 if is_update else 1):
            program = 1 if is_update and image == 0 else 0
            for c in range(columns):
                bit = (load8(offset + (c >> 3)) >> np.uint8(c & 7)) & np.uint8(1)
                masks[k, program, c >> 6] |= np.uint64(bit) << np.uint64(c & 63)
            offset += size
