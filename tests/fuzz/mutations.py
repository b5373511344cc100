"""Damage that gets past the checksum: an event is taken out, changed, put back with its length and CRC32 made right.

Blind changes of a file end at its first checksum. These keep the frame whole most of the time, so that what is
damaged is what an event says.

Put here: changes to bytes. Not here: what must hold of the result (oracle.py).
"""

import random
import struct
import zlib
from collections.abc import Callable

MAGIC = b"\xfebin"
HEADER = 19
_FORMAT, _TABLE_MAP = 15, 19
_TYPES = (2, 3, 4, 15, 16, 19, 23, 24, 25, 29, 30, 31, 32, 33, 34, 35, 38, 42, 160, 162, 163, 166, 18, 40, 39, 165)
_BYTES = (0, 1, 2, 3, 4, 7, 8, 0x10, 0x7F, 0x80, 0xF5, 0xF6, 0xF7, 0xF8, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_NUMBERS = (0, 1, 2, 250, 251, 252, 255, 256, 4095, 4096, 4097, 65535, 1 << 16, 1 << 24, (1 << 31) - 1, (1 << 32) - 1)

Change = Callable[[bytes, int], bytes]
"""Any changed form of some bytes, of at most so many: the fuzzing engine's own mutation."""


def split(content: bytes) -> list[bytes]:
    """The events of a file, as far as their lengths lead; what is left over is the last one."""
    events, offset = [], len(MAGIC)
    while offset < len(content):
        length = int.from_bytes(content[offset + 9 : offset + 13], "little")
        length = length if HEADER <= length <= len(content) - offset else len(content) - offset
        events.append(content[offset : offset + length])
        offset += length
    return events


def sealed(event: bytes, *, checksum: bool) -> bytes:
    """The event with its length right, and its checksum where there is one."""
    if len(event) < HEADER:
        return event
    bare = event[:9] + struct.pack("<I", len(event)) + event[13:]
    if not checksum or len(bare) < HEADER + 4:
        return bare
    closed = bare[:17] + bytes([bare[17] & 0xFE]) + bare[18:-4] if bare[4] == _FORMAT else bare[:-4]
    return bare[:-4] + struct.pack("<I", zlib.crc32(closed))


def joined(events: list[bytes], *, seal: bool = True) -> bytes:
    """A file of these events."""
    head = next((event for event in events if len(event) > 30 and event[4] == _FORMAT), b"")
    checksum = head[-5:-4] == b"\1"
    if not seal:
        return MAGIC + b"".join(events)
    return MAGIC + b"".join(sealed(event, checksum=checksum or event[4:5] == bytes([_FORMAT])) for event in events)


def _overwritten(body: bytearray, chance: random.Random) -> None:
    body[chance.randrange(len(body))] = chance.choice((*_BYTES, chance.randrange(256)))


def _flipped(body: bytearray, chance: random.Random) -> None:
    body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)


def _numbered(body: bytearray, chance: random.Random) -> None:
    size = chance.choice((2, 3, 4, 8))
    offset = chance.randrange(len(body))
    number = chance.choice(_NUMBERS) + chance.choice((0, 0, 1, -1))
    body[offset : offset + size] = (number % (1 << 8 * size)).to_bytes(size, "little")


def _nudged(body: bytearray, chance: random.Random) -> None:
    offset = chance.randrange(len(body))
    body[offset] = (body[offset] + chance.choice((-3, -2, -1, 1, 2, 3))) & 255


def _removed(body: bytearray, chance: random.Random) -> None:
    offset = chance.randrange(len(body))
    del body[offset : offset + chance.choice((1, 1, 2, 4, 8, 40))]


def _added(body: bytearray, chance: random.Random) -> None:
    offset = chance.randrange(len(body) + 1)
    count = chance.choice((1, 1, 2, 4, 8, 40, 300))
    body[offset:offset] = bytes([chance.choice(_BYTES)]) * count


def _doubled(body: bytearray, chance: random.Random) -> None:
    offset = chance.randrange(len(body))
    run = body[offset : offset + chance.choice((1, 2, 4, 8, 16, 64))]
    at = chance.randrange(len(body) + 1)
    body[at:at] = run


_CHANGES = (_overwritten, _overwritten, _flipped, _flipped, _numbered, _nudged, _nudged, _removed, _added, _doubled)


def changed(body: bytes, chance: random.Random, times: int = 3) -> bytes:
    """The bytes after a few changes."""
    out = bytearray(body)
    for _ in range(chance.randint(1, times)):
        if out:
            chance.choice(_CHANGES)(out, chance)
    return bytes(out)


def mutated_log(content: bytes, max_size: int, seed: int, change: Change) -> bytes:
    """A file like this one with something wrong, mostly inside one event and under a checksum that fits."""
    chance = random.Random(seed)
    events = split(content)
    if not events or chance.random() < 0.05:
        return change(content, max_size)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        _change_one(events, chance, max_size - len(content), change)
    log = joined(events, seal=chance.random() > 0.03)
    if chance.random() < 0.03:
        log = log[: chance.randrange(len(log) + 1)]
    return log[:max_size]


def _change_one(events: list[bytes], chance: random.Random, room: int, change: Change) -> None:
    k = _choose(events, chance)
    kind, event = chance.random(), events[k]
    footer = 4 if len(event) > HEADER + 4 else 0
    end = len(event) - footer
    if kind < 0.5:
        events[k] = event[:HEADER] + changed(event[HEADER:end], chance) + event[end:]
    elif kind < 0.75:
        body = event[HEADER:end]
        events[k] = event[:HEADER] + change(body, max(len(body) + min(room, 200), 1)) + event[end:]
    elif kind < 0.8:
        events[k] = changed(event[:HEADER], chance, 1) + event[HEADER:]
    elif kind < 0.84:
        events[k] = event[:4] + bytes([chance.choice(_TYPES)]) + event[5:]
    elif kind < 0.9:
        events.insert(chance.randrange(len(events) + 1), event)
    elif kind < 0.94 and len(events) > 1:
        del events[k]
    else:
        second = chance.randrange(len(events))
        events[k], events[second] = events[second], events[k]


def _choose(events: list[bytes], chance: random.Random) -> int:
    """Table maps and row events more often than what stands around them."""
    rich = [k for k, event in enumerate(events) if event[4:5] and (event[4] == _TABLE_MAP or 23 <= event[4] <= 42)]
    return chance.choice(rich) if rich and chance.random() < 0.8 else chance.randrange(len(events))


def mutated_document(content: bytes, max_size: int, seed: int, change: Change) -> bytes:
    """A document like this one with something wrong: mostly its types, counts, sizes and offsets."""
    chance = random.Random(seed)
    return (change(content, max_size) if chance.random() < 0.3 else changed(content or b"\0", chance, 4))[:max_size]
