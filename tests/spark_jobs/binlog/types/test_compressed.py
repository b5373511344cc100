import zlib

import pyarrow as pa
import pytest

from spark_jobs.errors import DecodeError
from tests.binlogs.one_value import check, column_of, read
from tests.binlogs.segment_types import BINARY_COLLATION, LATIN1, UTF8MB4, ColumnType

TEXT = ColumnType(140, b"\2", bytes, collation=UTF8MB4)
BLOB = ColumnType(140, b"\4", bytes, collation=BINARY_COLLATION)
VARCHAR = ColumnType(141, (101).to_bytes(2, "little"), bytes, collation=LATIN1)
VARBINARY = ColumnType(141, (256).to_bytes(2, "little"), bytes, collation=BINARY_COLLATION)
LONG = "aé☃" * 30
_RAW = zlib.compressobj(wbits=-zlib.MAX_WBITS)
RAW = _RAW.compress(LONG.encode()) + _RAW.flush()


def stored(kind: ColumnType, value: bytes) -> bytes:
    size = {TEXT: 2, BLOB: 4, VARCHAR: 1, VARBINARY: 2}[kind]
    return len(value).to_bytes(size, "little") + value


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        (TEXT, b"", ""),
        (TEXT, b"\0", ""),
        (TEXT, b"\0" + "é".encode(), "é"),
        (TEXT, b"\x81\xb4" + zlib.compress(LONG.encode()), LONG),
        (TEXT, b"\x89\xb4" + RAW, LONG),
        (TEXT, b"\x8a\0\xb4" + RAW, LONG),
        (BLOB, b"\x84\0\0\0\xb4" + zlib.compress(LONG.encode()), LONG.encode()),
        (BLOB, b"\0\0\xff", b"\0\xff"),
        (VARCHAR, b"\0\x80", "€"),
        (VARCHAR, b"\x81\x64" + zlib.compress(b"\x80" * 100), "€" * 100),
        (VARBINARY, b"\x81\xff" + zlib.compress(b"\0" * 255), bytes(255)),
    ],
    ids=repr,
)
def test_a_value_is_inflated(kind: ColumnType, value: bytes, expected: str | bytes) -> None:
    check(kind, stored(kind, value).hex(), expected)


@pytest.mark.parametrize(
    "kind, sql, arrow",
    [
        (TEXT, "text compressed", pa.string()),
        (BLOB, "longblob compressed", pa.binary()),
        (VARCHAR, "varchar(100) compressed", pa.string()),
        (VARBINARY, "varbinary(255) compressed", pa.binary()),
    ],
)
def test_compressed_columns(kind: ColumnType, sql: str, arrow: pa.DataType) -> None:
    assert (column_of(kind).sql_type, column_of(kind).arrow) == (sql, arrow)


def test_bytes_that_are_no_text_have_their_hex_beside_them() -> None:
    assert read(TEXT, stored(TEXT, b"\x81\2" + zlib.compress(b"\xff\xfe"))) == (None, "fffe")


@pytest.mark.parametrize(
    "value, reason",
    [
        (b"\x80" + RAW, "its head 80 is not known"),
        (b"\x85\0\0\0\0\xb4" + RAW, "its head 85 is not known"),
        (b"\x91\xb4" + RAW, "its head 91 is not known"),
        (b"\x81\xb4" + RAW, "incorrect header check"),
        (b"\x89\xb3" + RAW, "179 bytes announced, another number found"),
        (b"\x89\xb5" + RAW, "181 bytes announced, another number found"),
        (b"\x89\xb4" + RAW[:-1], "180 bytes announced, another number found"),
        (b"\x89\xb4" + RAW + b"\0", "180 bytes announced, another number found"),
        (b"\x8b\x01\0\0" + RAW, "65536 bytes announced, 65535 are the most"),
    ],
    ids=repr,
)
def test_a_damaged_value_stops(value: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=rf"log.000001:\d+: row 0: shop.t.value: .* damaged: .*{reason}"):
        read(TEXT, stored(TEXT, value))
