# ruff: noqa: DTZ001 - DATETIME has no zone

import time
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from spark_jobs.errors import DecodeError
from tests.binlogs.one_value import check, column_of, read
from tests.binlogs.segment_types import DATE, DATETIME, TIME, TIMESTAMP, YEAR, ColumnType


@pytest.mark.parametrize(
    "wire, value, raw",
    [
        ("5dd00f", date(2024, 2, 29), None),
        ("21d007", date(1000, 1, 1), None),
        ("9f1f4e", date(9999, 12, 31), None),
        ("210200", date(1, 1, 1), None),
        ("000000", None, "0000-00-00"),
        ("00d00f", None, "2024-00-00"),
        ("1cd00f", None, "2024-00-28"),
        ("80d10f", None, "2024-12-00"),
        ("5fce0f", None, "2023-02-31"),
        ("210000", None, "0000-01-01"),
    ],
)
def test_date(wire: str, value: date | None, raw: str | None) -> None:
    check(DATE, wire, value, raw)


@pytest.mark.parametrize("kind, wire", [(DATE, "5dd04e"), (DATETIME(0), "fffffef7aa")])
def test_a_year_of_five_digits_stops(kind: ColumnType, wire: str) -> None:
    with pytest.raises(DecodeError, match=r"the year is beyond 9999"):
        read(kind, bytes.fromhex(wire))


@pytest.mark.parametrize(
    "digits, wire, value, raw",
    [
        (0, "8000000000", None, "0000-00-00 00:00:00"),
        (0, "999838f7aa", None, "2016-00-28 15:30:42"),
        (0, "999a80f7aa", None, "2016-10-00 15:30:42"),
        (0, "800002f105", None, "0000-00-01 15:04:05"),
        (3, "80000000000000", None, "0000-00-00 00:00:00.000"),
        (1, "800000000032", None, "0000-00-00 00:00:00.5"),
        (0, "99b37ac5aa", datetime(2024, 5, 29, 12, 22, 42), None),
        (6, "99b37ac5aa0f423f", datetime(2024, 5, 29, 12, 22, 42, 999999), None),
        (2, "99b37ac5aa0a", datetime(2024, 5, 29, 12, 22, 42, 100000), None),
        (4, "99b37ac5aa0001", datetime(2024, 5, 29, 12, 22, 42, 100), None),
    ],
)
def test_datetime(digits: int, wire: str, value: datetime | None, raw: str | None) -> None:
    check(DATETIME(digits), wire, value, raw)


@pytest.mark.parametrize(
    "digits, wire, value, raw",
    [
        (0, "00000000", None, "0000-00-00 00:00:00"),
        (6, "00000000000000", None, "0000-00-00 00:00:00.000000"),
        (0, "00000001", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), None),
        (0, "7fffffff", datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC), None),
        (0, "ffffffff", datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC), None),
        (3, "6500000004ce", datetime(2023, 9, 12, 6, 6, 56, 123000, tzinfo=UTC), None),
    ],
)
def test_timestamp(digits: int, wire: str, value: datetime | None, raw: str | None) -> None:
    check(TIMESTAMP(digits), wire, value, raw)


@pytest.mark.parametrize(
    "digits, wire, value",
    [
        (0, "7fffff", "-00:00:01"),
        (0, "800000", "00:00:00"),
        (2, "80000000", "00:00:00.00"),
        (2, "7fffffff", "-00:00:00.01"),
        (6, "4b9105fe1dc0", "-838:59:58.123456"),
        (4, "7f0efafb2d", "-15:04:05.1235"),
        (1, "7ffffeCE", "-00:00:01.5"),
        (0, "b46efb", "838:59:59"),
        (3, "8010830309", "01:02:03.077"),
    ],
)
def test_time(digits: int, wire: str, value: str) -> None:
    check(TIME(digits), wire, value)


@pytest.mark.parametrize("year", [1, 12, 69, 99, 999])
def test_early_years_stay_as_they_are(year: int) -> None:
    """No century is added to a year of one or two digits."""
    assert read(DATE, DATE.encode(f"{year}-12-31")) == (date(year, 12, 31), None)
    assert read(DATETIME(), DATETIME().encode(f"{year}-12-31 23:59:59")) == (datetime(year, 12, 31, 23, 59, 59), None)


def test_a_date_of_zeros_keeps_its_year_and_its_time() -> None:
    assert read(DATETIME(), DATETIME().encode("0003-00-00 00:00:01")) == (None, "0003-00-00 00:00:01")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu", "UTC"])
def test_the_zone_of_the_reader_does_not_matter(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert read(TIMESTAMP(), bytes.fromhex("65000000")) == (datetime(2023, 9, 12, 6, 6, 56, tzinfo=UTC), None)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("wire, value", [("00", 0), ("01", 1901), ("ff", 2155)])
def test_year(wire: str, value: int) -> None:
    check(YEAR, wire, value)


@pytest.mark.parametrize(
    "kind, sql, arrow",
    [
        (DATE, "date", pa.date32()),
        (YEAR, "year", pa.int16()),
        (DATETIME(), "datetime", pa.timestamp("us")),
        (DATETIME(3), "datetime(3)", pa.timestamp("us")),
        (TIMESTAMP(6), "timestamp(6)", pa.timestamp("us", "UTC")),
        (TIME(), "time", pa.string()),
        (TIME(2), "time(2)", pa.string()),
    ],
)
def test_names_and_types(kind: ColumnType, sql: str, arrow: pa.DataType) -> None:
    assert (column_of(kind).sql_type, column_of(kind).arrow) == (sql, arrow)


@pytest.mark.parametrize(
    "kind, wire",
    [
        (DATETIME(6), "99b37ac5aa0f4240"),
        (DATETIME(), "7fffffffff"),
        (TIMESTAMP(6), "000000010f4240"),
        (TIME(), "80003c"),
    ],
)
def test_bytes_that_are_no_time_stop(kind: ColumnType, wire: str) -> None:
    with pytest.raises(DecodeError, match="no value of the type"):
        read(kind, bytes.fromhex(wire))
