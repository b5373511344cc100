from decimal import Decimal

import pyarrow as pa
import pytest

from spark_jobs.errors import DecodeError
from tests.binlogs.one_value import check, column_of, read
from tests.binlogs.segment_types import DECIMAL


@pytest.mark.parametrize(
    "precision, scale, wire, value",
    [
        (4, 2, "8a0b", Decimal("10.11")),
        (5, 2, "7c189c", Decimal("-999.99")),
        (10, 0, "8000000000", Decimal(0)),
        (10, 0, "7ffffffffe", Decimal(-1)),
        (9, 9, "80000001", Decimal("0.000000001")),
        (1, 1, "76", Decimal("-0.9")),
        (18, 9, "875bcd153ade68b1", Decimal("123456789.987654321")),
        (20, 0, "800000000000000001", Decimal(1)),
        (38, 20, "80" + "00" * 15 + "05", Decimal("0.00000000000000000005")),
        (38, 20, "7f" + "ff" * 15 + "fa", Decimal("-0.00000000000000000005")),
        (65, 30, "80" + "00" * 14 + "0a1dcd6500" + "00" * 10, "10.500000000000000000000000000000"),
        (65, 30, "7f" + "ff" * 14 + "f5e2329aff" + "ff" * 10, "-10.500000000000000000000000000000"),
        (65, 30, "80" + "00" * 29, "0.000000000000000000000000000000"),
        (65, 30, "7f" + "ff" * 29, "0.000000000000000000000000000000"),
        (60, 0, "80" + "00" * 25 + "01", "1"),
        (60, 0, "8f423f" + "3b9ac9ff" * 6, "9" * 60),
    ],
)
def test_decimal(precision: int, scale: int, wire: str, value: object) -> None:
    check(DECIMAL(precision, scale), wire, value)
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.string()
    column = column_of(DECIMAL(precision, scale))
    assert (column.sql_type, column.arrow) == (f"decimal({precision},{scale})", arrow)


@pytest.mark.parametrize(
    "precision, scale, wire",
    [
        (9, 0, "bb9aca00"),
        (4, 2, "e40b"),
        (4, 2, "8a64"),
        (27, 0, "80000001bb9aca0000000001"),
        (40, 0, "8001" + "3b9aca00" * 4),
    ],
)
def test_a_group_with_too_many_digits_is_no_value(precision: int, scale: int, wire: str) -> None:
    with pytest.raises(DecodeError, match=r"log.000001:\d+: row 0 of shop.t: value decimal|group of digits"):
        read(DECIMAL(precision, scale), bytes.fromhex(wire))
