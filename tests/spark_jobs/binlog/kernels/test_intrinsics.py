"""Loads, stores and copies by address, alike compiled and checked."""

from typing import Any

import numpy as np
import pytest

from spark_jobs.binlog.kernels import intrinsics
from spark_jobs.binlog.kernels.addresses import address_of
from spark_jobs.binlog.kernels.compile import part
from tests.binlogs.kernel_bytes import address

load8, load16, load32, load64 = intrinsics.load8, intrinsics.load16, intrinsics.load32, intrinsics.load64
load16_big, load32_big, load64_big = intrinsics.load16_big, intrinsics.load32_big, intrinsics.load64_big
store8, store16, store32, store64 = intrinsics.store8, intrinsics.store16, intrinsics.store32, intrinsics.store64
load64_at, store64_at = intrinsics.load64_at, intrinsics.store64_at
memmove, trailing_zeros, bit_count, without = (
    intrinsics.memmove,
    intrinsics.trailing_zeros,
    intrinsics.bit_count,
    intrinsics.without,
)
WIRE = bytes(range(0x81, 0x91))


@part
def _loads(offset: int) -> Any:
    return load8(offset), load16(offset), load32(offset), load64(offset), intrinsics.load48(offset)


@part
def _big_loads(offset: int) -> Any:
    return load16_big(offset), load32_big(offset), load64_big(offset)


@part
def _stores(offset: int, value: Any) -> None:
    store8(offset, np.uint8(value))
    store16(offset + 1, np.uint16(value))
    store32(offset + 3, np.uint32(value))
    store64(offset + 7, value)
    store64_at(offset + 15, 1, load64_at(offset + 7, 0))


@part
def _moved(target: int, source: int, count: int) -> None:
    memmove(target, source, count)


@part
def _bits(word: Any, offset: int) -> Any:
    return trailing_zeros(word), bit_count(np.uint8(word)), without(offset, word)


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_loads_need_no_alignment(shift: int) -> None:
    offset, _owner = address(WIRE)
    wire = WIRE[shift:]
    assert _loads(offset + shift) == tuple(int.from_bytes(wire[:size], "little") for size in (1, 2, 4, 8, 6))
    assert _big_loads(offset + shift) == tuple(int.from_bytes(wire[:size], "big") for size in (2, 4, 8))


def test_stores() -> None:
    out = np.zeros(40, np.uint8)
    number = 0x0102030405060708
    _stores(address_of(out), np.uint64(number))
    wire = number.to_bytes(8, "little")
    assert out.tobytes() == wire[:1] + wire[:2] + wire[:4] + wire + bytes(8) + wire + bytes(9)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 64, 255, 256, 257, 288, 600])
def test_text_is_copied_whole(length: int) -> None:
    content = np.random.default_rng(length).bytes(length + 32)
    offset, _owner = address(content)
    out = np.zeros(length + 40, np.uint8)
    intrinsics.copy_text(address_of(out), offset, length)
    assert out[:length].tobytes() == content[:length]
    assert out[length + 32 :].tobytes() == bytes(8)


def test_memmove_takes_bytes_that_overlap() -> None:
    out = np.arange(100, dtype=np.uint8)
    start = address_of(out)
    _moved(start + 10, start, 80)
    assert out.tolist() == [*range(10), *range(80), *range(90, 100)]


@pytest.mark.parametrize("bit", [0, 1, 5, 7])
def test_bits(bit: int) -> None:
    words = np.array([1 << k for k in range(8)], np.uint64)
    assert _bits(np.uint64(1 << bit), address_of(words)) == (bit, 1, 0xFF & ~(1 << bit))
