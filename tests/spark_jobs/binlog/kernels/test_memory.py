"""Checked memory holds what compiled kernels hold, and nothing outside of what was noted may be touched."""

import gc
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.binlog.kernels import memory

WIRE = bytes(range(0x81, 0x91))


def noted(content: bytes = WIRE) -> tuple[int, np.ndarray]:
    array = np.frombuffer(content, np.uint8).copy()
    return memory.note(array), array


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_loads(size: int) -> None:
    offset, _owner = noted()
    value = memory.load(size)(offset + 1)
    assert (int(value), value.nbytes) == (int.from_bytes(WIRE[1 : 1 + size], "little"), size)
    assert int(memory.load(size, big_endian=True)(offset + 1)) == int.from_bytes(WIRE[1 : 1 + size], "big")


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_stores_take_the_low_bytes(size: int) -> None:
    offset, array = noted(bytes(16))
    memory.store(size)(offset + 3, -2)
    assert array.tobytes() == bytes(3) + (2 ** (8 * size) - 2).to_bytes(size, "little") + bytes(13 - size)


def test_copy() -> None:
    offset, array = noted()
    memory.copy(offset + 4, offset, 8)
    assert array.tobytes() == WIRE[:4] + WIRE[:8] + WIRE[12:]
    memory.copy(0, 0, 0)


def test_crc32() -> None:
    offset, _owner = noted()
    assert memory.crc32(offset, 16, 0) == zlib.crc32(WIRE)
    with pytest.raises(memory.OutOfBounds):
        memory.crc32(offset, 17, 0)


def test_high64() -> None:
    assert memory.high64(np.uint64(2**63), np.uint64(6)) == 3


@pytest.mark.parametrize(
    "touch",
    [
        lambda offset: memory.load(1)(offset - 1),
        lambda offset: memory.load(1)(offset + 16),
        lambda offset: memory.load(8)(offset + 9),
        lambda offset: memory.store(2)(offset + 15, 0),
        lambda offset: memory.copy(offset, offset + 8, 9),
        lambda offset: memory.copy(offset + 8, offset, 9),
        lambda offset: memory.copy(offset, offset, -1),
    ],
)
def test_nothing_outside_is_touched(touch: Callable[[int], Any]) -> None:
    offset, array = noted()
    with pytest.raises(memory.OutOfBounds):
        touch(offset)
    assert array.tobytes() == WIRE


def test_what_is_gone_may_not_be_touched() -> None:
    offset, array = noted(bytes(4096))
    memory.touch(offset, 1)
    del array
    gc.collect()
    with pytest.raises(memory.OutOfBounds, match="load of 1 bytes"):
        memory.touch(offset, 1)


def test_what_is_read_only_is_not_written() -> None:
    offset = memory.note(owner := pa.py_buffer(WIRE))
    memory.touch(offset, len(owner))
    with pytest.raises(memory.OutOfBounds, match="store to 1 bytes"):
        memory.touch(offset, 1, write=True)


def test_many_may_be_touched() -> None:
    owners = [noted() for _ in range(600)]
    for offset, _ in owners:
        memory.touch(offset, len(WIRE))


def test_arrays_given_to_a_kernel_are_noted_and_numbers_typed() -> None:
    def kernel(array: np.ndarray, count: Any) -> Any:
        assert isinstance(count, np.int64)
        return memory.load(2)(array.ctypes.data + int(count))

    assert memory.checked(kernel)(np.frombuffer(WIRE, np.uint8), 2) == 0x8483


def test_arrays_in_a_tuple_are_noted_too() -> None:
    def kernel(arrays: tuple[Any, tuple[Any]]) -> Any:
        return [memory.load(1)(array.ctypes.data + array.nbytes - 1) for array in (arrays[0], arrays[1][0])]

    first, second = np.full(8, 7, np.uint8), np.full(8, 9, np.uint8)
    assert memory.checked(kernel)((first, (second,))) == [7, 9]


def test_an_index_beyond_an_array_is_out_of_bounds() -> None:
    with pytest.raises(memory.OutOfBounds, match="index 1"):
        memory.checked(lambda array: array[1])(np.zeros(1))


SCRIPT = """
import numpy, zlib
from spark_jobs.binlog.kernels import checksum, memory
from spark_jobs.binlog.kernels.addresses import CHECKED, address_of
content = numpy.frombuffer(bytes(range(200)), numpy.uint8)
assert CHECKED
assert checksum._crc32(address_of(content), 200, 0) == zlib.crc32(content)
try: checksum._crc32(address_of(content), 201, 0)
except memory.OutOfBounds as error: print(error)
"""


def test_kernels_run_as_python_where_they_are_told_to() -> None:
    """In a process of its own; one byte too far is seen."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert output.startswith("load of 1 bytes")


VIEWS: dict[str, Callable[[np.ndarray], Any]] = {
    "itself": lambda array: array,
    "a part": lambda array: array[8:16][1:],
    "another type": lambda array: array.view(np.int64),
    "a memoryview": lambda array: array.data[4:],
    "an Arrow buffer": lambda array: pa.py_buffer(array).slice(8, 16),
    "an Arrow array": lambda array: pa.Array.from_buffers(pa.int64(), 4, [None, pa.py_buffer(array)]).slice(1),
}


@pytest.mark.parametrize("kind", VIEWS)
def test_large_memory_is_taken_again_once_nothing_of_it_lives(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For as much, or somewhat less; not for a little, which would hold the rest."""
    monkeypatch.setattr(memory, "_spares", {})
    first = memory.fresh(300_000)
    offset = memory.address(first)
    view = VIEWS[kind](first)
    del first
    buffers = [memory.fresh(300_000 - k) for k in range(3)]
    assert offset not in [memory.address(buffer) for buffer in buffers]
    del view
    little = memory.fresh(131_072)
    assert memory.address(little) != offset
    reused = memory.fresh(200_000)
    assert (memory.address(reused), len(reused)) == (offset, 200_000)


def test_no_more_memory_is_kept_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST", 4 << 20)
    buffers = [memory.fresh(1 << 20) for _ in range(9)]
    offsets = {memory.address(buffer) for buffer in buffers}
    del buffers
    assert sum(spare.size for spare in memory._spares.values()) <= 4 << 20
    assert memory._spares.keys() <= offsets


def test_parts_of_one_allocation_are_apart() -> None:
    owner = pa.allocate_buffer(256)
    start = memory.note_parts(owner, np.array([[0, 64], [128, 192]]), np.array([[10, 0], [64, 64]]))
    assert memory.touch(start + 9, 1, write=True)
    assert memory.touch(start + 128, 64)
    for offset, count in ((9, 2), (64, 1), (127, 1), (190, 4)):
        with pytest.raises(memory.OutOfBounds):
            memory.touch(start + offset, count)
    del owner
    with pytest.raises(memory.OutOfBounds):
        memory.touch(start, 1)
