"""Partial updates of JSON: the binary form before and diffs, to the binary form after.

Source: MySQL sql/json_diff.h and json_diff.cc (``read_binary``, ``apply_json_diffs``), sql-common/json_binary.h (the
form of documents), sql-common/json_path.cc (``Json_path_leg::to_string``).

Only containers on the way to a change are taken apart; all other values move as the bytes that they are. Plain Python:
a server writes diffs only where a session asks for it (binlog_row_value_options), and a few a row.

Put here: diffs applied. Not here: where they stand in a row (binlog/rows/row_events.py), or the text of a document
(types/).
"""

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from spark_jobs.errors import DecodeError

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_SIZES = {4: 1, 5: 2, 6: 2, 7: 4, 8: 4, 9: 8, 10: 8, 11: 8}
"""Bytes of literals, integers of 2, 4, 8 bytes with and without a sign, and doubles, by type."""
_STRING, _OPAQUE = 12, 15
_IN_ENTRY = ({4, 5, 6}, {4, 5, 6, 7, 8})
"""Types whose value is in its entry, in small and in large containers."""
_MOST_SMALL = 0xFFFF

REPLACE, INSERT, REMOVE = range(3)


@dataclass(slots=True)
class _Container:
    """An object or array taken apart; keys of an object in their order, by length and then by bytes."""

    is_object: bool
    keys: list[bytes]
    values: "list[_Node]"

    def find(self, leg: "_Leg") -> int:
        """The place of a member or cell. Raises DecodeError where there is none."""
        offset = self._offset_of(leg)
        if offset is None or offset >= len(self.values):
            raise DecodeError(f"the document before has no {_text_of(leg)}")
        return offset

    def insert(self, leg: "_Leg", value: "_Node") -> None:
        """Add a member that is not there, or a cell before the one of that number. Raises DecodeError."""
        if isinstance(leg, bytes):
            if not self.is_object or leg in self.keys:
                raise DecodeError(f"the document before takes no further {_text_of(leg)}")
            offset = sum(_order(key) < _order(leg) for key in self.keys)
            self.keys.insert(offset, leg)
        else:
            if self.is_object:
                raise DecodeError(f"the document before takes no further {_text_of(leg)}")
            offset = leg.insertion(len(self.values))
        self.values.insert(offset, value)

    def remove(self, leg: "_Leg") -> None:
        offset = self.find(leg)
        del self.values[offset]
        if self.is_object:
            del self.keys[offset]

    def _offset_of(self, leg: "_Leg") -> int | None:
        if isinstance(leg, bytes):
            return self.keys.index(leg) if self.is_object and leg in self.keys else None
        return None if self.is_object else leg.index(len(self.values))


@dataclass(frozen=True, slots=True)
class _DiffCell:
    """An array's cell, counted from its begin or its end."""

    number: int
    from_end: bool

    def index(self, length: int) -> int | None:
        offset = length - 1 - self.number if self.from_end else self.number
        return offset if offset >= 0 else None

    def insertion(self, length: int) -> int:
        return max(length - 1 - self.number, 0) if self.from_end else min(self.number, length)

    def __str__(self) -> str:
        return f"[{'last-' if self.from_end else ''}{self.number}]"


_Leg: TypeAlias = bytes | _DiffCell
_Raw: TypeAlias = tuple[int, bytes]
_Node: TypeAlias = _Raw | _Container


def _text_of(leg: _Leg) -> str:
    """Text that a leg leads to; without a member's name, which may be as secret as values are."""
    return "member of that name" if isinstance(leg, bytes) else str(leg)


def apply_diffs(document: bytes, diffs: bytes) -> bytes:
    """The document after all diffs, in order. Raises DecodeError where a diff makes no sense or does not fit.

    document: type byte and value; diffs: as in the row, without the length in front.
    """
    root: _Node = (document[0], document[1:]) if document else (_LITERAL, b"\0")
    for number, (operation, path, value) in enumerate(_read_diffs(diffs), 1):
        *full_path, last = _legs(path)
        try:
            root = _opened_container(root)
            _changed(_seek(root, full_path), operation, last, value)
        except DecodeError as error:
            raise DecodeError(f"diff {number}: {error}") from None
    kind, content = _encode(root)
    return bytes([kind]) + content


def _changed(parent: _Container, operation: int, leg: _Leg, value: _Raw) -> None:
    if operation == INSERT:
        parent.insert(leg, value)
    elif operation == REMOVE:
        parent.remove(leg)
    else:
        parent.values[parent.find(leg)] = value


def _seek(node: _Container, path: list[_Leg]) -> _Container:
    for leg in path:
        offset = node.find(leg)
        child = _opened_container(node.values[offset])
        node.values[offset] = child
        node = child
    return node


def _read_diffs(diffs: bytes) -> Iterator[tuple[int, bytes, _Raw]]:
    """(operation, path, value): operation 1, then path and value with their lengths, no value to REMOVE."""
    offset = 0
    while offset < len(diffs):
        operation = diffs[offset]
        if operation > REMOVE:
            raise DecodeError(f"JSON diff operation {operation} is not known")
        path, offset = _length_prefixed(diffs, offset + 1)
        value = b"\4\0"
        if operation != REMOVE:
            value, offset = _length_prefixed(diffs, offset)
        if not value:
            raise DecodeError("a JSON diff without a value")
        yield operation, path, (value[0], value[1:])


def _length_prefixed(wire: bytes, offset: int) -> tuple[bytes, int]:
    """Bytes behind their length-encoded length, and the offset after them."""
    sizes = {252: 2, 253: 3, 254: 8}
    first = _slice(wire, offset, 1)[0]
    size = sizes.get(first, 0)
    if first >= 251 and not size:
        raise DecodeError(f"a JSON diff with a length that begins with {first}")
    length = int.from_bytes(_slice(wire, offset + 1, size), "little") if size else first
    return _slice(wire, offset + 1 + size, length), offset + 1 + size + length


def _slice(wire: bytes, offset: int, count: int) -> bytes:
    piece = wire[offset : offset + count]
    if len(piece) < count:
        raise DecodeError(f"JSON of {len(wire)} bytes ends before byte {offset + count}")
    return piece


_LEG = re.compile(
    rb'\.(?P<quoted>"(?:[^"\\]|\\.)*")|\.(?P<name>[^.\["]+)|\[(?:(?P<last>last)(?:-(?P<back>\d+))?|(?P<number>\d+))\]'
)


def _legs(path: bytes) -> list[_Leg]:
    """``$.name."another"[3][last-1]`` in its legs; at least one, since no diff replaces a whole document."""
    legs: list[_Leg] = []
    offset = 1
    while path[:1] == b"$" and offset < len(path):
        match = _LEG.match(path, offset)
        if match is None:
            break
        legs.append(_leg(match))
        offset = match.end()
    if not legs or offset < len(path):
        raise DecodeError(f"a JSON path of {len(path)} bytes is not understood beyond byte {offset}")
    return legs


def _leg(match: re.Match[bytes]) -> _Leg:
    if match["quoted"]:
        try:
            return str(json.loads(match["quoted"], strict=False)).encode()
        except ValueError:
            raise DecodeError("a JSON path has a quoted name that is not understood") from None
    if match["name"]:
        return match["name"]
    return (
        _DiffCell(int(match["back"] or 0), from_end=True) if match["last"] else _DiffCell(int(match["number"]), False)
    )


def _order(key: bytes) -> tuple[int, bytes]:
    return len(key), key


def _opened_container(node: _Node) -> _Container:
    """A container's keys and values; values that are containers stay bytes. Raises DecodeError on anything else."""
    if isinstance(node, _Container):
        return node
    kind, content = node
    if kind > _LARGE_ARRAY:
        raise DecodeError("the value before is neither object nor array")
    large, is_object = kind in {_LARGE_OBJECT, _LARGE_ARRAY}, kind in {_SMALL_OBJECT, _LARGE_OBJECT}
    width = 4 if large else 2
    count = _little_endian(content, 0, width)
    offset = 2 * width
    # Entries of the keys, then entries of the values.
    named_entries = range(offset, offset + is_object * count * (width + 2), width + 2)
    keys = [
        _slice(content, _little_endian(content, at, width), _little_endian(content, at + width, 2))
        for at in named_entries
    ]
    offset += is_object * count * (width + 2)
    entries = range(offset, offset + count * (1 + width), 1 + width)
    return _Container(is_object, keys, [_entry_value(content, at, large=large) for at in entries])


def _little_endian(content: bytes, offset: int, width: int) -> int:
    return int.from_bytes(_slice(content, offset, width), "little")


def _entry_value(content: bytes, entry: int, *, large: bool) -> _Raw:
    """The value of an entry: a type, then the value itself or its offset."""
    kind = _slice(content, entry, 1)[0]
    if kind in _IN_ENTRY[large]:
        return kind, _slice(content, entry + 1, _SIZES[kind])
    offset = _little_endian(content, entry + 1, 4 if large else 2)
    return kind, _slice(content, offset, _size(kind, content, offset))


def _size(kind: int, content: bytes, offset: int) -> int:
    """Bytes of a value that stands by itself."""
    if kind in _SIZES:
        return _SIZES[kind]
    if kind <= _LARGE_ARRAY:
        width = 4 if kind in {_LARGE_OBJECT, _LARGE_ARRAY} else 2
        return _little_endian(content, offset + width, width)
    # Strings and opaque values have a length of seven bits a byte, the lowest first.
    if kind not in {_STRING, _OPAQUE}:
        raise DecodeError(f"JSON value type {kind} is not known")
    begin = offset + (kind == _OPAQUE)
    length = shift = 0
    while True:
        byte = _slice(content, begin, 1)[0]
        length |= (byte & 0x7F) << shift
        begin, shift = begin + 1, shift + 7
        if byte < 0x80:
            return begin - offset + length
        if shift > 28:
            raise DecodeError("a JSON string whose length does not end")


def _encode(node: _Node) -> _Raw:
    """Type and bytes; a container is small where its bytes can be counted in 16 bits."""
    if not isinstance(node, _Container):
        return node
    values = [_encode(value) for value in node.values]
    content = _laid_out(node.keys, values, large=False)
    if content is not None:
        return (_SMALL_OBJECT if node.is_object else _SMALL_ARRAY), content
    content = _laid_out(node.keys, values, large=True)
    assert content is not None
    return (_LARGE_OBJECT if node.is_object else _LARGE_ARRAY), content


def _laid_out(keys: list[bytes], values: list[_Raw], *, large: bool) -> bytes | None:
    """Count, size, key entries, value entries, keys, values; None where a small container does not hold them."""
    # Small containers have offsets of two bytes, large ones of four.
    width, number = (4, "<I") if large else (2, "<H")
    body = b"".join(keys)
    offset = 2 * width + len(keys) * (width + 2) + len(values) * (1 + width)
    size = offset + len(body) + sum(len(content) for kind, content in values if kind not in _IN_ENTRY[large])
    if not large and size > _MOST_SMALL:
        return None
    # Entries of the keys, then entries of the values, each with the place of what does not fit into it.
    head = [struct.pack(number, len(values)), struct.pack(number, size)]
    for key in keys:
        head += [struct.pack(number, offset), struct.pack("<H", len(key))]
        offset += len(key)
    rest = [body]
    for kind, content in values:
        if kind in _IN_ENTRY[large]:
            head.append(bytes([kind]) + content.ljust(width, b"\0"))
        else:
            head += [bytes([kind]), struct.pack(number, offset)]
            rest.append(content)
            offset += len(content)
    return b"".join(head + rest)
