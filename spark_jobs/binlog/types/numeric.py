"""Integers, BIT, FLOAT and DOUBLE.

Put here: types whose bytes are a binary number. Not here: DECIMAL (decimal.py), YEAR (temporal.py).
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import row_cells
from spark_jobs.binlog.types.base import (
    ColumnReading,
    ColumnType,
    Exact,
    Filled,
    Finish,
    Finished,
    TypedColumn,
    fixed,
    validity_of,
)
from spark_jobs.errors import Unsupported

UINT64 = pa.decimal128(20, 0)
"""Arrow's and Delta's home for 64 unsigned bits: Spark has no unsigned type."""


class Integer(ColumnType):
    """TINYINT to BIGINT: little-endian, two's complement; UNSIGNED widens to the next type that holds all of it."""

    is_numeric: ClassVar[bool] = True

    def __init__(
        self, name: str, size: int, signed: tuple[int, pa.DataType], unsigned: tuple[int, pa.DataType]
    ) -> None:
        self.name = name
        self.size = size
        self.signed = signed
        self.unsigned = unsigned

    def sql(self, column: TypedColumn) -> str:
        return f"{self.name} unsigned" if column.unsigned else self.name

    def reading(self, column: TypedColumn) -> ColumnReading:
        if column.unsigned is None:
            raise Unsupported(f"whether it is signed is unknown: {self.name} comes without signedness metadata")
        kind, arrow = self.unsigned if column.unsigned else self.signed
        return fixed(kind, self.size, arrow)


class EitherSign(ColumnType):
    """An integer of which nothing tells whether it is UNSIGNED.

    Where the highest bit is clear, both readings are one number. Where it is set, neither is taken: the value is NULL,
    and its exact text has both, ``-1 or 255``.
    """

    is_numeric: ClassVar[bool] = True

    def __init__(self, integer: Integer) -> None:
        self.integer = integer

    def sql(self, column: TypedColumn) -> str:
        return f"{self.integer.sql(column)} of unknown sign"

    def reading(self, column: TypedColumn) -> ColumnReading:  # noqa: ARG002 - every type is asked alike
        kind, arrow = self.integer.signed
        return fixed(kind, self.integer.size, arrow, finish=_finish_either(8 * self.integer.size, arrow))


def _finish_either(bits: int, arrow: pa.DataType) -> Finish:
    def finish(filled: Filled) -> Finished:
        signed = filled.numbers(f"i{arrow.bit_width // 8}")[: filled.rows]
        is_null = filled.is_null()
        open_ = (signed < 0) & (is_null == 0)
        if not open_.any():
            return filled.array(arrow), None
        validity, nulls = validity_of(is_null | open_)
        rows = np.flatnonzero(open_)
        texts = [f"{number} or {number + (1 << bits)}" for number in signed[rows].tolist()]
        array = pa.Array.from_buffers(arrow, filled.rows, [validity, filled.slots], nulls)
        return array, Exact(rows, pa.array(texts, pa.string()))

    return finish


class Float(ColumnType):
    """FLOAT and DOUBLE: IEEE 754, little-endian."""

    meta_size: int = 1
    is_numeric: ClassVar[bool] = True

    def __init__(self, name: str, kind: int, arrow: pa.DataType) -> None:
        self.name = name
        self.kind = kind
        self.type = arrow

    def sql(self, column: TypedColumn) -> str:
        return f"{self.name} unsigned" if column.unsigned else self.name

    def reading(self, column: TypedColumn) -> ColumnReading:  # noqa: ARG002 - every type is asked alike
        return fixed(self.kind, self.type.bit_width // 8, self.type)


class Bit(ColumnType):
    """BIT(n): big-endian in (n + 7) / 8 bytes. Metadata: bits beyond whole bytes, then whole bytes."""

    meta_size: int = 2

    def meta(self, wire: bytes) -> int:
        return wire[1] * 8 + wire[0]

    def allows(self, meta: int) -> bool:
        return 1 <= meta <= 64

    def sql(self, column: TypedColumn) -> str:
        return f"bit({column.meta})"

    def reading(self, column: TypedColumn) -> ColumnReading:
        size = (column.meta + 7) // 8
        if column.meta == 64:
            return fixed(row_cells.BIG_TO_128, size, UINT64)
        return fixed(row_cells.BIG_TO_64, size, pa.int64())


TINYINT = Integer("tinyint", 1, (row_cells.COPY_1, pa.int8()), (row_cells.UINT8_TO_16, pa.int16()))
SMALLINT = Integer("smallint", 2, (row_cells.COPY_2, pa.int16()), (row_cells.UINT16_TO_32, pa.int32()))
MEDIUMINT = Integer("mediumint", 3, (row_cells.INT24_TO_32, pa.int32()), (row_cells.UINT24_TO_32, pa.int32()))
INT = Integer("int", 4, (row_cells.COPY_4, pa.int32()), (row_cells.UINT32_TO_64, pa.int64()))
BIGINT = Integer("bigint", 8, (row_cells.COPY_8, pa.int64()), (row_cells.UINT64_TO_128, UINT64))
FLOAT = Float("float", row_cells.COPY_4, pa.float32())
DOUBLE = Float("double", row_cells.COPY_8, pa.float64())
BIT = Bit()
