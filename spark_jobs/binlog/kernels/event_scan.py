"""Scan of event headers in one pass, which records every event.

Put here: the walk and what it does for each event. Not here: the parts of a GTID, a QUERY or a TABLE_MAP.
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.checksum import crc32
from spark_jobs.binlog.kernels.compile import Array, kernel, part
from spark_jobs.binlog.kernels.event_cells import (
    AGAIN_FORMAT,
    BAD_CHECKSUM,
    BAD_LENGTH,
    BEGUN,
    CANNOT_PASS,
    EVENTS_FULL,
    FORMAT,
    FRAGMENT,
    FRAGMENTS,
    GTID,
    GTID_MARIADB,
    GTID_TAGGED,
    HEADER,
    IGNORABLE,
    IGNORED,
    INSIDE,
    LOAD_QUERY,
    LONGEST_EVENT,
    MAPS_FULL,
    MARK_ANY_TABLE,
    MARK_BEGINS,
    MARK_CONTROL,
    MARK_ENDS,
    MARK_IGNORED,
    MARK_ROWS,
    MARK_STATEMENT,
    MARK_STATEMENT_ENDS,
    NEW_MAP,
    NO_MAP,
    NOT_ENDED,
    NOT_KNOWN,
    OUTSIDE,
    PAYLOAD,
    QUERY,
    QUERY_COMPRESSED,
    RECENT,
    ROWS,
    S_EVENTS,
    S_GROUP,
    S_GROUP_BODY,
    S_MAPS,
    S_PHASE,
    S_RECENT,
    S_TRANSACTIONS,
    SCANNED,
    START_ENCRYPTION,
    STOPS,
    TABLE_MAP,
    TX_COLUMNS,
    TX_COMMITTED,
    TX_FLAGS,
    TX_HAS_ROWS,
    TX_NO_EFFECT,
    TX_START,
    TX_STOP,
    TX_XA,
    UNKNOWN,
    XA_PREPARE,
    XID,
)
from spark_jobs.binlog.kernels.gtids import gtid_length, has_no_effect, read_gtid, read_tagged_gtid
from spark_jobs.binlog.kernels.intrinsics import load8, load16, load32, load48, load64, store64
from spark_jobs.binlog.kernels.statements import read_query
from spark_jobs.binlog.kernels.table_maps import find_map, recent_map

_DUMMY_TABLE = 0xFFFFFF  # a row event of this id only closes the statement's maps (server: rows_event.h)
_BLANKED = 11  # bytes of a blanked row event's body at least: id 6, flags 2, the type it was, RD (events/redaction.py)


@part
def _begin_transaction(transaction: Array, start: int, header: int) -> Any:
    for k in range(TX_COLUMNS):
        transaction[np.uintp(k)] = 0
    transaction[TX_START] = start
    transaction[TX_COMMITTED] = np.int64(load32(header)) * 1000000


@part
def _is_blanked_rows(header: int, count: int, meanings: Array) -> Any:
    """True if an IGNORABLE event is a row event whose content was left out when the log was extracted."""
    if count < _BLANKED or not load16(header + 17) & np.uint16(0x80):
        return False
    body = header + HEADER
    return meanings[load8(body + 8)] == ROWS and load8(body + 9) == np.uint8(82) and load8(body + 10) == np.uint8(68)


@kernel
def _meaning_of_others(header: int, count: int, meaning: int, at: int, phase: int, meanings: Array) -> Any:
    """(what it means, why it cannot be passed) for an event that is not of those a transaction is made of.

    What it means is FORMAT, CONTROL, IGNORED, or ROWS where it is one whose content was left out; at: its offset in the
    file.
    """
    code = load8(header + 4)
    is_ignorable = load16(header + 17) & np.uint16(0x80) != 0  # LOG_EVENT_IGNORABLE_F
    if meaning == UNKNOWN:
        if not is_ignorable:
            return UNKNOWN, NOT_KNOWN
        meaning = IGNORED
    if meaning == STOPS:
        if code != START_ENCRYPTION or not is_ignorable:
            return STOPS, CANNOT_PASS
        meaning = IGNORED  # so marked by a server that sends what it has decrypted (sql/sql_repl.cc)
    if meaning == IGNORED:
        if phase != OUTSIDE and code == IGNORABLE and _is_blanked_rows(header, count, meanings):
            meaning = ROWS  # of its table, to which it belongs, and without a row
        return meaning, SCANNED
    if phase != OUTSIDE:
        return meaning, NOT_ENDED
    if meaning == FORMAT and at > 4:
        return meaning, AGAIN_FORMAT
    return meaning, SCANNED


@kernel
def scan(
    address: int,
    offset: Any,
    size: int,
    base: int,
    checksum: int,
    meanings: Array,
    state: Array,
    cells: Any,
    transactions: Array,
    open_maps: Array,
    slots: Array,
    bodies: Array,
) -> Any:
    """Notes every event from ``offset`` on while whole ones are there, and verifies its checksum.

    Returns (outcome, offset).

    address: of the buffer; base: file offset of its first byte; checksum: bytes of CRC32 after each event, 4 or 0;
    meanings: uint8[256] by type code. cells: offsets … marks, a cell an event each; transactions: [n, TX_COLUMNS].
    open_maps: [n, 2] table id, ordinal; slots, bodies: see find_map.
    No byte outside [address, address + size) is read.
    """
    n = state[S_EVENTS]
    outcome = SCANNED
    overhead = HEADER + checksum
    maps_at = open_maps.ctypes.data
    bodies_at = bodies.ctypes.data
    while offset + HEADER <= size:
        # An event that is here as a whole, of a length that can be.
        if n == len(cells[0]) or state[S_TRANSACTIONS] == len(transactions):
            outcome = EVENTS_FULL
            break
        header = address + offset
        length = np.int64(load32(header + 9))
        if length < overhead or length > LONGEST_EVENT:
            outcome = BAD_LENGTH
            break
        if offset + length > size:
            break
        # Its type, and its body between header and checksum.
        code = load8(header + 4)
        meaning = np.int64(meanings[np.uintp(code)])
        body = header + HEADER
        count = length - overhead
        # A fragment stands for the row event that its caller put together; of all others the checksum is verified.
        if code == FRAGMENT:
            if state[S_GROUP] == 0:
                outcome = FRAGMENTS
                break
            # One event of the length of all, whose checksums were verified; its body is that of the row event.
            length = state[S_GROUP]
            body = header + state[S_GROUP_BODY]
            count = np.int64(8)
            state[S_GROUP] = 0
        elif checksum and crc32(header, length - 4, offset) != load32(header + length - 4):
            outcome = BAD_CHECKSUM
            break
        # Events outside of transactions: formats, rotations, and types that are ignored or stop the scan.
        table = np.int64(-1)
        mark = 0
        if meaning <= IGNORED:
            meaning, outcome = _meaning_of_others(header, count, meaning, base + offset, state[S_PHASE], meanings)
            if outcome != SCANNED:
                break
            if meaning != IGNORED and meaning != ROWS:  # noqa: PLR1714 - numba is slow at tuples
                mark = MARK_CONTROL
            elif meaning == IGNORED and state[S_PHASE] == OUTSIDE:
                mark = MARK_CONTROL | MARK_IGNORED
        # Events of transactions. First what an event needs: a GTID its length, a table map its ordinal, rows their map.
        if not mark:
            begins = state[S_PHASE] == OUTSIDE
            is_gtid = meaning >= GTID and meaning <= GTID_MARIADB
            if is_gtid:
                if not begins:
                    outcome = NOT_ENDED
                    break
                if meaning != GTID_TAGGED and count < gtid_length(meaning):
                    outcome = BAD_LENGTH
                    break
            elif meaning == TABLE_MAP:
                if count < 8 + 2:
                    outcome = BAD_LENGTH
                    break
                table_id = load48(body)
                table = recent_map(body + 6, count - 6, state, bodies_at, table_id)
                if table < 0:
                    table = find_map(body + 6, count - 6, slots, bodies)
                    if table < 0:
                        outcome = NEW_MAP
                        break
                    state[S_RECENT + (table_id & (RECENT - 1))] = table + 1
                if state[S_MAPS] == len(open_maps):
                    outcome = MAPS_FULL
                    break
                opened = maps_at + 16 * state[S_MAPS]
                store64(opened, np.uint64(table_id))
                store64(opened + 8, np.uint64(table))
                state[S_MAPS] += 1
            elif meaning == ROWS:
                if count < 8:
                    outcome = BAD_LENGTH
                    break
                table_id = load48(body)
                for k in range(state[S_MAPS] - 1, -1, -1):
                    if np.int64(load64(maps_at + 16 * k)) == table_id:
                        table = np.int64(load64(maps_at + 16 * k + 8))
                        break
                if table < 0 and table_id != _DUMMY_TABLE:
                    outcome = NO_MAP
                    break
                mark = MARK_ROWS if table >= 0 and code != IGNORABLE else MARK_IGNORED
            # The transaction that the event belongs to; the first event outside of one begins the next.
            state[S_TRANSACTIONS] += begins
            transaction = transactions[np.uintp(state[S_TRANSACTIONS] - 1)]
            if begins:
                _begin_transaction(transaction, base + offset, header)
                state[S_PHASE] = BEGUN
                mark |= MARK_BEGINS
            # What the event does to its transaction: whether it continues, ends, and what it is marked with.
            ends = False
            if meaning == ROWS:
                state[S_PHASE] = INSIDE
                transaction[TX_FLAGS] |= TX_HAS_ROWS
                if load16(body + 6) & np.uint16(1):  # STMT_END_F
                    mark |= MARK_STATEMENT_ENDS
                    state[S_MAPS] = 0
            elif meaning == TABLE_MAP:
                state[S_PHASE] = INSIDE
            elif is_gtid:
                if meaning == GTID_TAGGED:
                    if not read_tagged_gtid(transaction, body, count):
                        outcome = BAD_LENGTH
                        break
                else:
                    read_gtid(transaction, meaning, header, body, count)
                    if meaning == GTID_MARIADB:
                        flags = load8(body + 12)
                        if not flags & np.uint8(1):  # FL_STANDALONE
                            state[S_PHASE] = INSIDE
                        if flags & np.uint8(0xC0):  # FL_PREPARED_XA, FL_COMPLETED_XA
                            transaction[TX_FLAGS] |= TX_XA
                        if has_no_effect(body, count):
                            transaction[TX_FLAGS] |= TX_NO_EFFECT
            elif meaning == XID:
                ends = True
            elif meaning in (QUERY, LOAD_QUERY, QUERY_COMPRESSED):
                query_marks = read_query(body, count, meaning, state, transaction)
                if query_marks < 0:
                    outcome = BAD_LENGTH if query_marks == -1 else NOT_ENDED
                    break
                mark |= query_marks
                ends = query_marks & MARK_ENDS != 0
                if transaction[TX_FLAGS] & TX_NO_EFFECT:
                    mark = (mark & ~MARK_STATEMENT) | MARK_IGNORED
            elif meaning in (PAYLOAD, XA_PREPARE):
                ends = True
                if meaning == PAYLOAD:
                    mark |= MARK_ANY_TABLE
                else:
                    transaction[TX_FLAGS] |= TX_XA
            else:
                mark |= MARK_IGNORED
            # The end of the transaction closes it and forgets its table maps.
            if ends:
                mark |= MARK_ENDS
                transaction[TX_STOP] = base + offset + length
                state[S_PHASE] = OUTSIDE
                state[S_MAPS] = 0
        # The event's cells.
        offsets, lengths, codes, tables, owners, marks = cells
        event = np.uintp(n)  # of a signed one, numba asks whether it counts from the end
        offsets[event] = offset
        lengths[event] = length
        codes[event] = code
        tables[event] = table
        owners[event] = -1 if mark & MARK_CONTROL else state[S_TRANSACTIONS] - 1
        marks[event] = mark
        n += 1
        offset += length
    state[S_EVENTS] = n
    return outcome, offset
