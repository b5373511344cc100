"""The digits of numbers: doubles as the twin has them, and none with fewer digits."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.kernels import doubles
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.binary_json import double_text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_as_the_twin_has_them(value: float) -> None:
    out = np.zeros(40, np.uint8)
    end = doubles.put_double(address_of(out), np.float64(value).view(np.uint64))
    text = out[: end - address_of(out)].tobytes().decode()
    assert text == double_text(value)
    assert struct.pack("<d", float(text)) == struct.pack("<d", value)


def test_the_digits_of_doubles_are_the_shortest() -> None:
    rng = np.random.default_rng(4)
    powers = np.concatenate([2.0 ** np.arange(-1074, 1024), 10.0 ** np.arange(-323, 309)])
    values = np.concatenate([rng.integers(1, 0x7FF0 << 48, 3000, np.uint64).view(np.float64), powers])
    values = np.concatenate([values, np.nextafter(powers, np.inf), np.nextafter(powers, 0)])
    values = values[(values != 0) & np.isfinite(values)]
    for value, bits in zip(values.tolist(), values.view(np.uint64), strict=True):
        digits, exponent = doubles.shortest(bits)
        assert float(f"{int(digits)}e{int(exponent)}") == value
        assert len(str(int(digits)).rstrip("0")) == len(repr(value).partition("e")[0].replace(".", "").strip("0"))


@pytest.mark.parametrize("number", [0, 9, 10, -1, -(1 << 63), (1 << 63) - 1])
def test_integers(number: int) -> None:
    out = np.zeros(24, np.uint8)
    start = address_of(out)
    end = doubles.put_signed(start, np.int64(number))
    assert out[: end - start].tobytes().decode() == str(number)
