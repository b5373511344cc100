import ipaddress
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.events.table_map import Column, TableDefinition, TableName
from tests.binlogs.one_value import decode
from tests.binlogs.segment_spec import Insert, SegmentSpec, Table
from tests.binlogs.segment_types import BINARY

SIZES = {"uuid": 16, "inet4": 4, "inet6": 16}


def texts(declared: str, *stored: bytes | None) -> list[Any]:
    """Of a BINARY column, as the log has it, that a definition declares otherwise."""
    size = SIZES[declared]
    rows = [Insert("shop.t", (value,)) for value in stored]
    content = SegmentSpec([Table("shop.t", value=BINARY(size))], rows).to_bytes()
    column = Column("value", 254, size, charset=63, declared=declared)
    assert (column.sql_type, column.arrow) == (declared, pa.string())
    changes = decode(content, definition=TableDefinition(TableName("shop", "t"), (column,)))
    changes.after.validate(full=True)
    values: list[Any] = changes.after["value"].to_pylist()
    return values


@given(st.lists(st.uuids(), min_size=1, max_size=5))
def test_uuid(values: list[uuid.UUID]) -> None:
    assert texts("uuid", *(value.bytes for value in values), None) == [*map(str, values), None]


def test_zero_bytes_that_the_log_cuts_off_are_put_back() -> None:
    assert texts("uuid", b"\0" * 16, b"\1" + b"\0" * 15) == [
        str(uuid.UUID(int=0)),
        "01000000-0000-0000-0000-000000000000",
    ]
    assert texts("inet4", b"\0" * 4, b"\x0a\0\0\0") == [str(ipaddress.IPv4Address(0)), "10.0.0.0"]
    assert texts("inet6", b"\0" * 16, b"\xfe" + b"\0" * 15) == ["::", "fe00::"]


@given(st.lists(st.ip_addresses(v=4), min_size=1, max_size=5))
def test_inet4(values: list[ipaddress.IPv4Address]) -> None:
    assert texts("inet4", *(value.packed for value in values), None) == [*map(str, values), None]


@pytest.mark.parametrize(
    "address, text",
    [
        ("::", "::"),
        ("::1", "::1"),
        ("1::", "1::"),
        ("::1.2.3.4", "::1.2.3.4"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ("::ffff:0:0", "::ffff:0.0.0.0"),
        ("::fffe:102:304", "::fffe:102:304"),
        ("2001:db8::1:0:0:1", "2001:db8::1:0:0:1"),
        ("1:0:2:3:4:5:6:7", "1::2:3:4:5:6:7"),
        ("0:2:3:4:5:6:7:8", "::2:3:4:5:6:7:8"),
        ("1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7::"),
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("0:0:0:0:0:0:1:0", "::0.1.0.0"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("0:0:0:0:1:0:0:0", "::1:0:0:0"),
        ("abcd:ef01:2345:6789:abcd:ef01:2345:6789", "abcd:ef01:2345:6789:abcd:ef01:2345:6789"),
    ],
)
def test_inet6_as_mariadb_prints_it(address: str, text: str) -> None:
    """One word of zeros is shortened too, which RFC 5952 would not."""
    assert texts("inet6", ipaddress.IPv6Address(address).packed, None) == [text, None]


@given(st.ip_addresses(v=6))
def test_inet6_reads_back(value: ipaddress.IPv6Address) -> None:
    [text] = texts("inet6", value.packed)
    assert ipaddress.IPv6Address(text) == value
