"""Avro's object container files and the encoding of values in them, as far as manifests need it.

Put here: what is in Avro's specification. Not here: which records manifests have (avro_files.py).

A general library looks at each value to find its position in a union, which for a manifest's maps is nearly all of its
time. Records of manifests are few and fixed, so they are encoded field by field, and a record that is copied from one
manifest to another is copied as bytes where it stays the same.
"""

import os
import zlib
from collections.abc import Mapping, Sequence

_MAGIC = b"Obj\x01"
_SYNC = 16
_NULL, _PRESENT = b"\x00", b"\x02"
"""Branch of the union of null and another type that a value is of."""
_RAW = -15
"""Window bits of deflate without a header, as Avro's codec is."""
_LEVEL = 1


def long(number: int) -> bytes:
    """An int or a long."""
    number = number << 1 if number >= 0 else ~(number << 1)
    if number < 0x80:
        return bytes((number,))
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def binary(value: bytes) -> bytes:
    """Bytes, or text in UTF-8."""
    return long(len(value)) + value


def text(value: str) -> bytes:
    return binary(value.encode())


def optional(encoded: bytes | None) -> bytes:
    """A value of a union of null and its type."""
    return _NULL if encoded is None else _PRESENT + encoded


def optional_long(number: int | None) -> bytes:
    return _NULL if number is None else _PRESENT + long(number)


def array(items: Sequence[bytes]) -> bytes:
    """An array in one block, which says how many bytes it has, so that a reader may skip it."""
    if not items:
        return _NULL
    block = b"".join(items)
    return long(-len(items)) + long(len(block)) + block + _NULL


class AvroReader:
    """The values of a block, one after another. Methods raise ValueError where the block ends before."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def long(self) -> int:
        """An int or a long."""
        try:
            byte = self.data[self.at]
            self.at += 1
            number, shift = byte & 0x7F, 7
            while byte & 0x80:
                byte = self.data[self.at]
                self.at += 1
                number |= (byte & 0x7F) << shift
                shift += 7
        except IndexError as error:
            raise ValueError("a file ends before its values do") from error
        return number >> 1 ^ -(number & 1)

    def bytes(self) -> bytes:
        length = self.long()
        value = self.data[self.at : self.at + length]
        if length < 0 or len(value) != length:
            raise ValueError("a file ends before its values do")
        self.at += length
        return value

    def text(self) -> str:
        return self.bytes().decode()

    def is_present(self) -> bool:
        """True if the value of a union with null follows."""
        return self.long() == 1

    def optional_long(self) -> int | None:
        return self.long() if self.is_present() else None

    def skip_array(self) -> None:
        """Skip an array of blocks that say how many bytes they have."""
        while count := self.long():
            if count > 0:
                raise ValueError("an array has no size")
            length = self.long()
            self.at += length


def container(schema: str, records: Sequence[bytes], metadata: Mapping[str, str]) -> bytes:
    """A file of encoded records."""
    entries = {"avro.schema": schema, "avro.codec": "deflate", **metadata}
    header = [text(key) + text(value) for key, value in entries.items()]
    sync = os.urandom(_SYNC)
    data = _MAGIC + long(len(header)) + b"".join(header) + _NULL + sync
    if records:
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW)
        block = packer.compress(b"".join(records)) + packer.flush()
        data += long(len(records)) + long(len(block)) + block + sync
    return data


def block_of(data: bytes, schema: str) -> tuple[int, AvroReader]:
    """Number of records that a file of ``container`` has, and their values. Raises ValueError for other files."""
    reader = AvroReader(data)
    reader.at = len(_MAGIC)
    header = {reader.text(): reader.bytes() for _ in range(reader.long())}
    if data[: len(_MAGIC)] != _MAGIC or reader.long() or header.get("avro.schema") != schema.encode():
        raise ValueError("not a file that is written here")
    reader.at += _SYNC
    if reader.at == len(data):
        return 0, AvroReader(b"")
    count, block = reader.long(), reader.bytes()
    if reader.at + _SYNC != len(data):
        raise ValueError("a file ends before its values do")
    try:
        return count, AvroReader(zlib.decompress(block, _RAW))
    except zlib.error as error:
        raise ValueError(f"a block is damaged: {error}") from error
