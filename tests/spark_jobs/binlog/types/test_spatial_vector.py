import struct
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.binlog.events.table_map import Column, TableDefinition, TableName
from spark_jobs.errors import DecodeError
from tests.binlogs.one_value import check, column_of, decode
from tests.binlogs.segment_spec import Insert, Raw, SegmentSpec, Table
from tests.binlogs.segment_types import GEOMETRY, VECTOR, ColumnType

POINT = struct.pack("<BIdd", 1, 1, 1.0, 2.0)


@pytest.mark.parametrize(
    "wire, value, raw",
    [
        ("1900000000000000" + POINT.hex(), {"srid": 0, "wkb": POINT}, None),
        ("19000000e6100000" + POINT.hex(), {"srid": 4326, "wkb": POINT}, None),
        ("0d000000" + "00000000" + "010700000000000000", {"srid": 0, "wkb": bytes.fromhex("010700000000000000")}, None),
        ("04000000ffffff7f", {"srid": 2**31 - 1, "wkb": b""}, None),
        ("05000000ffffffff01", None, "ffffffff01"),
        ("03000000010203", None, "010203"),
        ("00000000", None, ""),
    ],
)
def test_geometry(wire: str, value: Any, raw: str | None) -> None:
    check(GEOMETRY, wire, value, raw)


def column(kind: ColumnType, *values: Any) -> tuple[list[Any], list[Any]]:
    rows = [Insert("shop.t", (value,)) for value in values]
    changes = decode(SegmentSpec([Table("shop.t", value=kind)], rows).to_bytes())
    changes.after.validate(full=True)
    raw = [None] * len(values) if changes.raw is None else changes.raw.to_pylist()
    return changes.after["value"].to_pylist(), raw


def test_a_column_of_geometry() -> None:
    values, raw = column(GEOMETRY, None, (0, POINT), Raw(b"\0\0\0\0"), (4326, POINT * 2), None)
    assert values == [None, {"srid": 0, "wkb": POINT}, None, {"srid": 4326, "wkb": POINT * 2}, None]
    assert raw == [None, None, [("value", "")], None, None]


@pytest.mark.parametrize(
    "wire, value",
    [
        ("080000000000803f000000c0", [1.0, -2.0]),
        ("00000000", []),
        ("04000000cdcc8c3f", [struct.unpack("<f", b"\xcd\xcc\x8c\x3f")[0]]),
    ],
)
def test_vector(wire: str, value: list[float]) -> None:
    check(VECTOR, wire, value)


def test_a_column_of_vectors() -> None:
    values = [None, [1.5], [], [0.5, -1.0, 2.0**30], None, [2.0]]
    assert column(VECTOR, *values)[0] == values


def test_a_vector_of_broken_floats_stops() -> None:
    with pytest.raises(DecodeError, match=r"row 0: shop\.t\.value: the bytes are no whole number of floats"):
        column(VECTOR, [1.0], Raw(b"\5\0\0\0\0\0\0\0\0"))


@pytest.mark.parametrize("length, size", [(12, 1), (400, 2)])
def test_mariadbs_vector_is_a_varbinary_of_one_length(length: int, size: int) -> None:
    stored = struct.pack(f"<{length // 4}f", *range(length // 4))
    kind = ColumnType(15, struct.pack("<H", length), bytes, collation=63)
    content = SegmentSpec(
        [Table("shop.t", value=kind)], [Insert("shop.t", (Raw(length.to_bytes(size, "little") + stored),))]
    )
    declared = Column("value", 15, length, charset=63, declared=f"vector({length // 4})")
    assert declared.sql_type == f"vector({length // 4})"
    assert declared.arrow == pa.list_(pa.float32())
    changes = decode(content.to_bytes(), definition=TableDefinition(TableName("shop", "t"), (declared,)))
    assert changes.after["value"].to_pylist() == [[float(number) for number in range(length // 4)]]


def test_names_and_types() -> None:
    assert (column_of(GEOMETRY).sql_type, str(column_of(GEOMETRY).arrow)) == (
        "geometry",
        "struct<srid: int32, wkb: binary>",
    )
    assert (column_of(VECTOR).sql_type, column_of(VECTOR).arrow) == ("vector", pa.list_(pa.float32()))
