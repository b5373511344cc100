"""A value as Stratalog reads it against the same by python-mysql-replication.

Put here: what makes two values equal, type by type, and what the package is known to read otherwise. Not here: how
either reads them (binlog/types/, peer.py).
"""

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from spark_jobs.binlog import Column
from spark_jobs.binlog.types.charsets import BINARY, UTF8, charset_of
from spark_jobs.errors import Unsupported

_DATES, _TIMES = (10, 14, 7, 12, 17, 18), (11, 19)
_OLD_TIME, _YEAR, _BIT, _JSON, _ENUM, _SET, _GEOMETRY = 11, 13, 16, 245, 247, 248, 255
_INTEGERS, _DECIMAL, _FLOATS = (1, 2, 3, 8, 9), 246, {4: "<f", 5: "<d"}
_TEXT = (15, 252, 253, 254)
_CHAR = 254
_ALIKE = UTF8 | {"ascii", "latin1", BINARY}
"""Character sets that Python's codecs read as servers do; the package has no others."""

ZERO_DATES = "zero and partial dates and times"
NEGATIVE_TIME = "negative TIME with a fraction, or in the format before MySQL 5.6"
YEAR_ZERO = "YEAR 0000"
INVALID_TEXT = "text that is not valid in its character set"
CHARSETS = "text in character sets other than utf8mb4, utf8mb3, ascii and latin1"
LABELS = "ENUM and SET whose labels are not known, or not in these character sets"
JSON_OPAQUE = "JSON with DECIMAL, dates, times or bytes in it"
TYPES = "types that the package does not read (VECTOR, compressed columns)"
UNREAD = "events that the package cannot read"
FAULTS = (ZERO_DATES, NEGATIVE_TIME, YEAR_ZERO, INVALID_TEXT, CHARSETS, LABELS, JSON_OPAQUE, TYPES, UNREAD)
"""Reason why a value is not compared; docs/verify.md lists them."""


def fault(column: Column, value: Any, exact: str | None, peer: Any) -> str | None:  # noqa: PLR0911 - one a fault
    """Reason why a value cannot be compared, of FAULTS; None where it can.

    Args:
        column: Its definition.
        value: As Stratalog's typed column has it.
        exact: The exact text of what that cannot hold.
        peer: As the package has it.
    """
    # By what the value is first, then by what is known of the column.
    code = column.type_code
    if exact is not None:
        return ZERO_DATES if code in _DATES else INVALID_TEXT
    if code in _TIMES and isinstance(value, str) and value.startswith("-"):
        fraction = value.partition(".")[2].strip("0")
        return NEGATIVE_TIME if code == _OLD_TIME or fraction else None
    if code == _YEAR and value == 0:
        return YEAR_ZERO
    is_alike = column.charset is None or _charset(column) in _ALIKE
    if code in (_ENUM, _SET):
        return LABELS if column.labels is None or not is_alike else None
    if code in _TEXT and not is_alike:
        return CHARSETS
    if code == _JSON and value is not None:
        return JSON_OPAQUE if '"base64:' in value or not _is_plain(peer) else None
    return None


def is_readable(column: Column) -> bool:
    """True if the package knows the column's type; without that it reads no row of the table."""
    return column.type_code in _EQUAL


def is_equal(column: Column, value: Any, peer: Any) -> bool:
    """True if two values without a known fault are the same."""
    if column.type_code == _SET:
        return _is_same_set(value, peer)
    if value is None or peer is None:  # the JSON value null is None to the package, too
        return peer is None and (value is None or (column.type_code == _JSON and value == "null"))
    try:
        return _EQUAL[column.type_code](column, value, peer)
    except (TypeError, ValueError, ArithmeticError):  # a value of another kind
        return False


def _charset(column: Column) -> str | None:
    try:
        return None if column.charset is None else charset_of(column.charset)
    except Unsupported:
        return None


def _is_plain(peer: Any) -> bool:
    if isinstance(peer, dict):
        return all(isinstance(key, bytes | str) and _is_plain(value) for key, value in peer.items())
    if isinstance(peer, list):
        return all(map(_is_plain, peer))
    return peer is None or isinstance(peer, str | bytes | int | float)


def _is_same_integer(_: Column, value: Any, peer: Any) -> bool:
    return type(peer) is int and int(value) == peer


def _is_same_float(column: Column, value: float, peer: float) -> bool:
    layout = _FLOATS[column.type_code]
    return struct.pack(layout, value) == struct.pack(layout, peer)


def _is_same_decimal(_: Column, value: Decimal | str, peer: Any) -> bool:
    return isinstance(peer, Decimal) and Decimal(value) == peer


def _is_same_bits(_: Column, value: Any, peer: str) -> bool:
    return int(value) == int(peer, 2)


def _is_same_date(_: Column, value: date, peer: date) -> bool:
    return value == peer


def _is_same_moment(_: Column, value: datetime, peer: datetime) -> bool:
    return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value) == peer


def _is_same_time(_: Column, value: str, peer: timedelta) -> bool:
    hours, minutes, seconds = value.lstrip("-").split(":")
    span = timedelta(hours=int(hours), minutes=int(minutes)) + timedelta(microseconds=int(Decimal(seconds) * 1_000_000))
    return (-span if value.startswith("-") else span) == peer


def _is_same_text(column: Column, value: str | bytes, peer: str | bytes) -> bool:
    """Texts are equal: where no character set is known, the package has bytes; of no bytes it makes text always."""
    if isinstance(value, str):
        return value == peer if isinstance(peer, str) else value.encode() == peer
    if not isinstance(peer, bytes):
        return not peer and not value.rstrip(b"\0" if column.type_code == _CHAR else b"")
    # A BINARY is padded to its length in a table, and not in the log.
    return value.rstrip(b"\0") == peer.rstrip(b"\0") if column.type_code == _CHAR else value == peer


def _is_same_set(value: str | None, peer: set[str] | None) -> bool:
    """The package has None for the empty set, as for NULL."""
    return set(value.split(",")) == peer if value else peer is None


def _is_same_geometry(_: Column, value: dict[str, Any], peer: bytes) -> bool:
    return int(value["srid"]).to_bytes(4, "little") + bytes(value["wkb"]) == peer


def _is_same_json(_: Column, value: str, peer: Any) -> bool:
    return _is_same_document(json.loads(value), _texts_of(peer))


def _texts_of(peer: Any) -> Any:
    """A document whose keys and strings are text."""
    if isinstance(peer, dict):
        return {_texts_of(key): _texts_of(value) for key, value in peer.items()}
    if isinstance(peer, list):
        return [_texts_of(value) for value in peer]
    return peer.decode() if isinstance(peer, bytes) else peer


def _is_same_document(value: Any, peer: Any) -> bool:
    """Equal, with numbers of one kind: 1 is not 1.0, nor true."""
    if isinstance(value, dict) and isinstance(peer, dict):
        return value.keys() == peer.keys() and all(_is_same_document(value[key], peer[key]) for key in value)
    if isinstance(value, list) and isinstance(peer, list):
        return len(value) == len(peer) and all(map(_is_same_document, value, peer))
    return type(value) is type(peer) and value == peer


_EQUAL: dict[int, Callable[[Column, Any, Any], bool]] = {
    **dict.fromkeys((*_INTEGERS, _YEAR), _is_same_integer),
    **dict.fromkeys(_FLOATS, _is_same_float),
    _DECIMAL: _is_same_decimal,
    _BIT: _is_same_bits,
    **dict.fromkeys((10, 14), _is_same_date),
    **dict.fromkeys((7, 12, 17, 18), _is_same_moment),
    **dict.fromkeys(_TIMES, _is_same_time),
    **dict.fromkeys((*_TEXT, _ENUM), _is_same_text),
    _SET: lambda _, value, peer: _is_same_set(value, peer),
    _GEOMETRY: _is_same_geometry,
    _JSON: _is_same_json,
}
