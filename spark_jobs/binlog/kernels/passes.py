"""Passes: read, scanned and decoded by turns, while each is plain.

Put here: the loop around walk and row kernel. Not here: when Python takes over (rows/bulk_passes.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.checksum import crc32, separate_checksums
from spark_jobs.binlog.kernels.compile import Array, kernel, part
from spark_jobs.binlog.kernels.event_cells import (
    OUTSIDE,
    S_COMPLETE,
    S_COMPLETE_EVENTS,
    S_EVENTS,
    S_MAPS,
    S_PHASE,
    SCANNED,
    TX_COLUMNS,
    TX_FLAGS,
    TX_ROLLED_BACK,
    TX_XA,
)
from spark_jobs.binlog.kernels.event_scan import walk
from spark_jobs.binlog.kernels.intrinsics import load64_at, memmove, read_bytes, store64_at
from spark_jobs.binlog.kernels.row_cells import DONE, R_CELLS
from spark_jobs.binlog.kernels.row_decode import decode_rows

(
    P_FILLED,  # bytes that lie in the memory
    P_BASE,  # file offset of its first one
    P_ENDED,  # file offset after the last complete transaction or control event whose rows were decoded
    P_ENDING,  # the same once this pass is done
    P_EARLY,  # whether rows of the transaction that is open were decoded
    P_EVENTS,  # row events of this pass; -1: it is to be read yet
    P_DONE,  # bytes that it takes
    P_SCANNED,  # bytes that were scanned, P_DONE and those that are scanned again
    P_OPEN,  # whether this pass has rows of the transaction that is open after it
) = range(9)
"""State between two calls of take_passes, cells of int64."""
P_CELLS = 9

PASSES_FULL, PASSES_STOPPED, PASSES_OVER, PASSES_NEWS = range(4)
"""Reason why take_passes came back: P_BASE is behind ``until``; the row kernel has; nothing more could be read, or
there is no room for it; what Python has to see first. The last two leave the pass as if never scanned, its bytes in the
memory."""


@part
def _copy_words(source: Array, target: Array, count: int) -> None:
    """The first so many of 64 bits each."""
    for k in range(count):
        store64_at(target.ctypes.data, k, load64_at(source.ctypes.data, k))


@kernel
def _take_up(
    descriptor: int,
    address: int,
    room: int,
    step: int,
    limit: int,
    checksum: int,
    meanings: Array,
    scanner: Any,
    rows: Any,
    passes: Array,
) -> Any:
    """Reads and scans until a transaction is complete, or more than ``limit`` bytes of one are there.

    Returns (outcome, bytes whose checksums are joined). Unless the outcome is PASSES_FULL, the caller restores
    the state.
    """
    state, open_maps, transaction, slots, bodies = scanner
    state[S_EVENTS] = 0
    state[S_COMPLETE] = 0
    base = passes[P_BASE]
    offset = np.int64(0)
    while True:
        before = passes[P_FILLED]
        after = min(before + step, room)
        while passes[P_FILLED] < after:
            count = read_bytes(descriptor, address + passes[P_FILLED], after - passes[P_FILLED])
            if count < 0:
                return PASSES_OVER, offset  # where a signal came it is Python's turn
            if count == 0:
                break
            passes[P_FILLED] += count
        if passes[P_FILLED] == before:
            return PASSES_OVER, offset
        verified = offset
        outcome, offset = walk(
            address, offset, passes[P_FILLED], base, checksum, meanings, state, None, rows, transaction, open_maps,
            slots, bodies,
        )  # fmt: skip
        if outcome != SCANNED or (checksum and crc32(address + verified, offset - verified, verified)):
            return PASSES_NEWS, offset
        if state[S_PHASE] != OUTSIDE and transaction[0, TX_FLAGS] & (TX_XA | TX_ROLLED_BACK):
            return PASSES_NEWS, offset
        boundary = state[S_COMPLETE]
        events = state[S_COMPLETE_EVENTS] if boundary else np.int64(0)
        passes[P_ENDING] = base + boundary if boundary else passes[P_ENDED]
        passes[P_OPEN] = 0
        if base + offset - passes[P_ENDING] > limit:
            passes[P_OPEN] = state[S_EVENTS] > events
            events = state[S_EVENTS]
            boundary = offset
        if boundary:
            passes[P_EVENTS] = events
            passes[P_DONE] = boundary
            passes[P_SCANNED] = offset
            return PASSES_FULL, offset


@kernel
def take_passes(
    descriptor: int,
    address: int,
    room: int,
    step: int,
    limit: int,
    until: int,
    checksum: int,
    meanings: Array,
    scanner: Any,
    backup: Any,
    rows: Any,
    blocks: Array,
    state: Array,
    passes: Array,
    month_start: int,
    month_length: int,
) -> Any:
    """Pass after pass of a file: read, scanned, its rows decoded. Returns (outcome, outcome of decode_rows).

    Between two passes Python finds its own code and data out of the cache, and of small ones it would take most of the
    time; but in these alone what was read is in the second-level cache still when it is scanned and decoded.

    descriptor: of the file. address, room: the memory, and how much of it may be read into; after that there are as
    many bytes as the row kernel reads beyond an event. step: bytes to read at once; limit: as FileDecoder's HELD.
    checksum, meanings: as scan's. scanner: its state, open maps, the transaction that is open, slots, bodies; backup:
    arrays like its open maps and transaction. rows: as walk's, with room for all that may be in the
    memory. blocks, state, month_start, month_length: as decode_rows'.
    """
    scan_state, open_maps, transaction, _, _ = scanner
    backup_maps, backup_transaction = backup
    _, noted = rows
    while passes[P_BASE] < until:
        # A pass that does not come to its end is as if never scanned: state is restored from the backup.
        if passes[P_EVENTS] < 0:
            phase = scan_state[S_PHASE]
            maps = scan_state[S_MAPS]
            _copy_words(open_maps, backup_maps, 2 * maps)
            _copy_words(transaction, backup_transaction, TX_COLUMNS)
            outcome, joined = _take_up(
                descriptor, address, room, step, limit, checksum, meanings, scanner, rows, passes
            )
            boundary = passes[P_DONE] if outcome == PASSES_FULL else np.int64(0)
            if checksum:
                separate_checksums(address + boundary, address + joined)
            if outcome != PASSES_FULL:
                scan_state[S_PHASE] = phase
                scan_state[S_MAPS] = maps
                _copy_words(backup_maps, open_maps, 2 * maps)
                _copy_words(backup_transaction, transaction, TX_COLUMNS)
                return outcome, DONE
            for k in range(R_CELLS):
                state[k] = 0
        # Rows are decoded while their bytes are still in the cache.
        count = passes[P_EVENTS]
        reason = decode_rows(noted.ctypes.data, count, blocks, state, month_start, month_length)
        if reason != DONE:
            return PASSES_STOPPED, reason
        # What the pass took is done; bytes after it move to the front, and are scanned again if they were.
        boundary = passes[P_DONE]
        if passes[P_ENDING] != passes[P_ENDED]:
            passes[P_EARLY] = 0
        passes[P_EARLY] |= passes[P_OPEN]
        passes[P_ENDED] = passes[P_ENDING]
        if boundary < passes[P_SCANNED]:
            scan_state[S_PHASE] = OUTSIDE
            scan_state[S_MAPS] = 0
        passes[P_FILLED] -= boundary
        passes[P_BASE] += boundary
        memmove(address, address + boundary, passes[P_FILLED])
        passes[P_EVENTS] = -1
    return PASSES_FULL, DONE
