"""One value from the wire to its slot; what no value can be."""

from datetime import date
from typing import Any

import numpy as np
import pytest

from spark_jobs.binlog.kernels import row_cells, row_values
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.kernel_bytes import address
from tests.binlogs.segment_types import DECIMAL


@pytest.mark.parametrize("value", ["0", "1", "-1", "999999999999.999999", "-999999999999.999999", "123456.5"])
@pytest.mark.parametrize("reader", [row_values.read_decimal_18, row_values.read_decimal_38])
def test_decimals(reader: Any, value: str) -> None:
    """DECIMAL(18, 6): a lead of three digits in two bytes, a whole group, a tail of six digits in three bytes."""
    offset, _owner = address(DECIMAL(18, 6).encode(value))
    slot = np.zeros(16, np.uint8)
    assert reader(offset, address_of(slot), 2, 1, 3, 10**6, 10**3)
    integer, _, fraction = value.lstrip("-").partition(".")
    number = int(integer + fraction.ljust(6, "0")) * (-1 if value[0] == "-" else 1)
    assert int.from_bytes(slot.tobytes(), "little", signed=True) == number


@pytest.mark.parametrize("reader", [row_values.read_decimal_18, row_values.read_decimal_38])
def test_groups_with_too_many_digits_are_no_decimal(reader: Any) -> None:
    wire = bytearray(DECIMAL(18, 6).encode("0"))
    wire[2:6] = (10**9).to_bytes(4, "big")
    offset, _owner = address(bytes(wire))
    slot = np.zeros(16, np.uint8)
    assert not reader(offset, address_of(slot), 2, 1, 3, 10**6, 10**3)


@pytest.mark.parametrize(
    "year, month, day, real",
    [(2024, 2, 29, True), (2023, 2, 29, False), (1, 1, 1, True), (0, 0, 0, False), (2024, 0, 1, False)],
)
def test_dates(year: int, month: int, day: int, real: bool) -> None:
    packed = year << 9 | month << 5 | day
    offset, _owner = address(packed.to_bytes(3, "little"))
    slot = np.zeros(1, np.int32)
    assert row_values.read_date(offset, address_of(slot), *row_cells.CALENDAR) == real
    expected = (date(year, month, day) - date(1970, 1, 1)).days if real else row_cells.DATE_MARK + packed
    assert slot[0] == expected


@pytest.mark.parametrize("wire, code, value", [("00000001", 0, 10**6), ("00000000", 1, row_cells.TIME_MARK)])
def test_timestamps(wire: str, code: int, value: int) -> None:
    offset, _owner = address(bytes.fromhex(wire))
    slot = np.zeros(1, np.int64)
    assert row_values.read_timestamp(offset, address_of(slot), 0, 0) == code
    assert slot[0] == value


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16, 20])
def test_a_slot_of_zeros_is_as_wide_as_it_says(width: int) -> None:
    slot = np.full(24, 0xFF, np.uint8)
    row_values.zero_slot(address_of(slot), width)
    assert slot.tobytes() == bytes(width) + b"\xff" * (24 - width)
