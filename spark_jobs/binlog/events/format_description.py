"""The head of a binlog file: its magic bytes and its FORMAT_DESCRIPTION event.

Source: MySQL manual, "Binary log format description event"; libs/mysql/binlog/event/control_events.cpp; MariaDB,
"Fake/FORMAT_DESCRIPTION_EVENT".

Put here: what has to be known before the second event can be read. Not here: the walk over events (scanner.py).
"""

import re
import zlib
from dataclasses import dataclass
from typing import Literal, Self

from spark_jobs.errors import ChecksumMismatch, DecodeError, Truncated, Unsupported

MAGIC = b"\xfebin"
HEADER = 19
"""Bytes of an event's header: timestamp 4, type 1, server id 4, length 4, next position 4, flags 2."""

_IBB_MAGIC = b"\xfe\xfe\x0d\x01"
"""MariaDB, storage/innobase/include/fsp_binlog.h."""
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zX": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}

IN_USE = 0x0001
"""Header flag of a FORMAT_DESCRIPTION whose file is still written to; the checksum is over the cleared form."""

_TYPE, _START_V3 = 15, 1
_FIXED = HEADER + 2 + 50 + 4 + 1
_EXPECTED_HEADS = {2: 13, 19: 8, 23: 8, 24: 8, 25: 8, 30: 10, 31: 10, 32: 10}
_OFF, _CRC32 = 0, 1
_TYPES_BEFORE_CHECKSUMS = 27


def check_magic(head: bytes, file: str) -> None:
    """Check whether a file begins as a binlog. Raises DecodeError or Unsupported, naming the file."""
    # Logs that are kept in another form, then packed and damaged ones.
    if file.endswith(".ibb") or head[:4] == _IBB_MAGIC:
        raise Unsupported(
            f"{file}: a binlog kept in InnoDB pages (MariaDB 12.3, binlog_storage_engine), which is not read; have the "
            "server log to files: take binlog_storage_engine out of its configuration"
        )
    if head[:4] == b"\xfdbin":
        raise Unsupported(f"{file}: an encrypted binlog (MySQL binlog_encryption); read it from the server instead")
    for begin, packer in _PACKED.items():
        if head.startswith(begin):
            raise Unsupported(f"{file}: compressed by {packer}; unpack it first, into a file or a pipe")
    if head[:3] == b"\xef\xbf\xbd":
        raise DecodeError(
            f"{file}: a binlog that was copied as text, which has destroyed it; copy the file again as it is"
        )
    if head[:4] != MAGIC:
        raise DecodeError(f"{file}: not a binlog: it begins with {head[:4].hex(' ') or 'nothing'}, not fe 62 69 6e")


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """Content of a file's FORMAT_DESCRIPTION event, which holds for all that follows it."""

    server_version: str
    flavor: Literal["mysql", "mariadb"]
    checksum: bool
    """True if every event ends in 4 bytes of CRC32."""
    header_lengths: bytes
    """Length of each event type's fixed part; type n at n - 1."""
    event: bytes
    """The whole event, its in-use flag cleared."""

    @classmethod
    def parse(cls, event: bytes, location: str) -> Self:
        """Description parsed from a whole event; ``location`` (``file:offset``) opens every message.

        Raises Truncated, ChecksumMismatch, Unsupported (a log older than MySQL 5.1.17) and DecodeError.
        """
        _check_frame(event, location)
        event = cleared(event)
        version = event[HEADER + 2 : HEADER + 52].split(b"\0")[0].decode("ascii", "replace")
        lengths = event[_FIXED:]
        flavor: Literal["mysql", "mariadb"] = "mariadb" if "mariadb" in version.lower() else "mysql"
        checksum = False
        if _knows_checksums(version, flavor):
            checksum = _checked(event, location)
            lengths = lengths[:-5]
        else:
            _check_age(lengths, version, location)
        _check_heads(lengths, event, location)
        return cls(version, flavor, checksum, lengths, event)

    @property
    def footer(self) -> int:
        """Bytes after each event's body: 4 or 0."""
        return 4 if self.checksum else 0


def cleared(event: bytes) -> bytes:
    """The event with its in-use flag cleared."""
    return event[:17] + bytes([event[17] & ~IN_USE]) + event[18:]


def _check_frame(event: bytes, location: str) -> None:
    if len(event) >= HEADER and event[4] == _START_V3:
        raise Unsupported(f"{location}: a log of a server before MySQL 5.0: it begins with a START_V3 event")
    if len(event) < _FIXED + 5:
        raise Truncated(f"{location}: FORMAT_DESCRIPTION: {len(event)} bytes, at least {_FIXED + 5} wanted")
    if event[4] != _TYPE:
        raise DecodeError(
            f"{location}: the file does not begin with a FORMAT_DESCRIPTION event but with type {event[4]}"
        )
    length = int.from_bytes(event[9:13], "little")
    if length > len(event):
        raise Truncated(f"{location}: FORMAT_DESCRIPTION: {length} bytes long, {len(event)} there")
    if length < len(event):
        raise DecodeError(
            f"{location}: FORMAT_DESCRIPTION: {length} bytes long, followed by {len(event) - length} more"
        )


def _knows_checksums(version: str, flavor: str) -> bool:
    """MySQL from 5.6.1 and MariaDB from 5.3 end the event in an algorithm byte and 4 more."""
    numbers = re.match(r"(?:5\.5\.5-)?(\d+)\.(\d+)\.(\d+)", version)
    server_version = tuple(int(number) for number in numbers.groups()) if numbers else (0, 0, 0)
    return server_version >= ((5, 3, 0) if flavor == "mariadb" else (5, 6, 1))


def _check_age(lengths: bytes, version: str, location: str) -> None:
    """A server too old for checksums knows 27 types of events at most; with more, its version is not true."""
    if len(lengths) > _TYPES_BEFORE_CHECKSUMS:
        raise DecodeError(
            f"{location}: FORMAT_DESCRIPTION: {len(lengths)} event types in a log of server version {version!r}"
        )


def _checked(event: bytes, location: str) -> bool:
    """True if the file's events end in a CRC32. This event itself does in any case, where servers know of checksums."""
    algorithm = event[-5]
    if algorithm not in {_OFF, _CRC32}:
        raise DecodeError(f"{location}: FORMAT_DESCRIPTION: checksum algorithm {algorithm}; 0 and 1 (CRC32) are known")
    stored, actual = int.from_bytes(event[-4:], "little"), zlib.crc32(event[:-4])
    if stored != actual:
        raise ChecksumMismatch(f"{location}: FORMAT_DESCRIPTION: checksum {stored:08x} written, {actual:08x} found")
    return algorithm == _CRC32


def _check_heads(lengths: bytes, event: bytes, location: str) -> None:
    binlog_version = int.from_bytes(event[HEADER : HEADER + 2], "little")
    if binlog_version != 4 or event[_FIXED - 1] != HEADER:
        raise Unsupported(
            f"{location}: binlog format {binlog_version} with headers of {event[_FIXED - 1]} bytes, not 4 with 19"
        )
    for code, length in _EXPECTED_HEADS.items():
        if code <= len(lengths) and lengths[code - 1] not in (length, 0):
            raise Unsupported(
                f"{location}: events of type {code} have {lengths[code - 1]} fixed bytes, {length} are known; "
                f"logs older than MySQL 5.1.17 are not read"
            )
