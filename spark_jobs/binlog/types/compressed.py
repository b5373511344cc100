"""MariaDB's COMPRESSED columns: VARCHAR, TEXT, and their twins of bytes, each value deflated by itself or as it is.

Source: MariaDB sql/field.cc (``Field_longstr::compress``, ``uncompress``), sql/field_comp.cc, sql/field.h
(``Field_varstring_compressed``, ``Field_blob_compressed``).

The row kernel takes the stored bytes; inflating them is a loop in Python over the values of a block, since zlib is
called for each anyway, and few tables have such columns.

Put here: such columns. Not here: the same text uncompressed (strings.py), compressed events
(binlog/events/compression.py).
"""

import zlib
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.types.base import BadValue, ColumnReading, Filled, Finish, Finished, TypedColumn, require_fits
from spark_jobs.binlog.types.strings import Blob, Varchar

_PLAIN, _ZLIB, _RAW, _SIZE = 0, 0x80, 0x08, 0x07
"""The first byte of a value: 0 (plain bytes follow), or 1000rnnn: n bytes of length, big-endian, then a stream of zlib,
without its head and checksum where r is set."""


class CompressedVarchar(Varchar):
    """VARCHAR and VARBINARY, metadata: the most bytes of a value and one more."""

    def allows(self, meta: int) -> bool:
        return meta > 0

    def sql(self, column: TypedColumn) -> str:
        return f"{self.sized(column, column.meta - 1)} compressed"

    def reading(self, column: TypedColumn) -> ColumnReading:
        return _inflating(super().reading(column), column.meta - 1)


class CompressedBlob(Blob):
    """TINYTEXT to LONGTEXT, TINYBLOB to LONGBLOB."""

    def sql(self, column: TypedColumn) -> str:
        return f"{super().sql(column)} compressed"

    def reading(self, column: TypedColumn) -> ColumnReading:
        return _inflating(super().reading(column), (1 << 8 * column.meta) - 1)


def _inflating(reading: ColumnReading, longest: int) -> ColumnReading:
    """Reading of the values of ``reading`` that have at most so many bytes when they are inflated."""
    return replace(reading, finish=partial(_finish, reading.finish, longest))


def _finish(finish: Finish, longest: int, filled: Filled) -> Finished:
    offsets = filled.numbers("i4")[: filled.rows + 1]
    text = memoryview(b"" if filled.text is None else filled.text).cast("B")
    contents = []
    for row, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        try:
            contents.append(_value_bytes(text[start:stop], longest))
        except (ValueError, zlib.error) as error:
            raise BadValue(row, f"a compressed value is damaged: {error}") from None
    sizes = np.cumsum([0, *map(len, contents)])
    require_fits(int(sizes[-1]))
    slots, inflated = pa.py_buffer(sizes.astype(np.int32)), pa.py_buffer(b"".join(contents))
    return finish(replace(filled, slots=slots, text=inflated))


def _value_bytes(stored: memoryview, longest: int) -> bytes | memoryview:
    """The value's bytes. Raises ValueError, zlib.error. An empty value, as one that is NULL, has no bytes at all."""
    if not stored or stored[0] == _PLAIN:
        return stored[1:]
    head, size = stored[0], stored[0] & _SIZE
    if head & ~(_RAW | _SIZE) != _ZLIB or not 1 <= size <= 4:
        raise ValueError(f"its head {head:02x} is not known")
    claimed = int.from_bytes(stored[1 : 1 + size], "big")
    if claimed > longest:
        raise ValueError(f"{claimed} bytes announced, {longest} are the most")
    stream = zlib.decompressobj(-zlib.MAX_WBITS if head & _RAW else zlib.MAX_WBITS)
    content = stream.decompress(stored[1 + size :], claimed + 1)
    if len(content) != claimed or not stream.eof or stream.unused_data:
        raise ValueError(f"{claimed} bytes announced, another number found")
    return content


COMPRESSED_VARCHAR = CompressedVarchar()
COMPRESSED_BLOB = CompressedBlob()
