"""The scan's kernels one by one: CRC32, words of a QUERY, variable-length integers, the table of known maps."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.binlog import kernels
from tests.segment_spec import varlen


def address(content: bytes) -> tuple[int, np.ndarray]:
    """Where a copy of the bytes lies, and what keeps it there. Bytes that must not be read stand around it."""
    array = np.frombuffer(b"\xaa" * 32 + content + b"\x55" * 32, np.uint8)
    return kernels.address_of(array) + 32, array


@given(content=st.binary(max_size=400), skip=st.integers(0, 15))
def test_crc32(content: bytes, skip: int) -> None:
    place, _kept = address(content)
    rest = content[skip:]
    if len(content) >= skip:
        assert kernels._crc32(place + skip, len(rest)) == zlib.crc32(rest)


@pytest.mark.parametrize("count", [63, 64, 65, 127, 128, 4096, 65537])
def test_crc32_of_long_runs(count: int) -> None:
    content = np.random.default_rng(count).bytes(count)
    place, _kept = address(content)
    assert kernels._crc32(place, count) == zlib.crc32(content)


@given(content=st.binary(max_size=200), state=st.integers(0, 0xFFFFFFFF))
def test_both_ways_of_crc32_agree(content: bytes, state: int) -> None:
    """The tables serve processors without PCLMULQDQ."""
    place, _kept = address(content)
    slow = kernels._crc_rest(place, len(content), np.uint32(state))
    assert slow ^ 0xFFFFFFFF == zlib.crc32(content, state ^ 0xFFFFFFFF)
    if kernels.HAS_CLMUL:
        assert kernels._crc_folded(place, len(content), np.uint32(state)) == slow


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
