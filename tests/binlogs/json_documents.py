"""MySQL's binary JSON written and read in plain Python, as its description says: evidence for what works on bytes.

Put here: documents to bytes and back. Not here: what is done with them.
"""

import struct
from dataclasses import dataclass
from typing import Any

_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<d"}


@dataclass(frozen=True)
class Opaque:
    """A value of a type that JSON does not have: MYSQL_TYPE_… and its bytes."""

    code: int
    content: bytes


def to_binary(value: Any, *, large: bool = False) -> bytes:
    """Type byte and value; ``large``: containers count in four bytes, whether they need to or not."""
    kind, content = _encoded(value, large)
    return bytes([kind]) + content


def _encoded(value: Any, large: bool) -> tuple[int, bytes]:  # noqa: PLR0911 - one line a type
    match value:
        case None | True | False:
            return 4, bytes([0 if value is None else 1 if value else 2])
        case int():
            for code in (5, 6, 7, 8, 9, 10):
                try:
                    return code, struct.pack(_NUMBERS[code], value)
                except struct.error:
                    continue
            raise ValueError(value)
        case float():
            return 11, struct.pack("<d", value)
        case str():
            return 12, _sized(value.encode())
        case Opaque(code, content):
            return 15, bytes([code]) + _sized(content)
        case list():
            return (3 if large else 2), _container([], [_encoded(item, large) for item in value], large)
        case dict():
            keys = sorted((key.encode() for key in value), key=lambda key: (len(key), key))
            values = [_encoded(value[key.decode()], large) for key in keys]
            return int(large), _container(keys, values, large)
    raise TypeError(value)


def _sized(content: bytes) -> bytes:
    length, head = len(content), b""
    while length > 127:
        head += bytes([length & 127 | 128])
        length >>= 7
    return head + bytes([length]) + content


def _container(keys: list[bytes], values: list[tuple[int, bytes]], large: bool) -> bytes:
    word, width = ("<I", 4) if large else ("<H", 2)
    inlined = {4, 5, 6, 7, 8} if large else {4, 5, 6}
    offset = 2 * width + len(keys) * (width + 2) + len(values) * (width + 1)
    entries, rest = b"", b""
    for key in keys:
        entries += struct.pack(word, offset + len(rest)) + struct.pack("<H", len(key))
        rest += key
    for kind, content in values:
        if kind in inlined:
            entries += bytes([kind]) + content.ljust(width, b"\0")
        else:
            entries += bytes([kind]) + struct.pack(word, offset + len(rest))
            rest += content
    return struct.pack(word, len(values)) + struct.pack(word, offset + len(rest)) + entries + rest


def from_binary(document: bytes) -> Any:
    """The document as Python values."""
    return _decoded(document[0], document[1:])


def _decoded(kind: int, content: bytes) -> Any:
    if kind == 4:
        return {0: None, 1: True, 2: False}[content[0]]
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], content)[0]
    if kind == 12:
        return _text_value(content).decode()
    if kind == 15:
        return Opaque(content[0], _text_value(content[1:]))
    assert kind <= 3, kind
    word, width = ("<I", 4) if kind in {1, 3} else ("<H", 2)
    count, size = (struct.unpack_from(word, content, at)[0] for at in (0, width))
    assert size <= len(content)
    offset, keys = 2 * width, []
    for at in range(offset, offset + count * (width + 2), width + 2) if kind < 2 else ():
        begin, length = struct.unpack_from(word, content, at)[0], struct.unpack_from("<H", content, at + width)[0]
        keys.append(content[begin : begin + length].decode())
    offset += len(keys) * (width + 2)
    values = []
    for at in range(offset, offset + count * (width + 1), width + 1):
        code = content[at]
        inlined = code in ({4, 5, 6, 7, 8} if width == 4 else {4, 5, 6})
        begin = at + 1 if inlined else struct.unpack_from(word, content, at + 1)[0]
        values.append(_decoded(code, content[begin:]))
    assert keys == sorted(keys, key=lambda key: (len(key.encode()), key.encode()))
    return dict(zip(keys, values, strict=True)) if kind < 2 else values


def _text_value(content: bytes) -> bytes:
    length = shift = offset = 0
    while True:
        length |= (content[offset] & 127) << shift
        shift, offset = shift + 7, offset + 1
        if content[offset - 1] < 128:
            return content[offset : offset + length]
