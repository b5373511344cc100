"""Text of other character sets as Python's codecs have it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog.kernels import charset_text
from spark_jobs.binlog.kernels.addresses import address_of


@pytest.mark.parametrize("point", [0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF])
def test_a_code_point_in_utf8(point: int) -> None:
    out = np.zeros(4, np.uint8)
    size = charset_text._put_character(address_of(out), np.uint32(point))
    assert out[:size].tobytes() == chr(point).encode(errors="surrogatepass")


def converted(texts: list[bytes], width: int, *, big_endian: bool, surrogates: bool) -> list[bytes | None]:
    content = np.frombuffer(b"".join(texts) or b"x", np.uint8)
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    new_offsets, bad = np.zeros(len(texts) + 1, np.int32), np.zeros(len(texts), np.uint8)
    out = np.zeros(3 * len(content) + 8, np.uint8)
    count = charset_text.map_units(
        offsets, address_of(content), width, big_endian, surrogates, new_offsets, address_of(out), bad
    )
    assert count == bad.sum()
    return [None if bad[row] else out[new_offsets[row] : new_offsets[row + 1]].tobytes() for row in range(len(texts))]


@pytest.mark.parametrize("codec, width", [("utf-16-be", 2), ("utf-16-le", 2), ("utf-32-be", 4)])
@given(texts=st.lists(st.text(max_size=9), max_size=5))
def test_units(codec: str, width: int, texts: list[str]) -> None:
    actual = converted([text.encode(codec) for text in texts], width, big_endian=codec != "utf-16-le", surrogates=True)
    assert actual == [text.encode() for text in texts]


@pytest.mark.parametrize(
    "wire, width, surrogates",
    [("00", 2, True), ("d800", 2, True), ("dc00", 2, True), ("d83dde00", 2, False), ("00110000", 4, False)],
)
def test_units_that_are_no_character(wire: str, width: int, surrogates: bool) -> None:
    texts = [b"\0a".rjust(width, b"\0"), bytes.fromhex(wire)]
    assert converted(texts, width, big_endian=True, surrogates=surrogates) == [b"a", None]
