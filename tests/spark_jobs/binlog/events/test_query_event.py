"""What a QUERY's bytes say."""

import struct
import zlib
from dataclasses import replace

import pytest

from spark_jobs.binlog.events.query_event import Moment, Session, read_query, read_session
from spark_jobs.errors import DecodeError
from tests.segment_spec import RawEvent, SegmentSpec, Statement


def event(code: int, body: bytes) -> bytes:
    return SegmentSpec(changes=[RawEvent(code, body)]).events()[2]


def head(database: bytes, status: bytes = b"") -> bytes:
    return struct.pack("<IIBHH", 7, 0, len(database), 0, len(status))


def squeezed(text: bytes, *, size: int | None = None, first: int = 0x82) -> bytes:
    return bytes([first]) + (len(text) if size is None else size).to_bytes(first & 7, "big") + zlib.compress(text)


LONG = "ALTER TABLE orders COMMENT = 'é" + "x" * 400 + "'"


@pytest.mark.parametrize(
    "code, body, database, text",
    [
        (2, head(b"shop") + b"shop\0drop table x", "shop", "drop table x"),
        (2, head(b"", b"\0abcd") + b"\0abcd" + b"\0BEGIN", "", "BEGIN"),
        (2, head("caf\u00e9".encode()) + "caf\u00e9\0select '\u20ac'".encode(), "caf\u00e9", "select '\u20ac'"),
        (2, head(b"shop") + b"shop\0", "shop", ""),
        (2, head(b"shop") + b"shop\0select '\xe9'", "shop", "select '\\xe9'"),
        (18, head(b"shop") + bytes(13) + b"shop\0LOAD DATA INFILE 'x'", "shop", "LOAD DATA INFILE 'x'"),
        (165, head(b"shop") + b"shop\0" + squeezed(LONG.encode()), "shop", LONG),
        (165, head(b"shop") + b"shop\0" + squeezed(b"short", first=0x81), "shop", "short"),
    ],
)
def test_read_query(code: int, body: bytes, database: str, text: str) -> None:
    assert read_query(event(code, body), 4, "f:4") == (database, text)


@pytest.mark.parametrize(
    "code, body, message",
    [
        (2, head(b"shop") + b"sho", "default database does not end"),
        (2, head(b"shop") + b"shopping", "default database does not end"),
        (165, head(b"") + b"\0", "compression head"),
        (165, head(b"") + b"\0" + squeezed(b"text", first=0x91), "compression head 91"),
        (165, head(b"") + b"\0" + squeezed(b"text")[:-3], "Query_compressed event"),
        (165, head(b"") + b"\0" + squeezed(b"text", size=5), "5 bytes of content announced, another number"),
    ],
)
def test_what_is_refused(code: int, body: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_query(event(code, body), 4, "f:4")
    assert str(caught.value).startswith("f:4: ")
    assert message in str(caught.value)


def test_without_checksum() -> None:
    events = SegmentSpec(changes=[Statement("shop", "drop table x")], checksum=False).events()
    assert read_query(events[3], 0, "f:4") == ("shop", "drop table x")


STATUS = (
    b"\0\1\2\3\4"
    b"\1" + (1 << 21 | 4).to_bytes(8, "little") + b"\6\3std" + b"\3\1\0\1\0" + b"\4\x08\0\x2d\0\x2d\0" + b"\5\3UTC"
)


def slice_of(status: bytes) -> bytes:
    """A GTID-like event, then a QUERY."""
    spec = SegmentSpec(changes=[RawEvent(29, b"\0note"), RawEvent(2, head(b"shop", status) + status + b"shop\0DROP x")])
    return b"".join(spec.events()[2:4])


@pytest.mark.parametrize(
    "status, wanted, strict",
    [
        (STATUS, Session(1 << 21 | 4, 8), True),
        (STATUS[:14], Session(1 << 21 | 4), True),
        (STATUS[5:14] + b"\x0c\2one\0two\0" + b"\x10\1", Session(1 << 21 | 4, None, True), True),
        (
            STATUS[5:14] + b"\x0c\xfe" + b"\x0b\2me\4host" + b"\x0dabc" + b"\x10\0",
            Session(1 << 21 | 4, None, False),
            True,
        ),
        (STATUS[5:14] + b"\x0c\2one\0tw", Session(1 << 21 | 4), True),
        (STATUS[5:14] + b"\x0b\2me\x40ho", Session(1 << 21 | 4), True),
        (STATUS[5:14] + b"\x83\0\4\x2d\0\x2d\0\x08\0", Session(1 << 21 | 4, 45), True),
        (STATUS[5:14] + b"\x83\1abcd\4\x2d\0\x2d\0\x08\0", Session(1 << 21 | 4, 45), True),
        (STATUS[5:14] + b"\x83\2abcd", Session(1 << 21 | 4), True),
        (STATUS[5:14] + b"\x10", Session(1 << 21 | 4), True),
        (b"\1" + bytes(8), Session(0), False),
        (b"", Session(), False),
        (b"\x7fwhatever", Session(), False),
    ],
)
def test_a_statement_s_session_is_read(status: bytes, wanted: Session, strict: bool) -> None:
    found = replace(read_session(slice_of(status)), moment=None)
    assert (found, found.is_strict) == (wanted, strict)
    assert replace(read_session(b"\xfebin" + slice_of(status)), moment=None) == wanted
    assert found.has_backslashes == (wanted.sql_mode is not None)


@pytest.mark.parametrize(
    "status, micros, zone",
    [
        (b"", None, None),
        (b"\5\6SYSTEM", None, "SYSTEM"),
        (b"\5\6+05:30\x0d\x40\xe2\1", 123456, "+05:30"),
        (b"\x80\x3f\x42\x0f" + b"\x81" + bytes(8) + b"\5\3UTC", 999999, "UTC"),  # MariaDB's
        (b"\x80\x3f\x42", None, None),
    ],
)
def test_when_a_statement_was_begun_is_read(status: bytes, micros: int | None, zone: str | None) -> None:
    second = int.from_bytes(slice_of(status)[:4], "little")
    assert read_session(slice_of(status)).moment == Moment(second, micros, zone)


def test_a_slice_without_a_statement_tells_no_session() -> None:
    assert read_session(b"") == read_session(slice_of(STATUS)[:10]) == Session()
    assert not Session(1 << 20).has_backslashes
