"""What a server sends for a dump, made up: packets around events, and what a plain reader makes of them.

Put here: packets, and the plain twin of the kernel that takes them apart. Not here: events (segment_spec.py).
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

LONGEST = 0xFFFFFF
ARTIFICIAL = 0x20


def packets(payloads: Iterable[bytes], sequence: int = 1) -> bytes:
    """The payloads as packets, those of 16 MiB and more in several."""
    wire = []
    for payload in payloads:
        offset = 0
        while True:
            piece = payload[offset : offset + LONGEST]
            wire.append(struct.pack("<I", len(piece))[:3] + bytes([sequence & 0xFF]) + piece)
            sequence += 1
            offset += LONGEST
            if len(piece) < LONGEST:
                break
    return b"".join(wire)


def event(code: int, body: bytes, log_pos: int, *, flags: int = 0, second: int = 1) -> bytes:
    return struct.pack("<IBIIIH", second, code, 1, 19 + len(body), log_pos & 0xFFFFFFFF, flags) + body


def fake_rotate(file: str, offset: int = 4) -> bytes:
    return event(4, struct.pack("<Q", offset) + file.encode(), 0, flags=ARTIFICIAL, second=0)


@dataclass
class DumpResult:
    """What a dump came to: the file's bytes, why it ended, where it is, and what was looked at whole on the way."""

    content: bytes = b""
    outcome: str = "more"
    position: int = 4
    boundary: int = 0
    events: int = 0
    packets: list[tuple[str, bytes]] = field(default_factory=list)


def take(wire: bytes, position: int, stop: int) -> DumpResult:  # noqa: C901, PLR0911, PLR0912 - one case after the other
    """The plain twin of dump_packets.unpack_dump and of the loop around it: one packet after the other, no pieces."""
    result = DumpResult(position=position)
    offset, sequence, has_format = 0, 1, False
    verdict, is_whole = "", False
    while result.position < stop:
        payload, rest = b"", wire[offset:]
        first = True
        while True:
            head = rest[:4]
            if len(head) < 4:
                break
            length = int.from_bytes(head[:3], "little")
            status = rest[4:5]
            if first and not length:
                return _ended(result, "strange")
            if first and len(rest) < 4 + min(length, 20):
                return result
            if not (first and status == b"\xff") and head[3] != sequence & 0xFF:
                return _ended(result, "sequence")
            if not first:
                announced = int.from_bytes(payload[10:14], "little") + 1 - len(payload)
                if length > announced or (length < LONGEST and length != announced):
                    return _ended(result, "strange")
            sequence += 1
            payload += rest[4 : 4 + length]
            rest = rest[4 + length :]
            if first:
                is_whole = len(payload) == length
                verdict = _judged(payload, length, result.position, has_format)
                if verdict in {"sequence", "hole", "again", "strange"}:
                    return _ended(result, verdict)
                if verdict in {"end", "idle", "rotated", "format", "refused"} and length > 1 << 16:
                    return _ended(result, "strange")
            first = False
            if length < LONGEST or len(payload) % LONGEST:
                break
        if not payload:
            return result
        offset = len(wire) - len(rest)
        event_bytes = payload[1:]
        if verdict in {"end", "idle", "rotated", "format", "refused"}:
            if not is_whole:
                return result
            result.packets.append((verdict, payload))
            if verdict in {"end", "idle", "refused"}:
                return _ended(result, verdict)
            if verdict == "format":
                has_format = True
                if result.position == 4:
                    _keep(result, event_bytes, event_bytes, stop)
            continue
        if verdict == "keep":
            _keep(result, event_bytes, payload[1:], stop, int.from_bytes(payload[10:14], "little"))
        if len(payload) - 1 < int.from_bytes(payload[10:14], "little"):
            return result
    result.outcome = "stopped"
    return result


def _ended(result: DumpResult, reason: str) -> DumpResult:
    result.outcome = reason
    return result


def _keep(result: DumpResult, event_bytes: bytes, available: bytes, stop: int, length: int | None = None) -> None:
    count = min(len(available), stop - result.position)
    result.content += event_bytes[:count]
    result.position += count
    if count == (len(event_bytes) if length is None else length):
        result.boundary = result.position
        result.events += 1


def _judged(payload: bytes, length: int, position: int, has_format: bool) -> str:  # noqa: C901, PLR0911 - one a kind
    if payload[0] == 0xFF:
        return "refused"
    if payload[0] == 0xFE and length < 9:
        return "end"
    if payload[0] != 0 or length < 20:
        return "strange"
    second, code, _, size, log_pos, flags = struct.unpack_from("<IBIIIH", payload, 1)
    if (size != length - 1 and length < LONGEST) or size < length - 1:
        return "strange"
    if code == 15:
        return "strange" if has_format else "format"
    if code in {27, 41}:
        return "idle"
    if code == 4 and (flags & ARTIFICIAL or not second):
        return "rotated"
    if flags & ARTIFICIAL:
        return "leave"
    if not has_format:
        return "strange"
    if not log_pos:
        return "leave" if code == 164 else "keep"
    end = position + size & 0xFFFFFFFF
    if log_pos == end:
        return "keep"
    return "hole" if (log_pos - end) % (1 << 32) < 1 << 31 else "again"
