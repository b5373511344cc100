"""Binary JSON, both ways and plainly: a writer for tests, and the decoder's slow twin.

Written from MySQL's sql-common/json_binary.h and json_dom.cc (wrapper_to_string) alone, value by value.

Put here: documents. Not here: columns (segment_types.py), cases.
"""

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Gap = Callable[[], bytes]


@dataclass(frozen=True)
class Opaque:
    """A value of an SQL type: its code (include/field_types.h) and bytes."""

    code: int
    content: bytes


def moment(packed: int) -> bytes:
    return struct.pack("<q", packed)


def _length(count: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    encoded = b""
    while count > 127:
        encoded += bytes([count & 127 | 128])
        count >>= 7
    return encoded + bytes([count])


_INTEGERS = ((5, "<h"), (6, "<H"), (7, "<i"), (8, "<I"), (9, "<q"), (10, "<Q"))
_INLINE = {4, 5, 6}
_INLINE_LARGE = {4, 5, 6, 7, 8}


def _scalar(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, b"\0" if value is None else b"\1" if value else b"\2"
    if isinstance(value, int):
        for code, form in _INTEGERS:
            try:
                return code, struct.pack(form, value)
            except struct.error:
                pass
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, Opaque):
        return 15, bytes([value.code]) + _length(len(value.content)) + value.content
    stored = value.encode()
    return 12, _length(len(stored)) + stored


def write(value: Any, large: bool = False, gap: Gap = bytes) -> bytes:
    """A document. large: all containers have offsets of four bytes; gap: what stands before each key and value."""
    code, content = _encoded_value(value, large, gap)
    return bytes([code]) + content


def _encoded_value(value: Any, large: bool, gap: Gap) -> tuple[int, bytes]:
    if not isinstance(value, list | dict):
        return _scalar(value)
    kind = 0 if isinstance(value, dict) else 2
    if not large:
        try:
            return kind, _container(value, False, large, gap)
        except (struct.error, OverflowError):  # an offset needs four bytes
            pass
    return kind + 1, _container(value, True, large, gap)


def _container(value: list[Any] | dict[str, Any], wide: bool, large: bool, gap: Gap) -> bytes:
    width, form = (4, "<I") if wide else (2, "<H")
    keys = [key.encode() for key in value] if isinstance(value, dict) else []
    values = [_encoded_value(item, large, gap) for item in (value.values() if isinstance(value, dict) else value)]
    offset = 2 * width + len(keys) * (width + 2) + len(values) * (1 + width)
    key_entries, value_entries, body = b"", b"", b""
    for key in keys:
        body += gap()
        key_entries += struct.pack(form, offset + len(body)) + struct.pack("<H", len(key))
        body += key
    for code, content in values:
        if code in (_INLINE_LARGE if wide else _INLINE):
            value_entries += bytes([code]) + content.ljust(width, b"\0")
        else:
            body += gap()
            value_entries += bytes([code]) + (offset + len(body)).to_bytes(width, "little")
            body += content
    head = struct.pack(form, len(values)) + (offset + len(body)).to_bytes(width, "little")
    return head + key_entries + value_entries + body


def text(document: bytes) -> str:
    """What CAST(… AS CHAR) prints in MySQL 9."""
    return _text_of_document(document[0], document, 1) if document else "null"


def _text_of_document(code: int, document: bytes, at: int) -> str:
    if code < 4:
        return _container_text(code, document, at)
    if code == 4:
        return ("null", "true", "false")[document[at]]
    if code == 11:
        return double_text(struct.unpack_from("<d", document, at)[0])
    if code in (12, 15):
        length, start = _read_length(document, at + (code == 15))
        content = document[start : start + length]
        return _quoted(content.decode()) if code == 12 else _opaque_text(document[at], content)
    return str(struct.unpack_from(dict(_INTEGERS)[code], document, at)[0])


def _read_length(document: bytes, at: int) -> tuple[int, int]:
    length = shift = 0
    while document[at] > 127:
        length |= (document[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return length | document[at] << shift, at + 1


def _container_text(code: int, document: bytes, at: int) -> str:
    width = 4 if code & 1 else 2

    def number(offset: int, size: int) -> int:
        return int.from_bytes(document[offset : offset + size], "little")

    count, entry, parts = number(at, width), at + 2 * width, []
    values = entry + count * (width + 2) if code < 2 else entry
    for k in range(count):
        part = ""
        if code < 2:
            key = at + number(entry + k * (width + 2), width)
            part = _quoted(document[key : key + number(entry + k * (width + 2) + width, 2)].decode()) + ": "
        offset = values + k * (1 + width)
        kind = document[offset]
        inline = kind in (_INLINE_LARGE if width == 4 else _INLINE)
        parts.append(part + _text_of_document(kind, document, offset + 1 if inline else at + number(offset + 1, width)))
    return ("{%s}" if code < 2 else "[%s]") % ", ".join(parts)


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def double_text(value: float) -> str:
    if value == 0:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, point = "".join(map(str, digits)), len(digits) + int(exponent)
    minus = "-" if sign else ""
    if point < -14 or (point > 15 and len(text) <= point):
        return f"{minus}{text[0]}{'.' + text[1:] if text[1:] else ''}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def _opaque_text(kind: int, content: bytes) -> str:
    if kind == 246:
        return _decimal_text(content[0], content[1], content[2:])
    if kind in (7, 10, 11, 12):
        return f'"{_moment_text(kind, struct.unpack("<q", content)[0])}"'
    lines = base64.b64encode(content).decode()
    broken = "\\n".join(lines[k : k + 76] for k in range(0, len(lines), 76))
    return f'"base64:type{kind}:{broken}"'


def _moment_text(kind: int, packed: int) -> str:
    clock, fraction = divmod(abs(packed), 1 << 24)
    time = f"{clock >> 12 & (31 if kind != 11 else 1023):02}:{clock >> 6 & 63:02}:{clock & 63:02}.{fraction:06}"
    if kind == 11:
        return ("-" if packed < 0 else "") + time
    year, month = divmod(clock >> 22, 13)
    date = f"{year:04}-{month:02}-{clock >> 17 & 31:02}"
    return date if kind == 10 else f"{date} {time}"


def _decimal_text(precision: int, scale: int, stored: bytes) -> str:
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    integer_digits = precision - scale
    groups = (
        [integer_digits % 9] * (integer_digits % 9 > 0)
        + [9] * (integer_digits // 9)
        + [9] * (scale // 9)
        + [scale % 9] * (scale % 9 > 0)
    )
    negative = not stored[0] & 0x80
    flipped = bytes([stored[0] ^ 0x80]) + stored[1:]
    flipped = bytes(byte ^ 0xFF for byte in flipped) if negative else flipped
    digits, offset = "", 0
    for count in groups:
        digits += str(int.from_bytes(flipped[offset : offset + sizes[count]], "big")).zfill(count)
        offset += sizes[count]
    text = (digits[:integer_digits].lstrip("0") or "0") + ("." + digits[integer_digits:] if scale else "")
    return "-" + text if negative else text
