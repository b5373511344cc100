from decimal import Decimal

import pytest

from spark_jobs.changes.formats.java_text import (
    compact_document,
    decimal_text,
    document,
    double_text,
    float_text,
    quoted,
    quoted_by_jackson,
)


@pytest.mark.parametrize(
    "value, text",
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.25, "1.2345678925E8"),
        (1e-5, "1.0E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (5e-324, "4.9E-324"),
        (1e23, "1.0E23"),
        (120.0, "120.0"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert double_text(value) == text
    assert float(text) == value


@pytest.mark.parametrize(
    "value, text",
    [(0.1, "0.1"), (3.4028235e38, "3.4028235E38"), (16777216.0, "1.6777216E7"), (1.1754944e-38, "1.1754944E-38")],
)
def test_floats(value: float, text: str) -> None:
    assert float_text(value) == text


@pytest.mark.parametrize(
    "value, text",
    [("1.50", "1.50"), ("0.000001", "0.000001"), ("-0.0000001", "-1E-7"), ("0.00000012", "1.2E-7"), ("0E-9", "0E-9")],
)
def test_decimals(value: str, text: str) -> None:
    assert decimal_text(Decimal(value)) == text


def test_strings() -> None:
    assert quoted('a"\\/\n\x01\x1f\x7fé😀') == '"a\\"\\\\/\\n\\u0001\\u001F\x7fé😀"'
    assert quoted_by_jackson("é😀") == '"é\\uD83D\\uDE00"'


def test_documents() -> None:
    text = '{"a, b: ": [1, 2.5, 1e10, 0.00001, 1.50, 9.00], "t": "x\\"\\u0001", "n": null}'
    assert document(text) == '{"a, b: ": [1, 2.5, 1.0E10, 1.0E-5, 1.50, 9.00], "t": "x\\"\\u0001", "n": null}'
    assert compact_document('{"a, b: ": [1, 2.5, 1e10, 1.50]}') == '{"a, b: ":[1,2.5,10000000000,1.50]}'
    assert compact_document("1e-05").startswith("0.0000100000000000000008")
