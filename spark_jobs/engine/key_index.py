"""An index of one data file: from hashes of keys to row numbers, so that few keys are found without reading the file.

Put here: its format, building it, looking keys up. Not here: which files are worth one, or scanning files (locate.py).

It is a cache, of tables on a file system alone: written beside the table's data when it is first needed, built again
where it is missing, damaged or of another file, and removed with the data file by maintenance. Delta's VACUUM leaves
folders with an underscore alone.

The file, little-endian: a header of 64 bytes; the hashes in order, 8 bytes each; for each the row number and a check, 4
bytes each; the first hash of every block of 512; CRC-32s of the blocks of hashes, then of the blocks behind them. The
header has a CRC-32 of the first hashes and of itself. A check is half of a second hash of the key, mixed with the row
number: with it a hit is told by 96 bits. A lookup reads the first hashes, and of the rest only blocks that it needs.
"""

import hashlib
import logging
import struct
import uuid
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.delta.snapshot import DataFile
from spark_jobs.engine.key_hash import SECOND_SEED, Hashes, hashes

log = logging.getLogger(__name__)

FOLDER = "_stratalog_index"
"""Beside the data files of a table."""
_SUFFIX = ".keys"
_MAGIC = b"STRKEYS1"
_HEADER = struct.Struct("<8s16sQIII20x")
"""Magic, what it is of, number of rows, rows in a block, CRC-32 of the first hashes, CRC-32 of what stands before."""
_HEADER_BYTES = 64
_BLOCK = 512
_BLOCK_BYTES = 8 * _BLOCK
_MIX = np.uint32(0x9E3779B1)

Rows = NDArray[np.int64]
Checks = NDArray[np.uint32]


class Damaged(Exception):
    """The bytes are not those that were written, or of another file."""


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """An index that is open. Raises Damaged where a block that is needed is not as it was written."""

    content: NDArray[np.uint8]
    rows: int
    first: Hashes
    """The first hash of each block."""

    def lookup(self, key_hashes_: Hashes, checks: Checks) -> tuple[Rows, Rows]:
        """Row numbers of hits, and which of the wanted keys each has. wanted, checks: as ``key_hashes`` gives them."""
        begin = np.maximum(np.searchsorted(self.first, key_hashes_, "left") - 1, 0)
        end = np.searchsorted(self.first, key_hashes_, "right")
        pairs = [
            (block, at) for at, (low, high) in enumerate(zip(begin, end, strict=True)) for block in range(low, high)
        ]
        found_rows, found_wanted = list[Rows](), list[Rows]()
        for block, ordinals in _grouped(pairs):
            block_hashes, behind = self._block(block)
            left, right = (np.searchsorted(block_hashes, key_hashes_[ordinals], side) for side in ("left", "right"))
            counts = right - left
            places = np.repeat(left - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
            keys = np.repeat(ordinals, counts)
            numbers = behind[places, 0]
            is_same = behind[places, 1] == (checks[keys] ^ (numbers * _MIX))
            if not is_same.all():
                # Another key with the same hash is one in 2^64; a block that belongs to other rows is more likely.
                raise Damaged
            found_rows.append(numbers.astype(np.int64))
            found_wanted.append(keys)
        if not found_rows:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate(found_rows), np.concatenate(found_wanted)

    def _block(self, number: int) -> tuple[Hashes, NDArray[np.uint32]]:
        blocks = len(self.first)
        size = min(_BLOCK, self.rows - number * _BLOCK)
        start = _HEADER_BYTES + number * _BLOCK_BYTES
        behind = _HEADER_BYTES + 8 * self.rows + number * _BLOCK_BYTES
        sums = _HEADER_BYTES + 16 * self.rows + 8 * blocks
        parts = []
        for at, place in ((number, start), (blocks + number, behind)):
            part = self.content[place : place + 8 * size]
            (expected,) = self.content[sums + 4 * at : sums + 4 * at + 4].view("<u4")
            if _crc(part) != expected:
                raise Damaged
            parts.append(part)
        return parts[0].view("<u8"), parts[1].view("<u4").reshape(size, 2)


def key_hashes(rows: pa.Table, key: Sequence[str]) -> tuple[Hashes, Checks]:
    """What keys are looked up by. rows: with the key's columns and ``_raw``."""
    return hashes(rows, key), hashes(rows, key, SECOND_SEED).astype(np.uint32)


def opened(table_path: Path, file: DataFile, key: Sequence[str]) -> KeyIndex | None:
    """The index of a data file; None where there is none that can be used. key: names and types of its columns."""
    path = _path(table_path, file)
    try:
        content = np.memmap(path, np.uint8, "r")
        return _read(content, _identity(file, key))
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return None
    except (Damaged, OSError) as error:
        log.debug("%s: built again: %s", path, error)
        return None


def build(table_path: Path, file: DataFile, key: Sequence[str], keys: tuple[Hashes, Checks]) -> None:
    """Writes the index of a data file. keys: of all its rows, in order. A place that cannot be written to has none."""
    path = _path(table_path, file)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(exist_ok=True)
        part.write_bytes(_content(_identity(file, key), *keys))
        part.replace(path)
    except OSError as error:
        log.debug("%s: not written: %s", path, error)
        with suppress(OSError):
            part.unlink(missing_ok=True)


def remove_stale(table_path: Path) -> int:
    """Removes indexes of data files that are not there any more; how many."""
    file_names = {file.name for file in table_path.glob("**/*.parquet")}
    stale = [
        path for path in (table_path / FOLDER).glob(f"*{_SUFFIX}") if path.name.removesuffix(_SUFFIX) not in file_names
    ]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _path(table_path: Path, file: DataFile) -> Path:
    return table_path / FOLDER / f"{file.location(str(table_path)).name}{_SUFFIX}"


def _identity(file: DataFile, key: Sequence[str]) -> bytes:
    identity_text = "\0".join([file.path, str(file.size), str(file.num_records), *key])
    return hashlib.blake2b(identity_text.encode(), digest_size=16).digest()


def _content(identity: bytes, hashes_: Hashes, checks: Checks) -> bytes:
    order = np.argsort(hashes_, kind="stable")
    ordered = hashes_[order]
    rows = order.astype(np.uint32)
    behind = np.column_stack([rows, checks[order] ^ (rows * _MIX)])
    first = np.ascontiguousarray(ordered[::_BLOCK])
    head = _HEADER.pack(_MAGIC, identity, len(hashes_), _BLOCK, _crc(first), 0)
    head = _HEADER.pack(_MAGIC, identity, len(hashes_), _BLOCK, _crc(first), zlib.crc32(head))
    sums = [
        zlib.crc32(part[at : at + _BLOCK].tobytes()) for part in (ordered, behind) for at in range(0, len(part), _BLOCK)
    ]
    return b"".join([head, ordered.tobytes(), behind.tobytes(), first.tobytes(), np.array(sums, "<u4").tobytes()])


def _read(content: NDArray[np.uint8], identity: bytes) -> KeyIndex:
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


def _grouped(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, Rows]]:
    """Pairs by their first member, with all second ones."""
    by_block: dict[int, list[int]] = {}
    for block, at in pairs:
        by_block.setdefault(block, []).append(at)
    return [(block, np.array(ordinals, np.int64)) for block, ordinals in by_block.items()]
