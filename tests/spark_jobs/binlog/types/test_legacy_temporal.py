"""Formats before MySQL 5.6.4; bytes with a fraction are as MariaDB writes them with mysql56_temporal_format=OFF."""

# ruff: noqa: DTZ001 - DATETIME has no zone

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog.events.table_map import Column, TableDefinition, TableName
from spark_jobs.errors import DecodeError, Unsupported
from tests.binlogs.one_value import check, column_of, decode, read
from tests.binlogs.segment_spec import Insert, Raw, SegmentSpec, Table
from tests.binlogs.segment_types import OLD_DATETIME, OLD_TIME, OLD_TIMESTAMP, ColumnType

TIME_ZERO = (838 * 3600 + 59 * 60 + 60) * 1_000_000


@pytest.mark.parametrize(
    "kind, wire, value, raw",
    [
        (OLD_TIMESTAMP, "00000000", None, "0000-00-00 00:00:00"),
        (OLD_TIMESTAMP, "01000000", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None),
        (OLD_TIMESTAMP, "ffffffff", datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC), None),
        (OLD_TIME, "000000", "00:00:00", None),
        (OLD_TIME, "40e201", "12:34:56", None),
        (OLD_TIME, "c01dfe", "-12:34:56", None),
        (OLD_TIME, (-8385959).to_bytes(3, "little", signed=True).hex(), "-838:59:59", None),
        (OLD_TIME, "ffffff", "-00:00:01", None),
        (OLD_DATETIME, "0" * 16, None, "0000-00-00 00:00:00"),
        (OLD_DATETIME, (20240229121314).to_bytes(8, "little").hex(), datetime(2024, 2, 29, 12, 13, 14), None),
        (OLD_DATETIME, (99991231235959).to_bytes(8, "little").hex(), datetime(9999, 12, 31, 23, 59, 59), None),
        (OLD_DATETIME, (20240028102030).to_bytes(8, "little").hex(), None, "2024-00-28 10:20:30"),
        (OLD_DATETIME, (20240231000000).to_bytes(8, "little").hex(), None, "2024-02-31 00:00:00"),
        (OLD_DATETIME, (1010000).to_bytes(8, "little").hex(), None, "0000-00-01 01:00:00"),
    ],
)
def test_values(kind: ColumnType, wire: str, value: Any, raw: str | None) -> None:
    check(kind, wire, value, raw)


@pytest.mark.parametrize(
    "kind, number",
    [(OLD_TIME, 6000), (OLD_TIME, -60), (OLD_DATETIME, 20241301000000), (OLD_DATETIME, 20240101240000)],
)
def test_numbers_that_are_no_time_stop(kind: ColumnType, number: int) -> None:
    with pytest.raises(DecodeError, match="no value of the type"):
        read(kind, kind.encode(number))


def fractional(code: int, name: str, digits: int, *stored: bytes | None) -> tuple[list[Any], list[Any]]:
    rows = [Insert("shop.t", (None if value is None else Raw(value),)) for value in stored]
    content = SegmentSpec([Table("shop.t", value=ColumnType(code, b"", bytes))], rows).to_bytes()
    column = Column("value", code, 0, declared=f"{name}({digits})")
    changes = decode(content, definition=TableDefinition(TableName("shop", "t"), (column,)))
    changes.after.validate(full=True)
    raw = [None] * len(stored) if changes.raw is None else [row and row[0][1] for row in changes.raw.to_pylist()]
    return changes.after["value"].to_pylist(), raw


@pytest.mark.parametrize(
    "digits, size, fraction, text", [(1, 1, 9, ".9"), (3, 2, 987, ".987"), (6, 3, 987654, ".987654")]
)
def test_timestamp_with_a_fraction(digits: int, size: int, fraction: int, text: str) -> None:
    stored = (1709208794).to_bytes(4, "big") + fraction.to_bytes(size, "big")
    micros = int(text[1:].ljust(6, "0"))
    assert fractional(7, "timestamp", digits, stored, None, b"\0" * (4 + size)) == (
        [datetime(2024, 2, 29, 12, 13, 14, micros, tzinfo=UTC), None, None],
        [None, None, "0000-00-00 00:00:00" + "." + "0" * digits],
    )


@pytest.mark.parametrize("digits, size", [(1, 6), (2, 6), (3, 7), (4, 7), (5, 7), (6, 8)])
def test_datetime_with_a_fraction(digits: int, size: int) -> None:
    def stored(year: int, month: int, day: int, fraction: int) -> bytes:
        mixed = (((((year * 13 + month) * 32 + day) * 24 + 12) * 60 + 13) * 60 + 14) * 10**digits + fraction
        return int(mixed).to_bytes(size, "big")

    fraction = 123456 // 10 ** (6 - digits)
    values, raw = fractional(12, "datetime", digits, stored(2024, 2, 29, fraction), stored(2024, 10, 0, 0), None)
    assert values == [datetime(2024, 2, 29, 12, 13, 14, fraction * 10 ** (6 - digits)), None, None]
    assert raw == [None, f"2024-10-00 12:13:14.{'0' * digits}", None]


@pytest.mark.parametrize("digits, size", [(1, 4), (2, 4), (3, 5), (4, 5), (5, 5), (6, 6)])
def test_time_with_a_fraction(digits: int, size: int) -> None:
    def stored(micros: int) -> bytes:
        return int((TIME_ZERO + micros) // 10 ** (6 - digits)).to_bytes(size, "big")

    unit = 10 ** (6 - digits)
    values, _ = fractional(11, "time", digits, stored(-unit), stored(0), stored(TIME_ZERO - 1_000_000), None)
    zeros = "0" * digits
    assert values == [f"-00:00:00.{zeros[1:]}1", f"00:00:00.{zeros}", f"838:59:59.{zeros}", None]


def test_a_fraction_beyond_the_type_stops() -> None:
    with pytest.raises(DecodeError, match="no value of the type"):
        fractional(11, "time", 6, b"\xff" * 6)


@pytest.mark.parametrize("code, name", [(7, "timestamp"), (11, "time"), (12, "datetime")])
def test_digits_that_nothing_tells_are_not_guessed(code: int, name: str) -> None:
    with pytest.raises(Unsupported, match=f"MariaDB wrote it as {name} of mysql56_temporal_format=OFF"):
        assert Column("c", code).arrow


def test_names_and_types() -> None:
    assert (column_of(OLD_TIME).sql_type, column_of(OLD_TIME).arrow) == ("time", pa.string())
    assert (column_of(OLD_DATETIME).sql_type, column_of(OLD_DATETIME).arrow) == ("datetime", pa.timestamp("us"))
    assert (column_of(OLD_TIMESTAMP).sql_type, column_of(OLD_TIMESTAMP).arrow) == (
        "timestamp",
        pa.timestamp("us", "UTC"),
    )
