"""TIMESTAMP, TIME and DATETIME as servers before MySQL 5.6.4 wrote them, and MariaDB with mysql56_temporal_format=OFF.

Without a fraction they are little-endian numbers: seconds since 1970, HHMMSS, YYYYMMDDHHMMSS. MariaDB's with a fraction
are big-endian (sql/field.cc, Field_timestamp_hires, Field_time_hires, Field_datetime_hires), and nothing in the log
tells their digits: a column of a MariaDB log is read only where a definition does.

Put here: the old formats. Not here: today's (temporal.py).
"""

import re
from typing import ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.binlog.kernels import row_cells
from spark_jobs.binlog.types.base import (
    BadValue,
    ColumnReading,
    ColumnType,
    Filled,
    Finish,
    Finished,
    Numbers,
    TypedColumn,
    fixed,
)
from spark_jobs.binlog.types.temporal import MICROSECONDS, finish_marked, finish_moment, time_texts
from spark_jobs.errors import Unsupported

_SECOND = 1_000_000
_TIME_ZERO = (838 * 3600 + 59 * 60 + 60) * _SECOND
"""MariaDB sql/field.cc, zero_point: what a TIME with a fraction has on top, before its digits are cut."""


class LegacyTemporal(ColumnType):
    """A type without metadata; ``declared`` tells its digits (``time(3)``), None where nothing does."""

    name: ClassVar[str]

    def sql(self, column: TypedColumn) -> str:
        return column.declared or self.name

    def digits(self, column: TypedColumn) -> int:
        if column.declared is None:
            raise Unsupported(
                f"MariaDB wrote it as {self.name} of mysql56_temporal_format=OFF, and the log does not tell its digits "
                "of a second; read from the server, so that its definition does, or ALTER TABLE … FORCE"
            )
        match = re.search(r"\((\d)\)", column.declared)
        return int(match[1]) if match else 0


def _unit_micros(digits: int) -> int:
    return int(10 ** (6 - digits))


class OldTimestamp(LegacyTemporal):
    """Four bytes of seconds since 1970, 0 for no time; with a fraction big-endian, like today's but for its unit."""

    name = "timestamp"

    def reading(self, column: TypedColumn) -> ColumnReading:
        digits = self.digits(column)
        arrow = pa.timestamp("us", "UTC")
        if digits:
            size = (digits + 1) // 2
            parameters = (4 + size, size, _unit_micros(digits))
            return ColumnReading(row_cells.TIMESTAMP_TO_64, parameters, 8, arrow, finish_moment(arrow, digits))
        return ColumnReading(row_cells.UINT32_TO_64, (4,), 8, arrow, _finish_seconds)


def _finish_seconds(filled: Filled) -> Finished:
    seconds = filled.numbers("i8")[: filled.rows]
    values = np.where(seconds == 0, row_cells.TIME_MARK, seconds * _SECOND)
    return finish_marked(filled, values, pa.timestamp("us", "UTC"), 0)


class OldDatetime(LegacyTemporal):
    """A decimal number YYYYMMDDHHMMSS; with a fraction the mixed number of year, month (13), day (32), hour …."""

    name = "datetime"

    def reading(self, column: TypedColumn) -> ColumnReading:
        digits = self.digits(column)
        if digits:
            return fixed(
                row_cells.BIG_TO_64, (5, 6, 6, 7, 7, 7, 8)[digits], MICROSECONDS, finish=_mixed_datetime(digits)
            )
        return fixed(row_cells.COPY_8, 8, MICROSECONDS, finish=_finish_decimal_datetime)


def _finish_decimal_datetime(filled: Filled) -> Finished:
    return _finish_parts(filled, filled.numbers("i8")[: filled.rows], (100, 100, 100, 100, 100), 0)


def _mixed_datetime(digits: int) -> Finish:
    def finish(filled: Filled) -> Finished:
        values = filled.numbers("i8")[: filled.rows]
        bases = (_SECOND // _unit_micros(digits), 60, 60, 24, 32, 13)
        return _finish_parts(filled, values, bases, digits)

    return finish


def _finish_parts(filled: Filled, values: Numbers, bases: tuple[int, ...], digits: int) -> Finished:
    """Datetimes of numbers whose lowest parts have the bases: fraction if digits, second, minute, hour, day, month."""
    parts = []
    for base in bases:
        values, part = np.divmod(values, base)
        parts.append(part)
    fraction = parts.pop(0) * _unit_micros(digits) if digits else np.zeros(filled.rows, np.int64)
    second, minute, hour, day, month = parts
    beyond = (values < 0) | (values > 9999) | (month > 12) | (day > 31) | (hour > 23) | (minute > 59) | (second > 59)
    _require(~beyond | (filled.is_null() != 0))
    month = np.where(beyond, 0, values * 13 + month)
    days = row_cells.MONTH_START[month] + day
    clock = (hour * 60 + minute) * 60 + second
    real = (day > 0) & (day <= row_cells.MONTH_LENGTH[month])
    packed = ((month << 5 | day) << 17 | hour << 12 | minute << 6 | second) << 20 | fraction
    slots = np.where(real, (days.astype(np.int64) * 86400 + clock) * _SECOND + fraction, row_cells.TIME_MARK + packed)
    return finish_marked(filled, slots, MICROSECONDS, digits)


class OldTime(LegacyTemporal):
    """A signed decimal number HHMMSS in three bytes; with a fraction its units above a zero point."""

    name = "time"

    def reading(self, column: TypedColumn) -> ColumnReading:
        digits = self.digits(column)
        if digits:
            parameters = ((3, 4, 4, 5, 5, 5, 6)[digits],)
            return ColumnReading(row_cells.BIG_TO_64, parameters, 8, pa.string(), _mixed_time(digits))
        return ColumnReading(row_cells.INT24_TO_32, (3,), 4, pa.string(), _finish_decimal_time)


def _finish_decimal_time(filled: Filled) -> Finished:
    values = filled.numbers("i4")[: filled.rows].astype(np.int64)
    magnitude = abs(values)
    hour, minute, second = magnitude // 10000, magnitude // 100 % 100, magnitude % 100
    _require((minute < 60) & (second < 60))
    return time_texts(filled, np.sign(values) * (hour << 36 | minute << 30 | second << 24), 0), None


def _mixed_time(digits: int) -> Finish:
    def finish(filled: Filled) -> Finished:
        values = (filled.numbers("i8")[: filled.rows] - _TIME_ZERO // _unit_micros(digits)) * _unit_micros(digits)
        magnitude = abs(values)
        _require((magnitude < _TIME_ZERO) | (filled.is_null() != 0))
        seconds, fraction = np.divmod(magnitude, _SECOND)
        packed = (seconds // 3600) << 36 | (seconds // 60 % 60) << 30 | (seconds % 60) << 24 | fraction
        return time_texts(filled, np.where(values < 0, -packed, packed), digits), None

    return finish


def _require(good: Numbers) -> None:
    bad = np.flatnonzero(~good)
    if len(bad):
        raise BadValue(int(bad[0]), "the bytes are no value of the type")


OLD_TIMESTAMP = OldTimestamp()
OLD_DATETIME = OldDatetime()
OLD_TIME = OldTime()
