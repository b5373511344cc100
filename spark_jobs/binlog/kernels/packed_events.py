"""Packed events: heads of payloads, the choice of row events, their bodies.

events/transaction_payload.py and rows/row_events.py turn packed events into plain ones in memory; these loops help
them.

Put here: what is done with whole events. Not here: walks through row images (row_images.py), inflating.
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.event_cells import (
    CHOSEN_ANY_TABLE,
    CHOSEN_BLANKED,
    CHOSEN_PACKED,
    CHOSEN_UNDECIDED,
    HEADER,
    IGNORABLE,
    LAST_PLAIN,
    MARK_ANY_TABLE,
    MARK_CONTROL,
    MARK_ENDS,
    MARK_ROWS,
    TX_COMMITTED,
    TX_FLAGS,
    TX_ROLLED_BACK,
    TX_XA,
)
from spark_jobs.binlog.kernels.intrinsics import load8, load16, memmove

PH_OFFSET = 0  # of the payload, from the event's header on
PH_SIZE = 1  # bytes of the payload
PH_TYPE = 2  # its compression, one of PAYLOAD_ZSTD …
PH_CLAIMED = 3  # bytes that it claims to inflate to, -1 where it does not say
PH_COLUMNS = 4

PAYLOAD_ZSTD = 0
PAYLOAD_NONE = 255
_MORE = 1 << 62


@kernel
def lenenc(offset: int, end: int) -> Any:
    """(value, offset after it) of a length-encoded integer; offset -1 where there is none before ``end``."""
    if offset >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(load8(offset))
    if first < 251:
        return first, offset + 1
    # 252, 253 and 254 announce two, three and eight bytes; 251 and 255 are no lengths.
    size = np.int64(0)
    if first == 252:
        size = np.int64(2)
    elif first == 253:
        size = np.int64(3)
    elif first == 254:
        size = np.int64(8)
    if size == 0 or offset + 1 + size > end:
        return np.int64(0), np.int64(-1)
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(load8(offset + 1 + k)) << (8 * k)
    if value < 0 or value > _MORE:
        return np.int64(0), np.int64(-1)
    return value, offset + 1 + size


@kernel
def _payload_head(header: int, end: int, head: Array) -> Any:
    """Reads fields (number, length, content), all length-encoded, up to the number 0; whether they make sense."""
    head[PH_SIZE] = head[PH_TYPE] = head[PH_CLAIMED] = -1
    offset: Any = header + HEADER
    while True:
        field, offset = lenenc(offset, end)
        if offset < 0:
            return False
        if field == 0:
            break
        length, offset = lenenc(offset, end)
        if offset < 0 or offset + length > end:
            return False
        # Fields that a newer server adds are skipped by their length.
        if field <= 3:
            value, after = lenenc(offset, offset + length)
            if after < 0:
                return False
            head[field] = value
        offset += length
    head[PH_OFFSET] = offset - header
    return head[PH_TYPE] >= 0 and head[PH_SIZE] == end - offset


@kernel
def payload_heads(addresses: Array, lengths: Array, heads: Array) -> Any:
    """Fills ``heads`` [n, PH_COLUMNS] from TRANSACTION_PAYLOAD events; returns the first that makes no sense, or n.

    Source: libs/mysql/binlog/event/codecs/binary.cpp. Its field numbers are those of the columns: 1 payload size,
    2 compression type, 3 uncompressed size; unknown fields are skipped. lengths: without a checksum.
    """
    for event in range(len(addresses)):
        if not _payload_head(addresses[event], addresses[event] + lengths[event], heads[event]):
            return event
    return len(addresses)


@kernel
def complete_events(marks: Array) -> Any:
    """Number of events that there are up to the last one with which a transaction ends, or that stands outside any."""
    for event in range(len(marks) - 1, -1, -1):
        if marks[event] & (MARK_ENDS | MARK_CONTROL):
            return event + 1
    return 0


@kernel
def choose_rows(
    count: int,
    marks: Array,
    codes: Array,
    tables: Array,
    transactions: Array,
    table_groups: Array,
    events: Array,
    groups: Array,
) -> Any:
    """Find the wanted row events among the first ``count`` events: their number, and findings (bits CHOSEN_…).

    table_groups: the group by ordinal of a table map, -1 for rows that nobody wants. events, groups: event and group of
    each row event.
    """
    n = np.uintp(0)
    findings = 0
    # Row events of the groups; what else is among the events decides which way the scan is decoded.
    for k in range(count):
        event = np.uintp(k)
        mark = marks[event]
        if mark & MARK_ROWS:
            group = table_groups[np.uintp(tables[event])]
            if group >= 0:
                events[n] = k
                groups[n] = group
                n += np.uintp(1)
                if codes[event] > LAST_PLAIN:
                    findings |= CHOSEN_PACKED
        elif mark & MARK_ANY_TABLE:
            findings |= CHOSEN_ANY_TABLE
        elif codes[event] == IGNORABLE and tables[event] >= 0 and table_groups[tables[event]] >= 0:
            findings |= CHOSEN_BLANKED
    for k in range(len(transactions)):
        if transactions[k, TX_FLAGS] & (TX_XA | TX_ROLLED_BACK):
            findings |= CHOSEN_UNDECIDED
    return np.int64(n), findings


@kernel
def gather_rows(
    events: Array,
    offsets: Array,
    sizes: Array,
    codes: Array,
    owners: Array,
    transactions: Array,
    base: int,
    checksum: int,
    address: int,
    readable: int,
    gathered: Array,
    chosen_codes: Array,
    chosen_owners: Array,
) -> Any:
    """Cells of the row kernel for the chosen events of a scan; the first that ends beyond ``readable``.

    offsets, sizes, codes, owners, transactions: as scan filled them; base, checksum: as scan got them; address: of the
    buffer's first byte; readable: offset in it. gathered: [5, n] addresses, lengths without a checksum, offsets in the
    file, commit times, zeros.
    """
    late = len(events)
    for k in range(len(events)):
        at = np.uintp(k)
        event = np.uintp(events[at])
        offset = offsets[event]
        length = sizes[event] - checksum
        owner = owners[event]
        gathered[0, at] = address + offset
        gathered[1, at] = length
        gathered[2, at] = base + offset
        gathered[3, at] = transactions[np.uintp(owner), TX_COMMITTED]
        gathered[4, at] = 0
        chosen_codes[at] = codes[event]
        chosen_owners[at] = owner
        # The row kernel reads beyond an event: those at the buffer's end need a copy.
        if offset + length > readable and late == len(events):
            late = k
    return late


@kernel
def rows_head(header: int, end: int, columns: int) -> Any:
    """Address of a row event's first bitmap of present columns, -1 where its head is cut or its columns are others."""
    code = load8(header + 4)
    q: Any = header + HEADER + 8
    if (code >= 30 and code <= 39) or code >= 169:
        if q + 2 > end:
            return np.int64(-1)
        q += np.int64(load16(q))
    count, q = lenenc(q, end)
    return q if q >= 0 and count == columns else np.int64(-1)


@kernel
def rows_body(header: int, end: int, columns: int, images: int) -> Any:
    """Bytes before the first row of a row event with ``images`` bitmaps, -1 where there are not as many."""
    q = rows_head(header, end, columns)
    if q < 0:
        return q
    q += images * ((columns + 7) >> 3)
    return q - header if q <= end else np.int64(-1)


@kernel
def packed_rows(addresses: Array, lengths: Array, columns: int, images: Array, bodies: Array, out: int) -> Any:
    """Copies row events one after the other to the address ``out``; ``bodies``: where the rows of each begin.

    Returns how many there are before one whose head does not hold the bitmaps of ``images``.
    """
    for k in range(len(addresses)):
        bodies[k] = rows_body(addresses[k], addresses[k] + lengths[k], columns, images[k])
        if bodies[k] < 0:
            return k
        memmove(out, addresses[k], lengths[k])
        out += lengths[k]
    return len(addresses)


@kernel
def interleave(heads: int, starts: Array, lengths: Array, contents: int, sizes: Array, out: int) -> None:
    """Writes to ``out`` each head, ``lengths`` bytes from ``starts`` on, then the next ``sizes`` of ``contents``."""
    for k in range(len(starts)):
        memmove(out, heads + starts[k], lengths[k])
        memmove(out + lengths[k], contents, sizes[k])
        out += lengths[k] + sizes[k]
        contents += sizes[k]
