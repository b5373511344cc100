import pyarrow as pa
import pytest

from spark_jobs.errors import DecodeError
from tests.binlogs.one_value import check, column_of, read
from tests.binlogs.segment_types import (
    BINARY,
    BLOB,
    CHAR,
    LATIN1,
    LONGTEXT,
    MEDIUMBLOB,
    TEXT,
    TINYBLOB,
    VARBINARY,
    VARCHAR,
    ColumnType,
)


@pytest.mark.parametrize(
    "kind, sql, arrow, wire, value",
    [
        (VARCHAR(32), "varchar(32)", pa.string(), "03616263", "abc"),
        (VARCHAR(32), "varchar(32)", pa.string(), "00", ""),
        (VARCHAR(300), "varchar(300)", pa.string(), "0400f09f9880", "😀"),
        (VARCHAR(10, LATIN1, 1), "varchar(10)", pa.string(), "03c38081", "Ã€\x81"),
        (VARBINARY(10), "varbinary(10)", pa.binary(), "024100", b"A\0"),
        (CHAR(10), "char(10)", pa.string(), "02c3a9", "é"),
        (CHAR(128), "char(128)", pa.string(), "0200c3a9", "é"),
        (CHAR(255), "char(255)", pa.string(), "0100" + "78", "x"),
        (BINARY(4), "binary(4)", pa.binary(), "0141", b"A\0\0\0"),
        (BINARY(4), "binary(4)", pa.binary(), "00", bytes(4)),
        (BINARY(4), "binary(4)", pa.binary(), "0401020304", b"\1\2\3\4"),
        (TEXT, "text", pa.string(), "0300616263", "abc"),
        (LONGTEXT, "longtext", pa.string(), "03000000616263", "abc"),
        (BLOB, "blob", pa.binary(), "0000", b""),
        (TINYBLOB, "tinyblob", pa.binary(), "01ff", b"\xff"),
        (MEDIUMBLOB, "mediumblob", pa.binary(), "020000ff00", b"\xff\0"),
    ],
)
def test_string(kind: ColumnType, sql: str, arrow: pa.DataType, wire: str, value: object) -> None:
    check(kind, wire, value)
    assert (column_of(kind).sql_type, column_of(kind).arrow) == (sql, arrow)


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 300, 1000])
def test_text_of_every_length_is_copied_whole(size: int) -> None:
    text = bytes(33 + offset % 90 for offset in range(size))
    assert read(TEXT, size.to_bytes(2, "little") + text) == (text.decode(), None)


def test_a_binary_longer_than_declared_stops() -> None:
    with pytest.raises(DecodeError, match="no value of the type"):
        read(BINARY(2), b"\3abc")
