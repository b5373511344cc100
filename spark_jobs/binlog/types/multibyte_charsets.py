"""Tables of multi-byte character sets: made once a process, when a column of the set is first read.

Put here: how a set's tables come about from Python's codecs and charset_tables.py. Not here: what is done with them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from spark_jobs.binlog.kernels import charset_text
from spark_jobs.binlog.types.base import Numbers
from spark_jobs.binlog.types.charset_tables import CODECS, EXCEPTIONS

_EUC = {"ujis", "eucjpms"}
_SECOND_PLANE = 0x8F
"""Lead byte of EUC's characters of three bytes."""
_USER_ROWS, _USER_AREA = range(0xF5, 0xFF), 0xE000
_CELLS = range(0xA1, 0xFF)


@dataclass(frozen=True, slots=True)
class CharsetTable:
    """Tables for charset_text.map_characters: bytes of a character by its first, code points by its bytes."""

    sizes: Numbers
    pairs: Numbers
    triples: Numbers
    quads: Numbers


@cache
def table_of(charset: str) -> CharsetTable:
    """The tables of a set of CODECS."""
    points = dict(_single_bytes(charset)) | dict(_pairs(charset))
    if charset in _EUC:
        points |= dict(_second_plane()) | dict(_user_defined())
    points |= {code: ord(letter) for code, letter in EXCEPTIONS.get(charset, {}).items()}
    points = {code: point for code, point in points.items() if chr(point) != "\ufffd"}
    quads = _quads(charset) if charset == "gb18030" else np.empty(0, np.uint32)
    pairs, triples = _filled(points, 0), np.empty(0, np.uint32)
    sizes = np.zeros(256, np.uint8)
    for code in points:
        if code < 1 << 16:
            sizes[code >> 8 or code] = 2 if code > 255 else 1
    if charset in _EUC:
        triples, sizes[_SECOND_PLANE] = _filled(points, _SECOND_PLANE << 16), 3
    return CharsetTable(sizes, pairs, triples, quads)


def _filled(points: dict[int, int], first: int) -> Numbers:
    """Code points of the 65,536 codes from ``first`` on."""
    table = np.full(1 << 16, charset_text.NO_CHARACTER, np.uint32)
    for code, point in points.items():
        if first <= code < first + (1 << 16):
            table[code - first] = point
    return table


def _character(stored: bytes, codec: str) -> int | None:
    try:
        text = stored.decode(codec)
    except UnicodeDecodeError:
        return None
    return ord(text) if len(text) == 1 else None


def _code_points(codes: Iterator[tuple[int, bytes]], codec: str) -> Iterator[tuple[int, int]]:
    for code, stored in codes:
        point = _character(stored, codec)
        if point is not None:
            yield code, point


def _single_bytes(charset: str) -> Iterator[tuple[int, int]]:
    return _code_points(((byte, bytes([byte])) for byte in range(256)), CODECS[charset])


def _pairs(charset: str) -> Iterator[tuple[int, int]]:
    codes = ((code, code.to_bytes(2, "big")) for code in range(0x8000, 0x10000))
    if charset == "eucjpms":
        kana = ((code, code.to_bytes(2, "big")) for code in range(0x8E00, 0x8F00))
        plane = (((row << 8 | cell), _shifted(row, cell)) for row in _CELLS for cell in _CELLS)
        yield from _code_points(kana, "euc_jp")
        yield from _code_points(plane, "cp932")
    else:
        yield from _code_points(codes, CODECS[charset])


def _shifted(row: int, cell: int) -> bytes:
    """Microsoft's code of what eucjpms has at a row and cell: two rows share a lead byte there."""
    half, odd = divmod(row - 0xA1, 2)
    lead = half + (0x81 if half < 0x1F else 0xC1)
    trail = cell - 2 if odd else cell - 0x61 + (cell >= 0xE0)
    return bytes([lead, trail])


def _second_plane() -> Iterator[tuple[int, int]]:
    codes = ((_SECOND_PLANE << 16 | row << 8 | cell) for row in _CELLS for cell in _CELLS)
    return _code_points(((code, code.to_bytes(3, "big")) for code in codes), "euc_jp")


def _user_defined() -> Iterator[tuple[int, int]]:
    """Ten rows of either plane are Unicode's private use area in order."""
    point = _USER_AREA
    for plane in (0, _SECOND_PLANE << 16):
        for row in _USER_ROWS:
            for cell in _CELLS:
                yield plane | row << 8 | cell, point
                point += 1


def _quads(charset: str) -> Numbers:
    """Characters of four bytes in the Basic Multilingual Plane, by their offset in the order of these codes."""
    points = np.full(charset_text.QUADS, charset_text.NO_CHARACTER, np.uint32)
    for index in range(charset_text.QUADS):
        rest, fourth = divmod(index, 10)
        rest, third = divmod(rest, 126)
        first, second = divmod(rest, 10)
        stored = bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth])
        exception = EXCEPTIONS[charset].get(int.from_bytes(stored, "big"))
        point = ord(exception) if exception else _character(stored, CODECS[charset])
        if point is not None:
            points[index] = point
    return points
