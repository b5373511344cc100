"""CHAR, VARCHAR and the TEXT family, and their twins of bytes: BINARY, VARBINARY and the BLOB family.

On the wire the two are one type; the collation tells them apart (63 is bytes). Put here: types whose bytes come with a
length. Not here: character sets (charsets.py), ENUM and SET (enum_set.py).
"""

from typing import ClassVar

import pyarrow as pa

from spark_jobs.binlog.kernels import row_cells
from spark_jobs.binlog.types.base import WITH_LENGTH, ColumnReading, ColumnType, Counted, TypedColumn, as_is
from spark_jobs.binlog.types.charsets import BINARY, charset_of, finish_for, width_of
from spark_jobs.errors import Unsupported


def _charset(column: TypedColumn) -> str | None:
    return None if column.charset is None else charset_of(column.charset)


def _named_charset(column: TypedColumn) -> str | None:
    """Character set by _charset for a name: an unknown collation stops who reads the column, not who names it."""
    try:
        return _charset(column)
    except Unsupported:
        return None


def _reading(column: TypedColumn, length_size: int) -> ColumnReading:
    kind, skip = WITH_LENGTH[length_size]
    charset = _charset(column)
    arrow = pa.binary() if charset == BINARY else pa.string()
    finish = as_is(arrow) if charset == BINARY else finish_for(charset)
    return ColumnReading(kind, (0,), 4, arrow, finish, skip)


def _length(column: TypedColumn, size: int) -> int:
    """The declared length of a column of ``size`` bytes, in characters where there is a character set."""
    charset = _named_charset(column)
    return size // (1 if charset is None else width_of(charset))


class Varchar(ColumnType):
    """VARCHAR and VARBINARY, metadata: the most bytes of a value; beyond 255 its length has two bytes."""

    meta_size: int = 2
    is_character: ClassVar[bool] = True

    def sql(self, column: TypedColumn) -> str:
        return self.sized(column, column.meta)

    def sized(self, column: TypedColumn, size: int) -> str:
        """The type as declared with so many bytes, such as ``varchar(32)``."""
        return f"{'varbinary' if _named_charset(column) == BINARY else 'varchar'}({_length(column, size)})"

    def reading(self, column: TypedColumn) -> ColumnReading:
        return _reading(column, 1 if column.meta < 256 else 2)


class Char(ColumnType):
    """CHAR and BINARY, stored without trailing spaces or zero bytes; metadata as packed_length reads it."""

    meta_size: int = 2
    is_character: ClassVar[bool] = True

    def meta(self, wire: bytes) -> int:
        return packed_length(wire)

    def sql(self, column: TypedColumn) -> str:
        return f"{'binary' if _named_charset(column) == BINARY else 'char'}({_length(column, column.meta)})"

    def reading(self, column: TypedColumn) -> ColumnReading:
        if _charset(column) == BINARY:
            parameters = (column.meta,)
            arrow = pa.binary()
            return ColumnReading(
                row_cells.PADDED, parameters, 4, arrow, as_is(arrow), row_cells.SKIP_1, bounded=column.meta
            )
        return _reading(column, 1 if column.meta < 256 else 2)


class Blob(Counted):
    """TINYTEXT to LONGTEXT, TINYBLOB to LONGBLOB."""

    is_character: ClassVar[bool] = True

    def sql(self, column: TypedColumn) -> str:
        size = ("", "tiny", "", "medium", "long")[column.meta]
        return f"{size}{'blob' if _named_charset(column) == BINARY else 'text'}"

    def reading(self, column: TypedColumn) -> ColumnReading:
        return _reading(column, column.meta)


def packed_length(wire: bytes) -> int:
    """The length in bytes of a CHAR: its bits 8 and 9 stand inverted in bits 4 and 5 of the type (rpl_utility.h)."""
    return (((wire[0] >> 4) & 3) ^ 3) << 8 | wire[1]


VARCHAR = Varchar()
CHAR = Char()
BLOB = Blob()
