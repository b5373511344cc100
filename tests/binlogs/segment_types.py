"""Column types for described binlogs: how each is announced in a TABLE_MAP and how a value of it lies in a row image.

Written from the format's description alone, value by value, so that it can stand as evidence against the decoder.
Values are plain Python: int, float, Decimal, str, bytes; dates and times as the text that the server prints (``str()``
of a ``datetime`` will do), so that ``0000-00-00`` and ``-838:59:59.000000`` can be said.

Put here: one constructor a type, named as in SQL. Not here: events and files (segment_spec.py).
"""

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tests.binlogs.binary_json import write

Encode = Callable[[Any], bytes]

UTF8MB4 = 255
LATIN1 = 8
BINARY_COLLATION = 63
_CODECS = {UTF8MB4: "utf-8", 45: "utf-8", 33: "utf-8", LATIN1: "cp1252", 11: "ascii"}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


@dataclass(frozen=True)
class ColumnType:
    """code: MYSQL_TYPE_… number; meta: its bytes in the TABLE_MAP; encode: a value that is not NULL to its bytes."""

    code: int
    meta: bytes
    encode: Encode
    numeric: bool = False
    unsigned: bool = False
    nullable: bool = True
    collation: int | None = None
    labels: tuple[str, ...] | None = None
    is_set: bool = False

    @property
    def UNSIGNED(self) -> "ColumnType":  # noqa: N802 - reads as SQL does
        return replace(self, unsigned=True, encode=_unsigned(self.code) or self.encode)

    @property
    def NOT_NULL(self) -> "ColumnType":  # noqa: N802 - reads as SQL does
        return replace(self, nullable=False)


def _integer(size: int, *, signed: bool) -> Encode:
    return lambda value: int(value).to_bytes(size, "little", signed=signed)


_INTEGER_SIZES = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}


def _unsigned(code: int) -> Encode | None:
    size = _INTEGER_SIZES.get(code)
    return _integer(size, signed=False) if size else None


TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT = (
    ColumnType(code, b"", _integer(size, signed=True), numeric=True) for code, size in _INTEGER_SIZES.items()
)
FLOAT = ColumnType(4, b"\4", lambda value: struct.pack("<f", value), numeric=True)
DOUBLE = ColumnType(5, b"\x08", lambda value: struct.pack("<d", value), numeric=True)
YEAR = ColumnType(13, b"", lambda value: bytes([value - 1900 if value else 0]), numeric=True, unsigned=True)
DATE = ColumnType(10, b"", lambda value: _date(str(value)))


def _groups(digits: str, *, is_left: bool) -> bytes:
    """Decimal digits as bytes: nine digits in four, a partial group at the left or the right end in fewer."""
    partial = len(digits) % 9
    cut = partial if is_left else len(digits) - partial
    parts = [digits[:cut], digits[cut:]]
    short, full_digits = (parts[0], parts[1]) if is_left else (parts[1], parts[0])
    body = b"".join(int(full_digits[k : k + 9]).to_bytes(4, "big") for k in range(0, len(full_digits), 9))
    edge = int(short).to_bytes(_DIGIT_BYTES[partial], "big") if short else b""
    return edge + body if is_left else body + edge


def DECIMAL(precision: int, scale: int) -> ColumnType:  # noqa: N802 - reads as SQL does
    """strings/decimal.cc, ``decimal2bin``: sign bit flipped, all bits inverted below zero."""

    def encode(value: Any) -> bytes:
        number = Decimal(value)
        sign, digits, exponent = number.as_tuple()
        shift = int(exponent) + scale
        text = "".join(map(str, digits)) + "0" * shift if shift >= 0 else "".join(map(str, digits))[:shift]
        text = text.rjust(precision, "0")
        packed = _groups(text[: precision - scale], is_left=True) + _groups(text[precision - scale :], is_left=False)
        packed = bytes([packed[0] ^ 0x80]) + packed[1:]
        return bytes(byte ^ 0xFF for byte in packed) if sign else packed

    return ColumnType(246, bytes([precision, scale]), encode, numeric=True)


def BIT(bits: int) -> ColumnType:  # noqa: N802 - reads as SQL does
    return ColumnType(16, bytes([bits % 8, bits // 8]), lambda value: int(value).to_bytes((bits + 7) // 8, "big"))


def _date(text: str) -> bytes:
    year, month, day = (int(part) for part in text.split("-"))
    return (year << 9 | month << 5 | day).to_bytes(3, "little")


def _fraction(text: str, digits: int) -> bytes:
    """The digits behind the point in ceil(digits / 2) bytes, an odd number padded by a zero."""
    size = (digits + 1) // 2
    digit_text = (text.partition(".")[2][:digits]).ljust(2 * size, "0")
    return int(digit_text).to_bytes(size, "big") if size else b""


def DATETIME(digits: int = 0) -> ColumnType:  # noqa: N802 - reads as SQL does
    """sql-common/my_time.cc, ``my_datetime_packed_to_binary``: 1 sign, 17 year·13+month, 5 day, 5 hour, 6, 6 bits."""

    def encode(value: Any) -> bytes:
        text = str(value)
        day, _, clock = text.partition(" ")
        year, month, date = (int(part) for part in day.split("-"))
        hour, minute, second = (int(part) for part in (clock or "00:00:00").split(".")[0].split(":"))
        packed = ((year * 13 + month) << 5 | date) << 17 | hour << 12 | minute << 6 | second
        return (packed + (1 << 39)).to_bytes(5, "big") + _fraction(text, digits)

    return ColumnType(18, bytes([digits]), encode)


def TIMESTAMP(digits: int = 0) -> ColumnType:  # noqa: N802 - reads as SQL does
    """Seconds since 1970 UTC; the value's text is in UTC."""

    def encode(value: Any) -> bytes:
        text = str(value)
        seconds = 0
        if not text.startswith("0000"):
            moment = dt.datetime.fromisoformat(text.partition(".")[0]).replace(tzinfo=dt.UTC)
            seconds = int(moment.timestamp())
        return seconds.to_bytes(4, "big") + _fraction(text, digits)

    return ColumnType(17, bytes([digits]), encode)


def TIME(digits: int = 0) -> ColumnType:  # noqa: N802 - reads as SQL does
    """my_time.cc, ``my_time_packed_to_binary``: the number with its fraction, negated as a whole, plus the offset."""

    def encode(value: Any) -> bytes:
        text = str(value)
        hour, minute, second = (int(part) for part in text.lstrip("-").split(".")[0].split(":"))
        size = (digits + 1) // 2
        packed = (hour << 12 | minute << 6 | second) << 8 * size | int.from_bytes(_fraction(text, digits), "big")
        packed = -packed if text.startswith("-") else packed
        return (packed + (0x800000 << 8 * size)).to_bytes(3 + size, "big")

    return ColumnType(19, bytes([digits]), encode)


def _bytes_of(value: Any, collation: int) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(_CODECS[collation])


def _prefixed(size: int, collation: int) -> Encode:
    def encode(value: Any) -> bytes:
        raw = _bytes_of(value, collation)
        return len(raw).to_bytes(size, "little") + raw

    return encode


def VARCHAR(length: int, collation: int = UTF8MB4, bytes_each: int = 4) -> ColumnType:  # noqa: N802 - reads as SQL does
    max_bytes = length * bytes_each
    return ColumnType(
        15, struct.pack("<H", max_bytes), _prefixed(1 if max_bytes < 256 else 2, collation), collation=collation
    )


def VARBINARY(length: int) -> ColumnType:  # noqa: N802 - reads as SQL does
    return VARCHAR(length, BINARY_COLLATION, 1)


def CHAR(length: int, collation: int = UTF8MB4, bytes_each: int = 4) -> ColumnType:  # noqa: N802 - reads as SQL does
    """Type 254; a length above 255 puts two high bits, inverted, into the first byte's 0x30. Pads are gone."""
    max_bytes = length * bytes_each
    meta = bytes([0xFE ^ (max_bytes & 0x300) >> 4, max_bytes & 0xFF])
    return ColumnType(254, meta, _prefixed(1 if max_bytes < 256 else 2, collation), collation=collation)


def BINARY(length: int) -> ColumnType:  # noqa: N802 - reads as SQL does
    plain = CHAR(length, BINARY_COLLATION, 1)
    return replace(plain, encode=lambda value: plain.encode(value.rstrip(b"\0")))


def _blob(size: int, collation: int) -> ColumnType:
    return ColumnType(252, bytes([size]), _prefixed(size, collation), collation=collation)


TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT = (_blob(size, UTF8MB4) for size in (1, 2, 3, 4))
TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB = (_blob(size, BINARY_COLLATION) for size in (1, 2, 3, 4))


def ENUM(*labels: str, collation: int = UTF8MB4) -> ColumnType:  # noqa: N802 - reads as SQL does
    """A value is a label, or its number; 0 is the empty string of an invalid value."""
    size = 1 if len(labels) < 256 else 2

    def encode(value: Any) -> bytes:
        number = value if isinstance(value, int) else 0 if value == "" else labels.index(value) + 1
        return int(number).to_bytes(size, "little")

    return ColumnType(254, bytes([0xF7, size]), encode, collation=collation, labels=labels)


def SET(*labels: str, collation: int = UTF8MB4) -> ColumnType:  # noqa: N802 - reads as SQL does
    """A value is labels joined by commas, or the number of their bits."""
    size = (len(labels) + 7) // 8
    size = 8 if size > 4 else size

    def encode(value: Any) -> bytes:
        if isinstance(value, int):
            return value.to_bytes(size, "little")
        return sum(1 << labels.index(label) for label in value.split(",") if label).to_bytes(size, "little")

    return ColumnType(254, bytes([0xF8, size]), encode, collation=collation, labels=labels, is_set=True)


def _document(value: Any) -> bytes:
    stored = value if isinstance(value, bytes) else write(value)
    return len(stored).to_bytes(4, "little") + stored


JSON_DOCUMENT = ColumnType(245, b"\4", _document)
"""A value is a document: None, bool, int, float, str, list, dict, Opaque; or its bytes."""


def _geometry(value: Any) -> bytes:
    srid, wkb = value
    return int(4 + len(wkb)).to_bytes(4, "little") + struct.pack("<I", srid) + bytes(wkb)


GEOMETRY = ColumnType(255, b"\4", _geometry)
"""A value is (SRID, WKB)."""
VECTOR = ColumnType(
    242,
    b"\4",
    lambda value: (4 * len(value)).to_bytes(4, "little") + struct.pack(f"<{len(value)}f", *value),
    collation=BINARY_COLLATION,
)
OLD_TIMESTAMP = ColumnType(7, b"", lambda value: int(value).to_bytes(4, "little"))
"""A value is seconds since 1970; 0 is no time."""
OLD_TIME = ColumnType(11, b"", lambda value: int(value).to_bytes(3, "little", signed=True))
"""A value is the number HHMMSS."""
OLD_DATETIME = ColumnType(12, b"", lambda value: int(value).to_bytes(8, "little"))
"""A value is the number YYYYMMDDHHMMSS."""
