"""Which values are the same by both, and which are not compared."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.binlog import Column
from spark_jobs.checks.second_reader import values
from spark_jobs.checks.second_reader.values import FAULTS, fault, is_equal

PAGE = Path(__file__).parents[4] / "docs" / "verify.md"
UTF8, SJIS = 45, 13


def column(code: int, **fields: Any) -> Column:
    return Column("c", code, **fields)


EQUAL: list[tuple[Column, Any, Any]] = [
    (column(3), 5, 5),
    (column(8, unsigned=True), Decimal(18446744073709551615), 18446744073709551615),
    (column(4, meta=4), 0.5, 0.5),
    (column(246, meta=5 << 8 | 2), Decimal("-1.50"), Decimal("-1.5")),
    (column(246, meta=60 << 8), "-999", Decimal(-999)),
    (column(16, meta=9), 256, "100000000"),
    (column(10), date(2024, 2, 29), date(2024, 2, 29)),
    (column(18, meta=1), datetime(2024, 2, 29, 1, 2, 3, 500000), datetime(2024, 2, 29, 1, 2, 3, 500000)),  # noqa: DTZ001
    (column(17), datetime(2024, 2, 29, 1, tzinfo=UTC), datetime(2024, 2, 29, 1)),  # noqa: DTZ001
    (column(19, meta=2), "838:59:59.25", timedelta(hours=838, minutes=59, seconds=59, microseconds=250000)),
    (column(19), "-00:00:01", timedelta(seconds=-1)),
    (column(13), 2024, 2024),
    (column(15, charset=UTF8), "ä", "ä"),
    (column(15, charset=None), "ä", "ä".encode()),
    (column(254, meta=4, charset=63), b"a\0\0\0", b"a"),
    (column(252, meta=2, charset=63), b"", ""),
    (column(247, labels=("a", "b"), charset=UTF8), "b", "b"),
    (column(248, labels=("a", "b"), charset=UTF8), "a,b", {"b", "a"}),
    (column(248, labels=("a", "b"), charset=UTF8), "", None),
    (column(255, meta=4), {"srid": 4326, "wkb": b"\1\2"}, b"\xe6\x10\0\0\1\2"),
    (column(245, meta=4), '{"a": [1, 1.5, "x", null, true]}', {b"a": [1, 1.5, b"x", None, True]}),
    (column(245, meta=4), "null", None),
    (column(3), None, None),
]


@pytest.mark.parametrize("kind, value, peer", EQUAL)
def test_these_are_equal(kind: Column, value: Any, peer: Any) -> None:
    assert fault(kind, value, None, peer) is None
    assert is_equal(kind, value, peer)


@pytest.mark.parametrize(
    "kind, value, peer",
    [
        (column(3), 5, 6),
        (column(3), 5, None),
        (column(3), None, 5),
        (column(3), 1, True),
        (column(5, meta=8), 0.0, -0.0),
        (column(246, meta=5 << 8), Decimal(1), 1),
        (column(16, meta=9), 256, "abc"),
        (column(18), datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 1)),  # noqa: DTZ001
        (column(17), datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1)),  # noqa: DTZ001
        (column(19), "00:00:01", timedelta(seconds=-1)),
        (column(15, charset=UTF8), "a", "a "),
        (column(252, meta=2, charset=63), b"a\0", b"a"),
        (column(254, meta=4, charset=63), b"ab\0\0", b"a"),
        (column(248, labels=("a", "b"), charset=UTF8), "a", {"a", "b"}),
        (column(245, meta=4), "[1]", [1.0]),
        (column(245, meta=4), "[true]", [1]),
        (column(245, meta=4), '{"a": 1}', {b"b": 1}),
        (column(245, meta=4), None, []),
    ],
)
def test_these_differ(kind: Column, value: Any, peer: Any) -> None:
    assert fault(kind, value, None, peer) is None
    assert not is_equal(kind, value, peer)


@pytest.mark.parametrize(
    "kind, value, exact, peer, reason",
    [
        (column(10), None, "0000-00-00", None, values.ZERO_DATES),
        (column(17), None, "0000-00-00 00:00:00", None, values.ZERO_DATES),
        (column(19, meta=2), "-00:00:00.01", None, timedelta(0), values.NEGATIVE_TIME),
        (column(11), "-00:00:01", None, timedelta(0), values.NEGATIVE_TIME),
        (column(13), 0, None, 1900, values.YEAR_ZERO),
        (column(15, charset=UTF8), None, "ff", "", values.INVALID_TEXT),
        (column(15, charset=SJIS), "x", None, "x", values.CHARSETS),
        (column(247), "1", None, None, values.LABELS),
        (column(245, meta=4), '{"a": "base64:type15:YQ=="}', None, {b"a": "a"}, values.JSON_OPAQUE),
        (column(245, meta=4), "[1.5]", None, [Decimal("1.5")], values.JSON_OPAQUE),
    ],
)
def test_these_are_not_compared(kind: Column, value: Any, exact: str | None, peer: Any, reason: str) -> None:
    assert fault(kind, value, exact, peer) == reason


@pytest.mark.parametrize("code", [242, 140, 141])
def test_types_that_the_package_has_not(code: int) -> None:
    assert not values.is_readable(column(code))


@pytest.mark.parametrize("reason", FAULTS)
def test_the_page_lists_what_is_not_compared(reason: str) -> None:
    assert reason in PAGE.read_text(encoding="utf-8")
