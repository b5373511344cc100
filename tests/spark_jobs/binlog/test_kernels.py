"""The scan's kernels one by one: CRC32, words of a QUERY, variable-length integers, the table of known maps."""

import os
import subprocess
import sys
import zlib
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir

from spark_jobs.binlog import kernels
from tests.segment_spec import varlen


def address(content: bytes) -> tuple[int, np.ndarray]:
    """Where a copy of the bytes lies, and what keeps it there. Bytes that must not be read stand around it."""
    array = np.frombuffer(b"\xaa" * 32 + content + b"\x55" * 32, np.uint8)
    return kernels.address_of(array) + 32, array


@given(content=st.binary(max_size=400), before=st.integers(0, 100))
def test_crc32(content: bytes, before: int) -> None:
    place, _kept = address(content)
    rest = content[before:]
    if len(content) >= before:
        assert kernels._crc32(place + before, len(rest), before) == zlib.crc32(rest)


@pytest.mark.parametrize("count", [*range(300), 4096, 65537])
def test_crc32_of_long_runs(count: int) -> None:
    content = np.random.default_rng(count).bytes(64 + count)
    place, _kept = address(content)
    for before in (0, 64):
        assert kernels._crc32(place + before, count, before) == zlib.crc32(content[before : before + count])


def joined(events: list[bytes]) -> int:
    """The CRC32 of events whose checksums, their last four bytes, are joined."""
    return zlib.crc32(
        b"".join(
            event[:-4] + (int.from_bytes(event[-4:], "little") ^ kernels.JOINT).to_bytes(4, "little")
            for event in events
        )
    )


def with_checksum(content: bytes) -> bytes:
    return content + zlib.crc32(content).to_bytes(4, "little")


EVENTS = st.lists(st.binary(min_size=19, max_size=80).map(with_checksum), min_size=1, max_size=20)


@given(events=EVENTS, data=st.data())
def test_joined_checksums_tell_what_the_events_own_one_tells(events: list[bytes], data: st.DataObject) -> None:
    """Of one damaged event, whatever of it is damaged."""
    assert joined(events) == 0
    place = data.draw(st.integers(0, len(events) - 1))
    event = data.draw(st.binary(min_size=len(events[place]), max_size=len(events[place])))
    assert (joined([*events[:place], event, *events[place + 1 :]]) == 0) == (with_checksum(event[:-4]) == event)


@given(events=EVENTS, bit=st.integers(0, 19 * 8 - 1), more=st.integers(0, 255))
def test_the_same_bits_wrong_in_every_event_do_not_cancel(events: list[bytes], bit: int, more: int) -> None:
    wrong = bytearray(19)
    wrong[bit // 8] |= 1 << bit % 8
    wrong[-1] ^= more
    damaged = [bytes(map(int.__xor__, event, wrong.ljust(len(event), b"\0"))) for event in events]
    assert joined(damaged) != 0 or damaged == events


def test_events_that_are_missing_or_cut_elsewhere_do_not_join() -> None:
    events = [with_checksum(bytes([k]) * (20 + k)) for k in range(9)]
    assert joined(events[2:7]) == 0
    assert joined([events[0], events[1] + events[2], *events[3:]]) != 0
    assert joined([events[0], events[1][:-1], events[1][-1:] + events[2], *events[3:]]) != 0


@given(content=st.binary(max_size=200), state=st.integers(0, 0xFFFFFFFF))
def test_the_tables_of_crc32(content: bytes, state: int) -> None:
    """They serve processors without PCLMULQDQ, and the first event of a buffer."""
    place, _kept = address(content)
    slow = kernels._crc_rest(place, len(content), np.uint32(state))
    assert slow ^ 0xFFFFFFFF == zlib.crc32(content, state ^ 0xFFFFFFFF)


def in_halves(builder: Any, left: Any, right: Any, halves: int) -> Any:
    """Products of polynomials by vectors half as large, for a processor that has none so large."""
    count = left.type.count
    lower, upper = ([*range(k, k + count // 2)] for k in (0, count // 2))
    parts = [ir.Constant(ir.VectorType(ir.IntType(32), count // 2), part) for part in (lower, upper)]

    def half(vector: Any, part: Any) -> Any:
        return builder.shuffle_vector(vector, vector, part)

    products = [kernels._times(builder, half(left, part), half(right, part), halves) for part in parts]
    whole = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(count)))
    return builder.shuffle_vector(*products, whole)


@pytest.mark.skipif(not kernels.HAS_CLMUL, reason="this processor does not multiply polynomials")
@pytest.mark.parametrize("size", [16, 32, 64])
def test_crc32_folded_by_vectors_of_each_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this processor does without, because it has larger ones or none so large, too."""
    largest = 8 if kernels.HAS_WIDE_CLMUL else 4 if kernels.HAS_PAIR_CLMUL else 2
    times = kernels._times

    def divided(builder: Any, left: Any, right: Any, halves: int) -> Any:
        way = in_halves if left.type.count > largest else times
        return way(builder, left, right, halves)

    monkeypatch.setattr(kernels, "_times", divided)
    fold, fold_on, fold_long = kernels._folding(size)
    before, many = np.uint32(7), kernels._BLOCKS * 64

    @numba.njit
    def states(address: int, count: int, blocks: int, long: int) -> Any:
        return fold(address, count), fold_on(before, address, blocks), fold_long(before, address, long)

    for count in [*range(4, 500), 4096, 65537]:
        content = np.random.default_rng(count).bytes(64 + count + many)
        place, _kept = address(content)
        counts = count, count + 63 & -64, count + many - 1 & -many
        expected = [zlib.crc32(content[64:][:size], begun) for size, begun in zip(counts, (0, ~7, ~7), strict=True)]
        assert [state ^ 0xFFFFFFFF for state in states(place + 64, *counts)] == expected


AT_THE_EDGE = """
import ctypes, mmap, zlib
from spark_jobs.binlog import kernels
PAGE = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * PAGE)
start = kernels.address_of(kernels.np.frombuffer(memory, kernels.np.uint8)) + PAGE
content = bytes(k * 7 % 251 for k in range(PAGE))
memory[PAGE : 2 * PAGE] = content
for edge in (start - PAGE, start + PAGE):
    assert ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(edge), PAGE, 0) == 0
for before in (*range(70), 1000):
    for count in (*range(200), 1000, PAGE - before):
        first, last = content[before : before + count], content[PAGE - count :]
        assert kernels._crc32(start + before, count, before) == zlib.crc32(first)
        assert kernels._crc32(start + PAGE - count, count, PAGE - count) == zlib.crc32(last)
"""


@pytest.mark.skipif(kernels.CHECKED, reason="nothing is compiled where kernels run as plain Python")
def test_crc32_reads_nothing_but_what_it_may() -> None:
    """On a page between two that nobody may read: one byte too far would end the process."""
    said = subprocess.run([sys.executable, "-c", AT_THE_EDGE], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")


ELSEWHERE = """
import zlib
from itertools import product
from typing import Any
from spark_jobs.binlog import kernels
content = kernels.np.frombuffer(bytes(range(200)), kernels.np.uint8)
right = kernels._crc32(kernels.address_of(content), 200, 0) == zlib.crc32(content)
print(kernels.HAS_CLMUL, kernels.HAS_SHUFFLE, right)
"""


@pytest.mark.skipif(kernels.CHECKED, reason="nothing is compiled where kernels run as plain Python")
def test_numba_may_be_told_for_which_processor_to_compile() -> None:
    """With instructions that this one has and the other has not, LLVM would end the process."""
    environment = os.environ | {"NUMBA_CPU_NAME": "generic"}
    command = [sys.executable, "-c", ELSEWHERE]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False", "True"]


@pytest.mark.parametrize(
    "text, found",
    [
        ("BEGIN", kernels.Q_BEGIN),
        ("begin", kernels.Q_BEGIN),
        ("BEGIN ", kernels.Q_OTHER),
        ("BEGIN;", kernels.Q_OTHER),
        ("COMMIT", kernels.Q_COMMIT),
        ("COMMITS", kernels.Q_OTHER),
        ("ROLLBACK", kernels.Q_ROLLBACK),
        ("ROLLBACK TO `s`", kernels.Q_ROLLBACK_TO),
        ("ROLLBACK TO", kernels.Q_OTHER),
        ("ROLLBACKS TO `s`", kernels.Q_OTHER),
        ("SAVEPOINT `s`", kernels.Q_SAVEPOINT),
        ("RELEASE SAVEPOINT `s`", kernels.Q_SAVEPOINT),
        ("XA START X'61',X'',1", kernels.Q_XA_START),
        ("XA BEGIN X'61',X'',1", kernels.Q_XA_START),
        ("XA END X'61',X'',1", kernels.Q_XA_END),
        ("XA COMMIT X'61',X'',1", kernels.Q_XA),
        ("XA ROLLBACK X'61',X'',1", kernels.Q_XA),
        ("XA ", kernels.Q_OTHER),
        ("XANTHIPPE", kernels.Q_OTHER),
        ("CREATE TABLE BEGIN (id INT)", kernels.Q_OTHER),
        ("", kernels.Q_OTHER),
        ("é", kernels.Q_OTHER),
    ],
)
def test_query_class(text: str, found: int) -> None:
    place, _kept = address(text.encode())
    assert kernels.query_class(place, len(text.encode())) == found


@given(number=st.integers(0, 2**64 - 1))
def test_varlen(number: int) -> None:
    content = varlen(number)
    place, _kept = address(content)
    assert kernels._varlen(place, place + len(content)) == (number, place + len(content))
    for length in range(len(content)):
        assert kernels._varlen(place, place + length)[1] == -1


@pytest.mark.parametrize("content, number", [("fbff07", 65535), ("00", 0), ("fe", 127), ("0102", 128)])
def test_varlen_examples(content: str, number: int) -> None:
    place, _kept = address(bytes.fromhex(content))
    assert kernels._varlen(place, place + 9)[0] == number


def test_body_hash_tells_lengths_apart() -> None:
    place, _kept = address(bytes(64))
    assert len({kernels.body_hash(place, count) for count in range(64)}) == 64


WHOLE = [b"a", b"plain text", "ä¿".encode(), "\u0800日\ud7ff\ue000\uffff".encode(), "\U00010000😀\U0010ffff".encode()]
BROKEN = [
    b"\x80",
    b"\xbf",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xc3",
    b"\xe0\x9f\xbf",
    b"\xe6\x97",
    b"\xed\xa0\x80",
    b"\xe6\x41\x41",
]
BROKEN += [
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xc3\x41",
    b"\xe6\x97\xc3",
]


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


TEXT = st.one_of(
    st.lists(st.sampled_from(WHOLE), max_size=6).map(b"".join),
    st.lists(st.sampled_from(WHOLE + BROKEN), max_size=4).map(b"".join),
    st.binary(max_size=12),
    st.integers(4000, 8300).map(lambda size: b"x" * size),
)


@given(texts=st.lists(TEXT, max_size=8))
def test_text_is_utf8_where_python_says_so(texts: list[bytes]) -> None:
    content = np.frombuffer(b"".join(texts) or b"x", np.uint8)
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    bad = np.zeros(len(texts), np.uint8)
    found = kernels.invalid_utf8(offsets, kernels.address_of(content), bad)
    assert bad.tolist() == [not is_utf8(text) for text in texts]
    assert found == sum(bad)


@pytest.mark.skipif(not kernels.HAS_SHUFFLE, reason="there are no blocks")
@pytest.mark.parametrize("size", [16, 32, 64])
def test_blocks_of_every_size_are_judged_alike(size: int) -> None:
    """This processor's instructions reach up to UTF8_BLOCK; others use smaller ones."""
    if size > kernels.UTF8_BLOCK:
        pytest.skip(f"this processor has no blocks of {size} bytes")
    blocks = kernels._utf8_blocks(size)
    judged: Any = numba.njit(lambda place, count: blocks(place, count))  # noqa: PLW0108 - an intrinsic is no function
    for piece, before in product(WHOLE + BROKEN, range(2 * size)):
        text = b"x" * before + piece + b"y" * (3 * size - before - len(piece))
        content = np.frombuffer(text, np.uint8)
        assert (judged(kernels.address_of(content), 3) == 0) == is_utf8(text), text


@pytest.mark.parametrize("piece", WHOLE + BROKEN)
def test_each_piece_at_any_place_in_text(piece: bytes) -> None:
    long = kernels._LONG
    befores, behinds = (*range(9), *range(long - 4, long + 17)), (*range(9), long + 6)
    texts = [b"x" * before + piece + b"y" * behind for before in befores for behind in behinds]
    for text in texts:
        bad = np.zeros(1, np.uint8)
        content = np.frombuffer(text, np.uint8)
        kernels.invalid_utf8(np.array([0, len(text)], np.int32), kernels.address_of(content), bad)
        assert bad[0] == (not is_utf8(text)), text


@pytest.mark.parametrize("beside", [-3, -2, -1, 0, 1])
def test_each_pair_of_bytes_in_long_text(beside: int) -> None:
    """Where a block ends between them, and where none does; what follows may complete a character of three or four."""
    before = kernels._LONG + beside
    pairs = [bytes([first, second]) for first in range(0x7F, 256) for second in range(0x7F, 256)]
    for behind in (b"", b"y", b"\x80", b"\x80\x80", b"\x80y"):
        texts = [b"x" * before + pair + behind for pair in pairs]
        bad = np.zeros(len(texts), np.uint8)
        content = np.frombuffer(b"".join(texts), np.uint8)
        offsets = np.arange(0, len(content) + 1, len(texts[0]), dtype=np.int32)
        kernels.invalid_utf8(offsets, kernels.address_of(content), bad)
        assert bad.tolist() == [not is_utf8(text) for text in texts]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4095, 4096, 4097, 8191, 8192, 9000])
def test_text_is_ascii_where_no_byte_is_high(size: int) -> None:
    text = np.full(size, 0x7F, np.uint8)
    assert kernels.is_ascii(kernels.address_of(text), size)
    for high in {*range(0, size, 61), *range(4080, min(size, 4112)), *range(max(size - 16, 0), size)}:
        text[high] = 0x80
        assert not kernels.is_ascii(kernels.address_of(text), size)
        text[high] = 0x7F
