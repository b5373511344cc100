"""TABLE_MAP events in a scan: which of the known maps a body is, by hash and by table id.

Put here: the lookup of bodies. Not here: reading a map's columns (events/table_map.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel, part
from spark_jobs.binlog.kernels.event_cells import RECENT, S_RECENT
from spark_jobs.binlog.kernels.intrinsics import load8, load64


@kernel
def body_hash(address: int, count: int) -> Any:
    """A spread of a TABLE_MAP's body over 32 bits; equal bodies are known by their bytes, not by this."""
    state = np.uint64(count) * np.uint64(0x9E3779B97F4A7C15)
    while count >= 8:
        state = (state ^ load64(address)) * np.uint64(0xD6E8FEB86659FD93)
        state ^= state >> np.uint64(32)
        address += 8
        count -= 8
    for k in range(count):
        state = (state ^ np.uint64(load8(address + k))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64((state ^ (state >> np.uint64(32))) & np.uint64(0x7FFFFFFF))


@part
def _equal(left: int, right: int, count: int) -> Any:
    # 32 bytes, then 8, then one at a time: bodies are short, and equal most of the time.
    while count >= 32:
        differs = (load64(left) ^ load64(right)) | (load64(left + 8) ^ load64(right + 8))
        differs |= (load64(left + 16) ^ load64(right + 16)) | (load64(left + 24) ^ load64(right + 24))
        if differs:
            return False
        left += 32
        right += 32
        count -= 32
    while count >= 8:
        if load64(left) != load64(right):
            return False
        left += 8
        right += 8
        count -= 8
    for k in range(count):  # noqa: SIM110 - numba compiles no generators
        if load8(left + k) != load8(right + k):
            return False
    return True


@kernel
def find_map(address: int, count: int, slots: Array, bodies: Array) -> Any:
    """Ordinal of a known TABLE_MAP body, or -1.

    slots: ordinals by hash, -1 where free; bodies: [address, length] by ordinal.
    """
    mask = len(slots) - 1
    slot = body_hash(address, count) & mask
    while slots[slot] >= 0:
        ordinal = slots[slot]
        if bodies[ordinal, 1] == count and _equal(bodies[ordinal, 0], address, count):
            return np.int64(ordinal)
        slot = (slot + 1) & mask
    return np.int64(-1)


@part
def recent_map(address: int, count: int, state: Array, bodies: int, table_id: int) -> Any:
    """Ordinal of the last map of the table id (or of one that shares its slot) if it has this body, or -1.

    bodies: the address of what find_map has.
    """
    ordinal = state[np.uintp(S_RECENT + (table_id & (RECENT - 1)))] - 1
    entry = bodies + 16 * ordinal
    if ordinal >= 0 and np.int64(load64(entry + 8)) == count and _equal(np.int64(load64(entry)), address, count):
        return ordinal
    return np.int64(-1)
