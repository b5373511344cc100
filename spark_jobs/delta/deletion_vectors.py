"""Deletion vectors: which rows of a data file are deleted.

Put here: their descriptors and bytes. Not here: which rows are to be deleted.

A vector is a 64-bit Roaring bitmap of row numbers in its portable form, after a magic number. In a file, vectors follow
a version byte, each with its size before and its CRC-32 after it, big-endian.
"""

import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap, BitMap64

from spark_jobs.delta.log_files import UnsupportedTable, directory, random_prefix
from spark_jobs.errors import LakeError
from spark_jobs.storage.files import StoredPath, content, durable, reason

_MAGIC = 1681511377
_LEAST = 12
"""Bytes of a vector without rows: the magic number, and the count of 32-bit bitmaps."""
_VERSION = b"\x01"
_UUID_CHARS = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUES = {letter: value for value, letter in enumerate(_Z85)}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Location of a vector, and how many rows it deletes."""

    storage_type: str
    """``u``: a file in the table's folder, by its uuid; ``p``: a file by its path; ``i``: in the descriptor itself."""
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """Identifier that tells vectors of one data file apart."""
        suffix = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline}{suffix}"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Descriptor":
        return cls(
            value["storageType"],
            value["pathOrInlineDv"],
            value.get("offset"),
            value["sizeInBytes"],
            value["cardinality"],
        )

    def to_json(self) -> dict[str, Any]:
        action: dict[str, Any] = {"storageType": self.storage_type, "pathOrInlineDv": self.path_or_inline}
        if self.offset is not None:
            action["offset"] = self.offset
        return action | {"sizeInBytes": self.size, "cardinality": self.cardinality}

    def location(self, table_path: str) -> StoredPath:
        """The file of a vector that is not inline. Raises UnsupportedTable, LakeError."""
        folder = directory(table_path)
        if self.storage_type == "u":
            prefix, name = self.path_or_inline[:-_UUID_CHARS], self.path_or_inline[-_UUID_CHARS:]
            return folder / prefix / f"deletion_vector_{uuid.UUID(bytes=z85_decode(name))}.bin"
        if self.storage_type != "p":
            raise LakeError(
                f"{table_path}: a deletion vector is stored in a way that is not known, {self.storage_type}"
            )
        file = Path(unquote(self.path_or_inline.removeprefix("file:")))
        if not isinstance(folder, Path) or not file.is_absolute():
            raise UnsupportedTable(f"{table_path}: has a deletion vector outside of its folder, {self.path_or_inline}")
        return file


def read(table_path: str, descriptor: Descriptor) -> BitMap64:
    """The numbers of the rows that a vector deletes. Raises LakeError where its bytes are damaged."""
    label = f"{table_path}: deletion vector {descriptor.unique_id}"
    try:
        if descriptor.storage_type == "i":
            vector = z85_decode(descriptor.path_or_inline)[: descriptor.size]
        else:
            vector = _stored_vector(descriptor.location(table_path), descriptor, label)
        rows = _from_bytes(vector)
    except (OSError, ValueError, struct.error) as error:
        raise LakeError(f"{label}: cannot be read: {error}") from error
    if len(rows) != descriptor.cardinality:
        raise LakeError(f"{label}: has {len(rows)} rows, and the log says {descriptor.cardinality}")
    return rows


def stored_vectors(table_path: str, descriptors: Sequence[Descriptor]) -> list[bytes]:
    """Vectors as Delta's files have them, each with its size before and its checksum after it. Raises LakeError."""
    contents: dict[StoredPath, bytes] = {}
    vectors = []
    for descriptor in descriptors:
        label = f"{table_path}: deletion vector {descriptor.unique_id}"
        try:
            if descriptor.storage_type == "i":
                vectors.append(framed(z85_decode(descriptor.path_or_inline)[: descriptor.size]))
                continue
            file = descriptor.location(table_path)
            if file not in contents:  # a commit's vectors are in few files, which have no others
                contents[file] = file.read_bytes()
            start = 1 if descriptor.offset is None else descriptor.offset
            entry = contents[file][start : start + descriptor.size + 8]
            if entry != framed(entry[4:-4]) or len(entry) != descriptor.size + 8:
                raise LakeError(f"{label}: its bytes in {file} are damaged")
        except (OSError, ValueError) as error:
            raise LakeError(f"{label}: cannot be read: {error}") from error
        vectors.append(entry)
    return vectors


def framed(vector: bytes) -> bytes:
    """A vector as a file has it: with its size before and its checksum after it."""
    return struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def row_numbers(table_path: str, descriptor: Descriptor | None) -> NDArray[np.int64]:
    """The numbers of the rows that a vector deletes, in order; none without a vector. Raises LakeError."""
    if descriptor is None:
        return np.empty(0, np.int64)
    rows = read(table_path, descriptor)
    _require_rows(rows, 1 << 63, f"{table_path}: deletion vector {descriptor.unique_id}", ", which no file has")
    return np.asarray(rows.to_array(), np.int64)


def living_rows_mask(table_path: str, descriptor: Descriptor | None, count: int) -> NDArray[np.bool_]:
    """Mask of a data file's rows, so many, that a vector does not delete; all without a vector. Raises LakeError."""
    mask = np.ones(count, np.bool_)
    if descriptor is not None:
        rows = read(table_path, descriptor)
        label = f"{table_path}: deletion vector {descriptor.unique_id}"
        _require_rows(rows, count, label, f" of a file that has {count} rows")
        mask[np.asarray(rows.to_array(), np.int64)] = False
    return mask


def _require_rows(rows: BitMap64, count: int, label: str, reason: str) -> None:
    """Check that a vector deletes rows below ``count`` alone. Raises LakeError; reason: the end of its message."""
    # Before they are an array: a few bytes can stand for billions of rows.
    if rows and rows.max() >= count:
        raise LakeError(f"{label}: is damaged: it deletes row {rows.max()}{reason}; restore the table's _delta_log")


def write(
    table_path: str, vectors: Sequence[BitMap | BitMap64], configuration: Mapping[str, str] | None = None
) -> list[Descriptor]:
    """Write vectors to one file that no commit names yet, durably; a descriptor for each, in order.

    Args:
        table_path: the table's folder.
        vectors: the numbers of the rows deleted in a data file, those that its present vector deletes among them.
        configuration: the table's, which may ask for prefixes of names.

    Raises UnsupportedTable, LakeError.
    """
    if not vectors:
        return []
    # One file for all vectors; each descriptor has its own offset in it.
    name = uuid.uuid4()
    prefix = random_prefix(configuration or {})
    # Delta's PROTOCOL.md, "Deletion Vector Format": a version byte, then for each vector its size, its bytes and their
    # CRC-32.
    vectors_content, descriptors = bytearray(_VERSION), []
    for vector in vectors:
        data = to_bytes(vector)
        encoded = prefix + z85_encode(name.bytes)
        descriptors.append(Descriptor("u", encoded, len(vectors_content), len(data), len(vector)))
        vectors_content += framed(data)
    # The file is durable before a commit can name it.
    file = descriptors[0].location(table_path)
    try:
        with durable(file) as sink:
            sink.write(vectors_content)
    except OSError as error:
        raise LakeError(f"{table_path}: cannot be written: {reason(error)}") from error
    return descriptors


def to_bytes(vector: BitMap | BitMap64) -> bytes:
    """A vector as it is stored, without its size and checksum."""
    rows = vector if isinstance(vector, BitMap64) else None
    if rows is None:
        # the portable form of 64 bits: the number of 32-bit bitmaps, and each behind its upper half
        body = struct.pack("<QI", 1, 0) + vector.serialize() if len(vector) else struct.pack("<Q", 0)
    else:
        body = rows.serialize()
    return struct.pack("<i", _MAGIC) + body


def z85_encode(data: bytes) -> str:
    """Bytes, of a length that is a multiple of 4, as text."""
    letters = []
    for at in range(0, len(data), 4):
        value = int.from_bytes(data[at : at + 4], "big")
        letters += [_Z85[value // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(letters)


def z85_decode(text: str) -> bytes:
    """The bytes that a Z85 text encodes, four by five letters. Raises ValueError."""
    if len(text) % 5 or not set(text) <= _Z85_VALUES.keys():
        raise ValueError(f"{text!r} is not z85")
    data = bytearray()
    for at in range(0, len(text), 5):
        value = 0
        for letter in text[at : at + 5]:
            value = value * 85 + _Z85_VALUES[letter]
        if value >> 32:
            raise ValueError(f"{text!r} is not z85")
        data += value.to_bytes(4, "big")
    return bytes(data)


def _stored_vector(file: StoredPath, descriptor: Descriptor, label: str) -> bytes:
    offset = descriptor.offset if descriptor.offset is not None else 1
    version = content(file, 0, 1)
    if version != _VERSION:
        raise LakeError(f"{label}: its file has version {version!r}, and only 1 is known")
    entry = content(file, offset, descriptor.size + 8)
    size, data = struct.unpack(">i", entry[:4])[0], entry[4 : 4 + descriptor.size]
    checksum = struct.unpack(">I", entry[4 + descriptor.size :])[0]
    if size != descriptor.size or len(data) != size or zlib.crc32(data) != checksum:
        raise LakeError(f"{label}: its bytes in {file} are damaged")
    return data


def _from_bytes(data: bytes) -> BitMap64:
    magic = struct.unpack("<i", data[:4])[0]
    if magic != _MAGIC:
        raise ValueError(f"its magic number is {magic}")
    if len(data) < _LEAST:  # pyroaring's error for no bytes is no ValueError
        raise ValueError("its bytes end too early")
    return BitMap64.deserialize(data[4:])
