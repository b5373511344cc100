"""A 64-bit hash of each row of some columns, by their bytes.

Put here: the hash. Not here: which columns tell rows apart (engine/jobs/key_hash.py, cascades/child_index.py), or data
files that are searched by it (key_index.py).

Vectors are hashed eight bytes at a time with a multiplication and a shift for each (the finalizer of splitmix64), in
numpy.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

SEED = np.uint64(0x9E3779B97F4A7C15)
SECOND_SEED = np.uint64(0xC2B2AE3D27D4EB4F)
"""Seed of a hash that is independent of the one by default."""
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0xD6E8FEB86659FD93)


def hashes_of(columns: Sequence[pa.Array | pa.ChunkedArray], count: int, seed: np.uint64 = SEED) -> Hashes:
    """One a row of columns that are equal where rows are. count: of rows."""
    combined = np.full(count, seed)
    for column in columns:
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        column_hashes = _bytes_of(values) if _is_text(values.type) else _words_of(values)
        if values.null_count:
            column_hashes = np.where(values.is_null().to_numpy(zero_copy_only=False), _NULL, column_hashes)
        combined = _mixed(combined ^ column_hashes)
    return combined


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _mixed(words: Hashes) -> Hashes:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _words_of(values: pa.Array) -> Hashes:
    """Values of one width, up to eight bytes as they are, longer ones word by word."""
    if pa.types.is_null(values.type):
        return np.full(len(values), _NULL)
    if pa.types.is_boolean(values.type):
        return np.asarray(values.fill_null(False).cast(pa.uint8()), np.uint64)
    width = values.type.bit_width // 8
    buffer = values.buffers()[1]
    raw_bytes = np.frombuffer(buffer, np.uint8, len(values) * width, values.offset * width)
    if width <= 8:
        return raw_bytes.view(f"<u{width}").astype(np.uint64)
    words = raw_bytes.view("<u8").reshape(len(values), width // 8)
    mixed = words[:, 0]
    for at in range(1, width // 8):
        mixed = _mixed(mixed) ^ words[:, at]
    return mixed


def _bytes_of(values: pa.Array) -> Hashes:
    """Values of any length: their length, then eight bytes a step of those that are so long."""
    # Arrow's layout of a text: offsets into one buffer of bytes. A slice does not begin at offset 0.
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    begin = values.offset * np.dtype(width).itemsize
    offsets = np.frombuffer(values.buffers()[1], width, len(values) + 1, begin).astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    mixed = lengths.astype(np.uint64) * _FIRST
    if not lengths.any():
        return mixed
    # Every byte begins a word of eight: views at a stride of one read all of them without a copy.
    data = np.frombuffer(values.buffers()[2], np.uint8)
    first = int(offsets[0])
    padded = np.concatenate([data[first : int(offsets[-1])], np.zeros(8, np.uint8)])
    starts = starts - first
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    # Values that are longer than ``at`` take part in a step; the bytes beyond a value's end are masked.
    pending = np.arange(len(lengths))
    for at in range(0, int(lengths.max()), 8):
        pending = pending[lengths[pending] > at]
        here = words[starts[pending] + at]
        short = np.minimum(lengths[pending] - at, 8).astype(np.uint64)
        mask = np.where(short < 8, (np.uint64(1) << (short * np.uint64(8))) - np.uint64(1), ~np.uint64(0))
        mixed[pending] = _mixed(mixed[pending] ^ (here & mask))
    return mixed
