"""JSON: texts as servers print them, random documents against the plain twin, damaged ones."""

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.binlog.rows.changes import Changes
from spark_jobs.binlog.types.base import BadValue, Filled
from spark_jobs.binlog.types.json import JSON
from spark_jobs.errors import DecodeError
from tests.binlogs.binary_json import Opaque, moment, text, write
from tests.binlogs.one_value import check, column_of, decode
from tests.binlogs.segment_spec import Insert, Raw, SegmentSpec, Table
from tests.binlogs.segment_types import DECIMAL, JSON_DOCUMENT
from tests.fix_hypothesis import examples


def wired(document: bytes) -> bytes:
    return len(document).to_bytes(4, "little") + document


def decoded(*documents: bytes | None) -> list[Any]:
    rows = [Insert("shop.t", (None if document is None else Raw(wired(document)),)) for document in documents]
    changes: Changes = decode(SegmentSpec([Table("shop.t", value=JSON_DOCUMENT)], rows).to_bytes())
    changes.after.validate(full=True)
    assert changes.raw is None
    values: list[Any] = changes.after["value"].to_pylist()
    return values


def decimal(precision: int, scale: int, value: str) -> Opaque:
    return Opaque(246, bytes([precision, scale]) + DECIMAL(precision, scale).encode(value))


@pytest.mark.parametrize(
    "document, value",
    [
        ("", "null"),
        ("0400", "null"),
        ("0401", "true"),
        ("0402", "false"),
        ("05ff7f", "32767"),
        ("050080", "-32768"),
        ("06ffff", "65535"),
        ("0700000080", "-2147483648"),
        ("08ffffffff", "4294967295"),
        ("090000000000000080", "-9223372036854775808"),
        ("0affffffffffffffff", "18446744073709551615"),
        ("0b000000000000f03f", "1.0"),
        ("0c00", '""'),
        ("0c03e29892", '"☒"'),
        ("0200000400", "[]"),
        ("0000000400", "{}"),
        ("02020009000500000400000000", None),
        ("0202000a000501000402000000", "[1, false]"),
        ("0f0f0300ff10", '"base64:type15:AP8Q"'),
        ("0ffd026869", '"base64:type253:aGk="'),
        ("0f0c0800000000000000" + "00", '"0000-00-00 00:00:00.000000"'),
        ("0ff604030280" + "00", "0.00"),
        ("0ff6050402" + "830000", None),
    ],
)
def test_bytes(document: str, value: str | None) -> None:
    stored = bytes.fromhex(document)
    if value is None:
        with pytest.raises(DecodeError, match=r"row 0: shop\.t\.value: the bytes are no JSON document"):
            decoded(stored)
    else:
        assert decoded(stored) == [value]


def test_a_length_that_leads_beyond_the_event_stops() -> None:
    check(JSON_DOCUMENT, wired(b"\x04\x01").hex(), "true")


@pytest.mark.parametrize(
    "value, expected",
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.0, "0.0"),
        (2.0**53, "9.007199254740992e15"),
        (1e15, "1e15"),
        (1e14, "100000000000000.0"),
        (999999999999999.9, "999999999999999.9"),
        (1234567890123456.5, "1234567890123456.5"),
        (123456789012345680.0, "1.2345678901234568e17"),
        (1e-5, "0.00001"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
        (1.5e-16, "1.5e-16"),
        (5e-324, "5e-324"),
        (-1.7976931348623157e308, "-1.7976931348623157e308"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
        (0.1, "0.1"),
        (100.25, "100.25"),
    ],
)
def test_doubles(value: float, expected: str) -> None:
    assert decoded(write(value)) == [expected]


@pytest.mark.parametrize(
    "value, expected",
    [
        (Opaque(11, moment((87 << 12 | 31 << 6 | 46) << 24 | 654321)), '"87:31:46.654321"'),
        (Opaque(11, moment(-((838 << 12 | 59 << 6 | 59) << 24))), '"-838:59:59.000000"'),
        (Opaque(10, moment(((2024 * 13 + 2) << 5 | 29) << 41)), '"2024-02-29"'),
        (
            Opaque(12, moment((((2024 * 13 + 2) << 5 | 29) << 17 | 1 << 12 | 2 << 6 | 3) << 24 | 500000)),
            '"2024-02-29 01:02:03.500000"',
        ),
        (Opaque(7, moment(((9999 * 13 + 12) << 5 | 31) << 41)), '"9999-12-31 00:00:00.000000"'),
        (decimal(3, 2, "9.00"), "9.00"),
        (decimal(1, 1, "-0.5"), "-0.5"),
        (decimal(72, 0, "9" * 65), "9" * 65),
        (decimal(65, 30, "-" + "9" * 35 + "." + "9" * 30), "-" + "9" * 35 + "." + "9" * 30),
        (decimal(65, 30, "0"), "0." + "0" * 30),
        (Opaque(15, b"a" * 57), '"base64:type15:' + "YWFh" * 19 + '"'),
        (Opaque(252, b"a" * 58), '"base64:type252:' + "YWFh" * 19 + '\\nYQ=="'),
        (Opaque(16, b"\x0a"), '"base64:type16:Cg=="'),
        (Opaque(255, b""), '"base64:type255:"'),
        ('\x00\x08\t\n\x0b\x0c\r\x1f\x7f"\\/é😀', '"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\x7f\\"\\\\/é😀"'),
        ({"b": 1, "": 2, "é": [None, True]}, '{"b": 1, "": 2, "é": [null, true]}'),
    ],
)
def test_texts_as_a_server_prints_them(value: Any, expected: str) -> None:
    assert decoded(write(value)) == [expected]
    assert decoded(write([value], large=True)) == [f"[{expected}]"]
    assert text(write(value)) == expected


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-70000, 70000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.text('ab"\\\n\x01é', max_size=300)
    | st.builds(Opaque, st.sampled_from([15, 16, 252, 253, 255]), st.binary(max_size=200))
    | st.builds(lambda packed: Opaque(11, moment(packed << 24)), st.integers(-(838 << 12), 838 << 12))
    | st.builds(lambda days: Opaque(12, moment(days << 41 | 999999)), st.integers(0, 9999 * 13 << 5))
    | st.builds(lambda number: decimal(30, 9, str(number)), st.integers(-(10**20), 10**20))
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=6), inner, max_size=6)
)


@pytest.mark.slow
@examples(150)
@given(st.lists(documents | st.just(b""), min_size=1, max_size=6), st.booleans(), st.binary(max_size=3))
def test_random_documents_read_as_the_twin_has_them(values: list[Any], large: bool, gap: bytes) -> None:
    """The gaps are what an update in place leaves."""
    stored = [b"" if value == b"" else write(value, large, lambda: gap) for value in values]
    assert decoded(*stored, None, stored[0]) == [*map(text, stored), None, text(stored[0])]


def test_large_documents() -> None:
    value = {"a": "x" * 70000, "b": list(range(-40000, 40000, 7)), "c": [2**40, {"d": "\x01" * 5000}], "e": [[]] * 99}
    assert json.loads(decoded(write(value))[0]) == value
    assert decoded(write(value)) == [text(write(value))]


def test_text_six_times_as_long_as_its_document() -> None:
    assert decoded(write("\x01" * 100_000), write("x")) == ['"' + "\\u0001" * 100_000 + '"', '"x"']


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_hundred_containers_inside_one_another_and_no_more() -> None:
    assert decoded(write(nested(100))) == ["[" * 100 + "1" + "]" * 100]
    with pytest.raises(DecodeError, match="no JSON document"):
        decoded(write(nested(101)))


def array_of(offsets: list[int], size: int) -> bytes:
    entries = b"".join(b"\x02" + offset.to_bytes(2, "little") for offset in offsets)
    return struct.pack("<HH", len(offsets), size) + entries


@pytest.mark.parametrize(
    "document",
    [
        b"\x02" + array_of([0], 7),
        b"\x02" + array_of([4], 7),
        b"\x02" + array_of([7], 7),
        b"\x02" + array_of([0xFFFF], 7),
        b"\x02" + struct.pack("<HH", 0xFFFF, 0xFFFF),
        b"\x03" + struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF),
        b"\x00" + struct.pack("<HHHHBH", 1, 11, 4, 0, 4, 0),
        b"\x00" + struct.pack("<HHHHBH", 1, 11, 11, 9, 4, 0),
        b"\x0c\xff\xff\xff\xff\xff\x00",
        b"\x0c\x05abc",
        b"\x0c\x02\xc3\x28",
        b"\x0b\0\0\0\0\0\0\xf0\x7f",
        b"\x0d\0\0",
        b"\xff",
        b"\x04\x03",
        b"\x04",
        b"\x05\x01",
        b"\x0f",
        b"\x0f\x0c\x01\x00",
        b"\x0f\xf6\x02\x05\x06",
        b"\x0f\x0b\x08" + b"\xff" * 7 + b"\x7f",
    ],
    ids=repr,
)
def test_damaged_documents_stop(document: bytes) -> None:
    with pytest.raises(DecodeError, match=r"row 0: shop\.t\.value: the bytes are no JSON document"):
        decoded(document)


def test_a_document_that_shares_values_is_bounded() -> None:
    """Each of twelve arrays holds the next one fifty times: 50^12 values in two thousand bytes."""
    width, levels = 4 + 50 * 3, 12
    body = b"".join(array_of([width] * 50, width * (levels - level)) for level in range(levels - 1))
    last = struct.pack("<HH", 50, width) + (b"\x04\0\0" * 50)
    with pytest.raises(DecodeError, match="no JSON document"):
        decoded(b"\x02" + body + last)


@pytest.mark.slow
@examples(300)
@given(documents, st.data())
@example({"a": [1, "b", {"c": None}]}, None)
def test_damage_is_an_error_or_other_text_but_never_worse(value: Any, data: st.DataObject | None) -> None:
    stored = bytearray(write(value))
    for _ in range(3 if data else 0):
        assert data is not None
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(stored))) if data else len(stored)
    damaged = pa.py_buffer(bytes(stored[:cut]))
    filled = Filled(1, pa.py_buffer(np.array([0, cut], np.int32)), damaged, None, 0, False)
    try:
        array, exact = JSON.reading(column_of(JSON_DOCUMENT)).finish(filled)
    except BadValue:
        return
    array.validate(full=True)
    assert exact is None


def test_name_and_type() -> None:
    assert (column_of(JSON_DOCUMENT).sql_type, column_of(JSON_DOCUMENT).arrow) == ("json", pa.string())
