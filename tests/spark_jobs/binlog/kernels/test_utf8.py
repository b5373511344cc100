"""Text is UTF-8 or ASCII where Python says so, whatever its length and wherever its blocks end."""

from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.kernels import utf8
from spark_jobs.binlog.kernels.addresses import address_of

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
    count = utf8.invalid_utf8(offsets, address_of(content), bad)
    assert bad.tolist() == [not is_utf8(text) for text in texts]
    assert count == sum(bad)


@pytest.mark.skipif(not utf8.HAS_SHUFFLE, reason="there are no blocks")
@pytest.mark.parametrize("size", [16, 32, 64])
def test_blocks_of_every_size_are_judged_alike(size: int) -> None:
    """This processor's instructions reach up to UTF8_BLOCK; others use smaller ones."""
    if size > utf8.UTF8_BLOCK:
        pytest.skip(f"this processor has no blocks of {size} bytes")
    blocks = utf8._utf8_blocks(size)
    judged: Any = numba.njit(lambda offset, count: blocks(offset, count))  # noqa: PLW0108 - an intrinsic is no function
    for piece, before in product(WHOLE + BROKEN, range(2 * size)):
        text = b"x" * before + piece + b"y" * (3 * size - before - len(piece))
        content = np.frombuffer(text, np.uint8)
        assert (judged(address_of(content), 3) == 0) == is_utf8(text), text


@pytest.mark.parametrize("piece", WHOLE + BROKEN)
def test_each_piece_at_any_place_in_text(piece: bytes) -> None:
    long = utf8._LONG
    befores, behinds = (*range(9), *range(long - 4, long + 17)), (*range(9), long + 6)
    texts = [b"x" * before + piece + b"y" * behind for before in befores for behind in behinds]
    for text in texts:
        bad = np.zeros(1, np.uint8)
        content = np.frombuffer(text, np.uint8)
        utf8.invalid_utf8(np.array([0, len(text)], np.int32), address_of(content), bad)
        assert bad[0] == (not is_utf8(text)), text


@pytest.mark.parametrize("padding", [-3, -2, -1, 0, 1])
def test_each_pair_of_bytes_in_long_text(padding: int) -> None:
    """Position where a block ends between them, and where none does.

    What follows may complete a character of three or four.
    """
    before = utf8._LONG + padding
    pairs = [bytes([first, second]) for first in range(0x7F, 256) for second in range(0x7F, 256)]
    for behind in (b"", b"y", b"\x80", b"\x80\x80", b"\x80y"):
        texts = [b"x" * before + pair + behind for pair in pairs]
        bad = np.zeros(len(texts), np.uint8)
        content = np.frombuffer(b"".join(texts), np.uint8)
        offsets = np.arange(0, len(content) + 1, len(texts[0]), dtype=np.int32)
        utf8.invalid_utf8(offsets, address_of(content), bad)
        assert bad.tolist() == [not is_utf8(text) for text in texts]


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 4095, 4096, 4097, 8191, 8192, 9000])
def test_text_is_ascii_where_no_byte_is_high(size: int) -> None:
    text = np.full(size, 0x7F, np.uint8)
    assert utf8.is_ascii(address_of(text), size)
    for high in {*range(0, size, 61), *range(4080, min(size, 4112)), *range(max(size - 16, 0), size)}:
        text[high] = 0x80
        assert not utf8.is_ascii(address_of(text), size)
        text[high] = 0x7F
