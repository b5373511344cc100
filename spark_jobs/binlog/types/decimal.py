"""DECIMAL: groups of nine digits in four bytes, the first bit inverted, all bits inverted where negative.

Source: MySQL strings/decimal.cc, decimal2bin. Up to 38 digits fill decimal128; more are text as the server prints it.

Put here: DECIMAL. Not here: the loops over its bytes (kernels/row_values.py).
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import row_cells, value_text
from spark_jobs.binlog.types.base import BadValue, ColumnReading, ColumnType, Filled, Finished, TypedColumn, fixed

_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of a group by its number of digits."""


_MOST_DIGITS = 65


def _groups(precision: int, scale: int) -> tuple[list[int], int]:
    """Digits of each group on the wire, and how many groups stand before the point; a short group leads and trails."""
    groups, short = divmod(precision - scale, 9)
    before = ([short] if short else []) + [9] * groups
    groups, short = divmod(scale, 9)
    return before + [9] * groups + ([short] if short else []), len(before)


class Decimal(ColumnType):
    """DECIMAL(p, s), metadata: p, s. Text where p > 38."""

    meta_size: int = 2
    is_numeric: ClassVar[bool] = True

    def meta(self, wire: bytes) -> int:
        return wire[0] << 8 | wire[1]

    def allows(self, meta: int) -> bool:
        precision, scale = meta >> 8, meta & 255
        return 1 <= precision <= _MOST_DIGITS and scale <= precision

    def sql(self, column: TypedColumn) -> str:
        text = f"decimal({column.meta >> 8},{column.meta & 255})"
        return f"{text} unsigned" if column.unsigned else text

    def reading(self, column: TypedColumn) -> ColumnReading:
        """The kernel's step for the column; more than 38 digits are text, as Arrow's decimals end there."""
        precision, scale = column.meta >> 8, column.meta & 255
        groups, before = _groups(precision, scale)
        size = sum(_BYTES[digits] for digits in groups)
        if precision > 38:
            return _text_reading(precision, groups, before, size)
        lead, tail = (precision - scale) % 9, scale % 9
        kind = row_cells.DECIMAL_18 if precision <= 18 else row_cells.DECIMAL_38
        full_groups = (precision - scale) // 9 + scale // 9
        layout = (_BYTES[lead], full_groups, _BYTES[tail], 10**tail, 10**lead)
        return fixed(kind, size, pa.decimal128(precision, scale), *layout)


def _text_reading(precision: int, groups: list[int], before: int, size: int) -> ColumnReading:
    sizes = np.array(groups, np.int64)

    def finish(filled: Filled) -> Finished:
        values = filled.numbers("u1")[: filled.rows * size].reshape(filled.rows, size)
        offsets = np.zeros(filled.rows + 1, np.int32)
        out = np.empty(filled.rows * (precision + 12) + 16, np.uint8)
        bad = value_text.decimal_text(values, filled.is_null(), sizes, before, offsets, out)
        if bad >= 0:
            raise BadValue(bad, "a group of digits is too large for its place")
        return filled.texts(offsets, out[: offsets[-1]]), None

    return ColumnReading(row_cells.COPY_N, (size,), size, pa.string(), finish)


DECIMAL = Decimal()
