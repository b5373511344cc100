"""The loop that takes a dump apart, against its plain twin: whatever comes, in pieces that end anywhere."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.kernels import dump_packets
from spark_jobs.binlog.kernels.addresses import address_of
from tests.binlogs.dump_stream import ARTIFICIAL, LONGEST, DumpResult, event, fake_rotate, packets, take
from tests.fix_hypothesis import examples

WHY = "more full stopped end idle rotated format refused sequence hole again strange".split()  # noqa: SIM905 - shorter
WHOLE = ("end", "idle", "rotated", "format", "refused")


def unpacked(wire: bytes, position: int, stop: int, cuts: Sequence[int] = (), room: int = 1 << 12) -> DumpResult:
    """What the kernel makes of the bytes, given piece by piece, into a target that is emptied when it is full."""
    state = np.zeros(dump_packets.D_CELLS, np.int64)
    state[dump_packets.D_POSITION], state[dump_packets.D_STOP], state[dump_packets.D_SEQUENCE] = position, stop, 1
    result, rest = DumpResult(position=position), b""
    for piece in [*_pieces(wire, cuts), b""]:
        rest += piece
        while True:
            source = np.frombuffer(rest + bytes(dump_packets.DUMP_PADDING), np.uint8)
            target = np.zeros(room + dump_packets.DUMP_PADDING, np.uint8)
            outcome, source_bytes, target_bytes = dump_packets.unpack_dump(
                address_of(source), len(rest), address_of(target), room, state
            )
            result.content += target[:target_bytes].tobytes()
            behind, rest = rest[:source_bytes], rest[source_bytes:]
            result.outcome = WHY[outcome]
            if result.outcome in WHOLE:
                result.packets.append((result.outcome, behind[len(behind) - state[dump_packets.D_BEHIND] :]))
            if result.outcome not in {"full", "rotated", "format"} or state[dump_packets.D_POSITION] >= stop:
                break
        if result.outcome != "more":
            break
    result.position, result.boundary = int(state[dump_packets.D_POSITION]), int(state[dump_packets.D_BOUNDARY])
    result.events = int(state[dump_packets.D_EVENTS])
    if result.position >= stop:
        result.outcome = "stopped"
    return result


def _pieces(wire: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    offsets = sorted({0, len(wire), *(cut % (len(wire) + 1) for cut in cuts)})
    for begin, end in pairwise(offsets):
        yield wire[begin:end]


FORMAT = event(15, b"f" * 100, 123)
kinds = st.sampled_from(["event"] * 8 + ["made up", "no position", "encryption"])
ends = st.sampled_from(
    ["end", "idle", "refused", "hole", "again", "format", "sequence", "status", "short", "length", "rotated", "none"]
)


def stream(position: int, events: Sequence[tuple[str, int]], last: str) -> tuple[bytes, int]:
    """A dump from there: the wire, and the offset that its events lead to."""
    payloads = [b"\0" + fake_rotate("bin.000001", position), b"\0" + FORMAT]
    position = 123 if position == 4 else position
    for kind, size in events:
        body = bytes([size & 0xFF]) * size
        if kind == "made up":
            payloads.append(b"\0" + event(163, body, 0, flags=ARTIFICIAL))
        elif kind == "encryption":
            payloads.append(b"\0" + event(164, body, 0))
        else:
            position += 19 + size
            payloads.append(b"\0" + event(2, body, 0 if kind == "no position" else position))
    ending = {
        "end": b"\xfe\0\0\2\0",
        "idle": b"\0" + event(27, b"bin.000001", position),
        "refused": b"\xff\xd4\x04#HY000could not",
        "hole": b"\0" + event(2, b"x", position + 21),
        "again": b"\0" + event(2, b"x", position),
        "format": b"\0" + FORMAT,
        "status": b"\1" + event(2, b"x", position + 20),
        "short": b"\0" + bytes(12),
        "length": b"\0" + event(2, b"x", position + 20) + b"y",
        "rotated": b"\0" + fake_rotate("bin.000002"),
    }
    wire = packets([*payloads, *([ending[last]] if last in ending else [])])
    if last == "sequence":
        wire += packets([b"\0" + event(2, b"x", position + 20)], len(payloads) + 2)
    return wire, position


@examples(150)
@given(
    start=st.sampled_from([4, 500, (1 << 32) - 40, 1 << 33]),
    events=st.lists(st.tuples(kinds, st.integers(0, 300)), max_size=12),
    last=ends,
    short=st.integers(0, 60),
    cuts=st.lists(st.integers(0, 1 << 16), max_size=20),
    room=st.integers(128, 512),
)
def test_it_takes_apart_what_its_twin_does(
    start: int, events: list[tuple[str, int]], last: str, short: int, cuts: list[int], room: int
) -> None:
    wire, end = stream(start, events, last)
    for stop in (end, end - short, end + 1000):
        if stop > start:
            assert unpacked(wire, start, stop, cuts, room) == take(wire, start, stop)


@examples(50)
@given(
    events=st.lists(st.tuples(kinds, st.integers(0, 60)), max_size=6),
    last=ends,
    length=st.integers(0, 1 << 16),
    damage=st.integers(0, 1 << 16),
    byte=st.integers(0, 255),
)
def test_damage_ends_as_its_twin_says(
    events: list[tuple[str, int]], last: str, length: int, damage: int, byte: int
) -> None:
    wire, end = stream(4, events, last)
    broken = bytearray(wire[: length % (len(wire) + 1)])
    if broken:
        broken[damage % len(broken)] = byte
    assert unpacked(bytes(broken), 4, end + 1000, [damage]) == take(bytes(broken), 4, end + 1000)


@pytest.mark.parametrize("length", [LONGEST - 2, LONGEST - 1, LONGEST, 2 * LONGEST - 1, 2 * LONGEST + 5])
def test_events_of_several_packets(length: int) -> None:
    """With the byte before it an event of 16 MiB - 2 fills a packet, and an empty one follows."""
    big = event(2, np.random.default_rng(1).bytes(length - 19), 123 + length)
    later = event(2, b"x", 143 + length)
    wire = packets([b"\0" + event for event in (fake_rotate("bin.000001"), FORMAT, big, later)])
    wire += packets([b"\xfe\0\0\2\0"], 9 if length == 2 * LONGEST + 5 else 99)
    result = unpacked(wire, 4, length + 143, [1000, LONGEST + 3, LONGEST + 900], 1 << 22)
    assert (result.outcome, result.position, result.boundary, result.events) == (
        "stopped",
        length + 143,
        length + 143,
        3,
    )
    assert result.content == FORMAT + big + later


@pytest.mark.parametrize(
    "size, sequence, outcome",
    [
        (LONGEST, 4, "strange"),
        (700, 4, "strange"),
        (0, 4, "strange"),
        (520, 4, "more"),
        (520, 5, "sequence"),
        (520, 3, "sequence"),
    ],
)
def test_further_packets_follow_and_are_as_long_as_their_event(size: int, sequence: int, outcome: str) -> None:
    big = event(2, bytes(LONGEST + 500), 0)
    wire = packets([b"\0" + fake_rotate("bin.000001"), b"\0" + FORMAT, (b"\0" + big)[:LONGEST]])
    wire = wire[:-4] + packets([bytes(size)], sequence)  # in place of the empty one
    assert unpacked(wire, 4, 1 << 30, [], 1 << 25).outcome == outcome
