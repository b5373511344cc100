"""Rows of a query in the binary protocol, made in plain Python, each value with its text beside it.

Put here: packets, and values of every type in both forms. Not here: what a reader makes of them.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from spark_jobs.binlog import Column

Cell = tuple[bytes, bytes] | None
"""A value in the text protocol and in the binary one; None for NULL."""


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column, and the type by which a server sends it."""

    column: Column
    wire: int

    def cell(self, random: Random) -> Cell:
        return None if random.random() < 0.2 else _random_cell(self.column, self.wire, random)


def lenenc(content: bytes) -> bytes:
    size = len(content)
    if size < 251:
        return bytes([size]) + content
    form = ("<BH", 252) if size < 1 << 16 else ("<BI", 253) if size < 1 << 24 else ("<BQ", 254)
    head = struct.pack(form[0], form[1], size)
    return (head[:4] if form[1] == 253 else head) + content


def row(cells: Sequence[Cell]) -> bytes:
    """The payload of a row's packet."""
    nulls = sum(1 << (at + 2) for at, cell in enumerate(cells) if cell is None)
    return b"\0" + nulls.to_bytes((len(cells) + 9) // 8, "little") + b"".join(cell[1] for cell in cells if cell)


def packets(payloads: Sequence[bytes], first: int = 0) -> bytes:
    """Payloads as packets, those of 16 MiB and more as several."""
    parts: list[bytes] = []
    for payload in payloads:
        for begin in range(0, len(payload) + 1, 0xFFFFFF):
            parts.append(payload[begin : begin + 0xFFFFFF])
            if len(parts[-1]) < 0xFFFFFF:
                break
    return b"".join(
        len(part).to_bytes(3, "little") + bytes([(first + at) & 255]) + part for at, part in enumerate(parts)
    )


END = b"\xfe\0\0\2\0"
_SIZES = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_WIRES = {1: 1, 2: 2, 9: 4, 3: 4, 8: 8}


def columns(random: Random) -> list[WireColumn]:
    """Some columns of random types."""
    wire_columns = []
    for _ in range(random.randint(1, 12)):
        digits, bits = random.randint(1, 65), random.randint(1, 64)
        scale, fraction = random.randint(0, min(30, digits)), random.randint(0, 6)
        wire_columns.append(
            random.choice(
                [
                    *(WireColumn(Column("c", code, unsigned=random.random() < 0.5), code) for code in _SIZES),
                    WireColumn(Column("c", 4, 4), 4),
                    WireColumn(Column("c", 5, 8), 5),
                    WireColumn(Column("c", 10), 10),
                    WireColumn(Column("c", 13), 13),
                    WireColumn(Column("c", 16, bits), 16),
                    WireColumn(Column("c", 17, fraction), 7),
                    WireColumn(Column("c", 18, fraction), 12),
                    WireColumn(Column("c", 19, fraction), 11),
                    WireColumn(Column("c", 245, 4), 245),
                    WireColumn(Column("c", 246, digits << 8 | scale), 246),
                    WireColumn(Column("c", 247, random.choice([1, 2])), 8),
                    WireColumn(Column("c", 248, random.randint(1, 8)), 8),
                    WireColumn(Column("c", 15, random.choice([20, 2000]), charset=46), 253),
                    WireColumn(Column("c", 254, random.choice([20, 1000]), charset=random.choice([46, 63])), 254),
                    WireColumn(Column("c", 252, random.randint(1, 4), charset=63), 252),
                ]
            )
        )
    return wire_columns


def _random_cell(column: Column, wire: int, random: Random) -> tuple[bytes, bytes]:  # noqa: PLR0911 - one a type
    code = column.type_code
    if code in _SIZES:
        bits = 8 * _SIZES[code]
        low = 0 if column.unsigned else -(1 << bits - 1)
        number = random.choice([low, low + (1 << bits) - 1, 0, random.randrange(low, low + (1 << bits))])
        return str(number).encode(), (number & (1 << 8 * _WIRES[wire]) - 1).to_bytes(_WIRES[wire], "little")
    if code in (4, 5):
        packed = struct.pack("<f" if code == 4 else "<d", random.choice([0.0, -0.0, 0.1, 3.4e38, -1e-40]))
        (number,) = struct.unpack("<f" if code == 4 else "<d", packed)
        return repr(number).encode(), packed
    if code in (247, 248):
        number = random.randrange(1 << 8 * column.meta)
        return str(number).encode(), number.to_bytes(8, "little")
    if code == 13:
        year = random.choice([0, 1901, 2155, 2024])
        return b"%04d" % year, struct.pack("<H", year)
    if code == 16:
        size = (column.meta + 7) // 8
        content = random.randrange(1 << column.meta).to_bytes(size, "big")
        return content, lenenc(random.choice([content, content.lstrip(b"\0")]))
    if code == 246:
        text = _decimal(column.meta >> 8, column.meta & 255, random)
        return text, lenenc(text)
    if code in (10, 17, 18):
        return _moment(code, column.meta, random)
    if code == 19:
        return _time(column.meta, random)
    if code == 245:
        content = bytes(random.choices(b'"\\-0019.e,\n[] a', k=random.randint(0, 40)))
        return content, lenenc(content)
    longest = {15: column.meta, 254: column.meta}.get(
        code, 255 if column.meta == 1 else 70_000 if column.meta > 2 else 3000
    )
    content = random.randbytes(random.choice([0, 1, min(longest, 300), random.randint(0, longest)])) or b""
    content = random.choice([content, content[:-3] + b"\n\0\0"[: len(content)]])
    return content, lenenc(content)


def _decimal(digits: int, scale: int, random: Random) -> bytes:
    count = random.choice([digits, random.randint(0, digits)])
    text = str(random.choice([0, 10**count - 1, random.randrange(10**count)])).rjust(scale + 1, "0")
    text = f"{text[: len(text) - scale]}.{text[len(text) - scale :]}" if scale else text
    return (random.choice(["", "-"]) + text).encode()


def _moment(code: int, fraction: int, random: Random) -> tuple[bytes, bytes]:
    zero = random.random() < 0.2
    years = (1970, 2037) if code == 17 else (0, 9999)
    year = 0 if zero else random.choice([years[0], years[1], random.randint(*years)])
    lowest = 0 if code != 17 else 1
    month, day = (0, 0) if zero else (random.randint(lowest, 12), random.randint(lowest, 28))
    hour, minute, second = (0, 0, 0) if zero else (random.randint(0, 23), random.randint(0, 59), random.randint(0, 59))
    micros = 0 if zero else random.randrange(10**fraction) * 10 ** (6 - fraction)
    text = b"%04d-%02d-%02d" % (year, month, day)
    content = struct.pack("<HBB", year, month, day)
    if code == 10:
        return text, lenenc(content if any((year, month, day)) else b"")
    text += b" %02d:%02d:%02d" % (hour, minute, second) + _fraction(micros, fraction)
    if micros:
        content += struct.pack("<BBBI", hour, minute, second, micros)
    elif hour or minute or second:
        content += bytes([hour, minute, second])
    elif not any((year, month, day)):
        content = b""
    return text, lenenc(content)


def _time(fraction: int, random: Random) -> tuple[bytes, bytes]:
    hours, minute, second = (
        random.choice([0, 838, random.randint(0, 838)]),
        random.randint(0, 59),
        random.randint(0, 59),
    )
    micros = random.randrange(10**fraction) * 10 ** (6 - fraction)
    if random.random() < 0.2:
        hours = minute = second = micros = 0
    negative = random.random() < 0.5 and any((hours, minute, second, micros))
    text = (b"-" if negative else b"") + b"%02d:%02d:%02d" % (hours, minute, second) + _fraction(micros, fraction)
    content = struct.pack("<BIBBB", negative, hours // 24, hours % 24, minute, second)
    if micros:
        content += struct.pack("<I", micros)
    return text, lenenc(content if any((hours, minute, second, micros)) else b"")


def _fraction(micros: int, digits: int) -> bytes:
    return b"." + (b"%06d" % micros)[:digits] if digits else b""
