"""The file head: what is a binlog at all, and what its FORMAT_DESCRIPTION says."""

from dataclasses import replace

import pytest

from spark_jobs.binlog.events.format_description import FormatDescription, check_magic
from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated, Unsupported
from tests.binlogs.segment_spec import SegmentSpec, reframed

EVENT = SegmentSpec().events()[0]
VERSION = slice(2, 52)


def body(version: str = "8.0.36", lengths: bytes = bytes([0, 13]) + bytes(40), tail: bytes = b"\1") -> bytes:
    return EVENT[19:21] + version.encode().ljust(50, b"\0") + bytes(4) + b"\x13" + lengths + tail


@pytest.mark.parametrize(
    "head, file, error, message",
    [
        (b"", "x.000001", DecodeError, "x.000001: not a binlog: it begins with nothing"),
        (b"PAR1", "x.000001", DecodeError, "x.000001: not a binlog: it begins with 50 41 52 31"),
        (b"\xfe", "x.000001", DecodeError, "it begins with fe,"),
        (b"\xfdbin", "x.000001", Unsupported, "x.000001: an encrypted binlog"),
        (b"\xfe\xfe\x0d\x01", "-", Unsupported, "-: a binlog kept in InnoDB pages"),
        (b"\x1f\x8b\x08\x00", "x.gz", Unsupported, "x.gz: compressed by gzip; unpack it first"),
        (b"\x28\xb5\x2f\xfd", "x.zst", Unsupported, "x.zst: compressed by zstd"),
        (b"BZh9", "x.bz2", Unsupported, "x.bz2: compressed by bzip2"),
        (b"\xfd7zX", "x.xz", Unsupported, "x.xz: compressed by xz"),
        (b"\x04\x22\x4d\x18", "x.lz4", Unsupported, "x.lz4: compressed by lz4"),
        (b"\xef\xbf\xbdb", "x.000001", DecodeError, "x.000001: a binlog that was copied as text"),
        (b"\xfebin", "binlog-000000.ibb", Unsupported, "binlog-000000.ibb: a binlog kept in InnoDB pages"),
    ],
)
def test_what_is_no_binlog(head: bytes, file: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as info:
        check_magic(head, file)
    assert message in str(info.value)
    assert type(info.value) is error


def test_magic() -> None:
    check_magic(b"\xfebin and more", "x.000001")


@pytest.mark.parametrize(
    "version, flavor, checksum",
    [
        ("8.0.36", "mysql", True),
        ("9.7.0-commercial", "mysql", True),
        ("5.6.1", "mysql", True),
        ("11.4.5-MariaDB-log", "mariadb", True),
        ("5.5.5-10.11.6-MariaDB", "mariadb", True),
        ("5.3.0-MariaDB", "mariadb", True),
    ],
)
def test_versions(version: str, flavor: str, checksum: bool) -> None:
    description = FormatDescription.parse(reframed(EVENT, body=body(version)), "f:4")
    assert (description.server_version, description.flavor, description.checksum, description.footer) == (
        version,
        flavor,
        checksum,
        4,
    )
    assert len(description.header_lengths) == 42


@pytest.mark.parametrize("version", ["5.5.62-log", "5.1.73", "5.2.14-MariaDB"])
def test_before_checksums(version: str) -> None:
    """The event ends with its list of lengths; nothing stands behind it."""
    description = FormatDescription.parse(
        reframed(EVENT, body=body(version, bytes([0, 13]) + bytes(25), b""), checksum=False), "f:4"
    )
    assert (description.checksum, description.footer, len(description.header_lengths)) == (False, 0, 27)


def test_checksums_off() -> None:
    """The event itself has a checksum all the same."""
    event = SegmentSpec(checksum=False).events()[0]
    description = FormatDescription.parse(event, "f:4")
    assert (description.checksum, description.footer) == (False, 0)
    with pytest.raises(ChecksumMismatch):
        FormatDescription.parse(event[:-1] + bytes([event[-1] ^ 1]), "f:4")


@pytest.mark.parametrize(
    "event, error, message",
    [
        (EVENT[:40], Truncated, "f:4: FORMAT_DESCRIPTION: 40 bytes, at least"),
        (EVENT[:-1], Truncated, "bytes long, "),
        (EVENT + b"x", DecodeError, "followed by 1 more"),
        (reframed(EVENT, code=1), Unsupported, "a log of a server before MySQL 5.0: it begins with a START_V3 event"),
        (bytes(4) + b"\1" + bytes(64), Unsupported, "a log of a server before MySQL 5.0"),
        (reframed(EVENT, code=2), DecodeError, "does not begin with a FORMAT_DESCRIPTION event but with type 2"),
        (reframed(EVENT, body=body(tail=b"\7")), DecodeError, "checksum algorithm 7"),
        (EVENT[:-1] + bytes([EVENT[-1] ^ 1]), ChecksumMismatch, "f:4: FORMAT_DESCRIPTION: checksum"),
        (reframed(EVENT, body=b"\3" + body()[1:]), Unsupported, "binlog format 3 with headers of 19"),
        (reframed(EVENT, body=body(lengths=bytes([0, 12]) + bytes(40))), Unsupported, "type 2 have 12 fixed bytes, 13"),
        (reframed(EVENT, body=body("0.0.36")), DecodeError, "event types in a log of server version '0.0.36'"),
        (reframed(EVENT, body=body("strange")), DecodeError, "server version 'strange'"),
    ],
)
def test_what_is_refused(event: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as info:
        FormatDescription.parse(event, "f:4")
    assert str(info.value).startswith("f:4: ")
    assert message in str(info.value)
    assert type(info.value) is error


def test_in_use_is_cleared() -> None:
    event = replace(SegmentSpec(), in_use=True).events()[0]
    assert event[17] == 1
    assert FormatDescription.parse(event, "f:4").event == EVENT
