"""Index of one data file: hashes of keys to row numbers, to find few keys without reading the file.

Put here: its format, building it, looking keys up. Not here: which files are worth one, or scanning files
(engine/rows/locate.py, cascades/child_index.py).

It is a cache (delta/index_files.py): written beside the table's data when it is first needed, and built again where it
is missing, damaged or of another file.

The file, little-endian: a header of 64 bytes; the hashes in order, 8 bytes each; for each the row number and a check, 4
bytes each; the first hash of every block of 512; CRC-32s of the blocks of hashes, then of the blocks behind them. The
header has a CRC-32 of the first hashes and of itself. A check is half of a second hash of the key, mixed with the row
number: with it a hit is known by 96 bits. A lookup reads the first hashes, and of the rest only blocks that it needs.
"""

import hashlib
import logging
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.delta import index_files
from spark_jobs.delta.index_files import Damaged
from spark_jobs.delta.snapshot import DataFile
from spark_jobs.delta.value_hash import Hashes

log = logging.getLogger(__name__)

_MAGIC = b"STRKEYS3"
_HEADER = struct.Struct("<8s16sQIII20x")
"""Magic, what it is of, number of rows, rows in a block, CRC-32 of the first hashes, CRC-32 of what stands before."""
_HEADER_BYTES = 64
_BLOCK = 512
_BLOCK_BYTES = 8 * _BLOCK
_MIX = np.uint32(0x9E3779B1)

Rows = NDArray[np.int64]
Checks = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """An index that is open. Raises Damaged where a block that is needed is not as it was written."""

    content: NDArray[np.uint8]
    rows: int
    first: Hashes
    """The first hash of each block."""

    def lookup(self, key_hash_array: Hashes, checks: Checks) -> tuple[Rows, Rows]:
        """Row numbers of hits, and which of the wanted keys each has.

        key_hash_array, checks: two hashes of each.
        """
        # Equal hashes begin at the earliest in the block before the first one that begins with them.
        first_block = np.maximum(np.searchsorted(self.first, key_hash_array, "left") - 1, 0)
        end_block = np.searchsorted(self.first, key_hash_array, "right")
        self._require_undamaged(_range_numbers(first_block, end_block), of_rows=False)
        bounds = first_block * _BLOCK, np.minimum(end_block * _BLOCK, self.rows)
        begin, end = (self._search(key_hash_array, *bounds, is_after=is_after) for is_after in (False, True))

        indexes = _range_numbers(begin, end)
        self._require_undamaged(indexes // _BLOCK, of_rows=True)
        cells = self._bytes_at(8 * self.rows, 8 * self.rows).view("<u4").reshape(self.rows, 2)[indexes]
        keys, numbers = np.repeat(np.arange(len(begin)), end - begin), cells[:, 0]
        if not np.array_equal(cells[:, 1], checks[keys] ^ (numbers * _MIX)):
            # Another key with the same hash is one in 2^64; a block that belongs to other rows is more likely.
            raise Damaged
        return numbers.astype(np.int64), keys

    def _search(self, wanted_hashes: Hashes, low: Rows, high: Rows, *, is_after: bool) -> Rows:
        """Index where each hash begins between two positions, or where it ends.

        Of all by one search, halving at each step.
        """
        stored = self._bytes_at(0, 8 * self.rows).view("<u8")
        while (is_open := low < high).any():
            middle = (low + high) >> 1
            values = stored[np.minimum(middle, self.rows - 1)]
            is_before = values <= wanted_hashes if is_after else values < wanted_hashes
            low = np.where(is_open & is_before, middle + 1, low)
            high = np.where(is_open & ~is_before, middle, high)
        return low

    def _require_undamaged(self, blocks: Rows, *, of_rows: bool) -> None:
        """Check the checksums of blocks of hashes, or with ``of_rows`` of row numbers. Raises Damaged."""
        content, start = self.content.data, 8 * self.rows if of_rows else 0
        sums = self._bytes_at(16 * self.rows + 8 * len(self.first), 8 * len(self.first)).view("<u4")
        sums = sums[len(self.first) if of_rows else 0 :]
        stop = _HEADER_BYTES + start + 8 * self.rows
        for number in np.unique(blocks).tolist():
            begin = _HEADER_BYTES + start + number * _BLOCK_BYTES
            if zlib.crc32(content[begin : min(begin + _BLOCK_BYTES, stop)]) != sums[number]:
                raise Damaged

    def _bytes_at(self, start: int, size: int) -> NDArray[np.uint8]:
        """Bytes after the header."""
        return self.content[_HEADER_BYTES + start : _HEADER_BYTES + start + size]


def _range_numbers(begin: Rows, end: Rows) -> Rows:
    """The numbers of many ranges, one range after the other."""
    counts = end - begin
    return np.repeat(begin - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())


def stored_index(table_path: Path, file: DataFile, key: Sequence[str], qualifier: str = "") -> KeyIndex | None:
    """The index of a data file; None where there is none that can be used.

    key: names and types of its columns, and what else hashes follow from. qualifier: tells the file's indexes apart.
    """
    path = index_files.index_path(table_path, _name(table_path, file), qualifier)
    try:
        content = np.asarray(np.memmap(path, np.uint8, "r"))
        return _parse_index(content, _file_identity(file, key))
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return None
    except (Damaged, OSError) as error:
        log.debug("%s: built again: %s", path, error)
        return None


def build(
    table_path: Path, file: DataFile, key: Sequence[str], keys: tuple[Hashes, Checks], qualifier: str = ""
) -> None:
    """Write the index of a data file.

    Keys: of all its rows, in order. A position that cannot be written to has none.
    """
    path = index_files.index_path(table_path, _name(table_path, file), qualifier)
    index_files.write(path, _content(_file_identity(file, key), *keys))


def _name(table_path: Path, file: DataFile) -> str:
    return file.location(str(table_path)).name


def _file_identity(file: DataFile, key: Sequence[str]) -> bytes:
    identity_text = "\0".join([file.path, str(file.size), str(file.num_records), *key])
    return hashlib.blake2b(identity_text.encode(), digest_size=16).digest()


def _content(identity: bytes, hash_array: Hashes, checks: Checks) -> bytes:
    order = np.argsort(hash_array, kind="stable")
    ordered = hash_array[order]
    rows = order.astype(np.uint32)
    behind = np.column_stack([rows, checks[order] ^ (rows * _MIX)])
    first = np.ascontiguousarray(ordered[::_BLOCK])
    head = _HEADER.pack(_MAGIC, identity, len(hash_array), _BLOCK, _crc(first), 0)
    head = _HEADER.pack(_MAGIC, identity, len(hash_array), _BLOCK, _crc(first), zlib.crc32(head))
    sums = [
        zlib.crc32(part[at : at + _BLOCK].tobytes()) for part in (ordered, behind) for at in range(0, len(part), _BLOCK)
    ]
    return b"".join([head, ordered.tobytes(), behind.tobytes(), first.tobytes(), np.array(sums, "<u4").tobytes()])


def _parse_index(content: NDArray[np.uint8], identity: bytes) -> KeyIndex:
    if len(content) < _HEADER_BYTES:
        raise Damaged
    head = content[:_HEADER_BYTES].tobytes()
    magic, owner, rows, block, first_sum, head_sum = _HEADER.unpack(head)
    blocks = -(-rows // _BLOCK)
    plain = _HEADER.pack(magic, owner, rows, block, first_sum, 0)
    if (magic, owner, block, head_sum) != (_MAGIC, identity, _BLOCK, zlib.crc32(plain)):
        raise Damaged
    if len(content) != _HEADER_BYTES + 16 * rows + 16 * blocks:
        raise Damaged
    start = _HEADER_BYTES + 16 * rows
    first = content[start : start + 8 * blocks].view("<u8")
    if _crc(first) != first_sum:
        raise Damaged
    return KeyIndex(content, rows, first)


def _crc(part: NDArray[Any]) -> int:
    return zlib.crc32(part.data)
