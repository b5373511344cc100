"""The text of binary JSON documents, as CAST(… AS CHAR) has it.

Put here: containers and the loop over documents. Not here: scalars (json_scalars.py).
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.intrinsics import load8, load16, load32, store8, store16, store32
from spark_jobs.binlog.kernels.json_scalars import (
    JSON_BAD,
    JSON_INT32,
    JSON_LARGE_ARRAY,
    JSON_LARGE_OBJECT,
    JSON_LITERAL,
    JSON_NO_ROOM,
    JSON_ROOM,
    JSON_UINT16,
    JSON_UINT32,
    put_scalar,
    put_string,
)
from spark_jobs.binlog.kernels.utf8 import valid_utf8

JSON_DEPTH = 100
"""The most containers inside one another (json_syntax_check.cc, JSON_DOCUMENT_MAX_DEPTH)."""


@kernel
def _offset_at(address: int, wide: int) -> Any:
    return np.int64(load32(address)) if wide else np.int64(load16(address))


@kernel
def _put_document(at: int, end: int, out: int, limit: int, stack: Array) -> Any:  # noqa: PLR0911 - ends early on damage
    """The text of one document; returns the address after it, or JSON_NO_ROOM, JSON_BAD.

    An offset leads forward, beyond the entries of its container and not out of it: a document cannot hold itself. One
    value may stand in many entries all the same, so damaged bytes are bounded by the room, not by their own length.
    """
    depth = 0
    kind = np.int64(load8(at))
    at += 1
    while True:
        if out + JSON_ROOM > limit:
            return JSON_NO_ROOM
        # A container: its entries are put on the stack, and it is opened in the text.
        if kind <= JSON_LARGE_ARRAY:
            wide = kind & 1
            width = 2 + 2 * wide
            if at + 2 * width > end or depth == JSON_DEPTH:
                return JSON_BAD
            count, size = _offset_at(at, wide), _offset_at(at + width, wide)
            keys = at + 2 * width
            values = keys + count * (width + 2) if kind <= JSON_LARGE_OBJECT else keys
            if size > end - at or values + count * (1 + width) > at + size:
                return JSON_BAD
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = kind, at, at + size, count
            stack[depth, 4], stack[depth, 5], stack[depth, 6] = np.int64(0), keys, values
            depth += 1
            store8(out, np.uint8(123 if kind <= JSON_LARGE_OBJECT else 91))
            out += 1
        else:
            out = put_scalar(kind, at, end, out, limit)
            if out < 0:
                return out
        # Close the containers whose entries are all written.
        while depth and stack[depth - 1, 4] == stack[depth - 1, 3]:
            depth -= 1
            if out >= limit:
                return JSON_NO_ROOM
            store8(out, np.uint8(125 if stack[depth, 0] <= JSON_LARGE_OBJECT else 93))
            out += 1
        if depth == 0:
            return out
        # The next entry of the innermost container: a comma, the key of an object, then the value.
        top = depth - 1
        base, end, count, index = stack[top, 1], stack[top, 2], stack[top, 3], stack[top, 4]
        stack[top, 4] = index + 1
        wide = stack[top, 0] & 1
        width = 2 + 2 * wide
        header = stack[top, 6] + count * (1 + width)
        if out + 8 > limit:
            return JSON_NO_ROOM
        if index:
            store16(out, np.uint16(0x202C))
            out += 2
        if stack[top, 0] <= JSON_LARGE_OBJECT:
            entry = stack[top, 5] + index * (width + 2)
            key, length = base + _offset_at(entry, wide), np.int64(load16(entry + width))
            if key < header or key + length > end:
                return JSON_BAD
            out = put_string(key, length, out, limit)
            if out < 0 or out + 2 > limit:
                return JSON_NO_ROOM
            store16(out, np.uint16(0x203A))
            out += 2
        entry = stack[top, 6] + index * (1 + width)
        kind = np.int64(load8(entry))
        # Small values stand in the entry, all others at an offset from the container's first byte.
        if JSON_LITERAL <= kind <= JSON_UINT16 or (wide and (kind == JSON_INT32 or kind == JSON_UINT32)):  # noqa: PLR1714, SIM109
            at = entry + 1
        else:
            at = base + _offset_at(entry + 1, wide)
            if at < header or at >= end:
                return JSON_BAD


@kernel
def json_text(
    offsets: Array, address: int, nulls: Array, state: Array, new_offsets: Array, out: int, capacity: int, stack: Array
) -> Any:
    """The text of binary JSON documents, as CAST(… AS CHAR) has it. Returns 0, JSON_NO_ROOM or JSON_BAD.

    state: the row, and the offset in ``out``, to resume from; where it stopped. ``out`` may continue in a larger one.
    stack: int64[JSON_DEPTH, 7]. A value without bytes is what an implicit default leaves: null (field.cc, val_json).
    """
    offset = state[1]
    for row in range(state[0], len(offsets) - 1):
        # The row's beginning is noted first, so that a call with more room can continue there.
        new_offsets[row] = offset
        state[0] = row
        state[1] = offset
        if nulls[row]:
            continue
        start, end = address + offsets[row], address + offsets[row + 1]
        if offset + JSON_ROOM > capacity:
            return JSON_NO_ROOM
        if start == end:
            store32(out + offset, np.uint32(0x6C6C756E))
            offset += 4
            continue
        after = _put_document(start, end, out + offset, out + capacity, stack)
        if after < 0:
            return after
        # A document's strings are copied as they are: the whole text is judged at once.
        if not valid_utf8(out + offset, after - out - offset):
            return JSON_BAD
        offset = after - out
    new_offsets[len(offsets) - 1] = offset
    state[1] = offset
    return 0
