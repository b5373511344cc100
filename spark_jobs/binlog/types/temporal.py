"""DATE, DATETIME, TIMESTAMP, TIME and YEAR.

Source: MySQL mysys/my_time.cc (my_datetime_packed_from_binary, my_time_packed_from_binary). What a calendar does not
have ('0000-00-00', '2024-00-28', '2024-02-31') arrives as a mark in its slot; its text is made here.

Put here: types of dates and times. Not here: reading their bytes (kernels/row_values.py).
"""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import row_cells, value_text
from spark_jobs.binlog.types.base import (
    BadValue,
    ColumnReading,
    ColumnType,
    Exact,
    Filled,
    Finish,
    Finished,
    Numbers,
    TypedColumn,
    fixed,
    validity_of,
)

MICROSECONDS = pa.timestamp("us")
FRACTION_UNIT = (1_000_000, 10_000, 100, 1)
"""Microseconds in one unit of a fraction stored in 0 to 3 bytes."""


def _columns_of_text(parts: list[str | tuple[Numbers, int]], rows: int) -> pa.Array:
    """Texts of one length, put together from constant text and numbers printed in so many digits."""
    columns: list[Numbers] = []
    for part in parts:
        if isinstance(part, str):
            columns += [np.full(rows, ord(letter), np.uint8) for letter in part]
        else:
            numbers, digits = part
            columns += [(numbers // 10**k % 10 + 48).astype(np.uint8) for k in reversed(range(digits))]
    text = np.stack(columns, axis=1)
    offsets = np.arange(rows + 1, dtype=np.int32) * text.shape[1]
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _date_parts(year: Numbers, month: Numbers, day: Numbers) -> list[str | tuple[Numbers, int]]:
    return [(year, 4), "-", (month, 2), "-", (day, 2)]


def _require_years(rows: Numbers, years: Numbers) -> None:
    """Check that all years are ones that a server writes; the bits can hold more. Raises BadValue."""
    late = np.flatnonzero(years > 9999)
    if len(late):
        raise BadValue(int(rows[late[0]]), "the year is beyond 9999: the bytes are no value of the type")


def _dates(rows: Numbers, packed: Numbers) -> Exact:
    _require_years(rows, packed >> 9)
    return Exact(rows, _columns_of_text(_date_parts(packed >> 9, (packed >> 5) & 15, packed & 31), len(packed)))


def _datetimes(rows: Numbers, packed: Numbers, digits: int) -> Exact:
    date, fraction = packed >> 20, packed & ((1 << 20) - 1)
    year, month = np.divmod(date >> 22, 13)
    _require_years(rows, year)
    parts = [*_date_parts(year, month, (date >> 17) & 31), " ", ((date >> 12) & 31, 2)]
    parts += [":", ((date >> 6) & 63, 2), ":", (date & 63, 2)]
    if digits:
        parts += [".", (fraction // 10 ** (6 - digits), digits)]
    return Exact(rows, _columns_of_text(parts, len(packed)))


def _finish_date(filled: Filled) -> Finished:
    exact = None
    if filled.marked:
        slots = filled.numbers("i4")
        rows = np.flatnonzero(slots[: filled.rows] < row_cells.DATE_MARK // 2)
        exact = _dates(rows, slots[rows].astype(np.int64) - row_cells.DATE_MARK)
    return filled.array(pa.date32()), exact


def finish_moment(arrow: pa.DataType, digits: int) -> Finish:
    """Function that finishes slots of microseconds, or marked under a null."""

    def finish(filled: Filled) -> Finished:
        exact = None
        if filled.marked:
            slots = filled.numbers("i8")
            rows = np.flatnonzero(slots[: filled.rows] < row_cells.TIME_MARK // 2)
            exact = _datetimes(rows, slots[rows] - row_cells.TIME_MARK, digits)
        return filled.array(arrow), exact

    return finish


def finish_marked(filled: Filled, values: Numbers, arrow: pa.DataType, digits: int) -> Finished:
    """Finish microseconds that were made in numpy: marked rows, not null yet, become null with an exact value."""
    nulls = filled.is_null()
    marked = (values < row_cells.TIME_MARK // 2) & (nulls == 0)
    rows = np.flatnonzero(marked)
    if not len(rows):
        return pa.Array.from_buffers(arrow, filled.rows, [filled.validity, pa.py_buffer(values)], filled.nulls), None
    validity, count = validity_of(nulls | marked)
    array = pa.Array.from_buffers(arrow, filled.rows, [validity, pa.py_buffer(values)], count)
    return array, _datetimes(rows, values[rows] - row_cells.TIME_MARK, digits)


def _finish_time(digits: int) -> Finish:
    return lambda filled: (time_texts(filled, filled.numbers("i8")[: filled.rows], digits), None)


def time_texts(filled: Filled, packed: Numbers, digits: int) -> pa.Array:
    """TIME as the server prints it, from slots as TIME_TO_64 fills them."""
    offsets = np.zeros(filled.rows + 1, np.int32)
    out = np.empty(18 * filled.rows, np.uint8)
    value_text.time_text(packed, filled.is_null(), digits, offsets, out)
    return filled.texts(offsets, out[: offsets[-1]])


class Date(ColumnType):
    """DATE: three bytes, little-endian: day 5 bits, month 4, year 15."""

    def sql(self, column: TypedColumn) -> str:  # noqa: ARG002 - every type is asked alike
        return "date"

    def reading(self, column: TypedColumn) -> ColumnReading:  # noqa: ARG002 - every type is asked alike
        return fixed(row_cells.DATE_TO_32, 3, pa.date32(), finish=_finish_date)


class Year(ColumnType):
    """YEAR: years since 1900 in a byte; 0 is the year 0."""

    is_numeric: ClassVar[bool] = True

    def sql(self, column: TypedColumn) -> str:  # noqa: ARG002 - every type is asked alike
        return "year"

    def reading(self, column: TypedColumn) -> ColumnReading:  # noqa: ARG002 - every type is asked alike
        return fixed(row_cells.YEAR_TO_16, 1, pa.int16())


class Fractional(ColumnType):
    """A type with 0 to 6 digits of seconds' fraction (its metadata) in 0 to 3 bytes behind ``size`` bytes."""

    meta_size: int = 1

    def __init__(self, name: str, kind: int, size: int, arrow: pa.DataType) -> None:
        self.name = name
        self.kind = kind
        self.size = size
        self.type = arrow

    def allows(self, meta: int) -> bool:
        return meta <= 6

    def sql(self, column: TypedColumn) -> str:
        return f"{self.name}({column.meta})" if column.meta else self.name

    def digits(self, column: TypedColumn) -> int:
        return column.meta

    def reading(self, column: TypedColumn) -> ColumnReading:
        fraction = (column.meta + 1) // 2
        parameters = (self.size + fraction, fraction, FRACTION_UNIT[fraction])
        if self.kind == row_cells.TIME_TO_64:
            return ColumnReading(self.kind, parameters, 8, pa.string(), _finish_time(column.meta))
        return ColumnReading(self.kind, parameters, 8, self.type, finish_moment(self.type, column.meta))


DATE = Date()
YEAR = Year()
DATETIME = Fractional("datetime", row_cells.DATETIME_TO_64, 5, MICROSECONDS)
TIMESTAMP = Fractional("timestamp", row_cells.TIMESTAMP_TO_64, 4, pa.timestamp("us", "UTC"))
TIME = Fractional("time", row_cells.TIME_TO_64, 3, pa.string())
