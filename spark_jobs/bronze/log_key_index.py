"""Index of one data file of bronze by hashes of keys: the slices in which a table's keys change.

Put here: its format, writing and reading it. Not here: what the hashes are of, and when it is built
(row_history/key_search.py), or where index files lie and when they go (delta/index_files.py).

It is a cache. One that is missing, damaged or of something else is not used: the slices are decoded instead. A hit may
be of another key, since few bits of a hash are kept; a miss is certain.

The file, little-endian:

- a header of 32 bytes: magic, length of the description, number of entries, bits of a bucket's number, bits of a
  slice's number, CRC-32 of the description, CRC-32 of what stands before;
- the description, JSON: what the index is of, and what else is known of the data file;
- of each bucket, and of the end, the number of the entries before it, 4 bytes, and the CRC-32 of the bucket, 4 bytes;
- the entries, 4 bytes each, in order: the bits of a hash behind those of the bucket's number, then the slice's number.

A lookup reads the head, and of the rest 16 bytes and one bucket of about 64 entries a key. A bucket's CRC-32 is of its
number and of the position and the bytes of its entries.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from spark_jobs.delta.index_files import Damaged

Hashes = NDArray[np.uint64]
Rows = NDArray[np.int64]

_MAGIC = b"STRLOGK1"
_HEADER = struct.Struct("<8sIIHHII4x")
_BUCKET = 64
"""Entries of a bucket, about."""
_ENTRY_BITS = 32
_RANGE = struct.Struct("<III")
"""Range of a bucket: its number, its first entry, the one after its last."""


class _Content(Protocol):
    def __call__(self, offset: int, size: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LogKeyIndex:
    """An index that is open. description: as it was built with."""

    description: Mapping[str, Any]
    content: _Content
    count: int
    bucket_bits: int
    slice_bits: int
    start: int
    """Offset of the first bucket's position."""

    def slices(self, hashes: Hashes) -> Rows:
        """The numbers of the slices that may have changes of keys with these hashes, in order. Raises Damaged."""
        rest = _ENTRY_BITS - self.slice_bits
        numbers = [np.zeros(0, np.int64)]
        for hash_ in np.unique(hashes).tolist():
            entries = self._bucket(hash_ >> (64 - self.bucket_bits))
            remainder = (hash_ >> (64 - self.bucket_bits - rest)) & ((1 << rest) - 1)
            low, high = np.searchsorted(entries, [remainder << self.slice_bits, (remainder + 1) << self.slice_bits])
            numbers.append(entries[low:high] & ((1 << self.slice_bits) - 1))
        return np.unique(np.concatenate(numbers))

    def _bucket(self, number: int) -> Rows:
        """The entries of a bucket."""
        position = self.content(self.start + 8 * number, 16)
        if len(position) < 16:
            raise Damaged
        first, sum_, end, _ = struct.unpack("<IIII", position)
        if not first <= end <= self.count:
            raise Damaged
        entries = self.content(self.start + 8 * ((1 << self.bucket_bits) + 1) + 4 * first, 4 * (end - first))
        if _sum(number, first, end, entries) != sum_:
            raise Damaged
        return np.frombuffer(entries, "<u4").astype(np.int64)

    @classmethod
    def read(cls, content: bytes) -> Self:
        """An index in memory. Raises Damaged."""

        def part(offset: int, size: int) -> bytes:
            return content[offset : offset + size]

        return cls._of(part)

    @classmethod
    def opened(cls, path: Path) -> Self:
        """The index in a file. Raises OSError, Damaged."""
        with path.open("rb") as file:
            # Each lookup opens the file again: thousands of files would be open otherwise.
            head = file.read(4096)

        def part(offset: int, size: int) -> bytes:
            if offset + size <= len(head):
                return head[offset : offset + size]
            with path.open("rb", buffering=0) as file:
                file.seek(offset)
                return file.read(size)

        return cls._of(part)

    @classmethod
    def _of(cls, content: _Content) -> Self:
        head = content(0, _HEADER.size)
        if len(head) < _HEADER.size:
            raise Damaged
        magic, size, count, bucket_bits, slice_bits, text_sum, head_sum = _HEADER.unpack(head)
        plain = _HEADER.pack(magic, size, count, bucket_bits, slice_bits, text_sum, 0)
        if magic != _MAGIC or zlib.crc32(plain) != head_sum:
            raise Damaged
        text = content(_HEADER.size, size)
        if len(text) != size or zlib.crc32(text) != text_sum:
            raise Damaged
        return cls(json.loads(text), content, count, bucket_bits, slice_bits, _HEADER.size + size)


def to_bytes(description: Mapping[str, Any], hashes_by_slice: Iterable[tuple[int, Hashes]], slices: int) -> bytes:
    """The content of an index.

    Args:
        description: what it is of; JSON.
        hashes_by_slice: numbers of slices, each with the hashes of the keys that change there.
        slices: how many slices the data file has.
    """
    numbers, parts = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for number, hashes in hashes_by_slice:
        distinct = np.unique(hashes)
        parts.append(distinct)
        numbers.append(np.full(len(distinct), number, np.uint64))
    all_hashes, all_numbers = np.concatenate(parts), np.concatenate(numbers)

    # As many buckets as there are bits to tell them apart, and the bits of a hash that fit beside a slice's number.
    slice_bits = max(slices - 1, 1).bit_length()
    rest = _ENTRY_BITS - slice_bits
    bucket_bits = max(1, (len(all_hashes) // _BUCKET).bit_length())
    high_bits = all_hashes >> np.uint64(64 - bucket_bits - rest)
    ordered = np.unique((high_bits << np.uint64(slice_bits)) | all_numbers)
    buckets = ordered >> np.uint64(_ENTRY_BITS)
    entries = (ordered & np.uint64((1 << _ENTRY_BITS) - 1)).astype("<u4")

    firsts = np.searchsorted(buckets, np.arange((1 << bucket_bits) + 1, dtype=np.uint64)).tolist()
    packed = entries.tobytes()
    sums = [
        _sum(number, first, end, packed[4 * first : 4 * end]) for number, (first, end) in enumerate(pairwise(firsts))
    ]
    positions = np.column_stack([np.array(firsts, "<u4"), np.array([*sums, 0], "<u4")]).astype("<u4")
    text = json.dumps(description, ensure_ascii=False).encode()
    fields = (_MAGIC, len(text), len(entries), bucket_bits, slice_bits, zlib.crc32(text))
    head = _HEADER.pack(*fields, zlib.crc32(_HEADER.pack(*fields, 0)))
    return b"".join([head, text, positions.tobytes(), packed])


def _sum(number: int, first: int, end: int, entries: bytes) -> int:
    return zlib.crc32(entries, zlib.crc32(_RANGE.pack(number, first, end)))
